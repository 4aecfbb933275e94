//! What a Goal's spending causes (G4, G5).

use domain::{EventBody, GoalId, GoalStatus, StopReason, TokenUsage, TurnNumber};

use crate::decision::Draft;
use crate::goal;

/// The shares of a budget that are announced, in percent.
const ANNOUNCED: [u8; 2] = [50, 80];

/// Charges a Goal for one model request, if it is still the session's Goal.
pub(crate) fn charge(
    draft: &mut Draft<'_>,
    charged_to: Option<GoalId>,
    turn: TurnNumber,
    request: u32,
    usage: TokenUsage,
) {
    let same = draft.state.core.goal.as_ref().map(|goal| goal.id) == charged_to;
    if let Some(goal_id) = charged_to.filter(|_| same) {
        draft.emit(EventBody::GoalCharged { goal_id, turn, request, usage });
        settle(draft);
    }
}

/// Announces and enforces the budget after usage changed, in the transaction that changed it.
pub(crate) fn settle(draft: &mut Draft<'_>) {
    let Some(goal) = draft.state.core.goal.clone().filter(domain::Goal::is_open) else { return };
    let used = goal.used_percent();
    if let Some(percent) =
        ANNOUNCED.into_iter().rev().find(|share| used >= *share && goal.announced_percent < *share)
    {
        draft.emit(EventBody::GoalBudgetAnnounced { goal_id: goal.id, percent });
    }
    if goal.is_active() && goal.is_spent() {
        goal::move_to(draft, GoalStatus::BudgetLimited, None, Some(StopReason::Budget));
    }
}
