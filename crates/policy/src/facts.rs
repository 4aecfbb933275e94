//! What the store read in the transaction in which a command is decided.

use std::collections::BTreeMap;

use domain::{CommandId, Timestamp, TurnNumber, WorkerName};
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

/// Who runs a background command, and until when without renewal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLease {
    /// The owner.
    pub owner: Owner,
    /// When others may declare the command lost.
    pub expires_at: Timestamp,
}

/// What moves without an event: who is alive, and when to look outside again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leases {
    /// The lease of the running turns (T5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Lease>,
    /// Those of the running background commands.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<CommandId, CommandLease>,
    /// When a file that the Goal waits for is looked at next (G10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_look: Option<Timestamp>,
}

impl Leases {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a decision needs besides the state, read in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The store's clock; never before the last event of the session.
    pub now: Timestamp,
    /// Who holds what.
    pub leases: Leases,
    /// Whether the Goal that the command names was ever opened in this session (P12).
    pub goal_is_known: bool,
    /// Whether the call that the command finishes was never made before for its Goal (G7).
    pub evidence_is_new: bool,
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
