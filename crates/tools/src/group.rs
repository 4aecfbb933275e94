//! A shell with everything it starts, as one thing that can be killed.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessSession};
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

/// Starts a shell in its own session, and so in its own process group and without a terminal: nothing it runs can
/// ask at, or type into, the terminal of the user.
pub(crate) fn spawn(
    script: &str,
    workdir: &Path,
    environment: Vec<(OsString, OsString)>,
) -> io::Result<(Group, pipe::Receiver)> {
    // One pipe for both streams keeps their lines in the order they were written.
    let (reader, writer) = io::pipe()?;
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let (gate, mut open_gate) = io::pipe()?;
    let guard = Guard::start()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", GATE, "sh", script])
        .current_dir(workdir)
        .env_clear()
        .envs(environment)
        .stdin(gate)
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessSession).wrap(KillOnDrop);
    let child = command.spawn()?;
    // The command held our ends for writing; while they are open the pipe has no end.
    drop(command);
    let mut group = Group { child, gone: false, guard };
    let leader = group.child.id().ok_or_else(|| io::Error::other("it ended before it began"))?;
    group.guard.watch(leader)?;
    open_gate.write_all(b"\n")?;
    Ok((group, output))
}

/// A shell and all that it started; killed when dropped.
pub(crate) struct Group {
    child: Box<dyn ChildWrapper>,
    /// Whether nothing was left to kill. From then on the system may give the group's number to others.
    gone: bool,
    /// Kills the group should this process die first. Dropped last, when the group was killed.
    guard: Guard,
}

impl Group {
    /// The exit of the shell alone, whatever it left running.
    pub(crate) async fn shell_exit(&mut self) -> io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
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

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

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
        let (mut group, _output) = spawn("sleep 300 & sleep 300", Path::new("/"), Vec::new()).unwrap();
        let leader = group.child.id().unwrap();
        assert!(is_any_running(leader));
        group.guard.cut();
        assert_eq!(group.shell_exit().await.unwrap().signal(), Some(9));
        group.end().await;
        // Killed processes of others take their time to end.
        while is_any_running(leader) {
            sleep(REAP_POLL).await;
        }
    }
}
