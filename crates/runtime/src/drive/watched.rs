//! The watch beside whatever a turn waits for: it keeps the lease and notices stop requests (T5, T6).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Driver, Leave, is_stale};

/// How often a running turn looks whether it was asked to stop, at the latest (T6).
const LOOK_MS: u64 = 200;
/// How long a stopped call may take to reap what it started. A process that survives SIGKILL for longer hangs in
/// the kernel, and waiting on would not help.
const REAP_MS: u64 = 5_000;
/// Work that ran beside the watch over stop requests and the lease.
pub(super) enum Watched<T> {
    Done(T),
    /// The turn was asked to stop; the work was cancelled.
    Stopping,
}

impl Driver {
    /// Runs work beside the watch: renews the lease and notices stop requests. Without a token the work is
    /// cancelled by dropping it; with one it is told to stop and given time to reap.
    pub(super) async fn watched<T>(
        &mut self,
        work: impl Future<Output = T>,
        token: Option<&CancellationToken>,
    ) -> Result<Watched<T>, Leave> {
        // A worker that slept since its last commit may have lost the turn, and what it is about to do may have been
        // settled as not done: it renews before anything else (T5).
        if self.turn.renewal_is_due() {
            self.look().await?;
        }
        let mut work = pin!(work);
        let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(Watched::Done(done)),
                _ = look.tick() => {}
            }
            let goes_on = self.look().await;
            if matches!(goes_on, Ok(false)) {
                continue;
            }
            let reaped = match token {
                None => None,
                Some(token) => {
                    token.cancel();
                    tokio::time::timeout(Duration::from_millis(REAP_MS), &mut work).await.ok()
                }
            };
            // A turn that was taken over records nothing; a stopped one records what its call came to.
            goes_on?;
            return Ok(reaped.map_or(Watched::Stopping, Watched::Done));
        }
    }

    /// Whether the turn is to stop. A lease that cannot be kept ends it.
    async fn look(&mut self) -> Result<bool, Leave> {
        if self.turn.renewal_is_due() {
            match self.turn.renew().await {
                Ok(()) => {}
                Err(error) if is_stale(&error) => return Err(Leave::Lost),
                // The store may be busy; until the lease is over there is time to try again.
                Err(_) if self.turn.lease_is_over() => return Err(Leave::Lost),
                Err(error) => tracing::warn!(%error, "the lease could not be renewed, trying again"),
            }
        }
        match self.turn.stop_requested().await {
            Ok(stop) => Ok(stop.is_some() || self.around.shutdown.is_cancelled()),
            Err(error) if is_stale(&error) => Err(Leave::Lost),
            Err(error) => {
                tracing::warn!(%error, "the session could not be read, trying again");
                Ok(false)
            }
        }
    }
}
