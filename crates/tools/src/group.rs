//! A shell with everything it starts, as one thing that can be killed.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessSession};
use sandbox::{Order, REPORT_BYTES, Report, Sandbox};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::guard::{GATE, Guard};

/// How long to wait for a killed shell. It takes milliseconds, unless it hangs in the kernel.
const REAP: Duration = Duration::from_secs(1);

/// How long to wait until nothing of a killed group is left. Killed processes run no more; what can stay behind are
/// entries that nobody reaps, as in a container without an init process, and those are not worth more.
const VANISH: Duration = Duration::from_millis(100);

/// Pause between two looks at a killed group.
const REAP_POLL: Duration = Duration::from_millis(5);

/// A shell text to run.
pub(crate) enum Script<'a> {
    /// As the user, with all that the user may do.
    Free(&'a str),
    /// Behind walls.
    Walled(&'a Sandbox, Order),
}

/// Starts a shell in its own session, and so in its own process group and without a terminal: nothing it runs can
/// ask at, or type into, the terminal of the user.
///
/// It waits for a word on a socket before it does anything: a free one for a line, a walled one for its order.
pub(crate) async fn spawn(
    script: Script<'_>,
    workdir: &Path,
    environment: Vec<(OsString, OsString)>,
) -> io::Result<(Group, pipe::Receiver)> {
    // One pipe for both streams keeps their lines in the order they were written.
    let (reader, writer) = io::pipe()?;
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let (ours, theirs) = socket()?;
    let guard = Guard::start()?;
    let (mut command, word) = match script {
        Script::Free(script) => {
            let mut command = Command::new("sh");
            command.args(["-c", GATE, "sh", script]);
            (command, "\n".to_owned())
        }
        Script::Walled(sandbox, order) => {
            let launcher = sandbox.launcher();
            let mut command = Command::new(&launcher.program);
            command.args(&launcher.arguments);
            (command, order.to_line().map_err(io::Error::other)?)
        }
    };
    command
        .current_dir(workdir)
        .env_clear()
        .envs(environment)
        .stdin(theirs)
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessSession).wrap(KillOnDrop);
    let child = command.spawn()?;
    // The command held our ends for writing; while they are open the pipe has no end.
    drop(command);
    let mut group = Group { child, socket: ours, gone: false, guard };
    let leader = group.child.id().ok_or_else(|| io::Error::other("it ended before it began"))?;
    group.guard.watch(leader)?;
    group.socket.write_all(word.as_bytes()).await?;
    Ok((group, output))
}

/// A pair of sockets: ours, and one for the standard input of another program.
fn socket() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

/// How a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It came to its end with this status.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
    /// It and all it started used too much memory.
    OverMemory,
    /// It was never started, since a wall is missing.
    Refused(String),
}

/// A shell and all that it started; killed when dropped.
pub(crate) struct Group {
    child: Box<dyn ChildWrapper>,
    /// Where a launcher reports.
    socket: UnixStream,
    /// Whether nothing was left to kill. From then on the system may give the group's number to others.
    gone: bool,
    /// Kills the group should this process die first. Dropped last, when the group was killed.
    guard: Guard,
}

impl Group {
    /// The exit of the shell alone, whatever it left running, and whether its walls know that it left something.
    pub(crate) async fn shell_exit(&mut self) -> io::Result<(Exit, bool)> {
        let status = self.child.inner_mut().wait().await?;
        Ok(match self.report().await {
            Some(Report::Refused { problem }) => (Exit::Refused(problem), false),
            Some(Report::Ended { over_memory: true, .. }) => (Exit::OverMemory, false),
            Some(Report::Ended { code: Some(code), left_running, .. }) => (Exit::Code(code), left_running),
            Some(Report::Ended { signal: Some(signal), left_running, .. }) => {
                (Exit::Signal(signal), left_running)
            }
            Some(Report::Ended { left_running, .. }) => (exit_of(status), left_running),
            None => (exit_of(status), false),
        })
    }

    /// What a launcher said before it ended. A shell says nothing.
    async fn report(&mut self) -> Option<Report> {
        let mut line = String::new();
        let mut report = (&mut self.socket).take(REPORT_BYTES as u64);
        timeout(REAP, report.read_to_string(&mut line)).await.ok()?.ok()?;
        Report::from_line(&line)
    }

    /// Kills what is left. Says whether there was anything.
    pub(crate) fn kill(&mut self) -> bool {
        self.gone = self.gone || self.child.start_kill().is_err();
        !self.gone
    }

    /// Kills until nothing is left to kill and the shell is reaped.
    pub(crate) async fn end(&mut self) {
        let shell = timeout(REAP, self.child.wait()).await;
        if !matches!(shell, Ok(Ok(_))) {
            tracing::warn!(?shell, "a killed command was not reaped");
        }
        let deadline = Instant::now() + VANISH;
        while self.kill() && Instant::now() < deadline {
            sleep(REAP_POLL).await;
        }
        self.guard.end().await;
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        // On this system a process that ended without a status was ended by a signal.
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a process of this group still runs. A killed one that nobody reaps, as in a container without an init
    /// process, keeps its entry and runs no more.
    fn is_any_running(group: u32) -> bool {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // After the name, which may hold anything: state, parent, group.
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let state = fields.next().unwrap_or_default().to_owned();
            fields.nth(1) == Some(group.to_string().as_str()) && !matches!(state.as_str(), "Z" | "X")
        })
    }

    #[tokio::test]
    async fn a_command_does_not_outlive_this_process() {
        let (mut group, _output) =
            spawn(Script::Free("sleep 300 & sleep 300"), Path::new("/"), Vec::new()).await.unwrap();
        let leader = group.child.id().unwrap();
        assert!(is_any_running(leader));
        group.guard.cut();
        assert_eq!(group.shell_exit().await.unwrap(), (Exit::Signal(9), false));
        group.end().await;
        // Killed processes of others take their time to end.
        while is_any_running(leader) {
            sleep(REAP_POLL).await;
        }
    }
}
