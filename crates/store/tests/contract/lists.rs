//! Lists of sessions, and which of them need attention.

use std::time::Duration;

use domain::{LaneId, Timestamp};
use policy::UserCommand;
use store::{SessionFilter, Store};

use crate::site::{
    START, Site, admit_turn, by_user, on_each_engine, open_session, plan, run, send, session, set_goal,
    submit,
};

async fn open_in(store: &Store, number: u128, workspace: &str) {
    let agent = "build".parse().unwrap();
    let open = UserCommand::OpenSession { workspace: workspace.to_owned(), agent };
    store.execute(session(number), store::Ask::default(), by_user(open)).await.unwrap();
}

#[tokio::test]
async fn t3_due_sessions_are_found_by_the_moment_stored_with_each_change() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for (number, workspace) in [(1, "/a"), (2, "/b"), (3, "/a")] {
            open_in(&store, number, workspace).await;
        }
        assert_eq!(store.next_wake_at(None).await.unwrap(), None);
        send(&store, session(2), submit("b")).await.unwrap();
        site.clock.advance_ms(10);
        send(&store, session(1), submit("a")).await.unwrap();
        let now = store.now();
        assert_eq!(store.due(now, None, 10).await.unwrap(), [session(2), session(1)]);
        assert_eq!(store.due(now, None, 1).await.unwrap(), [session(2)]);
        // What is due at once stays due when the clock is set back.
        for earlier in [START, Timestamp(0)] {
            assert_eq!(store.due(earlier, None, 10).await.unwrap(), [session(2), session(1)]);
            assert!(store.head(session(1)).await.unwrap().unwrap().is_due(earlier));
        }
        assert_eq!(store.due(now, Some("/a"), 10).await.unwrap(), [session(1)]);
        assert_eq!(store.next_wake_at(None).await.unwrap(), Some(START));
        assert_eq!(store.next_wake_at(Some("/a")).await.unwrap(), Some(now));
        assert_eq!(store.next_wake_at(Some("/c")).await.unwrap(), None);
        // While a turn runs, the end of its lease is the next moment.
        let lease = run(&store, session(2), admit_turn()).await.unwrap().leases.turn.unwrap();
        assert_eq!(store.due(now, None, 10).await.unwrap(), [session(1)]);
        assert!(!store.head(session(2)).await.unwrap().unwrap().is_due(now));
        assert_eq!(store.due(lease.expires_at, None, 10).await.unwrap(), [session(1), session(2)]);
        assert_eq!(store.due(Timestamp(i64::MAX), Some("/a"), 10).await.unwrap(), [session(1)]);
    })
    .await;
}

#[tokio::test]
async fn a_list_shows_the_last_change_first_and_how_far_each_plan_is() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for (number, workspace) in [(1, "/a"), (2, "/b"), (3, "/a")] {
            site.clock.advance_ms(1);
            open_in(&store, number, workspace).await;
        }
        site.clock.advance_ms(1);
        send(&store, session(1), set_goal(5)).await.unwrap();
        send(&store, session(1), plan(2, None)).await.unwrap();
        let all = store.sessions(&SessionFilter::default()).await.unwrap();
        assert_eq!(
            all.iter().map(|summary| summary.id).collect::<Vec<_>>(),
            [session(1), session(3), session(2)]
        );
        insta::allow_duplicates!(insta::assert_debug_snapshot!(all[0], @r#"
        SessionSummary {
            id: SessionId(00000000-0000-0000-0000-000000000001),
            workspace: "/a",
            title: Some(
                "export works",
            ),
            agent: "build",
            mode: "work",
            goal_status: Some(
                "active",
            ),
            plan: Some(
                PlanProgress {
                    plan_id: PlanId(00000000-0000-0000-0000-00000000004d),
                    revision: Revision(
                        1,
                    ),
                    title: "Implement session export",
                    completed: 2,
                    total: 3,
                    active: Some(
                        "verify",
                    ),
                    closed: false,
                },
            ),
            head: Seq(
                3,
            ),
            updated_at: Timestamp(
                1800000000004,
            ),
            wake_at: Some(
                Timestamp(
                    1800000000004,
                ),
            ),
        }
        "#));
        assert_eq!(all[1].plan, None);
        let filter = SessionFilter { workspace: Some("/a".to_owned()), limit: 1 };
        let some = store.sessions(&filter).await.unwrap();
        assert_eq!(some, all[..1]);
        let reason = domain::Remark::parse("another way").unwrap();
        let close = UserCommand::ClosePlan { lane: LaneId::main(), expected_revision: None, reason };
        send(&store, session(1), close).await.unwrap();
        let all = store.sessions(&SessionFilter::default()).await.unwrap();
        assert!(all[0].plan.as_ref().is_some_and(|plan| plan.closed));
    })
    .await;
}

/// Long enough for any machine; reached only when a hint never comes.
const NEVER: Duration = Duration::from_mins(1);

#[tokio::test]
async fn e6_who_waits_is_woken_by_commits_of_this_store_and_of_others() {
    on_each_engine(async |site: Site| {
        let (here, there) = (site.open().await, site.open().await);
        send(&here, session(1), open_session()).await.unwrap();
        let mut watch = here.watch();
        watch.changed().await;
        for store in [&here, &there, &here, &there] {
            let before = here.head(session(1)).await.unwrap().unwrap().state.core.head;
            let waiting = async {
                while here.head(session(1)).await.unwrap().unwrap().state.core.head == before {
                    watch.changed().await;
                }
            };
            let (woken, sent) =
                tokio::join!(tokio::time::timeout(NEVER, waiting), send(store, session(1), submit("x")));
            sent.unwrap();
            woken.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_closed_store_says_so() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        send(&store, session(1), open_session()).await.unwrap();
        store.close().await;
        let late = send(&store, session(1), submit("x")).await;
        assert!(matches!(late, Err(store::ExecuteError::Fault(store::StoreError::Closed))), "{late:?}");
        let late = store.head(session(1)).await;
        assert!(matches!(late, Err(store::StoreError::Closed)), "{late:?}");
        store.close().await;
        let again = site.open().await;
        send(&again, session(1), submit("x")).await.unwrap();
    })
    .await;
}
