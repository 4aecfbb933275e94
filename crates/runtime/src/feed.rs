//! Reading: one session, lists of them, plans and the events after a cursor (E6).

use domain::{Seq, SessionId};
use store::{Page, SessionFilter, SessionSummary, StoreError};

use crate::projection::SessionView;
use crate::sessions::{CommandError, Sessions};

impl Sessions {
    /// A session at a glance. Reads the head row and the plan, never the log.
    pub async fn view(&self, session: SessionId) -> Result<SessionView, CommandError> {
        let head = self.head(session).await?;
        Ok(SessionView::of(&head.state, head.wake_at, self.now()))
    }

    /// Sessions, the latest first.
    pub async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.store().sessions(filter).await
    }

    /// The events strictly after a place of the log, oldest first (E6).
    pub async fn events_after(
        &self,
        session: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.store().events_after(session, after, limit).await
    }
}
