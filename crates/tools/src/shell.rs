//! `shell`: a command, with everything it starts, for a limited time.
//!
//! It runs behind the walls of a [`Sandbox`], unless the user switched them off; then a command can do what the user
//! can. It gets no input and no terminal, an environment without secrets (see `secrets`), and when its time is over, it
//! is stopped or its shell has ended, its whole process group is killed, also when this program is. Without walls a
//! process that makes itself a new session on purpose leaves that group; it is not waited for.
//!
//! A background command is the same with more time: whoever runs the call does not make a turn wait for it.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{COMMAND_TITLE_CHARS, Capability, CapabilitySet, CommandTitle, Effect, is_blank, is_invisible};
use runtime::{CallSubject, PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::arguments::{Ignored, decode, schema_of};
use crate::call::look;
use crate::capture::Capture;
use crate::group::{Exit, Group, Script, spawn};
use crate::secrets::Secrets;
use crate::walls::{Unprotected, mention_cause};
use crate::words::clip;
use crate::workspace::{CHUNK_BYTES, Workspace};

/// Time for a command unless asked otherwise: enough for a build or a test run of usual size.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// Time for a command at most, so that a hung one costs a turn minutes and not hours.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Time for a background command unless asked otherwise: enough for a long build or training run, and a bound on
/// what everybody forgot.
const BACKGROUND_TIMEOUT_MS: u64 = 60 * 60 * 1000;

/// Time for a background command at most: a server for a day's work.
const MAX_BACKGROUND_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// How long output may still arrive after the group was killed. What is in the pipe comes at once; only a process
/// that left the group can hold it open longer.
const DRAIN: Duration = Duration::from_millis(300);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Command for sh -c.
    command: String,
    /// Directory to run in, from the workspace root; the root if left out.
    workdir: Option<String>,
    /// Time limit in milliseconds; 120000 if left out, 600000 at most. In the background 3600000 and 86400000.
    timeout_ms: Option<u64>,
    /// Whether it goes on beside your turns; false if left out.
    background: Option<bool>,
    /// What it needs beyond the workspace: a list that may name network, which asks the user first.
    needs: Option<Vec<String>>,
}

/// Longest piece of an unknown need that a fault repeats.
const NAMED_CHARS: usize = 40;

/// The one thing that `needs` may name.
const NETWORK: &str = "network";

/// What models are told of the tool, with what its walls mean for them.
macro_rules! description {
    ($walls:literal) => {
        concat!(
            "Run a command with sh -c and wait for it. Answers with the exit code and the output (stdout and stderr \
             together; of long output the start and the end). There is no input. ",
            $walls,
            "When the shell exits or the time is up, everything the command started is killed, also what it left \
             behind with &. Each call starts fresh: use workdir instead of cd. With background: true, for servers, \
             watchers and whatever takes long, the call answers at once with a command number and the command goes on \
             beside your turns. When it ends, its exit code and output are reported to you, so never poll for that or \
             sleep: do other work, wait with goal_wait, or end your turn. command_stop ends it early. To read output \
             while it runs, such as a server's, redirect it to a file. It is killed when the program that runs your \
             turns ends."
        )
    };
}

/// Without walls.
const FREE: &str = description!("");

/// Behind walls.
const WALLED: &str = description!(
    "It runs in a sandbox: it writes only in the workspace and in $TMPDIR, and reaches no network but 127.0.0.1. "
);

pub(crate) struct Shell {
    workspace: Arc<Workspace>,
    secrets: Secrets,
    walls: Option<Arc<Sandbox>>,
    spec: ToolSpec,
}

