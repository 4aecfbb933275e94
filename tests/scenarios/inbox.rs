//! Input on its way to a turn (I1, I2, I3).

use domain::{Code, EventBody, InputId, InputText, QUEUED_ROWS, SessionId, TurnOutcome};
use policy::IdleReason;
use runtime::Prompt;
use runtime::{CommandError, Message, Scope, Step};
use tests::{Gate, Probe, World, scripted, story};

use crate::stop::spawn_step;

fn fine() -> std::sync::Arc<dyn runtime::Model> {
    scripted("[exhausted]\ntext = \"ok\"")
}

/// The rows that turns consumed, in order.
async fn consumed(world: &World, session: SessionId) -> Vec<Vec<InputId>> {
    let log = world.log(session).await;
    let rows = |event: domain::Event| match event.body {
        EventBody::InputConsumed { rows, .. } => Some(rows),
        _ => None,
    };
    log.into_iter().filter_map(rows).collect()
}

/// A turn that is admitted and lost before its first request, or after it.
async fn lose_turn(world: &World, session: SessionId, after_request: bool) {
    let mut turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    if after_request {
        turn.begin_request(10).await.unwrap();
    }
    drop(turn);
    world.clock.advance_ms(policy::LEASE_MS);
    let step = world.engine(fine()).step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Recovered { .. }), "{step:?}");
}

#[tokio::test]
async fn i1_i3_input_during_a_turn_waits_in_order_and_each_row_gets_a_turn() {
    let world = World::new().await;
    let session = world.session().await;
    world
        .goal_within(session, "reach it", domain::Budgets { turns: 5.try_into().unwrap(), ..<_>::default() })
        .await;
    let gate = Gate::default();
    let model = Probe::gated(fine(), &gate);
    let engine = world.engine(model.clone());
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    // The Goal's turn runs; nothing that is said meanwhile is lost.
    let rows = [world.say(session, "one").await, world.say(session, "two").await];
    let view = world.view(session).await;
    assert_eq!(view.queued_inputs, 2);
    (0..5).for_each(|_| gate.open());
    step.await.unwrap();
    // Input goes before the next continuation.
    let steps = world.run_engine(session, &engine).await;
    assert_eq!(steps.len(), 5, "{steps:?}");
    assert_eq!(consumed(&world, session).await, rows.map(|row| vec![row]));
    let triggers: Vec<_> = story(&world.log(session).await)
        .lines()
        .filter(|line| line.contains("turn_started"))
        .map(|line| line.split_once(" build for ").unwrap().1.to_owned())
        .collect();
    insta::assert_snapshot!(triggers.join("\n"), @r"
    continuation 1, bound
    input #5, bound
    input #6, bound
    continuation 2, bound
    continuation 3, bound
    ");
}

#[tokio::test]
async fn i1_input_is_durable_before_any_turn_is_tried() {
    let world = World::new().await;
    let session = world.session().await;
    // Nobody runs turns here; another worker on the same store finds the row.
    let row = world.say(session, "hello").await;
    assert_eq!(world.sessions.due(None, 10).await.unwrap(), [session]);
    let model = Probe::on(fine());
    let other = world.engine_of(&world.other_worker(), model.clone(), tests::Shop::default());
    let step = other.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
    assert_eq!(consumed(&world, session).await, [vec![row]]);
    assert_eq!(model.requests()[0].history, [Message::User { text: "hello".to_owned() }]);
}

#[tokio::test]
async fn i1_a_full_inbox_says_so_and_keeps_what_it_has() {
    let world = World::new().await;
    let session = world.session().await;
    for _ in 0..QUEUED_ROWS {
        world.say(session, "more").await;
    }
    let sent =
        world.user.submit(session, Prompt::queued(InputText::parse("one too many").unwrap()), None).await;
    let Err(CommandError::Rejected(refused)) = sent else { panic!("{sent:?}") };
    assert_eq!(refused.code, Code::LimitExceeded);
    assert_eq!(world.view(session).await.queued_inputs, QUEUED_ROWS);
}

#[tokio::test]
async fn e5_input_sent_twice_with_one_key_is_one_row() {
    let world = World::new().await;
    let session = world.session().await;
    let key = || Some(domain::CommandKey::parse("prompt-1").unwrap());
    let text = |text: &str| InputText::parse(text).unwrap();
    let first = world.user.submit(session, Prompt::queued(text("hello")), key()).await.unwrap();
    let events = world.log(session).await.len();
    let again = world.user.submit(session, Prompt::queued(text("hello")), key()).await.unwrap();
    assert_eq!((first, world.log(session).await.len()), (again, events));
    let other = world.user.submit(session, Prompt::queued(text("something else")), key()).await;
    let Err(CommandError::Rejected(refused)) = other else { panic!("{other:?}") };
    assert_eq!(refused.code, Code::KeyReused);
    assert_eq!(world.log(session).await.len(), events);
}

#[tokio::test]
async fn i2_a_row_of_a_lost_turn_returns_to_its_place_three_times() {
    let world = World::new().await;
    let session = world.session().await;
    let first = world.say(session, "one").await;
    let second = world.say(session, "two").await;
    for _ in 0..3 {
        lose_turn(&world, session, false).await;
        assert_eq!(world.view(session).await.next, policy::NextAction::RunInput { row: first });
    }
    lose_turn(&world, session, false).await;
    // Enough: it is cancelled, visibly, and the next one is not held up by it.
    assert_eq!(world.view(session).await.next, policy::NextAction::RunInput { row: second });
    world.run(session, fine()).await;
    assert_eq!(consumed(&world, session).await, [vec![second]]);
    let told = story(&world.log(session).await);
    let fates: Vec<_> = told
        .lines()
        .filter(|line| line.contains("input_returned") || line.contains("input_cancelled"))
        .collect();
    insta::assert_snapshot!(fates.join("\n"), @r"
    5 runtime input_returned #2
    8 runtime input_returned #2
    11 runtime input_returned #2
    14 runtime input_cancelled #2 ReturnedTooOften
    ");
}

#[tokio::test]
async fn i2_a_consumed_row_never_runs_again() {
    let world = World::new().await;
    let session = world.session().await;
    let row = world.say(session, "one").await;
    lose_turn(&world, session, true).await;
    let model = Probe::on(fine());
    let steps = world.run(session, model.clone()).await;
    assert_eq!(steps, [Step::Idle { why: IdleReason::TurnLost { turn: domain::TurnNumber(1) } }]);
    assert_eq!(consumed(&world, session).await, [vec![row]]);
    // What was said stands in the history of the next turn, once.
    world.say(session, "two").await;
    world.run(session, model.clone()).await;
    let said: Vec<_> = model.requests()[0].history.clone();
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], Message::User { text: "one".to_owned() });
}

#[tokio::test]
async fn i2_an_interrupted_turn_does_not_give_its_row_back() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "one").await;
    let turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    world.user.interrupt(session).await.unwrap();
    drop(turn);
    world.clock.advance_ms(policy::LEASE_MS);
    let model = Probe::on(fine());
    let steps = world.run(session, model.clone()).await;
    // Recovery ends it as what the person asked for.
    assert_eq!(steps[1..], [Step::Idle { why: IdleReason::NothingToDo }]);
    assert_eq!(model.count(), 0);
    insta::assert_snapshot!(story(&world.log(session).await[2..]), @r"
    3 runtime turn_started 1 build for input #2
    4 user turn_stop_requested 1 interrupted
    5 runtime input_cancelled #2 Interrupted
    6 runtime turn_ended 1 interrupted
    ");
}
