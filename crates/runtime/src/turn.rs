//! An admitted turn: the one way to do anything in a turn, for the turn loop here and for loops elsewhere.
//!
//! Each step is a command decided in its own transaction. Whoever holds an [`AdmittedTurn`] drives it:
//! [`begin_request`](AdmittedTurn::begin_request) → [`record_response`](AdmittedTurn::record_response) →
//! [`admit_call`](AdmittedTurn::admit_call) → [`finish_call`](AdmittedTurn::finish_call) → … →
//! [`finish`](AdmittedTurn::finish). Every step may be refused because the turn is to stop or was lost.

use std::sync::Arc;

use domain::{
    AgentName, CallOutcome, CallRef, CommandId, CommandKey, CommandTitle, Effect, Event, EventBody, Failure,
    Fingerprint, GoalId, LaneId, ModelCall, ModelName, RunningTurn, SessionId, SessionState, StopReason,
    Timestamp, TokenUsage, TurnNumber, TurnOutcome,
};
use policy::{AgentCommand, CallGrant, NewJob, NewRequest, RuntimeCommand, Scope};
use store::Committed;

use crate::background;
use crate::fresh;
use crate::sessions::{CommandError, Extra, Order, Sessions};
use crate::workshop::TurnLimits;

/// How long before its end a lease is renewed: a third of its life, so that two renewals may fail.
pub(crate) const RENEW_MS: i64 = policy::LEASE_MS / 3;

/// What an admitted call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// How it ended.
    pub outcome: CallOutcome,
    /// What the model reads.
    pub text: String,
    /// The whole output, kept beside the log when `text` is only a part of it.
    pub full_output: Option<Vec<u8>>,
    /// The tool with its arguments and exit status, if it ran (G7).
    pub ran: Option<Fingerprint>,
}

impl CallResult {
    /// An end without an output to keep and without evidence.
    pub fn plain(outcome: CallOutcome, text: impl Into<String>) -> Self {
        Self { outcome, text: text.into(), full_output: None, ran: None }
    }
}

/// A turn that was admitted and has no outcome yet. Dropping it leaves the turn to recovery.
pub struct AdmittedTurn {
    sessions: Sessions,
    session: SessionId,
    lane: LaneId,
    number: TurnNumber,
    agent: AgentName,
    state: Arc<SessionState>,
    renewed_at: Timestamp,
    fresh: Vec<Event>,
    /// What its model said last: the report of a job.
    answer: Option<String>,
}

/// When the lease was taken or renewed: in the transaction that did. A worker may have slept since, and what it reads of
/// the clock afterwards would give it time that others do not (T5).
fn renewed_at(committed: &Committed) -> Option<Timestamp> {
    committed.leases.turn.as_ref().map(|lease| lease.expires_at.plus_ms(-policy::LEASE_MS))
}

impl Sessions {
    /// Admits the turn that is due in the main lane, or says why none is (T4). It may make so many model
    /// requests as `limits` say, and never more than [`domain::REQUESTS_PER_TURN`] (T12).
    pub async fn admit(
        &self,
        session: SessionId,
        model: &ModelName,
        scope: Scope,
        limits: impl Into<TurnLimits>,
    ) -> Result<AdmittedTurn, CommandError> {
        self.admit_in((session, LaneId::main()), model, scope, limits).await
    }

    /// The same in any lane.
    pub(crate) async fn admit_in(
        &self,
        (session, lane): (SessionId, LaneId),
        model: &ModelName,
        scope: Scope,
        limits: impl Into<TurnLimits>,
    ) -> Result<AdmittedTurn, CommandError> {
        let TurnLimits { max_requests, confinement, .. } = limits.into();
        let (owner, model) = (self.owner().clone(), model.clone());
        let command =
            RuntimeCommand::AdmitTurn { lane: lane.clone(), owner, model, scope, max_requests, confinement };
        let order = Order::Runtime(command);
        let committed = self.execute(session, order, Extra::default()).await?;
        let fresh = committed.events.clone();
        Ok(AdmittedTurn { fresh, ..self.started((session, lane), &committed)? })
    }

    /// The turn that this commit started in a lane.
    fn started(
        &self,
        (session, lane): (SessionId, LaneId),
        committed: &Committed,
    ) -> Result<AdmittedTurn, CommandError> {
        let started = committed.events.iter().find_map(|event| match &event.body {
            EventBody::TurnStarted { turn, agent, lane: of, .. } if *of == lane => {
                Some((*turn, agent.clone()))
            }
            _ => None,
        });
        let (number, agent) = started.ok_or_else(|| {
            CommandError::from(policy::Rejection::new("T4", domain::Code::NotDue, "no turn was started"))
        })?;
        Ok(AdmittedTurn {
            sessions: self.clone(),
            session,
            lane,
            number,
            agent,
            renewed_at: renewed_at(committed).unwrap_or_else(|| self.now()),
            state: Arc::clone(&committed.state),
            fresh: Vec::new(),
            answer: None,
        })
    }
}

