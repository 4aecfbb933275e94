//! What happened: the entries of the append-only log (E1, E4).

use serde::{Deserialize, Serialize};

use crate::effect::{Confinement, Digest, Effect};
use crate::failure::Failure;
use crate::goal::{Amendment, Budgets, GoalStatus, Objective, Remark, Retry};
use crate::id::{
    AgentName, CallRef, ClientName, CommandId, GoalId, InputId, JobId, LaneId, ModelName, PlanId, RequestId,
    Revision, Seq, Timestamp, TurnNumber, WorkerName,
};
use crate::inbox::{GrantedCall, InputCancelReason, InputKind, InputText};
use crate::job::{Job, JobOutcome};
use crate::mode::Mode;
use crate::plan::Plan;
use crate::progress::Evidence;
use crate::request::{HumanRequest, RequestEnd};
use crate::text::Text;
use crate::turn::{CallOutcome, GoalBinding, ModelCall, StopReason, TurnOutcome, TurnTrigger};
use crate::usage::TokenUsage;
use crate::wait::{BackgroundCommand, Wait, WaitOver};

/// Who caused an event (E4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Actor {
    /// A person, through a client.
    User {
        /// The client.
        client: ClientName,
    },
    /// The model of a turn.
    Agent {
        /// Its lane.
        lane: LaneId,
        /// Its turn.
        turn: TurnNumber,
    },
    /// The runtime itself.
    Runtime {
        /// The worker.
        worker: WorkerName,
    },
}

impl Actor {
    /// The kind of actor, as messages name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::User { .. } => "user",
            Self::Agent { .. } => "agent",
            Self::Runtime { .. } => "runtime",
        }
    }
}

/// Makes a command safe to send twice (E5). At most 200 characters: room for a protocol's own call id.
pub type CommandKey = Text<200>;

/// An entry of a session's log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// Who caused it.
    pub actor: Actor,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
    /// The key of the command that caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_key: Option<CommandKey>,
}

