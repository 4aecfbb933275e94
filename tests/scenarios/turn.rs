//! A turn: why it starts, that it starts once, and what it leaves in the log (T1, T4, T6).

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{Code, EventBody, GoalStatus, SessionId, Timestamp, TurnOutcome, TurnTrigger};
use policy::IdleReason;
use runtime::{Scope, Step};
use serde_json::json;
use store::ExecuteError;
use tests::{Gate, Probe, Shop, World, call, scripted, story, text};
use tokio::sync::Barrier;

use crate::stop::spawn_step;

#[tokio::test]
async fn t6_a_turn_alternates_requests_and_calls_until_an_answer() {
    let world = World::new().await;
    world.git();
    world.write("greeting.txt", "helo\n");
    let session = world.session().await;
    world.say(session, "fix the typo").await;
    let model = scripted(
        r#"
        [[response]]
        text = "Looking."
        usage = { input = 100, output = 10 }
        [[response.call]]
        tool = "read_file"
        arguments = { path = "greeting.txt" }

        [[response]]
        expect = "helo"
        [[response.call]]
        tool = "edit_file"
        arguments = { path = "greeting.txt", old_string = "helo", new_string = "hello" }
        [[response.call]]
        tool = "shell"
        arguments = { command = "grep -c hello greeting.txt" }

        [[response]]
        expect = "exit code 0"
        text = "Fixed and checked."
        "#,
    );
    let steps = world.run(session, model).await;
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!(world.read("greeting.txt"), "hello\n");
    insta::assert_snapshot!(story(&world.log(session).await), @r#"
    1 user session_opened build
    2 user input_queued "fix the typo"
    3 runtime turn_started 1 build for input #2
    4 runtime input_consumed by 1: #2
    5 runtime model_requested 1.1 attempt 1
    6 runtime model_responded 1.1 "Looking." calls [read_file]
    7 agent call_admitted 1.1.0 read_file
    8 runtime call_finished 1.1.0 read_file succeeded
    9 runtime model_requested 1.2 attempt 1
    10 runtime model_responded 1.2 "" calls [edit_file, shell]
    11 agent call_admitted 1.2.0 edit_file
    12 runtime call_finished 1.2.0 edit_file succeeded
    13 agent call_admitted 1.2.1 shell
    14 runtime call_finished 1.2.1 shell succeeded
    15 runtime model_requested 1.3 attempt 1
    16 runtime model_responded 1.3 "Fixed and checked." calls []
    17 runtime turn_ended 1 completed
    "#);
    // What the observer saw is what was committed, in order; the user's own acts are not the turn's.
    let seen = world.tape.events(session);
    assert_eq!(seen, world.log(session).await.split_off(2));
    assert_eq!(world.tape.text(), "Looking.Fixed and checked.");
}

#[tokio::test]
async fn t1_only_input_and_an_active_goal_start_turns() {
    let world = World::new().await;
    let session = world.session().await;
    let model =
        Probe::on(tests::answering(|_, _| Ok(call("goal_update", &json!({ "status": "completed" })))));
    let engine = world.engine(model.clone());
    let idles = async |what: &str| {
        let step = engine.step(session, Scope::All).await.unwrap();
        assert!(matches!(step, Step::Idle { .. }), "{what}: {step:?}");
    };
    let user = &world.user;
    idles("a new session").await;
    world.plan(session, "inspect:completed implement:in_progress verify").await;
    idles("an unfinished plan").await;
    user.close_plan(session, None, testkit::remark("changed my mind")).await.unwrap();
    idles("a closed plan").await;
    user.select_agent(session, "deep".parse().unwrap()).await.unwrap();
    idles("another agent").await;
    user.enter_plan(session).await.unwrap();
    idles("Plan mode").await;
    world.plan(session, "inspect:in_progress verify").await;
    idles("a plan in Plan mode").await;
    user.start_work(session, None, None).await.unwrap();
    idles("Start Work without a prompt").await;
    user.interrupt(session).await.unwrap();
    idles("an interrupt").await;
    assert_eq!(model.count(), 0);

    world.goal(session, "reach it").await;
    user.pause_goal(session).await.unwrap();
    idles("a paused Goal").await;
    user.resume_goal(session).await.unwrap();
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
    idles("a completed Goal").await;
    world.say(session, "and now?").await;
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Ran { .. }), "{step:?}");
    let triggers: Vec<_> = world
        .log(session)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::TurnStarted { trigger, .. } => Some(trigger),
            _ => None,
        })
        .collect();
    assert!(
        matches!(triggers[..], [TurnTrigger::Goal { continuation: 1, .. }, TurnTrigger::Input { .. }]),
        "{triggers:?}"
    );
}

