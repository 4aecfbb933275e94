//! This process as an owner of turns, and whether another one is still there (T5).

use std::fs;

use domain::WorkerName;
use policy::Owner;

/// This process under a fresh worker name.
pub(crate) fn this_process(worker: WorkerName) -> Owner {
    let pid = std::process::id();
    let place = place().unwrap_or_default();
    let started = process(pid).map_or(0, |process| process.started);
    Owner { worker, place, pid, started }
}

/// Whether the owner is provably gone: it ran on this boot in this process-id namespace, and no process there has its
/// id and start time. Where that cannot be told the answer is no, and the lease's expiry decides.
pub(crate) fn is_dead(owner: &Owner) -> bool {
    let here = place();
    if owner.place.is_empty() || here.as_deref() != Some(owner.place.as_str()) || owner.started == 0 {
        return false;
    }
    process(owner.pid).is_none_or(|process| process.started != owner.started || process.has_exited)
}

/// The boot and the process-id namespace. `None` where the system does not tell.
fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

struct Process {
    started: u64,
    has_exited: bool,
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold spaces and parentheses itself.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    // Field 22 of proc_pid_stat(5) is the start time; the state was field 3.
    let started = fields.nth(18)?.parse().ok()?;
    Some(Process { started, has_exited: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Owner {
        this_process("test".parse().unwrap())
    }

    #[test]
    fn t5_a_living_owner_is_not_dead_and_a_killed_one_is_even_before_it_is_reaped() {
        assert!(!is_dead(&me()));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = process(child.id()).unwrap().started;
        let owner = Owner { pid: child.id(), started, ..me() };
        assert!(!is_dead(&owner));
        child.kill().unwrap();
        while !is_dead(&owner) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_dead(&owner));
    }

    #[test]
    fn t5_a_reused_pid_is_another_process_and_an_owner_elsewhere_is_never_seen_dead() {
        assert!(is_dead(&Owner { started: me().started + 1, ..me() }));
        assert!(!is_dead(&Owner { place: "another boot".to_owned(), pid: u32::MAX, ..me() }));
        assert!(!is_dead(&Owner { place: String::new(), pid: u32::MAX, ..me() }));
    }
}
