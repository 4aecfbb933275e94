//! The store as its users see it.

use std::sync::Arc;

use domain::{
    CommandKey, Digest, Event, Fingerprint, GoalId, LaneId, PlanId, Revision, Seq, SessionId, SessionState,
    Timestamp,
};
use policy::{Decision, Facts, Leases, Rejection};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot, watch};

use crate::batch::{Command, Decide};
use crate::check::{self, CheckFinding, CheckProgress};
use crate::clock::Clock;
use crate::engine::Engine;
#[cfg(feature = "crash-points")]
use crate::engine::Value;
use crate::error::{ExecuteError, StoreError};
use crate::head::{self, Head};
use crate::read::{self, Page, PlanAt, SessionFilter, SessionSummary};
use crate::sqlite::{IfMissing, Sqlite};
use crate::url::StoreUrl;
use crate::watch::Watch;
use crate::writer::{Job, Message, QUEUE, WriterTask};

/// Bytes in one blob: the full output of a command, bounded where it is made; this is the wall behind it.
pub const BLOB_BYTES: usize = 64 * 1024 * 1024;

/// A store of sessions. Cheap to clone; all clones share one writer.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    messages: mpsc::Sender<Message>,
    commits: watch::Sender<u64>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("clock", &self.inner.clock).finish_non_exhaustive()
    }
}

/// What comes with a command besides its decision.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Makes it safe to send twice (E5).
    pub key: Option<CommandKeyed>,
    /// The Goal that the command names, so that [`Facts::goal_is_known`] can tell whether it exists (P12).
    pub goal: Option<GoalId>,
    /// The call that the command finishes and its Goal, so that [`Facts::evidence_is_new`] can tell whether it was made
    /// before (G7).
    pub evidence: Option<(GoalId, Fingerprint)>,
    /// Texts to keep, found by their [`digest`]. They are stored if the command is accepted.
    pub blobs: Vec<Vec<u8>>,
}

/// A key and what was sent with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandKeyed {
    /// The key.
    pub key: CommandKey,
    /// The digest of the command: the same key with another payload is refused.
    pub payload: Digest,
}

/// A command that was accepted.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The state after it. For a repeated command: as it is at this moment.
    pub state: Arc<SessionState>,
    /// The events it caused, the first time.
    pub events: Vec<Event>,
    /// Whether it was accepted before; this time nothing was written.
    pub replayed: bool,
    /// The leases after it.
    pub leases: Leases,
    /// When the session needs attention next without anybody acting (T3).
    pub wake_at: Option<Timestamp>,
}

/// The SHA-256 digest by which blobs are found.
pub fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

impl Store {
    /// Opens a store; makes it, and the folders above it, if there is none.
    pub async fn open(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_sqlite(url, clock, IfMissing::Create).await
    }

    /// Opens a store that is there already. For commands that only look.
    pub async fn open_existing(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_sqlite(url, clock, IfMissing::Fail).await
    }

    async fn open_sqlite(
        url: &StoreUrl,
        clock: Arc<dyn Clock>,
        if_missing: IfMissing,
    ) -> Result<Self, StoreError> {
        let StoreUrl::Sqlite(path) = url;
        let engine = Sqlite::open(path, if_missing).await?;
        Ok(Self::on(Arc::new(engine), clock))
    }

    fn on(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        let (messages, received) = mpsc::channel(QUEUE);
        let commits = watch::Sender::new(0);
        let task = WriterTask {
            engine: Arc::clone(&engine),
            clock: Arc::clone(&clock),
            messages: received,
            commits: commits.clone(),
            connection: None,
        };
        tokio::spawn(task.run());
        Self { inner: Arc::new(Inner { engine, clock, messages, commits }) }
    }

