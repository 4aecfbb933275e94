//! Durable input: admitted first, then a turn is tried (I1).

use serde::{Deserialize, Serialize};

use crate::id::{CallRef, GoalId, InputId, TurnNumber};
use crate::progress::Fingerprint;
use crate::text::Text;

/// Characters in one input: about 50,000 tokens, more than a person types and less than most contexts.
pub const INPUT_CHARS: usize = 200_000;
/// Rows of people that may wait in one lane: the state holds their ids, and a longer queue is a client gone wrong. The
/// runtime's own rows do not count (I5); the bounds on commands and requests bound them.
pub const QUEUED_ROWS: usize = 100;
/// How often a row that a lost turn had taken goes back to its place before it is cancelled (I2).
pub const RETURNS: u8 = 3;

/// What a person wrote.
pub type InputText = Text<INPUT_CHARS>;

/// Where an input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A person's prompt.
    User,
    /// A person's word to the running turn: it joins at the turn's next safe point, else becomes a prompt (I1).
    Steer,
    /// The end of a background command or of a job (I5).
    Report,
    /// The answer to a request (I4).
    Answer,
    /// What a job is to do: the first input of its lane (W2).
    Task,
}

impl InputKind {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Steer => "steer",
            Self::Report => "report",
            Self::Answer => "answer",
            Self::Task => "task",
        }
    }

    /// Whether a person wrote it at their own will; such a row always runs (I5).
    pub const fn is_of_person(self) -> bool {
        matches!(self, Self::User | Self::Steer)
    }
}

/// A stored call that the user allowed; its turn runs it first, once (I4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GrantedCall {
    /// The call as it was asked for.
    pub call: CallRef,
    /// Its tool.
    pub tool: String,
    /// The tool with its arguments.
    pub fingerprint: Fingerprint,
}

/// Why a row was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputCancelReason {
    /// Turn after turn was lost before it could consume the row (I2).
    ReturnedTooOften,
    /// The turn that had taken it was interrupted (I2).
    Interrupted,
    /// The turn that had taken it failed before its first model request; running it again would fail again.
    TurnFailed,
    /// The Goal it belonged to ended (I5).
    GoalEnded,
    /// The job in whose lane it waited ended (W2).
    JobEnded,
}

/// A row that waits or was taken. Its text stays in the log; a consumed or cancelled row leaves the state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboxRow {
    /// Its name: the event that queued it.
    pub id: InputId,
    /// Where it comes from.
    pub kind: InputKind,
    /// The turn that took it.
    pub taken: Option<TurnNumber>,
    /// How often a lost turn gave it back.
    pub returns: u8,
    /// The Goal it belongs to: it runs only while that is active, and ends with it (I5).
    #[serde(default)]
    pub goal_id: Option<GoalId>,
    /// The call it allows, until that was admitted.
    #[serde(default)]
    pub runs: Option<GrantedCall>,
}
