//! One session of the deep check.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Digest, Event, EventBody, Evidence, Seq, SessionId, SessionState, Timestamp};

use super::CheckFinding;
use crate::engine::{Connection, Value};
use crate::error::StoreError;
use crate::head::{self, Head, Loaded};
use crate::read::{EVENTS_PER_PAGE, event_rows, page_end};
use crate::record::{kind_entry, read_event};
use crate::{sql, write};

/// What the log says, gathered while it is read.
struct Log {
    state: SessionState,
    kinds: BTreeSet<String>,
    /// Lane, event, plan, revision, change.
    plans: BTreeSet<(String, u64, String, u64, &'static str)>,
    goals: BTreeSet<(String, u64)>,
    evidence: BTreeSet<(String, String, u64)>,
    /// First and last event of each command key.
    keys: BTreeMap<String, (u64, u64)>,
    blobs: BTreeSet<Digest>,
    events: u64,
    /// Whether every event was there and could be read: otherwise nothing can be compared with it.
    is_whole: bool,
}

struct Report<'a> {
    session: SessionId,
    found: &'a mut Vec<CheckFinding>,
}

impl Report<'_> {
    fn add(&mut self, seq: Option<Seq>, detail: impl Into<String>) {
        self.found.push(CheckFinding { session: Some(self.session), seq, detail: detail.into() });
    }

    fn fault(&mut self, error: &StoreError) {
        match error {
            StoreError::Corrupt { seq, detail, .. } => self.add(*seq, detail.clone()),
            StoreError::UnknownKind { seq, kind, .. } => {
                self.add(
                    *seq,
                    format!("`{kind}` was written by a newer zuno; this session is read-only here"),
                );
            }
            other => self.add(None, other.to_string()),
        }
    }
}

/// Checks one session and tells how many events it read.
pub(super) async fn check(
    connection: &mut dyn Connection,
    session: SessionId,
    found: &mut Vec<CheckFinding>,
) -> Result<u64, StoreError> {
    let report = &mut Report { session, found };
    // The end of the log before its head: what is committed in between can only move the head further.
    let end = number(connection, "SELECT max(seq) FROM events WHERE session_id = $1", session).await?;
    let head_seq = number(connection, "SELECT head_seq FROM sessions WHERE id = $1", session).await?;
    if end > head_seq {
        report.add(Some(Seq(end)), format!("the log goes on after its head, which is {head_seq}"));
    }
    let loaded = head::load(connection, &[session].into()).await?.remove(&session);
    let loaded = match loaded {
        Some(Ok(loaded)) if loaded.head.state.is_open() => Some(loaded),
        Some(Err(error)) => {
            report.fault(&error);
            None
        }
        Some(Ok(_)) | None => None,
    };
    let head = loaded.as_ref().map_or(Seq(head_seq), |loaded| loaded.head.state.core.head);
    let log = read_log(connection, report, head).await?;
    if let Some(loaded) = &loaded {
        if log.is_whole {
            compare_state(&log, loaded, report);
        }
        check_leases(&loaded.head, report);
        check_wake(&loaded.head, report);
        check_list(connection, loaded, report).await?;
    }
    if log.is_whole {
        check_plans(connection, &log, head, report).await?;
        check_goals(connection, &log, head, report).await?;
        check_evidence(connection, &log, head, report).await?;
        check_keys(connection, &log, head, report).await?;
    }
    check_references(connection, &log, report).await?;
    Ok(log.events)
}

async fn number(
    connection: &mut dyn Connection,
    select: &'static str,
    session: SessionId,
) -> Result<u64, StoreError> {
    let rows = connection.rows(select.into(), vec![Value::text(&session)]).await?;
    let first = rows.into_iter().next().map(|mut row| row.opt_count("seq")).transpose()?;
    Ok(first.flatten().unwrap_or(0))
}

async fn read_log(
    connection: &mut dyn Connection,
    report: &mut Report<'_>,
    head: Seq,
) -> Result<Log, StoreError> {
    let session = report.session;
    let mut log = Log {
        state: SessionState::before_first(session),
        kinds: BTreeSet::new(),
        plans: BTreeSet::new(),
        goals: BTreeSet::new(),
        evidence: BTreeSet::new(),
        keys: BTreeMap::new(),
        blobs: BTreeSet::new(),
        events: 0,
        is_whole: true,
    };
    let mut at = Seq(0);
    while let Some(to) = page_end(connection, session, at, head, EVENTS_PER_PAGE).await? {
        for mut row in event_rows(connection, session, at, to).await? {
            log.events += 1;
            let event = read_event(session, &mut row);
            let seq = match &event {
                Ok(event) => event.seq,
                Err(
                    StoreError::Corrupt { seq: Some(seq), .. }
                    | StoreError::UnknownKind { seq: Some(seq), .. },
                ) => *seq,
                Err(error) => return Err(error.clone()),
            };
            if seq != at.next() {
                report.add(Some(at.next()), "the event is missing");
                log.is_whole = false;
            }
            at = seq;
            match event {
                Ok(event) => log.take(&event),
                Err(error) => {
                    report.fault(&error);
                    log.is_whole = false;
                }
            }
        }
    }
    if at < head {
        report.add(Some(at.next()), format!("the log ends before its head, which is {head}"));
        log.is_whole = false;
    }
    Ok(log)
}

