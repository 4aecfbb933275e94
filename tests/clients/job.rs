//! The main job on real input: a model behind HTTP edits a file of a git repository, runs its test and keeps its plan.

use std::fs;
use std::process::Command;

use domain::{EventBody, TurnTrigger};
use serde_json::{Value, json};

use crate::desk::{Desk, KEY, endings, files_beneath, finished};
use crate::greeter::{self, is_work_state};

const PROMPT: &str = "Make greet.sh pass test.sh.";
/// With characters that have a meaning in JSON, XML and Markdown.
const OBJECTIVE: &str = "Make greet.sh greet \"properly\" <& pass test.sh>, ticket GREET-7";

fn in_workspace(desk: &Desk, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(desk.world.workspace()).output().unwrap();
    format!("{}{}", output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout))
}

#[tokio::test(flavor = "multi_thread")]
async fn run_lets_a_model_edit_test_and_drive_its_plan_to_the_end() {
    let desk = Desk::with_model(|_, request| greeter::in_one_turn(request)).await;
    assert!(in_workspace(&desk, "sh", &["test.sh"]).starts_with("1said: Hallo Ada"));

    let done = desk.zuno(&["run", PROMPT]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);

    // The repository: the repair is there, its test passes, and Zuno left nothing of its own.
    assert_eq!(desk.world.read("greet.sh"), "#!/bin/sh\n# Greets whoever is named.\necho \"Hello, $1!\"\n");
    assert!(in_workspace(&desk, "sh", &["test.sh"]).starts_with("0said: Hello, Ada!"));
    assert_eq!(in_workspace(&desk, "git", &["status", "--porcelain"]), "0 M greet.sh\n");

    // Standard output is what the model said, and nothing else.
    let said = "First a look at what there is.\n\nIt says hello to Ada as its test wants it.\n";
    assert_eq!(done.out.split_whitespace().collect::<Vec<_>>(), said.split_whitespace().collect::<Vec<_>>());
    for told in ["greet.sh", "sh test.sh"] {
        assert!(done.err.contains(told), "{told} is not told: {}", done.err);
    }

    let session = desk.latest().await.to_string();
    let plan = desk.answer(&["plan", "show", "--session", &session, "--json"]).await;
    assert_eq!((&plan["revision"], &plan["title"]), (&json!(4), &json!("Greet as the test expects")));
    let statuses: Vec<_> = plan["steps"].as_array().unwrap().iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses, ["completed"; 3]);
    let log = desk.log(session.parse().unwrap()).await;
    assert_eq!(endings(&log), ["1 completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_as_json_is_the_log_line_by_line_and_a_last_line() {
    let desk = Desk::with_model(|_, request| greeter::in_one_turn(request)).await;
    let done = desk.zuno(&["run", PROMPT, "--json"]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, events) = lines.split_last().unwrap();
    assert_eq!((&last["outcome"]["type"], &last["exit"]), (&json!("completed"), &json!(0)));
    let log = desk.log(last["session"].as_str().unwrap().parse().unwrap()).await;
    let of_log: Vec<_> = log.iter().map(|event| json!(event.seq)).collect();
    let told: Vec<_> = events.iter().map(|event| event["seq"].clone()).collect();
    assert!(of_log.ends_with(&told) && told.len() > 20, "{told:?}");
}

/// Checks what every request of a session has to be, whatever it is about.
fn check_requests(bodies: &[String]) {
    for body in bodies {
        let request: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&request["model"], &request["stream"]), (&json!("small-1"), &json!(true)));
        let tools = request["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        for name in ["read_file", "edit_file", "shell", "plan_update", "goal_update"] {
            assert!(names.contains(&name), "{name} is not offered: {names:?}");
        }
        assert_eq!(request["messages"][0]["role"], "system");
    }
    for pair in bodies.windows(2) {
        assert!(pair[1].starts_with(up_to_work_state(&pair[0])), "{}\n\n{}", pair[0], pair[1]);
    }
}

