//! Bounds on what a command uses up. Its time and its output are bounded by whoever runs it.

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

/// Bounds for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub processes: u32,
    /// Bytes of private memory of one process; `None` for no bound. This counts what a program may write, not what it
    /// reserves: runtimes reserve terabytes of addresses and never touch them.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processes: PROCESSES, memory_bytes: memory_of_machine() }
    }
}

impl Limits {
    /// Binds this process and all that it starts.
    pub(crate) fn apply(self) -> Result<(), Missing> {
        let at_most = |resource, most: u64| {
            let hard = getrlimit(resource).maximum.map_or(most, |has| has.min(most));
            let soft = getrlimit(resource).current.map_or(hard, |has| has.min(hard));
            setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
                .of("limits", format_args!("cannot limit {resource:?} to {hard}"))
        };
        // Counted for each user within the user namespace, so that the user's other processes take nothing from it.
        at_most(Resource::Nproc, u64::from(self.processes))?;
        if let Some(bytes) = self.memory_bytes {
            // Not the size of the address space, of which Java, Node and Go reserve more than there is memory.
            at_most(Resource::Data, bytes)?;
        }
        at_most(Resource::Fsize, FILE_BYTES)?;
        at_most(Resource::Nofile, OPEN_FILES)?;
        // A memory image would be a large file that nobody asked for.
        at_most(Resource::Core, 0)
    }
}

/// Lets the kernel end a command before the program that runs it. Of no consequence where it is refused.
pub(crate) fn be_first_to_go() {
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// All of the machine's memory: a process that wants more than that takes the machine down.
fn memory_of_machine() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