impl Log {
    fn take(&mut self, event: &Event) {
        self.state.apply(event);
        self.kinds.insert(kind_entry(event.body.kind(), u64::from(EventBody::VERSION)));
        let seq = event.seq.0;
        match &event.body {
            EventBody::PlanRevised { lane, plan } => {
                self.plans.insert((lane.to_string(), seq, plan.id.to_string(), plan.revision.0, "revised"));
            }
            EventBody::PlanClosed { lane, plan_id, revision, .. } => {
                self.plans.insert((lane.to_string(), seq, plan_id.to_string(), revision.0, "closed"));
            }
            EventBody::GoalOpened { goal_id, .. } => {
                self.goals.insert((goal_id.to_string(), seq));
            }
            EventBody::CallFinished { full_output, evidence, .. } => {
                self.blobs.extend(full_output);
                if let Some(Evidence::NewCall { goal_id, call }) = evidence {
                    self.evidence.insert((goal_id.to_string(), String::from(*call), seq));
                }
            }
            EventBody::CommandEnded { full_output, .. } => self.blobs.extend(full_output),
            _ => {}
        }
        if let Some(key) = &event.command_key {
            let range = self.keys.entry(key.to_string()).or_insert((seq, seq));
            range.1 = seq;
        }
    }
}

fn compare_state(log: &Log, loaded: &Loaded, report: &mut Report<'_>) {
    let stored = &loaded.head.state;
    if log.state.core != stored.core {
        report.add(None, "the stored state is not the fold of the log");
    }
    if log.state.plans != stored.plans {
        report.add(None, "the plans read through the stored state are not those of the log");
    }
    if log.kinds != loaded.kinds {
        report.add(None, "the list of kinds is not that of the log");
    }
}

fn check_leases(head: &Head, report: &mut Report<'_>) {
    let core = &head.state.core;
    let is_running = core.running_turns().next().is_some();
    match &head.leases.turn {
        None if is_running => report.add(None, "a turn runs without a lease"),
        Some(lease) if !is_running => {
            report.add(None, format!("worker {} holds a lease and no turn runs", lease.owner.worker));
        }
        Some(lease) if lease.epoch > core.last_turn => {
            report.add(
                None,
                format!("the lease has epoch {} and the last turn is {}", lease.epoch, core.last_turn),
            );
        }
        Some(_) | None => {}
    }
    for command in core.commands.iter().filter(|command| !head.leases.commands.contains_key(&command.id)) {
        report.add(None, format!("background command {} runs without a lease", command.id));
    }
    for (id, lease) in head.leases.commands.iter().filter(|(id, _)| core.command(**id).is_none()) {
        let worker = &lease.owner.worker;
        report.add(
            None,
            format!("worker {worker} holds a lease for background command {id}, which does not run"),
        );
    }
}

/// The stored moment is the one derived when the last event was decided. What moves without an event may have stored a
/// later one since; that one would be derived at itself again.
fn check_wake(head: &Head, report: &mut Report<'_>) {
    let core = &head.state.core;
    let derive = |now: Timestamp| policy::wake_at(core, &head.leases, now);
    let detail = match (head.wake_at, derive(core.last_at)) {
        (None, None) => return,
        (Some(stored), Some(derived)) if stored == derived => return,
        (Some(stored), Some(derived))
            if stored > derived && !head.leases.is_empty() && derive(stored) == Some(stored) =>
        {
            return;
        }
        (None, Some(derived)) => format!("no wake-up is stored and one is due at {} ms", derived.0),
        (Some(stored), None) => format!("a wake-up is stored for {} ms and nothing is due", stored.0),
        (Some(stored), Some(derived)) => {
            format!("a wake-up is stored for {} ms and one is due at {} ms", stored.0, derived.0)
        }
    };
    report.add(None, detail);
}

