//! One command: decided on what is there, written whole or not at all.

use std::sync::Arc;

use domain::{GoalId, Objective, PauseReason, Revision, Seq, Timestamp};
use policy::{Command, RuntimeCommand, UserCommand};
use store::{Ask, ExecuteError, StoreError, digest};

use crate::site::{
    START, Site, admit_turn, by_user, keyed, on_each_engine, open_session, owner, plan, run, send, session,
    set_goal, submit, user,
};

fn code(refused: Result<store::Committed, ExecuteError>) -> &'static str {
    match refused {
        Err(ExecuteError::Rejected(rejection)) => rejection.code.name(),
        other => panic!("not a rejection: {other:?}"),
    }
}

#[tokio::test]
async fn e3_a_rejection_writes_nothing() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        send(&store, id, plan(1, None)).await.unwrap();
        let before = site.dump().await;
        site.clock.advance_ms(1_000);
        assert_eq!(code(send(&store, id, open_session()).await), "session_exists");
        assert_eq!(code(send(&store, id, plan(1, None)).await), "expected_revision_required");
        assert_eq!(code(send(&store, id, plan(1, Some(7))).await), "revision_conflict");
        assert_eq!(code(send(&store, id, plan(0, Some(1))).await), "step_regressed");
        assert_eq!(code(run(&store, id, admit_turn()).await), "not_due");
        assert_eq!(code(send(&store, session(2), submit("x")).await), "unknown_session");
        let ask = Ask { blobs: vec![b"lost".to_vec()], ..keyed("k", "p") };
        assert_eq!(code(store.execute(id, ask, by_user(plan(0, Some(1)))).await), "step_regressed");
        assert_eq!(site.dump().await, before);
        assert_eq!(store.blob(digest(b"lost")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn e4_an_event_has_number_time_actor_kind_versioned_payload_and_key() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        store.execute(id, keyed("from a client", "x"), by_user(submit("export it"))).await.unwrap();
        run(&store, id, admit_turn()).await.unwrap();
        let dump = site.dump().await;
        let events: Vec<_> = dump.lines().filter(|line| line.starts_with("events")).collect();
        insta::allow_duplicates!(insta::assert_snapshot!(events.join("\n"), @r#"
        events | session_id 00000000-0000-0000-0000-000000000001 | seq 1 | at 1800000000000 | actor {"type":"user","client":"test"} | kind session_opened | version 1 | payload {"workspace":"/w","agent":"build"} | command_key NULL
        events | session_id 00000000-0000-0000-0000-000000000001 | seq 2 | at 1800000000000 | actor {"type":"user","client":"test"} | kind input_queued | version 1 | payload {"lane":"main","input":"user","text":"export it"} | command_key from a client
        events | session_id 00000000-0000-0000-0000-000000000001 | seq 3 | at 1800000000000 | actor {"type":"runtime","worker":"worker"} | kind turn_started | version 1 | payload {"turn":1,"lane":"main","agent":"build","model":"scripted","trigger":{"type":"input","rows":[2]},"goal":null,"max_requests":250} | command_key NULL
        "#));
    })
    .await;
}

#[tokio::test]
async fn a_command_that_asks_for_what_is_writes_nothing() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        send(&store, id, submit("due")).await.unwrap();
        let before = site.dump().await;
        site.clock.advance_ms(1_000);
        let select = UserCommand::SelectAgent { agent: "build".parse().unwrap() };
        let committed = send(&store, id, select).await.unwrap();
        assert!(committed.events.is_empty());
        assert_eq!(committed.wake_at, Some(START));
        assert_eq!(site.dump().await, before);
    })
    .await;
}

#[tokio::test]
async fn time_in_a_session_never_runs_backwards() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        site.clock.set(Timestamp(5));
        let committed = send(&store, id, submit("later")).await.unwrap();
        assert_eq!(committed.events[0].at, START);
        assert_eq!(committed.wake_at, Some(START));
    })
    .await;
}

