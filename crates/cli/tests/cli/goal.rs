//! `zuno goal`: setting, steering and the worker.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::world::{Done, World, signal, wait_for};

/// Plans in the first turn, works in the second, completes in the third.
pub(crate) const THREE_TURNS: &str = r#"
[[response]]
text = "Planning."
[[response.call]]
tool = "plan_update"
arguments = { title = "Greet", steps = [{ id = "write", title = "Write it", status = "in_progress" }] }
[[response]]
text = "Planned."
[[response]]
[[response.call]]
tool = "write_file"
arguments = { path = "hello.txt", content = "hello\n" }
[[response]]
text = "Written."
[[response]]
[[response.call]]
tool = "goal_update"
arguments = { status = "completed", summary = "greeted" }
[[response]]
text = "All done."
"#;

/// One turn that takes its time, and then some more.
const SLOW: &str = r#"
[[response]]
[[response.call]]
tool = "shell"
arguments = { command = "touch started; exec sleep 60" }
[exhausted]
text = "done"
"#;

#[test]
fn a_goal_is_active_at_once_and_moves_by_the_users_acts() {
    let world = World::new();
    world.session();
    world.run(&["goal", "show"]).expect(4);
    let set = world.run(&["goal", "set", "Reach it", "--criteria", "It is there", "--turns", "3", "--json"]);
    let goal = set.expect(0).json();
    assert_eq!((&goal["status"], &goal["criteria"]), (&json!("active"), &json!("It is there")));
    assert_eq!(goal["budgets"], json!({ "tokens": 2_000_000, "turns": 3 }));
    let status = |verb: &[&str]| {
        let line: Vec<_> = ["goal"].iter().chain(verb).chain(&["--json"]).copied().collect();
        world.run(&line).expect(0).json()["status"].clone()
    };
    assert_eq!(status(&["pause"]), "paused");
    assert_eq!(status(&["show"]), "paused");
    assert_eq!(status(&["resume"]), "active");
    let second = world.run(&["goal", "set", "Another", "--json"]).expect(3);
    assert_eq!(second.json()["rejected"]["code"], "goal_open");
    assert_eq!(status(&["set", "Another", "--replace"]), "active");
    assert_eq!(status(&["complete", "--summary", "reached"]), "completed");
    let ended = world.run(&["goal", "pause", "--json"]).expect(3);
    assert_eq!(ended.json()["rejected"]["code"], "illegal_transition");
    assert_eq!(status(&["set", "A third"]), "active");
    assert_eq!(status(&["cancel"]), "cancelled");
}

#[test]
fn g2_an_objective_is_not_blank_and_has_a_limit() {
    let world = World::new();
    world.session();
    let blank = world.run(&["goal", "set", " \u{200b}", "--json"]).expect(3).json();
    assert_eq!(blank["rejected"]["code"], "invalid_input");
    let long = world.run(&["goal", "set", &"x".repeat(4_001), "--json"]).expect(3).json();
    assert_eq!(long["rejected"]["code"], "limit_exceeded");
}

#[test]
fn m5_a_goal_set_in_plan_mode_waits_for_work() {
    let world = World::new();
    world.session();
    world.run(&["mode", "plan"]).expect(0);
    let goal = world.run(&["goal", "set", "Reach it", "--json"]).expect(0).json();
    assert_eq!((&goal["status"], &goal["reason"]), (&json!("paused"), &json!("plan_mode")));
    assert!(world.run(&["goal", "show"]).stdout.contains("`zuno mode work` goes on"));
    let started = world.run(&["mode", "work", "--json"]).expect(0).json();
    assert_eq!(started["goal"]["status"], "active");
}

#[test]
fn t11_a_worker_takes_the_goals_of_its_workspace() {
    let world = World::with_scenario(THREE_TURNS);
    let session = world.session();
    world.run(&["goal", "set", "Greet"]).expect(0);
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    let elsewhere = ["--workspace", other.to_str().unwrap()];
    let none = world.run(&[&["goal", "run", "--once", "--json"][..], &elsewhere].concat()).expect(0);
    assert_eq!(none.json_lines(), [json!({ "worked": [], "failed": {}, "exit": 0 })]);
    let ran = world.run(&["goal", "run", "--once"]).expect(0);
    assert_eq!(ran.stdout, "Planning.\nPlanned.\nWritten.\nAll done.\n");
    assert!(ran.stderr.contains("plan step unfinished: greeted"), "{}", ran.stderr);
    assert!(ran.stderr.contains("write_file hello.txt: succeeded"), "{}", ran.stderr);
    assert!(world.path("work/hello.txt").exists());
    let goal = world.run(&["goal", "show", "--json"]).json();
    assert_eq!((&goal["status"], &goal["continuations"]), (&json!("completed"), &json!(3)));
    assert_eq!(goal["unfinished_steps"], 1);
    // Nothing is left to do, by name or by place.
    let events = world.kinds(&session).len();
    world.run(&["goal", "run", "--once", "--session", &session]).expect(0);
    world.run(&["goal", "run", "--once", "--all"]).expect(0);
    assert_eq!(world.kinds(&session).len(), events);
}

