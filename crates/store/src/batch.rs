//! The middle of a batch: decide every command in memory, in order, and collect what is to be written.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use domain::{
    CommandKey, Digest, EventBody, Evidence, Fingerprint, GoalId, Seq, SessionId, SessionState, Timestamp,
};
use policy::{Decision, Facts, KeyVerdict, Rejection, key_verdict};

use crate::engine::Value;
use crate::error::{ExecuteError, StoreError};
use crate::head::Loaded;
use crate::record::event_values;
use crate::store::{CommandKeyed, Committed};

/// A deciding function. It may run more than once: a batch that fails is run again, command by command.
pub(crate) type Decide = dyn Fn(&SessionState, &Facts) -> Result<Decision, Rejection> + Send + Sync;

/// A command on its way to be decided.
pub(crate) struct Command {
    pub(crate) session: SessionId,
    pub(crate) key: Option<CommandKeyed>,
    pub(crate) goal: Option<GoalId>,
    pub(crate) evidence: Option<(GoalId, Fingerprint)>,
    pub(crate) blobs: Vec<(Digest, Vec<u8>)>,
    pub(crate) decide: Arc<Decide>,
}

/// What a command key was accepted with (E5).
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRecord {
    pub(crate) payload: Digest,
    /// The first event it caused; one past the last where it caused none.
    pub(crate) first: Seq,
    pub(crate) last: Seq,
}

/// How a command came out, before the commit.
pub(crate) enum Outcome {
    Accepted(Committed),
    /// Its events are to be read back.
    Replayed(KeyRecord, Committed),
    Failed(ExecuteError),
}

/// Rows to append, table by table.
#[derive(Default)]
pub(crate) struct Appends {
    pub(crate) events: Vec<Vec<Value>>,
    pub(crate) plans: Vec<Vec<Value>>,
    pub(crate) goals: Vec<Vec<Value>>,
    pub(crate) evidence: Vec<Vec<Value>>,
    pub(crate) keys: Vec<Vec<Value>>,
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
}

/// What was read for a batch, changed by each command in turn: a later command of the same session sees what an
/// earlier one did.
pub(crate) struct Batch {
    pub(crate) now: Timestamp,
    pub(crate) sessions: BTreeMap<SessionId, Result<Loaded, StoreError>>,
    pub(crate) keys: BTreeMap<(SessionId, CommandKey), KeyRecord>,
    pub(crate) goals: BTreeSet<(SessionId, GoalId)>,
    /// Calls that were made before for their Goal, of those asked about.
    pub(crate) evidence: BTreeSet<(SessionId, GoalId, Fingerprint)>,
    /// Sessions whose head row changed.
    pub(crate) touched: BTreeSet<SessionId>,
    pub(crate) appends: Appends,
}

impl Batch {
    /// Whether anything is to be written.
    pub(crate) fn has_writes(&self) -> bool {
        !self.touched.is_empty() || !self.appends.keys.is_empty() || !self.appends.blobs.is_empty()
    }

