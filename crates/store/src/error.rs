//! Faults of the store. A rejection is not one of them: it is an answer.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{Digest, Seq, SessionId};
use policy::Rejection;

/// What the database, the disk or a broken file did to us. Nothing was written, unless the message says otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No store there, and the caller did not want one made.
    #[error("there is no store at {}; `zuno session new` makes one", path.display())]
    NotFound {
        /// Where.
        path: PathBuf,
    },
    /// The file belongs to somebody else. It was not touched.
    #[error("{} is not a Zuno store: {detail}; choose another path", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// How that shows.
        detail: String,
    },
    /// The store is ours and its file is broken.
    #[error(
        "{} is a Zuno store and is damaged: {detail}; copy it together with the files whose names begin with its name, \
         then put a backup in its place, or save what is left with `sqlite3 {} .recover`",
        path.display(), path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// No file, or an empty one, and beside it the log of one that was there.
    #[error(
        "{} is empty or gone and its log {} is still there; put the file back beside it, or move the log away to \
         start anew",
        path.display(), log.display()
    )]
    LogWithoutFile {
        /// The file.
        path: PathBuf,
        /// The log, which may hold the last changes.
        log: PathBuf,
    },
    /// The file or its folder may not be written.
    #[error(
        "{}: {detail}; a store is read and written through files beside it, so give this user the right to write to \
         it and to its folder, or copy it with its `-wal` file to a folder where that is so", path.display()
    )]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// What the database said.
        detail: String,
    },
    /// There is no room for what is to be written.
    #[error("{}: {detail}; make room on its disk and try again: what was committed is safe", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the database said.
        detail: String,
    },
    /// The file was taken away while it was open. Nobody else would see what is written to it.
    #[error(
        "{} was moved, replaced or deleted while this program used it, so nothing more is written; put the file back \
         or start anew", path.display()
    )]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// A newer build made or upgraded the store.
    #[error(
        "{} has schema {found} and this build knows {supported}; use the newer zuno that made it", path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest this build knows.
        supported: i64,
    },
    /// No such session, where one is needed.
    #[error("there is no session {0}; `zuno session list` shows them")]
    UnknownSession(SessionId),
    /// A cursor that this log never handed out (E6).
    #[error("the cursor {after} is ahead of session {session}, whose last event is {head}")]
    CursorAhead {
        /// The session.
        session: SessionId,
        /// The cursor.
        after: Seq,
        /// The head of the log.
        head: Seq,
    },
    /// An event that only a newer build understands (E7).
    #[error(
        "session {session} is read-only for this build: its log holds `{kind}`{}, which a newer zuno wrote",
        at(*seq)
    )]
    UnknownKind {
        /// The session.
        session: SessionId,
        /// The kind, with `/version` where that is what is new.
        kind: String,
        /// The event, where one was being read.
        seq: Option<Seq>,
    },
    /// What was read contradicts itself or the rules it was written under.
    #[error("session {session} is corrupt{}: {detail}; `zuno doctor` shows all of it", at(*seq))]
    Corrupt {
        /// The session.
        session: SessionId,
        /// The event, if it is one.
        seq: Option<Seq>,
        /// What does not fit.
        detail: String,
    },
    /// A blob whose bytes are not what its digest says.
    #[error("the blob {0} does not match its digest; `zuno doctor` shows what is damaged")]
    CorruptBlob(Digest),
    /// A decision for another session or another head: a bug of the caller.
    #[error("a decision does not fit session {session}: {detail}")]
    Misfit {
        /// The session.
        session: SessionId,
        /// What does not fit.
        detail: String,
    },
    /// The deciding function panicked.
    #[error("deciding panicked: {0}")]
    Panicked(String),
    /// Others kept the store locked for too long.
    #[error(
        "the store stayed locked by another program for {0} s; look for a stopped zuno or an open sqlite3"
    )]
    Busy(u64),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A blob over the limit.
    #[error("a blob of {bytes} bytes; the limit is {limit}")]
    BlobTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: Arc<std::io::Error>,
    },
    /// The database.
    #[error("{}: the database failed: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A row of another shape than the schema promises.
    #[error("the database answered with {found} where column `{column}` was expected")]
    UnexpectedValue {
        /// The column.
        column: &'static str,
        /// What came.
        found: &'static str,
    },
}

fn at(seq: Option<Seq>) -> String {
    seq.map(|seq| format!(" at event {seq}")).unwrap_or_default()
}

impl StoreError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source: Arc::new(source) }
    }

    pub(crate) fn corrupt(session: SessionId, detail: impl Into<String>) -> Self {
        Self::Corrupt { session, seq: None, detail: detail.into() }
    }

    pub(crate) fn corrupt_at(session: SessionId, seq: Seq, detail: impl Into<String>) -> Self {
        Self::Corrupt { session, seq: Some(seq), detail: detail.into() }
    }
}

/// Why a command changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecuteError {
    /// A rule refused it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// It could not be stored.
    #[error(transparent)]
    Fault(#[from] StoreError),
}