#[test]
fn a_worker_that_leaves_an_unfinished_goal_says_so_with_7() {
    let world = World::with_scenario("[exhausted]\ntext = \"still at it\"");
    world.session();
    world.run(&["goal", "set", "Reach it", "--turns", "2"]).expect(0);
    let ran = world.run(&["goal", "run", "--once"]).expect(7);
    assert!(ran.stderr.contains("a budget of the Goal is used up"), "{}", ran.stderr);
    let goal = world.run(&["goal", "show", "--json"]).json();
    assert_eq!((&goal["status"], &goal["usage"]["turns"]), (&json!("budget_limited"), &json!(2)));
}

#[test]
fn a_worker_with_nothing_due_says_which_goals_are_not_finished_with_7() {
    let world = World::with_scenario("[exhausted]\ntext = \"still at it\"");
    let session = world.session();
    world.run(&["goal", "run", "--once"]).expect(0);
    world.run(&["goal", "set", "Reach it"]).expect(0);
    world.run(&["goal", "pause"]).expect(0);
    for scope in [vec!["goal", "run", "--once"], vec!["goal", "run", "--once", "--all"]] {
        let ran = world.run(&scope).expect(7);
        assert!(ran.stderr.contains(&session) && ran.stderr.contains("pause"), "{}", ran.stderr);
    }
    world.run(&["goal", "cancel"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(0);
}

#[test]
fn t6_g11_a_worker_told_to_end_leaves_the_goal_active_and_an_interrupted_one_pauses_it() {
    for (name, code, status, outcome) in [
        ("TERM", 7, "active", json!({ "type": "stopped", "reason": "shutdown" })),
        ("INT", 130, "paused", json!({ "type": "interrupted" })),
    ] {
        let world = World::with_scenario(SLOW);
        let session = world.session();
        world.run(&["goal", "set", "Reach it"]).expect(0);
        let child = world.command(&["goal", "run"]).spawn().unwrap();
        wait_for(&world.path("work/started"));
        signal(&child, name);
        Done::of(child.wait_with_output().unwrap()).expect(code);
        assert_eq!(world.run(&["goal", "show", "--json"]).json()["status"], status);
        let events = world.run(&["events", "--session", &session, "--json"]).json_lines();
        let last = events.last().unwrap();
        assert_eq!(last["payload"]["outcome"], outcome);
        let call = events.iter().rfind(|event| event["kind"] == "call_finished").unwrap();
        assert_eq!(call["payload"]["outcome"], "stopped");
    }
}

#[test]
fn t11_a_waiting_worker_takes_a_goal_that_is_set_later() {
    let world = World::with_scenario(THREE_TURNS);
    let session = world.session();
    let mut child = world.command(&["goal", "run"]).stdout(Stdio::null()).spawn().unwrap();
    world.run(&["goal", "set", "Greet"]).expect(0);
    while world.run(&["goal", "show", "--json"]).json()["status"] != "completed" {
        std::thread::sleep(Duration::from_millis(20));
    }
    let events = world.kinds(&session).len();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // The last turn may still have had its outcome to record.
    assert!(world.kinds(&session).len() - events <= 4);
}

#[test]
fn one_broken_workspace_does_not_keep_a_worker_from_the_others() {
    let world = World::with_scenario(THREE_TURNS);
    let gone = world.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let lost = world.run(&["session", "new", "--workspace", gone.to_str().unwrap()]).expect(0).stdout;
    world.run(&["goal", "set", "Reach it", "--session", lost.trim()]).expect(0);
    std::fs::remove_dir(&gone).unwrap();
    world.session();
    world.run(&["goal", "set", "Greet"]).expect(0);
    let ran = world.run(&["goal", "run", "--once", "--all", "--json"]).expect(5);
    let ended = ran.json_lines().pop().unwrap();
    assert!(ended["failed"][lost.trim()].as_str().unwrap().contains("gone"), "{ended}");
    assert_eq!(world.run(&["goal", "show", "--json"]).json()["status"], "completed");
}
