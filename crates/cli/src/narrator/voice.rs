//! One session as it is told.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    CallOutcome, CallRef, Event, EventBody, Failure, GoalStatus, InputCancelReason, InputId, InputKind,
    JobId, ModelCall, RequestId, Seq, TurnNumber, TurnOutcome, TurnTrigger,
};
use runtime::{Awaited, Waiting};

use crate::exit::CliError;
use crate::output::{self, Output, dim, write_data};
use crate::render;

/// Columns of one line that stands back.
const LINE_COLUMNS: usize = render::COLUMNS - 4;
/// Columns of what a call is about, beside a long result.
const HEAD_COLUMNS: usize = 32;
/// Columns of what one event may take of a terminal: three lines, and the story still fits a screen.
const EVENT_COLUMNS: usize = 3 * LINE_COLUMNS;

/// Tools whose success shows as a line about the plan, the Goal, a command or a job.
const TOLD_BY_THEIR_EVENT: [&str; 7] =
    ["plan_update", "plan_close", "goal_update", "goal_propose", "goal_wait", "command_stop", "task"];

/// What became of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The turn that took it last, or the answer to what that turn asked.
    pub(crate) turn: Option<TurnNumber>,
    /// How that turn ended.
    pub(crate) outcome: Option<TurnOutcome>,
    /// Why it never ran.
    pub(crate) cancelled: Option<InputCancelReason>,
}

/// Tells one session, event after event.
#[derive(Debug)]
pub(super) struct Voice {
    out: Output,
    /// Requests are shown in another place.
    hides_requests: bool,
    last: Seq,
    /// What was told of the answer under way.
    streamed: String,
    /// Somebody else was told in the middle of that answer: it is told from its beginning once it is complete.
    is_broken: bool,
    /// Lines that came in the middle of a line of that answer, and wait for its end.
    held: Vec<String>,
    /// Calls of the last answer that have no result yet.
    calls: BTreeMap<CallRef, ModelCall>,
    /// The turns that took rows, and how turns ended.
    takers: BTreeMap<InputId, TurnNumber>,
    cancelled: BTreeMap<InputId, InputCancelReason>,
    ended: BTreeMap<TurnNumber, TurnOutcome>,
    /// The request that was settled last, and the rows that hold answers.
    settled: Option<RequestId>,
    answers: BTreeMap<RequestId, InputId>,
    /// Calls whose success shows as a background command.
    started: BTreeSet<CallRef>,
    /// The jobs whose turns these are.
    jobs: BTreeMap<TurnNumber, JobId>,
    /// The call that the person allowed last.
    granted: Option<ModelCall>,
    /// What takes its time.
    doing: Option<String>,
    /// What was last said about waiting, to say it once.
    waiting: Option<Waiting>,
    /// What was last said about a model that failed, to say it once.
    failure: Option<Failure>,
}

impl Voice {
    pub(super) fn new(out: Output, last: Seq, hides_requests: bool) -> Self {
        Self {
            out,
            hides_requests,
            last,
            streamed: String::new(),
            is_broken: false,
            held: Vec::new(),
            calls: BTreeMap::new(),
            takers: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            ended: BTreeMap::new(),
            settled: None,
            answers: BTreeMap::new(),
            started: BTreeSet::new(),
            jobs: BTreeMap::new(),
            granted: None,
            doing: None,
            waiting: None,
            failure: None,
        }
    }

    pub(super) fn saw_turn(&self) -> bool {
        !self.ended.is_empty()
    }

    pub(super) const fn last(&self) -> Seq {
        self.last
    }

    pub(super) fn is_new(&self, seq: Seq) -> bool {
        seq > self.last
    }

    pub(super) fn doing(&self) -> Option<&str> {
        self.doing.as_deref().filter(|_| self.streamed.is_empty())
    }

    pub(super) fn fate(&self, row: InputId) -> Fate {
        let turn = self.takers.get(&row).copied();
        let outcome = turn.and_then(|turn| self.ended.get(&turn)).cloned();
        // What the person said goes on with the work; an answer is younger than its question, so this ends.
        if let Some(TurnOutcome::Waiting { request }) = outcome
            && let Some(answer) = self.answers.get(&request).filter(|answer| self.takers.contains_key(answer))
        {
            return self.fate(*answer);
        }
        Fate { turn, outcome, cancelled: self.cancelled.get(&row).copied() }
    }

