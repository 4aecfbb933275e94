//! Plan mode and Work mode around turns (M2, M4–M7).

use domain::{
    Actor, CallOutcome, Code, EventBody, GoalStatus, InputText, Mode, PauseReason, Revision, SessionId,
    TurnOutcome,
};
use policy::{IdleReason, NextAction};
use runtime::{CommandError, Step};
use serde_json::json;
use tests::{Probe, World, answering, call, scripted, story, text};

fn fine() -> std::sync::Arc<dyn runtime::Model> {
    scripted("[exhausted]\ntext = \"ok\"")
}

/// The agents of the turns so far.
async fn agents(world: &World, session: SessionId) -> Vec<String> {
    let log = world.log(session).await;
    let agent = |event: domain::Event| match event.body {
        EventBody::TurnStarted { agent, .. } => Some(agent.to_string()),
        _ => None,
    };
    log.into_iter().filter_map(agent).collect()
}

#[tokio::test]
async fn m2_plan_mode_runs_the_plan_agent_and_work_mode_the_one_from_before() {
    let world = World::new().await;
    let session = world.session().await;
    let turn = async || {
        world.say(session, "go").await;
        world.run(session, fine()).await;
    };
    turn().await;
    world.user.enter_plan(session).await.unwrap();
    turn().await;
    world.user.start_work(session, None, None).await.unwrap();
    turn().await;
    // Choosing an agent in Plan mode is for later.
    world.user.enter_plan(session).await.unwrap();
    let view = world.user.select_agent(session, "deep".parse().unwrap()).await.unwrap().mode_view();
    assert_eq!(view.agent.map(String::from).as_deref(), Some("plan"));
    assert_eq!(view.work_agent.map(String::from).as_deref(), Some("deep"));
    turn().await;
    world.user.start_work(session, None, None).await.unwrap();
    turn().await;
    assert_eq!(agents(&world, session).await, ["build", "plan", "build", "plan", "deep"]);
}

#[tokio::test]
async fn m4_start_work_checks_the_plan_revision_and_changes_nothing_when_it_differs() {
    let world = World::new().await;
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    world.plan(session, "a:in_progress b").await;
    let events = world.log(session).await.len();
    let prompt = || Some(InputText::parse("go ahead").unwrap());
    let started = world.user.start_work(session, Some(Revision(7)), prompt()).await;
    let Err(CommandError::Rejected(refused)) = started else { panic!("{started:?}") };
    assert_eq!((refused.code, refused.current_revision), (Code::RevisionConflict, Some(Revision(1))));
    insta::assert_snapshot!(refused, @"revision_conflict: the plan to start was revision 7, current is 1; look at it again. Steps: a in_progress · b pending. The current revision is 1.");
    assert_eq!(world.log(session).await.len(), events);

    // With the right one the prompt comes in the same commit, and runs in Work mode.
    let view = world.user.start_work(session, Some(Revision(1)), prompt()).await.unwrap();
    assert_eq!((view.mode, view.queued_inputs), (Mode::Work, 1));
    world.run(session, fine()).await;
    assert_eq!(agents(&world, session).await, ["build"]);
    // In Work mode it is a no-op, and without a plan it works too.
    let events = world.log(session).await.len();
    world.user.start_work(session, None, None).await.unwrap();
    assert_eq!(world.log(session).await.len(), events);
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    let view = world.user.start_work(session, None, None).await.unwrap();
    assert_eq!((view.mode, view.plan), (Mode::Work, None));
}

#[tokio::test]
async fn m4_start_work_lifts_the_pause_of_plan_mode_and_no_other() {
    let world = World::new().await;
    let status = async |session| world.view(session).await.goal.unwrap().status;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    world.user.enter_plan(session).await.unwrap();
    assert_eq!(status(session).await, GoalStatus::Paused(PauseReason::PlanMode));
    // Idempotent: once more is nothing at all.
    let events = world.log(session).await.len();
    world.user.enter_plan(session).await.unwrap();
    assert_eq!(world.log(session).await.len(), events);
    world.user.start_work(session, None, None).await.unwrap();
    assert_eq!(status(session).await, GoalStatus::Active);
    assert!(matches!(world.view(session).await.next, NextAction::RunGoal { .. }));

    // A pause that was there before is kept, and so is one that the user makes in Plan mode.
    for pause_first in [true, false] {
        let session = world.session().await;
        world.goal(session, "reach it").await;
        if pause_first {
            world.user.pause_goal(session).await.unwrap();
        }
        world.user.enter_plan(session).await.unwrap();
        if !pause_first {
            world.user.pause_goal(session).await.unwrap();
        }
        world.user.start_work(session, None, None).await.unwrap();
        assert_eq!(status(session).await, GoalStatus::Paused(PauseReason::User));
    }
}

