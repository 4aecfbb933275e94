//! Waits that spend nothing, and commands that run beside turns (G10, I5).

use std::sync::Arc;
use std::time::Duration;

use domain::{EventBody, GoalStatus, PauseReason, SessionId, TurnTrigger};
use policy::{Awaited, IdleReason};
use runtime::{Engine, ModelRequest, Scope, Step};
use serde_json::json;
use tests::{Probe, World, answering, call, calls, story, text};

const HOUR_MS: i64 = 60 * 60 * 1_000;

/// Turns that were admitted for the Goal, whatever opened them.
async fn turns(world: &World, session: SessionId) -> usize {
    let log = world.log(session).await;
    log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count()
}

/// Steps until the session has nothing to do at this moment.
async fn settle(engine: &Engine, session: SessionId) -> Step {
    for _ in 0..20 {
        match engine.step(session, Scope::All).await.unwrap() {
            Step::Ran { .. } | Step::Recovered { .. } => {}
            step => return step,
        }
    }
    panic!("it never rests");
}

/// Waits until the log says that every background command is over.
async fn command_ends(world: &World, session: SessionId) {
    for _ in 0..2_000 {
        let log = world.log(session).await;
        let count = |is_one: fn(&EventBody) -> bool| log.iter().filter(|event| is_one(&event.body)).count();
        let ended = count(|body| matches!(body, EventBody::CommandEnded { .. }));
        if ended == count(|body| matches!(body, EventBody::CommandStarted { .. })) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the command does not end");
}

/// Starts a command that ends when the file `go` appears, waits for it, and completes the Goal with what it reported.
fn waits_for_command(number: usize, request: &ModelRequest) -> runtime::ModelResponse {
    let reported = request.history.iter().any(|message| {
        matches!(message, runtime::Message::User { text } if text.contains("Background command 1 ended"))
    });
    match number {
        1 => call(
            "shell",
            &json!({ "command": "until [ -e go ]; do sleep 0.02; done; echo built", "background": true }),
        ),
        2 => call(
            "goal_wait",
            &json!({ "until": "command", "command": 1, "seconds": 86_400, "note": "the build" }),
        ),
        3 => text("I wait for the build."),
        4 => {
            assert!(reported, "{:?}", request.history);
            call("goal_update", &json!({ "status": "completed", "summary": "built" }))
        }
        _ => text("It is built."),
    }
}

#[tokio::test]
async fn g10_ten_hours_of_waiting_for_a_command_cost_no_model_call_and_end_in_one_admission() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "build it").await;
    let model = Probe::on(answering(|number, request| Ok(waits_for_command(number, request))));
    let engine = world.engine(model.clone());
    let step = settle(&engine, session).await;
    assert!(matches!(step, Step::WaitFor { what: Awaited::Condition { .. }, .. }), "{step:?}");
    let (asked, before) = (model.count(), turns(&world, session).await);
    // The command's owner keeps its lease by its own clock; here it moves an hour at a time.
    for _ in 0..10 {
        world.clock.advance_ms(HOUR_MS);
        tokio::time::sleep(Duration::from_millis(600)).await;
        let step = settle(&engine, session).await;
        assert!(matches!(step, Step::WaitFor { .. }), "{step:?}");
    }
    assert_eq!(model.count(), asked, "a model call while it waited");
    world.write("go", "");
    command_ends(&world, session).await;
    assert_eq!(settle(&engine, session).await, Step::Idle { why: IdleReason::GoalCompleted });
    assert_eq!(turns(&world, session).await, before + 1);
    // Waiting is no active time.
    let spent = world.view(session).await.goal.unwrap().usage.active_ms;
    assert!(spent < 60_000, "{spent} ms");
    engine.close().await;
}

#[tokio::test]
async fn g10_i5_a_running_command_of_the_goal_is_an_implicit_wait_and_its_report_goes_on() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "build it").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => call(
                "shell",
                &json!({ "command": "until [ -e go ]; do sleep 0.02; done", "background": true }),
            ),
            2 => text("It runs."),
            3 => call("goal_update", &json!({ "status": "completed" })),
            _ => text("Done."),
        })
    }));
    let engine = world.engine(model.clone());
    let step = settle(&engine, session).await;
    assert!(matches!(step, Step::WaitFor { what: Awaited::Commands { .. }, .. }), "{step:?}");
    world.write("go", "");
    command_ends(&world, session).await;
    settle(&engine, session).await;
    let view = world.view(session).await;
    assert_eq!((view.goal.unwrap().status, model.count()), (GoalStatus::Completed, 4));
    engine.close().await;
}

