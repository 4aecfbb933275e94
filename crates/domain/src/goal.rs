//! The Goal: the one thing that may start another turn after a turn ends.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

use crate::failure::FailureKind;
use crate::id::{CallRef, GoalId, RequestId, Revision, Timestamp};
use crate::progress::{Fingerprint, Streaks};

use crate::text::Text;
use crate::usage::TokenUsage;
use crate::wait::Wait;

/// Characters in an objective or its criteria: a page, not a specification (G2).
pub const OBJECTIVE_CHARS: usize = 4_000;
/// Characters in a summary or another remark on a Goal or plan: a paragraph.
pub const REMARK_CHARS: usize = 2_000;

/// What a Goal is after. Data, never instructions of ours (G14).
pub type Objective = Text<OBJECTIVE_CHARS>;
/// A remark by whoever ends something: a summary, a reason.
pub type Remark = Text<REMARK_CHARS>;

/// Why a Goal is paused, weak to strong (G8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum PauseReason {
    /// Plan mode holds it; Start Work lifts exactly this one.
    PlanMode,
    /// Turns went by without evidence of progress (G7).
    NoProgress,
    /// Turns failed or were lost one after another (G7).
    RepeatedFailure,
    /// A question waits for its answer (I4).
    HumanInput {
        /// The question.
        request: RequestId,
    },
    /// A call waits for leave (I4).
    Permission {
        /// The request for it.
        request: RequestId,
    },
    /// The user interrupted.
    Interrupted,
    /// The user paused it.
    User,
    /// The provider does not accept the key.
    Authentication,
    /// The account has nothing left to spend.
    Quota,
    /// A call may have happened and nothing can tell; the user must look.
    UncertainSideEffect {
        /// The call.
        call: CallRef,
    },
}

impl PauseReason {
    /// How strong the reason is: the runtime replaces one only by a stronger one (G8).
    pub const fn strength(self) -> u8 {
        match self {
            Self::PlanMode => 0,
            Self::NoProgress | Self::RepeatedFailure => 1,
            Self::HumanInput { .. } | Self::Permission { .. } => 2,
            Self::Interrupted | Self::User => 3,
            Self::Authentication | Self::Quota => 4,
            Self::UncertainSideEffect { .. } => 5,
        }
    }

    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PlanMode => "plan_mode",
            Self::NoProgress => "no_progress",
            Self::RepeatedFailure => "repeated_failure",
            Self::HumanInput { .. } => "human_input",
            Self::Permission { .. } => "permission",
            Self::Interrupted => "interrupted",
            Self::User => "user",
            Self::Authentication => "authentication",
            Self::Quota => "quota",
            Self::UncertainSideEffect { .. } => "uncertain_side_effect",
        }
    }
}

/// Why a Goal is blocked (G8).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each names what leads to it (G6, I4, T9)")]
pub enum BlockCode {
    AgentDeclared,
    PermissionDenied,
    ModelUnavailable,
    ProviderRefused,
    ProviderProtocol,
    UnsupportedCapability,
    PromptTooLarge,
    CorruptState,
    NoSuchAgent,
}

impl BlockCode {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AgentDeclared => "agent_declared",
            Self::PermissionDenied => "permission_denied",
            Self::ModelUnavailable => "model_unavailable",
            Self::ProviderRefused => "provider_refused",
            Self::ProviderProtocol => "provider_protocol",
            Self::UnsupportedCapability => "unsupported_capability",
            Self::PromptTooLarge => "prompt_too_large",
            Self::CorruptState => "corrupt_state",
            Self::NoSuchAgent => "no_such_agent",
        }
    }
}

/// Where a Goal stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum GoalStatus {
    /// Suggested by an agent, not accepted yet.
    Proposed,
    /// Turns continue.
    Active,
    /// Held for a reason.
    Paused(PauseReason),
    /// Cannot go on without a change of circumstances.
    Blocked {
        /// What kind of obstacle.
        code: BlockCode,
        /// For people.
        detail: String,
    },
    /// A budget is used up.
    BudgetLimited,
    /// Reached. Terminal.
    Completed,
    /// Given up. Terminal.
    Cancelled,
}

/// The status without its detail: a row or column of the matrix of moves (G1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants of GoalStatus")]
pub enum GoalState {
    Proposed,
    Active,
    Paused,
    Blocked,
    BudgetLimited,
    Completed,
    Cancelled,
}

impl GoalState {
    /// Every state, in the order of the matrix.
    pub const ALL: [Self; 7] = [
        Self::Proposed,
        Self::Active,
        Self::Paused,
        Self::Blocked,
        Self::BudgetLimited,
        Self::Completed,
        Self::Cancelled,
    ];

    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::BudgetLimited => "budget_limited",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the Goal is over.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

impl fmt::Display for GoalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl GoalStatus {
    /// The status without its detail.
    pub const fn state(&self) -> GoalState {
        match self {
            Self::Proposed => GoalState::Proposed,
            Self::Active => GoalState::Active,
            Self::Paused(_) => GoalState::Paused,
            Self::Blocked { .. } => GoalState::Blocked,
            Self::BudgetLimited => GoalState::BudgetLimited,
            Self::Completed => GoalState::Completed,
            Self::Cancelled => GoalState::Cancelled,
        }
    }
}

/// What a Goal may spend. Neither part can be absent or zero (G4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Budgets {
    /// Uncached input and output tokens.
    pub tokens: NonZeroU64,
    /// Turns.
    pub turns: NonZeroU32,
    /// Milliseconds in which turns run.
    #[serde(default = "Budgets::default_active_ms")]
    pub active_ms: NonZeroU64,
}

