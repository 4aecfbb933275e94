//! Reading: pages of the log behind a cursor, plan revisions by key, lists of sessions, blobs.
//!
//! The log only grows, so reading it in two statements is as good as in one transaction.

use domain::{
    Actor, Digest, Event, EventBody, LaneId, Plan, PlanId, Revision, Seq, SessionId, SessionState, Timestamp,
};

use crate::engine::{Connection, Row, Value};
use crate::error::StoreError;
use crate::record::{event_columns, read_event};
use crate::store::digest as digest_of;

/// Events in one page: what a reader takes in at once without holding much memory.
pub const EVENTS_PER_PAGE: usize = 1_000;
/// Bytes of payloads in one page; a single larger event is a page of its own.
const BYTES_PER_PAGE: u64 = 8 * 1024 * 1024;
/// Sessions in one list or one look for due work.
pub const LISTED_SESSIONS: usize = 1_000;

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The cursor to continue from.
    pub next: Seq,
    /// The head of the log when the page was read.
    pub head: Seq,
    /// Whether events follow that were there when the page was read.
    pub has_more: bool,
}

/// A revision of a plan as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanAt {
    /// The event that holds it.
    pub seq: Seq,
    /// When it was accepted.
    pub at: Timestamp,
    /// Who made it.
    pub by: Actor,
    /// The plan.
    pub plan: Plan,
}

/// Which sessions a list holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those of this workspace.
    pub workspace: Option<String>,
    /// At most this many, and at most [`LISTED_SESSIONS`].
    pub limit: usize,
}

impl Default for SessionFilter {
    fn default() -> Self {
        Self { workspace: None, limit: LISTED_SESSIONS }
    }
}

/// A session in a list. Agent, mode and status are the names that the build which wrote them uses, so that one
/// session of a newer build does not spoil the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session.
    pub id: SessionId,
    /// The workspace root.
    pub workspace: String,
    /// What it is about, once it is known.
    pub title: Option<String>,
    /// The agent for Work mode.
    pub agent: String,
    /// The mode.
    pub mode: String,
    /// The status of its latest Goal.
    pub goal_status: Option<String>,
    /// The latest plan of the main lane.
    pub plan: Option<PlanProgress>,
    /// Its last event.
    pub head: Seq,
    /// When that was.
    pub updated_at: Timestamp,
    /// When it needs attention next.
    pub wake_at: Option<Timestamp>,
}

/// How far a plan is, for a line in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanProgress {
    /// The plan.
    pub plan_id: PlanId,
    /// Its revision.
    pub revision: Revision,
    /// Its title.
    pub title: String,
    /// Completed steps.
    pub completed: u64,
    /// All steps.
    pub total: u64,
    /// The id of the step in progress.
    pub active: Option<String>,
    /// Whether it was closed (P17).
    pub closed: bool,
}

fn bounded(limit: usize, most: usize) -> Value {
    Value::from(limit.clamp(1, most))
}

async fn head_seq(connection: &mut dyn Connection, session: SessionId) -> Result<Seq, StoreError> {
    let select = "SELECT head_seq FROM sessions WHERE id = $1";
    let rows = connection.rows(select.into(), vec![Value::text(&session)]).await?;
    match rows.into_iter().next() {
        Some(mut row) => Ok(Seq(row.count("head_seq")?)),
        None => Err(StoreError::UnknownSession(session)),
    }
}

/// The head of the log, if the cursor is not ahead of it (E6).
async fn check_cursor(
    connection: &mut dyn Connection,
    session: SessionId,
    after: Seq,
) -> Result<Seq, StoreError> {
    let head = head_seq(connection, session).await?;
    if after > head { Err(StoreError::CursorAhead { session, after, head }) } else { Ok(head) }
}

pub(crate) async fn events_after(
    connection: &mut dyn Connection,
    session: SessionId,
    after: Seq,
    limit: usize,
) -> Result<Page, StoreError> {
    let head = check_cursor(connection, session, after).await?;
    let last = page_end(connection, session, after, head, limit).await?;
    let to = last.unwrap_or(after);
    let mut events = Vec::new();
    let mut expected = after;
    for mut row in event_rows(connection, session, after, to).await? {
        let event = read_event(session, &mut row)?;
        expected = expected.next();
        if event.seq != expected {
            return Err(StoreError::corrupt_at(session, expected, "the event is missing"));
        }
        events.push(event);
    }
    if last.is_none() && after < head {
        return Err(StoreError::corrupt_at(session, after.next(), "the event is missing"));
    }
    Ok(Page { events, next: to, head, has_more: to < head })
}

/// The last event of a page, found from the sizes of the events, which are read without their texts. None if there
/// is no event between `after` and `head`.
pub(crate) async fn page_end(
    connection: &mut dyn Connection,
    session: SessionId,
    after: Seq,
    head: Seq,
    limit: usize,
) -> Result<Option<Seq>, StoreError> {
    let sizes = "SELECT seq, octet_length(payload) FROM events \
                 WHERE session_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4";
    let values = vec![
        Value::text(&session),
        Value::from(after.0),
        Value::from(head.0),
        bounded(limit, EVENTS_PER_PAGE),
    ];
    last_of_page(connection.rows(sizes.into(), values).await?)
}

