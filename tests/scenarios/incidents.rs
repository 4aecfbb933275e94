//! What agents in the field were reported to do, played to the end: one test for each kind of report.

use std::sync::Arc;

use domain::{
    Budgets, CallOutcome, Event, EventBody, FailureKind, GoalState, GoalStatus, PauseReason, SessionId,
    Timestamp, TokenUsage, TurnOutcome, TurnTrigger,
};
use policy::IdleReason;
use runtime::{Model, ModelRequest, ModelResponse, Scope, Step, TurnLimits};
use serde_json::json;
use tests::{Probe, Shop, World, answering, call, calls, plan, revised, scripted, text};

/// A day, by the simulated clock.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn spent(input: u64, output: u64, response: ModelResponse) -> ModelResponse {
    ModelResponse { usage: Some(TokenUsage { input, output, ..TokenUsage::default() }), ..response }
}

/// A write that no other turn makes: progress.
fn progress(number: usize) -> ModelResponse {
    call("write_file", &json!({ "path": format!("part-{number}"), "content": number.to_string() }))
}

async fn status(world: &World, session: SessionId) -> GoalStatus {
    world.view(session).await.goal.unwrap().status
}

/// Nothing runs, however much time passes.
async fn assert_rests(world: &World, session: SessionId, model: &Arc<Probe>) {
    let before = model.count();
    for _ in 0..10 {
        world.clock.advance_ms(DAY_MS);
        world.run(session, model.clone()).await;
    }
    assert_eq!(model.count(), before, "a model call in the idle time");
    assert_eq!(world.view(session).await.wake_at, None);
}

#[tokio::test]
async fn g4_128_000_tokens_a_call_against_30_000_000_stop_with_at_most_one_call_too_many() {
    const A_CALL: u64 = 128_000;
    const BUDGET: u64 = 30_000_000;
    let world = World::new().await;
    let session = world.session().await;
    let budgets = Budgets {
        tokens: BUDGET.try_into().unwrap(),
        turns: 10_000.try_into().unwrap(),
        ..Budgets::default()
    };
    world.goal_within(session, "work for ever", budgets).await;
    let answers = |number: usize, _: &ModelRequest| {
        Ok(spent(A_CALL, 0, if number.is_multiple_of(20) { text("more to do") } else { progress(number) }))
    };
    let model = Probe::on(answering(answers));
    let engine = world.engine(model.clone());
    while !matches!(engine.step(session, Scope::All).await.unwrap(), Step::Idle { .. }) {}
    assert_eq!(status(&world, session).await, GoalStatus::BudgetLimited);
    let used = world.view(session).await.goal.unwrap().usage.tokens.charged();
    assert!((BUDGET..BUDGET + A_CALL).contains(&used), "{used}");
    assert_rests(&world, session, &model).await;
}

#[tokio::test]
async fn g4_a_budget_of_500_does_not_end_at_1_080() {
    let world = World::new().await;
    let session = world.session().await;
    let budgets = Budgets { tokens: 500.try_into().unwrap(), ..Budgets::default() };
    world.goal_within(session, "small", budgets).await;
    // Every response asks for more, so only the budget ends the turn.
    let model = Probe::on(answering(|number, _| Ok(spent(100, 80, progress(number)))));
    world.run(session, model.clone()).await;
    assert_eq!(world.view(session).await.goal.unwrap().usage.tokens.charged(), 540);
    assert_eq!((model.count(), status(&world, session).await), (3, GoalStatus::BudgetLimited));
}

#[tokio::test]
async fn g7_a_model_that_says_waiting_for_ever_stops_after_three_turns_also_across_a_restart() {
    for restart_after in 0..3 {
        let mut world = World::new().await;
        let session = world.session().await;
        world.goal(session, "wait").await;
        let model = Probe::on(scripted("[exhausted]\ntext = \"Waiting.\""));
        for turn in 0..3 {
            if turn == restart_after {
                world = world.restarted().await;
            }
            let step = world.engine(model.clone()).step(session, Scope::All).await.unwrap();
            assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
        }
        assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::NoProgress));
        assert_rests(&world, session, &model).await;
        assert_eq!(model.count(), 3);
    }
}

