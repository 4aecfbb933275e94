//! Ending turns whose owner is gone (T7).

use std::collections::BTreeMap;

use domain::{
    CallRef, Code, Condition, Digest, Effect, Event, GoalId, LaneId, SessionId, TurnNumber, WaitedPath,
};
use policy::RuntimeCommand;

use crate::owner;
use crate::ports::Inspection;
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

/// A file to be looked at for a Goal that waits for it.
pub(crate) struct Look {
    pub(crate) workspace: String,
    pub(crate) goal_id: GoalId,
    pub(crate) path: WaitedPath,
}

impl Sessions {
    /// Ends the session's running turn if its owner is gone: once, whoever tries it at the same time.
    pub async fn recover(
        &self,
        session: SessionId,
        inspection: &dyn Inspection,
    ) -> Result<Recovery, CommandError> {
        let head = self.head(session).await?;
        let Some((_, running)) = head.state.core.running_turns().next() else {
            return Ok(Recovery::NothingRuns);
        };
        let lease = head.leases.turn;
        let dead = lease.as_ref().map(|lease| &lease.owner).filter(|owner| owner::is_dead(owner)).cloned();
        if let Some(lease) = lease.filter(|lease| dead.is_none() && lease.expires_at > self.now()) {
            return Ok(Recovery::OwnerIsAlive { until: lease.expires_at });
        }
        let mut found: BTreeMap<CallRef, Option<Digest>> = BTreeMap::new();
        for open in running.open_calls() {
            let Some(Effect::FileWrite { path, .. }) = open.effect else { continue };
            match inspection.file_digest(path).await {
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

    /// Ends a turn of this process whose task broke off. What its open calls changed nobody looks at, since something of
    /// them may still run here.
    pub(crate) async fn break_off(
        &self,
        session: SessionId,
        turn: TurnNumber,
    ) -> Result<Vec<Event>, CommandError> {
        let (dead, found) = (Some(self.owner().clone()), BTreeMap::new());
        let order = Order::Runtime(RuntimeCommand::RecoverTurn { turn, dead, found });
        Ok(self.execute(session, order, Extra::default()).await?.events)
    }

    /// Whether turns run that this process does not drive: another one's, or of an owner whose time is over.
    pub(crate) async fn runs_elsewhere(&self, session: SessionId) -> Result<bool, CommandError> {
        let head = self.head(session).await?;
        let runs = head.state.core.running_turns().next().is_some();
        let is_ours = |lease: policy::Lease| lease.owner == *self.owner() && lease.expires_at > self.now();
        Ok(runs && !head.leases.turn.is_some_and(is_ours))
    }

    /// The lanes of jobs in which a turn is due.
    pub(crate) async fn due_jobs(&self, session: SessionId) -> Result<Vec<LaneId>, CommandError> {
        let head = self.head(session).await?;
        let (core, now) = (&head.state.core, self.now());
        let is_due = |lane: &&LaneId| {
            let next = policy::next_action(&policy::ContinuationView::of_lane(core, lane), now);
            matches!(next, policy::NextAction::RunInput { .. })
        };
        Ok(core.jobs.iter().map(|job| &job.child).filter(is_due).cloned().collect())
    }

    /// Ends the background commands whose owner is gone, and says what was decided.
    pub(crate) async fn recover_commands(&self, session: SessionId) -> Result<Vec<Event>, CommandError> {
        let head = self.head(session).await?;
        let mut decided = Vec::new();
        for (command, lease) in head.leases.commands {
            let dead = Some(lease.owner).filter(owner::is_dead);
            if dead.is_none() && lease.expires_at > self.now() {
                continue;
            }
            let order = Order::Runtime(RuntimeCommand::RecoverCommand { command, dead });
            match self.execute(session, order, Extra::default()).await {
                Ok(committed) => decided.extend(committed.events),
                // It ended, or its owner came back in time.
                Err(CommandError::Rejected(refused))
                    if matches!(refused.code, Code::UnknownCommand | Code::LeaseHeld) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(decided)
    }

    /// The file that the Goal waits for, when it is time to look at it (G10).
    pub(crate) async fn file_to_look_at(&self, session: SessionId) -> Result<Option<Look>, CommandError> {
        let head = self.head(session).await?;
        let workspace = head.state.core.workspace.clone().unwrap_or_default();
        let is_due = head.leases.next_look.is_none_or(|at| at <= self.now());
        let goal = head.state.core.goal.as_ref().filter(|goal| is_due && goal.is_active());
        let wait =
            goal.and_then(|goal| Some((goal.id, goal.wait.as_ref()?))).filter(|(_, wait)| !wait.is_met);
        Ok(wait.and_then(|(goal_id, wait)| match &wait.condition {
            Condition::File { path, .. } => Some(Look { workspace, goal_id, path: path.clone() }),
            Condition::Time | Condition::Command { .. } | Condition::Job { .. } | Condition::Inbox => None,
        }))
    }

    /// Records what the file looks like; another worker may have been faster.
    pub(crate) async fn looked_at_file(
        &self,
        session: SessionId,
        goal_id: GoalId,
        found: Option<Digest>,
    ) -> Result<(), CommandError> {
        let order = Order::Runtime(RuntimeCommand::LookAtFile { goal_id, found });
        match self.execute(session, order, Extra::default()).await {
            Err(CommandError::Rejected(refused)) if refused.code == Code::NotDue => Ok(()),
            other => other.map(drop),
        }
    }
}