impl Shell {
    /// Without `walls` a command can do what the user can.
    pub(crate) fn new(workspace: Arc<Workspace>, secrets: Secrets, walls: Option<Sandbox>) -> Self {
        let spec = ToolSpec {
            name: "shell".into(),
            description: if walls.is_some() { WALLED.into() } else { FREE.into() },
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::RunCommand]),
        };
        Self { workspace, secrets, walls: walls.map(Arc::new), spec }
    }
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        if is_blank(&arguments.command) {
            return Err(ToolFault::Arguments("`command` is empty".into()));
        }
        if arguments.command.contains('\0') {
            return Err(ToolFault::Arguments("`command` contains a NUL character".into()));
        }
        let in_background = arguments.background.unwrap_or(false);
        let timeout = time_limit(in_background, arguments.timeout_ms)?;
        let title = if in_background { Some(title(&arguments.command)?) } else { None };
        let network = needs_network(&arguments.needs.unwrap_or_default())?;
        let workdir = self.workspace.relative(arguments.workdir.as_deref().unwrap_or("."))?;
        let workdir = self.workspace.followed(workdir).await?;
        Ok(Box::new(ShellCall {
            workspace: Arc::clone(&self.workspace),
            secrets: self.secrets.clone(),
            walls: self.walls.clone(),
            command: arguments.command,
            network,
            title,
            workdir,
            timeout,
            ignored,
        }))
    }
}

fn needs_network(needs: &[String]) -> Result<bool, ToolFault> {
    match needs.iter().find(|need| *need != NETWORK) {
        Some(other) => {
            let quoted = Value::from(clip(other, NAMED_CHARS).into_owned());
            Err(ToolFault::Arguments(format!("`needs`: sent {quoted}, and there is only \"{NETWORK}\"")))
        }
        None => Ok(!needs.is_empty()),
    }
}

fn time_limit(in_background: bool, sent: Option<u64>) -> Result<Duration, ToolFault> {
    let (default, most) = if in_background {
        (BACKGROUND_TIMEOUT_MS, MAX_BACKGROUND_TIMEOUT_MS)
    } else {
        (DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS)
    };
    match sent {
        Some(0) => Err(ToolFault::Arguments("`timeout_ms`: sent 0, expected 1 or more".into())),
        sent => Ok(Duration::from_millis(sent.unwrap_or(default).min(most))),
    }
}

/// How a background command is shown: on one line, without what is invisible, shortened.
fn title(command: &str) -> Result<CommandTitle, ToolFault> {
    let plain = command.replace(is_invisible, " ");
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    // The mark of a cut is a character too.
    let cut = if line.chars().count() > COMMAND_TITLE_CHARS {
        clip(&line, COMMAND_TITLE_CHARS - 1)
    } else {
        line.as_str().into()
    };
    CommandTitle::parse(&cut).map_err(|fault| ToolFault::Arguments(format!("`command` {fault}")))
}

struct ShellCall {
    workspace: Arc<Workspace>,
    secrets: Secrets,
    walls: Option<Arc<Sandbox>>,
    command: String,
    /// Whether it asked for the network of the machine.
    network: bool,
    /// Of a background command.
    title: Option<CommandTitle>,
    workdir: PathBuf,
    timeout: Duration,
    ignored: Ignored,
}

#[async_trait]
impl PreparedCall for ShellCall {
    fn effect(&self) -> Effect {
        Effect::Command { confined: self.walls.is_some() && !self.network }
    }

    fn needs_also(&self) -> CapabilitySet {
        CapabilitySet::of(if self.network { &[Capability::Network] } else { &[] })
    }

    fn subject(&self) -> CallSubject {
        let paths = (self.workdir != Path::new(".")).then(|| self.workdir.to_string_lossy().into_owned());
        CallSubject { paths: paths.into_iter().collect(), command: Some(self.command.clone()) }
    }

    fn background(&self) -> Option<CommandTitle> {
        self.title.clone()
    }

    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput {
        if stop.is_cancelled() {
            return ToolOutput::stopped("stopped before it started");
        }
        let unprotected = Unprotected::before(self.walls.as_deref());
        let mut output = match self.start().await {
            Ok((group, output)) => follow(group, output, self.timeout, &stop).await,
            Err(fault) => ToolOutput::failed(fault.to_string()),
        };
        if let Some(walls) =
            self.walls.as_deref().filter(|_| output.exit_status.is_some_and(|code| code != 0))
        {
            let printed = output.text.clone();
            mention_cause(walls, self.network, &printed, &mut output.text);
        }
        unprotected.mention_in(&mut output.text);
        self.ignored.mention_in(&mut output.text);
        output
    }
}

