//! What exists in Zuno: the types of plans, modes, Goals, turns and events, and how events make state.
//!
//! Pure: no I/O, no clock, no randomness. Nothing here decides whether something is allowed; that is `policy`.
//! Start reading at [`SessionState`] and [`EventBody`]: a session is the fold of its events. A type with an
//! invariant can only be made by checking it, also when it is read back: deserialising parses.

#![warn(clippy::wildcard_enum_match_arm)]

mod capability;
mod effect;
mod event;
mod failure;
mod goal;
mod id;
mod inbox;
mod job;
mod mode;
mod plan;
mod progress;
mod request;
mod state;
mod text;
mod turn;
mod usage;
mod violation;
mod wait;

pub use capability::{Capability, CapabilitySet};
pub use effect::{Confinement, Digest, Effect, Settlement};
pub use event::{Actor, CommandKey, Event, EventBody};
pub use failure::{Failure, FailureClass, FailureKind};
pub use goal::{
    Amendment, BlockCode, Budgets, Denial, Goal, GoalState, GoalStatus, GoalUsage, OBJECTIVE_CHARS,
    Objective, PauseReason, REMARK_CHARS, Remark, Retry,
};
pub use id::{
    AgentName, CallRef, ClientName, CommandId, GoalId, InputId, InvalidId, JobId, LaneId, ModelName, PlanId,
    RequestId, Revision, Seq, SessionId, Timestamp, TurnNumber, WorkerName,
};
pub use inbox::{
    GrantedCall, INPUT_CHARS, InboxRow, InputCancelReason, InputKind, InputText, QUEUED_ROWS, RETURNS,
};
pub use job::{JOB_TITLE_CHARS, Job, JobOutcome, JobTitle, RUNNING_JOBS};
pub use mode::Mode;
pub use plan::{
    Candidate, CandidateStep, DecodedCandidate, EXPLANATION_CHARS, Plan, PlanDiff, STEP_ID_BYTES, STEPS,
    Snapshot, Standing, Step, StepChange, StepId, StepIdFault, StepStatus, TITLE_CHARS, Title, UnknownKeys,
    decode_candidate, decode_revision,
};
pub use progress::{Evidence, Fingerprint, Progress, Repeat, Streaks};
pub use request::{
    Answer, AnswerOption, Asked, HumanRequest, OPEN_REQUESTS, OPTION_CHARS, OPTIONS, QUESTION_CHARS,
    Question, RequestEnd,
};
pub use state::{Core, Lane, LatestPlan, PlanClosure, PlanHead, SessionState};
pub use text::{Text, TextFault, is_blank, is_invisible, trim};
pub use turn::{
    CallOutcome, CallState, GoalBinding, ModelCall, OpenCall, REQUESTS_PER_TURN, RunningTurn, StopReason,
    TOOL_NAME_CHARS, TurnEnd, TurnOutcome, TurnPhase, TurnTrigger,
};
pub use usage::TokenUsage;
pub use violation::{Code, Violation};
pub use wait::{
    BackgroundCommand, COMMAND_TITLE_CHARS, CommandTitle, Condition, RUNNING_COMMANDS, WAIT_MS,
    WAITED_PATH_CHARS, Wait, WaitOver, WaitedPath,
};
