//! A watcher beside each command, so that a command does not outlive a killed worker.
//!
//! A worker that is killed cannot kill what it started. So a second process holds the reading end of a pipe whose
//! writing end only the worker has: when the worker is gone, for whatever reason, the pipe ends, and the watcher kills
//! the command's process group. A gate closes the moment in between: the command waits for a line on its input before
//! it becomes the shell that was asked for, and the worker sends that line once the watcher knows the group.

use std::io::{self, PipeWriter, Write as _};
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessSession};
use tokio::process::Command;

/// Becomes the shell of `$1` when a line arrives, or ends without having done anything.
pub(crate) const GATE: &str = r#"read -r _ || exit 125; exec sh -c "$1" </dev/null"#;

/// Reads the group, then waits for the end of the pipe.
const WATCH: &str = r#"read -r group || exit 0; read -r _; kill -s KILL -- "-$group" 2>/dev/null"#;

/// The watcher of one command; it ends with this value, which has to come after the command's own end.
pub(crate) struct Guard {
    child: Box<dyn ChildWrapper>,
    lifeline: PipeWriter,
}

impl Guard {
    /// Starts a watcher that does not know yet what it is for.
    pub(crate) fn start() -> io::Result<Self> {
        let (reader, lifeline) = io::pipe()?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(WATCH).env_clear().current_dir("/");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        let mut command = CommandWrap::from(command);
        // In a session of its own, so that an interrupt typed at the terminal does not end it first.
        command.wrap(ProcessSession).wrap(KillOnDrop);
        Ok(Self { child: command.spawn()?, lifeline })
    }

    /// Tells the watcher which process group to kill.
    pub(crate) fn watch(&mut self, group: u32) -> io::Result<()> {
        self.lifeline.write_all(format!("{group}\n").as_bytes())
    }

    /// Lets the watcher believe that this process is gone.
    #[cfg(test)]
    pub(crate) fn cut(&mut self) {
        self.lifeline = io::pipe().unwrap().1;
    }

    /// Ends the watcher. The group it watched is gone.
    pub(crate) async fn end(&mut self) {
        if self.child.start_kill().is_ok() {
            self.child.wait().await.ok();
        }
    }
}
