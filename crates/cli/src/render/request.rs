//! Requests to a person, and the background commands that run.

use std::fmt::Write as _;

use domain::{Answer, Asked, HumanRequest, RequestEnd, Timestamp};
use runtime::{CommandView, WorkerState};

use super::next::Hints;
use super::{cut, duration_ms, one_line, wrapped};

/// Characters of a question in one line of a list or a timeline.
const QUESTION_CHARS: usize = 200;

/// What is asked, in one line.
pub(crate) fn asked(request: &HumanRequest) -> String {
    match &request.asked {
        Asked::Input { question, .. } => cut(question.as_str(), QUESTION_CHARS),
        Asked::Permission { subject, .. } => format!("may it run {}?", cut(subject.as_str(), QUESTION_CHARS)),
    }
}

/// The verb with its arguments that answers a request, without the session.
fn answer_line(request: &HumanRequest) -> String {
    let id = request.id;
    match &request.asked {
        Asked::Permission { .. } => format!("requests allow {id}"),
        Asked::Input { options, .. } if options.is_empty() => format!("requests answer {id} TEXT"),
        Asked::Input { .. } => format!("requests answer {id} NUMBER"),
    }
}

/// What can be typed to answer it, in a sentence.
pub(crate) fn ways_to_answer(request: &HumanRequest, hints: Hints) -> String {
    let deny = hints.command(&format!("requests deny {}", request.id));
    let answer = hints.command(&answer_line(request));
    match &request.asked {
        Asked::Permission { .. } => format!("{answer} or {deny}"),
        Asked::Input { options, .. } if options.is_empty() => format!("{answer}, or {deny}"),
        Asked::Input { .. } => format!("{answer} or with a text of your own, or {deny}"),
    }
}

/// A request in full: the question with its options, or the call with the reason why it needs leave. Each line begins
/// with `margin` blanks.
pub(crate) fn in_full(request: &HumanRequest, margin: usize) -> String {
    let blank = " ".repeat(margin);
    let mut out = String::new();
    match &request.asked {
        Asked::Input { question, options } => {
            for line in question.as_str().lines() {
                let _ = writeln!(out, "{blank}{}", wrapped(margin, line));
            }
            for (number, option) in (1..).zip(options) {
                let _ = writeln!(out, "{blank}  {number:>2}  {}", wrapped(margin + 6, option.as_str()));
            }
        }
        Asked::Permission { subject, because, .. } => {
            let _ = writeln!(out, "{blank}{}", wrapped(margin + 2, &format!("may it run {subject}")));
            let _ = writeln!(out, "{blank}{}", wrapped(margin + 2, &format!("why: {because}")));
        }
    }
    out
}

/// What became of a request, in words that follow its number.
pub(crate) fn settled(end: &RequestEnd) -> String {
    match end {
        RequestEnd::Answered { answer: Answer::Text { text } } => {
            format!("answered: {}", cut(text.as_str(), QUESTION_CHARS))
        }
        RequestEnd::Answered { answer: Answer::Allow } => "allowed, once".to_owned(),
        RequestEnd::Answered { answer: Answer::Deny { reason: None } } => "denied".to_owned(),
        RequestEnd::Answered { answer: Answer::Deny { reason: Some(reason) } } => {
            format!("denied: {}", cut(reason.as_str(), QUESTION_CHARS))
        }
        RequestEnd::Cancelled => "not waited for any more".to_owned(),
    }
}

/// A background command in one line: `1 for 4 min: cargo test --all`.
pub(crate) fn command(view: &CommandView, now: Timestamp) -> String {
    let command = &view.command;
    let stopping = match (view.worker, command.is_stopping) {
        (WorkerState::Gone, _) => ", its worker is gone",
        (WorkerState::Silent { .. }, _) => ", its worker is gone or hangs",
        (WorkerState::Works { .. }, true) => ", stopping",
        (WorkerState::Works { .. }, false) => "",
    };
    let age = duration_ms(now.0.saturating_sub(command.since.0));
    format!("{} for {age}{stopping}: {}", command.id, one_line(command.title.as_str()))
}
