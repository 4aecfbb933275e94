//! Waiting for the next commit, here or in another process. A hint: the log is the authority (E6).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::Engine;

/// How often another process's commits are looked for, and only while somebody waits: a look costs some ten
/// microseconds, and people do not notice a tenth of a second.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits for commits. Each `Watch` remembers on its own what it has seen.
pub struct Watch {
    engine: Arc<dyn Engine>,
    here: watch::Receiver<u64>,
    /// The engine's mark when this watch last looked; `None` before it ever did.
    seen: Option<i64>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(engine: Arc<dyn Engine>, here: watch::Receiver<u64>) -> Self {
        Self { engine, here, seen: None }
    }

    /// Returns when something was committed since the last return: at once for a commit of this store, within a
    /// tenth of a second for one of another process. The first call returns at once, since nobody knows what was
    /// committed before. It may return for nothing, and it never misses a commit: read, then wait, in a loop.
    pub async fn changed(&mut self) {
        let mut is_ours = false;
        loop {
            // Before the look: a commit after it is found by the next call.
            is_ours |= self.here.has_changed().unwrap_or(false);
            self.here.mark_unchanged();
            let mark = match self.engine.change_mark().await {
                Ok(mark) => Some(mark),
                Err(error) => {
                    tracing::debug!(%error, "cannot look for commits of other processes");
                    self.seen
                }
            };
            if is_ours || mark != self.seen {
                self.seen = mark;
                return;
            }
            tokio::select! {
                Ok(()) = self.here.changed() => is_ours = true,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}