    /// Decides a command on the session as it is and makes the outcome durable, in one transaction (E3).
    ///
    /// `decide` may run more than once. A rejection writes nothing. When the returned future is dropped, the
    /// command may still be carried out: send it with a key to find out.
    pub async fn execute(
        &self,
        session: SessionId,
        ask: Ask,
        decide: impl Fn(&SessionState, &Facts) -> Result<Decision, Rejection> + Send + Sync + 'static,
    ) -> Result<Committed, ExecuteError> {
        let decide: Arc<Decide> = Arc::new(decide);
        if let Some(blob) = ask.blobs.iter().find(|blob| blob.len() > BLOB_BYTES) {
            return Err(StoreError::BlobTooLarge { bytes: blob.len(), limit: BLOB_BYTES }.into());
        }
        let blobs = ask.blobs.into_iter().map(|bytes| (digest(&bytes), bytes)).collect();
        let command =
            Command { session, key: ask.key, goal: ask.goal, evidence: ask.evidence, blobs, decide };
        let (reply, answer) = oneshot::channel();
        let closed = || ExecuteError::Fault(StoreError::Closed);
        self.inner.messages.send(Message::Run(Job { command, reply })).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Where a session stands; `None` if there is no such session. Reads its head row and its plans, never the log.
    pub async fn head(&self, session: SessionId) -> Result<Option<Head>, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        let mut loaded = head::load(&mut *reader, &[session].into()).await?;
        let loaded = loaded.remove(&session).transpose()?;
        Ok(loaded.map(|loaded| loaded.head).filter(|head| head.state.is_open()))
    }

    /// The events strictly after a cursor, oldest first (E6). A page holds at most `limit` events, at most
    /// [`EVENTS_PER_PAGE`](crate::EVENTS_PER_PAGE), and ends early when its events are large.
    pub async fn events_after(
        &self,
        session: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::events_after(&mut *reader, session, after, limit).await
    }

    /// A revision of a plan (P15); `None` if there is none.
    pub async fn plan_at(
        &self,
        session: SessionId,
        lane: &LaneId,
        plan: PlanId,
        revision: Revision,
    ) -> Result<Option<PlanAt>, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::plan_at(&mut *reader, session, lane, plan, revision).await
    }

    /// The events that revised or closed plans of a lane, strictly after a cursor, oldest first (P15).
    pub async fn plan_history(
        &self,
        session: SessionId,
        lane: &LaneId,
        after: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::plan_history(&mut *reader, session, lane, after, limit).await
    }

    /// The state as it was after an event (P15). Folds the log up to there.
    pub async fn state_at(&self, session: SessionId, seq: Seq) -> Result<SessionState, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::state_at(&mut *reader, session, seq).await
    }

    /// Sessions, the one that changed last first.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::sessions(&mut *reader, filter).await
    }

    /// Sessions that need attention at `now`, the one that waits longest first; of one workspace or of all.
    pub async fn due(
        &self,
        now: Timestamp,
        workspace: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::due(&mut *reader, now, workspace, limit).await
    }

    /// When the first session needs attention, which may be in the past.
    pub async fn next_wake_at(&self, workspace: Option<&str>) -> Result<Option<Timestamp>, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::next_wake_at(&mut *reader, workspace).await
    }

    /// A blob, checked against its digest.
    pub async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let mut reader = self.inner.engine.reader().await?;
        read::blob(&mut *reader, digest).await
    }

    /// The name and version of the database, for people.
    pub async fn engine_version(&self) -> Result<String, StoreError> {
        self.inner.engine.version().await
    }

    /// Compares everything with the log, and the log with itself: gaps, payloads that do not decode, states that
    /// are not the fold, indexes, leases, wake-ups, blobs. `progress` is called after each session.
    pub async fn check(
        &self,
        progress: impl FnMut(CheckProgress) + Send,
    ) -> Result<Vec<CheckFinding>, StoreError> {
        check::check(&*self.inner.engine, progress).await
    }

    /// A hint that something was committed, here or by another process.
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.inner.engine), self.inner.commits.subscribe())
    }

    /// The time by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The store's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Gives the leases of a process to one that is gone. A simulated crash leaves alive the process that owned them. For
    /// a store in which nothing was asked for yet, since its writer remembers what it read.
    #[cfg(feature = "crash-points")]
    pub async fn bury(&self, pid: u32) -> Result<(), StoreError> {
        let of = |pid: u32| Value::text(&format!("\"pid\":{pid},"));
        let mut writer = self.inner.engine.writer().await?;
        writer.begin().await?;
        let sql = "UPDATE sessions SET leases = replace(leases, $1, $2)";
        writer.run(sql.into(), vec![of(pid), of(u32::MAX)]).await?;
        writer.commit().await?;
        writer.close().await;
        Ok(())
    }

    /// Finishes what was asked for before, then closes the files. Later commands fail with
    /// [`StoreError::Closed`]. A process may also simply end: what was answered is durable.
    pub async fn close(&self) {
        // Readers first: the last to leave tidies the files up, and only a writer can.
        self.inner.engine.close().await;
        let (done, closed) = oneshot::channel();
        if self.inner.messages.send(Message::Close(done)).await.is_ok() {
            closed.await.ok();
        }
    }
}
