//! Sessions: one in full, many in a list, and the mode.

use std::fmt::Write as _;

use domain::{Mode, Timestamp, TurnEnd, TurnTrigger};
use policy::{IdleReason, NextAction};
use runtime::{ModeView, SessionView, TurnView, WorkerState};
use store::SessionSummary;

use super::goal::{tokens, turns_and_time};
use super::next::{Hints, next_lines};
use super::{count, duration_ms, fitted, goal_state, one_line, progress, request, steps, time, wrapped};
use crate::session_name::short_forms;

/// Columns before the value of a line.
const LABEL: usize = 11;

/// A session at a glance.
pub(crate) fn session(view: &SessionView, hints: Hints, now: Timestamp) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        let _ = writeln!(out, "{label:<LABEL$}{}", wrapped(LABEL, text));
    };
    line("session", &view.session.to_string());
    if let Some(title) = &view.title {
        line("title", title);
    }
    line("workspace", &view.workspace);
    line("mode", &mode(&view.mode_view()));
    match &view.goal {
        None => line("goal", "none"),
        Some(goal) => {
            line("goal", &goal.objective);
            line("", &goal_state(goal, view));
            line("", &tokens(goal));
            line("", &turns_and_time(goal));
        }
    }
    line("turn", &turn(view, now));
    for request in &view.requests {
        line("request", &format!("{}: {}", request.id, request::asked(request)));
    }
    for command in &view.commands {
        line("runs", &format!("background command {}", request::command(command, now)));
    }
    if view.queued_inputs > 0 {
        line("queue", &count(view.queued_inputs, "input"));
    }
    for (at, text) in next_lines(view, hints, now).iter().enumerate() {
        line(if at == 0 { "next" } else { "" }, text);
    }
    match &view.plan {
        None => line("plan", "none"),
        Some(plan) => {
            line("plan", &plan.title);
            let closed = if plan.closed.is_some() { ", closed" } else { "" };
            line("", &format!("{}{closed}", progress(plan)));
            out.push_str(&steps(&plan.steps));
        }
    }
    out
}

fn turn(view: &SessionView, now: Timestamp) -> String {
    if let Some(running) = &view.running {
        return running_turn(running, now);
    }
    match &view.last_turn {
        None => "none so far".to_owned(),
        Some(TurnEnd::Lost { turn }) => format!("the last one, {turn}, was lost with its worker"),
        // What comes next says why.
        Some(TurnEnd::Ended { turn, .. }) if is_about_failure(view) => {
            format!("the last one, {turn}, failed")
        }
        Some(TurnEnd::Ended { turn, outcome }) => {
            format!("the last one, {turn}, {}", super::event::outcome(outcome))
        }
    }
}

const fn is_about_failure(view: &SessionView) -> bool {
    matches!(view.next, NextAction::Idle { why: IdleReason::TurnFailed { .. } })
}

fn running_turn(turn: &TurnView, now: Timestamp) -> String {
    let cause = match &turn.trigger {
        TurnTrigger::Input { .. } => "input".to_owned(),
        TurnTrigger::Goal { continuation, .. } => format!("continuation {continuation} of the Goal"),
    };
    let stop = turn.stop.map(|stop| format!(", asked to stop: {stop}")).unwrap_or_default();
    let (verb, gone) = match turn.worker {
        WorkerState::Works { .. } => ("runs", String::new()),
        WorkerState::Gone => ("was running", "; its worker is gone".to_owned()),
        WorkerState::Silent { since } => {
            let ago = duration_ms(now.0.saturating_sub(since.0));
            ("was running", format!("; its worker is gone or hangs: its lease ended {ago} ago"))
        }
    };
    format!("{} {verb} for {cause} (agent {}, model {}){stop}{gone}", turn.turn, turn.agent, turn.model)
}

/// The mode with its agent: `work (agent build)`.
pub(crate) fn mode(view: &ModeView) -> String {
    let agent = view.agent.as_ref().map(|agent| format!(" (agent {agent})")).unwrap_or_default();
    let remembered = match (view.mode, &view.work_agent) {
        (Mode::Plan, Some(agent)) => format!("; `zuno mode work` goes back to {agent}"),
        (Mode::Plan | Mode::Work, _) => String::new(),
    };
    let entering = if view.entering { ", entering: a turn is still stopping" } else { "" };
    format!("{}{agent}{entering}{remembered}", view.mode)
}

/// Sessions, the latest first.
pub(crate) fn list(sessions: &[SessionSummary], with_workspace: bool, columns: Option<usize>) -> String {
    let ids: Vec<_> = sessions.iter().map(|session| session.id).collect();
    let named = short_forms(&ids).into_iter().zip(sessions);
    named.map(|(name, session)| summary(&name, session, with_workspace, columns)).collect()
}

fn summary(name: &str, session: &SessionSummary, with_workspace: bool, columns: Option<usize>) -> String {
    let mut facts = vec![format!("{} mode", one_line(&session.mode))];
    if let Some(goal) = &session.goal_status {
        facts.push(format!("Goal {}", one_line(goal)));
    }
    if let Some(plan) = &session.plan {
        let closed = if plan.closed { " (closed)" } else { "" };
        facts.push(format!("plan {} of {}{closed}", plan.completed, plan.total));
    }
    let mut out = format!("{name}  {}\n  {}\n", time(session.updated_at), facts.join(", "));
    if let Some(title) = &session.title {
        let _ = writeln!(out, "{}", fitted(&format!("  {title}"), columns));
    }
    if with_workspace {
        let _ = writeln!(out, "  {}", one_line(&session.workspace));
    }
    out
}

#[cfg(test)]
mod tests {
    use domain::TurnNumber;

    use super::*;

    #[test]
    fn a_turn_whose_worker_is_gone_is_not_said_to_run() {
        let turn = |worker| TurnView {
            turn: TurnNumber(3),
            agent: "build".parse().unwrap(),
            model: "main".parse().unwrap(),
            trigger: TurnTrigger::Input { rows: Vec::new() },
            request: 1,
            stop: None,
            again: None,
            worker,
        };
        let told = |worker| running_turn(&turn(worker), Timestamp(60_000));
        insta::assert_snapshot!(told(WorkerState::Works { until: Timestamp(70_000) }), @"3 runs for input (agent build, model main)");
        insta::assert_snapshot!(told(WorkerState::Silent { since: Timestamp(20_000) }), @"3 was running for input (agent build, model main); its worker is gone or hangs: its lease ended 40 s ago");
        insta::assert_snapshot!(told(WorkerState::Gone), @"3 was running for input (agent build, model main); its worker is gone");
    }
}
