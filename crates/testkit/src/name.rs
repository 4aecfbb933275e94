//! Ids that are told apart at a glance.

use domain::{GoalId, PlanId, SessionId};

/// The n-th session id.
pub const fn session_id(n: u128) -> SessionId {
    SessionId::from_u128(0x5e55 << 112 | n)
}

/// The n-th plan id.
pub const fn plan_id(n: u128) -> PlanId {
    PlanId::from_u128(0x91a0 << 112 | n)
}

/// The n-th Goal id.
pub const fn goal_id(n: u128) -> GoalId {
    GoalId::from_u128(0x90a1 << 112 | n)
}
