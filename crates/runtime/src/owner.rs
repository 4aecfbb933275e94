//! This process as an owner of turns, and whether another one is still there (T5).

use std::fs;

use domain::{Timestamp, WorkerName};
use policy::Owner;
use schemars::JsonSchema;
use serde::Serialize;

/// Whether whoever runs something is there to run it (T5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum WorkerState {
    /// It gave a sign of life.
    Works {
        /// When others may take over, unless it gives another.
        until: Timestamp,
    },
    /// It gave none for too long: it is gone, or it hangs.
    Silent {
        /// When its lease ended.
        since: Timestamp,
    },
    /// Its process is gone: it ran on this machine, so that can be told.
    Gone,
}

impl WorkerState {
    /// Where the owner of a lease stands.
    pub(crate) fn of(owner: &Owner, lease_end: Timestamp, now: Timestamp) -> Self {
        if is_dead(owner) {
            Self::Gone
        } else if lease_end <= now {
            Self::Silent { since: lease_end }
        } else {
            Self::Works { until: lease_end }
        }
    }

    /// Whether the next worker takes over.
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Silent { .. } | Self::Gone)
    }
}

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
    fn t5_a_worker_that_is_gone_is_told_before_its_lease_ends() {
        let (now, later) = (Timestamp(10), Timestamp(20));
        let dead = Owner { started: me().started + 1, ..me() };
        assert_eq!(WorkerState::of(&me(), later, now), WorkerState::Works { until: later });
        assert_eq!(WorkerState::of(&me(), now, later), WorkerState::Silent { since: now });
        assert_eq!(WorkerState::of(&dead, later, now), WorkerState::Gone);
    }

    #[test]
    fn t5_a_reused_pid_is_another_process_and_an_owner_elsewhere_is_never_seen_dead() {
        assert!(is_dead(&Owner { started: me().started + 1, ..me() }));
        assert!(!is_dead(&Owner { place: "another boot".to_owned(), pid: u32::MAX, ..me() }));
        assert!(!is_dead(&Owner { place: String::new(), pid: u32::MAX, ..me() }));
    }
}
