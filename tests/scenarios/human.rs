//! Questions to a person and leave for calls: durable, answered once, from anywhere (I4).

use std::sync::Arc;

use agents::{PermissionRule, PermissionRules, RuleEntry, Verdict};
use domain::{
    Answer, Asked, BlockCode, CallOutcome, GoalStatus, InputText, PauseReason, RequestId, TurnOutcome,
};
use policy::IdleReason;
use runtime::{Asking, Message, ModelRequest, Scope, Step};
use serde_json::json;
use tests::{Probe, Shop, World, answering, call, calls, story, text};

fn asks_about(command: &str) -> Shop {
    let entry =
        RuleEntry { verdict: Verdict::Ask, tool: None, path: None, command: Some(command.to_owned()) };
    let rule = PermissionRule::new("rule 1", &entry).unwrap();
    Shop { rules: Arc::new(PermissionRules::new(vec![rule]).unwrap()), ..Shop::default() }
}

fn words(text: &str) -> Answer {
    Answer::Text { text: InputText::parse(text).unwrap() }
}

fn said(request: &ModelRequest, words: &str) -> usize {
    let holds = |message: &&Message| matches!(message, Message::User { text } if text.contains(words));
    request.history.iter().filter(holds).count()
}

#[tokio::test]
async fn i4_g9_a_question_ends_the_turn_pauses_the_goal_and_its_answer_goes_on_after_a_restart() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "choose").await;
    let model = Probe::on(answering(|number, request| {
        Ok(match number {
            1 => calls(&[
                ("ask_user", json!({ "question": "Which one?", "options": ["red", "blue"] }).to_string()),
                ("write_file", json!({ "path": "early", "content": "no" }).to_string()),
            ]),
            2 => {
                assert_eq!(said(request, "blue"), 1, "{:?}", request.history);
                call("goal_update", &json!({ "status": "completed", "summary": "blue" }))
            }
            _ => text("Blue it is."),
        })
    }));
    let steps = world.run(session, model.clone()).await;
    let request = RequestId(1);
    assert_eq!(
        steps,
        [
            Step::Ran { turn: domain::TurnNumber(1), outcome: TurnOutcome::Waiting { request } },
            Step::Idle { why: IdleReason::GoalPaused { pause: PauseReason::HumanInput { request } } },
        ]
    );
    // The sibling did not run.
    assert!(!world.path("early").exists());
    let outcomes: Vec<_> = world.results(session).await.iter().map(|(_, outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Waiting, CallOutcome::NotRun]);
    let world = world.restarted().await;
    let asked = world.view(session).await.requests;
    assert!(
        matches!(&asked[..], [one] if matches!(&one.asked, Asked::Input { options, .. } if options.len() == 2))
    );
    world.user.answer(session, request, words("blue")).await.unwrap();
    // A second answer is too late and changes nothing.
    let before = world.log(session).await.len();
    world.user.answer(session, request, words("red")).await.unwrap();
    assert_eq!(world.log(session).await.len(), before);
    world.run(session, model.clone()).await;
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Completed);
}

#[tokio::test]
async fn i4_an_allowed_call_runs_once_before_the_model_is_asked_again() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "publish").await;
    let model = Probe::on(answering(|number, request| {
        Ok(match number {
            1 => call("shell", &json!({ "command": "publish() { echo published >> log; }; publish" })),
            2 => {
                assert_eq!(said(request, "The user allowed the call of `shell`, once. It succeeded"), 1);
                text("It is out.")
            }
            _ => text("?"),
        })
    }));
    let engine = world.engine_in(model.clone(), asks_about("publish*"));
    let steps = world.run_engine(session, &engine).await;
    let request = RequestId(1);
    assert_eq!(steps[1], Step::Idle { why: IdleReason::AwaitingAnswer { request } });
    assert!(!world.path("log").exists());
    world.user.answer(session, request, Answer::Allow).await.unwrap();
    world.run_engine(session, &engine).await;
    assert_eq!(world.read("log"), "published\n");
    assert_eq!(model.count(), 2, "{}", story(&world.log(session).await));
}

