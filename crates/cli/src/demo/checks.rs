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
        wait(events),
        question(events),
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
    Check { claim: "one turn for each continuation of the Goal", held, found: listed(&numbers) }
}

fn crash(events: &[Event], killed: TurnNumber) -> Check {
    let lost: Vec<TurnNumber> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnLost { turn } => Some(*turn),
            _ => None,
        })
        .collect();
    Check {
        claim: "only the killed turn is lost",
        held: lost == [killed],
        found: format!("killed {killed}, lost {}", listed(&lost)),
    }
}

/// From the end of the turn that started a background command to the end of that command.
fn wait(events: &[Event]) -> Check {
    let place = |is_it: fn(&EventBody) -> bool| events.iter().position(|event| is_it(&event.body));
    let started = place(|body| matches!(body, EventBody::CommandStarted { .. }));
    let over = place(|body| matches!(body, EventBody::CommandEnded { .. }));
    let waited = started.zip(over).and_then(|(started, over)| {
        let beside = events.get(started..over)?;
        let rest = beside.iter().position(|event| matches!(event.body, EventBody::TurnEnded { .. }))?;
        beside.get(rest..)
    });
    let Some((waited, end)) = waited.zip(over.and_then(|over| events.get(over))) else {
        let found = "nothing ran beside a turn".to_owned();
        return Check { claim: "a Goal that waits asks the model nothing", held: false, found };
    };
    let requests =
        waited.iter().filter(|event| matches!(event.body, EventBody::ModelRequested { .. })).count();
    let ms = waited.first().map_or(0, |first| end.at.0.saturating_sub(first.at.0));
    let found = format!("{requests} requests in {}.{} s", ms / 1_000, ms % 1_000 / 100);
    Check { claim: "a Goal that waits asks the model nothing", held: requests == 0 && ms > 0, found }
}

/// The worker that asked is gone; another one ran what was allowed.
fn question(events: &[Event]) -> Check {
    let asked = events.iter().position(|event| matches!(event.body, EventBody::RequestOpened { .. }));
    let (before, after) = events.split_at(asked.unwrap_or(events.len()));
    let starts = |event: &&Event| matches!(event.body, EventBody::TurnStarted { .. });
    let before = before.iter().rfind(starts).map(|event| &event.actor);
    let runner = after.iter().find(starts).map(|event| &event.actor);
    let is_answered = after.iter().any(|event| {
        let is_users = matches!(event.actor, domain::Actor::User { .. });
        is_users && matches!(event.body, EventBody::RequestSettled { .. })
    });
    let runs = after.iter().filter(|event| match &event.body {
        EventBody::CallAdmitted { call, .. } => call.request == 0,
        _ => false,
    });
    let runs = runs.count();
    let by_another = before.is_some() && runner.is_some() && before != runner;
    let worker = if by_another { "another worker" } else { "the same worker" };
    Check {
        claim: "what you allow runs once, also after a restart",
        held: is_answered && by_another && runs == 1,
        found: format!(
            "it ran {}, in {worker}",
            if runs == 1 { "once".to_owned() } else { format!("{runs} times") }
        ),
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
        found: format!("{} denied; {PROGRAM} {file}", listed(&denied)),
    }
}

/// A worker looked for something to do after the last change of mode and found an unfinished plan, but no cause.
fn idle_plan(events: &[Event], view: &SessionView) -> Check {
    let work = events.iter().rposition(|event| matches!(event.body, EventBody::ModeChanged { .. }));
    let after = events.iter().skip(work.unwrap_or(0));
    let turns = after.filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count();
    let plan = view.plan.as_ref();
    let is_unfinished = plan.is_some_and(|plan| plan.completed < plan.total);
    let progress = plan
        .map_or("there is none".to_owned(), |plan| format!("it stands at {}/{}", plan.completed, plan.total));
    let followed = if turns == 0 { "nothing was due".to_owned() } else { format!("{turns} turns followed") };
    Check {
        claim: "an unfinished plan starts no turn",
        held: work.is_some() && is_unfinished && turns == 0,
        found: format!("{progress}, and {followed}"),
    }
}

fn listed<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use domain::Seq;
    use policy::{IdleReason, NextAction};
    use runtime::Outlook;

    use super::*;

    fn view() -> SessionView {
        SessionView {
            session: domain::SessionId::from_u128(1),
            title: None,
            workspace: String::new(),
            mode: Mode::Work,
            agent: None,
            work_agent: None,
            head: Seq(1),
            plan: None,
            goal: None,
            queued_inputs: 0,
            requests: Vec::new(),
            commands: Vec::new(),
            jobs: Vec::new(),
            running: None,
            last_turn: None,
            next: NextAction::Idle { why: IdleReason::NothingToDo },
            outlook: Outlook { goes_on: false, because: String::new(), at: None, remedies: Vec::new() },
            wake_at: None,
        }
    }

    #[test]
    fn nothing_holds_unless_it_is_found() {
        let file = (store::digest(b"before"), store::digest(b"after"));
        let tests = (true, "3 of 3 passed".to_owned());
        let faults = vec!["zuno mode plan: exit status: 3".to_owned()];
        let seen = Seen { view: view(), killed: TurnNumber(2), tests, file, faults };
        let lines: Vec<_> = checks(&[], &[], &seen)
            .iter()
            .map(|check| format!("{} {}: {}", check.held, check.claim, check.found))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        false tests fail, then pass: they did not run; 3 of 3 passed
        false the plan is complete: no plan
        false the Goal ends within its budget: no Goal
        false one turn for each continuation of the Goal: none
        false only the killed turn is lost: killed 2, lost none
        false a Goal that waits asks the model nothing: nothing ran beside a turn
        false what you allow runs once, also after a restart: it ran 0 times, in the same worker
        false Plan mode cannot write: none denied; session.sh changed
        false an unfinished plan starts no turn: there is none, and nothing was due
        false every command succeeds: zuno mode plan: exit status: 3
        ");
    }
}