#[tokio::test]
async fn g7_a_poll_whose_output_carries_the_time_of_day_is_no_progress() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "poll").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number % 2 {
            1 => call("shell", &json!({ "command": "date +%s%N" })),
            _ => text("Not yet."),
        })
    }));
    world.run(session, model.clone()).await;
    assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::NoProgress));
    // The first poll was new; three more were not.
    assert_eq!(world.view(session).await.goal.unwrap().usage.turns, 4);
    let outputs: std::collections::BTreeSet<_> =
        world.results(session).await.into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(outputs.len(), 4, "each poll told another time");
}

#[tokio::test]
async fn g7_status_flips_of_plan_steps_are_no_progress() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "flip").await;
    world.plan(session, "a:in_progress b").await;
    let model = Probe::on(answering(|number, _| {
        let revision = u64::try_from(number).unwrap().div_ceil(2);
        Ok(match number % 4 {
            1 => call("plan_update", &revised(revision, "a b:in_progress")),
            3 => call("plan_update", &revised(revision, "a:in_progress b")),
            _ => text("Busy."),
        })
    }));
    world.run(session, model.clone()).await;
    let results = world.results(session).await;
    assert!(results.iter().all(|(_, outcome, _)| *outcome == CallOutcome::Succeeded), "{results:?}");
    assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::NoProgress));
    assert_eq!((model.count(), world.view(session).await.plan.unwrap().revision.0), (6, 4));
}

#[tokio::test]
async fn g7_with_every_tool_denied_a_goal_stops_without_needing_one() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "try").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number % 3 {
            0 => text("I am not allowed to."),
            one => calls(&[
                ("shell", json!({ "command": format!("echo {number}") }).to_string()),
                ("goal_update", json!({ "status": "blocked", "summary": format!("{one}") }).to_string()),
            ]),
        })
    }));
    let shop = Shop { allowed: agents::ToolAllowList::Only([].into()), ..Shop::default() };
    world.run_engine(session, &world.engine_in(model.clone(), shop)).await;
    let results = world.results(session).await;
    assert!(results.iter().all(|(_, outcome, _)| *outcome == CallOutcome::Denied), "{results:?}");
    assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::NoProgress));
    assert_eq!(world.view(session).await.goal.unwrap().usage.turns, 3);
    assert_rests(&world, session, &model).await;
}

#[tokio::test]
async fn g7_malformed_completions_are_counted_and_stop_the_goal() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "finish").await;
    let forms = ["{\"status\":\"complete\"}", "{\"status\":", "[]", "{\"done\":true}"];
    let model = Probe::on(answering(move |number, _| {
        Ok(match number % 2 {
            1 => calls(&[("goal_update", forms[number / 2 % forms.len()].to_owned())]),
            _ => text("It is done."),
        })
    }));
    world.run(session, model.clone()).await;
    assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::NoProgress));
    assert_eq!(model.count(), 6);
}

#[tokio::test]
async fn t12_a_call_repeated_with_the_same_result_ends_its_turn_and_pauses_the_goal() {
    for arguments in ["{\"path\":\"missing\"}", "not json"] {
        let world = World::new().await;
        let session = world.session().await;
        world.goal(session, "read").await;
        let model = Probe::on(answering(move |_, _| Ok(calls(&[("read_file", arguments.to_owned())]))));
        let steps = world.run(session, model.clone()).await;
        let Step::Ran { outcome: TurnOutcome::Failed { failure }, .. } = &steps[0] else {
            panic!("{steps:?}")
        };
        assert_eq!((failure.kind, model.count()), (FailureKind::Stuck, 5), "{arguments}");
        assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::NoProgress));
    }
}

