//! The processes of the demo: this very program, started again for each command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::stage::{GIT_VARIABLES, Stage};
use crate::exit::CliError;

/// How long one command may take. All together take seconds; a loaded machine gets its time.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts this program on the demo's store and configuration.
pub(super) struct Crew {
    program: PathBuf,
    store: PathBuf,
    config_home: PathBuf,
    project: PathBuf,
}

/// What a running worker printed so far.
#[derive(Clone, Default)]
pub(super) struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Heard {
    async fn listen(self, mut stdout: ChildStdout) {
        let mut buffer = [0; 1024];
        // Until the worker is gone.
        while let Ok(read @ 1..) = stdout.read(&mut buffer).await {
            self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
        }
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The text behind so many bytes, in one line.
    pub(super) fn after(&self, at: usize) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(bytes.get(at..).unwrap_or_default());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// How a command ended.
pub(super) struct Done {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Crew {
    pub(super) fn of(stage: &Stage) -> Result<Self, CliError> {
        let program = std::env::current_exe().map_err(|error| {
            CliError::Environment(format!("this program cannot find itself to start it again: {error}"))
        })?;
        Ok(Self { program, store: stage.store(), config_home: stage.config_home(), project: stage.project() })
    }

    /// This program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--store").arg(&self.store).arg("--workspace").arg(&self.project).args(arguments);
        command.current_dir(&self.project).env("XDG_CONFIG_HOME", &self.config_home);
        for variable in GIT_VARIABLES {
            command.env_remove(variable);
        }
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        // The demo's sessions are its own: whoever starts it does not act on those of the user.
        command.env_remove("ZUNO_ACTOR");
        // Whoever stops the demo stops all of it.
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Starts a worker and leaves it running, listening to what the model says.
    pub(super) fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<(Child, Heard), CliError> {
        let mut command = self.command(arguments);
        // What else it tells is in the log.
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| self.fault(&error))?;
        let heard = Heard::default();
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(heard.clone().listen(stdout));
        }
        Ok((child, heard))
    }

    /// Runs a command to its end.
    pub(super) async fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Done, CliError> {
        let run = self.command(arguments).output();
        let output = timeout(PATIENCE, run).await.map_err(|_| {
            CliError::Environment(format!("a command of the demo took more than {} s", PATIENCE.as_secs()))
        })?;
        let output = output.map_err(|error| self.fault(&error))?;
        Ok(Done {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn fault(&self, error: &std::io::Error) -> CliError {
        CliError::Environment(format!("{} cannot be started: {error}", self.program.display()))
    }
}
