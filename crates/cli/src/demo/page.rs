//! The story and the checks as a page for people: 80 columns, colour only on a terminal.

use domain::{InputKind, Mode, StepStatus, Timestamp};

use super::checks::Check;
use super::timeline::{Entry, StepLine, What};
use crate::render::{COLUMNS, cut, wrapped};

/// Columns before the text of a line: the time and who it was.
const MARGIN: usize = 18;

/// Whether words stand out by colour, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ink {
    pub(super) has_colour: bool,
}

impl Ink {
    fn paint(self, code: &str, text: &str) -> String {
        if self.has_colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn quiet(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn notable(self, text: &str) -> String {
        self.paint("1;33", text)
    }
}

/// A line of the story, with its time since `start`.
pub(super) fn line(entry: &Entry, start: Timestamp, ink: Ink) -> String {
    let tenths = entry.at.0.saturating_sub(start.0).max(0) / 100;
    let time = format!("{:>5}.{} s", tenths / 10, tenths % 10);
    // Fitted first: the codes of a colour take no columns.
    let text = match &entry.what {
        // Its columns stand apart.
        plan @ What::Plan { .. } => cut(&words(plan), COLUMNS - MARGIN),
        other => wrapped(MARGIN, &words(other)),
    };
    let text = match &entry.what {
        What::Killed { .. } => text.replacen("killed", &ink.bad("killed"), 1),
        What::Denied { .. } => text.replacen("denied", &ink.notable("denied"), 1),
        What::Recovered { .. } => text.replacen("recovered", &ink.good("recovered"), 1),
        _ => text,
    };
    format!("{}  {:<5}  {text}", ink.quiet(&time), entry.by)
}

fn words(what: &What) -> String {
    match what {
        What::Opened { agent } => format!("session opened in Work mode, agent {agent}"),
        What::Goal { status, text: Some(text) } => format!("Goal {status}: {text}"),
        What::Goal { status, text: None } => format!("Goal {status}"),
        What::Continuation { continuation, turn } => {
            format!("continuation {continuation} of the Goal starts turn {turn}")
        }
        What::Prompt { text } => format!("prompt: {text}"),
        What::Turn { turn, agent, cause } => {
            let cause = if *cause == InputKind::User { "prompt" } else { cause.name() };
            format!("the {cause} starts turn {turn}, agent {agent}")
        }
        What::Started { command, title } => format!("background command {command} started: {title}"),
        What::Over { command, outcome } => format!("background command {command} {outcome}"),
        What::Asked { request, question, .. } => format!("request {request}: may it run {question}?"),
        What::Answered { request, answer } => format!("request {request} {answer}"),
        What::Mode { mode: Mode::Plan } => "Plan mode: read-only until you leave it".to_owned(),
        What::Mode { mode: Mode::Work } => "Work mode".to_owned(),
        What::Plan { revision, completed, total, steps, .. } => {
            format!(
                "plan revision {revision}  {completed}/{total}{}",
                steps.iter().map(step).collect::<String>()
            )
        }
        What::Command { command, result, .. } => format!("{command}: {result}"),
        What::Wrote { tool, path, .. } => format!("{tool} {path}"),
        What::Denied { tool, reason, .. } => {
            // In a line of its own, right below the change of mode, the first clause is enough.
            let reason = reason.strip_prefix(&format!("`{tool}` ")).unwrap_or(reason);
            format!("{tool} denied: {}", reason.split(", ").next().unwrap_or(reason))
        }
        What::Killed { turn, request: Some(request), .. } => {
            format!("turn {turn} killed (SIGKILL) while the model answered request {request}")
        }
        What::Killed { turn, request: None, .. } => format!("turn {turn} killed (SIGKILL)"),
        What::Recovered { turn, by_another: true, .. } => {
            format!("turn {turn} recovered by another worker: it counts as lost, once")
        }
        What::Recovered { turn, by_another: false, .. } => format!("turn {turn} recovered: it is lost"),
        What::Ended { turn, outcome } => format!("turn {turn} ended: {outcome}"),
    }
}

fn step(step: &StepLine) -> String {
    let mark = match step.status {
        StepStatus::Completed => 'x',
        StepStatus::InProgress => '>',
        StepStatus::Pending => ' ',
    };
    format!("  [{mark}] {}", step.id)
}

/// A check, in as many lines as it takes.
pub(super) fn check(check: &Check, ink: Ink) -> String {
    let verdict = if check.held { ink.good("held  ") } else { ink.bad("FAILED") };
    // Continuation lines start below the text.
    let text = wrapped(8, &format!("{}: {}", check.claim, check.found));
    format!("{verdict}  {text}")
}
