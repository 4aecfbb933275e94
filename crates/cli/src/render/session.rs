//! Sessions: one in full, many in a list, and the mode.

use std::fmt::Write as _;

use domain::{Mode, Timestamp, TurnEnd, TurnTrigger};
use runtime::{ModeView, SessionView, TurnView};
use store::SessionSummary;

use super::{COLUMNS, count, cut, goal_state, next, one_line, progress, steps, time, wrapped};

/// Columns before the value of a line.
const LABEL: usize = 11;

/// A session at a glance.
pub(crate) fn session(view: &SessionView, now: Timestamp) -> String {
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
            line("", &goal_state(goal));
        }
    }
    line("turn", &turn(view));
    if view.queued_inputs > 0 {
        line("queue", &count(view.queued_inputs, "input"));
    }
    line("next", &next(&view.next, now));
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

fn turn(view: &SessionView) -> String {
    if let Some(running) = &view.running {
        return running_turn(running);
    }
    match &view.last_turn {
        None => "none so far".to_owned(),
        Some(TurnEnd::Lost { turn }) => format!("the last one, {turn}, was lost with its worker"),
        Some(TurnEnd::Ended { turn, outcome }) => {
            format!("the last one, {turn}, {}", super::event::outcome(outcome))
        }
    }
}

fn running_turn(turn: &TurnView) -> String {
    let cause = match &turn.trigger {
        TurnTrigger::Input { .. } => "input".to_owned(),
        TurnTrigger::Goal { continuation, .. } => format!("continuation {continuation} of the Goal"),
    };
    let stop = turn.stop.map(|stop| format!(", asked to stop: {stop}")).unwrap_or_default();
    format!("{} runs for {cause} (agent {}, model {}){stop}", turn.turn, turn.agent, turn.model)
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
pub(crate) fn list(sessions: &[SessionSummary], with_workspace: bool) -> String {
    sessions.iter().map(|session| summary(session, with_workspace)).collect()
}

fn summary(session: &SessionSummary, with_workspace: bool) -> String {
    let mut facts = vec![format!("{} mode", one_line(&session.mode))];
    if let Some(goal) = &session.goal_status {
        facts.push(format!("Goal {}", one_line(goal)));
    }
    if let Some(plan) = &session.plan {
        let closed = if plan.closed { " (closed)" } else { "" };
        facts.push(format!("plan {} of {}{closed}", plan.completed, plan.total));
    }
    let mut out = format!("{}  {}\n  {}\n", session.id, time(session.updated_at), facts.join(", "));
    if let Some(title) = &session.title {
        let _ = writeln!(out, "  {}", cut(title, COLUMNS - 2));
    }
    if with_workspace {
        let _ = writeln!(out, "  {}", one_line(&session.workspace));
    }
    out
}
