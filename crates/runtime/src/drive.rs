//! The turn loop: asks the model, runs its calls, and goes on until the turn has an outcome (T6).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agents::Role;
use domain::{
    CallOutcome, CallRef, Code, Event, Failure, FailureKind, ModelCall, Seq, SessionId, StopReason,
    TokenUsage, TurnOutcome,
};
use serde_json::Value;
use store::StoreError;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::history::History;
use crate::ports::{Delta, Message, Model, ModelRequest, ModelResponse, Tool, ToolFault, ToolSpec};
use crate::sessions::CommandError;
use crate::toolbox::{self, Found, Toolbox};
use crate::turn::AdmittedTurn;
use crate::work_tools::{self, WorkCall, WorkTool};
use crate::worker::Waiting;

/// How often a running turn looks whether it was asked to stop, at the latest (T6).
const LOOK_MS: u64 = 200;
/// How long a stopped call may take to reap what it started. A process that survives SIGKILL for longer hangs in
/// the kernel, and waiting on would not help.
const REAP_MS: u64 = 5_000;
/// Events read at once when a transcript is loaded: bounds memory, not the transcript.
const PAGE: usize = 500;
/// Bytes of a token, roughly, in English and code; used where a provider reports no usage (G5).
const BYTES_PER_TOKEN: u64 = 4;

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

/// An observer that looks away.
pub struct Unobserved;

impl Observer for Unobserved {
    fn event(&self, _: SessionId, _: &Event) {}

    fn delta(&self, _: SessionId, _: Delta<'_>) {}
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
    /// The turn is not ours any more.
    Lost,
}

pub(crate) struct Driver<'a> {
    turn: AdmittedTurn,
    role: &'static Role,
    model: &'a dyn Model,
    toolbox: &'a Toolbox,
    observer: &'a dyn Observer,
    shutdown: &'a CancellationToken,
    history: History,
    followed: Seq,
}

/// Drives an admitted turn to its outcome.
pub(crate) async fn drive(
    turn: AdmittedTurn,
    model: &dyn Model,
    toolbox: &Toolbox,
    observer: &dyn Observer,
    shutdown: &CancellationToken,
) -> Result<Driven, CommandError> {
    let Some(role) = agents::role(turn.agent()) else {
        let failure = Failure::new(FailureKind::NoSuchAgent, format!("there is no agent `{}`", turn.agent()));
        return end_without_model(turn, failure, observer).await;
    };
    let mut driver = Driver {
        turn,
        role,
        model,
        toolbox,
        observer,
        shutdown,
        history: History::default(),
        followed: Seq(0),
    };
    driver.load_history().await?;
    let outcome = match driver.run().await {
        Ok(never) => match never {},
        Err(Leave::Lost) => return Ok(Driven::LeaseLost),
        Err(Leave::End(outcome)) => outcome,
    };
    match driver.turn.finish(outcome).await {
        Ok(outcome) => {
            driver.follow();
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
            CommandError::Fault(fault) => Self::fail(FailureKind::CorruptState, fault.to_string()),
        }
    }
}

impl Leave {
    fn fail(kind: FailureKind, detail: String) -> Self {
        Self::End(TurnOutcome::Failed { failure: Failure::new(kind, detail) })
    }
}

/// No value: the loop ends by leaving.
enum Never {}

/// Work that ran beside the watch over stop requests and the lease.
enum Watched<T> {
    Done(T),
    /// The turn was asked to stop; the work was cancelled.
    Stopping,
}

