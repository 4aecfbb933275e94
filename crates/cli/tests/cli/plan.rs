//! `zuno plan` and `zuno mode`: answers, refusals, history.

use serde_json::{Value, json};

use crate::world::{World, plain};

const FIRST: &str = r#"{"title": "Implement session export", "steps": [
    {"id": "inspect", "title": "Inspect durable state", "status": "in_progress"},
    {"id": "implement", "title": "Implement archive writer", "status": "pending"},
    {"id": "verify", "title": "Run round-trip tests", "status": "pending"}]}"#;

const LATER: &str = r#"{"expected_revision": 1, "title": "Implement session export", "steps": [
    {"id": "inspect", "title": "Inspect durable state", "status": "completed"},
    {"id": "implement", "title": "Implement archive writer", "status": "in_progress"},
    {"id": "verify", "title": "Run round-trip tests", "status": "pending"}]}"#;

fn update(world: &World, candidate: &str) -> Value {
    world.run_with(&["plan", "update"], candidate.as_bytes()).expect(0).json()["accepted"].clone()
}

/// A candidate on one line, for streams.
fn line(candidate: &str) -> String {
    candidate.replace('\n', " ") + "\n"
}

#[test]
fn p13_an_accepted_candidate_answers_revision_and_progress() {
    let world = World::new();
    world.session();
    let first = update(&world, FIRST);
    assert_eq!(
        (&first["revision"], &first["completed"], &first["total"], &first["active"]),
        (&json!(1), &json!(0), &json!(3), &json!("inspect"))
    );
    let second = update(&world, LATER);
    assert_eq!((&second["revision"], &second["completed"]), (&json!(2), &json!(1)));
    assert_eq!(first["plan_id"], second["plan_id"]);
    let shown = world.run(&["plan", "show", "--json"]).expect(0).json();
    assert_eq!((&shown["plan_id"], &shown["revision"]), (&first["plan_id"], &json!(2)));
    assert_eq!(shown["title"], "Implement session export");
    assert_eq!(
        shown["steps"][0],
        json!({ "id": "inspect", "title": "Inspect durable state", "status": "completed" })
    );
    insta::assert_snapshot!(world.run(&["plan", "show"]).expect(0).stdout, @r"
    Implement session export
    revision 2, 1 of 3 completed, by you (cli)
      [x] completed    inspect    Inspect durable state
      [>] in progress  implement  Implement archive writer
      [ ] pending      verify     Run round-trip tests
    ");
}

#[test]
fn a_candidate_comes_from_a_file_or_stdin() {
    let world = World::new();
    world.session();
    world.write("work/plan.json", FIRST);
    world.run(&["plan", "update", "plan.json"]).expect(0);
    world.run_with(&["plan", "update", "-"], LATER.as_bytes()).expect(0);
    let missing = world.run(&["plan", "update", "nowhere.json"]).expect(5);
    assert!(missing.stderr.contains("nowhere.json"), "{}", missing.stderr);
}

#[test]
fn p14_a_refusal_is_3_and_carries_what_repairs_it() {
    let world = World::new();
    world.session();
    update(&world, FIRST);
    let stale = LATER.replace("\"expected_revision\": 1", "\"expected_revision\": 7");
    let refused = world.run_with(&["plan", "update", "--json"], stale.as_bytes()).expect(3);
    let rejected = &refused.json()["rejected"];
    assert_eq!(rejected["code"], "revision_conflict");
    assert_eq!(rejected["violations"][0]["rule"], "P9");
    assert_eq!(rejected["current_revision"], 1);
    assert_eq!(rejected["current_plan"]["steps"][0]["id"], "inspect");
    assert_eq!(refused.stderr, "");
    let text = world.run_with(&["plan", "update"], FIRST.as_bytes()).expect(3);
    assert_eq!(text.stdout, "");
    let message = text.stderr.lines().last().unwrap();
    assert_eq!(
        message,
        "zuno: refused, nothing changed. expected_revision_required: the current plan is unfinished, so say which \
         revision you change: current is 1. Steps: inspect in_progress · implement pending · verify pending. Resend \
         all steps with \"expected_revision\": 1."
    );
    assert_eq!(world.run(&["plan", "show", "--json"]).json()["revision"], 1);
}

#[test]
fn p6_what_cannot_be_decoded_is_refused_with_the_plan_as_it_is() {
    let world = World::new();
    world.session();
    update(&world, FIRST);
    for candidate in [
        &b"{\"title\": "[..],
        b"",
        b"[]",
        b"\xff\xfe",
        br#"{"title": "x", "steps": [], "colour": "red"}"#,
        br#"{"title": "x", "steps": [{"id": "a", "title": "A", "status": "blocked"}]}"#,
    ] {
        let done = world.run_with(&["plan", "update", "--json"], candidate).expect(3);
        let rejected = &done.json()["rejected"];
        assert_eq!(rejected["code"], "invalid_input");
        assert_eq!(rejected["current_revision"], 1);
        assert_eq!(rejected["current_plan"]["steps"][2]["id"], "verify");
    }
    let huge = vec![b' '; (2 << 20) + 1];
    let done = world.run_with(&["plan", "update", "--json"], &huge).expect(3);
    assert_eq!(done.json()["rejected"]["code"], "limit_exceeded");
}

#[test]
fn a_stream_answers_every_line_and_goes_on_after_bad_ones() {
    let world = World::new();
    world.session();
    let mut input = line(FIRST).into_bytes();
    input.extend_from_slice(b"nonsense\n\n");
    input.extend(vec![b'x'; (2 << 20) + 1]);
    input.push(b'\n');
    input.extend_from_slice(line(FIRST).as_bytes());
    input.extend_from_slice(line(LATER).trim_end().as_bytes());
    let done = world.run_with(&["plan", "update", "--stream"], &input).expect(0);
    let answers: Vec<String> = done
        .json_lines()
        .iter()
        .map(|answer| match &answer["accepted"]["revision"] {
            Value::Null => answer["rejected"]["code"].as_str().unwrap().to_owned(),
            revision => revision.to_string(),
        })
        .collect();
    assert_eq!(
        answers,
        ["1", "invalid_input", "invalid_input", "limit_exceeded", "expected_revision_required", "2"]
    );
}

#[test]
fn a_stream_answers_each_line_before_the_next_one_comes() {
    use std::io::{BufRead as _, BufReader, Write as _};

    let world = World::new();
    let session = world.session();
    let line_of = ["plan", "update", "--stream", "--session", &session];
    let mut child = world.command(&line_of).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for (candidate, revision) in [(FIRST, 1), (LATER, 2)] {
        stdin.write_all(line(candidate).as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["accepted"]["revision"], revision);
    }
    drop(stdin);
    assert!(answers.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn e5_a_key_makes_an_update_safe_to_repeat() {
    let world = World::new();
    let session = world.session();
    let keyed = |candidate: &str| {
        world.run_with(
            &["plan", "update", "--session", &session, "--key", "k1", "--json"],
            candidate.as_bytes(),
        )
    };
    let first = keyed(FIRST).expect(0).json();
    assert_eq!(keyed(FIRST).expect(0).json(), first);
    assert_eq!(keyed(LATER).expect(3).json()["rejected"]["code"], "key_reused");
    assert_eq!(world.kinds(&session), ["session_opened", "plan_revised"]);
}

#[test]
fn p15_history_lists_revisions_and_diff_compares_two() {
    let world = World::new();
    world.session();
    world.run(&["plan", "history"]).expect(4);
    world.run(&["plan", "diff"]).expect(4);
    update(&world, FIRST);
    let alone = world.run(&["plan", "diff"]).expect(4);
    assert!(alone.stderr.contains("one revision"), "{}", alone.stderr);
    update(&world, LATER);
    let third = LATER
        .replace("\"expected_revision\": 1", "\"expected_revision\": 2")
        .replace("Run round-trip tests", "Run all tests");
    update(&world, &third);
    let history = world.run(&["plan", "history", "--json"]).expect(0).json();
    let revisions: Vec<_> = history["revisions"].as_array().unwrap().iter().collect();
    assert_eq!(revisions.len(), 3);
    assert_eq!((&revisions[1]["revision"], &revisions[1]["completed"]), (&json!(2), &json!(1)));
    assert_eq!(revisions[1]["actor"], json!({ "type": "user", "client": "cli" }));
    assert_eq!(
        world.run(&["plan", "history", "--limit", "1", "--json"]).json()["revisions"][0]["revision"],
        3
    );
    insta::assert_snapshot!(world.run(&["plan", "diff"]).expect(0).stdout, @r"
    revision 2 to 3
      ~ verify
          was: Run round-trip tests
          is:  Run all tests
    ");
    insta::assert_snapshot!(world.run(&["plan", "diff", "1", "2"]).expect(0).stdout, @r"
    revision 1 to 2
      ~ inspect  in progress -> completed
      ~ implement  pending -> in progress
    ");
    let beyond = world.run(&["plan", "diff", "1", "9"]).expect(4);
    assert!(beyond.stderr.contains("1 to 3"), "{}", beyond.stderr);
}

#[test]
fn p17_a_closed_plan_keeps_its_steps_and_says_why() {
    let world = World::new();
    world.session();
    let nothing = world.run(&["plan", "close", "--reason", "over", "--json"]).expect(3);
    assert_eq!(nothing.json()["rejected"]["code"], "no_plan");
    update(&world, LATER.replace("\"expected_revision\": 1, ", "").as_str());
    world.run(&["plan", "close", "--reason", " ", "--json"]).expect(3);
    world.run(&["plan", "close", "--reason", "over", "--expected-revision", "9"]).expect(3);
    world.run(&["plan", "close", "--reason", "superseded by the importer"]).expect(0);
    let shown = world.run(&["plan", "show"]).expect(0).stdout;
    assert!(shown.contains("closed by you (cli): superseded by the importer"), "{shown}");
    assert!(shown.contains("[x] completed    inspect"), "{shown}");
    let history = world.run(&["plan", "history", "--json"]).expect(0).json();
    assert_eq!(history["revisions"][1]["change"], "closed");
    assert_eq!(update(&world, FIRST)["revision"], 1);
}

#[test]
fn nothing_in_a_plan_acts_on_the_terminal() {
    let world = World::new();
    world.session();
    let nasty = r#"{"title": "Clear \u001b[2J it", "steps": [
        {"id": "a", "title": "bell \u0007 and \u202e tricks", "status": "in_progress"}]}"#;
    update(&world, nasty);
    for verb in [&["plan", "show"][..], &["session", "show"], &["session", "list"], &["events"]] {
        let shown = world.run(verb).expect(0).stdout;
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
    }
    // Data for programs stays what it is.
    assert_eq!(world.run(&["plan", "show", "--json"]).json()["title"], "Clear \u{1b}[2J it");
}

#[test]
fn m7_the_mode_is_shown_with_its_agents_and_every_change_is_an_event() {
    let world = World::new();
    let session = world.session();
    let shown = || world.run(&["mode", "show", "--json"]).expect(0).json();
    assert_eq!(shown()["mode"], "work");
    let plan = world.run(&["mode", "plan", "--json"]).expect(0).json();
    assert_eq!((&plan["mode"], &plan["agent"]), (&json!("plan"), &json!("plan")));
    assert_eq!(plan["work_agent"], "orchestrator");
    assert_eq!(shown()["mode"], "plan");
    world.run(&["mode", "work"]).expect(0);
    assert_eq!(shown()["mode"], "work");
    let events = world.run(&["events", "--json"]).json_lines();
    let modes: Vec<_> = events.iter().filter(|event| event["kind"] == "mode_changed").collect();
    assert_eq!(modes.len(), 2);
    assert!(modes.iter().all(|event| event["actor"] == json!({ "type": "user", "client": "cli" })));
    assert!(modes.iter().all(|event| event["session"] == session.as_str()));
}

#[test]
fn m4_start_work_shows_the_plan_and_checks_the_revision_that_was_read() {
    let world = World::new();
    world.session();
    update(&world, FIRST);
    world.run(&["mode", "plan"]).expect(0);
    let refused = world.run(&["mode", "work", "--expected-plan-revision", "7", "--json"]).expect(3);
    assert_eq!(refused.json()["rejected"]["code"], "revision_conflict");
    let started = world.run(&["mode", "work", "--expected-plan-revision", "1"]).expect(0).stdout;
    insta::assert_snapshot!(started, @r"
    work (agent orchestrator)
    plan: Implement session export, revision 1, 0 of 3 completed
    ");
}

#[test]
fn m4_a_hand_over_brings_its_prompt_along_and_says_who_runs_it() {
    let world = World::new();
    let session = world.session();
    update(&world, FIRST);
    world.run(&["mode", "plan"]).expect(0);
    let before = world.kinds(&session);
    // Neither a stale revision nor a prompt that says nothing leaves anything behind.
    world.run(&["mode", "work", "--expected-plan-revision", "7", "--prompt", "go"]).expect(3);
    world.run(&["mode", "work", "--prompt", " "]).expect(3);
    assert_eq!(world.kinds(&session), before);
    let started = world.run_with(&["mode", "work", "--prompt", "-"], b"Go on.").expect(0).stdout;
    insta::assert_snapshot!(plain(&started, &session), @r"
    work (agent orchestrator)
    plan: Implement session export, revision 1, 0 of 3 completed
    next: an input waits for its turn
          a worker runs it: `zuno goal run --session SHORT`
    ");
    assert_eq!(world.kinds(&session)[before.len()..], ["mode_changed", "input_queued"]);
}