/// The rows of a part of a log, for [`read_event`].
pub(crate) async fn event_rows(
    connection: &mut dyn Connection,
    session: SessionId,
    after: Seq,
    to: Seq,
) -> Result<Vec<Row>, StoreError> {
    let select = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events WHERE session_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq"
    );
    let values = vec![Value::text(&session), Value::from(after.0), Value::from(to.0)];
    connection.rows(select.into(), values).await
}

/// The last event that fits a page, from rows of sequence number and size.
fn last_of_page(rows: Vec<Row>) -> Result<Option<Seq>, StoreError> {
    let mut last = None;
    let mut bytes: u64 = 0;
    for mut row in rows {
        let seq = Seq(row.count("seq")?);
        bytes = bytes.saturating_add(row.count("size")?);
        if last.is_some() && bytes > BYTES_PER_PAGE {
            break;
        }
        last = Some(seq);
    }
    Ok(last)
}

pub(crate) async fn plan_at(
    connection: &mut dyn Connection,
    session: SessionId,
    lane: &LaneId,
    plan_id: PlanId,
    revision: Revision,
) -> Result<Option<PlanAt>, StoreError> {
    let select = "SELECT e.seq, e.at, e.actor, e.kind, e.version, e.payload, e.command_key \
                  FROM plan_rows p JOIN events e ON e.session_id = p.session_id AND e.seq = p.seq \
                  WHERE p.session_id = $1 AND p.lane = $2 AND p.plan_id = $3 AND p.revision = $4 \
                  AND p.change = 'revised'";
    let values =
        vec![Value::text(&session), Value::text(lane), Value::text(&plan_id), Value::from(revision.0)];
    let Some(mut row) = connection.rows(select.into(), values).await?.into_iter().next() else {
        return Ok(None);
    };
    let Event { seq, at, actor, body, .. } = read_event(session, &mut row)?;
    match body {
        EventBody::PlanRevised { lane: of, plan }
            if of == *lane && plan.id == plan_id && plan.revision == revision =>
        {
            Ok(Some(PlanAt { seq, at, by: actor, plan }))
        }
        other => {
            let detail = format!("revision {revision} should be there, but it is {}", other.kind());
            Err(StoreError::corrupt_at(session, seq, detail))
        }
    }
}

pub(crate) async fn plan_history(
    connection: &mut dyn Connection,
    session: SessionId,
    lane: &LaneId,
    after: Seq,
    limit: usize,
) -> Result<Page, StoreError> {
    let head = check_cursor(connection, session, after).await?;
    let limit = limit.clamp(1, EVENTS_PER_PAGE);
    let sizes = "SELECT p.seq, octet_length(e.payload) \
                 FROM plan_rows p JOIN events e ON e.session_id = p.session_id AND e.seq = p.seq \
                 WHERE p.session_id = $1 AND p.lane = $2 AND p.seq > $3 AND p.seq <= $4 ORDER BY p.seq LIMIT $5";
    let values = vec![
        Value::text(&session),
        Value::text(lane),
        Value::from(after.0),
        Value::from(head.0),
        // One more than asked for tells whether more follow.
        Value::from(limit + 1),
    ];
    let rows = connection.rows(sizes.into(), values).await?;
    let found = rows.len();
    let last = last_of_page(rows.into_iter().take(limit).collect())?.unwrap_or(after);
    let select = "SELECT e.seq, e.at, e.actor, e.kind, e.version, e.payload, e.command_key \
                  FROM plan_rows p JOIN events e ON e.session_id = p.session_id AND e.seq = p.seq \
                  WHERE p.session_id = $1 AND p.lane = $2 AND p.seq > $3 AND p.seq <= $4 ORDER BY p.seq";
    let values = vec![Value::text(&session), Value::text(lane), Value::from(after.0), Value::from(last.0)];
    let rows = connection.rows(select.into(), values).await?;
    let events: Result<Vec<_>, _> = rows.into_iter().map(|mut row| read_event(session, &mut row)).collect();
    let events = events?;
    let has_more = found > events.len();
    Ok(Page { events, next: if has_more { last } else { head }, head, has_more })
}

pub(crate) async fn state_at(
    connection: &mut dyn Connection,
    session: SessionId,
    seq: Seq,
) -> Result<SessionState, StoreError> {
    check_cursor(connection, session, seq).await?;
    let mut state = SessionState::before_first(session);
    while state.core.head < seq {
        let limit = usize::try_from(seq.0 - state.core.head.0).unwrap_or(EVENTS_PER_PAGE);
        let page = events_after(connection, session, state.core.head, limit).await?;
        page.events.iter().for_each(|event| state.apply(event));
    }
    Ok(state)
}