#[tokio::test]
async fn p12_a_goal_is_known_in_its_session_also_after_it_ended() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let (id, goal) = (session(1), GoalId::from_u128(5));
        for id in [id, session(2)] {
            send(&store, id, open_session()).await.unwrap();
        }
        send(&store, id, set_goal(5)).await.unwrap();
        send(&store, id, UserCommand::CancelGoal).await.unwrap();
        send(&store, id, set_goal(6)).await.unwrap();
        let UserCommand::UpdatePlan { lane, mut update } = plan(0, None) else { unreachable!() };
        update.goal_id = Some(goal.to_string());
        let update = UserCommand::UpdatePlan { lane, update };
        let ask = Ask { goal: Some(goal), ..Ask::default() };
        let elsewhere = store.execute(session(2), ask.clone(), by_user(update.clone())).await;
        assert_eq!(code(elsewhere), "unknown_goal");
        assert_eq!(code(send(&store, id, update.clone()).await), "unknown_goal");
        store.execute(id, ask, by_user(update)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn t5_a_renewed_lease_is_stored_without_an_event() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        send(&store, id, submit("go")).await.unwrap();
        let started = run(&store, id, admit_turn()).await.unwrap();
        site.clock.advance_ms(1_000);
        let turn = started.state.core.last_turn;
        let renewed = run(&store, id, RuntimeCommand::RenewLease { turn, owner: owner() }).await.unwrap();
        assert!(renewed.events.is_empty());
        let head = store.head(id).await.unwrap().unwrap();
        let expires = started.leases.turn.unwrap().expires_at.plus_ms(1_000);
        assert_eq!(head.leases.turn.unwrap().expires_at, expires);
        assert_eq!(head.wake_at, Some(expires));
        assert_eq!(head.state, started.state);
    })
    .await;
}

#[tokio::test]
async fn a_decision_for_another_session_or_head_is_not_stored() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for id in [session(1), session(2)] {
            send(&store, id, open_session()).await.unwrap();
        }
        let elsewhere = store.head(session(2)).await.unwrap().unwrap().state;
        let earlier = store.head(session(1)).await.unwrap().unwrap().state;
        send(&store, session(1), submit("moves the head")).await.unwrap();
        let before = site.dump().await;
        for state in [elsewhere, earlier] {
            let misfit = store
                .execute(session(1), Ask::default(), move |_, facts| {
                    policy::decide(&state, Command::User(&user(), &submit("x")), facts)
                })
                .await;
            assert!(matches!(misfit, Err(ExecuteError::Fault(StoreError::Misfit { .. }))), "{misfit:?}");
        }
        assert_eq!(site.dump().await, before);
    })
    .await;
}

