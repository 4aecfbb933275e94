//! The Goal: where it stands, what it has spent and what it may.

use domain::{GoalStatus, PauseReason};
use runtime::GoalView;

use super::{number, one_line, wrapped};

/// Columns before the value of a line.
const LABEL: usize = 11;

/// A Goal in full.
pub(crate) fn goal(goal: &GoalView) -> String {
    let mut out = line("goal", &goal.objective);
    out.push_str(&line("status", &goal_state(goal)));
    if let Some(criteria) = &goal.criteria {
        out.push_str(&line("criteria", criteria));
    }
    out.push_str(&line("spent", &spent(goal)));
    if let Some(retry) = goal.retry {
        let text = format!(
            "attempt {} after {}, not before {}",
            retry.attempt,
            retry.failure,
            super::time(retry.at)
        );
        out.push_str(&line("retry", &text));
    }
    if let Some(unfinished) = goal.unfinished_steps.filter(|unfinished| *unfinished > 0) {
        let text = format!("{} unfinished when it ended", super::count(unfinished as usize, "plan step"));
        out.push_str(&line("plan", &text));
    }
    if let Some(summary) = &goal.summary {
        out.push_str(&line("summary", summary));
    }
    out.push_str(&line("id", &format!("{}, revision {}", goal.goal_id, goal.revision)));
    out
}

fn line(label: &str, text: &str) -> String {
    format!("{label:<LABEL$}{}\n", wrapped(LABEL, text))
}

fn spent(goal: &GoalView) -> String {
    let tokens = goal.usage.tokens;
    let estimated = if tokens.estimated { ", partly estimated" } else { "" };
    let cached = if tokens.cached_input > 0 {
        format!(" and {} cached", number(tokens.cached_input))
    } else {
        String::new()
    };
    format!(
        "{} of {} tokens{cached}{estimated}, {} of {} turns: {} %",
        number(tokens.charged()),
        number(goal.budgets.tokens.get()),
        goal.usage.turns,
        goal.budgets.turns,
        goal.used_percent
    )
}

/// Where it stands, with the reason and the way on.
pub(crate) fn goal_state(goal: &GoalView) -> String {
    match &goal.status {
        GoalStatus::Proposed => "proposed: it waits for you to accept it".to_owned(),
        GoalStatus::Active => "active".to_owned(),
        GoalStatus::Paused(reason) => format!("paused: {}", pause(*reason)),
        GoalStatus::Blocked { code, detail } => {
            format!("blocked: {}: {}; `zuno goal resume` tries again", code.name(), one_line(detail))
        }
        GoalStatus::BudgetLimited => {
            "budget_limited: a budget is used up; `zuno goal set --replace` opens a new one".to_owned()
        }
        GoalStatus::Completed => "completed".to_owned(),
        GoalStatus::Cancelled => "cancelled".to_owned(),
    }
}

/// Why it is paused, and what lifts the pause.
pub(super) fn pause(reason: PauseReason) -> String {
    match reason {
        PauseReason::PlanMode => "plan_mode; `zuno mode work` goes on".to_owned(),
        PauseReason::Interrupted => "interrupted; `zuno goal resume` goes on".to_owned(),
        PauseReason::User => "user; `zuno goal resume` goes on".to_owned(),
        PauseReason::Authentication => {
            "authentication: the provider does not accept the key; set another, then `zuno goal resume`"
                .to_owned()
        }
        PauseReason::Quota => {
            "quota: the account has nothing left; top it up, then `zuno goal resume`".to_owned()
        }
        PauseReason::UncertainSideEffect { call } => {
            format!("uncertain_side_effect: call {call} may have happened; look, then `zuno goal resume`")
        }
    }
}