impl Budgets {
    const fn default_active_ms() -> NonZeroU64 {
        const EIGHT_HOURS: NonZeroU64 = NonZeroU64::new(8 * 60 * 60 * 1_000).expect("not zero");
        EIGHT_HOURS
    }
}

impl Default for Budgets {
    /// 2,000,000 tokens, 200 turns and 8 hours of running turns: a long day's work of one agent (G4).
    fn default() -> Self {
        const TOKENS: NonZeroU64 = NonZeroU64::new(2_000_000).expect("not zero");
        const TURNS: NonZeroU32 = NonZeroU32::new(200).expect("not zero");
        Self { tokens: TOKENS, turns: TURNS, active_ms: Self::default_active_ms() }
    }
}

/// What a Goal has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GoalUsage {
    /// Tokens of its bound turns.
    pub tokens: TokenUsage,
    /// Bound turns that ended. Turns that a durable retry repeats are not counted (T9).
    pub turns: u32,
    /// Milliseconds in which its turns ran; neither waits, pauses nor the time a machine slept.
    #[serde(default)]
    pub active_ms: u64,
}

/// A durable retry: nothing happens until `at` (T10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Retry {
    /// How many turns in a row failed this way, from 1.
    pub attempt: u32,
    /// When the next one may start.
    pub at: Timestamp,
    /// What the last one failed with.
    pub failure: FailureKind,
}

/// A change of an accepted Goal that an agent proposes; it takes effect when the user accepts it (G3).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Amendment {
    /// What the Goal would be after.
    pub objective: Objective,
    /// How to tell that it is reached.
    pub criteria: Option<Objective>,
}

/// A call the user denied for a Goal (I4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// The call.
    pub call: Fingerprint,
    /// How often.
    pub times: u8,
}

/// A Goal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// Its id.
    pub id: GoalId,
    /// What it is after.
    pub objective: Objective,
    /// How to tell that it is reached.
    pub criteria: Option<Objective>,
    /// Where it stands.
    pub status: GoalStatus,
    /// What it may spend.
    pub budgets: Budgets,
    /// What it has spent.
    pub usage: GoalUsage,
    /// Moves with status, objective, criteria and budgets; not with accounting (G2).
    pub revision: Revision,
    /// The number of the last continuation; each is used once (T4).
    pub continuations: u64,
    /// The durable retry it waits for.
    pub retry: Option<Retry>,
    /// The highest share of a budget that was announced, in percent: 0, 50 or 80 (G4).
    pub announced_percent: u8,
    /// Steps that were unfinished when it ended (P21).
    pub unfinished_steps: Option<u32>,
    /// What whoever ended it had to say.
    pub summary: Option<Remark>,
    /// The change an agent proposes (G3).
    #[serde(default)]
    pub amendment: Option<Amendment>,
    /// What it waits for (G10).
    #[serde(default)]
    pub wait: Option<Wait>,
    /// Turns in a row that went one way (G6, G7).
    #[serde(default)]
    pub streaks: Streaks,
    /// The calls the user denied last, the latest at the end.
    #[serde(default)]
    pub denials: Vec<Denial>,
    /// Up to when its running turns' time was charged; none while no turn of it runs (G4).
    #[serde(default)]
    pub active_since: Option<Timestamp>,
}

impl Goal {
    /// Whether it is neither completed nor cancelled.
    pub const fn is_open(&self) -> bool {
        !self.status.state().is_terminal()
    }

    /// Whether it may start turns.
    pub const fn is_active(&self) -> bool {
        matches!(self.status, GoalStatus::Active)
    }

    /// Whether a budget is used up (G4).
    pub const fn is_spent(&self) -> bool {
        self.usage.tokens.charged() >= self.budgets.tokens.get()
            || self.usage.turns >= self.budgets.turns.get()
            || self.usage.active_ms >= self.budgets.active_ms.get()
    }

    /// The used share of the budget that is nearest to its end, in percent, at most 100.
    pub fn used_percent(&self) -> u8 {
        let share = |used: u64, of: u64| {
            u8::try_from(u128::from(used) * 100 / u128::from(of)).map_or(100, |percent| percent.min(100))
        };
        let tokens = share(self.usage.tokens.charged(), self.budgets.tokens.get());
        let turns = share(self.usage.turns.into(), self.budgets.turns.get().into());
        tokens.max(turns).max(share(self.usage.active_ms, self.budgets.active_ms.get()))
    }
}
