//! Stores that the build of an earlier schema step left.

use std::sync::Arc;

use domain::{
    CallOutcome, CallRef, Event, Evidence, Fingerprint, GoalId, GoalStatus, Seq, Timestamp, TurnNumber,
};
use policy::{Lease, RuntimeCommand, UserCommand};
use sqlx::{ConnectOptions as _, Connection as _};
use store::{ExecuteError, Store, digest};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::site::{START, Site, admit_turn, owner, run, send, session};
use crate::turns::{admit_look, end_turn, evidence_in, finish, start_turn};

const STEP_1: &str = include_str!("../../migrations/sqlite/0001_start.sql");
const LEFT: &str = include_str!("step_1.sql");

/// A store of step 1 with the rows of `step_1.sql`.
async fn left_at_step_1() -> Site {
    let site = Site::sqlite();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(site.path()).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    let sha256 = digest(STEP_1.as_bytes());
    let make = format!(
        "PRAGMA application_id = 1515540047; PRAGMA journal_mode = WAL; BEGIN; {STEP_1}; {LEFT}; \
         CREATE TABLE schema_steps \
         (version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT; \
         INSERT INTO schema_steps VALUES (1, 'start', '{sha256}'); PRAGMA user_version = 1; COMMIT"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(make)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    // The lease of the running turns has not ended yet.
    site.clock.set(START.plus_ms(6_000));
    site
}

async fn events(store: &Store, number: u128) -> Vec<Event> {
    let page = store.events_after(session(number), Seq(0), 1_000).await.unwrap();
    assert!(!page.has_more);
    page.events
}

fn logs(dump: &str) -> Vec<&str> {
    dump.lines().filter(|line| !line.starts_with("sessions") && !line.starts_with("schema_steps")).collect()
}

#[tokio::test]
async fn e1_a_store_of_step_1_is_whole_at_this_step_and_its_log_is_as_it_was() {
    let site = left_at_step_1().await;
    let before = site.dump().await;
    let store = Store::open_existing(&site.url(), site.clock.clone()).await.unwrap();
    assert_eq!(store.check(|_| {}).await.unwrap(), []);
    let after = site.dump().await;
    assert_eq!(logs(&after), logs(&before));
    // The next one to open it finds nothing to do.
    let again = site.open().await;
    assert_eq!(site.dump().await, after);
    for (number, count) in [(1, 18), (2, 6), (3, 7), (4, 15)] {
        let head = again.head(session(number)).await.unwrap().unwrap();
        assert_eq!(head.state.core.head, Seq(count));
        assert_eq!(*head.state, domain::SessionState::fold(session(number), &events(&again, number).await));
    }
    // What the build of step 1 did not know of is told by its log all the same.
    let goal = again.head(session(4)).await.unwrap().unwrap().state.core.goal.clone().unwrap();
    assert_eq!(goal.streaks.without_evidence, 2);
    let due = again.due(Timestamp(i64::MAX), None, 10).await.unwrap();
    assert_eq!(due, [session(3), session(2), session(1)]);
}

#[tokio::test]
async fn t5_a_turn_of_a_store_of_step_1_keeps_its_lease_and_goes_on() {
    let site = left_at_step_1().await;
    let store = site.open().await;
    let (id, turn) = (session(1), TurnNumber(2));
    let head = store.head(id).await.unwrap().unwrap();
    // Renewed without an event, so no log tells this moment.
    let expires_at = START.plus_ms(5_250 + policy::LEASE_MS);
    assert_eq!(head.leases.turn, Some(Lease { owner: owner(), epoch: turn, expires_at }));
    assert_eq!(head.wake_at, Some(expires_at));
    assert!(head.leases.commands.is_empty() && head.leases.next_look.is_none());
    let Err(ExecuteError::Rejected(refused)) = run(&store, id, admit_turn()).await else {
        panic!("not held")
    };
    assert_eq!(refused.code.name(), "lease_held");
    run(&store, id, RuntimeCommand::RenewLease { turn, owner: owner() }).await.unwrap();
    let write = CallRef { turn, request: 1, index: 0 };
    let goal = GoalId::from_u128(101);
    let written = finish(&store, id, write, (goal, Fingerprint::of(["write"]))).await;
    assert_eq!(evidence_in(&written.events), Some(Evidence::FileChanged));
    let refuse = RuntimeCommand::RefuseCall {
        call: CallRef { index: 1, ..write },
        outcome: CallOutcome::Denied,
        result: "no".to_owned(),
    };
    run(&store, id, refuse).await.unwrap();
    let ended = end_turn(&store, id, turn).await;
    assert!(ended.leases.is_empty());
    let goal_after = ended.state.core.goal.clone().unwrap();
    // The time since the turn began is charged, though nothing was noted when it began.
    assert_eq!((goal_after.usage.turns, goal_after.usage.active_ms), (2, 5_000));
    let looked = start_turn(&store, id, 1).await;
    admit_look(&store, id, looked).await;
    let ran = Fingerprint::of(["read_file", "a.txt", "0"]);
    let seen = finish(&store, id, looked, (goal, ran)).await;
    assert_eq!(evidence_in(&seen.events), Some(Evidence::NewCall { goal_id: goal, call: ran }));
    assert_eq!(store.check(|_| {}).await.unwrap(), []);
}

#[tokio::test]
async fn sessions_at_rest_in_a_store_of_step_1_go_on() {
    let site = left_at_step_1().await;
    let store = site.open().await;
    let outcome = domain::TurnOutcome::Completed;
    let end = RuntimeCommand::EndTurn {
        turn: TurnNumber(1),
        outcome,
        report: None,
        jitter: policy::Jitter::default(),
    };
    let ended = run(&store, session(2), end).await.unwrap();
    assert_eq!((ended.leases.is_empty(), ended.wake_at), (true, None));
    // The retry is due by this time.
    let retried = run(&store, session(3), admit_turn()).await.unwrap();
    assert!(retried.state.core.running_turns().next().is_some());
    let resumed = send(&store, session(4), UserCommand::ResumeGoal).await.unwrap();
    let goal = resumed.state.core.goal.as_ref().unwrap();
    assert_eq!((&goal.status, goal.streaks.without_evidence), (&GoalStatus::Active, 0));
    assert_eq!(store.check(|_| {}).await.unwrap(), []);
}

#[tokio::test]
async fn what_cannot_be_read_of_a_store_of_step_1_keeps_nothing_else_from_moving() {
    let site = left_at_step_1().await;
    let (gap, torn, newer) = (session(1), session(2), session(3));
    site.tamper(&format!(
        "DELETE FROM events WHERE session_id = '{gap}' AND seq = 6; \
         UPDATE sessions SET kinds = '[1]' WHERE id = '{torn}'; \
         INSERT INTO events SELECT session_id, 8, at, actor, 'dreamt', 1, '{{}}', NULL FROM events \
         WHERE session_id = '{newer}' AND seq = 1; \
         UPDATE sessions SET head_seq = 8, core = json_set(core, '$.head', 8), \
         kinds = json_insert(kinds, '$[#]', 'dreamt') WHERE id = '{newer}'"
    ))
    .await;
    let store = site.open().await;
    let findings = store.check(|_| {}).await.unwrap();
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(findings.join("\n"), @"
    session 00000000-0000-0000-0000-000000000001, event 6: the event is missing
    session 00000000-0000-0000-0000-000000000002: the list of kinds of its head does not decode: invalid type: integer `1`, expected a string at line 1 column 2
    session 00000000-0000-0000-0000-000000000003, event 8: `dreamt` was written by a newer zuno; this session is read-only here
    ");
    send(&store, session(4), UserCommand::ResumeGoal).await.unwrap();
    assert!(matches!(
        run(&store, newer, admit_turn()).await,
        Err(ExecuteError::Fault(store::StoreError::UnknownKind { .. }))
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_that_open_a_file_of_step_1_at_once_take_the_step_once() {
    let site = Arc::new(left_at_step_1().await);
    let start = Arc::new(Barrier::new(4));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (site, start) = (site.clone(), start.clone());
        tasks.spawn(async move {
            start.wait().await;
            site.open().await.head(session(1)).await.unwrap().unwrap().leases
        });
    }
    let leases = tasks.join_all().await;
    assert!(leases.iter().all(|found| found == &leases[0] && found.turn.is_some()));
    assert_eq!(site.open().await.check(|_| {}).await.unwrap(), []);
}
