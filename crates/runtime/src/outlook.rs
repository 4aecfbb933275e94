//! What happens next in words, and what a person can do about it (T2): "not continuing because …".

use domain::{BlockCode, CommandId, Condition, JobId, PauseReason, RequestId, Timestamp, Wait};
use policy::{Awaited, Delay, IdleReason, NextAction};
use schemars::JsonSchema;
use serde::Serialize;

use crate::owner::WorkerState;
use crate::projection::{CommandView, JobView, TurnView};

/// Why a session does what it does next, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Outlook {
    /// Whether anything happens without a person: in time, or when something is over.
    pub goes_on: bool,
    /// Why, as a clause: "the Goal is paused: you interrupted it".
    pub because: String,
    /// The moment that the clause is about, if it is about one.
    pub at: Option<Timestamp>,
    /// What a person can do to have it go on, the usual thing first.
    pub remedies: Vec<Remedy>,
}

/// Something a person can do. Clients say it in their own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Remedy {
    /// Let the Goal go on.
    ResumeGoal,
    /// Answer a request.
    Answer {
        /// The request.
        request: RequestId,
    },
    /// Accept what an agent proposes.
    AcceptGoal,
    /// Raise the Goal's budget.
    RaiseBudget,
    /// Leave Plan mode.
    StartWork,
    /// Set a Goal.
    SetGoal,
    /// Send a message.
    SendMessage,
    /// Send a message and let the Goal go on with it.
    ResumeWithMessage,
    /// Start a worker, unless one is there: what is due runs under one.
    RunWorker,
}

impl Outlook {
    pub(crate) fn of(
        next: &NextAction,
        running: Option<&TurnView>,
        commands: &[CommandView],
        jobs: &[JobView],
    ) -> Self {
        match next {
            NextAction::RunInput { .. } => Self::due("an input waits for its turn".to_owned()),
            NextAction::RunGoal { continuation, .. } => {
                Self::due(format!("the Goal is due: continuation {continuation}"))
            }
            NextAction::WaitUntil { at, cause: Delay::Retry { retry } } => {
                let because =
                    format!("the last turn failed ({}), attempt {} follows", retry.failure, retry.attempt);
                Self { at: Some(*at), remedies: vec![Remedy::ResumeGoal], ..Self::going(because) }
            }
            NextAction::WaitUntil { at, cause: Delay::Wait { wait } } => {
                Self { at: Some(*at), remedies: vec![Remedy::ResumeGoal], ..Self::going(waiting(wait)) }
            }
            NextAction::WaitFor { what: Awaited::Turn { turn } } => match running {
                None => Self::going(format!("turn {turn} runs")),
                Some(running) => Self::of_turn(running),
            },
            NextAction::WaitFor { what: Awaited::Condition { wait } } => {
                let awaited = match wait.condition {
                    Condition::Command { command } => lost(commands, &[command]),
                    Condition::Job { job } => lost_job(jobs, &[job]),
                    Condition::Time | Condition::File { .. } | Condition::Inbox => None,
                };
                if let Some(lost) = awaited {
                    return Self::due(format!("{}{lost}", waiting(wait)));
                }
                let remedies = vec![Remedy::ResumeGoal, Remedy::SendMessage];
                Self { at: Some(wait.deadline), remedies, ..Self::going(waiting(wait)) }
            }
            NextAction::WaitFor { what: Awaited::Commands { commands: awaited } } => {
                let numbers: Vec<_> = awaited.iter().map(ToString::to_string).collect();
                let s = if awaited.len() == 1 { "" } else { "s" };
                let because = format!("the Goal waits for background command{s} {}", numbers.join(", "));
                match lost(commands, awaited) {
                    None => Self { remedies: vec![Remedy::SendMessage], ..Self::going(because) },
                    Some(lost) => Self::due(format!("{because}{lost}")),
                }
            }
            NextAction::WaitFor { what: Awaited::Jobs { jobs: awaited } } => {
                let numbers: Vec<_> = awaited.iter().map(ToString::to_string).collect();
                let s = if awaited.len() == 1 { "" } else { "s" };
                let because = format!("the Goal waits for job{s} {}", numbers.join(", "));
                match lost_job(jobs, awaited) {
                    None => Self { remedies: vec![Remedy::SendMessage], ..Self::going(because) },
                    Some(lost) => Self::due(format!("{because}{lost}")),
                }
            }
            NextAction::Idle { why } => Self::idle(why),
        }
    }

    fn of_turn(running: &TurnView) -> Self {
        let turn = running.turn;
        if running.worker.is_lost() {
            let gone = gone(running.worker);
            return Self::due(format!("the worker of turn {turn} {gone}; the next worker recovers the turn"));
        }
        match running.again {
            None => Self::going(format!("turn {turn} runs")),
            Some(again) => {
                let failure = again.failure;
                let because = format!(
                    "turn {turn} runs: the model failed ({failure}), attempt {} follows",
                    again.attempt
                );
                Self { at: Some(again.at), ..Self::going(because) }
            }
        }
    }

    /// What the next worker does.
    fn due(because: String) -> Self {
        Self { remedies: vec![Remedy::RunWorker], ..Self::going(because) }
    }

    const fn going(because: String) -> Self {
        Self { goes_on: true, because, at: None, remedies: Vec::new() }
    }

