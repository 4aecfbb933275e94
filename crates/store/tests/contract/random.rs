//! Random histories: whatever is accepted or refused, the stored state is the fold of the log.

mod acts;

use domain::SessionState;
use policy::{Command, Facts};
use proptest::prelude::*;
use store::{ExecuteError, Store};

use crate::site::{Site, on_each_engine, open_session, owner, send, session, user};
use acts::{Act, Sent, acts};

/// Sends what an act means on the state it meets. Nobody else writes, so that is still the state it is decided on.
async fn send_act(store: &Store, (on, has_key, act): &(u128, bool, Act), number: usize) {
    let id = session(*on);
    let head = store.head(id).await.unwrap().unwrap();
    let (ask, sent) = acts::resolve(act, number, *has_key, &head.state, store.now());
    let decide = move |state: &SessionState, facts: &Facts| match &sent {
        Sent::User(command) => policy::decide(state, Command::User(&user(), command), facts),
        Sent::Agent(command) => policy::decide(state, Command::Agent(command), facts),
        Sent::Runtime(command) => policy::decide(state, Command::Runtime(&owner().worker, command), facts),
    };
    match store.execute(id, ask, decide).await {
        Ok(_) | Err(ExecuteError::Rejected(_)) => {}
        Err(ExecuteError::Fault(error)) => panic!("{act:?}: {error}"),
    }
}

async fn play(store: &Store, site: &Site, history: &[(u128, bool, Act)]) {
    for number in [1, 2] {
        send(store, session(number), open_session()).await.unwrap();
    }
    for (number, step) in history.iter().enumerate() {
        match &step.2 {
            Act::Pass { ms } => {
                site.clock.advance_ms(*ms);
            }
            _ => send_act(store, step, number).await,
        }
    }
}

proptest! {
    // Each history is a few dozen durable commits.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn e1_after_any_history_the_stored_state_is_the_fold_of_the_log(
        history in prop::collection::vec((prop_oneof![3 => Just(1_u128), 1 => Just(2)], any::<bool>(), acts()), 1..160)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(on_each_engine(async |site: Site| {
            let store = site.open().await;
            play(&store, &site, &history).await;
            assert_eq!(store.check(|_| {}).await.unwrap(), []);
            for number in [1, 2] {
                let head = store.head(session(number)).await.unwrap().unwrap();
                let page = store.events_after(session(number), domain::Seq(0), 1_000).await.unwrap();
                assert!(!page.has_more);
                assert_eq!(*head.state, SessionState::fold(session(number), &page.events));
            }
        }));
    }
}
