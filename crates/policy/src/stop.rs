//! Asking what runs to stop (T6, G11).

use domain::{EventBody, Goal, GoalStatus, PauseReason, StopReason};

use crate::decision::Draft;
use crate::goal;

/// Asks every running turn to stop. An interrupt also reaches a turn that was asked before (G11).
pub(crate) fn stop_all(draft: &mut Draft<'_>, reason: StopReason) {
    let is_new = |stop: Option<StopReason>| match reason {
        StopReason::Interrupted => stop != Some(reason),
        StopReason::PlanMode
        | StopReason::Budget
        | StopReason::GoalChanged
        | StopReason::Shutdown
        | StopReason::JobCancelled => stop.is_none(),
    };
    let running = draft.state.core.running_turns().filter(|(_, turn)| is_new(turn.stop));
    let turns: Vec<_> = running.map(|(_, turn)| turn.number).collect();
    for turn in turns {
        draft.emit(EventBody::TurnStopRequested { turn, reason });
    }
}

/// G11: stops what runs, pauses an active Goal and holds what is queued.
pub(crate) fn interrupt(draft: &mut Draft<'_>) {
    stop_all(draft, StopReason::Interrupted);
    if draft.state.core.goal.as_ref().is_some_and(Goal::is_active) {
        goal::move_to(draft, GoalStatus::Paused(PauseReason::Interrupted), None, None);
    }
    let is_waiting =
        draft.state.core.lanes.values().any(|slot| slot.inbox.iter().any(|row| row.taken.is_none()));
    if is_waiting && !draft.state.core.inbox_held {
        draft.emit(EventBody::InboxHeld);
    }
}