impl AdmittedTurn {
    /// The session.
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// The lane.
    pub const fn lane(&self) -> &LaneId {
        &self.lane
    }

    /// Its number.
    pub const fn number(&self) -> TurnNumber {
        self.number
    }

    /// The agent it runs.
    pub const fn agent(&self) -> &AgentName {
        &self.agent
    }

    /// The state after its last commit.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    pub(crate) const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The turn as the state has it; `None` once it is over.
    pub(crate) fn running(&self) -> Option<&RunningTurn> {
        self.state.running(self.number).map(|(_, running)| running)
    }

    /// The events committed since the last call of this function.
    pub(crate) fn take_fresh(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.fresh)
    }

    async fn commit(&mut self, order: Order, extra: Extra) -> Result<Committed, CommandError> {
        // A worker that slept past its time renews before anything else: if another took over, this is refused (T5).
        if self.sessions.now() >= self.renewed_at.plus_ms(RENEW_MS) {
            self.renew().await?;
        }
        let committed = self.sessions.execute(self.session, order, extra).await?;
        self.state = Arc::clone(&committed.state);
        self.fresh.extend(committed.events.iter().cloned());
        Ok(committed)
    }

    async fn record(&mut self, command: RuntimeCommand) -> Result<Committed, CommandError> {
        self.commit(Order::Runtime(command), Extra::default()).await
    }

    /// Keeps the lease (T5). Refused once another worker took over.
    pub async fn renew(&mut self) -> Result<(), CommandError> {
        let command = RuntimeCommand::RenewLease { turn: self.number, owner: self.sessions.owner().clone() };
        let committed =
            self.sessions.execute(self.session, Order::Runtime(command), Extra::default()).await?;
        self.renewed_at = renewed_at(&committed).unwrap_or_else(|| self.sessions.now());
        self.state = committed.state;
        Ok(())
    }

    /// Whether the lease is due for renewal.
    pub(crate) fn renewal_is_due(&self) -> bool {
        self.sessions.now() >= self.renewed_at.plus_ms(RENEW_MS)
    }

    /// Whether the lease's time is over, as far as this worker knows.
    pub(crate) fn lease_is_over(&self) -> bool {
        self.sessions.now() >= self.renewed_at.plus_ms(policy::LEASE_MS)
    }

    /// Reads the state anew, and whether the turn was asked to stop meanwhile.
    ///
    /// A refusal with `stale_epoch` says that the turn is over: recovery declared it lost.
    pub async fn stop_requested(&mut self) -> Result<Option<StopReason>, CommandError> {
        let head = self.sessions.head(self.session).await?;
        self.state = head.state;
        self.running().map(|running| running.stop).ok_or_else(|| {
            let message = format!("turn {} is over", self.number);
            policy::Rejection::new("T5", domain::Code::StaleEpoch, message).into()
        })
    }

    /// Begins the next model request, or the next attempt at one that failed (T6).
    pub async fn begin_request(&mut self, estimated_input: u64) -> Result<(), CommandError> {
        self.record(RuntimeCommand::BeginRequest { turn: self.number, estimated_input }).await.map(drop)
    }

    /// Records a failed attempt and returns when to try again; `None` means that the turn gives up (T9).
    pub async fn fail_request(
        &mut self,
        failure: Failure,
        elapsed_ms: i64,
    ) -> Result<Option<Timestamp>, CommandError> {
        let command =
            RuntimeCommand::FailRequest { turn: self.number, failure, elapsed_ms, jitter: fresh::jitter() };
        let committed = self.record(command).await?;
        let retry = committed.events.iter().find_map(|event| match &event.body {
            EventBody::ModelFailed { retry_at, .. } => *retry_at,
            _ => None,
        });
        Ok(retry)
    }

    /// Records a complete response and charges the Goal for it (G4).
    pub async fn record_response(
        &mut self,
        text: String,
        calls: Vec<ModelCall>,
        usage: TokenUsage,
    ) -> Result<(), CommandError> {
        self.answer = Some(text.clone()).filter(|text| !domain::is_blank(text));
        self.record(RuntimeCommand::RecordResponse { turn: self.number, text, calls, usage }).await.map(drop)
    }

    /// The call at this place of the last response.
    pub fn call(&self, index: u32) -> CallRef {
        let request = self.running().map_or(0, |running| running.request);
        CallRef { turn: self.number, request, index }
    }

    /// Admits a call: mode, grant and turn are read again in this transaction (M6).
    pub async fn admit_call(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        effect: Effect,
    ) -> Result<(), CommandError> {
        self.commit(Order::Agent(AgentCommand::AdmitCall { call, grant, effect }), Extra::default())
            .await
            .map(drop)
    }

    /// Runs a call that changes the session itself: admission, change and answer are one transaction.
    pub(crate) async fn work_state_call(
        &mut self,
        call: CallRef,
        command: AgentCommand,
        arguments: &str,
    ) -> Result<(), CommandError> {
        // The triple names the call: models repeat their own ids (E5).
        let key = CommandKey::parse(&format!("call:{call}")).ok();
        let key = key.map(|key| (key, store::digest(arguments.as_bytes())));
        let ran = match &command {
            AgentCommand::WaitGoal { ran, .. } => Some(*ran),
            _ => None,
        };
        let extra = Extra { key, evidence: self.evidence(ran), ..Extra::default() };
        self.commit(Order::Agent(command), extra).await.map(drop)
    }

    /// Answers a call that is not admitted.
    pub async fn refuse_call(
        &mut self,
        call: CallRef,
        outcome: CallOutcome,
        result: String,
    ) -> Result<(), CommandError> {
        self.record(RuntimeCommand::RefuseCall { call, outcome, result }).await.map(drop)
    }

    /// Records the result of an admitted call.
    pub async fn finish_call(&mut self, call: CallRef, result: CallResult) -> Result<(), CommandError> {
        let CallResult { outcome, text, full_output, ran } = result;
        let digest = full_output.as_deref().map(store::digest);
        let evidence = self.evidence(ran);
        let command = RuntimeCommand::FinishCall { call, outcome, result: text, full_output: digest, ran };
        let extra = Extra { blob: full_output, evidence, key: None };
        self.commit(Order::Runtime(command), extra).await.map(drop)
    }

    /// What ran, for the Goal that the turn is bound to: the store tells whether it is new (G7).
    fn evidence(&self, ran: Option<Fingerprint>) -> Option<(GoalId, Fingerprint)> {
        self.running().and_then(|running| running.goal).zip(ran).map(|(bound, ran)| (bound.goal_id, ran))
    }

    /// Asks a person about a call. The turn ends with it (I4).
    pub async fn ask(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        asked: NewRequest,
    ) -> Result<TurnOutcome, CommandError> {
        let committed = self.record(RuntimeCommand::Ask { call, grant, asked }).await?;
        let ended = committed.events.iter().find_map(|event| match &event.body {
            EventBody::TurnEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        });
        Ok(ended.unwrap_or(TurnOutcome::Completed))
    }

    /// Starts a command that goes on beside turns; the call is answered with its number. Tells that, and when the command's
    /// lease was taken.
    pub(crate) async fn start_command(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        effect: Effect,
        title: CommandTitle,
        ran: Fingerprint,
    ) -> Result<(CommandId, Timestamp), CommandError> {
        let owner = self.sessions.owner().clone();
        let command = AgentCommand::StartCommand { call, grant, effect, title, owner, ran };
        let extra = Extra { evidence: self.evidence(Some(ran)), ..Extra::default() };
        let committed = self.commit(Order::Agent(command), extra).await?;
        let command = committed.state.core.last_command;
        let taken_at = background::renewed_at(&committed, command);
        Ok((command, taken_at.unwrap_or_else(|| self.sessions.now())))
    }

    /// Delegates work: admission, the job and its first turn are one transaction. Gives that turn to whoever drives it.
    pub(crate) async fn start_job(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        job: NewJob,
    ) -> Result<Self, CommandError> {
        let extra = Extra { evidence: self.evidence(Some(job.ran)), ..Extra::default() };
        let order = Order::Agent(AgentCommand::StartJob { call, grant, job });
        let committed = self.commit(order, extra).await?;
        let lane = LaneId::of_job(committed.state.core.last_job);
        self.sessions.started((self.session, lane), &committed)
    }

    /// Ends the turn and returns its outcome: a turn that was asked to stop ends as stopped, whatever is proposed.
    pub async fn finish(&mut self, proposed: TurnOutcome) -> Result<TurnOutcome, CommandError> {
        let (turn, outcome, jitter) = (self.number, proposed.clone(), fresh::jitter());
        let report = self.answer.take().filter(|_| !self.lane.is_main());
        let command = RuntimeCommand::EndTurn { turn, outcome, report, jitter };
        let committed = self.record(command).await?;
        let ended = committed.events.iter().find_map(|event| match &event.body {
            EventBody::TurnEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        });
        Ok(ended.unwrap_or(proposed))
    }
}
