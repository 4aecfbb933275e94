//! One event as one line, for timelines.

use std::fmt::Write as _;

use domain::{
    CallOutcome, Condition, Confinement, Event, EventBody, InputCancelReason, InputKind, JobOutcome,
    ModelCall, TurnOutcome, TurnTrigger, WaitOver,
};

use super::goal::{active_time, status_words, wait_words};
use super::{count, cut, number, one_line, request, time};

/// Columns for what a call is about.
const ARGUMENTS_COLUMNS: usize = 60;
/// Characters of a text that stands in a line of a timeline: an objective fits, the output of a program in one endless
/// line does not. JSON has all of it.
const LINE_CHARS: usize = domain::OBJECTIVE_CHARS;

/// What happened, without time and actor.
pub(crate) fn describe(event: &Event) -> String {
    match &event.body {
        EventBody::SessionOpened { workspace, agent } => {
            format!("session opened in {} for agent {agent}", one_line(workspace))
        }
        EventBody::AgentSelected { agent } => format!("agent {agent} selected for Work mode"),
        EventBody::ModeChanged { mode } => format!("mode changed to {mode}"),
        EventBody::PlanRevised { plan, .. } => {
            let active = plan.active().map(|step| format!(", [>] {}", one_line(step.id.as_str())));
            format!(
                "plan revision {}: {} of {} completed{}",
                plan.revision,
                plan.completed(),
                plan.total(),
                active.unwrap_or_default()
            )
        }
        EventBody::PlanClosed { revision, reason, .. } => {
            format!("plan closed at revision {revision}: {}", one_line(reason.as_str()))
        }
        EventBody::InputQueued { input, text, .. } => {
            format!("{} queued: {}", input_words(*input), first_line(text.as_str()))
        }
        EventBody::InputConsumed { turn, rows } => {
            format!("turn {turn} took {} into its history", count(rows.len(), "input"))
        }
        EventBody::InputReturned { row } => format!("input {row} went back to the queue"),
        EventBody::InputCancelled { row, reason } => format!("input {row} cancelled: {}", cancelled(*reason)),
        EventBody::InboxHeld => "queued input held until you act".to_owned(),
        EventBody::InboxReleased => "queued input released".to_owned(),
        EventBody::RequestOpened { request } => {
            format!("request {}: {}", request.id, request::asked(request))
        }
        EventBody::RequestSettled { request, end } => format!("request {request} {}", request::settled(end)),
        EventBody::JobStarted { job } => {
            format!("job {} ({}) started: {}", job.id, job.agent, one_line(job.title.as_str()))
        }
        EventBody::JobEnded { job, outcome } => format!("job {job} {}", job_ended(*outcome)),
        EventBody::CommandStarted { command } => {
            format!("background command {} started: {}", command.id, one_line(command.title.as_str()))
        }
        EventBody::CommandStopRequested { command } => {
            format!("background command {command} asked to stop")
        }
        EventBody::CommandEnded { command, outcome, .. } => {
            format!("background command {command} ended: {}", outcome.name())
        }
        EventBody::GoalOpened { .. }
        | EventBody::GoalMoved { .. }
        | EventBody::GoalEdited { .. }
        | EventBody::GoalBudgetChanged { .. }
        | EventBody::GoalAmendmentProposed { .. }
        | EventBody::GoalAmendmentDeclined { .. }
        | EventBody::GoalBlockStaged { .. }
        | EventBody::GoalWaitSet { .. }
        | EventBody::GoalWaitMet { .. }
        | EventBody::GoalWaitLifted { .. }
        | EventBody::GoalTimeCharged { .. }
        | EventBody::GoalCharged { .. }
        | EventBody::GoalBudgetAnnounced { .. }
        | EventBody::RetryScheduled { .. }
        | EventBody::RetryCleared { .. } => of_goal(&event.body),
        EventBody::TurnStarted { .. }
        | EventBody::TurnStopRequested { .. }
        | EventBody::ModelRequested { .. }
        | EventBody::ModelFailed { .. }
        | EventBody::ModelResponded { .. }
        | EventBody::CallAdmitted { .. }
        | EventBody::CallFinished { .. }
        | EventBody::TurnEnded { .. }
        | EventBody::TurnLost { .. } => of_turn(&event.body),
    }
}

