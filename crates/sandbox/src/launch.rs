//! From an order to a shell behind walls.
//!
//! The first stage moves to new namespaces and arranges the mounts. Its child, the second stage, is the first process
//! of the new process namespace: it puts up the rest of the wall, starts the shell, and when the shell has ended it ends
//! too, and the kernel kills whatever is left of the namespace. Without namespaces one stage becomes the shell.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::kill;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getuid, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};

use crate::limits::Memory;
use crate::order::{Order, Report};
use crate::profile::Level;
use crate::wall::{Missing, OfWall as _};
use crate::{capabilities, channel, limits, mounts, namespaces, probe, ruleset, seccomp};

/// The argument of the second stage.
const INNER: &str = "inner";

/// The argument that tries the walls from within.
pub(crate) const TRY: &str = "try";

/// How a launcher ends that was given no order, or could not carry it out.
const NOTHING_RAN: u8 = 125;

/// Options that tar adds to its own. For root it gives the files it unpacks to the users they once belonged to, and
/// behind the walls not even root can give a file away.
const TAR_OPTIONS: &str = "TAR_OPTIONS";

/// What a shell reports for a command that a signal ended.
const BY_SIGNAL: i32 = 128;

/// The whole of a launcher process: reads one order from its standard input, and carries it out.
///
/// `own` are the arguments that lead here, `stage` what came after them. This process must have a single thread.
pub fn launch(own: &[&str], stage: &[String]) -> ExitCode {
    match stage.first().map(String::as_str) {
        None => reported(|channel| outer(own, channel)),
        Some(INNER) => reported(inner),
        Some(TRY) => probe::try_walls(stage.get(1).map_or("", String::as_str)),
        Some(_) => ExitCode::from(NOTHING_RAN),
    }
}

/// Runs a stage and says how it ended, to whoever gave the order and as an exit status.
fn reported(stage: impl FnOnce(&UnixStream) -> Result<Option<Report>, Missing>) -> ExitCode {
    let Ok(channel) = channel::own() else { return ExitCode::from(NOTHING_RAN) };
    let report = stage(&channel).unwrap_or_else(|missing| Some(Report::refused(&missing)));
    let Some(report) = report else { return ExitCode::from(NOTHING_RAN) };
    channel::report(&channel, &report);
    match report {
        Report::Refused { .. } => ExitCode::from(NOTHING_RAN),
        Report::Ended { code, signal, .. } => {
            let status = code.or_else(|| Some(BY_SIGNAL + signal?));
            status.and_then(|status| u8::try_from(status).ok()).unwrap_or(NOTHING_RAN).into()
        }
    }
}

fn outer(own: &[&str], channel: &UnixStream) -> Result<Option<Report>, Missing> {
    let Some(order) = channel::receive(channel).of("launcher", "the order is damaged")? else {
        return Ok(None);
    };
    match order.profile.level {
        Level::Full => {
            namespaces::enter(order.network)?;
            mounts::build(&order.profile)?;
            first_process(own, &order).map(Some)
        }
        Level::Landlock => {
            mounts::make_temp(&order.profile.temp)?;
            close_in(&order, Memory::Reserved)?;
            Err(Missing::new("shell", shell(&order).exec()))
        }
    }
}

/// Starts the second stage, and waits until nothing of its namespace is left.
fn first_process(own: &[&str], order: &Order) -> Result<Report, Missing> {
    let doing = "the first process of the namespace cannot be started";
    let (ours, theirs) = UnixStream::pair().of("launcher", doing)?;
    capabilities::hand_on()?;
    let mut child = Command::new("/proc/self/exe")
        .args(own)
        .arg(INNER)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()
        .of("process namespace", doing)?;
    // This process has every right within its namespaces, and needs none any more.
    capabilities::drop_all()?;
    channel::send(&ours, order).of("launcher", doing)?;
    let report = channel::heard(&ours).of("launcher", "the report is damaged")?;
    let status = child.wait().of("process namespace", "its end is unknown")?;
    report.ok_or_else(|| {
        Missing::new("process namespace", format_args!("its first process ended early: {status}"))
    })
}

fn inner(channel: &UnixStream) -> Result<Option<Report>, Missing> {
    set_parent_process_death_signal(Some(Signal::KILL)).of("process namespace", "it could outlive us")?;
    let Some(order) = channel::receive(channel).of("launcher", "the order is damaged")? else {
        return Ok(None);
    };
    let memory = if mounts::show_processes(&order.profile)? { Memory::Used } else { Memory::Reserved };
    close_in(&order, memory)?;
    // In a process group of its own: what it sends to its group does not reach the launchers.
    let child = shell(&order).process_group(0).spawn();
    let child = child.of("shell", format_args!("sh cannot be started in {}", order.workdir.display()))?;
    let over_memory = match memory {
        Memory::Used => limits::watch_memory(order.profile.limits),
        Memory::Reserved => Arc::default(),
    };
    ended(child.id(), &over_memory).of("shell", "its end is unknown").map(Some)
}

/// The walls that hold for this process and all that it starts. The order matters: each takes away what the next may
/// not need any more.
fn close_in(order: &Order, memory: Memory) -> Result<(), Missing> {
    limits::be_first_to_go();
    ruleset::restrict(&order.profile)?;
    order.profile.limits.apply(memory)?;
    capabilities::drop_all()?;
    // What looks into this process could make it tell lies about how the shell ended.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .of("capabilities", "this process can be looked into")?;
    seccomp::forbid(order.profile.level, order.network)
}

fn shell(order: &Order) -> Command {
    let temp = match order.profile.level {
        Level::Full => mounts::TEMP.as_ref(),
        Level::Landlock => order.profile.temp.as_os_str(),
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(&order.script).current_dir(&order.workdir).env("TMPDIR", temp).stdin(Stdio::null());
    if getuid().is_root() && std::env::var_os(TAR_OPTIONS).is_none() {
        command.env(TAR_OPTIONS, "--no-same-owner");
    }
    command
}

/// Reaps until the shell has ended; what is left then dies with this process.
fn ended(shell: u32, over_memory: &AtomicBool) -> io::Result<Report> {
    let status = loop {
        match wait(WaitOptions::empty())? {
            Some((pid, status)) if is(pid, shell) && !status.stopped() => break status,
            _ => {}
        }
    };
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    // Signal 0 to everybody asks whether there is anybody.
    let left_running = kill(nix::unistd::Pid::from_raw(-1), None).is_ok();
    Ok(Report::Ended {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        left_running,
        over_memory: over_memory.load(Ordering::Relaxed),
    })
}

fn is(pid: Pid, number: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()) == Ok(number)
}
