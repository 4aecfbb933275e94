//! The Goal-only scheduler: turns start because of input or an active Goal, and for no other reason (T1).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use domain::{Code, Event, SessionId, Timestamp, TurnNumber, TurnOutcome};
use policy::{IdleReason, NextAction, Scope};
use tokio_util::sync::CancellationToken;

use crate::drive::{Driven, Observer, drive};
use crate::ports::{Evidence, Model};
use crate::recovery::Recovery;
use crate::sessions::{CommandError, Sessions};
use crate::toolbox::Toolbox;

/// Opens workspaces for turns.
#[async_trait]
pub trait Workshop: Send + Sync {
    /// The tools for a workspace, and a look at its files for recovery.
    async fn open(&self, workspace: &str) -> std::io::Result<(Toolbox, Arc<dyn Evidence>)>;
}

/// Runs turns of sessions with one model.
#[derive(Clone)]
pub struct Engine {
    sessions: Sessions,
    model: Arc<dyn Model>,
    workshop: Arc<dyn Workshop>,
    observer: Arc<dyn Observer>,
    shutdown: CancellationToken,
    at_work: Arc<Mutex<BTreeSet<SessionId>>>,
}

/// One step of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A turn ran to its outcome.
    Ran {
        /// The turn.
        turn: TurnNumber,
        /// Its outcome.
        outcome: TurnOutcome,
    },
    /// A turn whose owner was gone was ended.
    Recovered {
        /// What was decided.
        events: Vec<Event>,
    },
    /// Another worker has the session, or took it.
    Busy {
        /// When its lease ends, unless it is renewed.
        until: Timestamp,
    },
    /// Nothing before this moment.
    WaitUntil {
        /// The moment.
        at: Timestamp,
    },
    /// A Goal would go on, but the scope leaves that to the person.
    GoalHeldBack,
    /// Nothing goes on by itself.
    Idle {
        /// Why.
        why: IdleReason,
    },
}

/// Why an engine cannot go on with a session.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A command was refused, or the store is at fault.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The session's workspace cannot be opened.
    #[error("the workspace {path} cannot be opened: {source}")]
    Workspace {
        /// Its root.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

impl Sessions {
    /// Waits until the store's clock has reached a moment.
    pub async fn sleep_until(&self, at: Timestamp) {
        self.store().clock().until(at).await;
    }
}

/// Notes that a turn of a session runs, for as long as it lives.
struct AtWork<'a> {
    sessions: &'a Mutex<BTreeSet<SessionId>>,
    session: SessionId,
}

impl<'a> AtWork<'a> {
    fn enter(sessions: &'a Mutex<BTreeSet<SessionId>>, session: SessionId) -> Self {
        sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
        Self { sessions, session }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}

impl Engine {
    /// An engine over a store's sessions.
    pub fn new(
        sessions: Sessions,
        model: Arc<dyn Model>,
        workshop: Arc<dyn Workshop>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            sessions,
            model,
            workshop,
            observer,
            shutdown: CancellationToken::new(),
            at_work: Arc::default(),
        }
    }

    /// The sessions.
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        self.observer.as_ref()
    }

    /// The sessions whose turn this engine and its clones run at this moment: what an interrupt at this client is about.
    pub fn at_work(&self) -> Vec<SessionId> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Ends this engine and its clones in order: running turns end as stopped by `shutdown`, and no other starts. Goals
    /// stay as they are, for the next worker.
    pub fn shut_down(&self) {
        self.shutdown.cancel();
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    pub(crate) async fn shut_down_asked(&self) {
        self.shutdown.cancelled().await;
    }

    /// Does the next thing in a session: recovers a lost turn, or runs the turn that is due, or says why not.
    pub async fn step(&self, session: SessionId, scope: Scope) -> Result<Step, EngineError> {
        let view = self.sessions.view(session).await?;
        match view.next {
            NextAction::WaitFor { .. } => self.recover(session, &view.workspace).await,
            NextAction::WaitUntil { at, .. } => Ok(Step::WaitUntil { at }),
            NextAction::Idle { why } => Ok(Step::Idle { why }),
            NextAction::RunGoal { .. } if scope == Scope::InputOnly => Ok(Step::GoalHeldBack),
            NextAction::RunInput { .. } | NextAction::RunGoal { .. } => {
                self.run(session, &view.workspace, scope).await
            }
        }
    }

    async fn recover(&self, session: SessionId, workspace: &str) -> Result<Step, EngineError> {
        let (_, evidence) = self.open(workspace).await?;
        match self.sessions.recover(session, evidence.as_ref()).await? {
            Recovery::Recovered { events } => {
                for event in &events {
                    self.observer.event(session, event);
                }
                Ok(Step::Recovered { events })
            }
            Recovery::OwnerIsAlive { until } => Ok(Step::Busy { until }),
            Recovery::NothingRuns => Ok(Step::Busy { until: self.sessions.now() }),
        }
    }

    async fn run(&self, session: SessionId, workspace: &str, scope: Scope) -> Result<Step, EngineError> {
        let (toolbox, _) = self.open(workspace).await?;
        let admitted = self.sessions.admit(session, self.model.name(), scope).await;
        let turn = match admitted {
            Ok(turn) => turn,
            // Another worker was faster; what it does will show.
            Err(CommandError::Rejected(refused))
                if matches!(refused.code, Code::LeaseHeld | Code::RecoveryNeeded | Code::NotDue) =>
            {
                return Ok(Step::Busy { until: self.sessions.now() });
            }
            Err(error) => return Err(error.into()),
        };
        let number = turn.number();
        let _at_work = AtWork::enter(&self.at_work, session);
        match drive(turn, self.model.as_ref(), &toolbox, self.observer.as_ref(), &self.shutdown).await? {
            Driven::Ended(outcome) => Ok(Step::Ran { turn: number, outcome }),
            Driven::LeaseLost => Ok(Step::Busy { until: self.sessions.now() }),
        }
    }

    async fn open(&self, workspace: &str) -> Result<(Toolbox, Arc<dyn Evidence>), EngineError> {
        let opened = self.workshop.open(workspace).await;
        opened.map_err(|source| EngineError::Workspace { path: workspace.to_owned(), source })
    }
}
