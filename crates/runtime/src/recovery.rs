//! Ending turns whose owner is gone (T7).

use std::collections::BTreeMap;

use domain::{CallRef, Code, Digest, Effect, Event, SessionId};
use policy::RuntimeCommand;

use crate::owner;
use crate::ports::Evidence;
use crate::sessions::{CommandError, Extra, Order, Sessions};

/// What recovery found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// No turn runs.
    NothingRuns,
    /// A turn runs and its owner has time until then.
    OwnerIsAlive {
        /// When the lease ends, unless it is renewed.
        until: domain::Timestamp,
    },
    /// The turn was ended.
    Recovered {
        /// What was decided.
        events: Vec<Event>,
    },
}

impl Sessions {
    /// Ends the session's running turn if its owner is gone: once, whoever tries it at the same time.
    pub async fn recover(
        &self,
        session: SessionId,
        evidence: &dyn Evidence,
    ) -> Result<Recovery, CommandError> {
        let head = self.head(session).await?;
        let Some((_, running)) = head.state.core.running_turns().next() else {
            return Ok(Recovery::NothingRuns);
        };
        let lease = head.lease;
        let dead = lease.as_ref().map(|lease| &lease.owner).filter(|owner| owner::is_dead(owner)).cloned();
        if let Some(lease) = lease.filter(|lease| dead.is_none() && lease.expires_at > self.now()) {
            return Ok(Recovery::OwnerIsAlive { until: lease.expires_at });
        }
        let mut found: BTreeMap<CallRef, Option<Digest>> = BTreeMap::new();
        for open in running.open_calls() {
            let Some(Effect::FileWrite { path, .. }) = open.effect else { continue };
            match evidence.file_digest(path).await {
                Ok(digest) => {
                    found.insert(open.call, digest);
                }
                // Nobody can look, so nobody can tell: the call stays uncertain.
                Err(error) => tracing::warn!(%error, path, "a written file cannot be read"),
            }
        }
        let order = Order::Runtime(RuntimeCommand::RecoverTurn { turn: running.number, dead, found });
        match self.execute(session, order, Extra::default()).await {
            Ok(committed) => Ok(Recovery::Recovered { events: committed.events }),
            // Another worker recovered it, or its owner came back in time.
            Err(CommandError::Rejected(refused))
                if matches!(refused.code, Code::StaleEpoch | Code::LeaseHeld) =>
            {
                Ok(Recovery::NothingRuns)
            }
            Err(error) => Err(error),
        }
    }
}
