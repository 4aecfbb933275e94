//! Admitting, releasing and giving back input (I1, I2).

use domain::{
    Code, Core, EventBody, GoalId, InboxRow, InputCancelReason, InputId, InputKind, InputText, LaneId,
    QUEUED_ROWS, RETURNS,
};

use crate::command::Delivery;
use crate::decision::Draft;
use crate::rejection::Rejection;

pub(crate) fn submit(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    delivery: Delivery,
    text: &InputText,
) -> Result<(), Rejection> {
    let slot = draft.state.core.lanes.get(lane);
    let of_person = |row: &&InboxRow| row.kind.is_of_person();
    let waiting = slot.map_or(0, |slot| slot.inbox.iter().filter(of_person).count());
    let runs = slot.is_some_and(|slot| slot.running.is_some());
    if waiting >= QUEUED_ROWS {
        let message =
            format!("{waiting} inputs wait already, the limit is {QUEUED_ROWS}; let some run first");
        return Err(Rejection::new("I1", Code::LimitExceeded, message));
    }
    let input = match delivery {
        Delivery::Steer if runs => InputKind::Steer,
        Delivery::Steer | Delivery::Queue => InputKind::User,
    };
    let (lane, text) = (lane.clone(), text.clone());
    draft.emit(EventBody::InputQueued { lane, input, text, goal_id: None, runs: None });
    release(draft);
    Ok(())
}

/// The queued rows that join a running turn at its next request: words to it, and reports that start no turn of their
/// own or belong to its Goal (I1, I5).
pub(crate) fn joining(core: &Core, lane: &LaneId, bound: Option<GoalId>) -> Vec<InputId> {
    let joins = |row: &&InboxRow| {
        row.taken.is_none()
            && match row.kind {
                InputKind::Steer => true,
                InputKind::Report => row.goal_id.is_none_or(|goal| Some(goal) == bound),
                InputKind::User | InputKind::Answer | InputKind::Task => false,
            }
    };
    let inbox = core.lanes.get(lane).map_or(&[][..], |slot| &slot.inbox);
    inbox.iter().filter(joins).map(|row| row.id).collect()
}

/// Cancels what waits for a Goal that ended (I5).
pub(crate) fn cancel_of_goal(draft: &mut Draft<'_>, goal: GoalId) {
    let rows = draft.state.core.lanes.values().flat_map(|slot| &slot.inbox);
    let rows: Vec<_> =
        rows.filter(|row| row.goal_id == Some(goal) && row.taken.is_none()).map(|row| row.id).collect();
    for row in rows {
        draft.emit(EventBody::InputCancelled { row, reason: InputCancelReason::GoalEnded });
    }
}

/// Cancels what waits in a lane that ends (W2).
pub(crate) fn cancel_of_lane(draft: &mut Draft<'_>, lane: &LaneId, reason: InputCancelReason) {
    let rows = draft.state.core.lanes.get(lane).map_or(&[][..], |slot| &slot.inbox);
    let rows: Vec<_> = rows.iter().map(|row| row.id).collect();
    for row in rows {
        draft.emit(EventBody::InputCancelled { row, reason });
    }
}

/// Lets held rows run again: the user acted.
pub(crate) fn release(draft: &mut Draft<'_>) {
    if draft.state.core.inbox_held {
        draft.emit(EventBody::InboxReleased);
    }
}

/// What becomes of the rows a turn took and did not consume, when it ends without having asked the model (I2).
#[derive(Clone, Copy)]
pub(crate) enum Unconsumed {
    /// Back to their place, a bounded number of times.
    Return,
    /// They do not run.
    Cancel(InputCancelReason),
}

pub(crate) fn give_back(draft: &mut Draft<'_>, rows: &[InputId], fate: Unconsumed) {
    let open = draft.state.open_goal().map(|goal| goal.id);
    for row in rows.iter().copied() {
        let lanes = draft.state.core.lanes.values();
        let waiting = lanes.flat_map(|slot| &slot.inbox).find(|waiting| waiting.id == row);
        let Some(&InboxRow { returns, goal_id, .. }) = waiting else { continue };
        let has_ended = goal_id.is_some_and(|goal| Some(goal) != open);
        let body = match fate {
            // Its Goal ended while it was taken.
            Unconsumed::Return if has_ended => {
                EventBody::InputCancelled { row, reason: InputCancelReason::GoalEnded }
            }
            Unconsumed::Return if returns < RETURNS => EventBody::InputReturned { row },
            Unconsumed::Return => {
                EventBody::InputCancelled { row, reason: InputCancelReason::ReturnedTooOften }
            }
            Unconsumed::Cancel(reason) => EventBody::InputCancelled { row, reason },
        };
        draft.emit(body);
    }
}
