//! Who starts the next turn, and when somebody has to look again (T2, T3, T8, T11, P19).

use std::fmt::Write as _;

use domain::{
    Budgets, Code, EventBody, Failure, FailureKind, SessionId, StopReason, TurnOutcome, TurnTrigger,
};
use policy::{IdleReason, NextAction};
use proptest::prelude::*;
use runtime::{Charge, ModelResponse, Rest, Scope, Step};
use serde_json::{Value, json};
use tests::{Gate, Probe, World, answering, call, plan, scripted, text};

use crate::stop::spawn_step;

/// A plan of which half is done.
const THREE_OF_SIX: &str = "a:completed b:completed c:completed d:in_progress e f";

/// What the session says about its future: what is next, when to look again, and whether it is due at this moment.
async fn future(world: &World, session: SessionId) -> String {
    let view = world.view(session).await;
    let mut next = serde_json::to_value(&view.next).unwrap();
    for (key, value) in next.as_object_mut().unwrap() {
        if key == "goal_id" {
            *value = json!("…");
        }
        // Times are told from this moment on; jitter moves them.
        if let (Some(at), "at") = (value.as_i64(), key.as_str()) {
            *value = json!(format!("in {} s", (at - world.clock_now().0) / 1_000));
        }
    }
    if let Some(retry) = next.pointer_mut("/cause/retry") {
        retry["at"] = json!("…");
    }
    let wake_at = match view.wake_at {
        None => "never".to_owned(),
        Some(at) if at == world.clock_now() => "now".to_owned(),
        Some(at) => format!("in {} s", (at.0 - world.clock_now().0) / 1_000),
    };
    // The stored time is what the scheduler's query reads.
    let due = world.sessions.due(None, 100).await.unwrap().contains(&session);
    assert_eq!(due, wake_at == "now");
    format!("wake {wake_at}, {next}")
}

#[tokio::test]
async fn t2_t3_every_state_says_what_is_next_and_stores_when_to_look_again() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let fine = || scripted("[exhausted]\ntext = \"ok\"");
    let failing = |kind: FailureKind| {
        answering(move |_, _| Err(Failure { retry_after_ms: Some(40_000), ..Failure::new(kind, "broken") }))
    };
    let user = &world.user;
    let mut lines = String::new();
    let mut tell = async |name: &str, session| {
        let _ = writeln!(lines, "{name}: {}", future(&world, session).await);
    };

    let session = world.session().await;
    tell("new", session).await;
    world.plan(session, THREE_OF_SIX).await;
    tell("plan 3/6", session).await;
    world.say(session, "go").await;
    tell("input", session).await;
    let turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    tell("turn runs", session).await;
    drop(turn);
    user.interrupt(session).await.unwrap();
    tell("turn runs, interrupted", session).await;

    let session = world.session().await;
    world.say(session, "go").await;
    user.interrupt(session).await.unwrap();
    tell("held", session).await;

    let session = world.session().await;
    world.say(session, "go").await;
    world.run(session, failing(FailureKind::Refused)).await;
    tell("turn failed", session).await;

    let session = world.session().await;
    world.goal(session, "reach it").await;
    tell("goal", session).await;
    user.enter_plan(session).await.unwrap();
    tell("goal in Plan mode", session).await;
    world.say(session, "go").await;
    tell("input in Plan mode", session).await;
    user.start_work(session, None, None).await.unwrap();
    world
        .run(
            session,
            answering(|number, _| {
                Ok(if number == 1 {
                    text("hi")
                } else {
                    call("goal_update", &json!({ "status": "completed" }))
                })
            }),
        )
        .await;
    tell("goal completed", session).await;

    let session = world.session().await;
    world.goal(session, "reach it").await;
    world.engine(failing(FailureKind::ServerError)).step(session, Scope::All).await.unwrap();
    tell("retry", session).await;
    world.say(session, "go").await;
    tell("input beside a retry", session).await;
    user.cancel_goal(session).await.unwrap();
    world.run(session, fine()).await;
    tell("goal cancelled", session).await;

    let session = world.session().await;
    world.goal(session, "reach it").await;
    world.run(session, failing(FailureKind::Refused)).await;
    tell("goal blocked", session).await;

    let session = world.session().await;
    let budgets = Budgets { turns: 1.try_into().unwrap(), ..Budgets::default() };
    world.goal_within(session, "reach it", budgets).await;
    world.run(session, fine()).await;
    tell("budget used up", session).await;

    // Last, because it moves the clock.
    let session = world.session().await;
    world.say(session, "go").await;
    let mut turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    turn.begin_request(10).await.unwrap();
    world.clock.advance_ms(policy::LEASE_MS);
    world.engine(fine()).step(session, Scope::All).await.unwrap();
    tell("turn lost", session).await;
    insta::assert_snapshot!(lines, @r#"
    new: wake never, {"next":"idle","why":{"why":"nothing_to_do"}}
    plan 3/6: wake never, {"next":"idle","why":{"why":"nothing_to_do"}}
    input: wake now, {"next":"run_input","row":3}
    turn runs: wake in 15 s, {"next":"wait_for","what":{"type":"turn","turn":1}}
    turn runs, interrupted: wake in 15 s, {"next":"wait_for","what":{"type":"turn","turn":1}}
    held: wake never, {"next":"idle","why":{"why":"inbox_held"}}
    turn failed: wake never, {"next":"idle","why":{"why":"turn_failed","turn":1,"failure":{"kind":"refused","detail":"broken","retry_after_ms":40000}}}
    goal: wake now, {"next":"run_goal","goal_id":"…","continuation":1}
    goal in Plan mode: wake never, {"next":"idle","why":{"why":"goal_paused","pause":{"reason":"plan_mode"}}}
    input in Plan mode: wake now, {"next":"run_input","row":5}
    goal completed: wake never, {"next":"idle","why":{"why":"goal_completed"}}
    retry: wake in 40 s, {"next":"wait_until","at":"in 40 s","cause":{"type":"retry","retry":{"attempt":1,"at":"…","failure":"server_error"}}}
    input beside a retry: wake now, {"next":"run_input","row":17}
    goal cancelled: wake never, {"next":"idle","why":{"why":"goal_cancelled"}}
    goal blocked: wake never, {"next":"idle","why":{"why":"goal_blocked","code":"provider_refused","detail":"broken"}}
    budget used up: wake never, {"next":"idle","why":{"why":"goal_budget_limited"}}
    turn lost: wake never, {"next":"idle","why":{"why":"turn_lost","turn":1}}
    "#);
}

