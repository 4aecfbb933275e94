//! Everything that can be asked of a session, by who may ask it.
//!
//! Which enum a command stands in is its authority: a model's tool call can only become an [`AgentCommand`].
//! Fresh ids and jitter come with the command, so that deciding stays pure (E2).

use std::collections::BTreeMap;

use domain::{
    AgentName, Budgets, CallOutcome, CallRef, CapabilitySet, ClientName, Digest, Effect, Failure, GoalId,
    InputText, LaneId, ModelCall, ModelName, Objective, PlanId, Remark, Revision, Snapshot, TokenUsage,
    TurnNumber, TurnOutcome, WorkerName,
};
use serde::Serialize;

use crate::facts::Owner;

/// The authority of a person, through one client. Whoever holds it can change the mode, so only the composition
/// root makes one and hands it to clients that speak for a person (M1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserActor {
    client: ClientName,
}

impl UserActor {
    /// Makes the authority for a client.
    pub const fn for_client(client: ClientName) -> Self {
        Self { client }
    }

    /// The client.
    pub const fn client(&self) -> &ClientName {
        &self.client
    }
}

/// A command with its authority.
#[derive(Debug, Clone, Copy)]
pub enum Command<'a> {
    /// A person's act.
    User(&'a UserActor, &'a UserCommand),
    /// A call of the model of a running turn.
    Agent(&'a AgentCommand),
    /// The runtime's own bookkeeping.
    Runtime(&'a WorkerName, &'a RuntimeCommand),
}

/// What a person may do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[expect(missing_docs, reason = "the variants' docs name their fields; the types carry the rest")]
pub enum UserCommand {
    /// Opens the session.
    OpenSession { workspace: String, agent: AgentName },
    /// Chooses the agent for Work mode (M2).
    SelectAgent { agent: AgentName },
    /// Enters Plan mode (M3).
    EnterPlan,
    /// Goes back to Work mode (M4), optionally with a first prompt.
    StartWork { lane: LaneId, expected_plan_revision: Option<Revision>, prompt: Option<InputText> },
    /// Replaces the plan.
    UpdatePlan { lane: LaneId, update: PlanUpdate },
    /// Closes a plan that no longer applies (P17).
    ClosePlan { lane: LaneId, expected_revision: Option<Revision>, reason: Remark },
    /// Opens a Goal; over an open one only with `replace` (G13).
    SetGoal {
        goal_id: GoalId,
        objective: Objective,
        criteria: Option<Objective>,
        budgets: Budgets,
        replace: bool,
    },
    /// Holds the Goal.
    PauseGoal,
    /// Lets it go on, whatever held it.
    ResumeGoal,
    /// Gives it up.
    CancelGoal,
    /// Declares it reached.
    CompleteGoal { summary: Option<Remark> },
    /// Queues a prompt (I1).
    SubmitInput { lane: LaneId, text: InputText },
    /// Stops what runs, pauses the Goal and holds the queue (G11).
    Interrupt,
}

/// A checked plan on its way to become the next revision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct PlanUpdate {
    /// The content; its structure was checked (P1–P7).
    pub snapshot: Snapshot,
    /// The revision it is based on.
    pub expected_revision: Option<Revision>,
    /// The Goal it names, as sent (P12).
    pub goal_id: Option<String>,
    /// The id of the plan, should this open a new one.
    pub new_plan: PlanId,
}

/// What a call needs and what its agent has, apart from the mode, which is read when it is admitted (M6).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallGrant {
    /// Every capability the tool needs.
    pub requires: CapabilitySet,
    /// The agent's grant: role, lane and configuration already intersected (C2).
    pub grant: CapabilitySet,
    /// Whether the tool passes the configured allow-list.
    pub tool_is_allowed: bool,
}

/// What the model of a running turn may do through a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants' docs name their fields; the types carry the rest")]
pub enum AgentCommand {
    /// Starts a call whose effect is outside the log.
    AdmitCall { call: CallRef, grant: CallGrant, effect: Effect },
    /// `plan_update`: admitted, done and answered in one transaction.
    UpdatePlan { call: CallRef, grant: CallGrant, update: PlanUpdate, ignored: Vec<String> },
    /// `plan_close` (P17).
    ClosePlan { call: CallRef, grant: CallGrant, expected_revision: Revision, reason: Remark },
    /// `goal_update` with `completed` (G2).
    CompleteGoal { call: CallRef, grant: CallGrant, summary: Option<Remark> },
}

/// What may start turns on behalf of whoever admits them (T11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Queued input only: the caller asks the person before a Goal goes on.
    InputOnly,
    /// Queued input and the active Goal.
    All,
}

/// What the runtime records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants' docs name their fields; the types carry the rest")]
pub enum RuntimeCommand {
    /// Starts the turn that is due, if one is (T4).
    AdmitTurn { lane: LaneId, owner: Owner, model: ModelName, scope: Scope },
    /// Ends a turn whose owner is gone (T7). `dead` is an owner seen dead on its own machine; `found` are the
    /// digests of the files that open writes were about.
    RecoverTurn { turn: TurnNumber, dead: Option<Owner>, found: BTreeMap<CallRef, Option<Digest>> },
    /// Keeps the lease (T5).
    RenewLease { turn: TurnNumber, owner: Owner },
    /// Begins a model request, or another attempt at it (T6).
    BeginRequest { turn: TurnNumber, estimated_input: u64 },
    /// An attempt failed (T9). `elapsed_ms` is the time since the first attempt at this request.
    FailRequest { turn: TurnNumber, failure: Failure, elapsed_ms: i64, jitter: Jitter },
    /// A complete response arrived.
    RecordResponse { turn: TurnNumber, text: String, calls: Vec<ModelCall>, usage: TokenUsage },
    /// A call ends without having been admitted.
    RefuseCall { call: CallRef, outcome: CallOutcome, result: String },
    /// An admitted call has its result.
    FinishCall { call: CallRef, outcome: CallOutcome, result: String, full_output: Option<Digest> },
    /// The turn is over.
    EndTurn { turn: TurnNumber, outcome: TurnOutcome, jitter: Jitter },
}

/// A random share between −20 % and +20 %, drawn by the caller, that keeps retries of many sessions apart (T9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Jitter(i16);

impl Jitter {
    /// From a random number of any size.
    pub fn from_random(random: u64) -> Self {
        Self(i16::try_from(random % 401).unwrap_or(0) - 200)
    }

    /// `delay_ms` moved by the share.
    pub fn apply(self, delay_ms: i64) -> i64 {
        delay_ms + delay_ms * i64::from(self.0) / 1_000
    }
}
