//! What has to hold at the end, found in the log and in the workspace.

use std::collections::BTreeSet;

use domain::{Digest, Event, EventBody, Mode, TurnNumber};
use runtime::SessionView;
use serde::Serialize;

use super::stage::PROGRAM;
use super::timeline::{Entry, What};
use crate::render::number;

/// What the plan has to come to.
const STEPS: usize = 3;

/// A claim, whether it held, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) claim: &'static str,
    pub(super) held: bool,
    pub(super) found: String,
}

/// What the demo saw beside the log.
pub(super) struct Seen {
    /// The session at the end.
    pub(super) view: SessionView,
    /// The turn whose worker was killed.
    pub(super) killed: TurnNumber,
    /// Whether the tests pass at the end, and their last line.
    pub(super) tests: (bool, String),
    /// The file that was to be overwritten in Plan mode, before and after.
    pub(super) file: (Digest, Digest),
    /// What went wrong on the way.
    pub(super) faults: Vec<String>,
}

/// Every check, in the order of the story.
pub(super) fn checks(events: &[Event], entries: &[Entry], seen: &Seen) -> Vec<Check> {
    let mut checks = vec![
        tests(entries, seen),
        plan(entries),
        goal(&seen.view),
        continuations(events),
        crash(events, seen.killed),
        plan_mode(entries, seen),
        idle_plan(events, &seen.view),
    ];
    if !seen.faults.is_empty() {
        checks.push(Check { claim: "every command succeeds", held: false, found: seen.faults.join("; ") });
    }
    checks
}

fn tests(entries: &[Entry], seen: &Seen) -> Check {
    let first = entries.iter().find_map(|entry| match &entry.what {
        What::Command { succeeded, result, .. } => Some((*succeeded, result.as_str())),
        _ => None,
    });
    let (passes, last_line) = &seen.tests;
    Check {
        claim: "tests fail, then pass",
        held: *passes && matches!(first, Some((false, _))),
        found: format!("{}; {last_line}", first.map_or("they did not run", |(_, result)| result)),
    }
}

/// The plan of the Goal is the first one; the last revision of it counts.
fn plan(entries: &[Entry]) -> Check {
    let mut plans = entries.iter().filter_map(|entry| match &entry.what {
        What::Plan { plan_id, revision, completed, total, .. } => Some((plan_id, revision, completed, total)),
        _ => None,
    });
    let first = plans.next();
    let last = first.map(|first| plans.take_while(|next| next.0 == first.0).last().unwrap_or(first));
    let found = last.map_or("no plan".to_owned(), |(_, revision, completed, total)| {
        format!("{completed}/{total} at revision {revision}")
    });
    let held = last.is_some_and(|(_, _, completed, total)| *completed == STEPS && *total == STEPS);
    Check { claim: "the plan is complete", held, found }
}

fn goal(view: &SessionView) -> Check {
    let found = view.goal.as_ref().map_or("no Goal".to_owned(), |goal| {
        format!(
            "{}, {} of {} tokens, {} of {} turns",
            goal.state(),
            number(goal.usage.tokens.charged()),
            number(goal.budgets.tokens.get()),
            goal.usage.turns,
            goal.budgets.turns
        )
    });
    let held = view.goal.as_ref().is_some_and(|goal| {
        goal.state() == domain::GoalState::Completed
            && goal.usage.tokens.charged() < goal.budgets.tokens.get()
            && goal.usage.turns < goal.budgets.turns.get()
    });
    Check { claim: "the Goal ends within its budget", held, found }
}

fn continuations(events: &[Event]) -> Check {
    let numbers: Vec<u64> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnStarted { trigger: domain::TurnTrigger::Goal { continuation, .. }, .. } => {
                Some(*continuation)
            }
            _ => None,
        })
        .collect();
    let held = numbers.len() > 1 && numbers.iter().copied().eq(1..=numbers.len() as u64);
    let shown: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    Check { claim: "one turn for each continuation of the Goal", held, found: shown.join(", ") }
}

fn crash(events: &[Event], killed: TurnNumber) -> Check {
    let lost: Vec<TurnNumber> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnLost { turn } => Some(*turn),
            _ => None,
        })
        .collect();
    let shown: Vec<_> = lost.iter().map(ToString::to_string).collect();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    Check {
        claim: "only the killed turn is lost",
        held: lost == [killed],
        found: format!("killed {killed}, lost {shown}"),
    }
}

fn plan_mode(entries: &[Entry], seen: &Seen) -> Check {
    let mut denied = BTreeSet::new();
    let mut escaped = Vec::new();
    let mut mode = Mode::Work;
    for entry in entries {
        match &entry.what {
            What::Mode { mode: next } => mode = *next,
            What::Denied { tool, .. } if mode == Mode::Plan => {
                denied.insert(tool.as_str());
            }
            What::Wrote { tool, .. } | What::Command { command: tool, .. } if mode == Mode::Plan => {
                escaped.push(tool.as_str());
            }
            _ => {}
        }
    }
    let (before, after) = seen.file;
    let file = if before == after { "unchanged" } else { "changed" };
    let denied: Vec<_> = denied.into_iter().collect();
    Check {
        claim: "Plan mode cannot write",
        held: !denied.is_empty() && escaped.is_empty() && before == after,
        found: format!("{} denied; {PROGRAM} {file}", denied.join(", ")),
    }
}

/// A worker looked for something to do after the last change of mode and found an unfinished plan, but no cause.
fn idle_plan(events: &[Event], view: &SessionView) -> Check {
    let work = events.iter().rposition(|event| matches!(event.body, EventBody::ModeChanged { .. }));
    let after = events.iter().skip(work.unwrap_or(0));
    let turns = after.filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count();
    let plan = view.plan.as_ref();
    let is_unfinished = plan.is_some_and(|plan| plan.completed < plan.total);
    let progress = plan.map_or("no plan".to_owned(), |plan| format!("{}/{}", plan.completed, plan.total));
    Check {
        claim: "an unfinished plan starts no turn",
        held: work.is_some() && is_unfinished && turns == 0,
        found: format!("it stands at {progress}, and nothing was due"),
    }
}
