//! What is allowed: [`decide`] turns a command into events or refuses it, [`next_action`] says who may start a turn.
//!
//! Pure: no I/O, no clock, no randomness; what a rule needs to know stands in [`SessionState`](domain::SessionState),
//! in [`Facts`] or in the command. Only this crate makes a [`Decision`], and the store commits nothing else.

#![warn(clippy::wildcard_enum_match_arm)]

mod background;
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
mod job;
mod mode;
mod plan;
mod progress;
mod rejection;
mod request;
mod retry;
mod stop;
mod turn;
mod wait;

pub use call::RESULT_BYTES;
pub use command::{
    AgentCommand, BudgetEdit, CallGrant, Command, CriteriaEdit, Delivery, Jitter, NewJob, NewRequest,
    Permission, PlanUpdate, RuntimeCommand, Scope, UserActor, UserCommand,
};
pub use continuation::{Awaited, ContinuationView, Delay, IdleReason, NextAction, next_action, wake_at};
pub use decide::decide;
pub use decision::Decision;
pub use facts::{CommandLease, Facts, KeyVerdict, LEASE_MS, Lease, Leases, Owner, key_verdict};
pub use goal::{Mover, may_move};
pub use grant::{PLAN_MODE, check_call, in_mode};
pub use job::{CHILD, REPORT_BYTES};
pub use mode::{PLAN_AGENT, turn_agent};
pub use rejection::{PlanBrief, Rejection, StepBrief};
pub use retry::{ATTEMPTS_IN_PLACE, IN_PLACE_MS};
pub use turn::{CALLS_PER_RESPONSE, RESPONSE_BYTES};
pub use wait::LOOK_MS;
