//! Bounds on what a command uses up. Its time and its output are bounded by whoever runs it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::wall::{Missing, OfWall as _};

/// Processes and threads at once: a parallel build on a large machine stays below, and a fork bomb takes less than a
/// gigabyte of the kernel's memory.
const PROCESSES: u32 = 4096;

/// Bytes of one file: larger than what builds make, smaller than most disks.
const FILE_BYTES: u64 = 64 << 30;

/// Open files of one process. Each takes kernel memory, and programs that close all they could have open take long
/// where this is a billion.
const OPEN_FILES: u64 = 65_536;

/// What the kernel may take first when memory runs out: any command before the program that runs it.
const OOM_SCORE: &str = "500";

/// Of the machine's memory, what a command may have if nobody says otherwise: three quarters leave the rest running.
const SHARE_OF_MEMORY: (u64, u64) = (3, 4);

/// How often the memory of all processes is added up. What grows faster than this meets the kernel's own end of memory,
/// which takes a command first.
const LOOK: Duration = Duration::from_millis(250);

/// Bounds for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub processes: u32,
    /// Bytes of private memory of all processes together; `None` for no bound. What a program reserves and never touches
    /// does not count: the checkers of compilers and the runtimes of Java, Go and Node reserve terabytes. Without a
    /// process namespace nobody can add up, and this is what each process may reserve for writing.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processes: PROCESSES, memory_bytes: memory_of_machine() }
    }
}

impl Limits {
    /// Binds this process and all that it starts.
    pub(crate) fn apply(self, memory: Memory) -> Result<(), Missing> {
        let at_most = |resource, most: u64| {
            let hard = getrlimit(resource).maximum.map_or(most, |has| has.min(most));
            let soft = getrlimit(resource).current.map_or(hard, |has| has.min(hard));
            setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
                .of("limits", format_args!("cannot limit {resource:?} to {hard}"))
        };
        // Counted for each user within the user namespace, so that the user's other processes take nothing from it.
        at_most(Resource::Nproc, u64::from(self.processes))?;
        if let (Memory::Reserved, Some(bytes)) = (memory, self.memory_bytes) {
            at_most(Resource::Data, bytes)?;
        }
        at_most(Resource::Fsize, FILE_BYTES)?;
        at_most(Resource::Nofile, OPEN_FILES)?;
        // A memory image would be a large file that nobody asked for.
        at_most(Resource::Core, 0)
    }
}

/// Whether this process is bound by the usual limits, and by which.
pub(crate) fn in_force() -> (bool, String) {
    let limit = |resource| getrlimit(resource).maximum;
    let (processes, file, open) = (limit(Resource::Nproc), limit(Resource::Fsize), limit(Resource::Nofile));
    let is_within = |limit: Option<u64>, most| limit.is_some_and(|limit| limit <= most);
    let holds =
        is_within(processes, PROCESSES.into()) && is_within(file, FILE_BYTES) && is_within(open, OPEN_FILES);
    let shown =
        |limit: Option<u64>| limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
    let gib = memory_of_machine().unwrap_or_default() >> 30;
    let (processes, open) = (shown(processes), shown(open));
    (holds, format!("{processes} processes, {gib} GiB of memory, {open} open files each"))
}

/// Which memory is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// What all processes use: see [`watch_memory`].
    Used,
    /// What each process reserves.
    Reserved,
}

/// In the first process of a namespace with a `/proc` of its own: kills everything there once it uses more memory than
/// allowed. The answer tells whether that happened.
pub(crate) fn watch_memory(limits: Limits) -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let Some(most) = limits.memory_bytes else { return over };
    let tell = Arc::clone(&over);
    thread::spawn(move || {
        loop {
            thread::sleep(LOOK);
            if used_bytes() > most {
                tell.store(true, Ordering::Relaxed);
                // Everybody but this process.
                let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            }
        }
    });
    over
}

/// Private memory of all processes that `/proc` shows.
fn used_bytes() -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = entries.flatten().filter(|entry| is_process(&entry.file_name()));
    let pages: u64 = processes.filter_map(|process| private_pages(&process.path())).sum();
    pages.saturating_mul(rustix::param::page_size() as u64)
}

/// The second field of `statm` counts what is in memory, the third what of it is shared or can be read again from files.
fn private_pages(process: &Path) -> Option<u64> {
    let text = fs::read_to_string(process.join("statm")).ok()?;
    let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
    Some(fields.next()?.saturating_sub(fields.next()?))
}

/// Lets the kernel end a command before the program that runs it. Of no consequence where it is refused.
pub(crate) fn be_first_to_go() {
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// A share of the machine's memory.
fn memory_of_machine() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let (share, of) = SHARE_OF_MEMORY;
    kib.checked_mul(1024 * share).map(|bytes| bytes / of)
}