/// The bytes of a request up to the end of its history: tools, system text and messages, in this order.
fn up_to_work_state(body: &str) -> &str {
    assert!(body.find("\"tools\":").unwrap() < body.find("\"messages\":").unwrap());
    let section = body.rfind(",{\"role\":\"user\",\"content\":\"<work_state>");
    // Without a section the history ends where the messages do.
    &body[..section.unwrap_or_else(|| body.rfind("],").unwrap())]
}

#[tokio::test(flavor = "multi_thread")]
async fn v3_a_request_begins_like_the_one_before_it_and_ends_with_the_work_state() {
    let desk = Desk::with_model(|_, request| greeter::in_one_turn(request)).await;
    let done = desk.zuno(&["run", PROMPT]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let requests = desk.requests();
    assert_eq!(requests.len(), 7);
    check_requests(&desk.server.bodies());
    for (number, request) in (1_u64..).zip(&requests) {
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(request["messages"].to_string().matches(PROMPT).count(), 1);
        let sections: Vec<_> = messages.iter().filter(|message| is_work_state(message)).collect();
        if number == 1 {
            // There is nothing to show before the plan.
            assert_eq!(sections, [&json!(null); 0]);
            continue;
        }
        assert_eq!(sections, [messages.last().unwrap()]);
        let section = sections[0]["content"].as_str().unwrap();
        assert!(section.contains("inspect") && section.contains("revision"), "{section}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_in_the_header_of_a_request_and_nowhere_else() {
    let desk = Desk::with_model(|_, request| greeter::in_one_turn(request)).await;
    let mut command = desk.command(&["run", PROMPT]);
    // Everything that could be logged.
    command.env("ZUNO_LOG", "trace");
    let done = finished(command).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert!(done.err.contains("TRACE") || done.err.contains("DEBUG"), "nothing was logged");
    for head in desk.server.heads() {
        assert!(head.contains(&format!("Bearer {KEY}")), "the server got no key: {head}");
    }
    for text in desk.server.bodies().iter().chain([&done.out, &done.err]) {
        assert!(!text.contains(KEY), "{text}");
    }
    let files = files_beneath(&desk.home());
    assert!(files.contains(&desk.world.store_path()), "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "the key is in {}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g14_a_goal_is_worked_on_in_turns_and_each_request_has_its_objective_once() {
    let desk = Desk::with_model(|_, request| greeter::in_three_turns(request)).await;
    let session = desk.session().await;
    let id = session.to_string();
    let goal = desk.answer(&["goal", "set", OBJECTIVE, "--session", &id, "--json"]).await;
    assert_eq!(goal["status"], "active");

    let done = desk.zuno(&["goal", "run", "--session", &id, "--once"]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);

    assert!(in_workspace(&desk, "sh", &["test.sh"]).starts_with("0said: Hello, Ada!"));
    let log = desk.log(session).await;
    let triggers = log.iter().filter_map(|event| match &event.body {
        EventBody::TurnStarted { trigger: TurnTrigger::Goal { continuation, .. }, .. } => Some(*continuation),
        EventBody::TurnStarted { trigger: TurnTrigger::Input { .. }, .. } => Some(0),
        _ => None,
    });
    assert_eq!(triggers.collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(endings(&log), ["1 completed", "2 completed", "3 completed"]);
    let shown = desk.answer(&["session", "show", "--session", &id, "--json"]).await;
    assert_eq!(
        (&shown["goal"]["status"], &shown["goal"]["unfinished_steps"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!((&shown["plan"]["completed"], &shown["plan"]["total"]), (&json!(3), &json!(3)));
    assert_eq!(shown["goal"]["usage"]["turns"], 3);

    let requests = desk.requests();
    let bodies = desk.server.bodies();
    // The last answer after the end of a Goal is one without tools.
    check_requests(&bodies[..bodies.len() - 1]);
    for request in &requests {
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(request["messages"].to_string().matches("GREET-7").count(), 1);
        assert!(is_work_state(messages.last().unwrap()), "{messages:#?}");
        assert!(messages.last().unwrap()["content"].as_str().unwrap().contains("GREET-7"));
    }
}
