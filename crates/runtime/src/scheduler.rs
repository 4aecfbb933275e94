//! The Goal-only scheduler: turns start because of input or an active Goal, and for no other reason (T1).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Code, Event, LaneId, SessionId, Timestamp, TurnNumber, TurnOutcome};
use policy::{Awaited, IdleReason, NextAction, Scope};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::background::Background;
use crate::drive::{Around, Driven, Observer, drive};
use crate::ports::Model;
use crate::projection::SessionView;
use crate::recovery::Recovery;
use crate::sessions::{CommandError, Sessions};
use crate::turn::AdmittedTurn;
use crate::workshop::{Workplace, Workshop};

/// Whether a person can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asking {
    /// A request waits until somebody answers it, here or elsewhere.
    Wait,
    /// Nobody is going to answer: what would need a person is denied at once.
    Nobody {
        /// What the person who started this can do about it, as a sentence.
        hint: String,
    },
}

/// Runs turns of sessions with one model.
#[derive(Clone)]
pub struct Engine {
    sessions: Sessions,
    model: Arc<dyn Model>,
    workshop: Arc<dyn Workshop>,
    observer: Arc<dyn Observer>,
    asking: Arc<Asking>,
    background: Arc<Background>,
    _alive: Arc<DropGuard>,
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
    /// Nothing before this happened.
    WaitFor {
        /// What.
        what: Awaited,
        /// When to look again, should nothing be committed before; none if only a commit can change anything.
        until: Option<Timestamp>,
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
        asking: Asking,
    ) -> Self {
        let shutdown = CancellationToken::new();
        let background = Background::new(sessions.clone(), Arc::clone(&observer), shutdown.clone());
        Self {
            sessions,
            model,
            workshop,
            observer,
            asking: Arc::new(asking),
            _alive: Arc::new(background.alive()),
            background: Arc::new(background),
            shutdown,
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

    /// Ends this engine and its clones in order: running turns end as stopped by `shutdown`, and no other starts;
    /// background commands are stopped. Goals stay as they are, for the next worker.
    pub fn shut_down(&self) {
        self.shutdown.cancel();
    }

    /// Shuts down, and waits until the end of every background command is recorded.
    pub async fn close(&self) {
        self.shut_down();
        self.background.finish().await;
    }

    /// Whether background commands run here; they end with this process.
    pub fn has_commands(&self) -> bool {
        self.background.is_busy()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    pub(crate) async fn shut_down_asked(&self) {
        self.shutdown.cancelled().await;
    }

    /// Does the next thing in a session: recovers a lost turn or command, looks at what the Goal waits for, or runs the
    /// turn that is due, or says why not.
    pub async fn step(&self, session: SessionId, scope: Scope) -> Result<Step, EngineError> {
        let lost = self.sessions.recover_commands(session).await?;
        if !lost.is_empty() {
            return Ok(self.recovered(session, lost));
        }
        self.look_at_file(session).await?;
        let view = self.sessions.view(session).await?;
        if self.sessions.runs_elsewhere(session).await? {
            return self.recover(session, &view.workspace).await;
        }
        let view = self.start_turns_of_jobs(view).await?;
        match view.next {
            NextAction::WaitFor { what: Awaited::Turn { .. } } => {
                self.recover(session, &view.workspace).await
            }
            NextAction::WaitFor { what } => Ok(Step::WaitFor { what, until: view.wake_at }),
            NextAction::WaitUntil { at, .. } => Ok(Step::WaitUntil { at }),
            NextAction::Idle { why } => {
                // Jobs end by themselves, and are worth waiting for even if nothing goes on with their reports.
                let running = view.jobs.iter().filter(|job| job.running.is_some());
                let jobs: Vec<_> = running.map(|job| job.job.id).collect();
                Ok(if jobs.is_empty() {
                    Step::Idle { why }
                } else {
                    Step::WaitFor { what: Awaited::Jobs { jobs }, until: view.wake_at }
                })
            }
            NextAction::RunGoal { .. } if scope == Scope::InputOnly => Ok(Step::GoalHeldBack),
            NextAction::RunInput { .. } | NextAction::RunGoal { .. } => self.run(&view, scope).await,
        }
    }

    fn recovered(&self, session: SessionId, events: Vec<Event>) -> Step {
        for event in &events {
            self.observer.event(session, event);
        }
        Step::Recovered { events }
    }

    /// Looks at a file that the Goal waits for, when that is due (G10).
    async fn look_at_file(&self, session: SessionId) -> Result<(), EngineError> {
        let Some(look) = self.sessions.file_to_look_at(session).await? else { return Ok(()) };
        // What cannot be read is as good as gone, with or without its workspace: the agent is to look at it.
        let found = match self.workshop.inspect(&look.workspace).await {
            Ok(inspection) => inspection.file_version(look.path.as_str()).await,
            Err(error) => Err(error),
        };
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, path = %look.path, "a file that is waited for cannot be read");
            None
        });
        Ok(self.sessions.looked_at_file(session, look.goal_id, found).await?)
    }

