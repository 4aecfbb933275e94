//! Many at once: several stores on one database, and a crowd in front of one.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::LaneId;
use store::{ExecuteError, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::site::{
    Site, admit_turn, by_user, keyed, on_each_engine, open_session, plan_of_one, run, send, session, submit,
};

const STORES: usize = 4;
const UPDATES: usize = 20;

/// Updates the plan until `UPDATES` revisions of this store were accepted; tells which.
async fn update_often(store: Store, start: Arc<Barrier>) -> Vec<u64> {
    start.wait().await;
    let mut accepted = Vec::new();
    while accepted.len() < UPDATES {
        let head = store.head(session(1)).await.unwrap().unwrap();
        let current = head.state.current_revision(&LaneId::main()).0;
        match send(&store, session(1), plan_of_one(current)).await {
            Ok(committed) => accepted.push(committed.state.current_revision(&LaneId::main()).0),
            Err(ExecuteError::Rejected(rejection)) => {
                assert_eq!(rejection.code.name(), "revision_conflict");
            }
            Err(ExecuteError::Fault(error)) => panic!("{error}"),
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p9_stores_that_write_at_once_lose_no_accepted_revision() {
    on_each_engine(async |site: Site| {
        let first = site.open().await;
        send(&first, session(1), open_session()).await.unwrap();
        let start = Arc::new(Barrier::new(STORES));
        let mut tasks = JoinSet::new();
        for _ in 0..STORES {
            tasks.spawn(update_often(site.open().await, start.clone()));
        }
        let accepted: Vec<u64> = tasks.join_all().await.concat();
        let distinct: BTreeSet<u64> = accepted.iter().copied().collect();
        assert_eq!(distinct, (1..=(STORES * UPDATES) as u64).collect());
        assert_eq!(accepted.len(), distinct.len());
        assert_eq!(first.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t4_of_stores_that_race_for_a_turn_one_gets_it() {
    on_each_engine(async |site: Site| {
        let first = site.open().await;
        let sessions = 10;
        for number in 0..sessions {
            send(&first, session(number), open_session()).await.unwrap();
            send(&first, session(number), submit("go")).await.unwrap();
        }
        let start = Arc::new(Barrier::new(STORES));
        let mut tasks = JoinSet::new();
        for _ in 0..STORES {
            let (store, start) = (site.open().await, start.clone());
            tasks.spawn(async move {
                let mut won = 0;
                for number in 0..sessions {
                    start.wait().await;
                    match run(&store, session(number), admit_turn()).await {
                        Ok(_) => won += 1,
                        Err(ExecuteError::Rejected(rejection)) => {
                            assert_eq!(rejection.code.name(), "lease_held");
                        }
                        Err(ExecuteError::Fault(error)) => panic!("{error}"),
                    }
                }
                won
            });
        }
        assert_eq!(tasks.join_all().await.iter().sum::<u128>(), sessions);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_of_sessions_is_served_and_each_log_is_whole() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let mut tasks = JoinSet::new();
        for number in 0..100 {
            let store = store.clone();
            tasks.spawn(async move {
                let id = session(number);
                send(&store, id, open_session()).await.unwrap();
                for at in 0..5 {
                    let ask = keyed(&format!("{at}"), "p");
                    store.execute(id, ask, by_user(submit("x"))).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let mut seen = 0;
        let findings = store.check(|progress| seen = progress.events).await.unwrap();
        assert_eq!((findings, seen), (vec![], 600));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_that_are_opened_at_once_make_one_database() {
    on_each_engine(async |site: Site| {
        let site = Arc::new(site);
        let start = Arc::new(Barrier::new(STORES));
        let mut tasks = JoinSet::new();
        for number in 0..STORES as u128 {
            let (site, start) = (site.clone(), start.clone());
            tasks.spawn(async move {
                start.wait().await;
                let store = site.open().await;
                send(&store, session(number), open_session()).await.unwrap();
            });
        }
        tasks.join_all().await;
        let all = site.open().await.sessions(&store::SessionFilter::default()).await.unwrap();
        assert_eq!(all.len(), STORES);
    })
    .await;
}