#[tokio::test]
async fn a_panic_while_deciding_is_the_fault_of_that_command_alone() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        let (before, panicked, after) = tokio::join!(
            send(&store, id, submit("before")),
            store.execute(id, Ask::default(), |_, _| panic!("deliberate")),
            send(&store, id, submit("after")),
        );
        let Err(ExecuteError::Fault(StoreError::Panicked(message))) = panicked else {
            panic!("{panicked:?}")
        };
        assert_eq!(message, "deliberate");
        assert_eq!(before.unwrap().state.core.head, Seq(2));
        assert_eq!(after.unwrap().state.core.head, Seq(3));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_is_carried_out_whole_or_not_at_all() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        for polls in 0..6 {
            let ask = keyed(&format!("key {polls}"), "p");
            let call = store.execute(id, ask.clone(), by_user(submit("once")));
            let mut call = Box::pin(call);
            for _ in 0..polls {
                tokio::select! {
                    biased;
                    _ = &mut call => break,
                    () = tokio::task::yield_now() => {}
                }
            }
            drop(call);
            // Sent again, it tells what became of the first.
            let committed = store.execute(id, ask, by_user(submit("once"))).await.unwrap();
            assert_eq!(committed.events.len(), 1);
        }
        let head = store.head(id).await.unwrap().unwrap();
        assert_eq!(head.state.core.head, Seq(7));
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_blob_is_stored_with_an_accepted_command_and_found_by_its_digest() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let text = b"a long output".to_vec();
        let ask = Ask { blobs: vec![text.clone(), Vec::new()], ..Ask::default() };
        for id in [session(1), session(2)] {
            store.execute(id, ask.clone(), by_user(open_session())).await.unwrap();
        }
        assert_eq!(store.blob(digest(&text)).await.unwrap(), Some(text.clone()));
        assert_eq!(store.blob(digest(b"")).await.unwrap(), Some(Vec::new()));
        assert_eq!(store.blob(digest(b"other")).await.unwrap(), None);
        site.tamper("UPDATE blobs SET bytes = x'00' WHERE length(bytes) > 0").await;
        let corrupt = store.blob(digest(&text)).await;
        assert!(matches!(corrupt, Err(StoreError::CorruptBlob(_))), "{corrupt:?}");
        let huge = Ask { blobs: vec![vec![0; store::BLOB_BYTES + 1]], ..Ask::default() };
        let refused = store.execute(session(3), huge, by_user(open_session())).await;
        assert!(matches!(refused, Err(ExecuteError::Fault(StoreError::BlobTooLarge { .. }))), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn p15_every_revision_and_every_earlier_state_can_be_read() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        let mut states = Vec::new();
        for done in 0..4 {
            let expected = u64::try_from(done).ok().filter(|revision| *revision > 0);
            states.push(send(&store, id, plan(done, expected)).await.unwrap().state);
            send(&store, id, submit("between")).await.unwrap();
        }
        let lane = domain::LaneId::main();
        let plan_id = states[0].current_plan(&lane).unwrap().id;
        for (revision, state) in (1..).zip(&states) {
            let found = store.plan_at(id, &lane, plan_id, Revision(revision)).await.unwrap().unwrap();
            assert_eq!(Some(&found.plan), state.current_plan(&lane));
            assert_eq!(found.seq, state.core.head);
            assert_eq!(&store.state_at(id, found.seq).await.unwrap(), &**state);
        }
        assert_eq!(store.plan_at(id, &lane, plan_id, Revision(5)).await.unwrap(), None);
        let other = domain::PlanId::from_u128(1);
        assert_eq!(store.plan_at(id, &lane, other, Revision(1)).await.unwrap(), None);
        let page = store.plan_history(id, &lane, Seq(0), 3).await.unwrap();
        assert_eq!(page.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [2, 4, 6]);
        assert!(page.has_more);
        let page = store.plan_history(id, &lane, page.next, 3).await.unwrap();
        assert_eq!(page.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [8]);
        assert!(!page.has_more && page.next == page.head);
    })
    .await;
}

#[tokio::test]
async fn a_state_that_was_tampered_with_is_reported_and_never_guessed() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for id in [session(1), session(2), session(3)] {
            send(&store, id, open_session()).await.unwrap();
            send(&store, id, set_goal(5)).await.unwrap();
            send(&store, id, plan(0, None)).await.unwrap();
        }
        let one = session(1);
        site.tamper(&format!("UPDATE sessions SET core = json_remove(core, '$.mode') WHERE id = '{one}'"))
            .await;
        let two = session(2);
        site.tamper("DROP TRIGGER events_are_append_only").await;
        site.tamper(&format!(
            "UPDATE events SET payload = json_set(payload, '$.plan.title', ' ') \
             WHERE session_id = '{two}' AND kind = 'plan_revised'"
        ))
        .await;
        for id in [one, two] {
            let read = store.head(id).await;
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
            let written = send(&store, id, submit("x")).await;
            assert!(matches!(written, Err(ExecuteError::Fault(StoreError::Corrupt { .. }))), "{written:?}");
        }
        let state = send(&store, session(3), submit("x")).await.unwrap().state;
        assert!(Arc::strong_count(&state) > 0);
        let paused = domain::GoalStatus::Paused(PauseReason::User);
        let state = send(&store, session(3), UserCommand::PauseGoal).await.unwrap().state;
        assert_eq!(state.core.goal.as_ref().map(|goal| &goal.status), Some(&paused));
        let objective = state.core.goal.as_ref().map(|goal| goal.objective.clone());
        assert_eq!(objective, Objective::parse("export works").ok());
    })
    .await;
}