/// What happened. Additive: a kind is never removed or given another meaning (E7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", content = "payload", rename_all = "snake_case")]
pub enum EventBody {
    /// The first event of every session.
    SessionOpened {
        /// The absolute path of the workspace root.
        workspace: String,
        /// The agent for Work mode.
        agent: AgentName,
    },
    /// Another agent for Work mode; in Plan mode it takes effect later (M2).
    AgentSelected {
        /// The agent.
        agent: AgentName,
    },
    /// The mode changed (M7).
    ModeChanged {
        /// The mode it is in from here on.
        mode: Mode,
    },
    /// A plan was accepted. Carries the whole plan, so that every revision is one read (P15).
    PlanRevised {
        /// The lane.
        lane: LaneId,
        /// The plan as accepted.
        #[schemars(with = "serde_json::Value")]
        plan: Plan,
    },
    /// A plan that no longer applies was closed; its steps keep their statuses (P17).
    PlanClosed {
        /// The lane.
        lane: LaneId,
        /// The plan.
        plan_id: PlanId,
        /// Its last revision.
        revision: Revision,
        /// Why.
        reason: Remark,
    },
    /// A Goal came to be.
    GoalOpened {
        /// Its id.
        goal_id: GoalId,
        /// What it is after.
        objective: Objective,
        /// How to tell that it is reached.
        criteria: Option<Objective>,
        /// What it may spend.
        budgets: Budgets,
        /// Where it starts.
        status: GoalStatus,
    },
    /// A Goal changed its status.
    GoalMoved {
        /// The Goal.
        goal_id: GoalId,
        /// Its status from here on.
        to: GoalStatus,
        /// What whoever moved it had to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Remark>,
        /// At completion: how many plan steps are unfinished (P21).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfinished_steps: Option<u32>,
    },
    /// The user changed what a Goal is after, or accepted an agent's proposal of that (G3).
    GoalEdited {
        /// The Goal.
        goal_id: GoalId,
        /// What it is after from here on.
        objective: Objective,
        /// How to tell that it is reached.
        criteria: Option<Objective>,
    },
    /// The user changed what a Goal may spend (G4).
    GoalBudgetChanged {
        /// The Goal.
        goal_id: GoalId,
        /// What it may spend from here on.
        budgets: Budgets,
    },
    /// An agent proposed a change of an accepted Goal (G3).
    GoalAmendmentProposed {
        /// The Goal.
        goal_id: GoalId,
        /// The change.
        amendment: Amendment,
    },
    /// The user declined the proposed change.
    GoalAmendmentDeclined {
        /// The Goal.
        goal_id: GoalId,
    },
    /// The agent of a turn declared the Goal blocked; the third turn that does without progress in between
    /// blocks it (G6).
    GoalBlockStaged {
        /// The Goal.
        goal_id: GoalId,
        /// The turn.
        turn: TurnNumber,
        /// What is in the way.
        reason: Remark,
    },
    /// A Goal waits (G10).
    GoalWaitSet {
        /// The Goal.
        goal_id: GoalId,
        /// What for.
        wait: Wait,
    },
    /// What a Goal waits for is there; its next continuation consumes the wait (G10).
    GoalWaitMet {
        /// The Goal.
        goal_id: GoalId,
    },
    /// The user had a wait dropped.
    GoalWaitLifted {
        /// The Goal.
        goal_id: GoalId,
    },
    /// A Goal was charged for the time in which its turns ran (G4).
    GoalTimeCharged {
        /// The Goal.
        goal_id: GoalId,
        /// Milliseconds since the last charge.
        active_ms: u64,
    },
    /// A Goal was charged for one attempt at a model request; once per attempt (G5).
    GoalCharged {
        /// The Goal.
        goal_id: GoalId,
        /// The turn.
        turn: TurnNumber,
        /// The request.
        request: u32,
        /// The attempt at it, from 1; 0 in logs that do not tell.
        #[serde(default)]
        attempt: u32,
        /// What it cost.
        usage: TokenUsage,
    },
    /// A share of a budget is used up (G4).
    GoalBudgetAnnounced {
        /// The Goal.
        goal_id: GoalId,
        /// 50 or 80.
        percent: u8,
    },
    /// A durable retry waits (T10).
    RetryScheduled {
        /// The Goal it is tied to.
        goal_id: GoalId,
        /// The retry.
        retry: Retry,
    },
    /// The retry is over: success, pause, edit or replacement (T10).
    RetryCleared {
        /// The Goal.
        goal_id: GoalId,
    },
    /// An input was admitted (I1).
    InputQueued {
        /// The lane.
        lane: LaneId,
        /// Where it comes from.
        input: InputKind,
        /// The text.
        text: InputText,
        /// The Goal it belongs to (I5).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal_id: Option<GoalId>,
        /// The call it allows (I4).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runs: Option<GrantedCall>,
    },
    /// The rows are part of the history from here on (I2).
    InputConsumed {
        /// The turn that took them.
        turn: TurnNumber,
        /// The rows.
        rows: Vec<InputId>,
    },
    /// A row went back to its place after its turn was lost (I2).
    InputReturned {
        /// The row.
        row: InputId,
    },
    /// A row will not run.
    InputCancelled {
        /// The row.
        row: InputId,
        /// Why.
        reason: InputCancelReason,
    },
    /// Queued rows wait for the next act of the user (G11).
    InboxHeld,
    /// They may run again.
    InboxReleased,
    /// A person is asked (I4).
    RequestOpened {
        /// The request.
        #[serde(flatten)]
        request: HumanRequest,
    },
    /// A request was settled: answered, or not waited for any more (I4).
    RequestSettled {
        /// The request.
        request: RequestId,
        /// How.
        end: RequestEnd,
    },
    /// A background command began.
    CommandStarted {
        /// The command.
        #[serde(flatten)]
        command: BackgroundCommand,
    },
    /// A background command was asked to stop.
    CommandStopRequested {
        /// The command.
        command: CommandId,
    },
    /// A background command is over.
    CommandEnded {
        /// The command.
        command: CommandId,
        /// How it ended.
        outcome: CallOutcome,
        /// The full output, if the report holds only its head and tail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full_output: Option<Digest>,
    },
    /// A job began: its lane exists from here on, and its first turn starts in the same decision (W2).
    JobStarted {
        /// The job.
        #[serde(flatten)]
        job: Job,
    },
    /// A job is over, and its lane with it. Its report is queued or answers its call in the same decision (W2).
    JobEnded {
        /// The job.
        job: JobId,
        /// How it ended.
        outcome: JobOutcome,
    },
    /// A turn was admitted, and took the lease (T4, T5).
    TurnStarted {
        /// Its number.
        turn: TurnNumber,
        /// Its lane.
        lane: LaneId,
        /// Its agent.
        agent: AgentName,
        /// Its model.
        model: ModelName,
        /// Why.
        trigger: TurnTrigger,
        /// The Goal it is bound to.
        goal: Option<GoalBinding>,
        /// Model requests it may make (T12).
        #[serde(default = "crate::turn::default_max_requests")]
        max_requests: u32,
        /// The wait that its start ends (G10).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_over: Option<WaitOver>,
        /// How its commands are confined, if its worker said so (C6).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confinement: Option<Confinement>,
    },
    /// A running turn was asked to stop (T6).
    TurnStopRequested {
        /// The turn.
        turn: TurnNumber,
        /// Why.
        reason: StopReason,
    },
    /// A model request begins.
    ModelRequested {
        /// The turn.
        turn: TurnNumber,
        /// The request, from 1.
        request: u32,
        /// The attempt at it, from 1.
        attempt: u32,
        /// What its input is estimated to cost.
        estimated_input: u64,
        /// The Goal that pays for it.
        charged_to: Option<GoalId>,
    },
    /// An attempt at a model request failed.
    ModelFailed {
        /// The turn.
        turn: TurnNumber,
        /// The request.
        request: u32,
        /// The attempt.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// When the same request is tried again; absent if the turn gives up.
        retry_at: Option<Timestamp>,
    },
    /// A complete response (T6).
    ModelResponded {
        /// The turn.
        turn: TurnNumber,
        /// The request.
        request: u32,
        /// Its text.
        text: String,
        /// Its calls.
        calls: Vec<ModelCall>,
        /// What it cost.
        usage: TokenUsage,
    },
    /// A call may run (M6).
    CallAdmitted {
        /// The call.
        call: CallRef,
        /// The tool.
        tool: String,
        /// What it may change.
        effect: Effect,
    },
    /// A call has its result.
    CallFinished {
        /// The call.
        call: CallRef,
        /// The tool as the model named it.
        tool: String,
        /// How it ended.
        outcome: CallOutcome,
        /// What the model reads.
        result: String,
        /// The full output, if `result` is only its head and tail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full_output: Option<Digest>,
        /// What it says about the progress of the Goal its turn is bound to (G7).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Evidence>,
    },
    /// A turn ended.
    TurnEnded {
        /// The turn.
        turn: TurnNumber,
        /// How.
        outcome: TurnOutcome,
    },
    /// A turn's owner is gone (T7).
    TurnLost {
        /// The turn.
        turn: TurnNumber,
    },
}

