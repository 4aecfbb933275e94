//! Every statement that reads on a person's or a scheduler's behalf finds its rows through an index.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CommandKey, Fingerprint, GoalId, LaneId, PlanId, Revision, Seq, SessionId, Timestamp};

use super::*;
use crate::batch::{Appends, Batch, Command};
use crate::recorder::{Recorder, Statements};
use crate::{CommandKeyed, head, read, write};

async fn listen(engine: &Sqlite, statements: &Statements) -> Recorder<dyn Connection> {
    Recorder { inner: engine.reader().await.unwrap(), statements: Statements::clone(statements) }
}

/// The different steps by which these statements find their rows. None sorts.
async fn plans(engine: &Sqlite, statements: &Statements) -> String {
    let mut plain = engine.options.connect().await.unwrap();
    let mut found = BTreeSet::new();
    let statements = statements.lock().unwrap().clone();
    for statement in statements {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        for row in sqlx::query(explain).fetch_all(&mut plain).await.unwrap() {
            let step: String = row.get("detail");
            assert!(!step.contains("TEMP B-TREE"), "{step}: {statement}");
            found.insert(step);
        }
    }
    found.into_iter().collect::<Vec<_>>().join("\n")
}

/// A store with one open session that has a plan.
async fn one_session() -> (tempfile::TempDir, crate::Store, Sqlite) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = std::sync::Arc::new(crate::ManualClock::new(Timestamp(1)));
    let store = crate::Store::open(&path.clone().into(), clock).await.unwrap();
    let candidate = domain::Candidate {
        title: "t".to_owned(),
        steps: Vec::new(),
        expected_revision: None,
        goal_id: None,
        explanation: None,
    };
    let open =
        policy::UserCommand::OpenSession { workspace: "/w".to_owned(), agent: "build".parse().unwrap() };
    let update = policy::PlanUpdate {
        snapshot: domain::Snapshot::check(&candidate).unwrap(),
        expected_revision: None,
        goal_id: None,
        new_plan: PlanId::from_u128(1),
    };
    let update = policy::UserCommand::UpdatePlan { lane: LaneId::main(), update };
    for command in [open, update] {
        let user = policy::UserActor::for_client("test".parse().unwrap());
        let decide = move |state: &domain::SessionState, facts: &policy::Facts| {
            policy::decide(state, policy::Command::User(&user, &command), facts)
        };
        store.execute(SessionId::from_u128(1), crate::Ask::default(), decide).await.unwrap();
    }
    let engine = Sqlite::open(&path, IfMissing::Fail).await.unwrap();
    (folder, store, engine)
}

