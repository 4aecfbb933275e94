//! What the store read in the transaction in which a command is decided.

use domain::{Timestamp, TurnNumber, WorkerName};
use serde::{Deserialize, Serialize};

/// How long a lease lasts without renewal. Long enough for a slow disk or a stopped laptop lid, short enough that
/// another machine does not wait a minute for work to go on.
pub const LEASE_MS: i64 = 15_000;

/// A process that owns turns, so that others on its machine can tell whether it is still there (T5).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Its name, new at each start.
    pub worker: WorkerName,
    /// The boot of the machine and the process-id namespace: only within both is `pid` meaningful. Empty where
    /// the system does not tell; such an owner is never seen dead and only its expiry counts.
    pub place: String,
    /// Its process id there.
    pub pid: u32,
    /// When the process started, in the kernel's clock ticks since boot: a reused pid has another one.
    pub started: u64,
}

/// Who may write for the running turn, and until when without renewal (T5).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The owner.
    pub owner: Owner,
    /// The turn that took it.
    pub epoch: TurnNumber,
    /// When others may take over.
    pub expires_at: Timestamp,
}

/// What a decision needs besides the state, read in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The store's clock; never before the last event of the session.
    pub now: Timestamp,
    /// The lease.
    pub lease: Option<Lease>,
    /// Whether the Goal that the command names was ever opened in this session (P12).
    pub goal_is_known: bool,
}

/// Whether a command key is new (E5). Decided here, acted on by the store before it asks for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyVerdict {
    /// Never seen: decide.
    Fresh,
    /// Accepted before with this payload: return the first outcome, write nothing.
    Replay,
    /// Accepted before with another payload: refuse.
    Reused,
}

/// Compares the payload digest stored with a key to the one that came with it.
pub fn key_verdict<D: Eq>(seen: Option<&D>, sent: &D) -> KeyVerdict {
    match seen {
        None => KeyVerdict::Fresh,
        Some(seen) if seen == sent => KeyVerdict::Replay,
        Some(_) => KeyVerdict::Reused,
    }
}
