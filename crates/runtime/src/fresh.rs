//! What is new each time: ids and chance, drawn here so that deciding stays pure (E2).

use domain::{GoalId, PlanId, SessionId};
use policy::Jitter;
use uuid::Uuid;

/// A session id, ordered by time.
pub(crate) fn session() -> SessionId {
    SessionId::from_u128(Uuid::now_v7().as_u128())
}

/// A plan id, ordered by time.
pub(crate) fn plan() -> PlanId {
    PlanId::from_u128(Uuid::now_v7().as_u128())
}

/// A Goal id, ordered by time.
pub(crate) fn goal() -> GoalId {
    GoalId::from_u128(Uuid::now_v7().as_u128())
}

/// A jitter, from the random tail of a UUID.
pub(crate) fn jitter() -> Jitter {
    let (_, low) = Uuid::now_v7().as_u64_pair();
    Jitter::from_random(low)
}
