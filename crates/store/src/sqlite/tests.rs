//! Every statement that reads on a person's or a scheduler's behalf finds its rows through an index.

use std::collections::BTreeSet;
use std::sync::Mutex as StdMutex;

use domain::{LaneId, PlanId, Revision, Seq, SessionId, Timestamp};

use super::*;
use crate::{head, read};

/// Runs statements and keeps their texts.
struct Recorder<'a> {
    inner: Box<dyn Connection>,
    statements: &'a StdMutex<Vec<String>>,
}

#[async_trait]
impl Connection for Recorder<'_> {
    async fn rows(&mut self, sql: Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.statements.lock().unwrap().push(sql.to_string());
        self.inner.rows(sql, values).await
    }

    async fn run(&mut self, sql: Sql, values: Vec<Value>) -> Result<(), StoreError> {
        self.inner.run(sql, values).await
    }
}

async fn steps(connection: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let rows = sqlx::query(explain).fetch_all(connection).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("detail")).collect()
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
    let statements = StdMutex::new(Vec::new());
    let mut recorder = Recorder { inner: engine.reader().await.unwrap(), statements: &statements };
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
    let mut plain = engine.options.connect().await.unwrap();
    let mut found = BTreeSet::new();
    for statement in statements.into_inner().unwrap() {
        for step in steps(&mut plain, &statement).await {
            assert!(!step.contains("TEMP B-TREE"), "{step}: {statement}");
            found.insert(step);
        }
    }
    insta::assert_snapshot!(found.into_iter().collect::<Vec<_>>().join("\n"), @"
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
    let statements = StdMutex::new(Vec::new());
    let mut recorder = Recorder { inner: engine.reader().await.unwrap(), statements: &statements };
    head::load(&mut recorder, &[SessionId::from_u128(1)].into()).await.unwrap();
    insta::assert_snapshot!(statements.into_inner().unwrap().join("\n"), @"
    SELECT id, head_seq, kinds, core, lease, wake_at FROM sessions WHERE id IN (VALUES ($1)) ORDER BY id
    SELECT session_id, seq, at, actor, kind, version, payload, command_key FROM events WHERE (session_id, seq) IN (VALUES ($1,$2))
    ");
}

#[test]
fn a_released_step_of_the_schema_keeps_its_text() {
    insta::assert_snapshot!(migrate::digests().join("\n"), @"1 start 84f1e116d974a5380d4ceda2b55eb746a5063f17b9dfd0548e98d7d41fb608bd");
}