#[tokio::test]
async fn t3_every_read_is_a_search_in_an_index() {
    let (_folder, _store, engine) = one_session().await;
    let statements = Statements::default();
    let mut recorder = listen(&engine, &statements).await;
    let connection: &mut dyn Connection = &mut recorder;
    let (id, lane) = (SessionId::from_u128(1), LaneId::main());
    head::load(connection, &[id, SessionId::from_u128(2)].into()).await.unwrap();
    head::load(connection, &(1..=4).map(SessionId::from_u128).collect()).await.unwrap();
    read::events_after(connection, id, Seq(0), 10).await.unwrap();
    read::plan_at(connection, id, &lane, PlanId::from_u128(1), Revision(1)).await.unwrap();
    read::plan_history(connection, id, &lane, Seq(0), 10).await.unwrap();
    for workspace in [None, Some("/w")] {
        read::due(connection, Timestamp(9), workspace, 10).await.unwrap();
        read::next_wake_at(connection, workspace).await.unwrap();
        let filter = crate::SessionFilter { workspace: workspace.map(str::to_owned), limit: 10 };
        read::sessions(connection, &filter).await.unwrap();
    }
    read::blob(connection, crate::digest(b"")).await.unwrap();
    insta::assert_snapshot!(plans(&engine, &statements).await, @"
    CREATE BLOOM FILTER
    LIST SUBQUERY 1
    LIST SUBQUERY 2
    LIST SUBQUERY 3
    SCAN 4-ROW VALUES CLAUSE
    SCAN CONSTANT ROW
    SCAN sessions USING INDEX sessions_by_update
    SEARCH blobs USING INDEX sqlite_autoindex_blobs_1 (digest=?)
    SEARCH e USING PRIMARY KEY (session_id=? AND seq=?)
    SEARCH events USING PRIMARY KEY (session_id=? AND seq=?)
    SEARCH events USING PRIMARY KEY (session_id=? AND seq>? AND seq<?)
    SEARCH p USING INDEX sqlite_autoindex_plan_rows_2 (session_id=? AND lane=? AND plan_id=? AND revision=? AND change=?)
    SEARCH p USING PRIMARY KEY (session_id=? AND lane=? AND seq>? AND seq<?)
    SEARCH sessions USING COVERING INDEX sessions_due (wake_at>?)
    SEARCH sessions USING COVERING INDEX sessions_due_by_workspace (workspace=? AND wake_at>?)
    SEARCH sessions USING INDEX sessions_by_workspace (workspace=?)
    SEARCH sessions USING INDEX sessions_due (wake_at>?)
    SEARCH sessions USING INDEX sessions_due_by_workspace (workspace=? AND wake_at>?)
    SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (id=?)
    ");
}

#[tokio::test]
async fn a_head_is_two_statements_however_long_the_log_is() {
    let (_folder, _store, engine) = one_session().await;
    let statements = Statements::default();
    let mut recorder = listen(&engine, &statements).await;
    head::load(&mut recorder, &[SessionId::from_u128(1)].into()).await.unwrap();
    insta::assert_snapshot!(statements.lock().unwrap().join("\n"), @"
    SELECT id, head_seq, kinds, core, leases, wake_at FROM sessions WHERE id IN (VALUES ($1)) ORDER BY id
    SELECT session_id, seq, at, actor, kind, version, payload, command_key FROM events WHERE (session_id, seq) IN (VALUES ($1,$2))
    ");
}

/// A command that asks for everything that can be looked up.
fn curious(number: u128) -> Command {
    let session = SessionId::from_u128(number);
    let key = CommandKey::parse("key").unwrap();
    Command {
        session,
        key: Some(CommandKeyed { key, payload: crate::digest(b"p") }),
        goal: Some(GoalId::from_u128(number)),
        evidence: Some((GoalId::from_u128(number), Fingerprint::of(["call"]))),
        blobs: Vec::new(),
        decide: Arc::new(|state, _| Err(policy::Rejection::unknown_session(state.id))),
    }
}

#[tokio::test]
async fn what_a_batch_looks_up_is_found_by_its_whole_key() {
    let (_folder, _store, engine) = one_session().await;
    let statements = Statements::default();
    let mut recorder = listen(&engine, &statements).await;
    let mut batch = Batch {
        now: Timestamp(1),
        sessions: BTreeMap::new(),
        keys: BTreeMap::new(),
        goals: BTreeSet::new(),
        evidence: BTreeSet::new(),
        touched: BTreeSet::new(),
        appends: Appends::default(),
    };
    let commands: Vec<_> = (1..=5).map(curious).collect();
    write::read_facts(&mut recorder, &commands.iter().collect::<Vec<_>>(), &mut batch).await.unwrap();
    insta::assert_snapshot!(plans(&engine, &statements).await, @"
    CREATE BLOOM FILTER
    LIST SUBQUERY 3
    LIST SUBQUERY 4
    SCAN 4-ROW VALUES CLAUSE
    SCAN CONSTANT ROW
    SEARCH command_keys USING PRIMARY KEY (session_id=? AND command_key=?)
    SEARCH evidence_rows USING PRIMARY KEY (session_id=? AND goal_id=? AND call=?)
    SEARCH goal_rows USING PRIMARY KEY (session_id=? AND goal_id=?)
    ");
}

#[test]
fn a_released_step_of_the_schema_keeps_its_text() {
    insta::assert_snapshot!(migrate::digests().join("\n"), @r"
    1 start 84f1e116d974a5380d4ceda2b55eb746a5063f17b9dfd0548e98d7d41fb608bd
    2 leases and evidence 870688324cd17b2255eb67030135f0fd51a81af2ecabf4d6a0c41f7839ad31ae
    3 met waits 0356475d40230d261a01f4882caa18d1eb20d4b15475e24a899a2b8c660800c3
    ");
}

#[tokio::test]
async fn a_full_disk_is_called_one() {
    let (_folder, _store, engine) = one_session().await;
    let mut writer = engine.writer().await.unwrap();
    writer.begin().await.unwrap();
    // As many pages as there are: the next one has no room.
    let pages = "PRAGMA max_page_count = 1";
    writer.run(Cow::Borrowed(pages), Vec::new()).await.ok();
    let grow = "CREATE TABLE more AS WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM n WHERE x < 9999) \
                SELECT hex(randomblob(99)) FROM n";
    let error = writer.run(Cow::Borrowed(grow), Vec::new()).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
}
