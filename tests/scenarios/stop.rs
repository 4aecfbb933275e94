//! Stopping a turn in the middle: what asked for it, what still happens, and what is left (T6, G11).

use std::path::Path;
use std::time::Duration;

use domain::{
    Budgets, CallOutcome, EventBody, GoalStatus, Mode, PauseReason, SessionId, StopReason, TurnOutcome,
};
use policy::IdleReason;
use runtime::{Engine, Scope, Step};
use serde_json::json;
use tests::{Gate, Probe, World, answering, call, calls, scripted, story, text};
use tokio::task::JoinHandle;

/// Starts the next step beside the test.
pub(crate) fn spawn_step(engine: &Engine, session: SessionId) -> JoinHandle<Step> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.step(session, Scope::All).await.unwrap() })
}

/// How the turn of that step ended.
pub(crate) async fn outcome(step: JoinHandle<Step>) -> TurnOutcome {
    match step.await.unwrap() {
        Step::Ran { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    }
}

/// The log of this session from the n-th event on.
async fn story_from(world: &World, session: SessionId, event: usize) -> String {
    story(&world.log(session).await.split_off(event - 1))
}

#[tokio::test]
async fn t6_g11_an_interrupt_cancels_the_model_request() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let gate = Gate::default();
    let engine = world.engine(Probe::gated(scripted("[exhausted]\ntext = \"never\""), &gate));
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    world.user.interrupt(session).await.unwrap();
    // The gate stays shut: the turn can only end because the request was dropped.
    assert_eq!(outcome(step).await, TurnOutcome::Interrupted);
    insta::assert_snapshot!(story_from(&world, session, 3).await, @r"
    3 runtime turn_started 1 build for input #2
    4 runtime input_consumed by 1: #2
    5 runtime model_requested 1.1 attempt 1
    6 user turn_stop_requested 1 interrupted
    7 runtime turn_ended 1 interrupted
    ");
    assert_eq!(world.view(session).await.next, policy::NextAction::Idle { why: IdleReason::NothingToDo });
}

/// Waits until the file has something in it.
async fn appears(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Waits until the process is gone: killed, whether or not its parent has looked.
async fn goes(pid: &str) {
    for _ in 0..500 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still there");
}

/// A turn whose first response starts a command that does not end by itself, and a second call after it.
async fn in_a_command(world: &World, session: SessionId) -> (JoinHandle<Step>, [String; 2]) {
    let model = answering(|_, _| {
        let command = "sleep 600 & echo $! > child; echo $$ > shell; echo started; wait";
        Ok(calls(&[
            ("shell", json!({ "command": command }).to_string()),
            ("write_file", json!({ "path": "after", "content": "x" }).to_string()),
        ]))
    });
    let step = spawn_step(&world.engine(model), session);
    let shell = appears(&world.path("shell")).await;
    (step, [shell, appears(&world.path("child")).await])
}

/// The command is gone and recorded as stopped; gives how the call after it ended.
async fn check_killed(world: &World, session: SessionId, pids: &[String]) -> (CallOutcome, String) {
    for pid in pids {
        goes(pid).await;
    }
    let results = world.results(session).await;
    let [(_, first, text), (_, second, after)] = &results[..] else { panic!("{results:?}") };
    assert_eq!(*first, CallOutcome::Stopped);
    assert_eq!(text, "stopped; everything it started was killed\nstarted");
    assert!(!world.path("after").exists());
    (*second, after.clone())
}

#[tokio::test]
async fn t6_g11_an_interrupt_kills_the_command_and_records_it_as_stopped() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let (step, pids) = in_a_command(&world, session).await;
    world.user.interrupt(session).await.unwrap();
    assert_eq!(outcome(step).await, TurnOutcome::Interrupted);
    let (after, _) = check_killed(&world, session, &pids).await;
    assert_eq!(after, CallOutcome::NotRun);
    let goal = world.view(session).await.goal.unwrap();
    assert_eq!(goal.status, GoalStatus::Paused(PauseReason::Interrupted));
}

#[tokio::test]
async fn m6_t6_entering_plan_mode_kills_the_command_and_denies_the_write_after_it() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let (step, pids) = in_a_command(&world, session).await;
    let view = world.user.enter_plan(session).await.unwrap();
    assert!(view.mode_view().entering, "the command may still run");
    assert_eq!(outcome(step).await, TurnOutcome::Stopped { reason: StopReason::PlanMode });
    let (after, why) = check_killed(&world, session, &pids).await;
    assert_eq!(after, CallOutcome::Denied);
    insta::assert_snapshot!(why, @"denied: `write_file` needs write_workspace, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do");
    let view = world.view(session).await;
    assert_eq!((view.mode, view.mode_view().entering), (Mode::Plan, false));
}

