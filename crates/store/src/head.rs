//! Where a session stands: its head row and the events that hold its plans. Never the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{Core, Event, EventBody, LaneId, Plan, Seq, SessionId, SessionState, Timestamp};
use policy::Leases;

use crate::engine::{Connection, Row, Value};
use crate::error::StoreError;
use crate::record::{entry_is_known, event_columns, kind_entry, read_event};
use crate::sql;

/// A session as it stands.
#[derive(Debug, Clone)]
pub struct Head {
    /// Its state.
    pub state: Arc<SessionState>,
    /// Who holds what of it.
    pub leases: Leases,
    /// When it needs attention next without anybody acting (T3).
    pub wake_at: Option<Timestamp>,
}

impl Head {
    /// Whether it needs attention at `at`. A wake-up that is not after the last event means "at once", whatever the
    /// clock shows (T3).
    pub fn is_due(&self, at: Timestamp) -> bool {
        self.wake_at.is_some_and(|wake_at| wake_at <= at.max(self.state.core.last_at))
    }
}

/// A head with what writing needs to know on top.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) head: Head,
    /// The kinds of events in the log, as `kind_entry` names them.
    pub(crate) kinds: BTreeSet<String>,
}

impl Loaded {
    fn before_first(session: SessionId) -> Self {
        let state = Arc::new(SessionState::before_first(session));
        Self { head: Head { state, leases: Leases::default(), wake_at: None }, kinds: BTreeSet::new() }
    }

    /// Refuses to write to a log that holds what this build does not understand (E7).
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        match first_unknown(&self.kinds) {
            None => Ok(()),
            Some(kind) => {
                Err(StoreError::UnknownKind { session: self.head.state.id, kind: kind.clone(), seq: None })
            }
        }
    }

    pub(crate) fn note_kind(&mut self, event: &Event) {
        self.kinds.insert(kind_entry(event.body.kind(), u64::from(EventBody::VERSION)));
    }
}

fn first_unknown(kinds: &BTreeSet<String>) -> Option<&String> {
    kinds.iter().find(|entry| !entry_is_known(entry))
}

/// The sessions asked for; one that does not exist is the state before the first event. A session that cannot be
/// read is an error of its own and keeps nobody else from being read.
pub(crate) async fn load(
    connection: &mut dyn Connection,
    sessions: &BTreeSet<SessionId>,
) -> Result<BTreeMap<SessionId, Result<Loaded, StoreError>>, StoreError> {
    let keys: Vec<_> = sessions.iter().map(|id| vec![Value::text(id)]).collect();
    // In the order of ids, so that engines that lock rows cannot wait for each other in a circle.
    let rows = sql::select_in(
        connection,
        "SELECT id, head_seq, kinds, core, leases, wake_at FROM sessions WHERE id",
        &keys,
        "ORDER BY id",
    );
    let mut loaded = BTreeMap::new();
    let mut plans = Vec::new();
    for mut row in rows.await? {
        let session: SessionId = row.parsed("id")?;
        let head = read_head(session, &mut row);
        if let Ok(loaded) = &head {
            plans.extend(plan_seqs(&loaded.head.state.core).map(|(lane, seq)| (session, lane.clone(), seq)));
        }
        loaded.insert(session, head);
    }
    let mut held = read_events(connection, plans.iter().map(|(session, _, seq)| (*session, *seq))).await?;
    for (session, lane, seq) in plans {
        let plan = take_plan(session, &lane, seq, held.remove(&(session, seq)));
        if let Some(slot) = loaded.get_mut(&session) {
            match (&mut *slot, plan) {
                (Ok(loaded), Ok(plan)) => {
                    Arc::make_mut(&mut loaded.head.state).plans.insert(lane, plan);
                }
                (Ok(_), Err(error)) => *slot = Err(error),
                (Err(_), _) => {}
            }
        }
    }
    for session in sessions {
        loaded.entry(*session).or_insert_with(|| Ok(Loaded::before_first(*session)));
    }
    Ok(loaded)
}