    fn idle(why: &IdleReason) -> Self {
        let (because, remedies) = match why {
            IdleReason::NothingToDo => {
                ("there is no input and no Goal".to_owned(), vec![Remedy::SendMessage])
            }
            IdleReason::TurnLost { turn } => (
                format!("the worker of turn {turn} died, and no Goal goes on by itself"),
                vec![Remedy::SendMessage],
            ),
            IdleReason::TurnFailed { turn, failure } => {
                (format!("turn {turn} failed: {failure}"), vec![Remedy::SendMessage])
            }
            IdleReason::AwaitingAnswer { request } => (
                format!("request {request} waits for your answer"),
                vec![Remedy::Answer { request: *request }],
            ),
            IdleReason::InboxHeld => (
                "you interrupted, and queued input is held until you act".to_owned(),
                vec![Remedy::SendMessage, Remedy::ResumeGoal],
            ),
            IdleReason::GoalProposed => {
                ("the Goal waits for you to accept it".to_owned(), vec![Remedy::AcceptGoal])
            }
            IdleReason::GoalPaused { pause } => {
                (format!("the Goal is paused: {}", paused(*pause)), remedies_of_pause(*pause))
            }
            IdleReason::GoalBlocked { code, detail } => {
                let colon = if detail.is_empty() { "" } else { ": " };
                let remedies = match code {
                    BlockCode::AgentDeclared => vec![Remedy::ResumeWithMessage, Remedy::ResumeGoal],
                    _ => vec![Remedy::ResumeGoal],
                };
                (format!("the Goal is blocked, {}{colon}{detail}", blocked(*code)), remedies)
            }
            IdleReason::GoalBudgetLimited => {
                ("a budget of the Goal is used up".to_owned(), vec![Remedy::RaiseBudget])
            }
            IdleReason::GoalCompleted => ("the Goal is completed".to_owned(), vec![Remedy::SetGoal]),
            IdleReason::GoalCancelled => ("the Goal was cancelled".to_owned(), vec![Remedy::SetGoal]),
        };
        Self { goes_on: false, because, at: None, remedies }
    }
}

/// What is to be known of the first of these commands that nobody looks after, in words that follow its number.
fn lost(commands: &[CommandView], awaited: &[CommandId]) -> Option<String> {
    let lost = commands.iter().find(|view| awaited.contains(&view.command.id) && view.worker.is_lost())?;
    let (id, gone) = (lost.command.id, gone(lost.worker));
    Some(format!("; the worker of command {id} {gone}, and the next one records its end"))
}

/// What is to be said of the first of these jobs whose worker is gone.
fn lost_job(jobs: &[JobView], awaited: &[JobId]) -> Option<String> {
    let awaited = jobs.iter().filter(|view| awaited.contains(&view.job.id));
    let mut turns = awaited.filter_map(|view| Some((view.job.id, view.running.as_ref()?.worker)));
    let (id, worker) = turns.find(|(_, worker)| worker.is_lost())?;
    let gone = gone(worker);
    Some(format!("; the worker of job {id} {gone}, and the next one records its end"))
}

const fn gone(worker: WorkerState) -> &'static str {
    match worker {
        WorkerState::Works { .. } => "is there",
        WorkerState::Silent { .. } => "is gone or hangs",
        WorkerState::Gone => "is gone",
    }
}

fn waiting(wait: &Wait) -> String {
    let what = match wait.condition {
        Condition::Time => "the agent waits".to_owned(),
        Condition::Command { .. } | Condition::Job { .. } | Condition::File { .. } | Condition::Inbox => {
            format!("the agent waits for {}", wait.condition)
        }
    };
    match &wait.note {
        Some(note) => format!("{what} ({note})"),
        None => what,
    }
}

fn paused(reason: PauseReason) -> String {
    match reason {
        PauseReason::PlanMode => "Plan mode holds it".to_owned(),
        PauseReason::NoProgress => "its turns brought no progress".to_owned(),
        PauseReason::RepeatedFailure => "turn after turn failed or was lost".to_owned(),
        PauseReason::HumanInput { request } => format!("request {request} waits for your answer"),
        PauseReason::Permission { request } => format!("request {request} waits for your leave"),
        PauseReason::Interrupted => "you interrupted it".to_owned(),
        PauseReason::User => "you paused it".to_owned(),
        PauseReason::Authentication => "the provider does not accept the key; set another".to_owned(),
        PauseReason::Quota => "the provider's account has nothing left to spend; top it up".to_owned(),
        PauseReason::UncertainSideEffect { call } => {
            format!("call {call} may have happened, and nobody can tell; look before you resume")
        }
    }
}

fn remedies_of_pause(reason: PauseReason) -> Vec<Remedy> {
    match reason {
        PauseReason::PlanMode => vec![Remedy::StartWork],
        PauseReason::HumanInput { request } | PauseReason::Permission { request } => {
            vec![Remedy::Answer { request }, Remedy::ResumeGoal]
        }
        PauseReason::NoProgress => vec![Remedy::ResumeWithMessage, Remedy::ResumeGoal],
        PauseReason::RepeatedFailure
        | PauseReason::Interrupted
        | PauseReason::User
        | PauseReason::Authentication
        | PauseReason::Quota
        | PauseReason::UncertainSideEffect { .. } => vec![Remedy::ResumeGoal],
    }
}

const fn blocked(code: BlockCode) -> &'static str {
    match code {
        BlockCode::AgentDeclared => "as three turns in a row declared",
        BlockCode::PermissionDenied => "since you denied what it asked for",
        BlockCode::ModelUnavailable => "since the provider has no such model",
        BlockCode::ProviderRefused => "since the provider declined to answer",
        BlockCode::ProviderProtocol => "since the provider's answer cannot be read",
        BlockCode::UnsupportedCapability => "since this model cannot do what the request needs",
        BlockCode::PromptTooLarge => "since the request is larger than the model's window",
        BlockCode::CorruptState => "since what is stored contradicts itself",
        BlockCode::NoSuchAgent => "since its agent does not exist",
    }
}