impl Driver<'_> {
    /// Reads the transcript from the log. The turn's own first events are the last of it.
    async fn load_history(&mut self) -> Result<(), CommandError> {
        loop {
            let page = self.turn.sessions().events_after(self.turn.session(), self.followed, PAGE).await;
            let page = page.map_err(CommandError::Fault)?;
            page.events.iter().for_each(|event| self.history.follow(event));
            self.followed = page.next;
            if !page.has_more {
                break;
            }
        }
        // What is fresh was read with the log; the observer still has to see it.
        for event in self.turn.take_fresh() {
            self.observer.event(self.turn.session(), &event);
        }
        Ok(())
    }

    /// Shows what was committed to the transcript and the observer.
    fn follow(&mut self) {
        for event in self.turn.take_fresh() {
            if event.seq > self.followed {
                self.followed = event.seq;
                self.history.follow(&event);
                self.observer.event(self.turn.session(), &event);
            }
        }
    }

    async fn run(&mut self) -> Result<Never, Leave> {
        loop {
            self.check_shutdown()?;
            let request = self.request().await?;
            let response = self.ask(&request).await?;
            let completed_before = self.turn.running().and_then(|running| running.goal_completed_in);
            let calls = self.record(&request, response).await?;
            if calls.is_empty() || completed_before.is_some() {
                return Err(Leave::End(TurnOutcome::Completed));
            }
            for (index, call) in (0..).zip(calls) {
                self.check_shutdown()?;
                let call_ref = self.turn.call(index);
                self.call(call_ref, &call, &request.tools).await?;
                self.follow();
            }
        }
    }

    /// Leaves because the turn is to stop. Why, is decided where it ends; a shutdown is known here alone.
    fn stopping(&self) -> Leave {
        Leave::End(if self.shutdown.is_cancelled() {
            TurnOutcome::Stopped { reason: StopReason::Shutdown }
        } else {
            TurnOutcome::Completed
        })
    }

    fn check_shutdown(&self) -> Result<(), Leave> {
        if self.shutdown.is_cancelled() { Err(self.stopping()) } else { Ok(()) }
    }

    /// Builds the next request: tools, system text and history are a prefix of the one after it (V3).
    ///
    /// The request begins with its commit, so the line that opens a continuation is part of the history by then.
    async fn request(&mut self) -> Result<ModelRequest, Leave> {
        let state = self.turn.state();
        let mode = state.core.mode;
        let workspace = state.core.workspace.as_deref().unwrap_or_default();
        let mut request = ModelRequest {
            system: agents::system_prompt(self.role, mode, workspace),
            tools: self.toolbox.offered(self.role, mode),
            history: Vec::new(),
            work_state: self.work_state(),
        };
        let estimate = estimated_tokens(&request, self.history.messages());
        self.turn.begin_request(estimate).await?;
        self.follow();
        request.history = self.history.messages().to_vec();
        request.work_state = self.work_state();
        Ok(request)
    }

    fn work_state(&self) -> String {
        agents::work_state_section(self.turn.state(), self.turn.lane())
    }

    /// Sends the request, and again in place after failures that pass (T9).
    async fn ask(&mut self, request: &ModelRequest) -> Result<ModelResponse, Leave> {
        let limit = self.model.context_tokens();
        let estimate = estimated_tokens(request, &request.history);
        if estimate > limit {
            let detail = format!("the request has about {estimate} tokens, the model takes {limit}");
            return Err(Leave::fail(FailureKind::ContextLimit, detail));
        }
        // By the clock that also ends the waits, so that the bound on them is the same in simulated time.
        let first_attempt = self.turn.sessions().now();
        loop {
            let (session, observer, model) = (self.turn.session(), self.observer, self.model);
            let on_delta = move |delta: Delta<'_>| observer.delta(session, delta);
            let work = model.respond(request, &on_delta);
            let failure = match self.watched(work, None).await? {
                Watched::Stopping => return Err(self.stopping()),
                Watched::Done(Ok(response)) if response.text.is_empty() && response.calls.is_empty() => {
                    Failure::new(FailureKind::EmptyResponse, "the model answered with neither text nor calls")
                }
                Watched::Done(Ok(response)) => return Ok(response),
                Watched::Done(Err(failure)) => failure,
            };
            let elapsed_ms = self.turn.sessions().now().0.saturating_sub(first_attempt.0).max(0);
            let retry_at = self.turn.fail_request(failure.clone(), elapsed_ms).await?;
            self.follow();
            let Some(retry_at) = retry_at else { return Err(Leave::End(TurnOutcome::Failed { failure })) };
            let sessions = self.turn.sessions().clone();
            if let Watched::Stopping = self.watched(sessions.sleep_until(retry_at), None).await? {
                return Err(self.stopping());
            }
            self.turn.begin_request(estimate).await?;
            self.follow();
        }
    }

    /// Records a complete response; only then do its calls exist.
    async fn record(
        &mut self,
        request: &ModelRequest,
        response: ModelResponse,
    ) -> Result<Vec<ModelCall>, Leave> {
        let calls: Vec<_> = response
            .calls
            .into_iter()
            .map(|call| ModelCall { tool: call.tool, arguments: call.arguments })
            .collect();
        let usage = response.usage.unwrap_or_else(|| {
            let bytes = calls.iter().map(|call| call.tool.len() + call.arguments.len()).sum::<usize>();
            TokenUsage {
                input: estimated_tokens(request, &request.history),
                output: tokens_of(bytes + response.text.len()),
                cached_input: 0,
                estimated: true,
            }
        });
        self.turn.record_response(response.text, calls.clone(), usage).await?;
        self.follow();
        Ok(calls)
    }

    /// Deals with one call: every call gets exactly one result, and a refused one does not end the turn.
    async fn call(&mut self, call: CallRef, asked: &ModelCall, offered: &[ToolSpec]) -> Result<(), Leave> {
        let toolbox = self.toolbox;
        let Some((found, spec)) = toolbox.find(&asked.tool) else {
            let names: Vec<_> = offered.iter().map(|spec| spec.name).collect();
            let text =
                format!("there is no tool `{}`; the tools on offer are: {}", asked.tool, names.join(", "));
            return self.refuse(call, CallOutcome::Invalid, text).await;
        };
        let mode = self.turn.state().core.mode;
        let grant = toolbox.grant(self.role, spec);
        // Looking ahead spares a denied call its preparation; the admission decides again, in its transaction.
        if let Err(denied) = policy::check_call(spec.name, &grant, mode) {
            return self.refuse(call, CallOutcome::Denied, denied.to_string()).await;
        }
        let arguments = match toolbox::parse_arguments(&asked.arguments) {
            Ok(arguments) => arguments,
            Err(text) => return self.refuse(call, CallOutcome::Invalid, text).await,
        };
        match found {
            Found::WorkState(tool) => self.work_state_call(call, tool, grant, asked, &arguments).await,
            Found::Outside(tool) => {
                let tool = Arc::clone(tool);
                self.outside_call(call, tool.as_ref(), grant, arguments).await
            }
        }
    }

    async fn refuse(&mut self, call: CallRef, outcome: CallOutcome, text: String) -> Result<(), Leave> {
        let (text, _) = toolbox::shorten(text);
        Ok(self.turn.refuse_call(call, outcome, text).await?)
    }

    async fn work_state_call(
        &mut self,
        call: CallRef,
        tool: WorkTool,
        grant: policy::CallGrant,
        asked: &ModelCall,
        arguments: &Value,
    ) -> Result<(), Leave> {
        let lane = self.turn.lane().clone();
        let prepared = work_tools::prepare(tool, call, grant.clone(), arguments, self.turn.state(), &lane);
        let refusal = match prepared {
            Ok(WorkCall::Read(text)) => match self.turn.admit_call(call, grant, domain::Effect::Read).await {
                Ok(()) => {
                    let (text, full) = toolbox::shorten(text);
                    return Ok(self.turn.finish_call(call, CallOutcome::Succeeded, text, full).await?);
                }
                Err(error) => refusal_of_call(error)?,
            },
            Ok(WorkCall::Change(command)) => {
                match self.turn.work_state_call(call, command, &asked.arguments).await {
                    Ok(()) => return Ok(()),
                    Err(error) => refusal_of_call(error)?,
                }
            }
            Err(refusal) => refusal,
        };
        let outcome = if refusal.code == Code::Denied { CallOutcome::Denied } else { CallOutcome::Refused };
        let text = format!("{} refused, nothing changed. {refusal}", asked.tool);
        self.refuse(call, outcome, text).await
    }

    async fn outside_call(
        &mut self,
        call: CallRef,
        tool: &dyn Tool,
        grant: policy::CallGrant,
        arguments: Value,
    ) -> Result<(), Leave> {
        let prepared = match tool.prepare(arguments).await {
            Ok(prepared) => prepared,
            Err(fault) => {
                let outcome = match &fault {
                    ToolFault::Arguments(_) => CallOutcome::Invalid,
                    ToolFault::Refused(_) => CallOutcome::Refused,
                };
                return self.refuse(call, outcome, fault.to_string()).await;
            }
        };
        if let Err(error) = self.turn.admit_call(call, grant, prepared.effect()).await {
            let refusal = refusal_of_call(error)?;
            return self.refuse(call, CallOutcome::Denied, refusal.to_string()).await;
        }
        self.follow();
        let stop = CancellationToken::new();
        let output = match self.watched(prepared.run(stop.clone()), Some(&stop)).await? {
            Watched::Done(output) => output,
            // It did not end although it was told to; what it did is for recovery or the user to find out.
            Watched::Stopping => {
                let text = "stopped, but it did not end in time; inspect before repeating".to_owned();
                return Ok(self.turn.finish_call(call, CallOutcome::Uncertain, text, None).await?);
            }
        };
        let outcome = match (output.stopped, output.succeeded) {
            (true, _) => CallOutcome::Stopped,
            (false, true) => CallOutcome::Succeeded,
            (false, false) => CallOutcome::Failed,
        };
        let (text, full) = toolbox::shorten(output.text);
        Ok(self.turn.finish_call(call, outcome, text, full).await?)
    }

    /// Runs work beside the watch: renews the lease and notices stop requests. Without a token the work is
    /// cancelled by dropping it; with one it is told to stop and given time to reap.
    async fn watched<T>(
        &mut self,
        work: impl Future<Output = T>,
        token: Option<&CancellationToken>,
    ) -> Result<Watched<T>, Leave> {
        let mut work = pin!(work);
        let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(Watched::Done(done)),
                _ = look.tick() => {}
            }
            let goes_on = self.look().await;
            if matches!(goes_on, Ok(false)) {
                continue;
            }
            let reaped = match token {
                None => None,
                Some(token) => {
                    token.cancel();
                    tokio::time::timeout(Duration::from_millis(REAP_MS), &mut work).await.ok()
                }
            };
            // A turn that was taken over records nothing; a stopped one records what its call came to.
            goes_on?;
            return Ok(reaped.map_or(Watched::Stopping, Watched::Done));
        }
    }

    /// Whether the turn is to stop. A lease that cannot be kept ends it.
    async fn look(&mut self) -> Result<bool, Leave> {
        if self.turn.renewal_is_due() {
            match self.turn.renew().await {
                Ok(()) => {}
                Err(error) if is_stale(&error) => return Err(Leave::Lost),
                // The store may be busy; until the lease is over there is time to try again.
                Err(_) if self.turn.lease_is_over() => return Err(Leave::Lost),
                Err(error) => tracing::warn!(%error, "the lease could not be renewed, trying again"),
            }
        }
        match self.turn.stop_requested().await {
            Ok(stop) => Ok(stop.is_some() || self.shutdown.is_cancelled()),
            Err(error) if is_stale(&error) => Err(Leave::Lost),
            Err(error) => {
                tracing::warn!(%error, "the session could not be read, trying again");
                Ok(false)
            }
        }
    }
}

/// The refusal that answers one call; what concerns the whole turn leaves the loop.
fn refusal_of_call(error: CommandError) -> Result<policy::Rejection, Leave> {
    match error {
        CommandError::Rejected(rejection)
            if !matches!(rejection.code, Code::StaleEpoch | Code::TurnStopping | Code::OutOfOrder) =>
        {
            Ok(rejection)
        }
        other => Err(other.into()),
    }
}

fn tokens_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

/// What the request's input costs, roughly.
fn estimated_tokens(request: &ModelRequest, history: &[Message]) -> u64 {
    let of_message = |message: &Message| match message {
        Message::User { text } | Message::ToolResult { text, .. } => text.len(),
        Message::Assistant { text, calls } => {
            text.len() + calls.iter().map(|call| call.tool.len() + call.arguments.len()).sum::<usize>()
        }
    };
    let tools = request.tools.iter().map(|tool| tool.description.len() + tool.input_schema.to_string().len());
    let bytes = request.system.len()
        + request.work_state.len()
        + tools.sum::<usize>()
        + history.iter().map(of_message).sum::<usize>();
    tokens_of(bytes)
}