fn of_goal(body: &EventBody) -> String {
    match body {
        EventBody::GoalOpened { objective, status, .. } => {
            format!("Goal opened, {}: {}", status_words(status), first_line(objective.as_str()))
        }
        EventBody::GoalMoved { to, summary, unfinished_steps, .. } => {
            let mut line = format!("Goal {}", status_words(to));
            if let Some(unfinished) = unfinished_steps.filter(|unfinished| *unfinished > 0) {
                let steps = count(usize::try_from(unfinished).unwrap_or(usize::MAX), "plan step");
                let _ = write!(line, " with {steps} unfinished");
            }
            if let Some(summary) = summary {
                let _ = write!(line, ": {}", first_line(summary.as_str()));
            }
            line
        }
        EventBody::GoalEdited { objective, .. } => {
            format!("Goal changed: {}", first_line(objective.as_str()))
        }
        EventBody::GoalBudgetChanged { budgets, .. } => format!(
            "Goal may spend {} tokens, {} turns, {}",
            number(budgets.tokens.get()),
            budgets.turns,
            active_time(budgets.active_ms.get())
        ),
        EventBody::GoalAmendmentProposed { amendment, .. } => {
            format!("change of the Goal proposed: {}", first_line(amendment.objective.as_str()))
        }
        EventBody::GoalAmendmentDeclined { .. } => "proposed change of the Goal declined".to_owned(),
        EventBody::GoalBlockStaged { turn, reason, .. } => {
            format!("turn {turn} calls the Goal blocked: {}", first_line(reason.as_str()))
        }
        EventBody::GoalWaitSet { wait, .. } => format!("Goal waits {}", wait_words(wait)),
        EventBody::GoalWaitMet { .. } => "what the Goal waits for is there".to_owned(),
        EventBody::GoalWaitLifted { .. } => "Goal waits no more".to_owned(),
        EventBody::GoalTimeCharged { active_ms, .. } => {
            format!("Goal charged {} of active time", active_time(*active_ms))
        }
        EventBody::GoalCharged { turn, usage, .. } => {
            let estimated = if usage.estimated { " (estimated)" } else { "" };
            format!("Goal charged {} tokens{estimated} for turn {turn}", number(usage.charged()))
        }
        EventBody::GoalBudgetAnnounced { percent, .. } => {
            format!("Goal has used {percent} % of a budget or more")
        }
        EventBody::RetryScheduled { retry, .. } => {
            format!("retry {} after {}, not before {}", retry.attempt, retry.failure, time(retry.at))
        }
        EventBody::RetryCleared { .. } => "retry over".to_owned(),
        other => other.kind().to_owned(),
    }
}

fn of_turn(body: &EventBody) -> String {
    match body {
        EventBody::TurnStarted { turn, agent, model, trigger, goal, wait_over, confinement, .. } => {
            let cause = match trigger {
                TurnTrigger::Input { .. } if goal.is_some() => "input under the Goal".to_owned(),
                TurnTrigger::Input { .. } => "input".to_owned(),
                TurnTrigger::Goal { continuation, .. } => format!("Goal continuation {continuation}"),
            };
            let waited = wait_over.as_ref().map(waited).unwrap_or_default();
            let walls = match confinement {
                Some(Confinement::Off) => ", commands WITHOUT A SANDBOX",
                Some(Confinement::Landlock) => ", commands behind Landlock alone",
                Some(Confinement::Full) | None => "",
            };
            format!("turn {turn} started: {cause} ({agent}, {model}){waited}{walls}")
        }
        EventBody::TurnStopRequested { turn, reason } => format!("turn {turn} asked to stop: {reason}"),
        EventBody::ModelRequested { turn, request, attempt, .. } => {
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            format!("turn {turn} asks the model, request {request}{again}")
        }
        EventBody::ModelFailed { failure, retry_at, .. } => {
            let next = match retry_at {
                Some(at) => format!("; trying again at {}", time(*at)),
                None => "; giving up".to_owned(),
            };
            format!("the model failed: {}: {}{next}", failure.kind, first_line(&failure.detail))
        }
        EventBody::ModelResponded { text, calls, .. } => match (text.trim(), calls.len()) {
            ("", calls) => format!("the model asks for {}", count(calls, "call")),
            (text, 0) => format!("the model says: {}", first_line(text)),
            (text, calls) => format!("the model says: {} (and {})", first_line(text), count(calls, "call")),
        },
        EventBody::CallAdmitted { call, tool, .. } => format!("call {call} {} admitted", one_line(tool)),
        EventBody::CallFinished { call, tool, outcome, result, .. } => {
            format!("call {call} {} {}", one_line(tool), call_told(tool, *outcome, result))
        }
        EventBody::TurnEnded { turn, outcome: ended } => format!("turn {turn} {}", outcome(ended)),
        EventBody::TurnLost { turn } => format!("turn {turn} was lost with its worker and recovered"),
        other => other.kind().to_owned(),
    }
}