#[tokio::test]
async fn t8_without_a_goal_a_plan_of_3_of_6_causes_no_model_call_in_60_s() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "do six things").await;
    let model = Probe::on(answering(|number, _| {
        Ok(if number == 1 { call("plan_update", &plan(THREE_OF_SIX)) } else { text("Half of it is done.") })
    }));
    let engine = world.engine(model.clone());
    world.run_engine(session, &engine).await;
    let view = world.view(session).await;
    assert_eq!(view.plan.map(|plan| (plan.completed, plan.total)), Some((3, 6)));
    let calls = model.count();
    for _ in 0..60 {
        world.clock.advance_ms(1_000);
        assert_eq!(world.sessions.due(None, 10).await.unwrap(), []);
        let step = engine.step(session, Scope::All).await.unwrap();
        assert_eq!(step, Step::Idle { why: IdleReason::NothingToDo });
    }
    assert_eq!(model.count(), calls);
    assert_eq!(world.store.next_wake_at(None).await.unwrap(), None);
}

/// Runs the headless worker for 60 simulated seconds over one session, and tells how often the model was asked.
async fn a_minute_of_work(with_goal: bool) -> usize {
    let world = World::new().await;
    let session = world.session().await;
    world.plan(session, THREE_OF_SIX).await;
    if with_goal {
        let budgets = Budgets { turns: 3.try_into().unwrap(), ..Budgets::default() };
        world.goal_within(session, "reach it", budgets).await;
    }
    let model = Probe::on(scripted("[exhausted]\ntext = \"ok\""));
    let engine = world.engine(model.clone());
    let worker = tokio::spawn({
        let engine = engine.clone();
        async move { engine.work(&Charge::All, false).await.unwrap() }
    });
    for _ in 0..60 {
        world.clock.advance_ms(1_000);
        tokio::task::yield_now().await;
    }
    // The worker is alive all the same: it runs what another session asks for.
    let other = world.session().await;
    world.say(other, "hello").await;
    let mut watch = world.sessions.watch();
    while world.view(other).await.last_turn.is_none() {
        watch.changed().await;
    }
    while world.view(session).await.wake_at.is_some() {
        watch.changed().await;
    }
    engine.shut_down();
    worker.await.unwrap();
    model.count() - 1
}

#[tokio::test]
async fn t8_the_worker_makes_no_call_for_an_unfinished_plan_and_does_for_a_goal() {
    assert_eq!(a_minute_of_work(false).await, 0);
    // The control: the same minute with a Goal of three turns.
    assert_eq!(a_minute_of_work(true).await, 3);
}

