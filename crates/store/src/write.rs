//! The writing end of a batch: few statements, each over many rows.

use domain::{Digest, Fingerprint, GoalState, LaneId, Plan, Seq, SessionId};

use crate::batch::{Batch, Command, KeyRecord};
use crate::engine::{Connection, Value};
use crate::error::StoreError;
use crate::head::Loaded;
use crate::sql;

/// What the commands of a batch need besides heads: their keys, and the Goals they name.
pub(crate) async fn read_facts(
    connection: &mut dyn Connection,
    commands: &[&Command],
    batch: &mut Batch,
) -> Result<(), StoreError> {
    let keyed = commands.iter().filter_map(|command| {
        let keyed = command.key.as_ref()?;
        Some(vec![Value::text(&command.session), Value::text(&keyed.key)])
    });
    let select = "SELECT session_id, command_key, payload, first_seq, last_seq FROM command_keys \
                  WHERE (session_id, command_key)";
    for mut row in sql::select_in(connection, select, &keyed.collect::<Vec<_>>(), "").await? {
        let session: SessionId = row.parsed("session_id")?;
        let key = row.text("command_key")?.try_into();
        let key = key.map_err(|fault| StoreError::corrupt(session, format!("a command key {fault}")))?;
        let payload: Digest = row.parsed("payload")?;
        let (first, last) = (Seq(row.count("first_seq")?), Seq(row.count("last_seq")?));
        batch.keys.insert((session, key), KeyRecord { payload, first, last });
    }
    let named = commands.iter().filter_map(|command| {
        let goal = command.goal?;
        Some(vec![Value::text(&command.session), Value::text(&goal)])
    });
    let select = "SELECT session_id, goal_id FROM goal_rows WHERE (session_id, goal_id)";
    for mut row in sql::select_in(connection, select, &named.collect::<Vec<_>>(), "").await? {
        batch.goals.insert((row.parsed("session_id")?, row.parsed("goal_id")?));
    }
    let asked = commands.iter().filter_map(|command| {
        let (goal, call) = command.evidence?;
        Some(vec![Value::text(&command.session), Value::text(&goal), Value::string(String::from(call))])
    });
    let select = "SELECT session_id, goal_id, call FROM evidence_rows WHERE (session_id, goal_id, call)";
    for mut row in sql::select_in(connection, select, &asked.collect::<Vec<_>>(), "").await? {
        let (session, goal) = (row.parsed("session_id")?, row.parsed("goal_id")?);
        let call = Fingerprint::try_from(row.text("call")?);
        let call = call.map_err(|fault| StoreError::corrupt(session, format!("a fingerprint: {fault}")))?;
        batch.evidence.insert((session, goal, call));
    }
    Ok(())
}

/// Writes everything a batch decided.
pub(crate) async fn write(connection: &mut dyn Connection, batch: &mut Batch) -> Result<(), StoreError> {
    let mut heads = Vec::new();
    for session in &batch.touched {
        if let Some(Ok(loaded)) = batch.sessions.get(session) {
            heads.push(head_values(*session, loaded)?);
        }
    }
    write_heads(connection, &heads).await?;
    let appends = std::mem::take(&mut batch.appends);
    let into_events = "INSERT INTO events (session_id, seq, at, actor, kind, version, payload, command_key)";
    sql::insert(connection, into_events, &appends.events, "").await?;
    let into_plans = "INSERT INTO plan_rows (session_id, lane, seq, plan_id, revision, change)";
    sql::insert(connection, into_plans, &appends.plans, "").await?;
    let into_goals = "INSERT INTO goal_rows (session_id, goal_id, opened_seq)";
    sql::insert(connection, into_goals, &appends.goals, "").await?;
    let into_evidence = "INSERT INTO evidence_rows (session_id, goal_id, call, seq)";
    sql::insert(connection, into_evidence, &appends.evidence, "").await?;
    let into_keys = "INSERT INTO command_keys (session_id, command_key, payload, first_seq, last_seq)";
    sql::insert(connection, into_keys, &appends.keys, "").await?;
    let blobs = appends.blobs.into_iter();
    let blobs: Vec<_> =
        blobs.map(|(digest, bytes)| vec![Value::text(&digest), Value::Bytes(bytes)]).collect();
    sql::insert(connection, "INSERT INTO blobs (digest, bytes)", &blobs, "ON CONFLICT (digest) DO NOTHING")
        .await
}

