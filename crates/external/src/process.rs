//! A server's program with everything it starts, as one thing that ends when this process does.
//!
//! Nobody can kill what it started after it was killed itself. So the program shares its group with a watcher that reads
//! from our end of the program's error output, where nothing is ever sent: when that end is gone, for whatever reason,
//! the watcher kills the group. It is there before the program is.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessSession};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fault::{Fault, clip};

/// Starts the watcher, then becomes the program.
const WATCHED: &str = r#"{ read -r _ <&2; kill -s KILL 0; } </dev/null >/dev/null & exec "$0" "$@""#;

/// Bytes of the error output that are kept to tell why a program ended. All of it is read, so that none blocks.
const LAST_WORDS: usize = 400;

/// Looks for the first of it after a connection broke off, and the time between two: a quarter of a second is long for
/// a pipe and short for a person.
const LOOKS: u32 = 25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A program that runs; killed with all that it started when dropped.
pub(crate) struct Process {
    child: Box<dyn ChildWrapper>,
    last_words: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

/// A program and its standard streams.
pub(crate) type Started = (Process, ChildStdout, ChildStdin);

impl Process {
    /// Starts a program in a folder, in a session and so in a process group of its own: no interrupt of the terminal
    /// reaches it, and it cannot ask anything there.
    pub(crate) fn start(
        command: &str,
        arguments: &[String],
        environment: &[(OsString, OsString)],
        folder: &Path,
    ) -> Result<Started, Fault> {
        Self::spawn(command, arguments, environment, folder)
            .map_err(|error| Fault::NotStarted(error.to_string()))
    }

    fn spawn(
        program: &str,
        arguments: &[String],
        environment: &[(OsString, OsString)],
        folder: &Path,
    ) -> io::Result<Started> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED, program]).args(arguments);
        command.current_dir(folder).env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(OwnedFd::from(theirs));
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession).wrap(KillOnDrop);
        let mut child = command.spawn()?;
        // The command held the other end of the error output, too.
        drop(command);
        let streams = child.stdout().take().zip(child.stdin().take());
        let (stdout, stdin) = streams.ok_or_else(|| io::Error::other("it has no standard streams"))?;
        let last_words = Arc::default();
        let listener = tokio::spawn(listen(ours, Arc::clone(&last_words)));
        Ok((Self { child, last_words, listener }, stdout, stdin))
    }

    /// The end of what it said on its error output; may be empty.
    pub(crate) fn last_words(&self) -> String {
        let said = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        clip(&String::from_utf8_lossy(&said))
    }

    /// The same, waited for a moment: what a program says as it ends is read beside the end of its connection.
    pub(crate) async fn words_at_its_end(&self) -> String {
        for _ in 0..LOOKS {
            if !self.last_words().is_empty() {
                break;
            }
            sleep(BETWEEN_LOOKS).await;
        }
        self.last_words()
    }
}

/// Reads the error output for as long as the process is wanted.
async fn listen(mut stream: UnixStream, last_words: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let mut said = last_words.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&buffer[..read]);
        let too_many = said.len().saturating_sub(LAST_WORDS);
        said.drain(..too_many);
    }
    // The stream is the watcher's sign that we live: it stays open also if the program closed its own end.
    std::future::pending::<()>().await;
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group is there as long as the watcher is, so its number is nobody else's.
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(%error, "a server's program was gone already");
        }
        self.listener.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn is_running(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
    }

    #[tokio::test]
    async fn a_program_ends_when_its_starter_is_gone_without_having_killed_it() {
        let path = std::env::var_os("PATH").unwrap();
        let arguments = ["-c".to_owned(), "sleep 1000 & sleep 1000".to_owned()];
        let environment = [("PATH".into(), path)];
        let (process, _stdout, _stdin) =
            Process::start("sh", &arguments, &environment, Path::new("/")).unwrap();
        let pid = process.child.id().unwrap();
        assert!(is_running(pid));
        // What a killed process loses is its end of the stream; it kills nothing any more.
        process.listener.abort();
        std::mem::forget(process);
        let deadline = Instant::now() + Duration::from_mins(1);
        while is_running(pid) {
            assert!(Instant::now() < deadline, "it still runs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