    /// Remembers what an event means for inputs and calls, and says nothing.
    pub(super) fn note(&mut self, event: &Event) {
        self.last = event.seq;
        if let EventBody::TurnStarted { turn, lane, .. } = &event.body {
            self.jobs.extend(lane.job().map(|job| (*turn, job)));
        }
        match &event.body {
            EventBody::TurnStarted { turn, trigger: TurnTrigger::Input { rows }, .. } => {
                self.takers.extend(rows.iter().map(|row| (*row, *turn)));
            }
            // Words to a running turn and reports join it.
            EventBody::InputConsumed { turn, rows } => {
                self.takers.extend(rows.iter().map(|row| (*row, *turn)));
            }
            EventBody::InputReturned { row } => {
                self.takers.remove(row);
            }
            EventBody::RequestSettled { request, .. } => self.settled = Some(*request),
            EventBody::InputQueued { input: InputKind::Answer, runs, .. } => {
                self.answers.extend(self.settled.take().map(|request| (request, InputId(event.seq))));
                self.granted = runs.as_ref().and_then(|granted| self.calls.get(&granted.call)).cloned();
            }
            // It stands before the first request of its turn.
            EventBody::CallAdmitted { call, .. } if call.request == 0 => {
                self.calls.extend(self.granted.take().map(|granted| (*call, granted)));
            }
            EventBody::CommandStarted { command } => {
                self.started.insert(command.call);
            }
            EventBody::InputCancelled { row, reason } => {
                self.cancelled.insert(*row, *reason);
            }
            EventBody::TurnEnded { turn, outcome } => {
                self.ended.insert(*turn, outcome.clone());
            }
            EventBody::ModelResponded { turn, request, calls, .. } => {
                let named = (0..)
                    .zip(calls)
                    .map(|(index, call)| (CallRef { turn: *turn, request: *request, index }, call.clone()));
                let job = self.jobs.get(turn);
                self.calls.retain(|call, _| self.jobs.get(&call.turn) != job);
                self.calls.extend(named);
            }
            _ => {}
        }
    }

    /// A piece of the answer under way.
    pub(super) fn text(&mut self, text: &str) -> Result<(), CliError> {
        if self.out.is_json() || self.is_broken {
            return Ok(());
        }
        self.streamed.push_str(text);
        match text.split_once('\n').filter(|_| !self.held.is_empty()) {
            None => write_data(render::lines(text).as_bytes()),
            Some((line, rest)) => {
                write_data(format!("{}\n", render::lines(line)).as_bytes())?;
                self.say_held();
                write_data(render::lines(rest).as_bytes())
            }
        }
    }

    /// Whether a line of the answer under way is not at its end.
    pub(super) fn is_mid_line(&self) -> bool {
        !self.streamed.is_empty() && !self.streamed.ends_with('\n')
    }

    /// Whether pieces of the answer under way are told.
    pub(super) const fn is_streaming(&self) -> bool {
        !self.is_broken
    }

    /// Somebody else is told next.
    pub(super) fn break_off(&mut self) -> Result<(), CliError> {
        self.is_broken |= !self.streamed.is_empty();
        self.end_line()
    }

    fn say_held(&mut self) {
        for line in self.held.drain(..) {
            say(&line);
        }
    }