#[tokio::test]
async fn t12_a_turn_that_never_ends_is_bounded_and_the_bound_can_be_lower() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let model = Probe::on(answering(|number, _| Ok(progress(number))));
    let limits = TurnLimits { max_requests: 7.try_into().unwrap(), ..TurnLimits::default() };
    let shop = Shop { limits, ..Shop::default() };
    let steps = world.run_engine(session, &world.engine_in(model.clone(), shop)).await;
    let Step::Ran { outcome: TurnOutcome::Failed { failure }, .. } = &steps[0] else { panic!("{steps:?}") };
    assert_eq!((failure.kind, model.count()), (FailureKind::Stuck, 7));
}

/// The times at which turns of a Goal started.
fn starts(log: &[Event]) -> Vec<Timestamp> {
    let started = log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. }));
    started.map(|event| event.at).collect()
}

#[tokio::test]
async fn t9_t10_a_provider_that_fails_for_hours_is_asked_as_the_backoff_says_and_no_more() {
    const HOURS_MS: i64 = 6 * 60 * 60 * 1_000;
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.goal(session, "outlast it").await;
    let model = Probe::on(scripted("[[response]]\nfailure = { kind = \"server_error\" }"));
    let engine = world.engine(model.clone());
    let begin = world.clock_now();
    while world.clock_now().0 - begin.0 < HOURS_MS {
        match engine.step(session, Scope::All).await.unwrap() {
            Step::Ran { .. } => {}
            Step::WaitUntil { at } => world.clock.set(at),
            other => panic!("{other:?}"),
        }
    }
    let log = world.log(session).await;
    let retries: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RetryScheduled { retry, .. } => Some((retry.attempt, retry.at.0 - event.at.0)),
            _ => None,
        })
        .collect();
    for (index, (attempt, wait)) in (0u32..).zip(&retries) {
        assert_eq!(*attempt, index + 1);
        let doubled = (2_000i64 << index.min(8)).min(300_000);
        assert!((doubled * 8 / 10..=doubled * 12 / 10).contains(wait), "attempt {attempt}: {wait} ms");
    }
    // No turn started before its time.
    let ends: Vec<_> = starts(&log);
    assert_eq!(ends.len(), retries.len());
    assert_eq!(model.count(), retries.len() * 4);
    // It neither blocked nor spent a turn.
    let goal = world.view(session).await.goal.unwrap();
    assert_eq!((goal.status, goal.usage.turns), (GoalStatus::Active, 0));
    assert!((60..100).contains(&retries.len()), "{}", retries.len());
}

#[tokio::test]
async fn t9_a_permanent_500_neither_burns_requests_nor_blocks() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.goal(session, "go on").await;
    let model = Probe::on(scripted("[[response]]\nfailure = { kind = \"server_error\" }"));
    let engine = world.engine(model.clone());
    let begin = world.clock_now();
    // What another agent asked 30 times in: 24 s.
    while world.clock_now().0 - begin.0 < 24_000 {
        if let Step::WaitUntil { at } = engine.step(session, Scope::All).await.unwrap() {
            world.clock.set(at);
        }
    }
    assert!(model.count() <= 8, "{} requests", model.count());
    assert_eq!(status(&world, session).await, GoalStatus::Active);
}

#[tokio::test]
async fn t9_one_plain_429_does_not_block_a_goal() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.goal(session, "go on").await;
    let model = Probe::on(scripted(
        "[[response]]\ntext = \"fine\"\nfailure = { kind = \"rate_limited\", times = 1 }",
    ));
    let step = world.engine(model.clone()).step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
    assert_eq!((model.count(), status(&world, session).await), (2, GoalStatus::Active));
}

#[tokio::test]
async fn t8_text_only_turns_do_not_run_on_without_a_goal() {
    let world = World::new().await;
    let session = world.session().await;
    world.plan(session, "a:completed b:completed c:completed d:in_progress e f").await;
    world.say(session, "go").await;
    let model = Probe::on(scripted("[exhausted]\ntext = \"I will go on with the plan.\""));
    world.run(session, model.clone()).await;
    assert_rests(&world, session, &model).await;
    assert_eq!(model.count(), 1);
}

