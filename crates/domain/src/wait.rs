//! What a Goal may wait for without spending a turn (G10), and the commands that run beside turns.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::effect::{Digest, Effect};
use crate::goal::Remark;
use crate::id::{CallRef, CommandId, GoalId, JobId, LaneId, Timestamp};
use crate::text::Text;

/// The longest wait: a month. Who waits longer has forgotten it.
pub const WAIT_MS: i64 = 31 * 24 * 60 * 60 * 1_000;
/// Background commands that may run at once in one session: a server, a watcher, a build and some more.
pub const RUNNING_COMMANDS: usize = 8;
/// Characters by which a background command is shown.
pub const COMMAND_TITLE_CHARS: usize = 200;
/// Characters of a path that is waited for: more than any file system takes (`PATH_MAX`).
pub const WAITED_PATH_CHARS: usize = 4_096;

/// How a background command is shown: its text, shortened.
pub type CommandTitle = Text<COMMAND_TITLE_CHARS>;
/// A path beneath the workspace root, with `/`.
pub type WaitedPath = Text<WAITED_PATH_CHARS>;

/// A command that runs beside turns, under the worker that started it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BackgroundCommand {
    /// Its number.
    pub id: CommandId,
    /// The lane that started it.
    pub lane: LaneId,
    /// The call that started it.
    pub call: CallRef,
    /// The Goal it works for.
    pub goal_id: Option<GoalId>,
    /// How it is shown.
    pub title: CommandTitle,
    /// What it may change.
    pub effect: Effect,
    /// When it was started.
    pub since: Timestamp,
    /// Whether it was asked to stop.
    pub is_stopping: bool,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Condition {
    /// The deadline itself.
    Time,
    /// The end of a background command.
    Command {
        /// The command.
        command: CommandId,
    },
    /// The end of a job.
    Job {
        /// The job.
        job: JobId,
    },
    /// Another content of a file, its appearance or its end.
    File {
        /// The file.
        path: WaitedPath,
        /// Its content when the wait began; absent for a file that did not exist.
        baseline: Option<Digest>,
    },
    /// An input.
    Inbox,
}

impl Condition {
    /// The name in snake case.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Command { .. } => "command",
            Self::Job { .. } => "job",
            Self::File { .. } => "file",
            Self::Inbox => "inbox",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => f.write_str("a time"),
            Self::Command { command } => write!(f, "the end of background command {command}"),
            Self::Job { job } => write!(f, "the end of job {job}"),
            Self::File { path, .. } => write!(f, "a change of {path}"),
            Self::Inbox => f.write_str("an input"),
        }
    }
}

/// A wait of the active Goal: no turn of its own starts while it holds (G10).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Wait {
    /// What is waited for.
    pub condition: Condition,
    /// When the Goal goes on in any case.
    pub deadline: Timestamp,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Remark>,
    /// Whether the condition was met; the next continuation consumes the wait.
    #[serde(default)]
    pub is_met: bool,
}

impl Wait {
    /// Whether it still keeps the Goal from going on.
    pub const fn holds(&self, now: Timestamp) -> bool {
        !self.is_met && now.0 < self.deadline.0
    }
}

/// A wait that a continuation consumed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WaitOver {
    /// What was waited for.
    pub condition: Condition,
    /// Whether it was met; otherwise the deadline passed.
    pub is_met: bool,
}

impl WaitOver {
    /// Whether something happened. Time passes by itself.
    pub const fn is_news(&self) -> bool {
        self.is_met && !matches!(self.condition, Condition::Time)
    }
}
