//! A turn: model requests and tool calls from one cause to one outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::failure::{Failure, FailureKind};
use crate::goal::Remark;
use crate::id::{AgentName, CallRef, GoalId, InputId, ModelName, RequestId, Revision, Timestamp, TurnNumber};
use crate::progress::{Fingerprint, Progress, Repeat};

use crate::wait::WaitOver;

/// Why a turn started. There is no third way (T1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnTrigger {
    /// Durable input.
    Input {
        /// The rows it took.
        rows: Vec<InputId>,
    },
    /// An active Goal.
    Goal {
        /// The Goal.
        goal_id: GoalId,
        /// The number of this continuation, used once per Goal (T4).
        continuation: u64,
    },
}

/// The Goal that was active when a turn was admitted, as it was (G2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GoalBinding {
    /// The Goal.
    pub goal_id: GoalId,
    /// Its revision.
    pub revision: Revision,
}

/// Why a running turn is asked to stop (T6).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The user interrupted (G11).
    Interrupted,
    /// Plan mode was entered (M3).
    PlanMode,
    /// A budget is used up (G4).
    Budget,
    /// Its Goal ended, was paused or replaced.
    GoalChanged,
    /// The worker shuts down in order.
    Shutdown,
    /// The user cancelled its job (W2).
    JobCancelled,
}

impl StopReason {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::PlanMode => "plan_mode",
            Self::Budget => "budget",
            Self::GoalChanged => "goal_changed",
            Self::Shutdown => "shutdown",
            Self::JobCancelled => "job_cancelled",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a turn ended (T6). A turn whose owner is gone has no outcome: it is lost (T7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The model answered without further calls.
    Completed,
    /// A person has to answer before it can go on (I4).
    Waiting {
        /// The request.
        request: RequestId,
    },
    /// The user interrupted it.
    Interrupted,
    /// Something else stopped it.
    Stopped {
        /// What.
        reason: StopReason,
    },
    /// It could not go on.
    Failed {
        /// Why.
        failure: Failure,
    },
}

impl TurnOutcome {
    /// The name in snake case.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Waiting { .. } => "waiting",
            Self::Interrupted => "interrupted",
            Self::Stopped { .. } => "stopped",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelCall {
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them: JSON text, possibly malformed.
    pub arguments: String,
}

/// How a call ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It did what was asked.
    Succeeded,
    /// It ran and did not do what was asked.
    Failed,
    /// A capability or the mode does not allow it; it did not run (C2).
    Denied,
    /// It could not be decoded, or no tool has that name; it did not run.
    Invalid,
    /// A rule refused it; nothing changed (P14).
    Refused,
    /// The turn ended before it was admitted.
    NotRun,
    /// It waits for a person, and is answered in a later turn (I4).
    Waiting,
    /// The runtime stopped and reaped it (T6).
    Stopped,
    /// Cut off by a crash; harmless, or visible by looking (T7).
    Lost,
    /// It may have happened and nothing can tell (T7).
    Uncertain,
}

impl CallOutcome {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
            Self::NotRun => "not_run",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::Uncertain => "uncertain",
        }
    }
}

/// Model requests in one turn: far above what a productive turn needs, low enough to end a runaway (T12).
pub const REQUESTS_PER_TURN: u32 = 250;

pub(crate) const fn default_max_requests() -> u32 {
    REQUESTS_PER_TURN
}

/// Characters of a tool's name that are kept: every real name is shorter, and a model may write anything.
pub const TOOL_NAME_CHARS: usize = 64;

/// A call of the last response that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCall<'a> {
    /// Which call.
    pub call: CallRef,
    /// Its tool.
    pub tool: &'a str,
    /// The tool with its arguments.
    pub fingerprint: Fingerprint,
    /// What it may change, once it was admitted.
    pub effect: Option<&'a Effect>,
}

/// Where a call of the running turn's last response stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum CallState {
    /// Asked for, not admitted.
    Requested {
        /// The tool as the model named it, cut to [`TOOL_NAME_CHARS`].
        tool: String,
        /// The tool with its arguments.
        #[serde(default)]
        fingerprint: Fingerprint,
    },
    /// Admitted: its effect may be happening.
    Admitted {
        /// The tool.
        tool: String,
        /// The tool with its arguments.
        #[serde(default)]
        fingerprint: Fingerprint,
        /// What it may change.
        effect: Effect,
    },
    /// It has a result.
    Finished,
}