/// What a turn has behind it, in words that follow its start.
fn waited(over: &WaitOver) -> String {
    let what = one_line(&over.condition.to_string()).into_owned();
    match (&over.condition, over.is_met) {
        (Condition::Time, _) => "; the wait is over".to_owned(),
        (_, true) => format!("; it waited for {what}"),
        (_, false) => format!("; it waited in vain for {what}"),
    }
}

/// How a turn ended, in words that follow its number.
pub(crate) fn outcome(outcome: &TurnOutcome) -> String {
    match outcome {
        TurnOutcome::Completed => "completed".to_owned(),
        TurnOutcome::Waiting { request } => format!("waits for the answer to request {request}"),
        TurnOutcome::Interrupted => "was interrupted".to_owned(),
        TurnOutcome::Stopped { reason } => format!("was stopped: {reason}"),
        TurnOutcome::Failed { failure } => {
            format!("failed: {}: {}", failure.kind, first_line(&failure.detail))
        }
    }
}

const fn job_ended(outcome: JobOutcome) -> &'static str {
    match outcome {
        JobOutcome::Succeeded => "succeeded",
        JobOutcome::Failed => "failed",
        JobOutcome::Cancelled => "was cancelled",
        JobOutcome::Uncertain => "was cut off in the middle of something that may have happened",
    }
}

const fn input_words(input: InputKind) -> &'static str {
    match input {
        InputKind::User => "input",
        InputKind::Steer => "word to the running turn",
        InputKind::Report => "report",
        InputKind::Answer => "answer",
        InputKind::Task => "task",
    }
}

const fn cancelled(reason: InputCancelReason) -> &'static str {
    match reason {
        InputCancelReason::ReturnedTooOften => "turn after turn was lost before it could run",
        InputCancelReason::Interrupted => "its turn was interrupted",
        InputCancelReason::TurnFailed => "its turn failed before it reached the model",
        InputCancelReason::GoalEnded => "its Goal ended",
        InputCancelReason::JobEnded => "its job ended",
    }
}

/// How a call ended and what it answered, in words that follow its tool. An answer that begins with its outcome says
/// it once.
pub(crate) fn call_told(tool: &str, outcome: CallOutcome, result: &str) -> String {
    let told = first_line(result);
    let said = told.strip_prefix(tool).map_or(told.as_str(), str::trim_start);
    match said.strip_prefix(outcome.name().replace('_', " ").as_str()) {
        Some(rest) if !rest.starts_with(char::is_alphanumeric) => said.to_owned(),
        _ if told.is_empty() => outcome.name().to_owned(),
        _ => format!("{}: {told}", outcome.name()),
    }
}

/// The first line of a text, with a sign where it goes on.
pub(super) fn first_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let cut = cut(first, LINE_CHARS);
    if lines.next().is_some() && !cut.ends_with('…') { format!("{cut} …") } else { cut }
}