    /// An event, told to a person.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), CliError> {
        self.note(event);
        if let Some(job) = event.body.turn().and_then(|turn| self.jobs.get(&turn)).copied() {
            self.event_of_job(job, event);
            return Ok(());
        }
        self.doing = doing(event, &self.calls);
        if matches!(event.body, EventBody::ModelRequested { .. }) {
            self.is_broken = false;
        }
        match &event.body {
            EventBody::ModelResponded { text, .. } => self.answer(text),
            EventBody::ModelFailed { failure, retry_at, .. } => {
                self.failure = Some(failure.clone());
                let is_begun = !self.streamed.is_empty();
                self.end_line()?;
                say(&render::describe_event(event));
                if is_begun && retry_at.is_some() {
                    say("the answer above broke off; it starts anew");
                }
                Ok(())
            }
            EventBody::CallFinished { call, tool, outcome: CallOutcome::Succeeded, .. }
                if TOLD_BY_THEIR_EVENT.contains(&tool.as_str()) || self.started.contains(call) =>
            {
                Ok(())
            }
            EventBody::RequestOpened { .. } if self.hides_requests => Ok(()),
            // The request was told.
            EventBody::CallFinished { outcome: CallOutcome::Waiting, .. } => Ok(()),
            EventBody::CallFinished { call, tool, outcome, result, .. } => {
                let line = self.call_line(*call, tool, *outcome, result);
                say(&line);
                Ok(())
            }
            body if is_told(body) => {
                let line = self.without_told_failure(body).unwrap_or_else(|| render::describe_event(event));
                if self.is_mid_line() && !ends_answer(body) {
                    self.held.push(line);
                    return Ok(());
                }
                self.end_line()?;
                say(&line);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What a job does, beside the turn that delegated it: its calls and what goes wrong. Its words are its report's.
    fn event_of_job(&mut self, job: JobId, event: &Event) {
        let line = match &event.body {
            EventBody::CallFinished { call, tool, outcome, result, .. } => {
                self.call_line(*call, tool, *outcome, result)
            }
            EventBody::ModelFailed { .. } | EventBody::TurnLost { .. } => render::describe_event(event),
            _ => return,
        };
        let line = format!("job {job} · {line}");
        if self.is_mid_line() { self.held.push(line) } else { say(&line) }
    }

    /// What follows from a failure whose detail was just told, without that detail.
    fn without_told_failure(&self, body: &EventBody) -> Option<String> {
        let told = self.failure.as_ref()?;
        match body {
            EventBody::TurnEnded { turn, outcome: TurnOutcome::Failed { failure } } if failure == told => {
                Some(format!("turn {turn} failed: {}", failure.kind))
            }
            EventBody::GoalMoved { to: GoalStatus::Blocked { code, detail }, .. }
                if *detail == told.detail =>
            {
                Some(format!("Goal blocked: {}", code.name()))
            }
            _ => None,
        }
    }

    /// The engine here did something: it waits no more, and a wait after this is another one. What a job does is no end of
    /// the wait for it.
    pub(super) fn waits_no_more(&mut self) {
        self.waiting = self
            .waiting
            .take()
            .filter(|waiting| matches!(waiting, Waiting::For { what: Awaited::Jobs { .. } }));
    }

    /// A wait, said once however often whoever is waited for gives a sign of life.
    pub(super) fn waiting(&mut self, waiting: Waiting) {
        let (doing, said) = match &waiting {
            Waiting::ForWorker { .. } | Waiting::For { what: Awaited::Turn { .. } } => (
                "waiting for another worker".to_owned(),
                "another worker runs a turn of this session; what is queued comes after it".to_owned(),
            ),
            Waiting::Until { at } => {
                ("waiting".to_owned(), format!("waiting until {}; Ctrl-C interrupts", render::time(*at)))
            }
            Waiting::For { what: Awaited::Condition { wait } } => (
                format!("waiting for {}", wait.condition),
                format!("waiting {}; Ctrl-C interrupts", render::wait_words(wait)),
            ),
            Waiting::For { what: Awaited::Commands { commands } } => {
                let numbers: Vec<_> = commands.iter().map(ToString::to_string).collect();
                let what = format!("waiting for background command {}", numbers.join(", "));
                (what.clone(), format!("{what}; Ctrl-C interrupts"))
            }
            Waiting::For { what: Awaited::Jobs { jobs } } => {
                let numbers: Vec<_> = jobs.iter().map(ToString::to_string).collect();
                let what = format!("waiting for job {}", numbers.join(", "));
                (what.clone(), format!("{what}; Ctrl-C interrupts"))
            }
        };
        let is_said = match (&self.waiting, &waiting) {
            (Some(Waiting::ForWorker { .. }), Waiting::ForWorker { .. }) => true,
            (before, waiting) => before.as_ref() == Some(waiting),
        };
        self.waiting = Some(waiting);
        self.doing.get_or_insert(doing);
        if !is_said && !self.out.is_json() {
            output::remark(&output::for_stderr(2, &said));
        }
    }

    /// The rest of an answer: what was not streamed, or all of it.
    fn answer(&mut self, text: &str) -> Result<(), CliError> {
        match text.strip_prefix(self.streamed.as_str()) {
            Some(rest) => write_data(render::lines(rest).as_bytes())?,
            None => {
                self.end_line()?;
                write_data(render::lines(text).as_bytes())?;
            }
        }
        self.streamed.clear();
        if !text.is_empty() && !text.ends_with('\n') {
            write_data(b"\n")?;
        }
        self.say_held();
        Ok(())
    }

    /// Ends a streamed line that breaks off.
    fn end_line(&mut self) -> Result<(), CliError> {
        let is_open = self.is_mid_line();
        self.streamed.clear();
        if is_open {
            write_data(b"\n")?;
        }
        self.say_held();
        Ok(())
    }

    fn call_line(&self, call: CallRef, tool: &str, outcome: CallOutcome, result: &str) -> String {
        let subject = self.calls.get(&call).map(render::call_subject).unwrap_or_default();
        let head = format!("{} {subject}", render::one_line(tool));
        let told = match outcome {
            CallOutcome::Succeeded => outcome.name().to_owned(),
            _ => render::call_told(tool, outcome, result),
        };
        // How it ended counts; what it was about gives way.
        let room = LINE_COLUMNS.saturating_sub(told.chars().count() + 2).max(HEAD_COLUMNS);
        format!("{}: {told}", output::cut_for_stderr(head.trim_end(), room))
    }
}

/// A line that stands back behind the model's words.
fn say(line: &str) {
    let line = output::cut_for_stderr(line, EVENT_COLUMNS);
    output::remark(&dim(&format!("  {}", output::for_stderr(4, &line))));
}

/// Whether no more of the answer under way comes after this.
const fn ends_answer(body: &EventBody) -> bool {
    matches!(body, EventBody::TurnStarted { .. } | EventBody::TurnEnded { .. } | EventBody::TurnLost { .. })
}

/// Events that get a line of their own, beside answers, failed requests and results of calls.
const fn is_told(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::AgentSelected { .. }
            | EventBody::ModeChanged { .. }
            | EventBody::PlanRevised { .. }
            | EventBody::PlanClosed { .. }
            | EventBody::GoalOpened { .. }
            | EventBody::GoalMoved { .. }
            | EventBody::GoalEdited { .. }
            | EventBody::GoalBudgetChanged { .. }
            | EventBody::GoalAmendmentProposed { .. }
            | EventBody::GoalAmendmentDeclined { .. }
            | EventBody::GoalBlockStaged { .. }
            | EventBody::GoalWaitSet { .. }
            | EventBody::GoalWaitLifted { .. }
            | EventBody::GoalBudgetAnnounced { .. }
            | EventBody::RetryScheduled { .. }
            | EventBody::InputQueued { input: InputKind::Steer, .. }
            | EventBody::InputCancelled { .. }
            | EventBody::RequestOpened { .. }
            | EventBody::RequestSettled { .. }
            | EventBody::CommandStarted { .. }
            | EventBody::CommandStopRequested { .. }
            | EventBody::CommandEnded { .. }
            | EventBody::JobStarted { .. }
            | EventBody::JobEnded { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnStopRequested { .. }
            | EventBody::TurnEnded { .. }
            | EventBody::TurnLost { .. }
    )
}

/// What begins with an event and takes its time.
fn doing(event: &Event, calls: &BTreeMap<CallRef, ModelCall>) -> Option<String> {
    match &event.body {
        EventBody::ModelRequested { .. } => Some("waiting for the model".to_owned()),
        EventBody::CallAdmitted { call, tool, .. } => {
            let subject = calls.get(call).map(render::call_subject).unwrap_or_default();
            Some(format!("{} {subject}", render::one_line(tool)).trim_end().to_owned())
        }
        EventBody::ModelFailed { retry_at: Some(at), .. } => {
            Some(format!("trying again at {}", render::time(*at)))
        }
        _ => None,
    }
}
