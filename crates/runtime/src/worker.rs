//! The loops over [`Engine::step`]: until one session rests, and for as long as a worker lives (T11).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use domain::{SessionId, Timestamp};
use policy::{Awaited, IdleReason, LEASE_MS, Scope};
use store::StoreError;
use tokio::task::{Id, JoinError, JoinSet};

use crate::scheduler::{Engine, EngineError, Step};

/// Sessions that one worker steps at a time. A turn mostly waits for its model, so a few fit on a small machine; more
/// workers take more.
const AT_ONCE: usize = 4;
/// Sessions looked at in one go: more than can be stepped at once, so that none waits for a second look.
const LOOKED_AT: usize = 100;
/// How long a worker leaves a session alone whose step could not be done, for example because its workspace is gone.
const AFTER_FAULT_MS: i64 = 30_000;
/// How often a worker looks for turns whose owner died before its lease ended. The death of a process is no commit, so
/// nothing else tells.
const LOOK_FOR_LOST: Duration = Duration::from_secs(1);
/// Pause before a session is looked at again that another worker was faster to take.
const AFTER_RACE: Duration = Duration::from_millis(20);

/// Where a session came to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// Nothing goes on by itself.
    Idle {
        /// Why.
        why: IdleReason,
    },
    /// The Goal would go on, now or after a retry's time, but the scope leaves that to the person.
    GoalHeldBack,
    /// The engine was shut down.
    ShutDown,
}

/// What is waited for before the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Another worker runs a turn of the session.
    ForWorker {
        /// When its lease ends, unless it is renewed.
        until: Timestamp,
    },
    /// A moment: of a durable retry (T10), or one the agent chose (G10).
    Until {
        /// When it is due.
        at: Timestamp,
    },
    /// Something that the Goal waits for (G10).
    For {
        /// What.
        what: Awaited,
    },
}

/// The sessions that a worker takes (T11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Charge {
    /// One.
    Session(SessionId),
    /// Those of one workspace.
    Workspace(String),
    /// All.
    All,
}

/// What a worker did.
#[derive(Debug, Default)]
pub struct Worked {
    /// Sessions in which a turn ran or was recovered.
    pub sessions: BTreeSet<SessionId>,
    /// Sessions whose last step could not be done, and why.
    pub failed: BTreeMap<SessionId, EngineError>,
}

impl Engine {
    /// Steps a session until it rests. Waits while another worker has it and, if the scope holds the Goal, for its
    /// retries.
    pub async fn run_session(&self, session: SessionId, scope: Scope) -> Result<Rest, EngineError> {
        let mut watch = self.sessions().watch();
        let mut look_for_lost = tokio::time::interval(LOOK_FOR_LOST);
        look_for_lost.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.is_shut_down() {
            let until = match self.step(session, scope).await? {
                Step::Ran { .. } | Step::Recovered { .. } => continue,
                Step::Idle { why } => return Ok(Rest::Idle { why }),
                Step::GoalHeldBack => return Ok(Rest::GoalHeldBack),
                Step::WaitFor { what: what @ Awaited::Jobs { .. }, until } => {
                    self.observer().waiting(session, Waiting::For { what });
                    until
                }
                Step::WaitUntil { .. } | Step::WaitFor { .. } if scope == Scope::InputOnly => {
                    return Ok(Rest::GoalHeldBack);
                }
                Step::WaitUntil { at } => {
                    self.observer().waiting(session, Waiting::Until { at });
                    Some(at)
                }
                Step::WaitFor { what, until } => {
                    self.observer().waiting(session, Waiting::For { what });
                    until
                }
                Step::Busy { until } => {
                    self.observer().waiting(session, Waiting::ForWorker { until });
                    tokio::time::sleep(AFTER_RACE).await;
                    Some(until)
                }
            };
            let moment = async {
                match until {
                    Some(at) => self.sessions().sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = watch.changed() => {}
                () = moment => {}
                _ = look_for_lost.tick() => {}
                () = self.shut_down_asked() => {}
            }
        }
        Ok(Rest::ShutDown)
    }

    /// Steps whatever is due among the sessions in its charge and recovers lost turns: with `once` until nothing is due
    /// any more, else until the engine is shut down. Waiting costs no model call.
    pub async fn work(&self, charge: &Charge, once: bool) -> Result<Worked, StoreError> {
        let mut worker = Worker::new(self, charge);
        let mut watch = self.sessions().watch();
        let mut look_for_lost = tokio::time::interval(LOOK_FOR_LOST);
        look_for_lost.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        look_for_lost.tick().await;
        worker.start(LEASE_MS).await?;
        loop {
            if self.is_shut_down() {
                worker.finish_steps().await;
                return Ok(worker.worked);
            }
            // Whoever left one thing behind may have left more, whose lease has not ended.
            let ahead_ms = if std::mem::take(&mut worker.has_recovered) { LEASE_MS } else { 0 };
            worker.start(ahead_ms).await?;
            if once && worker.steps.is_empty() && !self.has_commands() {
                return Ok(worker.worked);
            }
            let wake_at = worker.wake_at().await?;
            tokio::select! {
                Some(done) = worker.steps.join_next_with_id() => worker.note(done),
                () = watch.changed() => {}
                () = self.sessions().sleep_until(wake_at) => {}
                _ = look_for_lost.tick() => worker.start(LEASE_MS).await?,
                () = self.shut_down_asked() => {}
            }
        }
    }
}

/// The bookkeeping of [`Engine::work`].
struct Worker<'a> {
    engine: &'a Engine,
    charge: &'a Charge,
    steps: JoinSet<Result<Step, EngineError>>,
    stepping: HashMap<Id, SessionId>,
    left_alone: BTreeMap<SessionId, Timestamp>,
    /// Whether a step since the last look ended what a dead owner had left.
    has_recovered: bool,
    worked: Worked,
}

