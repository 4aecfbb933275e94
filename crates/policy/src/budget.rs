//! What a Goal's spending causes (G4, G5).

use domain::{EventBody, GoalId, GoalStatus, RunningTurn, StopReason, TokenUsage};

use crate::decision::Draft;
use crate::goal;

/// The shares of a budget that are announced, in percent.
const ANNOUNCED: [u8; 2] = [50, 80];

/// Charges a Goal for one attempt at a model request, if it is still the session's Goal.
pub(crate) fn charge(
    draft: &mut Draft<'_>,
    charged_to: Option<GoalId>,
    running: &RunningTurn,
    attempt: u32,
    usage: TokenUsage,
) {
    let same = draft.state.core.goal.as_ref().map(|goal| goal.id) == charged_to;
    if let Some(goal_id) = charged_to.filter(|_| same) {
        let (turn, request) = (running.number, running.request);
        draft.emit(EventBody::GoalCharged { goal_id, turn, request, attempt, usage });
        settle(draft);
    }
}

/// Charges the open Goal for the time in which its turns ran since the last charge (G4). A worker that slept past its
/// lease did not work meanwhile, so time counts up to the lease's end at most.
pub(crate) fn charge_time(draft: &mut Draft<'_>) {
    let Some((goal_id, active_ms)) = uncharged(draft) else { return };
    if active_ms > 0 {
        draft.emit(EventBody::GoalTimeCharged { goal_id, active_ms });
    }
}

/// Looks at the time when a lease is renewed: a turn that waits for one long answer must not outrun the budget, and one
/// whose worker slept starts to count anew.
pub(crate) fn watch_time(draft: &mut Draft<'_>, slept: bool) {
    let Some((goal_id, active_ms)) = uncharged(draft) else { return };
    let goal = draft.state.core.goal.as_ref();
    let is_over = goal
        .is_some_and(|goal| goal.usage.active_ms.saturating_add(active_ms) >= goal.budgets.active_ms.get());
    if slept || is_over {
        draft.emit(EventBody::GoalTimeCharged { goal_id, active_ms });
        settle(draft);
    }
}

fn uncharged(draft: &Draft<'_>) -> Option<(GoalId, u64)> {
    let goal = draft.state.core.goal.as_ref()?;
    let since = goal.active_since?;
    let worked = draft.leases.turn.as_ref().map_or(draft.now(), |lease| lease.expires_at.min(draft.now()));
    Some((goal.id, u64::try_from(worked.0.saturating_sub(since.0)).unwrap_or(0)))
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
