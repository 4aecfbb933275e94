//! What a session does next, or why it does nothing, and the command lines that change that: "not continuing because …".
//!
//! The reasons are the runtime's own words, the same for every client. Here each remedy becomes what a person types.

use std::fmt::Write as _;

use domain::{SessionId, Timestamp};
use policy::{Delay, NextAction};
use runtime::{Remedy, SessionView};

use super::{cut, duration_ms, time};
use crate::session_name::short_form;

/// Characters of a reason: the error page of a provider says enough in three lines.
const REASON_CHARS: usize = 240;

/// How hints name the session. Those about the one that a verb takes by itself leave it out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints {
    session: Option<SessionId>,
}

impl Hints {
    /// For the session that verbs take by themselves.
    pub(crate) const LATEST: Self = Self { session: None };

    /// For this session, whichever is the latest.
    pub(crate) const fn of(session: SessionId) -> Self {
        Self { session: Some(session) }
    }

    /// A command line about the session.
    pub(crate) fn command(self, line: &str) -> String {
        match self.session {
            None => format!("`zuno {line}`"),
            Some(session) => format!("`zuno {line} --session {}`", short_form(session)),
        }
    }
}

/// What happens next in a session, and what a person can do about it.
pub(crate) fn next(view: &SessionView, hints: Hints, now: Timestamp) -> String {
    let outlook = &view.outlook;
    let mut text = String::new();
    if !outlook.goes_on {
        text.push_str("not continuing because ");
    }
    text.push_str(&cut(&outlook.because, REASON_CHARS));
    if let Some(at) = outlook.at {
        let (moment, left) = (time(at), duration_ms(at.0.saturating_sub(now.0)));
        let _ = match &view.next {
            NextAction::WaitUntil { cause: Delay::Retry { .. }, .. } => {
                write!(text, " at {moment} (in {left})")
            }
            NextAction::WaitUntil { .. } => write!(text, " until {moment} (in {left})"),
            _ => write!(text, ", until {moment} at most (in {left})"),
        };
    }
    let runs = match view.next {
        NextAction::RunInput { .. } | NextAction::RunGoal { .. } => {
            Some(format!("a worker runs it: {}", hints.command("goal run")))
        }
        NextAction::WaitUntil { .. } | NextAction::WaitFor { .. } | NextAction::Idle { .. } => None,
    };
    let remedies = outlook.remedies.iter().enumerate();
    let remedies = remedies.map(|(at, remedy)| hint(*remedy, at > 0, view, hints));
    let ways: Vec<_> = runs.into_iter().chain(remedies).collect();
    if !ways.is_empty() {
        text.push_str("; ");
        text.push_str(&ways.join(", "));
    }
    text
}

/// What to type for a remedy, and what it does. `otherwise`: another one was named before.
fn hint(remedy: Remedy, otherwise: bool, view: &SessionView, hints: Hints) -> String {
    match remedy {
        Remedy::ResumeGoal => {
            let does = match (otherwise, view.outlook.goes_on) {
                (_, true) => "does not wait",
                (true, false) => "goes on without",
                (false, false) => "goes on",
            };
            format!("{} {does}", hints.command("goal resume"))
        }
        Remedy::Answer { request } => {
            let asked = view.requests.iter().find(|open| open.id == request);
            asked.map_or_else(
                || hints.command(&format!("requests answer {request} …")),
                |asked| super::ways_to_answer(asked, hints),
            )
        }
        Remedy::AcceptGoal => {
            format!("{} accepts it, {} does not", hints.command("goal accept"), hints.command("goal decline"))
        }
        Remedy::RaiseBudget => {
            let flag = view.goal.as_ref().map_or("--tokens N", super::goal::spent_flag);
            format!("{} raises it", hints.command(&format!("goal budget {flag}")))
        }
        Remedy::StartWork => format!("{} goes on", hints.command("mode work")),
        Remedy::SetGoal => format!("{} sets another", hints.command("goal set OBJECTIVE")),
        // A prompt without a session opens a new one.
        Remedy::SendMessage => {
            let does = if view.outlook.goes_on { "sends a message meanwhile" } else { "goes on" };
            format!("{} {does}", Hints::of(view.session).command("run PROMPT"))
        }
    }
}
