//! What counts as progress of a Goal, and the streaks of turns without it (G6, G7, T12).

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::id::GoalId;
use crate::turn::{RunningTurn, TurnOutcome};

/// Turns in a row that calls not made before carry alone (G7): enough to read one's way into a large workspace.
const CARRIED_BY_NEW_CALLS: u8 = 10;

/// Tells equal texts from different ones without keeping them: FNV-1a, 64 bits. Two texts that share one by chance
/// cost a Goal one piece of evidence, so a cryptographic digest would buy nothing.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of these parts in this order.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        // The length before each part keeps `ab` + `c` apart from `a` + `bc`.
        let with_part = |hash: u64, part: &str| {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes();
            length.into_iter().chain(part.bytes()).fold(hash, step)
        };
        Self(parts.into_iter().fold(OFFSET, with_part))
    }

    /// A call: its tool and its arguments as the model wrote them, but for the white space around them.
    pub fn of_call(tool: &str, arguments: &str) -> Self {
        Self::of([tool, arguments.trim()])
    }

    /// This one together with a further text.
    #[must_use]
    pub fn with(self, text: &str) -> Self {
        Self::of([String::from(self).as_str(), text])
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        format!("{:016x}", fingerprint.0)
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// What a finished call says about progress (G7).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Evidence {
    /// A call that ran and was never made before, with these arguments and this exit status, for this Goal.
    NewCall {
        /// The Goal.
        goal_id: GoalId,
        /// Tool, arguments and exit status; never the output, which may carry the time of day.
        call: Fingerprint,
    },
    /// A tool changed a file of the workspace.
    FileChanged,
}

/// How much evidence of progress a turn brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// None.
    #[default]
    None,
    /// Only calls that were not made before.
    NewCalls,
    /// Something changed.
    Change,
}

/// Turns in a row of a Goal that went one way. Durable, so that neither a restart nor another worker starts over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Streaks {
    /// Turns without evidence of progress (G7).
    pub without_evidence: u8,
    /// Turns whose only evidence were calls not made before (G7).
    pub only_new_calls: u8,
    /// Turns that ended with the Goal declared blocked since the last evidence of progress (G6).
    pub staged_blocks: u8,
    /// Turns whose owner died (G7).
    pub lost: u8,
    /// Turns that failed (G7).
    pub failed: u8,
}

impl Streaks {
    /// Whether a turn with this much evidence ends the streaks of those without.
    pub const fn are_ended_by(self, progress: Progress) -> bool {
        match progress {
            Progress::None => false,
            Progress::NewCalls => self.only_new_calls < CARRIED_BY_NEW_CALLS,
            Progress::Change => true,
        }
    }

    /// The streaks after a turn of the Goal (G6, G7); one without an outcome was lost. Lost and failed turns leave those of
    /// evidence alone. A turn that something stopped may have brought evidence, but it is not held against it that it did
    /// not.
    pub(crate) fn after_turn(self, running: &RunningTurn, outcome: Option<&TurnOutcome>) -> Self {
        match outcome {
            None => Self { lost: self.lost.saturating_add(1), ..self },
            Some(TurnOutcome::Failed { failure: Failure { kind: FailureKind::Stuck, .. } }) => {
                self.after_evidence(running)
            }
            Some(TurnOutcome::Failed { .. }) => Self { failed: self.failed.saturating_add(1), ..self },
            Some(TurnOutcome::Interrupted | TurnOutcome::Stopped { .. })
                if running.progress == Progress::None =>
            {
                self
            }
            Some(TurnOutcome::Interrupted | TurnOutcome::Stopped { .. }) => self.after_evidence(running),
            Some(TurnOutcome::Waiting { .. }) => Self { lost: 0, failed: 0, ..self },
            Some(TurnOutcome::Completed) => Self { lost: 0, failed: 0, ..self }.after_evidence(running),
        }
    }

    /// The streaks after what a turn brought.
    pub(crate) fn after_evidence(self, running: &RunningTurn) -> Self {
        let is_progress = self.are_ended_by(running.progress);
        let staged = u8::from(running.staged_block.is_some());
        // A turn for a person's prompt answers the person; it has nothing to show for the Goal.
        let without = self.without_evidence.saturating_add(u8::from(running.is_for_goal));
        Self {
            without_evidence: if is_progress { 0 } else { without },
            staged_blocks: if is_progress { staged } else { self.staged_blocks.saturating_add(staged) },
            only_new_calls: match running.progress {
                Progress::Change => 0,
                Progress::NewCalls if is_progress => self.only_new_calls.saturating_add(1),
                Progress::NewCalls | Progress::None => self.only_new_calls,
            },
            ..self
        }
    }
}

/// A call repeated within a turn (T12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The call with its outcome and result.
    pub call: Fingerprint,
    /// How many times in a row, from 1.
    pub times: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g7_a_fingerprint_is_of_the_parts_and_their_borders_and_reads_back() {
        assert_eq!(Fingerprint::of(["ab", "c"]), Fingerprint::of(["ab", "c"]));
        assert_ne!(Fingerprint::of(["ab", "c"]), Fingerprint::of(["a", "bc"]));
        assert_ne!(Fingerprint::of_call("shell", "{}"), Fingerprint::of_call("grep", "{}"));
        assert_eq!(Fingerprint::of_call("shell", " {}\n"), Fingerprint::of_call("shell", "{}"));
        assert_ne!(Fingerprint::of(["a"]).with("0"), Fingerprint::of(["a"]).with("1"));
        let one = Fingerprint::of(["one"]);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&text).unwrap(), one);
        // The value is stored, so it must not change with the build.
        assert_eq!(String::from(Fingerprint::of([])), "cbf29ce484222325");
    }
}
