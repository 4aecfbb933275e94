//! What a session does next, or why it does nothing: "not continuing because …".

use domain::Timestamp;
use policy::{IdleReason, NextAction};

use super::goal::pause;
use super::{duration_ms, one_line};

/// What happens next without anybody acting.
pub(crate) fn next(next: &NextAction, now: Timestamp) -> String {
    match next {
        NextAction::RunInput { row } => format!("a turn for the queued input {row}"),
        NextAction::RunGoal { continuation, .. } => {
            format!("continuation {continuation} of the Goal; `zuno goal run` runs it")
        }
        NextAction::WaitUntil { at, retry } => format!(
            "attempt {} after {}, in {}",
            retry.attempt,
            retry.failure,
            duration_ms(at.0.saturating_sub(now.0))
        ),
        NextAction::WaitFor { turn } => format!("turn {turn} runs"),
        NextAction::Idle { why } => format!("not continuing because {}", idle(why)),
    }
}

/// Why a session does nothing by itself.
pub(crate) fn idle(why: &IdleReason) -> String {
    match why {
        IdleReason::NothingToDo => "there is no input and no Goal".to_owned(),
        IdleReason::TurnLost { turn } => {
            format!("turn {turn} was lost with its worker; `zuno run --session …` goes on")
        }
        IdleReason::TurnFailed { turn, failure } => {
            // Whoever tells what comes next told, or shows beside it, how the turn ended.
            format!("turn {turn} failed ({}); `zuno run --session …` goes on", failure.kind)
        }
        IdleReason::InboxHeld => {
            "queued input waits for you since the interruption; `zuno run --session …` goes on".to_owned()
        }
        IdleReason::GoalProposed => "the Goal waits for you to accept it".to_owned(),
        IdleReason::GoalPaused { pause: reason } => format!("the Goal is paused: {}", pause(*reason)),
        IdleReason::GoalBlocked { code, detail } => {
            format!("the Goal is blocked: {}: {}", code.name(), one_line(detail))
        }
        IdleReason::GoalBudgetLimited => "a budget of the Goal is used up".to_owned(),
        IdleReason::GoalCompleted => "the Goal is completed".to_owned(),
        IdleReason::GoalCancelled => "the Goal was cancelled".to_owned(),
    }
}