/// Where a running turn stands between two commits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case", deny_unknown_fields)]
pub enum TurnPhase {
    /// The next model request may begin.
    Ready,
    /// A request is under way.
    Requesting {
        /// Which attempt at this request, from 1.
        attempt: u32,
        /// What its input is estimated to cost, should no answer tell (G5).
        estimated_input: u64,
        /// The Goal that pays for it: the bound one, if it was active when the request began (G4).
        charged_to: Option<GoalId>,
    },
    /// The last attempt at the request failed.
    Failed {
        /// Which attempt it was.
        attempt: u32,
        /// What the input of the request is estimated to cost.
        estimated_input: u64,
        /// The Goal that pays for it.
        charged_to: Option<GoalId>,
        /// What it failed with.
        failure: FailureKind,
        /// When the same request may be tried again; absent if the turn gives up.
        retry_at: Option<Timestamp>,
    },
    /// The response asked for calls, and at least one has no result yet.
    Calling {
        /// The calls in their order.
        calls: Vec<CallState>,
    },
    /// The response asked for no call: the turn is over but for its outcome.
    Answered,
}

/// A turn that is running, or was when its owner died.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningTurn {
    /// Its number.
    pub number: TurnNumber,
    /// The agent it runs.
    pub agent: AgentName,
    /// The model it asks.
    pub model: ModelName,
    /// Why it started.
    pub trigger: TurnTrigger,
    /// The Goal it is bound to.
    pub goal: Option<GoalBinding>,
    /// The reason it was asked to stop for: the first one, or the user's interrupt.
    pub stop: Option<StopReason>,
    /// The ordinal of its last model request; 0 before the first.
    pub request: u32,
    /// Where it stands.
    pub phase: TurnPhase,
    /// The request in which the turn completed its Goal; one more answer, without calls, follows (G12).
    pub goal_completed_in: Option<u32>,
    /// Whether it runs for the Goal alone: it continues it, or its row belongs to it. Such a turn does not outlive the
    /// Goal's activity, while one for a person's prompt goes on unbound (T6).
    #[serde(default)]
    pub is_for_goal: bool,
    /// Model requests it may make (T12).
    #[serde(default = "default_max_requests")]
    pub max_requests: u32,
    /// The evidence of progress it brought (G7).
    #[serde(default)]
    pub progress: Progress,
    /// Why it declared the Goal blocked, if it did (G6).
    #[serde(default)]
    pub staged_block: Option<Remark>,
    /// The call it made last, and how often in a row with the same result (T12).
    #[serde(default)]
    pub repeat: Option<Repeat>,
    /// The wait that its start ended (G10).
    #[serde(default)]
    pub wait_over: Option<WaitOver>,
}

impl RunningTurn {
    /// The rows it took and has not consumed.
    pub fn unconsumed_rows(&self) -> &[InputId] {
        match &self.trigger {
            TurnTrigger::Input { rows } if self.request == 0 => rows,
            TurnTrigger::Input { .. } | TurnTrigger::Goal { .. } => &[],
        }
    }

    /// The calls of the last response that have no result.
    pub fn open_calls(&self) -> Vec<OpenCall<'_>> {
        let TurnPhase::Calling { calls } = &self.phase else {
            return Vec::new();
        };
        let named = (0..).zip(calls).filter_map(|(index, call)| {
            let (tool, fingerprint, effect) = match call {
                CallState::Requested { tool, fingerprint } => (tool, *fingerprint, None),
                CallState::Admitted { tool, fingerprint, effect } => (tool, *fingerprint, Some(effect)),
                CallState::Finished => return None,
            };
            let call = CallRef { turn: self.number, request: self.request, index };
            Some(OpenCall { call, tool, fingerprint, effect })
        });
        named.collect()
    }
}

/// How the last turn of a lane ended; what a client says when nothing goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEnd {
    /// With an outcome.
    Ended {
        /// The turn.
        turn: TurnNumber,
        /// Its outcome.
        outcome: TurnOutcome,
    },
    /// Its owner died (T7).
    Lost {
        /// The turn.
        turn: TurnNumber,
    },
}
