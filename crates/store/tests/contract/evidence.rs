//! Whether a call was made before for its Goal: one answer, whoever asks and when (G7).

use std::sync::Arc;

use domain::{CallOutcome, CallRef, Evidence, Fingerprint, GoalId, SessionId};
use policy::{RuntimeCommand, UserCommand};
use store::{Ask, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::site::{Site, by_runtime, keyed, on_each_engine, open_session, send, session, set_goal};
use crate::turns::{admit_look, end_turn, evidence_in, finish, start_turn};

fn ran(what: &str) -> Fingerprint {
    Fingerprint::of(["read_file", what, "0"])
}

/// A session with a Goal whose turn runs and has this many admitted calls.
async fn looking(store: &Store, id: SessionId, goal: u128, calls: u32) -> Vec<CallRef> {
    send(store, id, open_session()).await.unwrap();
    send(store, id, set_goal(goal)).await.unwrap();
    look_again(store, id, calls).await
}

async fn look_again(store: &Store, id: SessionId, calls: u32) -> Vec<CallRef> {
    let first = start_turn(store, id, calls).await;
    let calls: Vec<_> = (0..calls).map(|index| CallRef { index, ..first }).collect();
    for of in &calls {
        admit_look(store, id, *of).await;
    }
    calls
}

#[tokio::test]
async fn g7_a_call_is_new_once_for_a_goal_also_in_later_turns() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let (id, goal) = (session(1), GoalId::from_u128(5));
        let calls = looking(&store, id, 5, 3).await;
        let mut told = Vec::new();
        for (of, what) in calls.iter().zip(["a", "a", "b"]) {
            told.push(evidence_in(&finish(&store, id, *of, (goal, ran(what))).await.events));
        }
        let new = |what: &str| Some(Evidence::NewCall { goal_id: goal, call: ran(what) });
        assert_eq!(told, [new("a"), None, new("b")]);
        end_turn(&store, id, calls[0].turn).await;
        let again = look_again(&store, id, 2).await;
        assert_eq!(evidence_in(&finish(&store, id, again[0], (goal, ran("b"))).await.events), None);
        assert_eq!(evidence_in(&finish(&store, id, again[1], (goal, ran("c"))).await.events), new("c"));
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn g7_what_is_new_is_told_apart_by_goal_and_by_session() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        // Two sessions may use the same id for their Goals; nothing else keeps their rows apart than the session.
        let (goal, next) = (GoalId::from_u128(5), GoalId::from_u128(6));
        for id in [session(1), session(2)] {
            let calls = looking(&store, id, 5, 1).await;
            let told = finish(&store, id, calls[0], (goal, ran("a"))).await;
            assert!(evidence_in(&told.events).is_some());
            end_turn(&store, id, calls[0].turn).await;
            send(&store, id, UserCommand::CancelGoal).await.unwrap();
            send(&store, id, set_goal(6)).await.unwrap();
            let calls = look_again(&store, id, 1).await;
            let told = finish(&store, id, calls[0], (next, ran("a"))).await;
            let new = Evidence::NewCall { goal_id: next, call: ran("a") };
            assert_eq!(evidence_in(&told.events), Some(new));
        }
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn g7_a_call_is_new_only_if_that_was_asked_and_sent_again_it_stays_what_it_was() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let (id, goal) = (session(1), GoalId::from_u128(5));
        let calls = looking(&store, id, 5, 2).await;
        let finish_with = async |of: CallRef, ask: Ask| {
            let finish = RuntimeCommand::FinishCall {
                call: of,
                outcome: CallOutcome::Succeeded,
                result: "seen".to_owned(),
                full_output: None,
                ran: Some(ran("a")),
            };
            store.execute(id, ask, by_runtime(finish)).await.unwrap()
        };
        let unasked = finish_with(calls[0], Ask::default()).await;
        assert_eq!(evidence_in(&unasked.events), None);
        let ask = Ask { evidence: Some((goal, ran("a"))), ..keyed("finish", "p") };
        let first = finish_with(calls[1], ask.clone()).await;
        assert!(evidence_in(&first.events).is_some());
        let again = finish_with(calls[1], ask).await;
        assert!(again.replayed);
        assert_eq!(again.events, first.events);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g7_of_stores_that_finish_the_same_call_at_once_one_finds_it_new() {
    const STORES: u32 = 4;
    on_each_engine(async |site: Site| {
        let first = site.open().await;
        let (id, goal) = (session(1), GoalId::from_u128(5));
        let calls = looking(&first, id, 5, STORES * 4).await;
        let start = Arc::new(Barrier::new(STORES as usize));
        let mut tasks = JoinSet::new();
        for (number, some) in calls.chunks(4).enumerate() {
            let (store, some, start) = (site.open().await, some.to_vec(), start.clone());
            tasks.spawn(async move {
                start.wait().await;
                let mut new = 0;
                for (of, what) in some.into_iter().zip(["a", "b", "a", "c"]) {
                    let told = finish(&store, id, of, (goal, ran(what))).await;
                    new += usize::from(evidence_in(&told.events).is_some());
                }
                (number, new)
            });
        }
        let told = tasks.join_all().await;
        assert_eq!(told.iter().map(|(_, new)| new).sum::<usize>(), 3, "{told:?}");
        assert_eq!(first.check(|_| {}).await.unwrap(), []);
    })
    .await;
}