#[tokio::test]
async fn t11_an_interactive_client_holds_the_goal_back_and_a_worker_goes_on() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let model = Probe::on(answering(|number, _| {
        Ok(if number == 1 { text("hi") } else { call("goal_update", &json!({ "status": "completed" })) })
    }));
    let engine = world.engine(model.clone());
    let ask = Scope::InputOnly;
    assert_eq!(engine.step(session, ask).await.unwrap(), Step::GoalHeldBack);
    assert_eq!(engine.run_session(session, ask).await.unwrap(), Rest::GoalHeldBack);
    assert_eq!(model.count(), 0);
    // What the person says runs; the Goal still waits for a yes.
    world.say(session, "hello").await;
    assert_eq!(engine.run_session(session, ask).await.unwrap(), Rest::GoalHeldBack);
    assert_eq!(model.count(), 1);
    // Holding back changes nothing durable: a worker takes the Goal at once.
    assert_eq!(world.sessions.due(None, 10).await.unwrap(), [session]);
    let rest = engine.run_session(session, Scope::All).await.unwrap();
    assert_eq!(rest, Rest::Idle { why: IdleReason::GoalCompleted });
}

#[tokio::test]
async fn t11_a_worker_takes_the_sessions_in_its_charge_and_no_others() {
    let world = World::new().await;
    let here = world.session().await;
    world.say(here, "hello").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().display().to_string();
    let there = world.user.open_session(&path, "build".parse().unwrap()).await.unwrap();
    world.say(there, "hello").await;
    let model = Probe::on(scripted("[exhausted]\ntext = \"ok\""));
    let engine = world.engine(model.clone());
    let workspace = world.workspace().display().to_string();
    let worked = engine.work(&Charge::Workspace(workspace), true).await.unwrap();
    assert_eq!(worked.sessions.into_iter().collect::<Vec<_>>(), [here]);
    assert_eq!(world.sessions.due(None, 10).await.unwrap(), [there]);
    let worked = engine.work(&Charge::All, true).await.unwrap();
    assert_eq!(worked.sessions.into_iter().collect::<Vec<_>>(), [there]);
    assert_eq!(model.count(), 2);
}

#[tokio::test]
async fn t6_a_shutdown_stops_the_turn_and_leaves_the_goal_to_the_next_worker() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let gate = Gate::default();
    let engine = world.engine(Probe::gated(scripted("[exhausted]\ntext = \"never\""), &gate));
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    engine.shut_down();
    let Step::Ran { outcome, .. } = step.await.unwrap() else { panic!("no turn ran") };
    assert_eq!(outcome, TurnOutcome::Stopped { reason: StopReason::Shutdown });
    assert_eq!(engine.run_session(session, Scope::All).await.unwrap(), Rest::ShutDown);
    let view = world.view(session).await;
    assert!(matches!(view.next, NextAction::RunGoal { continuation: 2, .. }), "{:?}", view.next);
}

/// An act of the person, or time.
#[derive(Debug, Clone, Copy)]
enum Act {
    Say,
    SetGoal,
    PauseGoal,
    ResumeGoal,
    CancelGoal,
    EnterPlan,
    StartWork,
    Interrupt,
    Step,
    Pass,
    /// The only one that is not the same in both runs.
    Plan(usize),
}

/// What differs between two runs: plans as a person writes them, as the model writes them, and none at all.
const PLANS: &[&str] = &[
    "",
    "a:in_progress b c",
    "a:completed b:in_progress",
    "a:completed b:completed",
    "x:in_progress",
    THREE_OF_SIX,
];

/// The n-th answer of the model is the same in every run, but for the plan in it.
fn answer(number: usize, plans: usize) -> Result<ModelResponse, Failure> {
    let usage = Some(domain::TokenUsage { input: 400, output: 20, ..domain::TokenUsage::default() });
    match number % 7 {
        2 => Ok(ModelResponse { usage, ..call("plan_update", &plan(PLANS[(number + plans) % PLANS.len()])) }),
        4 => {
            let failure = Failure::new(FailureKind::RateLimited, "busy");
            Err(Failure { retry_after_ms: Some(200_000), ..failure })
        }
        6 => Ok(ModelResponse { usage, ..call("goal_update", &json!({ "status": "completed" })) }),
        _ => Ok(ModelResponse { usage, ..text("a step further") }),
    }
}

