//! Admitting, releasing and giving back input (I1, I2).

use domain::{
    Code, EventBody, InputCancelReason, InputId, InputKind, InputText, LaneId, QUEUED_ROWS, RETURNS,
};

use crate::decision::Draft;
use crate::rejection::Rejection;

pub(crate) fn submit(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    input: InputKind,
    text: &InputText,
) -> Result<(), Rejection> {
    let waiting = draft.state.core.lanes.get(lane).map_or(0, |slot| slot.inbox.len());
    if waiting >= QUEUED_ROWS {
        let message =
            format!("{waiting} inputs wait already, the limit is {QUEUED_ROWS}; let some run first");
        return Err(Rejection::new("I1", Code::LimitExceeded, message));
    }
    draft.emit(EventBody::InputQueued { lane: lane.clone(), input, text: text.clone() });
    release(draft);
    Ok(())
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
    for row in rows.iter().copied() {
        let lanes = draft.state.core.lanes.values();
        let returns =
            lanes.flat_map(|slot| &slot.inbox).find(|waiting| waiting.id == row).map(|row| row.returns);
        let Some(returns) = returns else { continue };
        let body = match fate {
            Unconsumed::Return if returns < RETURNS => EventBody::InputReturned { row },
            Unconsumed::Return => {
                EventBody::InputCancelled { row, reason: InputCancelReason::ReturnedTooOften }
            }
            Unconsumed::Cancel(reason) => EventBody::InputCancelled { row, reason },
        };
        draft.emit(body);
    }
}
