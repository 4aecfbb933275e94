//! What a Goal waits for, and what that costs: nothing, whoever is alive meanwhile.

use std::time::Duration;

use domain::{Actor, Event, EventBody};
use serde_json::{Value, json};
use tests::{Reply, is_alive, wait_until};

use crate::desk::{Desk, end_of, endings, signal};

/// Whether something stands in the last message before the work state, where the newest is.
fn was_told(request: &Value, text: &str) -> bool {
    let messages = request["messages"].as_array().unwrap();
    messages
        .iter()
        .rev()
        .take(2)
        .any(|message| message["content"].as_str().is_some_and(|said| said.contains(text)))
}

fn starters(log: &[Event]) -> Vec<&Actor> {
    let started = log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. }));
    started.map(|event| &event.actor).collect()
}

async fn goal(desk: &Desk) -> String {
    let id = desk.session().await.to_string();
    desk.answer(&["goal", "set", "Choose a format", "--session", &id, "--json"]).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn i4_a_question_outlives_the_worker_that_asked_and_waiting_for_the_answer_costs_nothing() {
    let desk = Desk::with_model(|number, request| match number {
        1 => Reply::call("ask_user", &json!({ "question": "Which format?", "options": ["JSON", "TOML"] })),
        2 if was_told(request, "TOML") => Reply::call("goal_update", &json!({ "status": "completed" })),
        _ => Reply::text("It is chosen."),
    })
    .await;
    let id = goal(&desk).await;
    let mut first = desk.start(&["goal", "run", "--session", &id]);
    loop {
        let listed = desk.answer(&["requests", "list", "--json"]).await;
        if listed["requests"].as_array().unwrap().len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = first.id().unwrap();
    first.kill().await.unwrap();
    wait_until("the worker is gone", || !is_alive(pid)).await;

    // Whoever looks for work meanwhile finds none, and asks no model.
    let idle = desk.zuno(&["goal", "run", "--once", "--session", &id]).await;
    assert_eq!(idle.code, Some(7), "{}{}", idle.out, idle.err);
    assert!(idle.err.contains("request 1 waits for your answer"), "{}", idle.err);
    assert_eq!(desk.server.bodies().len(), 1);

    let settled = desk.answer(&["requests", "answer", "1", "2", "--json"]).await;
    assert_eq!((&settled["changed"], &settled["outlook"]["goes_on"]), (&json!(true), &json!(true)));
    let done = desk.zuno(&["goal", "run", "--once", "--session", &id]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert_eq!(desk.server.bodies().len(), 3);
    let log = desk.log(id.parse().unwrap()).await;
    assert_eq!(endings(&log), ["1 waiting", "2 completed"]);
    let starters = starters(&log);
    assert_ne!(starters[0], starters[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_while_a_background_command_runs_the_model_is_asked_nothing_and_then_once() {
    let desk = Desk::with_model(|number, request| match number {
        1 => {
            let command = "while [ ! -e done ]; do sleep 0.05; done; echo built";
            Reply::call("shell", &json!({ "command": command, "background": true }))
        }
        2 => Reply::text("It builds."),
        3 if was_told(request, "Background command 1 ended: succeeded") && was_told(request, "built") => {
            Reply::call("goal_update", &json!({ "status": "completed" }))
        }
        _ => Reply::text("It is built."),
    })
    .await;
    let id = goal(&desk).await;
    let worker = desk.start(&["goal", "run", "--session", &id]);
    desk.asked(2).await;
    loop {
        let view = desk.answer(&["session", "show", "--session", &id, "--json"]).await;
        if view["next"]["what"]["type"] == "commands" {
            assert_eq!(view["outlook"]["because"], "the Goal waits for background command 1");
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Acts of others wake the worker, and it still asks nothing.
    for _ in 0..20 {
        desk.answer(&["goal", "budget", "--turns", "100", "--session", &id, "--json"]).await;
        desk.answer(&["goal", "budget", "--turns", "200", "--session", &id, "--json"]).await;
    }
    assert_eq!(desk.server.bodies().len(), 2);
    desk.world.write("done", "");
    desk.asked(4).await;
    signal(&worker, "TERM").await;
    let ended = end_of(worker).await;
    assert!(ended.code.is_some(), "{}{}", ended.out, ended.err);
    let log = desk.log(id.parse().unwrap()).await;
    let turns = log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count();
    assert_eq!(turns, 2, "{:?}", endings(&log));
}
