//! The turn loop: asks the model, runs its calls, and goes on until the turn has an outcome (T6).

mod ask;
mod call;
mod delegate;
mod estimate;
mod watched;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use agents::Role;
use domain::{
    CallOutcome, Code, Event, Failure, FailureKind, ModelCall, Seq, SessionId, StopReason, TurnOutcome,
};
use store::StoreError;
use tokio_util::sync::CancellationToken;

use self::estimate::{bytes_of, estimated_tokens, usage_of};
use self::watched::Watched;
use crate::background::Background;
use crate::history::History;
use crate::ports::{Delta, Inspection, Model, ModelRequest, ModelResponse};
use crate::scheduler::Asking;
use crate::sessions::CommandError;
use crate::toolbox::Toolbox;
use crate::turn::AdmittedTurn;
use crate::worker::Waiting;
use crate::workshop::TurnLimits;
use policy::{CALLS_PER_RESPONSE, RESPONSE_BYTES};

/// Events read at once when a transcript is loaded: bounds memory, not the transcript.
const PAGE: usize = 500;
/// What a client sees of turns as they run. Durable events come after their commit; deltas are never durable.
pub trait Observer: Send + Sync {
    /// An event of this session was committed by this process.
    fn event(&self, session: SessionId, event: &Event);

    /// The model's answer grows.
    fn delta(&self, session: SessionId, delta: Delta<'_>);

    /// Nothing happens here for a while; the log may have grown elsewhere.
    fn waiting(&self, session: SessionId, waiting: Waiting) {
        let _ = (session, waiting);
    }
}

/// How driving a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driven {
    /// With an outcome, which is durable.
    Ended(TurnOutcome),
    /// Another worker took over, or may have: this one recorded nothing more (T5).
    LeaseLost,
}

/// Why the loop leaves early.
enum Leave {
    /// Propose this outcome.
    End(TurnOutcome),
    /// The turn ended already, with this outcome.
    Ended(TurnOutcome),
    /// The turn is not ours any more.
    Lost,
    /// The store takes nothing, not even an end: whoever comes next finds the turn lost.
    Fault(StoreError),
}

pub(crate) struct Driver {
    turn: AdmittedTurn,
    role: Role,
    around: Around,
    history: History,
    followed: Seq,
    /// The jobs that this turn waits for.
    jobs: Vec<delegate::Awaited>,
}

/// What a turn has around it; the turns of its jobs have the same.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) toolbox: Toolbox,
    pub(crate) inspection: Arc<dyn Inspection>,
    pub(crate) limits: TurnLimits,
    pub(crate) background: Arc<Background>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) shutdown: CancellationToken,
}

/// Drives an admitted turn to its outcome. In a box, since a turn drives those of the jobs that it waits for.
pub(crate) fn drive(
    turn: AdmittedTurn,
    around: Around,
) -> Pin<Box<dyn Future<Output = Result<Driven, CommandError>> + Send>> {
    Box::pin(drive_here(turn, around))
}

async fn drive_here(turn: AdmittedTurn, around: Around) -> Result<Driven, CommandError> {
    let Some(role) = agents::role(turn.agent()) else {
        let failure = Failure::new(FailureKind::NoSuchAgent, format!("there is no agent `{}`", turn.agent()));
        return end_without_model(turn, failure, around.observer.as_ref()).await;
    };
    let given = turn.state().core.job_of(turn.lane()).map(domain::Job::may);
    let role = given.map_or(*role, |given| role.within(given));
    let history = History::of(turn.lane().clone());
    let mut driver = Driver { turn, role, around, history, followed: Seq(0), jobs: Vec::new() };
    driver.load_history().await?;
    let left = driver.run().await;
    // However the turn ends: what it delegated is its own to the end.
    let left = match (left, driver.join_jobs().await) {
        (Err(Leave::End(_) | Leave::Ended(_)), Err(leave)) => Err(leave),
        (left, _) => left,
    };
    let outcome = match left {
        Ok(never) => match never {},
        Err(Leave::Lost) => return Ok(Driven::LeaseLost),
        Err(Leave::Fault(fault)) => return Err(CommandError::Fault(fault)),
        Err(Leave::Ended(outcome)) => {
            driver.follow().await?;
            return Ok(Driven::Ended(outcome));
        }
        Err(Leave::End(outcome)) => outcome,
    };
    match driver.turn.finish(outcome).await {
        Ok(outcome) => {
            driver.follow().await?;
            Ok(Driven::Ended(outcome))
        }
        Err(error) if is_stale(&error) => Ok(Driven::LeaseLost),
        Err(error) => Err(error),
    }
}