    /// Decides one command on what the commands before it left.
    pub(crate) fn run(&mut self, command: &Command) -> Outcome {
        match self.try_run(command) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn try_run(&mut self, command: &Command) -> Result<Outcome, ExecuteError> {
        let session = command.session;
        let loaded = match self.sessions.get(&session) {
            Some(Ok(loaded)) => loaded.clone(),
            Some(Err(error)) => return Err(error.clone().into()),
            None => return Err(StoreError::UnknownSession(session).into()),
        };
        loaded.check_writable()?;
        if let Some(keyed) = &command.key {
            let seen = self.keys.get(&(session, keyed.key.clone())).copied();
            match key_verdict(seen.as_ref().map(|record| &record.payload), &keyed.payload) {
                KeyVerdict::Fresh => {}
                KeyVerdict::Reused => {
                    return Err(ExecuteError::Rejected(Rejection::key_reused(&keyed.key)));
                }
                KeyVerdict::Replay => {
                    let committed = committed(&loaded, true);
                    return Ok(match seen {
                        Some(record) => Outcome::Replayed(record, committed),
                        None => Outcome::Accepted(committed),
                    });
                }
            }
        }
        let facts = Facts {
            now: self.now.max(loaded.head.state.core.last_at),
            leases: loaded.head.leases.clone(),
            goal_is_known: command.goal.is_some_and(|goal| self.goals.contains(&(session, goal))),
            evidence_is_new: command
                .evidence
                .is_some_and(|(goal, call)| !self.evidence.contains(&(session, goal, call))),
        };
        let decision = decide(command, &loaded.head.state, &facts)?;
        check_fit(session, &loaded.head.state, &decision)?;
        Ok(Outcome::Accepted(self.take(command, loaded, decision)?))
    }

    /// Turns an accepted decision into rows. Nothing of the batch changes unless all of it can be written.
    fn take(
        &mut self,
        command: &Command,
        mut loaded: Loaded,
        decision: Decision,
    ) -> Result<Committed, StoreError> {
        let session = command.session;
        let based_on = decision.based_on();
        let leases = decision.leases().clone();
        let wake_at = decision.wake_at();
        let (mut events, state) = decision.into_parts();
        let mut rows = Vec::with_capacity(events.len());
        for event in &mut events {
            event.command_key = command.key.as_ref().map(|keyed| keyed.key.clone());
            rows.push(event_values(session, event)?);
        }
        self.appends.events.append(&mut rows);
        for event in &events {
            loaded.note_kind(event);
            self.index(session, event.seq, &event.body);
        }
        // Without an event or another lease the stored `wake_at` is as right as the one derived at this moment.
        if !events.is_empty() || leases != loaded.head.leases {
            loaded.head.state = Arc::new(state);
            loaded.head.leases = leases;
            loaded.head.wake_at = wake_at;
            self.touched.insert(session);
        }
        if let Some(keyed) = &command.key {
            let record = KeyRecord {
                payload: keyed.payload,
                first: based_on.next(),
                last: loaded.head.state.core.head,
            };
            self.appends.keys.push(vec![
                Value::text(&session),
                Value::text(&keyed.key),
                Value::text(&record.payload),
                Value::from(record.first.0),
                Value::from(record.last.0),
            ]);
            self.keys.insert((session, keyed.key.clone()), record);
        }
        self.appends.blobs.extend(command.blobs.iter().cloned());
        let mut committed = committed(&loaded, false);
        committed.events = events;
        self.sessions.insert(session, Ok(loaded));
        Ok(committed)
    }

    /// The rows that find an event by what it is about.
    fn index(&mut self, session: SessionId, seq: Seq, body: &EventBody) {
        let mut plan = |lane: &dyn ToString, id: &dyn ToString, revision: u64, change: &str| {
            self.appends.plans.push(vec![
                Value::text(&session),
                Value::Text(Some(lane.to_string())),
                Value::from(seq.0),
                Value::Text(Some(id.to_string())),
                Value::from(revision),
                Value::text(&change),
            ]);
        };
        match body {
            EventBody::PlanRevised { lane, plan: revised } => {
                plan(lane, &revised.id, revised.revision.0, "revised");
            }
            EventBody::PlanClosed { lane, plan_id, revision, .. } => {
                plan(lane, plan_id, revision.0, "closed");
            }
            EventBody::GoalOpened { goal_id, .. } => {
                self.goals.insert((session, *goal_id));
                self.appends.goals.push(vec![
                    Value::text(&session),
                    Value::text(&goal_id),
                    Value::from(seq.0),
                ]);
            }
            EventBody::CallFinished { evidence: Some(Evidence::NewCall { goal_id, call }), .. } => {
                self.evidence.insert((session, *goal_id, *call));
                self.appends.evidence.push(vec![
                    Value::text(&session),
                    Value::text(goal_id),
                    Value::string(String::from(*call)),
                    Value::from(seq.0),
                ]);
            }
            _ => {}
        }
    }
}

fn committed(loaded: &Loaded, replayed: bool) -> Committed {
    Committed {
        state: Arc::clone(&loaded.head.state),
        events: Vec::new(),
        replayed,
        leases: loaded.head.leases.clone(),
        wake_at: loaded.head.wake_at,
    }
}

/// Runs the deciding function. A panic in it is the fault of one command.
fn decide(command: &Command, state: &SessionState, facts: &Facts) -> Result<Decision, ExecuteError> {
    match catch_unwind(AssertUnwindSafe(|| (command.decide)(state, facts))) {
        Ok(Ok(decision)) => Ok(decision),
        Ok(Err(rejection)) => Err(ExecuteError::Rejected(rejection)),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(StoreError::Panicked(text.unwrap_or_else(|| "without a message".to_owned())).into())
        }
    }
}

/// A decision may have been made elsewhere and carried here: it fits this session at this head, or it is not stored.
fn check_fit(session: SessionId, state: &SessionState, decision: &Decision) -> Result<(), StoreError> {
    let misfit = |detail: String| Err(StoreError::Misfit { session, detail });
    let head = state.core.head;
    if decision.session() != session {
        return misfit(format!("it is about session {}", decision.session()));
    }
    if decision.based_on() != head {
        return misfit(format!("it was made at event {} and the head is {head}", decision.based_on()));
    }
    let mut expected = head;
    for event in decision.events() {
        expected = expected.next();
        if event.seq != expected {
            return misfit(format!("event {} stands where {expected} belongs", event.seq));
        }
    }
    if decision.state().core.head != expected {
        return misfit(format!(
            "its state is at {} and its events end at {expected}",
            decision.state().core.head
        ));
    }
    Ok(())
}