#[tokio::test]
async fn g6_blocked_on_the_first_turn_is_only_staged_and_the_third_blocks() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number % 2 {
            1 => call("goal_update", &json!({ "status": "blocked", "summary": format!("wall {number}") })),
            _ => text("I cannot."),
        })
    }));
    let mut told = Vec::new();
    for _ in 0..3 {
        world.engine(model.clone()).step(session, Scope::All).await.unwrap();
        told.push(status(&world, session).await.state());
        world = world.restarted().await;
    }
    assert_eq!(told, [GoalState::Active, GoalState::Active, GoalState::Blocked]);
    let answers: Vec<_> = world.results(session).await.into_iter().map(|(_, _, text)| text).collect();
    assert!(answers[0].starts_with(r#"{"status":"staged","turns":1,"of":3,"#), "{}", answers[0]);
    assert!(answers[2].contains(r#""turns":3,"of":3"#) && answers[2].contains("ask_user"), "{}", answers[2]);
    assert_rests(&world, session, &model).await;
}

#[tokio::test]
async fn g11_an_interrupted_goal_stays_stopped_after_a_restart() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "run").await;
    let model = Probe::on(answering(|number, _| Ok(progress(number))));
    world.user.interrupt(session).await.unwrap();
    let world = world.restarted().await;
    world.run(session, model.clone()).await;
    assert_eq!(status(&world, session).await, GoalStatus::Paused(PauseReason::Interrupted));
    assert_rests(&world, session, &model).await;
    assert_eq!(model.count(), 0);
}

#[tokio::test]
async fn t7_t11_a_goal_goes_on_headless_after_a_restart_and_its_opening_line_is_not_doubled() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "go on").await;
    // A worker that dies right after it asked the model.
    let mut turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    turn.begin_request(100).await.unwrap();
    drop(turn);
    let world = world.restarted().await;
    world.clock.advance_ms(policy::LEASE_MS + 1);
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => call("write_file", &json!({ "path": "done", "content": "yes" })),
            _ => call("goal_update", &json!({ "status": "completed" })),
        })
    }));
    let worked = world.engine(model.clone()).work(&runtime::Charge::All, true).await.unwrap();
    assert!(worked.failed.is_empty());
    assert_eq!(status(&world, session).await, GoalStatus::Completed);
    let opening = |request: &ModelRequest| {
        let texts = request.history.iter().filter_map(|message| match message {
            runtime::Message::User { text } => Some(text.as_str()),
            _ => None,
        });
        texts.filter(|text| text.starts_with("Continuation ")).count()
    };
    assert_eq!(opening(&model.requests()[0]), 1, "{:?}", model.requests()[0].history);
}

#[tokio::test]
async fn g12_after_completion_nothing_of_the_goal_runs() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.goal(session, "finish").await;
    // A retry waits, and the Goal would go on after it.
    let failing = scripted("[[response]]\nfailure = { kind = \"server_error\" }");
    world.engine(failing).step(session, Scope::All).await.unwrap();
    assert!(world.view(session).await.goal.unwrap().retry.is_some());
    let view = world.user.complete_goal(session, None, false).await.unwrap();
    assert_eq!(view.goal.unwrap().retry, None);
    let model = Probe::on(answering(|number, _| Ok(progress(number))));
    assert_rests(&world, session, &model).await;
    assert_eq!(model.count(), 0);
}

/// What the user does at a moment of a turn's admission.
#[derive(Debug, Clone, Copy)]
enum Act {
    Pause,
    Clear,
    Replace,
    Say,
}

