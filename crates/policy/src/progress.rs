//! When a Goal stops because its turns lead nowhere (G6, G7).

use domain::{BlockCode, EventBody, GoalId, GoalStatus, PauseReason, RunningTurn};

use crate::decision::Draft;
use crate::goal;

/// Turns without progress in between that have to declare the Goal blocked before it is (G6): one may be a whim, two a
/// misreading.
pub(crate) const STAGED_BLOCKS: u8 = 3;
/// Turns in a row without evidence of progress (G7).
const WITHOUT_EVIDENCE: u8 = 3;
/// Turns in a row whose owner died: what kills five workers kills the sixth (G7).
const LOST: u8 = 5;
/// Turns in a row that failed: with the longest wait between them, about eight hours of an outage (G7).
const FAILED: u8 = 100;
/// Times in a row that a turn may get the same result from the same call (T12).
pub(crate) const IDENTICAL_CALLS: u32 = 5;

/// Draws the consequence of the streaks after a turn bound to this Goal ended.
pub(crate) fn settle(draft: &mut Draft<'_>, running: &RunningTurn) {
    let Some(goal) = active(draft, running) else { return };
    let streaks = goal.streaks;
    if streaks.staged_blocks >= STAGED_BLOCKS {
        let detail = running.staged_block.as_ref().map_or("", |reason| reason.as_str()).to_owned();
        let to = GoalStatus::Blocked { code: BlockCode::AgentDeclared, detail };
        goal::move_to(draft, to, None, None);
    } else if streaks.without_evidence >= WITHOUT_EVIDENCE || is_stuck(running) {
        goal::pause_by_runtime(draft, PauseReason::NoProgress, None);
    } else if streaks.lost >= LOST || streaks.failed >= FAILED {
        goal::pause_by_runtime(draft, PauseReason::RepeatedFailure, None);
    }
}

/// Whether the turn got the same result from the same call too often (T12).
pub(crate) fn is_stuck(running: &RunningTurn) -> bool {
    running.repeat.is_some_and(|repeat| repeat.times >= IDENTICAL_CALLS)
}

/// The Goal that the turn is bound to, while it is active.
pub(crate) fn active<'a>(draft: &'a Draft<'_>, running: &RunningTurn) -> Option<&'a domain::Goal> {
    let bound = running.goal?.goal_id;
    draft.state.core.goal.as_ref().filter(|goal| goal.id == bound && goal.is_active())
}

/// Records the next declaration, and says which it is since the last evidence of progress (G6). A second one in the same turn adds nothing.
pub(crate) fn stage_block(
    draft: &mut Draft<'_>,
    goal_id: GoalId,
    running: &RunningTurn,
    reason: &domain::Remark,
) -> u8 {
    let streaks = draft.state.core.goal.as_ref().map(|goal| goal.streaks).unwrap_or_default();
    // What the turn brought so far starts the count anew.
    let before = if streaks.are_ended_by(running.progress) { 0 } else { streaks.staged_blocks };
    draft.emit(EventBody::GoalBlockStaged { goal_id, turn: running.number, reason: reason.clone() });
    before.saturating_add(1).min(STAGED_BLOCKS)
}
