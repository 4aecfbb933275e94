//! Who may start a turn: the whole of it (T1–T3, I3).
//!
//! [`ContinuationView`] is built from parts and holds no plan and no mode, so nothing here can look at either
//! (P19). Plan mode acts through the Goal's pause.

use domain::{
    BlockCode, Core, Failure, Goal, GoalId, GoalState, GoalStatus, InboxRow, InputId, LaneId, PauseReason,
    Retry, RunningTurn, Timestamp, TurnEnd, TurnNumber, TurnOutcome,
};
use serde::Serialize;

use crate::facts::Lease;

/// All that the continuation of a session depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContinuationView {
    goal: Option<GoalView>,
    next_input: Option<InputId>,
    inbox_held: bool,
    running: Option<TurnNumber>,
    last_end: Option<TurnEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GoalView {
    id: GoalId,
    status: GoalStatus,
    is_spent: bool,
    next_continuation: u64,
    retry: Option<Retry>,
}

/// What may happen next in a session without anybody acting.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum NextAction {
    /// A turn for queued input.
    RunInput {
        /// The first row that may run.
        row: InputId,
    },
    /// A turn for the active Goal.
    RunGoal {
        /// The Goal.
        goal_id: GoalId,
        /// The number this continuation takes.
        continuation: u64,
    },
    /// Nothing before this moment (T10).
    WaitUntil {
        /// The moment.
        at: Timestamp,
        /// The retry that is waited for.
        retry: Retry,
    },
    /// Nothing before this is over.
    WaitFor {
        /// The running turn.
        turn: TurnNumber,
    },
    /// Nothing, however much time passes (T3).
    Idle {
        /// "Not continuing because …".
        why: IdleReason,
    },
}

/// Why a session does nothing by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum IdleReason {
    /// No input waits and no Goal is open.
    NothingToDo,
    /// The last turn was lost and no Goal goes on by itself (T7).
    TurnLost {
        /// The turn.
        turn: TurnNumber,
    },
    /// The last turn failed and no Goal goes on by itself (T9).
    TurnFailed {
        /// The turn.
        turn: TurnNumber,
        /// Why.
        failure: Failure,
    },
    /// Queued input waits for an act of the user (G11).
    InboxHeld,
    /// The Goal waits to be accepted.
    GoalProposed,
    /// The Goal is paused.
    GoalPaused {
        /// Why.
        pause: PauseReason,
    },
    /// The Goal is blocked.
    GoalBlocked {
        /// What kind of obstacle.
        code: BlockCode,
        /// For people.
        detail: String,
    },
    /// The Goal's budget is used up.
    GoalBudgetLimited,
    /// The Goal is reached.
    GoalCompleted,
    /// The Goal was given up.
    GoalCancelled,
}

impl ContinuationView {
    /// Takes the parts of a lane's and the session's state that matter.
    pub fn new(
        goal: Option<&Goal>,
        inbox: &[InboxRow],
        inbox_held: bool,
        running: Option<&RunningTurn>,
        last_end: Option<&TurnEnd>,
    ) -> Self {
        Self {
            goal: goal.map(|goal| GoalView {
                id: goal.id,
                status: goal.status.clone(),
                is_spent: goal.is_spent(),
                next_continuation: goal.continuations.saturating_add(1),
                retry: goal.retry,
            }),
            next_input: inbox.iter().find(|row| row.taken.is_none()).map(|row| row.id),
            inbox_held,
            running: running.map(|running| running.number),
            last_end: last_end.cloned(),
        }
    }

    /// The view of one lane.
    pub fn of_lane(core: &Core, lane: &LaneId) -> Self {
        let slot = core.lanes.get(lane);
        Self::new(
            core.goal.as_ref(),
            slot.map_or(&[], |slot| slot.inbox.as_slice()),
            core.inbox_held,
            slot.and_then(|slot| slot.running.as_ref()),
            slot.and_then(|slot| slot.last_end.as_ref()),
        )
    }
}

/// What happens next (T2). Pure and total.
pub fn next_action(view: &ContinuationView, now: Timestamp) -> NextAction {
    if let Some(turn) = view.running {
        return NextAction::WaitFor { turn };
    }
    if let Some(row) = view.next_input.filter(|_| !view.inbox_held) {
        return NextAction::RunInput { row };
    }
    match &view.goal {
        Some(goal) if goal.status == GoalStatus::Active && !goal.is_spent => match goal.retry {
            Some(retry) if retry.at > now => NextAction::WaitUntil { at: retry.at, retry },
            Some(_) | None => NextAction::RunGoal { goal_id: goal.id, continuation: goal.next_continuation },
        },
        Some(_) | None => NextAction::Idle { why: idle_reason(view) },
    }
}

fn idle_reason(view: &ContinuationView) -> IdleReason {
    if view.next_input.is_some() {
        return IdleReason::InboxHeld;
    }
    let open = view.goal.as_ref().filter(|goal| !goal.status.state().is_terminal());
    match open.map(|goal| &goal.status) {
        Some(GoalStatus::Proposed) => return IdleReason::GoalProposed,
        Some(GoalStatus::Paused(pause)) => return IdleReason::GoalPaused { pause: *pause },
        Some(GoalStatus::Blocked { code, detail }) => {
            return IdleReason::GoalBlocked { code: *code, detail: detail.clone() };
        }
        // An active Goal only comes here with its budget used up.
        Some(GoalStatus::BudgetLimited | GoalStatus::Active) => return IdleReason::GoalBudgetLimited,
        Some(GoalStatus::Completed | GoalStatus::Cancelled) | None => {}
    }
    match &view.last_end {
        Some(TurnEnd::Lost { turn }) => return IdleReason::TurnLost { turn: *turn },
        Some(TurnEnd::Ended { turn, outcome: TurnOutcome::Failed { failure } }) => {
            return IdleReason::TurnFailed { turn: *turn, failure: failure.clone() };
        }
        Some(TurnEnd::Ended { .. }) | None => {}
    }
    match view.goal.as_ref().map(|goal| goal.status.state()) {
        Some(GoalState::Completed) => IdleReason::GoalCompleted,
        Some(GoalState::Cancelled) => IdleReason::GoalCancelled,
        _ => IdleReason::NothingToDo,
    }
}

/// When a session needs attention next without anybody acting (T3): when something may run, or when the lease of a
/// running turn ends and its owner, if gone, can be replaced.
pub fn wake_at(core: &Core, lease: Option<&Lease>, now: Timestamp) -> Option<Timestamp> {
    let of_lane = |lane: &LaneId| match next_action(&ContinuationView::of_lane(core, lane), now) {
        NextAction::RunInput { .. } | NextAction::RunGoal { .. } => Some(now),
        NextAction::WaitUntil { at, .. } => Some(at),
        NextAction::WaitFor { .. } => Some(lease.map_or(now, |lease| lease.expires_at)),
        NextAction::Idle { .. } => None,
    };
    core.lanes.keys().filter_map(of_lane).min()
}
