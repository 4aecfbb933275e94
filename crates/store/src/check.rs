//! The deep check: everything that is a cache or an index of the log is compared with the log itself.
//!
//! It runs beside writers. The log only grows, so each session is checked up to the head that was read first.

mod session;

use std::fmt;

use domain::{Digest, Seq, SessionId};

use crate::engine::{Connection, Engine, Value};
use crate::error::StoreError;
use crate::store::digest as digest_of;

/// Sessions whose ids are read at a time.
const IDS_PER_LOOK: usize = 500;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    /// The session, if it is about one.
    pub session: Option<SessionId>,
    /// The event, if it is about one.
    pub seq: Option<Seq>,
    /// What is wrong.
    pub detail: String,
}

impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = self.session {
            write!(f, "session {session}")?;
            if let Some(seq) = self.seq {
                write!(f, ", event {seq}")?;
            }
            write!(f, ": ")?;
        }
        f.write_str(&self.detail)
    }
}

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// Sessions that were checked.
    pub sessions: u64,
    /// Sessions there were when it began.
    pub of: u64,
    /// Events that were read.
    pub events: u64,
}

pub(crate) async fn check(
    engine: &dyn Engine,
    mut progress: impl FnMut(CheckProgress),
) -> Result<Vec<CheckFinding>, StoreError> {
    let of_store = |detail| CheckFinding { session: None, seq: None, detail };
    let mut found: Vec<_> = engine.self_check().await?.into_iter().map(of_store).collect();
    let mut reader = engine.reader().await?;
    let connection = &mut *reader;
    let rows = connection.rows("SELECT count(*) FROM sessions".into(), vec![]).await?;
    let of = rows.into_iter().next().map_or(Ok(0), |mut row| row.count("count"))?;
    let mut done = CheckProgress { sessions: 0, of, events: 0 };
    progress(done);
    let mut last = String::new();
    loop {
        let ids = next_ids(connection, &last).await?;
        let Some(id) = ids.last() else { break };
        last.clone_from(id);
        for id in ids {
            let Ok(id) = id.parse() else {
                found.push(of_store(format!("`{id}` is not the id of a session")));
                continue;
            };
            done.events += session::check(connection, id, &mut found).await?;
            done.sessions += 1;
            progress(done);
        }
    }
    check_blobs(connection, &mut found).await?;
    Ok(found)
}

async fn next_ids(connection: &mut dyn Connection, after: &str) -> Result<Vec<String>, StoreError> {
    let select = "SELECT id FROM sessions WHERE id > $1 ORDER BY id LIMIT $2";
    let values = vec![Value::text(after), Value::from(IDS_PER_LOOK)];
    let rows = connection.rows(select.into(), values).await?;
    rows.into_iter().map(|mut row| row.text("id")).collect()
}

/// One blob at a time: each may be large.
async fn check_blobs(
    connection: &mut dyn Connection,
    found: &mut Vec<CheckFinding>,
) -> Result<(), StoreError> {
    let select = "SELECT digest, bytes FROM blobs WHERE digest > $1 ORDER BY digest LIMIT 1";
    let mut last = String::new();
    loop {
        let rows = connection.rows(select.into(), vec![Value::text(&last)]).await?;
        let Some(mut row) = rows.into_iter().next() else { return Ok(()) };
        last = row.text("digest")?;
        let bytes = row.bytes("bytes")?;
        if last.parse::<Digest>().ok() != Some(digest_of(&bytes)) {
            let detail = format!("the blob {last} does not match its digest");
            found.push(CheckFinding { session: None, seq: None, detail });
        }
    }
}