/// What a call is about, in a few words: the first text among its arguments that tells, or nothing.
pub(crate) fn call_subject(call: &ModelCall) -> String {
    let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let told =
        ["path", "file_path", "command", "pattern", "title", "status", "reason", "question", "objective"];
    let subject = told.iter().find_map(|key| arguments.get(key)?.as_str());
    subject.map(|subject| cut(first_line(subject).as_str(), ARGUMENTS_COLUMNS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use domain::{
        Actor, Amendment, Answer, Asked, BackgroundCommand, Budgets, CallRef, CommandId, Effect, GoalId,
        GoalStatus, HumanRequest, LaneId, PauseReason, RequestEnd, RequestId, Seq, Timestamp, Wait,
    };

    use super::*;

    const AT: Timestamp = Timestamp(1_767_225_600_000);

    fn text<const MAX: usize>(text: &str) -> domain::Text<MAX> {
        domain::Text::parse(text).unwrap()
    }

    fn told(body: EventBody) -> String {
        let actor = Actor::Runtime { worker: "w-1".parse().unwrap() };
        let line = describe(&Event { seq: Seq(1), at: AT, actor, body, command_key: None });
        // Wherever this is tested, it is another time there.
        line.replace(&time(AT), "TIME")
    }

    #[test]
    fn what_a_goal_goes_through_is_told_in_a_line_each() {
        let goal_id = GoalId::from_u128(1);
        let turn = domain::TurnNumber(4);
        let moved = |to| EventBody::GoalMoved { goal_id, to, summary: None, unfinished_steps: None };
        let wait = |condition, note: Option<&str>| EventBody::GoalWaitSet {
            goal_id,
            wait: Wait { condition, deadline: AT, note: note.map(text), is_met: false },
        };
        let command = CommandId(2);
        let file = Condition::File { path: text("build.log"), baseline: None };
        let amendment = Amendment { objective: text("Export and import"), criteria: None };
        let lines = [
            EventBody::GoalEdited { goal_id, objective: text("Export"), criteria: None },
            EventBody::GoalBudgetChanged { goal_id, budgets: Budgets::default() },
            EventBody::GoalAmendmentProposed { goal_id, amendment },
            EventBody::GoalAmendmentDeclined { goal_id },
            EventBody::GoalBlockStaged { goal_id, turn, reason: text("no access\nat all") },
            wait(Condition::Time, None),
            wait(Condition::Command { command }, Some("the build")),
            wait(file, None),
            wait(Condition::Inbox, None),
            EventBody::GoalWaitMet { goal_id },
            EventBody::GoalWaitLifted { goal_id },
            EventBody::GoalTimeCharged { goal_id, active_ms: 754_000 },
            moved(GoalStatus::Paused(PauseReason::NoProgress)),
            moved(GoalStatus::Paused(PauseReason::Permission { request: RequestId(3) })),
            moved(GoalStatus::BudgetLimited),
        ];
        insta::assert_snapshot!(lines.map(told).join("\n"), @r"
        Goal changed: Export
        Goal may spend 2,000,000 tokens, 200 turns, 8 h
        change of the Goal proposed: Export and import
        proposed change of the Goal declined
        turn 4 calls the Goal blocked: no access …
        Goal waits until TIME
        Goal waits for the end of background command 2, until TIME at most (the build)
        Goal waits for a change of build.log, until TIME at most
        Goal waits for an input, until TIME at most
        what the Goal waits for is there
        Goal waits no more
        Goal charged 12 min of active time
        Goal paused: no_progress
        Goal paused: permission, request 3
        Goal budget_limited
        ");
    }

    #[test]
    fn requests_commands_and_inputs_are_told_in_a_line_each() {
        let call = CallRef { turn: domain::TurnNumber(2), request: 1, index: 0 };
        let (lane, turn, request, command) = (LaneId::main(), call.turn, RequestId(3), CommandId(1));
        let asked = |asked| {
            let lane = LaneId::main();
            let request = HumanRequest { id: request, lane, turn, goal_id: None, at: AT, asked };
            EventBody::RequestOpened { request }
        };
        let answered = |answer| EventBody::RequestSettled { request, end: RequestEnd::Answered { answer } };
        let queued = |input| EventBody::InputQueued {
            lane: LaneId::main(),
            input,
            text: text("first\nsecond"),
            goal_id: None,
            runs: None,
        };
        let lines = [
            asked(Asked::Input { question: text("Which format?"), options: Vec::new() }),
            asked(Asked::Permission {
                call,
                tool: "shell".to_owned(),
                subject: text("shell: cargo publish"),
                because: "no rule allows it".to_owned(),
                fingerprint: domain::Fingerprint::default(),
            }),
            answered(Answer::Text { text: text("TOML") }),
            answered(Answer::Allow),
            answered(Answer::Deny { reason: None }),
            answered(Answer::Deny { reason: Some(text("not yet")) }),
            EventBody::RequestSettled { request, end: RequestEnd::Cancelled },
            EventBody::CommandStarted {
                command: BackgroundCommand {
                    id: command,
                    lane,
                    call,
                    goal_id: None,
                    title: text("npm run \u{1b}[31mdev"),
                    effect: Effect::Command { confined: false },
                    since: AT,
                    is_stopping: false,
                },
            },
            EventBody::CommandStopRequested { command },
            EventBody::CommandEnded { command, outcome: CallOutcome::Stopped, full_output: None },
            queued(InputKind::User),
            queued(InputKind::Steer),
            queued(InputKind::Report),
            queued(InputKind::Answer),
            EventBody::TurnEnded { turn, outcome: TurnOutcome::Waiting { request } },
        ];
        insta::assert_snapshot!(lines.map(told).join("\n"), @r"
        request 3: Which format?
        request 3: may it run shell: cargo publish?
        request 3 answered: TOML
        request 3 allowed, once
        request 3 denied
        request 3 denied: not yet
        request 3 not waited for any more
        background command 1 started: npm run \u{1b}[31mdev
        background command 1 asked to stop
        background command 1 ended: stopped
        input queued: first …
        word to the running turn queued: first …
        report queued: first …
        answer queued: first …
        turn 2 waits for the answer to request 3
        ");
    }

    #[test]
    fn a_turn_says_what_it_waited_for() {
        let over = |condition, is_met| waited(&WaitOver { condition, is_met });
        assert_eq!(over(Condition::Time, false), "; the wait is over");
        assert_eq!(over(Condition::Inbox, true), "; it waited for an input");
        let command = Condition::Command { command: CommandId(1) };
        assert_eq!(over(command, false), "; it waited in vain for the end of background command 1");
    }

    #[test]
    fn an_outcome_is_said_once() {
        let told = |outcome, result: &str| call_told("plan_update", outcome, result);
        let refused = "plan_update refused, nothing changed. blank_title: the title is blank";
        assert_eq!(
            told(CallOutcome::Refused, refused),
            "refused, nothing changed. blank_title: the title is blank"
        );
        assert_eq!(told(CallOutcome::Denied, "denied: it needs network"), "denied: it needs network");
        assert_eq!(told(CallOutcome::Invalid, "invalid arguments: none\nmore"), "invalid arguments: none …");
        assert_eq!(told(CallOutcome::Invalid, "invalidated"), "invalid: invalidated");
        assert_eq!(told(CallOutcome::Failed, "exit code 3"), "failed: exit code 3");
        assert_eq!(told(CallOutcome::NotRun, ""), "not_run");
        assert_eq!(told(CallOutcome::NotRun, "not run: the turn ends"), "not run: the turn ends");
    }

    #[test]
    fn a_call_is_told_by_its_subject() {
        let call = |arguments: &str| {
            call_subject(&ModelCall { tool: "shell".to_owned(), arguments: arguments.to_owned() })
        };
        assert_eq!(call(r#"{"command":"cargo test\nls"}"#), "cargo test …");
        assert_eq!(call(r#"{"path":"a\u001b[2J.rs","content":"x"}"#), "a\\u{1b}[2J.rs");
        assert_eq!(call("not json"), "");
    }
}