async fn check_list(
    connection: &mut dyn Connection,
    loaded: &Loaded,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    let select = "SELECT head_seq, workspace, title, agent, mode, goal_status, plan_id, plan_revision, plan_title, \
                  plan_completed, plan_total, plan_active, plan_closed, updated_at FROM sessions WHERE id = $1";
    let rows = connection.rows(select.into(), vec![Value::text(&report.session)]).await?;
    for mut row in rows {
        // A head that moved since it was read has other columns by right.
        let is_same_head = row.count("head_seq")? == loaded.head.state.core.head.0;
        if is_same_head && !row.holds(&write::list_values(loaded)) {
            report.add(None, "the columns that lists show are not those of the state");
        }
    }
    Ok(())
}

async fn check_plans(
    connection: &mut dyn Connection,
    log: &Log,
    head: Seq,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    let select =
        "SELECT lane, seq, plan_id, revision, change FROM plan_rows WHERE session_id = $1 AND seq <= $2";
    let values = vec![Value::text(&report.session), Value::from(head.0)];
    let mut stored = BTreeSet::new();
    for mut row in connection.rows(select.into(), values).await? {
        let (lane, seq, plan) = (row.text("lane")?, row.count("seq")?, row.text("plan_id")?);
        let revision = row.count("revision")?;
        let change = if row.text("change")? == "closed" { "closed" } else { "revised" };
        stored.insert((lane, seq, plan, revision, change));
    }
    for (lane, seq, _, revision, change) in stored.symmetric_difference(&log.plans) {
        report.add(
            Some(Seq(*seq)),
            format!(
                "revision {revision} of lane {lane} ({change}) stands only in the log or only in its index"
            ),
        );
    }
    Ok(())
}

async fn check_goals(
    connection: &mut dyn Connection,
    log: &Log,
    head: Seq,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    let select = "SELECT goal_id, opened_seq FROM goal_rows WHERE session_id = $1 AND opened_seq <= $2";
    let values = vec![Value::text(&report.session), Value::from(head.0)];
    let mut stored = BTreeSet::new();
    for mut row in connection.rows(select.into(), values).await? {
        stored.insert((row.text("goal_id")?, row.count("opened_seq")?));
    }
    for (goal, seq) in stored.symmetric_difference(&log.goals) {
        report.add(Some(Seq(*seq)), format!("Goal {goal} stands only in the log or only in its index"));
    }
    Ok(())
}

async fn check_evidence(
    connection: &mut dyn Connection,
    log: &Log,
    head: Seq,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    let select = "SELECT goal_id, call, seq FROM evidence_rows WHERE session_id = $1 AND seq <= $2";
    let values = vec![Value::text(&report.session), Value::from(head.0)];
    let mut stored = BTreeSet::new();
    for mut row in connection.rows(select.into(), values).await? {
        stored.insert((row.text("goal_id")?, row.text("call")?, row.count("seq")?));
    }
    for (goal, call, seq) in stored.symmetric_difference(&log.evidence) {
        report.add(
            Some(Seq(*seq)),
            format!("the new call {call} of Goal {goal} stands only in the log or only in its index"),
        );
    }
    Ok(())
}

async fn check_keys(
    connection: &mut dyn Connection,
    log: &Log,
    head: Seq,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    let select = "SELECT command_key, first_seq, last_seq FROM command_keys \
                  WHERE session_id = $1 AND last_seq <= $2";
    let values = vec![Value::text(&report.session), Value::from(head.0)];
    let mut stored = BTreeMap::new();
    for mut row in connection.rows(select.into(), values).await? {
        stored.insert(row.text("command_key")?, (row.count("first_seq")?, row.count("last_seq")?));
    }
    for (key, (first, last)) in &stored {
        let caused = log.keys.get(key);
        // A key that caused nothing stands on no event.
        if caused.is_none() && last < first {
            continue;
        }
        if caused != Some(&(*first, *last)) {
            report.add(Some(Seq(*first)), format!("the command key `{key}` does not stand on its events"));
        }
    }
    for (key, (first, _)) in log.keys.iter().filter(|(key, _)| !stored.contains_key(*key)) {
        report.add(Some(Seq(*first)), format!("the command key `{key}` is not remembered"));
    }
    Ok(())
}

/// Every blob that the log refers to is there.
async fn check_references(
    connection: &mut dyn Connection,
    log: &Log,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    let keys: Vec<_> = log.blobs.iter().map(|digest| vec![Value::text(digest)]).collect();
    let rows = sql::select_in(connection, "SELECT digest FROM blobs WHERE digest", &keys, "").await?;
    let there: Result<BTreeSet<Digest>, _> = rows.into_iter().map(|mut row| row.parsed("digest")).collect();
    let there = there?;
    for digest in log.blobs.difference(&there) {
        report.add(None, format!("the blob {digest} that the log refers to is not there"));
    }
    Ok(())
}
