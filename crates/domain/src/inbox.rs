//! Durable input: admitted first, then a turn is tried (I1).

use serde::{Deserialize, Serialize};

use crate::id::{InputId, TurnNumber};
use crate::text::Text;

/// Characters in one input: about 50,000 tokens, more than a person types and less than most contexts.
pub const INPUT_CHARS: usize = 200_000;
/// Rows that may wait in one lane: the state holds their ids, and a longer queue is a client gone wrong.
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
}

/// A row that waits or was taken. Its text stays in the log; a consumed or cancelled row leaves the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
}