impl ShellCall {
    async fn start(&self) -> Result<(Group, pipe::Receiver), ToolFault> {
        let (workspace, asked) = (Arc::clone(&self.workspace), self.workdir.clone());
        let workdir = look(move || {
            let workdir = workspace.resolve(&asked).map_err(ToolFault::Refused)?;
            if !workspace.metadata(&workdir).map_err(ToolFault::Refused)?.is_dir() {
                return Err(ToolFault::Refused(format!("{} is not a directory", asked.display())));
            }
            // Entered by path, so it could be swapped meanwhile; but a command could go anywhere just as well.
            Ok(workspace.root().join(workdir))
        })
        .await?;
        let script = match self.walls.as_deref() {
            None => Script::Free(&self.command),
            Some(walls) => {
                let order = walls.order(self.command.clone(), workdir.clone(), self.network);
                Script::Walled(walls, order)
            }
        };
        spawn(script, &workdir, self.secrets.environment(std::env::vars_os()))
            .await
            .map_err(|error| ToolFault::Refused(format!("the command could not be started: {error}")))
    }
}

/// How following a command came to its end.
enum End {
    Exited(io::Result<(Exit, bool)>),
    TimedOut,
    Stopped,
}

async fn follow(
    mut group: Group,
    mut output: pipe::Receiver,
    timeout: Duration,
    stop: &CancellationToken,
) -> ToolOutput {
    let deadline = Instant::now() + timeout;
    let mut capture = Capture::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut open = true;
    let end = loop {
        // In this order, because a command that never stops writing must not starve the others.
        tokio::select! {
            biased;
            () = stop.cancelled() => break End::Stopped,
            () = sleep_until(deadline) => break End::TimedOut,
            exit = group.shell_exit() => break End::Exited(exit),
            read = output.read(&mut chunk), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(read) => capture.push(&chunk[..read]),
            },
        }
    };
    let left_running = group.kill() | matches!(end, End::Exited(Ok((_, true))));
    let drained = Instant::now() + DRAIN;
    while open {
        match timeout_at(drained, output.read(&mut chunk)).await {
            Ok(Ok(read)) if read > 0 => capture.push(&chunk[..read]),
            _ => open = false,
        }
    }
    drop(output);
    group.end().await;
    answer(&end, timeout, left_running, capture)
}

fn answer(end: &End, timeout: Duration, left_running: bool, capture: Capture) -> ToolOutput {
    let mut text = match end {
        End::Exited(Ok((Exit::Code(code), _))) => format!("exit code {code}"),
        End::Exited(Ok((Exit::Signal(signal), _))) => format!("killed by signal {signal}"),
        End::Exited(Ok((Exit::OverMemory, _))) => {
            "killed with everything it started: together they used more memory than commands may; run fewer at once, or \
             tell the user about memory_mib in [sandbox] of zuno.toml"
                .into()
        }
        End::Exited(Ok((Exit::Refused(problem), _))) => {
            return ToolOutput::failed(format!(
                "the command was not run, since the sandbox it has to run in cannot be built. {problem}. `zuno doctor` \
                 shows what this machine can do; only the user can choose to do without, with --sandbox off"
            ));
        }
        End::Exited(Err(error)) => format!("the exit code is unknown: {error}"),
        End::TimedOut => {
            format!("timed out after {} ms; everything it started was killed", timeout.as_millis())
        }
        End::Stopped => "stopped; everything it started was killed".into(),
    };
    if matches!(end, End::Exited(_)) && left_running {
        text.push_str("; what it left running in the background was killed");
    }
    let output = capture.into_text();
    let output = output.trim_end();
    let _ = write!(text, "\n{}", if output.is_empty() { "[no output]" } else { output });
    match end {
        End::Exited(Ok((Exit::Code(code), _))) => {
            ToolOutput { succeeded: *code == 0, exit_status: Some(*code), ..ToolOutput::failed(text) }
        }
        End::Exited(_) | End::TimedOut => ToolOutput::failed(text),
        End::Stopped => ToolOutput::stopped(text),
    }
}