async fn end_without_model(
    mut turn: AdmittedTurn,
    failure: Failure,
    observer: &dyn Observer,
) -> Result<Driven, CommandError> {
    let outcome = turn.finish(TurnOutcome::Failed { failure }).await?;
    for event in turn.take_fresh() {
        observer.event(turn.session(), &event);
    }
    Ok(Driven::Ended(outcome))
}

fn is_stale(error: &CommandError) -> bool {
    matches!(error, CommandError::Rejected(rejection) if rejection.code == Code::StaleEpoch)
}

/// What a command's refusal or a store's fault means for the loop.
impl From<CommandError> for Leave {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Rejected(rejection) => match rejection.code {
                Code::StaleEpoch => Self::Lost,
                // The outcome that the stop asks for is decided where the turn ends.
                Code::TurnStopping => Self::End(TurnOutcome::Completed),
                Code::LimitExceeded if rejection.violations.iter().any(|found| found.rule == "T12") => {
                    Self::fail(FailureKind::Stuck, rejection.to_string())
                }
                _ => Self::fail(FailureKind::ProviderProtocol, rejection.to_string()),
            },
            CommandError::Fault(fault @ StoreError::Busy(_)) => {
                Self::fail(FailureKind::StoreBusy, fault.to_string())
            }
            CommandError::Fault(
                fault @ (StoreError::Corrupt { .. }
                | StoreError::CorruptBlob(_)
                | StoreError::UnknownKind { .. }
                | StoreError::Misfit { .. }
                | StoreError::Panicked(_)
                | StoreError::BlobTooLarge { .. }),
            ) => Self::fail(FailureKind::CorruptState, fault.to_string()),
            CommandError::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl Leave {
    fn fail(kind: FailureKind, detail: String) -> Self {
        Self::End(TurnOutcome::Failed { failure: Failure::new(kind, detail) })
    }
}

/// What keeps a complete answer out of the history. A model slips once; its next answer is another (T9).
fn flaw_of(response: &ModelResponse) -> Option<Failure> {
    let (calls, bytes) = (response.calls.len(), bytes_of(response));
    // Blank is as good as empty, and some providers refuse a history with a blank answer in it.
    if domain::is_blank(&response.text) && calls == 0 {
        let detail = "the model answered with neither text nor calls";
        return Some(Failure::new(FailureKind::EmptyResponse, detail));
    }
    let is_too_long = calls > CALLS_PER_RESPONSE || bytes > RESPONSE_BYTES;
    // Cut off is what it is then: none of its calls runs (T6).
    is_too_long.then(|| {
        let detail = format!(
            "the answer of {calls} calls and {bytes} bytes was not taken: at most {CALLS_PER_RESPONSE} calls and \
             {RESPONSE_BYTES} bytes are"
        );
        Failure::new(FailureKind::StreamIncomplete, detail)
    })
}

/// No value: the loop ends by leaving.
enum Never {}

impl Driver {
    /// Reads the transcript from the log. The turn's own first events are the last of it.
    async fn load_history(&mut self) -> Result<(), CommandError> {
        self.catch_up().await?;
        // What is fresh was read with the log; the observer still has to see it.
        for event in self.turn.take_fresh() {
            self.around.observer.event(self.turn.session(), &event);
        }
        Ok(())
    }

    async fn catch_up(&mut self) -> Result<(), CommandError> {
        loop {
            let page = self.turn.sessions().events_after(self.turn.session(), self.followed, PAGE).await;
            let page = page.map_err(CommandError::Fault)?;
            page.events.iter().for_each(|event| self.history.follow(event));
            self.followed = page.next;
            if !page.has_more {
                return Ok(());
            }
        }
    }

    /// Shows what was committed to the transcript and the observer. Others write to the session too: a person's word to
    /// this turn or the report of a command stands between its own events, and is read from the log.
    async fn follow(&mut self) -> Result<(), CommandError> {
        let fresh = self.turn.take_fresh();
        let mut next = self.followed.next();
        let is_whole = fresh.iter().all(|event| {
            let fits = event.seq <= next;
            next = next.max(event.seq.next());
            fits
        });
        if !is_whole {
            self.catch_up().await?;
        }
        for event in fresh {
            if event.seq > self.followed {
                self.followed = event.seq;
                self.history.follow(&event);
            }
            self.around.observer.event(self.turn.session(), &event);
        }
        Ok(())
    }

