//! One broken rule: the unit of an answer to a command that is refused.

use std::fmt;

use serde::Serialize;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $name:literal),+ $(,)?) => {
        /// The machine-readable name of a refusal. Part of every client's interface: names are never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $variant),+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in snake case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

codes! {
    /// A plan without a title (P1).
    BlankTitle => "blank_title",
    /// A step without an id (P2).
    BlankStepId => "blank_step_id",
    /// A step without a title (P2).
    BlankStepTitle => "blank_step_title",
    /// A step id with characters that cannot be seen or told apart (P7).
    InvalidStepId => "invalid_step_id",
    /// Two steps with one id (P3).
    DuplicateStepId => "duplicate_step_id",
    /// More than one step in progress (P4).
    SeveralInProgress => "several_in_progress",
    /// Pending steps and none in progress (P5).
    NoActiveStep => "no_active_step",
    /// More than a limit allows (P7 and other bounds).
    LimitExceeded => "limit_exceeded",
    /// A value that cannot be decoded (P6, P9).
    InvalidInput => "invalid_input",
    /// A change of an unfinished plan that does not say which revision it is based on (P8).
    ExpectedRevisionRequired => "expected_revision_required",
    /// A change based on another revision than the current one (P9).
    RevisionConflict => "revision_conflict",
    /// An accepted step id is missing (P10).
    StepRemoved => "step_removed",
    /// A completed step is not completed any more (P11).
    StepRegressed => "step_regressed",
    /// No such Goal in this session (P12, G2).
    UnknownGoal => "unknown_goal",
    /// There is no plan to act on (P17, M4).
    NoPlan => "no_plan",
    /// A plan in a state that does not allow this (P17).
    PlanNotOpen => "plan_not_open",
    /// A change of a Goal's status that the matrix does not allow (G1).
    IllegalTransition => "illegal_transition",
    /// Another Goal is open (G13).
    GoalOpen => "goal_open",
    /// The turn is not bound to this Goal as it is (G2).
    GoalNotBound => "goal_not_bound",
    /// A capability or the mode does not allow it (C2, M6).
    Denied => "denied",
    /// A call that needs a person's leave (I4).
    PermissionNeeded => "permission_needed",
    /// No such request in this session (I4).
    UnknownRequest => "unknown_request",
    /// An answer of another kind than was asked for (I4).
    WrongAnswer => "wrong_answer",
    /// No such background command, or it is over.
    UnknownCommand => "unknown_command",
    /// No job of that number runs.
    UnknownJob => "unknown_job",
    /// Work of the Goal is still open (G12).
    OpenWork => "open_work",
    /// A write of a turn that ended or was taken over (T5).
    StaleEpoch => "stale_epoch",
    /// A command key used before for something else (E5).
    KeyReused => "key_reused",
    /// No such session.
    UnknownSession => "unknown_session",
    /// A session id that is taken.
    SessionExists => "session_exists",
    /// Nothing may start a turn (T2).
    NotDue => "not_due",
    /// Another worker holds the session (T5).
    LeaseHeld => "lease_held",
    /// A turn whose owner is gone must be recovered first (T7).
    RecoveryNeeded => "recovery_needed",
    /// The turn was asked to stop (T6).
    TurnStopping => "turn_stopping",
    /// A step of a turn out of its order (T6).
    OutOfOrder => "out_of_order",
    /// No agent of that name can be selected.
    NoSuchAgent => "no_such_agent",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A rule that a command breaks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Violation {
    /// The id of the rule, such as `P5`.
    pub rule: &'static str,
    /// What is wrong, for programs.
    pub code: Code,
    /// The plan steps concerned, by id as it was sent; empty when it is about something else.
    pub steps: Vec<String>,
    /// What is wrong and what to do, for people and models: a lowercase fragment.
    pub message: String,
}

impl Violation {
    /// A violation that names no step.
    pub fn new(rule: &'static str, code: Code, message: impl Into<String>) -> Self {
        Self { rule, code, steps: Vec::new(), message: message.into() }
    }

    /// The same, naming steps.
    #[must_use]
    pub fn of_steps(mut self, steps: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.steps = steps.into_iter().map(Into::into).collect();
        self
    }
}