macro_rules! kinds {
    ($($variant:ident => $name:literal),+ $(,)?) => {
        impl EventBody {
            /// The kinds this build knows.
            pub const KINDS: &[&str] = &[$($name),+];

            /// The kind, in snake case.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name),+
                }
            }
        }
    };
}

kinds! {
    SessionOpened => "session_opened",
    AgentSelected => "agent_selected",
    ModeChanged => "mode_changed",
    PlanRevised => "plan_revised",
    PlanClosed => "plan_closed",
    GoalOpened => "goal_opened",
    GoalMoved => "goal_moved",
    GoalEdited => "goal_edited",
    GoalBudgetChanged => "goal_budget_changed",
    GoalAmendmentProposed => "goal_amendment_proposed",
    GoalAmendmentDeclined => "goal_amendment_declined",
    GoalBlockStaged => "goal_block_staged",
    GoalWaitSet => "goal_wait_set",
    GoalWaitMet => "goal_wait_met",
    GoalWaitLifted => "goal_wait_lifted",
    GoalTimeCharged => "goal_time_charged",
    GoalCharged => "goal_charged",
    GoalBudgetAnnounced => "goal_budget_announced",
    RetryScheduled => "retry_scheduled",
    RetryCleared => "retry_cleared",
    InputQueued => "input_queued",
    InputConsumed => "input_consumed",
    InputReturned => "input_returned",
    InputCancelled => "input_cancelled",
    InboxHeld => "inbox_held",
    InboxReleased => "inbox_released",
    RequestOpened => "request_opened",
    RequestSettled => "request_settled",
    CommandStarted => "command_started",
    CommandStopRequested => "command_stop_requested",
    CommandEnded => "command_ended",
    JobStarted => "job_started",
    JobEnded => "job_ended",
    TurnStarted => "turn_started",
    TurnStopRequested => "turn_stop_requested",
    ModelRequested => "model_requested",
    ModelFailed => "model_failed",
    ModelResponded => "model_responded",
    CallAdmitted => "call_admitted",
    CallFinished => "call_finished",
    TurnEnded => "turn_ended",
    TurnLost => "turn_lost",
}

impl EventBody {
    /// The version of the payloads this build writes and reads.
    pub const VERSION: u32 = 1;

    /// The turn in which it happened, if it is a part of one.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the kinds that are no part of a turn are most of them"
    )]
    pub const fn turn(&self) -> Option<TurnNumber> {
        match self {
            Self::InputConsumed { turn, .. }
            | Self::TurnStarted { turn, .. }
            | Self::TurnStopRequested { turn, .. }
            | Self::ModelRequested { turn, .. }
            | Self::ModelFailed { turn, .. }
            | Self::ModelResponded { turn, .. }
            | Self::TurnEnded { turn, .. }
            | Self::TurnLost { turn } => Some(*turn),
            Self::CallAdmitted { call, .. } | Self::CallFinished { call, .. } => Some(call.turn),
            _ => None,
        }
    }
}