#[tokio::test]
async fn i5_a_command_without_a_goal_reports_to_the_next_turn_and_starts_none() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "start it").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            // Each report is answered with another command, which must not become a loop.
            1 | 3 => call("shell", &json!({ "command": "echo over", "background": true })),
            _ => text("It runs."),
        })
    }));
    let engine = world.engine(model.clone());
    settle(&engine, session).await;
    command_ends(&world, session).await;
    assert!(matches!(settle(&engine, session).await, Step::Idle { .. }));
    assert_eq!(model.count(), 2);
    world.say(session, "and?").await;
    settle(&engine, session).await;
    let history = &model.requests()[2].history;
    let reported = |message: &runtime::Message| matches!(message, runtime::Message::User { text } if text.contains("Background command 1 ended: succeeded"));
    assert_eq!(history.iter().filter(|message| reported(message)).count(), 1, "{history:?}");
    engine.close().await;
}

#[tokio::test]
async fn g10_a_wait_for_a_file_is_looked_at_and_its_deadline_ends_it() {
    for changes in [true, false] {
        let world = World::new().await;
        let session = world.session().await;
        world.goal(session, "watch").await;
        let model = Probe::on(answering(|number, _| {
            Ok(match number {
                1 => call("goal_wait", &json!({ "until": "file", "path": "result", "seconds": 600 })),
                2 => text("I wait."),
                3 => call("goal_update", &json!({ "status": "completed" })),
                _ => text("Done."),
            })
        }));
        let engine = world.engine(model.clone());
        settle(&engine, session).await;
        // Looks that find nothing cost nothing.
        for _ in 0..5 {
            world.clock.advance_ms(policy::LOOK_MS);
            let step = settle(&engine, session).await;
            assert!(matches!(step, Step::WaitFor { .. }), "{step:?}");
        }
        assert_eq!(model.count(), 2);
        if changes {
            world.write("result", "there");
            world.clock.advance_ms(policy::LOOK_MS);
        } else {
            world.clock.advance_ms(600_000);
        }
        settle(&engine, session).await;
        assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Completed);
        let opening = model.requests()[2].history.iter().rev().find_map(|message| match message {
            runtime::Message::User { text } => Some(text.clone()),
            _ => None,
        });
        let told = if changes {
            "You waited for a change of result, and it is there."
        } else {
            "the deadline passed"
        };
        assert!(opening.as_deref().unwrap_or_default().contains(told), "{opening:?}");
    }
}

#[tokio::test]
async fn g10_a_wait_survives_a_pause_and_a_restart_and_the_user_can_drop_it() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "wait").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => call("goal_wait", &json!({ "until": "time", "seconds": 3_600 })),
            2 => text("I wait."),
            3 => call("goal_update", &json!({ "status": "completed" })),
            _ => text("Done."),
        })
    }));
    settle(&world.engine(model.clone()), session).await;
    world.user.pause_goal(session).await.unwrap();
    let world = world.restarted().await;
    world.user.resume_goal(session).await.unwrap();
    let step = settle(&world.engine(model.clone()), session).await;
    assert!(matches!(step, Step::WaitUntil { .. }), "{step:?}");
    assert_eq!(model.count(), 2);
    // Once more: what is left to drop is the wait.
    world.user.resume_goal(session).await.unwrap();
    settle(&world.engine(model.clone()), session).await;
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Completed);
}