#[tokio::test]
async fn t4_of_racing_workers_one_admits_the_turn_and_each_continuation_is_taken_once() {
    const WORKERS: usize = 6;
    const ROUNDS: u64 = 15;
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let workers: Vec<_> = (0..WORKERS).map(|_| world.other_worker()).collect();
    for _ in 0..ROUNDS {
        // These turns bring no progress, and the user has them go on (G7).
        if world.view(session).await.goal.unwrap().status != GoalStatus::Active {
            world.user.resume_goal(session).await.unwrap();
        }
        let barrier = Arc::new(Barrier::new(WORKERS));
        let racers: Vec<_> = workers
            .iter()
            .cloned()
            .map(|worker| {
                let barrier = Arc::clone(&barrier);
                tokio::spawn(async move {
                    barrier.wait().await;
                    worker
                        .admit(
                            session,
                            &"scripted".parse().unwrap(),
                            runtime::Scope::All,
                            tests::MOST_REQUESTS,
                        )
                        .await
                })
            })
            .collect();
        let mut admitted = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                Ok(turn) => admitted.push(turn),
                Err(ExecuteError::Rejected(refused)) => assert_eq!(refused.code, Code::LeaseHeld),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(admitted.len(), 1);
        let mut turn = admitted.remove(0);
        turn.begin_request(10).await.unwrap();
        let answer = text("done for this turn");
        turn.record_response(answer.text, Vec::new(), domain::TokenUsage::default()).await.unwrap();
        turn.finish(TurnOutcome::Completed).await.unwrap();
    }
    let taken: Vec<u64> = world
        .log(session)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::TurnStarted { trigger: TurnTrigger::Goal { continuation, .. }, .. } => {
                Some(continuation)
            }
            _ => None,
        })
        .collect();
    assert_eq!(taken, (1..=ROUNDS).collect::<Vec<_>>());
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len());
}

#[tokio::test]
async fn t4_admission_takes_the_row_and_the_lease_in_one_commit() {
    let world = World::new().await;
    let session = world.session().await;
    let row = world.say(session, "go").await;
    let before = world.log(session).await.len();
    let turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    let log = world.log(session).await;
    let [started] = &log[before..] else { panic!("{}", story(&log)) };
    assert!(
        matches!(&started.body, EventBody::TurnStarted { trigger: TurnTrigger::Input { rows }, .. } if *rows == [row])
    );
    let head = world.store.head(session).await.unwrap().unwrap();
    assert_eq!(head.leases.turn.as_ref().map(|lease| lease.epoch), Some(turn.number()));
    assert_eq!(world.view(session).await.queued_inputs, 0);

    // Nothing else can start beside it, for whatever reason.
    world.say(session, "me too").await;
    let Err(ExecuteError::Rejected(refused)) = world
        .other_worker()
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
    else {
        panic!("a second turn in one lane");
    };
    assert_eq!(refused.code, Code::LeaseHeld);
}

#[tokio::test]
async fn t6_a_worker_that_lost_its_turn_records_nothing_more() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let mut turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    turn.begin_request(10).await.unwrap();
    world.clock.advance_ms(policy::LEASE_MS);
    let other = world.engine_of(
        &world.other_worker(),
        scripted("[exhausted]\ntext = \"hi\""),
        tests::Shop::default(),
    );
    let step = other.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Recovered { .. }), "{step:?}");
    let before = world.log(session).await;
    let late = turn.record_response("too late".to_owned(), Vec::new(), domain::TokenUsage::default()).await;
    let Err(ExecuteError::Rejected(refused)) = late else { panic!("{late:?}") };
    assert_eq!(refused.code, Code::StaleEpoch);
    assert_eq!(world.log(session).await, before);
    let step = other.step(session, Scope::All).await.unwrap();
    assert_eq!(step, Step::Idle { why: IdleReason::TurnLost { turn: turn.number() } });
}

/// When the lease of the running turn ends.
async fn lease_end(world: &World, session: SessionId) -> Timestamp {
    world.store.head(session).await.unwrap().unwrap().leases.turn.unwrap().expires_at
}

#[tokio::test]
async fn t5_a_turn_keeps_its_lease_while_its_task_lives_and_loses_it_after() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "think hard").await;
    let gate = Gate::default();
    let step =
        spawn_step(&world.engine(Probe::gated(scripted("[exhausted]\ntext = \"never\""), &gate)), session);
    gate.arrival().await;
    let other =
        world.engine_of(&world.other_worker(), scripted("[exhausted]\ntext = \"hi\""), Shop::default());
    // Much longer than a lease lasts, in steps that leave time to renew it.
    let began = world.clock_now();
    while world.clock_now() < began.plus_ms(3 * policy::LEASE_MS) {
        let before = lease_end(&world, session).await;
        world.clock.advance_ms(policy::LEASE_MS / 2);
        let mut watch = world.sessions.watch();
        while lease_end(&world, session).await == before {
            watch.changed().await;
        }
        let until = lease_end(&world, session).await;
        assert_eq!(other.step(session, Scope::All).await.unwrap(), Step::Busy { until });
    }
    // The process lives on without the turn's task; nobody renews for it.
    step.abort();
    assert!(step.await.unwrap_err().is_cancelled());
    let until = lease_end(&world, session).await;
    world.clock.set(until.plus_ms(-1));
    assert_eq!(other.step(session, Scope::All).await.unwrap(), Step::Busy { until });
    world.clock.set(until);
    let step = other.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Recovered { .. }), "{step:?}");
}