impl<'a> Worker<'a> {
    fn new(engine: &'a Engine, charge: &'a Charge) -> Self {
        Self {
            engine,
            charge,
            steps: JoinSet::new(),
            stepping: HashMap::new(),
            left_alone: BTreeMap::new(),
            has_recovered: false,
            worked: Worked::default(),
        }
    }

    /// Starts steps of sessions that need attention within `ahead_ms`, as many as there is room for. The lease of a
    /// running turn ends within [`LEASE_MS`], so looking that far ahead finds all turns that may be lost.
    async fn start(&mut self, ahead_ms: i64) -> Result<(), StoreError> {
        let now = self.engine.sessions().now();
        self.left_alone.retain(|_, until| *until > now);
        for session in self.due(now.plus_ms(ahead_ms)).await? {
            if self.steps.len() >= AT_ONCE {
                break;
            }
            if self.left_alone.contains_key(&session) || self.stepping.values().any(|one| *one == session) {
                continue;
            }
            let engine = self.engine.clone();
            let task = self.steps.spawn(async move {
                let step = engine.step(session, Scope::All).await;
                if matches!(step, Ok(Step::Busy { .. })) {
                    tokio::time::sleep(AFTER_RACE).await;
                }
                step
            });
            self.stepping.insert(task.id(), session);
        }
        Ok(())
    }

    async fn due(&self, at: Timestamp) -> Result<Vec<SessionId>, StoreError> {
        let store = self.engine.sessions().store();
        match self.charge {
            Charge::All => store.due(at, None, LOOKED_AT).await,
            Charge::Workspace(workspace) => store.due(at, Some(workspace), LOOKED_AT).await,
            Charge::Session(session) => {
                let head = store.head(*session).await?;
                Ok(head.filter(|head| head.is_due(at)).map(|_| *session).into_iter().collect())
            }
        }
    }

    /// When to look again, should nothing be committed before. What is due already is being stepped, or left alone
    /// for a while, or waits for room.
    async fn wake_at(&self) -> Result<Timestamp, StoreError> {
        let store = self.engine.sessions().store();
        let next = match self.charge {
            Charge::All => store.next_wake_at(None).await?,
            Charge::Workspace(workspace) => store.next_wake_at(Some(workspace)).await?,
            Charge::Session(session) => store.head(*session).await?.and_then(|head| head.wake_at),
        };
        let now = self.engine.sessions().now();
        let again = now.plus_ms(AFTER_FAULT_MS);
        Ok(next.filter(|next| *next > now).unwrap_or(again).min(again))
    }

    fn note(&mut self, done: Result<(Id, Result<Step, EngineError>), JoinError>) {
        let (id, step) = match done {
            Ok((id, step)) => (id, Some(step)),
            Err(error) => {
                tracing::error!(%error, "a step ended without an answer; recovery takes its turn once the lease ends");
                (error.id(), None)
            }
        };
        let Some(session) = self.stepping.remove(&id) else { return };
        let Some(step) = step else { return };
        self.has_recovered |= matches!(step, Ok(Step::Recovered { .. }));
        match step {
            Ok(Step::Ran { .. } | Step::Recovered { .. }) => {
                self.worked.sessions.insert(session);
                self.worked.failed.remove(&session);
            }
            Ok(
                Step::Busy { .. }
                | Step::WaitUntil { .. }
                | Step::WaitFor { .. }
                | Step::GoalHeldBack
                | Step::Idle { .. },
            ) => {
                self.worked.failed.remove(&session);
            }
            Err(error) => {
                tracing::warn!(%session, %error, "a session cannot go on here, it is left alone for a while");
                self.left_alone.insert(session, self.engine.sessions().now().plus_ms(AFTER_FAULT_MS));
                self.worked.failed.insert(session, error);
            }
        }
    }

    async fn finish_steps(&mut self) {
        while let Some(done) = self.steps.join_next_with_id().await {
            self.note(done);
        }
    }
}
