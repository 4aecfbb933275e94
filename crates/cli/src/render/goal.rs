//! The Goal: where it stands, why it goes on or not, what it has spent and what it may.

use std::fmt::Write as _;

use domain::{BlockCode, Condition, GoalStatus, ModelCall, PauseReason, Streaks, Timestamp, Wait};
use policy::{Awaited, IdleReason, NextAction};
use runtime::{GoalView, Remedy, SessionView};

use super::next::{Hints, next_lines};
use super::{count, cut, duration_ms, number, one_line, paragraphs, request, time};

/// Characters of a call: a command in full, and the beginning of what a file was to hold.
const CALL_CHARS: usize = 400;
/// Columns before the value of a line.
const LABEL: usize = 11;

/// The session's Goal in full, with everything that it waits for.
pub(crate) fn goal(
    goal: &GoalView,
    view: &SessionView,
    call: Option<&ModelCall>,
    hints: Hints,
    now: Timestamp,
) -> String {
    let mut out = line("goal", &goal.objective);
    let mut more = |label: &str, text: &str| out.push_str(&line(label, text));
    more("status", &goal_state(goal, view));
    // An answer to the command that ended it needs no hint at the next one.
    if !goal.state().is_terminal() {
        for (at, text) in next_lines(view, hints, now).iter().enumerate() {
            more(if at == 0 { "next" } else { "" }, text);
        }
    }
    if let Some(call) = call {
        more("call", &cut(&format!("{} {}", call.tool, call.arguments), CALL_CHARS));
    }
    if let Some(criteria) = &goal.criteria {
        more("criteria", criteria);
    }
    more("spent", &tokens(goal));
    more("", &turns_and_time(goal));
    if let Some(amendment) = &goal.amendment {
        more("proposed", amendment.objective.as_str());
        if let Some(criteria) = &amendment.criteria {
            more("", &format!("criteria: {criteria}"));
        }
        let (accept, decline) = (hints.command("goal accept"), hints.command("goal decline"));
        more("", &format!("{accept} takes the change over, {decline} drops it"));
    }
    if let Some(wait) = goal.wait.as_ref().filter(|_| !is_about_its_wait(view)) {
        more("waits", &wait_words(wait));
    }
    for request in view.requests.iter().filter(|request| request.goal_id == Some(goal.goal_id)) {
        more("request", &format!("{}: {}", request.id, request::asked(request)));
        // What comes next may have said how.
        if !view.outlook.remedies.contains(&Remedy::Answer { request: request.id }) {
            more("", &request::ways_to_answer(request, hints));
        }
    }
    for command in view.commands.iter().filter(|view| view.command.goal_id == Some(goal.goal_id)) {
        more("runs", &format!("background command {}", request::command(command, now)));
    }
    if let Some(streaks) = streaks(goal) {
        more("lately", &streaks);
    }
    if let Some(unfinished) = goal.unfinished_steps.filter(|unfinished| *unfinished > 0) {
        more("plan", &format!("{} unfinished when it ended", count(unfinished as usize, "plan step")));
    }
    if let Some(summary) = &goal.summary {
        more("summary", summary);
    }
    more("id", &format!("{}, revision {}", goal.goal_id, goal.revision));
    out
}

/// A value with its label. Its own lines stay.
fn line(label: &str, text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    format!("{label:<LABEL$}{}\n", paragraphs(LABEL, &lines))
}

/// Whether the line about what comes next tells what the Goal waits for.
const fn is_about_its_wait(view: &SessionView) -> bool {
    matches!(
        view.next,
        NextAction::WaitUntil { cause: policy::Delay::Wait { .. }, .. }
            | NextAction::WaitFor { what: Awaited::Condition { .. } }
    )
}

/// What a Goal has spent of its tokens.
pub(super) fn tokens(goal: &GoalView) -> String {
    let spent = goal.usage.tokens;
    let mut text = format!("{} of {} tokens", number(spent.charged()), number(goal.budgets.tokens.get()));
    if spent.estimated {
        text.push_str(", partly estimated");
    }
    if spent.cached_input > 0 {
        let _ = write!(text, ", besides {} cached", number(spent.cached_input));
    }
    text
}