#[tokio::test]
async fn m6_entering_plan_mode_kills_the_background_command_with_all_it_started() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let command = "sleep 600 & echo $! > child; echo $$ > shell; wait";
    let model = answering(move |number, _| {
        Ok(match number {
            1 => calls(&[("shell", json!({ "command": command, "background": true }).to_string())]),
            _ => text("It runs."),
        })
    });
    let engine = world.engine(model);
    let step = spawn_step(&engine, session);
    let pids = [appears(&world.path("shell")).await, appears(&world.path("child")).await];
    assert_eq!(outcome(step).await, TurnOutcome::Completed);
    let before = world.log(session).await.len();
    world.user.enter_plan(session).await.unwrap();
    for pid in &pids {
        goes(pid).await;
    }
    // Mode and stop are one commit: nothing stands between them.
    let told = story_from(&world, session, before + 1).await;
    insta::assert_snapshot!(told.lines().take(2).collect::<Vec<_>>().join("\n"), @r"
    13 user mode_changed plan
    14 user command_stop_requested 1
    ");
    engine.close().await;
    assert!(world.view(session).await.commands.is_empty());
}

#[tokio::test]
async fn t6_entering_plan_mode_during_a_request_stops_the_turn_and_holds_the_goal() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let gate = Gate::default();
    let engine = world.engine(Probe::gated(scripted("[exhausted]\ntext = \"never\""), &gate));
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    world.user.enter_plan(session).await.unwrap();
    assert_eq!(outcome(step).await, TurnOutcome::Stopped { reason: StopReason::PlanMode });
    insta::assert_snapshot!(story_from(&world, session, 5).await, @r"
    5 user mode_changed plan
    6 user turn_stop_requested 1 plan_mode
    7 user goal_moved paused plan_mode
    8 runtime goal_charged 1.1 estimated
    9 runtime turn_ended 1 stopped plan_mode
    ");
    let step = engine.step(session, Scope::All).await.unwrap();
    assert_eq!(step, Step::Idle { why: IdleReason::GoalPaused { pause: PauseReason::PlanMode } });
}

#[tokio::test]
async fn t6_a_goal_turn_stops_when_its_goal_is_paused_or_cancelled() {
    for cancel in [false, true] {
        let world = World::new().await;
        let session = world.session().await;
        world.goal(session, "reach it").await;
        let gate = Gate::default();
        let engine = world.engine(Probe::gated(scripted("[exhausted]\ntext = \"never\""), &gate));
        let step = spawn_step(&engine, session);
        gate.arrival().await;
        let view = if cancel {
            world.user.cancel_goal(session).await.unwrap()
        } else {
            world.user.pause_goal(session).await.unwrap()
        };
        assert!(!matches!(view.goal.unwrap().status, GoalStatus::Active));
        assert_eq!(outcome(step).await, TurnOutcome::Stopped { reason: StopReason::GoalChanged });
        let step = engine.step(session, Scope::All).await.unwrap();
        assert!(matches!(step, Step::Idle { .. }), "{step:?}");
    }
}

#[tokio::test]
async fn t6_an_input_turn_goes_on_unbound_when_its_goal_is_paused() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    world.say(session, "a question").await;
    let gate = Gate::default();
    let model = Probe::gated(
        answering(|number, _| {
            Ok(if number == 1 { call("list_dir", &json!({})) } else { text("the answer") })
        }),
        &gate,
    );
    let step = spawn_step(&world.engine(model.clone()), session);
    gate.arrival().await;
    world.user.pause_goal(session).await.unwrap();
    gate.open();
    gate.arrival().await;
    gate.open();
    assert_eq!(outcome(step).await, TurnOutcome::Completed);
    // The request that began while the Goal was active is paid by it, the next one is not.
    insta::assert_snapshot!(story_from(&world, session, 4).await, @r#"
    4 runtime turn_started 1 build for input #3, bound
    5 runtime input_consumed by 1: #3
    6 runtime model_requested 1.1 attempt 1
    7 user goal_moved paused user
    8 runtime model_responded 1.1 "" calls [list_dir]
    9 runtime goal_charged 1.1 estimated
    10 agent call_admitted 1.1.0 list_dir
    11 runtime call_finished 1.1.0 list_dir succeeded
    12 runtime model_requested 1.2 attempt 1
    13 runtime model_responded 1.2 "the answer" calls []
    14 runtime turn_ended 1 completed
    "#);
    let requests = model.requests();
    assert!(requests[1].work_state.contains("goal: paused"), "{}", requests[1].work_state);
}