/// Plays the acts and tells the schedule: what each step came to, and the turns with their causes and ends.
async fn schedule(acts: &[Act], plans: usize) -> Vec<String> {
    let world = World::new().await;
    let session = world.session().await;
    let engine = world.engine(answering(move |number, _| answer(number, plans)));
    let mut told = Vec::new();
    for act in acts {
        let user = &world.user;
        match act {
            Act::Say => {
                world.say(session, "go on").await;
            }
            Act::SetGoal => {
                let budgets = Budgets { tokens: 3_000.try_into().unwrap(), ..Budgets::default() };
                let objective = testkit::objective("reach it");
                let new = runtime::NewGoal { objective, criteria: None, budgets, replace: true };
                user.set_goal(session, new).await.unwrap();
            }
            Act::PauseGoal => drop(user.pause_goal(session).await),
            Act::ResumeGoal => drop(user.resume_goal(session).await),
            Act::CancelGoal => drop(user.cancel_goal(session).await),
            Act::EnterPlan => drop(user.enter_plan(session).await.unwrap()),
            Act::StartWork => drop(user.start_work(session, None, None).await.unwrap()),
            Act::Interrupt => drop(user.interrupt(session).await.unwrap()),
            Act::Pass => {
                world.clock.advance_ms(70_000);
            }
            Act::Step => told.push(format!("{:?}", engine.step(session, Scope::All).await.unwrap())),
            Act::Plan(number) => write_plan(&world, session, number + plans).await,
        }
    }
    for event in world.log(session).await {
        match event.body {
            EventBody::TurnStarted { turn, trigger, agent, .. } => {
                let cause = match trigger {
                    TurnTrigger::Input { .. } => "input".to_owned(),
                    TurnTrigger::Goal { continuation, .. } => format!("continuation {continuation}"),
                };
                told.push(format!("{turn} {agent} {cause} at {}", event.at.0));
            }
            EventBody::TurnEnded { turn, outcome } => {
                told.push(format!("{turn} {outcome:?} at {}", event.at.0));
            }
            EventBody::RetryScheduled { retry, .. } => told.push(format!("retry at {}", retry.at.0)),
            _ => {}
        }
    }
    told
}

/// Writes or closes a plan; whether that is accepted is no matter here.
async fn write_plan(world: &World, session: SessionId, number: usize) {
    let mut candidate: Value = plan(PLANS[number % PLANS.len()]);
    if let Some(current) = world.view(session).await.plan {
        if number.is_multiple_of(3) {
            let reason = testkit::remark("another idea");
            drop(world.user.close_plan(session, None, reason).await);
            return;
        }
        candidate["expected_revision"] = json!(current.revision.0);
    }
    match world.user.update_plan(session, &candidate, None).await {
        Ok(_) => {}
        Err(runtime::CommandError::Rejected(refused)) => assert_ne!(refused.code, Code::InvalidInput),
        Err(error) => panic!("{error}"),
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => Just(Act::Step),
        3 => (0..12_usize).prop_map(Act::Plan),
        2 => Just(Act::Say),
        2 => Just(Act::SetGoal),
        2 => Just(Act::Pass),
        1 => Just(Act::PauseGoal),
        2 => Just(Act::ResumeGoal),
        1 => Just(Act::CancelGoal),
        1 => Just(Act::EnterPlan),
        2 => Just(Act::StartWork),
        1 => Just(Act::Interrupt),
    ];
    proptest::collection::vec(act, 10..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn p19_the_same_session_with_other_plans_has_the_same_turns(acts in acts(), plans in 1..PLANS.len()) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (one, other) = tokio.block_on(async {
            tokio::join!(schedule(&acts, 0), schedule(&acts, plans))
        });
        prop_assert_eq!(one, other);
    }
}

#[tokio::test]
async fn p19_a_goal_goes_on_beside_any_plan() {
    // Complete, unfinished, closed or absent: the same three turns.
    for line in ["", "a:completed b:completed", THREE_OF_SIX, "closed"] {
        let world = World::new().await;
        let session = world.session().await;
        match line {
            "" => {}
            "closed" => {
                world.plan(session, THREE_OF_SIX).await;
                world.user.close_plan(session, None, testkit::remark("no")).await.unwrap();
            }
            line => drop(world.plan(session, line).await),
        }
        let budgets = Budgets { turns: 3.try_into().unwrap(), ..Budgets::default() };
        world.goal_within(session, "reach it", budgets).await;
        let steps = world.run(session, scripted("[exhausted]\ntext = \"ok\"")).await;
        assert_eq!(steps.len(), 4, "{line}: {steps:?}");
        assert_eq!(steps[3], Step::Idle { why: IdleReason::GoalBudgetLimited }, "{line}");
    }
}
