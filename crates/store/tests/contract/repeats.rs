//! Commands that are sent again (E5).

use domain::Seq;
use policy::UserCommand;
use store::ExecuteError;

use crate::site::{Site, by_user, keyed, on_each_engine, open_session, plan, send, session, submit};

#[tokio::test]
async fn e5_a_command_sent_again_returns_its_first_outcome_and_writes_nothing() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        let first = store.execute(id, keyed("open", "p"), by_user(open_session())).await.unwrap();
        let revised = store.execute(id, keyed("plan", "p"), by_user(plan(0, None))).await.unwrap();
        send(&store, id, plan(1, Some(1))).await.unwrap();
        let before = site.dump().await;
        site.clock.advance_ms(1_000);
        // Decided afresh, both would be refused.
        for (key, command, first) in [("open", open_session(), &first), ("plan", plan(0, None), &revised)] {
            let again = store.execute(id, keyed(key, "p"), by_user(command)).await.unwrap();
            assert!(again.replayed && !first.replayed);
            assert_eq!(again.events, first.events);
            assert_eq!(again.events[0].command_key.as_ref().map(domain::CommandKey::as_str), Some(key));
            assert_eq!(again.state.core.head, Seq(3));
        }
        assert_eq!(site.dump().await, before);
        let reopened = site.open().await;
        let again = reopened.execute(id, keyed("plan", "p"), by_user(plan(0, None))).await.unwrap();
        assert_eq!(again.events, revised.events);
    })
    .await;
}

#[tokio::test]
async fn e5_a_key_with_another_payload_is_refused_and_keys_are_per_session() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for id in [session(1), session(2)] {
            send(&store, id, open_session()).await.unwrap();
        }
        store.execute(session(1), keyed("k", "one"), by_user(submit("one"))).await.unwrap();
        let reused = store.execute(session(1), keyed("k", "two"), by_user(submit("two"))).await;
        let Err(ExecuteError::Rejected(rejection)) = reused else { panic!("{reused:?}") };
        assert_eq!(rejection.code.name(), "key_reused");
        let elsewhere = store.execute(session(2), keyed("k", "two"), by_user(submit("two"))).await;
        assert!(!elsewhere.unwrap().replayed);
    })
    .await;
}

#[tokio::test]
async fn e5_a_rejection_is_not_remembered() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        let refused = store.execute(id, keyed("k", "p"), by_user(plan(0, Some(9)))).await;
        assert!(matches!(refused, Err(ExecuteError::Rejected(_))), "{refused:?}");
        let accepted = store.execute(id, keyed("k", "q"), by_user(plan(0, None))).await.unwrap();
        assert!(!accepted.replayed);
    })
    .await;
}

#[tokio::test]
async fn e5_of_two_that_wait_together_one_is_carried_out() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        let send_once = || store.execute(id, keyed("k", "p"), by_user(submit("once")));
        let (one, two) = tokio::join!(send_once(), send_once());
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.events, two.events);
        assert_eq!([one.replayed, two.replayed].iter().filter(|replayed| **replayed).count(), 1);
        assert_eq!(store.head(id).await.unwrap().unwrap().state.core.head, Seq(2));
    })
    .await;
}

#[tokio::test]
async fn e5_a_key_that_caused_nothing_causes_nothing_again() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        let select = |agent: &str| UserCommand::SelectAgent { agent: agent.parse().unwrap() };
        let first = store.execute(id, keyed("k", "p"), by_user(select("build"))).await.unwrap();
        assert!(first.events.is_empty() && !first.replayed);
        send(&store, id, select("deep")).await.unwrap();
        let again = store.execute(id, keyed("k", "p"), by_user(select("build"))).await.unwrap();
        assert!(again.events.is_empty() && again.replayed);
        assert_eq!(again.state.core.work_agent, "deep".parse().ok());
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}