/// Replaces head rows, or makes them.
pub(crate) async fn write_heads(
    connection: &mut dyn Connection,
    heads: &[Vec<Value>],
) -> Result<(), StoreError> {
    sql::insert(connection, INTO_SESSIONS, heads, REPLACE_HEAD).await
}

const INTO_SESSIONS: &str = "INSERT INTO sessions (id, head_seq, kinds, core, leases, wake_at, workspace, title, \
                             agent, mode, goal_status, plan_id, plan_revision, plan_title, plan_completed, \
                             plan_total, plan_active, plan_closed, updated_at)";
const REPLACE_HEAD: &str = "ON CONFLICT (id) DO UPDATE SET head_seq = excluded.head_seq, kinds = excluded.kinds, \
                            core = excluded.core, leases = excluded.leases, wake_at = excluded.wake_at, \
                            workspace = excluded.workspace, title = excluded.title, agent = excluded.agent, \
                            mode = excluded.mode, goal_status = excluded.goal_status, \
                            plan_id = excluded.plan_id, plan_revision = excluded.plan_revision, \
                            plan_title = excluded.plan_title, plan_completed = excluded.plan_completed, \
                            plan_total = excluded.plan_total, plan_active = excluded.plan_active, \
                            plan_closed = excluded.plan_closed, updated_at = excluded.updated_at";

/// The head row: the state, and what lists show of it.
pub(crate) fn head_values(session: SessionId, loaded: &Loaded) -> Result<Vec<Value>, StoreError> {
    let unwritable = |error: serde_json::Error| StoreError::Misfit {
        session,
        detail: format!("its head cannot be written: {error}"),
    };
    let core = &loaded.head.state.core;
    let held = Some(&loaded.head.leases).filter(|leases| !leases.is_empty());
    let mut values = vec![
        Value::text(&session),
        Value::from(core.head.0),
        Value::string(serde_json::to_string(&loaded.kinds).map_err(unwritable)?),
        Value::string(serde_json::to_string(core).map_err(unwritable)?),
        Value::Text(held.map(serde_json::to_string).transpose().map_err(unwritable)?),
        Value::Int(loaded.head.wake_at.map(|at| at.0)),
    ];
    values.extend(list_values(loaded));
    Ok(values)
}

/// The columns of a head row that are copies of its state for lists.
pub(crate) fn list_values(loaded: &Loaded) -> Vec<Value> {
    let state = &loaded.head.state;
    let core = &state.core;
    let plan = state.latest_plan(&LaneId::main());
    let of_plan = |count: fn(&Plan) -> u64| {
        Value::Int(plan.map(|latest| i64::try_from(count(latest.plan)).unwrap_or(i64::MAX)))
    };
    vec![
        Value::opt_text(core.workspace.as_ref()),
        Value::opt_text(core.title.as_ref()),
        Value::opt_text(core.work_agent.as_ref()),
        Value::text(&core.mode),
        Value::opt_text(core.goal.as_ref().map(|goal| GoalState::name(goal.status.state()))),
        Value::opt_text(plan.map(|latest| latest.plan.id)),
        of_plan(|plan| plan.revision.0),
        Value::opt_text(plan.map(|latest| latest.plan.snapshot.title())),
        of_plan(|plan| plan.completed() as u64),
        of_plan(|plan| plan.total() as u64),
        Value::opt_text(plan.and_then(|latest| latest.plan.active()).map(|step| &step.id)),
        Value::Int(plan.map(|latest| i64::from(latest.head.closed.is_some()))),
        Value::from(core.last_at.0),
    ]
}
