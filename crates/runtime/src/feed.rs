//! Reading: one session, lists of them, plans and the events after a cursor (E6).

use std::collections::VecDeque;

use domain::{
    CallRef, EventBody, LaneId, ModelCall, Plan, PlanDiff, PlanId, RequestEnd, RequestId, Revision, Seq,
    SessionId,
};
use store::{EVENTS_PER_PAGE, Page, SessionFilter, SessionSummary, StoreError, Watch};

use crate::door::settling;
use crate::projection::{PlanRevisionView, SessionView};
use crate::sessions::{CommandError, Sessions};

impl Sessions {
    /// A session at a glance. Reads the head row and the plan, never the log.
    pub async fn view(&self, session: SessionId) -> Result<SessionView, CommandError> {
        let head = self.head(session).await?;
        Ok(SessionView::of(&head.state, &head.leases, head.wake_at, self.now()))
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

    /// How a request ended; `None` while it is open, and if there never was one. Reads the log: the state forgets
    /// requests that ended.
    pub async fn request_end(
        &self,
        session: SessionId,
        request: RequestId,
    ) -> Result<Option<RequestEnd>, CommandError> {
        let mut after = Seq(0);
        loop {
            let page = self.events_after(session, after, EVENTS_PER_PAGE).await;
            let page = page.map_err(CommandError::Fault)?;
            let end = page.events.iter().find_map(|event| settling(event, request));
            if end.is_some() || !page.has_more {
                return Ok(end);
            }
            after = page.next;
        }
    }

    /// What the model asked for with a call. Reads the log.
    pub async fn call(
        &self,
        session: SessionId,
        mut wanted: CallRef,
    ) -> Result<Option<ModelCall>, CommandError> {
        let (mut after, mut granted) = (Seq(0), None);
        loop {
            let page =
                self.events_after(session, after, EVENTS_PER_PAGE).await.map_err(CommandError::Fault)?;
            after = page.next;
            let mut again = false;
            for event in &page.events {
                match &event.body {
                    EventBody::ModelResponded { turn, request, calls, .. }
                        if (*turn, *request) == (wanted.turn, wanted.request) =>
                    {
                        return Ok(usize::try_from(wanted.index).ok().and_then(|at| calls.get(at)).cloned());
                    }
                    EventBody::InputQueued { runs: Some(runs), .. } => granted = Some(runs.call),
                    // A call that a person allowed: the model asked for it in an earlier turn.
                    EventBody::CallAdmitted { call, .. } if *call == wanted && call.request == 0 => {
                        again = granted.take().is_some_and(|earlier| {
                            wanted = earlier;
                            true
                        });
                        break;
                    }
                    _ => {}
                }
            }
            if again {
                after = Seq(0);
            } else if !page.has_more {
                return Ok(None);
            }
        }
    }

    /// A hint that something was committed, here or elsewhere.
    pub fn watch(&self) -> Watch {
        self.store().watch()
    }

    /// The last `limit` revisions and closings of the main lane's plans, oldest first (P15).
    pub async fn plan_history(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<PlanRevisionView>, CommandError> {
        self.head(session).await?;
        let (lane, mut after) = (LaneId::main(), Seq(0));
        let mut kept = VecDeque::new();
        loop {
            let page = self.store().plan_history(session, &lane, after, EVENTS_PER_PAGE).await?;
            kept.extend(page.events.iter().filter_map(PlanRevisionView::of));
            kept.drain(..kept.len().saturating_sub(limit));
            if !page.has_more {
                return Ok(kept.into());
            }
            after = page.next;
        }
    }

    /// What changed between two revisions of the latest plan, or of the plan named. Without `to` it is the latest
    /// revision, without `from` the one before `to`. `None` if one of them does not exist (P15).
    pub async fn plan_diff(
        &self,
        session: SessionId,
        plan: Option<PlanId>,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Option<PlanDiff>, CommandError> {
        let head = self.head(session).await?;
        let latest =
            head.state.latest_plan(&LaneId::main()).map(|latest| (latest.plan.id, latest.plan.revision));
        let Some((latest_plan, latest_revision)) = latest else { return Ok(None) };
        let plan = plan.unwrap_or(latest_plan);
        let to = match to {
            Some(to) => to,
            None if plan == latest_plan => latest_revision,
            None => self.last_revision(session, plan).await?,
        };
        let from = from.unwrap_or(Revision(to.0.saturating_sub(1)));
        let (from, to) = (self.plan_at(session, plan, from).await?, self.plan_at(session, plan, to).await?);
        Ok(from.zip(to).map(|(from, to)| PlanDiff::between(&from, &to)))
    }

    async fn plan_at(
        &self,
        session: SessionId,
        plan: PlanId,
        revision: Revision,
    ) -> Result<Option<Plan>, StoreError> {
        let found = self.store().plan_at(session, &LaneId::main(), plan, revision).await?;
        Ok(found.map(|found| found.plan))
    }

    async fn last_revision(&self, session: SessionId, plan: PlanId) -> Result<Revision, CommandError> {
        let history = self.plan_history(session, usize::MAX).await?;
        let of_plan = history.iter().rev().find(|revision| revision.plan_id == plan);
        Ok(of_plan.map_or(Revision(0), |found| found.revision))
    }
}