#[tokio::test]
async fn t6_g4_crossing_the_budget_stops_the_turn_before_its_calls() {
    let world = World::new().await;
    let session = world.session().await;
    let budgets = Budgets { tokens: 1_000.try_into().unwrap(), ..Budgets::default() };
    world.goal_within(session, "reach it", budgets).await;
    let model = scripted(
        r#"
        [[response]]
        usage = { input = 900, output = 150, cached = 50000 }
        [[response.call]]
        tool = "write_file"
        arguments = { path = "after", content = "x" }
        "#,
    );
    let steps = world.run(session, model).await;
    assert!(
        matches!(
            &steps[..],
            [
                Step::Ran { outcome: TurnOutcome::Stopped { reason: StopReason::Budget }, .. },
                Step::Idle { why: IdleReason::GoalBudgetLimited }
            ]
        ),
        "{steps:?}"
    );
    assert!(!world.path("after").exists());
    insta::assert_snapshot!(story_from(&world, session, 3).await, @r#"
    3 runtime turn_started 1 build for continuation 1, bound
    4 runtime model_requested 1.1 attempt 1
    5 runtime model_responded 1.1 "" calls [write_file]
    6 runtime goal_charged 1.1 1050
    7 runtime goal_budget_announced 80 %
    8 runtime goal_moved budget_limited
    9 runtime turn_stop_requested 1 budget
    10 runtime call_finished 1.1.0 write_file not_run
    11 runtime turn_ended 1 stopped budget
    "#);
}

#[tokio::test]
async fn g11_an_interrupt_holds_the_queue_until_the_user_acts() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let first = world.say(session, "one").await;
    let gate = Gate::default();
    let model = Probe::gated(scripted("[exhausted]\ntext = \"ok\""), &gate);
    let engine = world.engine(model.clone());
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    let second = world.say(session, "two").await;
    world.user.interrupt(session).await.unwrap();
    assert_eq!(outcome(step).await, TurnOutcome::Interrupted);
    let step = engine.step(session, Scope::All).await.unwrap();
    assert_eq!(step, Step::Idle { why: IdleReason::InboxHeld });
    assert_eq!(world.view(session).await.wake_at, None);
    // A second interrupt, without a running turn, changes nothing.
    let events = world.log(session).await.len();
    world.user.interrupt(session).await.unwrap();
    assert_eq!(world.log(session).await.len(), events);

    let third = world.say(session, "three").await;
    gate.open();
    gate.open();
    let steps = world.run_engine(session, &engine).await;
    let pause = PauseReason::Interrupted;
    assert_eq!(steps.last(), Some(&Step::Idle { why: IdleReason::GoalPaused { pause } }), "{steps:?}");
    let taken: Vec<_> = world
        .log(session)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::InputConsumed { rows, .. } => Some(rows),
            _ => None,
        })
        .collect();
    assert_eq!(taken, [vec![first], vec![second], vec![third]]);
}

#[tokio::test]
async fn g11_an_interrupt_without_a_running_turn_pauses_the_goal_and_holds_the_queue() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    world.say(session, "one").await;
    let view = world.user.interrupt(session).await.unwrap();
    assert_eq!(view.goal.unwrap().status, GoalStatus::Paused(PauseReason::Interrupted));
    let model = Probe::on(scripted("[exhausted]\ntext = \"ok\""));
    let steps = world.run(session, model.clone()).await;
    assert_eq!(steps, [Step::Idle { why: IdleReason::InboxHeld }]);
    // A resume is an act of the user too.
    world.user.resume_goal(session).await.unwrap();
    let step = world.engine(model.clone()).step(session, Scope::InputOnly).await.unwrap();
    assert!(matches!(step, Step::Ran { .. }), "{step:?}");
    assert_eq!(model.count(), 1);
}

#[tokio::test]
async fn g11_an_interrupt_that_meets_another_stop_wins() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let mut turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    turn.begin_request(10).await.unwrap();
    world.user.enter_plan(session).await.unwrap();
    world.user.interrupt(session).await.unwrap();
    assert_eq!(turn.finish(TurnOutcome::Completed).await.unwrap(), TurnOutcome::Interrupted);
}