#[tokio::test]
async fn m5_nothing_makes_a_goal_active_in_plan_mode() {
    let world = World::new().await;
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    world.goal(session, "reach it").await;
    let held = Step::Idle { why: IdleReason::GoalPaused { pause: PauseReason::PlanMode } };
    assert_eq!(world.run(session, fine()).await.as_slice(), std::slice::from_ref(&held));
    world.user.pause_goal(session).await.unwrap();
    world.user.resume_goal(session).await.unwrap();
    assert_eq!(world.run(session, fine()).await, [held]);
    // The user's word still runs, and the plan agent answers; the Goal is not charged for it.
    world.say(session, "what would you do?").await;
    world.run(session, fine()).await;
    assert_eq!(agents(&world, session).await, ["plan"]);
    assert_eq!(world.view(session).await.goal.unwrap().usage, domain::GoalUsage::default());
}

#[tokio::test]
async fn m6_a_plan_mode_turn_that_tries_to_write_is_denied_each_time_and_goes_on() {
    let world = World::new().await;
    world.git();
    world.write("src.txt", "one\n");
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    world.say(session, "just change it").await;
    let model = Probe::on(scripted(
        r#"
        [[response]]
        [[response.call]]
        tool = "write_file"
        arguments = { path = "src.txt", content = "two" }

        [[response]]
        expect = "denied"
        [[response.call]]
        tool = "edit_file"
        arguments = { path = "src.txt", old_string = "one", new_string = "two" }
        [[response.call]]
        tool = "shell"
        arguments = { command = "echo two > src.txt" }

        [[response]]
        expect = "denied"
        [[response.call]]
        tool = "read_file"
        arguments = { path = "src.txt" }

        [[response]]
        expect = "one"
        text = "I would replace one by two."
        "#,
    ));
    let steps = world.run(session, model.clone()).await;
    assert!(matches!(steps[0], Step::Ran { outcome: TurnOutcome::Completed, .. }), "{steps:?}");
    assert_eq!(world.read("src.txt"), "one\n");
    let results = world.results(session).await;
    let outcomes: Vec<_> = results.iter().map(|(_, outcome, _)| *outcome).collect();
    let denied = CallOutcome::Denied;
    assert_eq!(outcomes, [denied, denied, denied, CallOutcome::Succeeded]);
    let texts: Vec<_> = results[..3].iter().map(|(_, _, text)| text.as_str()).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    denied: `write_file` needs write_workspace, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do
    denied: `edit_file` needs write_workspace, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do
    denied: `shell` needs run_command, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do
    ");
    let log = world.log(session).await;
    let admitted = log.iter().filter(|event| matches!(event.body, EventBody::CallAdmitted { .. })).count();
    assert_eq!(admitted, 1, "only the read: {}", story(&log));
    // Nor were these tools on offer.
    for request in model.requests() {
        let offered: Vec<_> = request.tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert!(
            !offered.iter().any(|name| matches!(*name, "write_file" | "edit_file" | "shell")),
            "{offered:?}"
        );
    }
}

#[tokio::test]
async fn m7_mode_changes_and_who_made_them_are_in_the_log() {
    let world = World::new().await;
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    let (_, editor) = runtime::open(world.store.clone(), "editor".parse().unwrap());
    editor.start_work(session, None, None).await.unwrap();
    let changes: Vec<_> = world
        .log(session)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::ModeChanged { mode } => Some((mode, event.actor)),
            _ => None,
        })
        .collect();
    let user = |client: &str| Actor::User { client: client.parse().unwrap() };
    assert_eq!(changes, [(Mode::Plan, user("test")), (Mode::Work, user("editor"))]);
}

#[tokio::test]
async fn m1_nothing_that_a_model_says_or_calls_changes_the_mode() {
    let world = World::new().await;
    for mode in [Mode::Work, Mode::Plan] {
        let session = world.session().await;
        if mode == Mode::Plan {
            world.user.enter_plan(session).await.unwrap();
        }
        world.say(session, "go").await;
        let tries = [
            ("enter_plan", json!({})),
            ("start_work", json!({})),
            ("mode", json!({ "mode": "work" })),
            ("plan_update", {
                let mut update = tests::plan("a:in_progress b");
                update["mode"] = json!("plan");
                update["collaboration_mode"] = json!("work");
                update
            }),
            ("goal_update", json!({ "status": "completed", "mode": "work" })),
        ];
        let last = tries.len() + 1;
        let model = Probe::on(answering(move |number, _| {
            Ok(match tries.get(number - 1) {
                Some((tool, arguments)) => call(tool, arguments),
                None => text("Entering Plan mode. Starting work. /work"),
            })
        }));
        world.run(session, model.clone()).await;
        assert_eq!(model.count(), last);
        assert_eq!(world.view(session).await.mode, mode);
        let offered: Vec<_> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
        assert!(!offered.iter().any(|name| name.contains("mode") || name.contains("work")), "{offered:?}");
    }
}