/// What it has spent of its turns and time, and the share of the nearest budget.
pub(super) fn turns_and_time(goal: &GoalView) -> String {
    format!(
        "{} of {} turns, {} of {}: {} %",
        goal.usage.turns,
        goal.budgets.turns,
        active_time(goal.usage.active_ms),
        active_time(goal.budgets.active_ms.get()),
        goal.used_percent
    )
}

/// Turns in a row that went one way, and will stop an open Goal if more do.
fn streaks(goal: &GoalView) -> Option<String> {
    // New calls alone are progress, for a while.
    let Streaks { without_evidence, only_new_calls: _, staged_blocks, lost, failed } = goal.streaks;
    let rows = [
        (without_evidence, "without progress"),
        (staged_blocks, "that called it blocked"),
        (lost, "whose worker died"),
        (failed, "that failed"),
    ];
    let rows = rows.into_iter().filter(|(turns, _)| *turns > 0 && !goal.state().is_terminal());
    let told: Vec<_> = rows.map(|(turns, how)| format!("{} {how}", count(turns.into(), "turn"))).collect();
    (!told.is_empty()).then(|| format!("in a row: {}", told.join(", ")))
}

/// A time that turns run.
pub(crate) fn active_time(ms: u64) -> String {
    duration_ms(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// The flag that raises the budget which is used up.
pub(super) fn spent_flag(goal: &GoalView) -> &'static str {
    if goal.usage.tokens.charged() >= goal.budgets.tokens.get() {
        "--tokens N"
    } else if goal.usage.turns >= goal.budgets.turns.get() {
        "--turns N"
    } else {
        "--time T"
    }
}

/// Where it stands, in a few words: with the name of the reason, and its detail unless what comes next tells that.
pub(crate) fn goal_state(goal: &GoalView, view: &SessionView) -> String {
    match (&goal.status, &view.next) {
        (GoalStatus::Blocked { code, .. }, NextAction::Idle { why: IdleReason::GoalBlocked { .. } }) => {
            blocked(*code, "")
        }
        (status, _) => status_words(status),
    }
}

/// A status with the name of its reason.
pub(crate) fn status_words(status: &GoalStatus) -> String {
    match status {
        GoalStatus::Paused(reason) => format!("paused: {}", pause(*reason)),
        GoalStatus::Blocked { code, detail } => blocked(*code, detail),
        GoalStatus::Proposed
        | GoalStatus::Active
        | GoalStatus::BudgetLimited
        | GoalStatus::Completed
        | GoalStatus::Cancelled => status.state().to_string(),
    }
}

fn blocked(code: BlockCode, detail: &str) -> String {
    let detail = super::event::first_line(detail);
    if detail.is_empty() {
        return format!("blocked: {}", code.name());
    }
    format!("blocked: {}: {detail}", code.name())
}

/// The name of a pause with what it is about.
fn pause(reason: PauseReason) -> String {
    let name = reason.name();
    match reason {
        PauseReason::HumanInput { request } | PauseReason::Permission { request } => {
            format!("{name}, request {request}")
        }
        PauseReason::UncertainSideEffect { call } => format!("{name}, call {call}"),
        PauseReason::PlanMode
        | PauseReason::NoProgress
        | PauseReason::RepeatedFailure
        | PauseReason::Interrupted
        | PauseReason::User
        | PauseReason::Authentication
        | PauseReason::Quota => name.to_owned(),
    }
}

/// What is waited for and until when.
pub(crate) fn wait_words(wait: &Wait) -> String {
    let deadline = time(wait.deadline);
    let mut words = match &wait.condition {
        Condition::Time => format!("until {deadline}"),
        Condition::Command { .. } | Condition::Job { .. } | Condition::File { .. } | Condition::Inbox => {
            format!("for {}, until {deadline} at most", one_line(&wait.condition.to_string()))
        }
    };
    if let Some(note) = &wait.note {
        let _ = write!(words, " ({})", one_line(note.as_str()));
    }
    words
}
