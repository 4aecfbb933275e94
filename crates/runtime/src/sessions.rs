//! The one door: every command of every client, tool and recovery ends in [`Sessions::execute`].

use std::sync::Arc;

use domain::{
    ClientName, CommandKey, Digest, Fingerprint, GoalId, LaneId, SessionId, SessionState, Timestamp,
    WorkerName,
};
use policy::{
    AgentCommand, Command, ContinuationView, Decision, Facts, NextAction, Owner, Rejection, RuntimeCommand,
};
use policy::{UserActor, UserCommand};
use store::{Ask, CommandKeyed, Committed, ExecuteError, Head, Store, StoreError};

use crate::door::UserDoor;
use crate::owner;

/// Opens the door to the sessions of a store, and the user's own door for the client that speaks for a person.
///
/// Only the composition root calls this, so it alone decides who gets the [`UserDoor`] (M1).
#[expect(clippy::missing_panics_doc, reason = "a name made here always fits")]
pub fn open(store: Store, client: ClientName) -> (Sessions, UserDoor) {
    let worker = WorkerName::try_from(format!("w-{}", uuid::Uuid::now_v7().simple()));
    let worker = worker.expect("34 letters, digits and a hyphen are a name");
    let owner = owner::this_process(worker);
    let sessions = Sessions { inner: Arc::new(Inner { store, owner }) };
    let door = UserDoor::new(sessions.clone(), UserActor::for_client(client));
    (sessions, door)
}

/// The sessions of one store. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    owner: Owner,
}

/// A command with its authority, owned so that a batch or a retried transaction can decide it again.
#[derive(Clone)]
pub(crate) enum Order {
    User(UserActor, UserCommand),
    Agent(AgentCommand),
    Runtime(RuntimeCommand),
}

/// What goes with a command besides itself.
#[derive(Default)]
pub(crate) struct Extra {
    /// Makes it safe to send twice (E5), with the digest of what it says.
    pub(crate) key: Option<(CommandKey, Digest)>,
    /// A full output to keep with it.
    pub(crate) blob: Option<Vec<u8>>,
    /// The call that it finishes, with the Goal that it may be evidence for (G7).
    pub(crate) evidence: Option<(GoalId, Fingerprint)>,
}

/// Why a command or a question has no good answer: it is refused, or the store is at fault.
pub type CommandError = ExecuteError;

impl Sessions {
    /// The store, for reading.
    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// This process as an owner of turns.
    pub(crate) fn owner(&self) -> &Owner {
        &self.inner.owner
    }

    /// The store's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.store.now()
    }

    /// Reads, decides and appends in one transaction, or changes nothing (E3).
    pub(crate) async fn execute(
        &self,
        session: SessionId,
        order: Order,
        extra: Extra,
    ) -> Result<Committed, CommandError> {
        let ask = Ask {
            key: extra.key.map(|(key, payload)| CommandKeyed { key, payload }),
            goal: named_goal(&order),
            evidence: extra.evidence,
            blobs: extra.blob.into_iter().collect(),
        };
        let worker = self.inner.owner.worker.clone();
        let decide = move |state: &SessionState, facts: &Facts| -> Result<Decision, Rejection> {
            let command = match &order {
                Order::User(user, command) => Command::User(user, command),
                Order::Agent(command) => Command::Agent(command),
                Order::Runtime(command) => Command::Runtime(&worker, command),
            };
            policy::decide(state, command, facts)
        };
        self.inner.store.execute(session, ask, decide).await
    }

    /// The session's state, lease and wake-up time.
    pub(crate) async fn head(&self, session: SessionId) -> Result<Head, CommandError> {
        let head = self.inner.store.head(session).await.map_err(CommandError::Fault)?;
        head.ok_or_else(|| CommandError::Rejected(Rejection::unknown_session(session)))
    }

    /// What happens next in the main lane without anybody acting (T2).
    pub async fn next(&self, session: SessionId) -> Result<NextAction, CommandError> {
        let head = self.head(session).await?;
        let view = ContinuationView::of_lane(&head.state.core, &LaneId::main());
        Ok(policy::next_action(&view, self.now()))
    }

    /// Sessions that need attention at this moment, of one workspace or of all (T3, T11).
    pub async fn due(&self, workspace: Option<&str>, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.inner.store.due(self.now(), workspace, limit).await
    }
}

/// The Goal whose existence the decision has to know about (P12, G13).
fn named_goal(order: &Order) -> Option<GoalId> {
    match order {
        Order::User(_, UserCommand::UpdatePlan { update, .. })
        | Order::Agent(AgentCommand::UpdatePlan { update, .. }) => {
            update.goal_id.as_ref().and_then(|text| text.trim().parse().ok())
        }
        Order::User(_, UserCommand::SetGoal { goal_id, .. })
        | Order::Agent(AgentCommand::ProposeGoal { goal_id, .. }) => Some(*goal_id),
        Order::User(..) | Order::Agent(_) | Order::Runtime(_) => None,
    }
}
