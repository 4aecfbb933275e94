//! How a run ended: the exit code, and the last line for programs.

use domain::{
    GoalState, GoalStatus, HumanRequest, InputCancelReason, InputId, SessionId, TurnNumber, TurnOutcome,
};
use policy::{IdleReason, NextAction};
use runtime::{EngineError, GoalView, Outlook, SessionView};
use serde::Serialize;

use crate::exit::{CliError, Exit};
use crate::narrator::Fate;

/// The last line of `run --json`.
#[derive(Serialize)]
pub(super) struct Ended {
    pub(super) outcome: Option<TurnOutcome>,
    pub(super) session: SessionId,
    pub(super) turn: Option<TurnNumber>,
    pub(super) goal: Option<GoalView>,
    pub(super) requests: Vec<HumanRequest>,
    pub(super) outlook: Outlook,
    pub(super) exit: u8,
}

/// What the end of an input's turn means.
pub(super) fn exit_of_input(row: Option<InputId>, fate: &Fate, view: &SessionView) -> Exit {
    match (&fate.outcome, fate.cancelled) {
        (Some(TurnOutcome::Failed { .. }), _)
        | (None, Some(InputCancelReason::TurnFailed | InputCancelReason::ReturnedTooOften)) => {
            Exit::TurnFailed
        }
        // Another process interrupted it, since this one would know.
        (Some(TurnOutcome::Interrupted | TurnOutcome::Stopped { .. } | TurnOutcome::Waiting { .. }), _)
        | (None, Some(InputCancelReason::Interrupted)) => Exit::NotFinished,
        // Its turn was lost with its worker after it had begun, or the row is held, or nobody answered yet.
        (None, None) if row.is_some() || has_input(view) || !view.requests.is_empty() => Exit::NotFinished,
        // What it delegated waits for an answer.
        (Some(TurnOutcome::Completed), _) if !view.jobs.is_empty() => Exit::NotFinished,
        (Some(TurnOutcome::Completed), _)
        | (None, None | Some(InputCancelReason::GoalEnded | InputCancelReason::JobEnded)) => Exit::Done,
    }
}

/// Whether an input waits that could run. A report that starts no turn of its own is none.
const fn has_input(view: &SessionView) -> bool {
    matches!(view.next, NextAction::RunInput { .. } | NextAction::Idle { why: IdleReason::InboxHeld })
}

/// What a Goal's standing means for whoever wanted it finished. One that was interrupted earlier is held like any other.
pub(crate) const fn exit_of_goal(goal: &GoalView) -> Exit {
    match &goal.status {
        GoalStatus::Completed => Exit::Done,
        GoalStatus::Proposed
        | GoalStatus::Active
        | GoalStatus::Paused(_)
        | GoalStatus::Blocked { .. }
        | GoalStatus::BudgetLimited
        | GoalStatus::Cancelled => Exit::NotFinished,
    }
}

/// Whether somebody still waits for this Goal.
pub(crate) fn is_open(goal: &GoalView) -> bool {
    !GoalState::is_terminal(goal.state())
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Command(error) => error.into(),
            EngineError::Workspace { .. } => Self::Environment(error.to_string()),
        }
    }
}