#[tokio::test]
async fn t4_g13_what_the_user_does_around_an_admission_wins() {
    for act in [Act::Pause, Act::Clear, Act::Replace, Act::Say] {
        // Between every two steps of a worker: before it reads, between reading and admitting, and after it asked.
        for moment in 0..3 {
            let world = World::new().await;
            let session = world.session().await;
            let old = world.goal(session, "old").await;
            let apply = async || match act {
                Act::Pause => drop(world.user.pause_goal(session).await.unwrap()),
                Act::Clear => drop(world.user.cancel_goal(session).await.unwrap()),
                Act::Replace => {
                    let new = runtime::NewGoal {
                        objective: testkit::objective("new"),
                        criteria: None,
                        budgets: Budgets::default(),
                        replace: true,
                    };
                    world.user.set_goal(session, new).await.unwrap();
                }
                Act::Say => drop(world.say(session, "listen").await),
            };
            if moment == 0 {
                apply().await;
            }
            world.sessions.next(session).await.unwrap();
            if moment == 1 {
                apply().await;
            }
            let admitted = world
                .sessions
                .admit(session, &"scripted".parse().unwrap(), Scope::All, tests::MOST_REQUESTS)
                .await;
            let is_before = moment < 2;
            if let Ok(mut turn) = admitted {
                let begun = turn.begin_request(10).await;
                if moment == 2 {
                    apply().await;
                    let next = turn.stop_requested().await.unwrap();
                    assert_eq!(next.is_some(), !matches!(act, Act::Say), "{act:?}");
                }
                begun.unwrap();
                turn.finish(TurnOutcome::Stopped { reason: domain::StopReason::Shutdown }).await.unwrap();
            }
            let log = world.log(session).await;
            let causes: Vec<_> = log
                .iter()
                .filter_map(|event| match &event.body {
                    EventBody::TurnStarted { trigger, .. } => Some(trigger.clone()),
                    _ => None,
                })
                .collect();
            match (act, is_before) {
                (Act::Pause | Act::Clear, true) => assert_eq!(causes, [], "{act:?} at {moment}"),
                (Act::Say, true) => {
                    assert!(matches!(causes[..], [TurnTrigger::Input { .. }]), "{act:?} at {moment}");
                }
                (Act::Replace, true) => {
                    let of_new = |cause: &TurnTrigger| matches!(cause, TurnTrigger::Goal { goal_id, .. } if *goal_id != old);
                    assert!(causes.len() == 1 && causes.iter().all(of_new), "{act:?} at {moment}");
                }
                (_, false) => assert_eq!(causes.len(), 1, "{act:?} at {moment}"),
            }
        }
    }
}

#[tokio::test]
async fn g5_usage_that_is_missing_or_enormous_is_charged_once_and_never_wraps() {
    let world = World::new().await;
    let session = world.session().await;
    let budgets = Budgets { tokens: u64::MAX.try_into().unwrap(), ..Budgets::default() };
    world.goal_within(session, "count", budgets).await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            // No usage at all: estimated, and marked so.
            1 => progress(number),
            2 => spent(u64::MAX, u64::MAX, progress(number)),
            _ => text("done"),
        })
    }));
    world.run(session, model.clone()).await;
    let goal = world.view(session).await.goal.unwrap();
    assert_eq!((goal.status, goal.usage.tokens.charged()), (GoalStatus::BudgetLimited, u64::MAX));
    assert!(goal.usage.tokens.estimated);
    let charges = world
        .log(session)
        .await
        .into_iter()
        .filter(|event| matches!(event.body, EventBody::GoalCharged { .. }));
    assert_eq!((charges.count(), model.count()), (2, 2));
}

#[tokio::test]
async fn p19_an_unfinished_plan_beside_a_finished_goal_starts_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "finish").await;
    world.user.update_plan(session, &plan("a:completed b:in_progress c"), None).await.unwrap();
    world.user.complete_goal(session, None, false).await.unwrap();
    let model: Arc<Probe> = Probe::on(scripted("[exhausted]\ntext = \"on\""));
    let why = world.run(session, model.clone() as Arc<dyn Model>).await;
    assert_eq!(why, [Step::Idle { why: IdleReason::GoalCompleted }]);
    assert_rests(&world, session, &model).await;
}
