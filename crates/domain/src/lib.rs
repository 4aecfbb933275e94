//! What exists in Zuno: the types of plans, modes, Goals, turns and events, and how events make state.
//!
//! Pure: no I/O, no clock, no randomness. Nothing here decides whether something is allowed; that is `policy`.

mod capability;
mod effect;
mod failure;
mod id;
mod text;
mod usage;

pub use capability::{Capability, CapabilitySet};
pub use effect::{Digest, Effect, Settlement};
pub use failure::{Failure, FailureClass, FailureKind};
pub use id::{
    AgentName, CallRef, ClientName, GoalId, InputId, InvalidId, LaneId, ModelName, PlanId, Revision, Seq,
    SessionId, Timestamp, TurnNumber, WorkerName,
};
pub use text::{Text, TextFault, is_blank, is_invisible, trim};
pub use usage::TokenUsage;