    async fn run(&mut self) -> Result<Never, Leave> {
        self.granted_call().await?;
        loop {
            self.check_shutdown()?;
            let request = self.request().await?;
            let response = self.ask(&request).await?;
            let is_last = self.goal_is_completed();
            let calls = self.record(&request, response).await?;
            if calls.is_empty() || is_last {
                return Err(Leave::End(TurnOutcome::Completed));
            }
            for (index, call) in (0..).zip(calls) {
                self.check_shutdown()?;
                let call_ref = self.turn.call(index);
                if self.goal_is_completed() {
                    let text = "not run: the Goal is completed; report to the user".to_owned();
                    self.turn.refuse_call(call_ref, CallOutcome::NotRun, text).await?;
                } else {
                    self.call(call_ref, &call, &request.tools).await?;
                }
                self.follow().await?;
            }
            self.join_jobs().await?;
        }
    }

    /// Whether this turn completed its Goal: no call runs any more, and one more answer ends it (G12).
    fn goal_is_completed(&self) -> bool {
        self.turn.running().is_some_and(|running| running.goal_completed_in.is_some())
    }

    /// Leaves because the turn is to stop. Why, is decided where it ends; a shutdown is known here alone.
    fn stopping(&self) -> Leave {
        Leave::End(if self.around.shutdown.is_cancelled() {
            TurnOutcome::Stopped { reason: StopReason::Shutdown }
        } else {
            TurnOutcome::Completed
        })
    }

    fn check_shutdown(&self) -> Result<(), Leave> {
        if self.around.shutdown.is_cancelled() { Err(self.stopping()) } else { Ok(()) }
    }

    /// Builds the next request: tools, system text and history are a prefix of the one after it (V3).
    ///
    /// The request begins with its commit, so the line that opens a continuation is part of the history by then.
    async fn request(&mut self) -> Result<ModelRequest, Leave> {
        let mode = self.turn.state().core.mode;
        let tools = self.around.toolbox.offered(&self.role, mode);
        let is_job = !self.turn.lane().is_main();
        let mut request = ModelRequest {
            system: self.around.toolbox.system_prompt(&self.role, (mode, is_job), &tools),
            tools,
            history: Vec::new(),
            work_state: self.work_state(),
        };
        let estimate = estimated_tokens(&request, self.history.messages());
        self.turn.begin_request(estimate).await?;
        self.follow().await?;
        request.history = self.history.messages().to_vec();
        request.work_state = self.work_state();
        Ok(request)
    }

    fn work_state(&self) -> String {
        agents::work_state_section(self.turn.state(), self.turn.lane())
    }

    /// Sends the request, and again in place after failures that pass (T9).
    async fn ask(&mut self, request: &ModelRequest) -> Result<ModelResponse, Leave> {
        let limit = self.around.model.context_tokens();
        let estimate = estimated_tokens(request, &request.history);
        if estimate > limit {
            let detail = format!("the request has about {estimate} tokens, the model takes {limit}");
            return Err(Leave::fail(FailureKind::ContextLimit, detail));
        }
        // By the clock that also ends the waits, so that the bound on them is the same in simulated time.
        let first_attempt = self.turn.sessions().now();
        loop {
            let (session, is_main) = (self.turn.session(), self.turn.lane().is_main());
            let (observer, model) = (Arc::clone(&self.around.observer), Arc::clone(&self.around.model));
            // The words of a job would mingle with those of the turn beside it.
            let on_delta = move |delta: Delta<'_>| {
                if is_main {
                    observer.delta(session, delta);
                }
            };
            let work = model.respond(request, &on_delta);
            let failure = match self.watched(work, None).await? {
                Watched::Stopping => return Err(self.stopping()),
                Watched::Done(Ok(response)) => match flaw_of(&response) {
                    None => return Ok(response),
                    // It was paid for, like any other (G4).
                    Some(flaw) => Failure { usage: Some(usage_of(request, &response)), ..flaw },
                },
                Watched::Done(Err(failure)) => failure,
            };
            let elapsed_ms = self.turn.sessions().now().0.saturating_sub(first_attempt.0).max(0);
            let retry_at = self.turn.fail_request(failure.clone(), elapsed_ms).await?;
            self.follow().await?;
            let Some(retry_at) = retry_at else { return Err(Leave::End(TurnOutcome::Failed { failure })) };
            let sessions = self.turn.sessions().clone();
            if let Watched::Stopping = self.watched(sessions.sleep_until(retry_at), None).await? {
                return Err(self.stopping());
            }
            self.turn.begin_request(estimate).await?;
            self.follow().await?;
        }
    }

    /// Records a complete response; only then do its calls exist.
    async fn record(
        &mut self,
        request: &ModelRequest,
        response: ModelResponse,
    ) -> Result<Vec<ModelCall>, Leave> {
        let usage = usage_of(request, &response);
        let calls: Vec<_> = response
            .calls
            .into_iter()
            .map(|call| ModelCall { tool: call.tool, arguments: call.arguments })
            .collect();
        self.turn.record_response(response.text, calls.clone(), usage).await?;
        self.follow().await?;
        Ok(calls)
    }
}