/// A list of sessions. `$1` bounds it, `$2` is the workspace.
macro_rules! list_sessions {
    ($where:literal) => {
        concat!(
            "SELECT id, workspace, title, agent, mode, goal_status, plan_id, plan_revision, plan_title, ",
            "plan_completed, plan_total, plan_active, plan_closed, head_seq, updated_at, wake_at FROM sessions ",
            $where,
            " ORDER BY updated_at DESC, id DESC LIMIT $1"
        )
    };
}

pub(crate) async fn sessions(
    connection: &mut dyn Connection,
    filter: &SessionFilter,
) -> Result<Vec<SessionSummary>, StoreError> {
    let mut values = vec![bounded(filter.limit, LISTED_SESSIONS)];
    let select = match &filter.workspace {
        None => list_sessions!(""),
        Some(workspace) => {
            values.push(Value::text(&workspace));
            list_sessions!("WHERE workspace = $2")
        }
    };
    connection.rows(select.into(), values).await?.into_iter().map(read_summary).collect()
}

fn read_summary(mut row: Row) -> Result<SessionSummary, StoreError> {
    let id = row.parsed("id")?;
    let workspace = row.text("workspace")?;
    let title = row.opt_text("title")?;
    let agent = row.text("agent")?;
    let mode = row.text("mode")?;
    let goal_status = row.opt_text("goal_status")?;
    let plan_id = row.opt_text("plan_id")?;
    let revision = row.opt_count("plan_revision")?;
    let plan_title = row.opt_text("plan_title")?;
    let completed = row.opt_count("plan_completed")?;
    let total = row.opt_count("plan_total")?;
    let active = row.opt_text("plan_active")?;
    let closed = row.opt_int("plan_closed")?;
    let plan = match (plan_id, revision, plan_title, completed, total, closed) {
        (Some(plan_id), Some(revision), Some(title), Some(completed), Some(total), Some(closed)) => {
            let plan_id = plan_id
                .parse()
                .map_err(|error: domain::InvalidId| StoreError::corrupt(id, error.to_string()))?;
            let (revision, closed) = (Revision(revision), closed != 0);
            Some(PlanProgress { plan_id, revision, title, completed, total, active, closed })
        }
        (None, None, None, None, None, None) => None,
        _ => return Err(StoreError::corrupt(id, "its head row holds half a plan")),
    };
    Ok(SessionSummary {
        id,
        workspace,
        title,
        agent,
        mode,
        goal_status,
        plan,
        head: Seq(row.count("head_seq")?),
        updated_at: Timestamp(row.int("updated_at")?),
        wake_at: row.opt_int("wake_at")?.map(Timestamp),
    })
}

/// A wake-up that is not after the session's last event means "at once". It is due whatever the clock shows: a clock
/// that was set back must not put work off that waited already (T3).
pub(crate) const DUE: &str = "SELECT id FROM sessions WHERE wake_at IS NOT NULL \
     AND (wake_at <= $1 OR wake_at <= updated_at) ORDER BY wake_at, id LIMIT $2";
pub(crate) const DUE_IN_WORKSPACE: &str = "SELECT id FROM sessions WHERE workspace = $3 AND wake_at IS NOT NULL \
     AND (wake_at <= $1 OR wake_at <= updated_at) ORDER BY wake_at, id LIMIT $2";
pub(crate) const NEXT_WAKE: &str =
    "SELECT wake_at FROM sessions WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1";
pub(crate) const NEXT_WAKE_IN_WORKSPACE: &str = "SELECT wake_at FROM sessions \
     WHERE workspace = $1 AND wake_at IS NOT NULL ORDER BY wake_at LIMIT 1";

pub(crate) async fn due(
    connection: &mut dyn Connection,
    now: Timestamp,
    workspace: Option<&str>,
    limit: usize,
) -> Result<Vec<SessionId>, StoreError> {
    let mut values = vec![Value::from(now.0), bounded(limit, LISTED_SESSIONS)];
    let select = match workspace {
        None => DUE,
        Some(workspace) => {
            values.push(Value::text(&workspace));
            DUE_IN_WORKSPACE
        }
    };
    let rows = connection.rows(select.into(), values).await?;
    rows.into_iter().map(|mut row| row.parsed("id")).collect()
}

pub(crate) async fn next_wake_at(
    connection: &mut dyn Connection,
    workspace: Option<&str>,
) -> Result<Option<Timestamp>, StoreError> {
    let (select, values) = match workspace {
        None => (NEXT_WAKE, vec![]),
        Some(workspace) => (NEXT_WAKE_IN_WORKSPACE, vec![Value::text(&workspace)]),
    };
    let rows = connection.rows(select.into(), values).await?;
    rows.into_iter().next().map(|mut row| Ok(Timestamp(row.int("wake_at")?))).transpose()
}

pub(crate) async fn blob(
    connection: &mut dyn Connection,
    digest: Digest,
) -> Result<Option<Vec<u8>>, StoreError> {
    let select = "SELECT bytes FROM blobs WHERE digest = $1";
    let rows = connection.rows(select.into(), vec![Value::text(&digest)]).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    let bytes = row.bytes("bytes")?;
    if digest_of(&bytes) != digest {
        return Err(StoreError::CorruptBlob(digest));
    }
    Ok(Some(bytes))
}