/// The event of each lane that holds its latest plan.
fn plan_seqs(core: &Core) -> impl Iterator<Item = (&LaneId, Seq)> {
    core.lanes.iter().filter_map(|(lane, slot)| Some((lane, slot.plan.as_ref()?.seq)))
}

fn read_head(session: SessionId, row: &mut Row) -> Result<Loaded, StoreError> {
    let head = Seq(row.count("head_seq")?);
    let kinds = read_kinds(session, row)?;
    let core: Result<Core, _> = serde_json::from_str(&row.text("core")?);
    let core = core.map_err(|error| match first_unknown(&kinds) {
        // A newer build's state need not look like ours.
        Some(kind) => StoreError::UnknownKind { session, kind: kind.clone(), seq: None },
        None => undecodable(session, "state", &error),
    })?;
    if core.head != head || head == Seq(0) {
        let detail = format!("its head row says {head} and its state {}", core.head);
        return Err(StoreError::corrupt(session, detail));
    }
    let leases = read_leases(session, row)?;
    let wake_at = row.opt_int("wake_at")?.map(Timestamp);
    let state = Arc::new(SessionState { id: session, core, plans: BTreeMap::new() });
    Ok(Loaded { head: Head { state, leases, wake_at }, kinds })
}

pub(crate) fn read_kinds(session: SessionId, row: &mut Row) -> Result<BTreeSet<String>, StoreError> {
    let kinds = serde_json::from_str(&row.text("kinds")?);
    kinds.map_err(|error| undecodable(session, "list of kinds", &error))
}

pub(crate) fn read_leases(session: SessionId, row: &mut Row) -> Result<Leases, StoreError> {
    let leases = row.opt_text("leases")?.map(|text| serde_json::from_str(&text)).transpose();
    leases.map(Option::unwrap_or_default).map_err(|error| undecodable(session, "leases", &error))
}

fn undecodable(session: SessionId, what: &str, error: &serde_json::Error) -> StoreError {
    StoreError::corrupt(session, format!("the {what} of its head does not decode: {error}"))
}

type Found = BTreeMap<(SessionId, Seq), Result<Event, StoreError>>;

async fn read_events(
    connection: &mut dyn Connection,
    wanted: impl Iterator<Item = (SessionId, Seq)>,
) -> Result<Found, StoreError> {
    let keys: Vec<_> = wanted.map(|(session, seq)| vec![Value::text(&session), Value::from(seq.0)]).collect();
    let select = concat!("SELECT session_id, ", event_columns!(), " FROM events WHERE (session_id, seq)");
    let mut found = Found::new();
    for mut row in sql::select_in(connection, select, &keys, "").await? {
        let session: SessionId = row.parsed("session_id")?;
        match read_event(session, &mut row) {
            Ok(event) => {
                found.insert((session, event.seq), Ok(event));
            }
            Err(error) => {
                let seq = match &error {
                    StoreError::Corrupt { seq: Some(seq), .. }
                    | StoreError::UnknownKind { seq: Some(seq), .. } => *seq,
                    _ => return Err(error),
                };
                found.insert((session, seq), Err(error));
            }
        }
    }
    Ok(found)
}

fn take_plan(
    session: SessionId,
    lane: &LaneId,
    seq: Seq,
    found: Option<Result<Event, StoreError>>,
) -> Result<Arc<Plan>, StoreError> {
    match found.transpose()?.map(|event| event.body) {
        Some(EventBody::PlanRevised { lane: of, plan }) if of == *lane => Ok(Arc::new(plan)),
        Some(body) => {
            let detail = format!("lane {lane} has its plan there, but the event is {}", body.kind());
            Err(StoreError::corrupt_at(session, seq, detail))
        }
        None => {
            let detail = format!("lane {lane} has its plan there, but there is no such event");
            Err(StoreError::corrupt_at(session, seq, detail))
        }
    }
}