#[tokio::test]
async fn g12_completion_is_refused_while_a_command_runs_and_a_stopped_one_is_no_obstacle() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "serve").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 => call("shell", &json!({ "command": "sleep 600", "background": true })),
            2 => calls(&[
                ("goal_update", json!({ "status": "completed" }).to_string()),
                ("command_stop", json!({ "command": 1 }).to_string()),
                ("goal_update", json!({ "status": "completed" }).to_string()),
            ]),
            _ => text("Done."),
        })
    }));
    let engine = world.engine(model.clone());
    settle(&engine, session).await;
    let results = world.results(session).await;
    assert!(
        results[1].2.contains("open_work") && results[1].2.contains("1 running background command"),
        "{results:?}"
    );
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Completed);
    command_ends(&world, session).await;
    // The report of a Goal that ended has no reader.
    let log = world.log(session).await;
    assert!(!log.iter().any(|event| matches!(event.body, EventBody::InputQueued { .. })), "{}", story(&log));
    engine.close().await;
}

#[tokio::test]
async fn g10_i1_a_word_to_a_running_turn_joins_it_and_one_too_late_becomes_a_prompt() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let gate = tests::Gate::default();
    let model = Probe::gated(
        answering(|number, _| {
            Ok(match number {
                1 => call("list_dir", &json!({ "path": "." })),
                _ => text("Well."),
            })
        }),
        &gate,
    );
    let engine = Arc::new(world.engine(model.clone()));
    let running = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { settle(&engine, session).await }
    });
    let steer = async |words: &str| {
        let text = domain::InputText::parse(words).unwrap();
        let prompt = runtime::Prompt { text, delivery: runtime::Delivery::Steer, resume: false };
        world.user.submit(session, prompt, None).await.unwrap()
    };
    gate.arrival().await;
    steer("look at the tests too").await;
    gate.open();
    gate.arrival().await;
    // The turn's last request is under way: it takes no more.
    steer("and the docs").await;
    gate.open();
    gate.arrival().await;
    gate.open();
    running.await.unwrap();
    let log = world.log(session).await;
    let triggers: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnStarted { trigger: TurnTrigger::Input { rows }, .. } => Some(rows.len()),
            _ => None,
        })
        .collect();
    assert_eq!(triggers, [1, 1], "{}", story(&log));
    let told = |request: &ModelRequest, words: &str| {
        request
            .history
            .iter()
            .any(|message| matches!(message, runtime::Message::User { text } if text == words))
    };
    let requests = model.requests();
    assert!(!told(&requests[0], "look at the tests too") && told(&requests[1], "look at the tests too"));
    assert!(!told(&requests[1], "and the docs") && told(&requests[2], "and the docs"));
}

/// Turns of a Goal that does nothing but wait for this, until it stops by itself. The wait is over after each: a file
/// changed, and time passed.
async fn turns_of_waits(wait: serde_json::Value) -> usize {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "wait").await;
    let engine = world.engine(answering(move |number, _| {
        Ok(if number % 2 == 1 { call("goal_wait", &wait) } else { text("I wait.") })
    }));
    for turns in 0..20 {
        let status = world.view(session).await.goal.unwrap().status;
        if status != GoalStatus::Active {
            assert_eq!(status, GoalStatus::Paused(PauseReason::NoProgress));
            return turns;
        }
        settle(&engine, session).await;
        world.write("result", &turns.to_string());
        world.clock.advance_ms(61_000);
    }
    panic!("it waits for ever");
}

#[tokio::test]
async fn g7_g10_a_goal_that_watches_goes_on_while_what_it_watches_changes_ten_times_and_no_longer() {
    // The first wait and each change that was waited for are something new; three turns with nothing else end it.
    assert_eq!(turns_of_waits(json!({ "until": "file", "path": "result", "seconds": 3600 })).await, 13);
}

#[tokio::test]
async fn g7_g10_a_wait_for_time_is_progress_once() {
    assert_eq!(turns_of_waits(json!({ "until": "time", "seconds": 60 })).await, 4);
}

#[tokio::test]
async fn g7_g10_commands_of_their_own_are_progress_each() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "try").await;
    let model = Probe::on(answering(|number, _| {
        Ok(match number {
            1 | 3 | 5 | 7 => {
                call("shell", &json!({ "command": format!("exit {number}"), "background": true }))
            }
            9 => call("goal_update", &json!({ "status": "completed" })),
            _ => text("It runs."),
        })
    }));
    let engine = world.engine(model.clone());
    for _ in 0..5 {
        settle(&engine, session).await;
        command_ends(&world, session).await;
    }
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Completed);
    engine.close().await;
}