    async fn recover(&self, session: SessionId, workspace: &str) -> Result<Step, EngineError> {
        let inspection = self.workshop.inspect(workspace).await.map_err(cannot_open(workspace))?;
        match self.sessions.recover(session, inspection.as_ref()).await? {
            Recovery::Recovered { events } => Ok(self.recovered(session, events)),
            Recovery::OwnerIsAlive { until } => Ok(Step::Busy { until }),
            Recovery::NothingRuns => Ok(Step::Busy { until: self.sessions.now() }),
        }
    }

    async fn run(&self, view: &SessionView, scope: Scope) -> Result<Step, EngineError> {
        let (session, around) = (view.session, self.around(view).await?);
        let Some(turn) = self.admit((session, LaneId::main()), scope, &around).await? else {
            return Ok(Step::Busy { until: self.sessions.now() });
        };
        let number = turn.number();
        let _at_work = AtWork::enter(&self.at_work, session);
        match drive(turn, around).await? {
            Driven::Ended(outcome) => Ok(Step::Ran { turn: number, outcome }),
            Driven::LeaseLost => Ok(Step::Busy { until: self.sessions.now() }),
        }
    }

    /// Starts the turns that are due in the lanes of jobs, such as after the answer to one's question. They run beside
    /// the main lane.
    async fn start_turns_of_jobs(&self, view: SessionView) -> Result<SessionView, EngineError> {
        let lanes = self.sessions.due_jobs(view.session).await?;
        if lanes.is_empty() || self.is_shut_down() {
            return Ok(view);
        }
        let around = self.around(&view).await?;
        for lane in lanes {
            if let Some(turn) = self.admit((view.session, lane), Scope::InputOnly, &around).await? {
                self.background.start_turn(turn, around.clone());
            }
        }
        Ok(self.sessions.view(view.session).await?)
    }

    async fn around(&self, view: &SessionView) -> Result<Around, EngineError> {
        let workspace = view.workspace.as_str();
        let place = self.workshop.open(workspace, view.mode).await.map_err(cannot_open(workspace))?;
        let Workplace { toolbox, inspection, limits } = place;
        Ok(Around {
            model: Arc::clone(&self.model),
            toolbox,
            inspection,
            limits,
            background: Arc::clone(&self.background),
            observer: Arc::clone(&self.observer),
            asking: Arc::clone(&self.asking),
            shutdown: self.shutdown.clone(),
        })
    }

    /// `None` if another worker was faster; what it does will show.
    async fn admit(
        &self,
        at: (SessionId, LaneId),
        scope: Scope,
        around: &Around,
    ) -> Result<Option<AdmittedTurn>, EngineError> {
        match self.sessions.admit_in(at, self.model.name(), scope, around.limits).await {
            Ok(turn) => Ok(Some(turn)),
            Err(CommandError::Rejected(refused))
                if matches!(refused.code, Code::LeaseHeld | Code::RecoveryNeeded | Code::NotDue) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn cannot_open(workspace: &str) -> impl Fn(std::io::Error) -> EngineError + '_ {
    move |source| EngineError::Workspace { path: workspace.to_owned(), source }
}
