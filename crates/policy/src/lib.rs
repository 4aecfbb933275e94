//! What is allowed: [`decide`] turns a command into events or refuses it, [`next_action`] says who may start a turn.
//!
//! Pure: no I/O, no clock, no randomness; what a rule needs to know stands in [`SessionState`](domain::SessionState),
//! in [`Facts`] or in the command. Only this crate makes a [`Decision`], and the store commits nothing else.

#![warn(clippy::wildcard_enum_match_arm)]

mod budget;
mod call;
mod command;
mod continuation;
mod decide;
mod decision;
mod facts;
mod goal;
mod grant;
mod inbox;
mod mode;
mod plan;
mod rejection;
mod retry;
mod stop;
mod turn;

pub use call::RESULT_BYTES;
pub use command::{
    AgentCommand, CallGrant, Command, Jitter, PlanUpdate, RuntimeCommand, Scope, UserActor, UserCommand,
};
pub use continuation::{ContinuationView, IdleReason, NextAction, next_action, wake_at};
pub use decide::decide;
pub use decision::Decision;
pub use facts::{Facts, KeyVerdict, LEASE_MS, Lease, Owner, key_verdict};
pub use goal::{Mover, may_move};
pub use grant::{PLAN_MODE, check_call, in_mode};
pub use mode::{PLAN_AGENT, turn_agent};
pub use rejection::{PlanBrief, Rejection, StepBrief};
pub use retry::{ATTEMPTS_IN_PLACE, IN_PLACE_MS};
pub use turn::{CALLS_PER_RESPONSE, REQUESTS_PER_TURN, RESPONSE_BYTES};