#[tokio::test]
async fn i4_a_worker_that_dies_in_an_allowed_call_does_not_run_it_again() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "publish").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => call("shell", &json!({ "command": "publish() { echo published >> log; }; publish" })),
            _ => text("I see."),
        })
    }));
    let engine = world.engine_in(model.clone(), asks_about("publish*"));
    world.run_engine(session, &engine).await;
    world.user.answer(session, RequestId(1), Answer::Allow).await.unwrap();
    // The worker admits the call and is gone before it has a result.
    let mut turn = world
        .sessions
        .admit(session, &"scripted".parse().unwrap(), Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    let call = domain::CallRef { turn: turn.number(), request: 0, index: 0 };
    let all = domain::CapabilitySet::of(&domain::Capability::ALL);
    let grant = policy::CallGrant {
        requires: all,
        grant: all,
        tool_is_allowed: true,
        permission: policy::Permission::Ask { because: "rule 1 asks".to_owned() },
    };
    turn.admit_call(call, grant, domain::Effect::Command { confined: false }).await.unwrap();
    drop(turn);
    world.clock.advance_ms(policy::LEASE_MS + 1);
    world.run_engine(session, &engine).await;
    assert!(!world.path("log").exists(), "it ran again");
    let outcomes: Vec<_> = world.results(session).await.iter().map(|(_, outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Waiting, CallOutcome::Uncertain]);
}

#[tokio::test]
async fn i4_the_third_denial_of_one_call_blocks_the_goal() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "publish").await;
    let model = Probe::on(answering(|_, _| Ok(call("shell", &json!({ "command": "publish it" })))));
    let engine = world.engine_in(model.clone(), asks_about("publish*"));
    for number in 1..=3 {
        world.run_engine(session, &engine).await;
        let request = RequestId(number);
        let paused = GoalStatus::Paused(PauseReason::Permission { request });
        assert_eq!(world.view(session).await.goal.unwrap().status, paused);
        world.user.answer(session, request, Answer::Deny { reason: None }).await.unwrap();
    }
    let status = world.view(session).await.goal.unwrap().status;
    assert!(matches!(status, GoalStatus::Blocked { code: BlockCode::PermissionDenied, .. }), "{status:?}");
    world.run_engine(session, &engine).await;
    assert_eq!(model.count(), 3);
}

#[tokio::test]
async fn i4_with_nobody_there_what_needs_leave_is_denied_at_once_and_says_what_to_do() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "publish").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => calls(&[
                ("shell", json!({ "command": "publish it" }).to_string()),
                ("ask_user", json!({ "question": "May I?" }).to_string()),
            ]),
            _ => text("I could not."),
        })
    }));
    let asking = Asking::Nobody { hint: "Run it with --allow.".to_owned() };
    let engine = world.engine_in(model.clone(), Shop { asking, ..asks_about("publish*") });
    let steps = world.run_engine(session, &engine).await;
    assert!(matches!(steps[0], Step::Ran { outcome: TurnOutcome::Completed, .. }), "{steps:?}");
    let results = world.results(session).await;
    assert!(results.iter().all(|(_, outcome, _)| *outcome == CallOutcome::Denied), "{results:?}");
    assert!(results[0].2.contains("Run it with --allow."), "{}", results[0].2);
    assert!(world.view(session).await.requests.is_empty());
}

#[tokio::test]
async fn g3_a_proposed_goal_starts_nothing_until_the_user_accepts_it() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "plan the migration").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => {
                call("goal_propose", &json!({ "objective": "migrate all tables", "criteria": "tests pass" }))
            }
            2 => text("I propose a Goal."),
            3 => call("goal_update", &json!({ "status": "completed" })),
            _ => text("Done."),
        })
    }));
    let steps = world.run(session, model.clone()).await;
    assert_eq!(steps[1], Step::Idle { why: IdleReason::GoalProposed });
    world.user.accept_goal(session, None).await.unwrap();
    world.run(session, model.clone()).await;
    let goal = world.view(session).await.goal.unwrap();
    assert_eq!(
        (goal.status, goal.objective.as_str(), model.count()),
        (GoalStatus::Completed, "migrate all tables", 4)
    );
}
