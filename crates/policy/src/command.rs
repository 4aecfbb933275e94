//! Everything that can be asked of a session, by who may ask it.
//!
//! Which enum a command stands in is its authority: a model's tool call can only become an [`AgentCommand`].
//! Fresh ids and jitter come with the command, so that deciding stays pure (E2).

use std::collections::BTreeMap;

use std::num::{NonZeroU32, NonZeroU64};

use domain::{
    AgentName, Answer, AnswerOption, Budgets, CallOutcome, CallRef, CapabilitySet, ClientName, CommandId,
    CommandTitle, Confinement, Digest, Effect, Failure, Fingerprint, GoalId, InputText, JobId, JobTitle,
    LaneId, ModelCall, ModelName, Objective, PlanId, Question, Remark, RequestId, Revision, Snapshot,
    TokenUsage, TurnNumber, TurnOutcome, Wait, WorkerName,
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
    /// Accepts what an agent proposes: a Goal, or a change of one (G3).
    AcceptGoal { expected_revision: Option<Revision> },
    /// Declines what an agent proposes.
    DeclineGoal,
    /// Changes what the Goal is after.
    EditGoal { objective: Option<Objective>, criteria: CriteriaEdit, expected_revision: Option<Revision> },
    /// Changes what the Goal may spend; a Goal that ran out of it goes on (G4).
    SetBudgets { budgets: BudgetEdit },
    /// Holds the Goal.
    PauseGoal,
    /// Lets it go on, whatever held it; drops a wait or retry of an active one.
    ResumeGoal,
    /// Gives it up.
    CancelGoal,
    /// Declares it reached; with `force` also while work of it is open, which is cancelled (G12).
    CompleteGoal { summary: Option<Remark>, force: bool },
    /// Queues a prompt (I1), or a word to the running turn; with `resume` the Goal goes on too (G9).
    SubmitInput { lane: LaneId, text: InputText, delivery: Delivery, resume: bool },
    /// Answers a request (I4).
    AnswerRequest { request: RequestId, answer: Answer },
    /// Stops a background command.
    StopCommand { command: CommandId },
    /// Ends a job (W2).
    CancelJob { job: JobId },
    /// Stops what runs, pauses the Goal and holds the queue (G11).
    Interrupt,
}

/// How a person's text reaches the agent (I1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// In a turn of its own, after what waits before it.
    Queue,
    /// In the running turn at its next safe point; in a turn of its own if none runs.
    Steer,
}

/// What becomes of a Goal's criteria.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CriteriaEdit {
    /// They stay.
    Keep,
    /// The Goal has none any more.
    Remove,
    /// These.
    Set(Objective),
}

/// The parts of a budget that change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BudgetEdit {
    /// Uncached input and output tokens.
    pub tokens: Option<NonZeroU64>,
    /// Turns.
    pub turns: Option<NonZeroU32>,
    /// Milliseconds in which turns run.
    pub active_ms: Option<NonZeroU64>,
}

impl BudgetEdit {
    /// The budgets with these parts changed.
    #[must_use]
    pub fn apply_to(self, budgets: Budgets) -> Budgets {
        Budgets {
            tokens: self.tokens.unwrap_or(budgets.tokens),
            turns: self.turns.unwrap_or(budgets.turns),
            active_ms: self.active_ms.unwrap_or(budgets.active_ms),
        }
    }
}

/// What the user's permission rules say about one call (C2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Permission {
    /// It may run.
    Allow,
    /// A person has to allow it first.
    Ask {
        /// Which rule says so, in words.
        because: String,
    },
    /// It must not run.
    Deny {
        /// Which rule says so, in words.
        because: String,
    },
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
    /// What the permission rules say.
    pub permission: Permission,
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
    /// `goal_update` with `blocked` (G6).
    StageBlock { call: CallRef, grant: CallGrant, reason: Remark },
    /// `goal_wait` (G10). `ran` tells it from other calls (G7).
    WaitGoal { call: CallRef, grant: CallGrant, wait: Wait, ran: Fingerprint },
    /// `goal_propose` (G3). The id and the budgets are for a Goal that this opens.
    ProposeGoal {
        call: CallRef,
        grant: CallGrant,
        goal_id: GoalId,
        objective: Objective,
        criteria: Option<Objective>,
        budgets: Budgets,
    },
    /// Starts a command that goes on beside turns, and answers the call. `ran` tells it from other calls (G7).
    StartCommand {
        call: CallRef,
        grant: CallGrant,
        effect: Effect,
        title: CommandTitle,
        owner: Owner,
        ran: Fingerprint,
    },
    /// `command_stop`.
    StopCommand { call: CallRef, grant: CallGrant, command: CommandId },
    /// `task`: opens a lane for delegated work and starts its turn (C5, W2).
    StartJob { call: CallRef, grant: CallGrant, job: NewJob },
}

/// What an agent delegates, and the terms on which it is done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewJob {
    /// Who is to do it.
    pub agent: AgentName,
    /// All that this agent may do anywhere.
    pub role_grant: CapabilitySet,
    /// How it is shown.
    pub title: JobTitle,
    /// What it is to do, in full.
    pub text: InputText,
    /// Whether the call is answered at once and the report comes later, or the call waits for it.
    pub is_background: bool,
    /// The walls around its commands, as in [`RuntimeCommand::AdmitTurn`].
    pub confinement: Option<Confinement>,
    /// What tells the call from others (G7).
    pub ran: Fingerprint,
}

/// What a turn asks a person (I4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants' docs name their fields")]
pub enum NewRequest {
    /// An answer in words, with suggestions.
    Input { question: Question, options: Vec<AnswerOption> },
    /// Leave for the call itself: what it would do, in a line.
    Permission { subject: Question },
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
    AdmitTurn {
        lane: LaneId,
        owner: Owner,
        model: ModelName,
        scope: Scope,
        max_requests: NonZeroU32,
        confinement: Option<Confinement>,
    },
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
    /// An admitted call has its result. `ran` is the fingerprint of tool, arguments and exit status of one that ran (G7).
    FinishCall {
        call: CallRef,
        outcome: CallOutcome,
        result: String,
        full_output: Option<Digest>,
        ran: Option<Fingerprint>,
    },
    /// A call is answered by a person: opens the request, ends the turn and pauses its Goal (I4).
    Ask { call: CallRef, grant: CallGrant, asked: NewRequest },
    /// Keeps a background command's lease.
    RenewCommand { command: CommandId, owner: Owner },
    /// A background command is over; queues its report (I5).
    EndCommand { command: CommandId, outcome: CallOutcome, result: String, full_output: Option<Digest> },
    /// Ends a background command whose owner is gone (T7).
    RecoverCommand { command: CommandId, dead: Option<Owner> },
    /// The file that the Goal waits for was looked at (G10).
    LookAtFile { goal_id: GoalId, found: Option<Digest> },
    /// The turn is over. `report` is its last answer, which is what a job's parent reads.
    EndTurn { turn: TurnNumber, outcome: TurnOutcome, report: Option<String>, jitter: Jitter },
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
