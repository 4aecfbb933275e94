//! A log told in lines: what happened, without ids, times and worker names, which differ each time.

use domain::{Event, EventBody, InputId, RequestEnd, TurnTrigger};

/// One line for each event: number, actor, kind and what matters of the rest.
pub fn story(events: &[Event]) -> String {
    let line = |event: &Event| {
        let told =
            format!("{} {} {} {}", event.seq, event.actor.kind(), event.body.kind(), details(&event.body));
        told.trim_end().to_owned()
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn details(body: &EventBody) -> String {
    match body {
        EventBody::SessionOpened { agent, .. } | EventBody::AgentSelected { agent } => agent.to_string(),
        EventBody::ModeChanged { mode } => mode.to_string(),
        EventBody::PlanRevised { plan, .. } => {
            let active = plan.active().map_or("-", |step| step.id.as_str());
            format!("r{} {}/{} active {active}", plan.revision, plan.completed(), plan.total())
        }
        EventBody::PlanClosed { revision, reason, .. } => format!("r{revision} {:?}", reason.as_str()),
        EventBody::GoalOpened { objective, status, .. } => {
            format!("{} {:?}", status_line(status), objective.as_str())
        }
        EventBody::GoalMoved { to, unfinished_steps, .. } => match unfinished_steps {
            Some(steps) => format!("{}, {steps} steps unfinished", status_line(to)),
            None => status_line(to),
        },
        EventBody::GoalCharged { turn, request, usage, .. } => {
            let amount = if usage.estimated { "estimated".to_owned() } else { usage.charged().to_string() };
            format!("{turn}.{request} {amount}")
        }
        EventBody::GoalBudgetAnnounced { percent, .. } => format!("{percent} %"),
        EventBody::RetryScheduled { retry, .. } => format!("{} after {}", retry.attempt, retry.failure),
        EventBody::InputQueued { input, text, goal_id, .. } => {
            let kind = if input.is_of_person() { String::new() } else { format!("{} ", input.name()) };
            let of_goal = if goal_id.is_some() { " of the Goal" } else { "" };
            format!("{kind}{:?}{of_goal}", text.as_str())
        }
        EventBody::InputConsumed { turn, rows } => format!("by {turn}: {}", rows_line(rows)),
        EventBody::InputReturned { row } => row.to_string(),
        EventBody::InputCancelled { row, reason } => format!("{row} {reason:?}"),
        EventBody::RetryCleared { .. }
        | EventBody::InboxHeld
        | EventBody::InboxReleased
        | EventBody::GoalAmendmentDeclined { .. }
        | EventBody::GoalWaitMet { .. }
        | EventBody::GoalWaitLifted { .. }
        | EventBody::GoalTimeCharged { .. } => String::new(),
        EventBody::GoalEdited { objective, .. } => format!("{:?}", objective.as_str()),
        EventBody::GoalBudgetChanged { budgets, .. } => {
            format!("{} tokens, {} turns, {} ms", budgets.tokens, budgets.turns, budgets.active_ms)
        }
        EventBody::GoalAmendmentProposed { amendment, .. } => format!("{:?}", amendment.objective.as_str()),
        EventBody::GoalBlockStaged { turn, reason, .. } => format!("{turn} {:?}", reason.as_str()),
        EventBody::GoalWaitSet { wait, .. } => wait.condition.to_string(),
        EventBody::RequestOpened { request } => format!("{} of {}", request.id, request.turn),
        EventBody::RequestSettled { request, end } => match end {
            RequestEnd::Answered { .. } => format!("{request} answered"),
            RequestEnd::Cancelled => format!("{request} cancelled"),
        },
        EventBody::CommandStarted { command } => format!("{} {:?}", command.id, command.title.as_str()),
        EventBody::CommandStopRequested { command } => command.to_string(),
        EventBody::CommandEnded { command, outcome, .. } => format!("{command} {}", outcome.name()),
        EventBody::JobStarted { job } => format!("{} {} {:?}", job.id, job.agent, job.title.as_str()),
        EventBody::JobEnded { job, outcome } => format!("{job} {}", outcome.name()),
        EventBody::TurnStarted { turn, agent, trigger, goal, .. } => {
            let cause = match trigger {
                TurnTrigger::Input { rows } => format!("input {}", rows_line(rows)),
                TurnTrigger::Goal { continuation, .. } => format!("continuation {continuation}"),
            };
            let bound = if goal.is_some() { ", bound" } else { "" };
            format!("{turn} {agent} for {cause}{bound}")
        }
        EventBody::TurnStopRequested { turn, reason } => format!("{turn} {reason}"),
        EventBody::ModelRequested { turn, request, attempt, .. } => {
            format!("{turn}.{request} attempt {attempt}")
        }
        EventBody::ModelFailed { turn, request, attempt, failure, retry_at } => {
            let then = if retry_at.is_some() { "again" } else { "gives up" };
            format!("{turn}.{request} attempt {attempt} {}, {then}", failure.kind)
        }
        EventBody::ModelResponded { turn, request, text, calls, .. } => {
            let calls: Vec<_> = calls.iter().map(|call| call.tool.as_str()).collect();
            format!("{turn}.{request} {text:?} calls [{}]", calls.join(", "))
        }
        EventBody::CallAdmitted { call, tool, .. } => format!("{call} {tool}"),
        EventBody::CallFinished { call, tool, outcome, .. } => format!("{call} {tool} {}", outcome.name()),
        EventBody::TurnEnded { turn, outcome } => match outcome {
            domain::TurnOutcome::Stopped { reason } => format!("{turn} stopped {reason}"),
            domain::TurnOutcome::Failed { failure } => format!("{turn} failed {}", failure.kind),
            other => format!("{turn} {}", other.name()),
        },
        EventBody::TurnLost { turn } => turn.to_string(),
    }
}

fn rows_line(rows: &[InputId]) -> String {
    rows.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn status_line(status: &domain::GoalStatus) -> String {
    match status {
        domain::GoalStatus::Paused(reason) => format!("paused {}", reason.name()),
        domain::GoalStatus::Blocked { code, .. } => format!("blocked {}", code.name()),
        other => other.state().to_string(),
    }
}
