//! `zuno goal`: setting, steering and the worker.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::world::{Done, Terminal, World, flat, short, signal, wait_for};

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
    assert_eq!(goal["budgets"], json!({ "tokens": 2_000_000, "turns": 3, "active_ms": 28_800_000 }));
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
    let shown = flat(&world.run(&["goal", "show"]).stdout);
    assert!(shown.contains("Plan mode holds it `zuno mode work` goes on"), "{shown}");
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
        assert!(ran.stderr.contains(&session) && ran.stderr.contains("you paused it"), "{}", ran.stderr);
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
fn g11_ctrl_c_pauses_a_goal_that_waits_as_well_and_says_so() {
    for (name, code, status, told) in [
        ("INT", 130, "paused", "the Goal is paused: you interrupted it"),
        ("TERM", 7, "active", "the agent waits for an input"),
    ] {
        for scope in [&[][..], &["--session"]] {
            let world = World::with_scenario(
                "[[response]]\n[[response.call]]\ntool = \"goal_wait\"\n\
                 arguments = { until = \"inbox\", seconds = 36000 }\n[exhausted]\ntext = \"I wait.\"",
            );
            let session = world.session();
            world.run(&["goal", "set", "Reach it"]).expect(0);
            world.run(&["goal", "run", "--once"]).expect(7);
            let mut terminal = Terminal::open();
            let mut arguments = [&["goal", "run"], scope].concat();
            arguments.extend(scope.first().map(|_| session.as_str()));
            let child = world.command(&arguments).stderr(terminal.stream()).spawn().unwrap();
            terminal.read_until("working on");
            signal(&child, name);
            assert_eq!(Done::of(child.wait_with_output().unwrap()).code, code, "{name} {scope:?}");
            let goal = world.run(&["goal", "show", "--json"]).json();
            assert_eq!(goal["status"], status, "{name} {scope:?}");
            world.command(&["--version"]).stdout(terminal.stream()).status().unwrap();
            let shown = flat(&terminal.read_until(env!("CARGO_PKG_VERSION")));
            assert!(shown.contains(told), "{shown}");
            assert_eq!(shown.contains("interrupting; Ctrl-C again leaves at once"), name == "INT", "{shown}");
            // Whoever looks later was not interrupted.
            world.run(&["goal", "run", "--once"]).expect(7);
        }
    }
}

#[test]
fn t5_a_turn_and_a_command_whose_worker_is_gone_are_told_as_such_at_once() {
    let world = World::with_scenario(
        "[[response]]\n[[response.call]]\ntool = \"shell\"\n\
         arguments = { command = \"sleep 60\", background = true }\n\
         [[response.call]]\ntool = \"shell\"\narguments = { command = \"touch started; sleep 60\" }\n",
    );
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    let mut child = world.command(&["goal", "run"]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    let shown = world.run(&["goal", "show", "--json"]).json();
    assert_eq!(shown["outlook"]["because"], "turn 1 runs");
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = world.run(&["goal", "show", "--json"]).json();
    let because = "the worker of turn 1 is gone; the next worker recovers the turn";
    assert_eq!(shown["outlook"]["because"], because);
    assert_eq!(shown["outlook"]["remedies"], json!([{ "do": "run_worker" }]));
    assert_eq!(shown["commands"][0]["worker"], json!({ "state": "gone" }));
    let view = world.run(&["session", "show", "--json"]).json();
    assert_eq!(view["running"]["worker"], json!({ "state": "gone" }));
    let text = flat(&world.run(&["goal", "show"]).stdout);
    assert!(
        text.contains(because) && text.contains("1 for") && text.contains("its worker is gone"),
        "{text}"
    );
    let listed = flat(&world.run(&["commands", "list"]).stdout);
    assert!(listed.contains("its worker is gone; the next worker records its end"), "{listed}");
    let stopped = flat(&world.run(&["commands", "stop", "1"]).expect(0).stdout);
    assert!(stopped.contains("its worker is gone; the next worker records its end"), "{stopped}");
    assert!(stopped.contains(&format!("`zuno goal run --session {}` is one", short(&session))), "{stopped}");
}

#[test]
fn a_background_command_that_is_over_is_shown_with_its_exit_code_and_what_it_wrote() {
    let world = World::with_scenario(
        "[[response]]\n[[response.call]]\ntool = \"shell\"\n\
         arguments = { command = \"echo built; exit 3\", background = true }\n[exhausted]\ntext = \"It builds.\"",
    );
    let session = world.session();
    world.run(&["goal", "set", "Build it", "--turns", "2"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(7);
    let shown = world.run(&["commands", "show", "1"]).expect(0).stdout;
    for words in ["command 1", "echo built; exit 3", "ended: failed", "exit code 3", "\nbuilt"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let shown = world.run(&["commands", "show", "1", "--session", &session, "--json"]).expect(0).json();
    assert_eq!(shown["outcome"], "failed");
    world.run(&["commands", "show", "2"]).expect(4);
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

#[test]
fn g3_what_an_agent_proposes_waits_for_the_user() {
    let world = World::with_scenario(
        r#"
[[response]]
[[response.call]]
tool = "goal_propose"
arguments = { objective = "Write it all down", criteria = "notes.txt exists" }
[[response]]
text = "Shall I?"
[[response]]
[[response.call]]
tool = "goal_propose"
arguments = { objective = "Write it down briefly" }
[[response]]
text = "Or shorter?"
[exhausted]
text = "Fine."
"#,
    );
    let session = world.session();
    let run = |prompt: &str| world.run(&["run", prompt, "--session", &session]).expect(0);
    let show = || flat(&world.run(&["goal", "show"]).expect(0).stdout);
    let said = run("Think of a Goal.").stderr;
    assert!(said.contains("Goal opened, proposed: Write it all down"), "{said}");
    assert!(show().contains("`zuno goal accept` accepts it, `zuno goal decline` does not"), "{}", show());
    let moved = world.run(&["goal", "accept", "--expected-revision", "7", "--json"]).expect(3).json();
    assert_eq!(moved["rejected"]["code"], "revision_conflict");
    let goal = world.run(&["goal", "accept", "--expected-revision", "1", "--json"]).expect(0).json();
    assert_eq!((&goal["status"], &goal["outlook"]["goes_on"]), (&json!("active"), &json!(true)));
    // An accepted Goal is changed by nobody but the user: this is a proposal again.
    let said = run("Think again.").stderr;
    assert!(said.contains("change of the Goal proposed: Write it down briefly"), "{said}");
    let shown = show();
    assert!(
        shown.contains("Write it all down") && shown.contains("proposed Write it down briefly"),
        "{shown}"
    );
    assert!(shown.contains("`zuno goal accept` takes the change over"), "{shown}");
    world.run(&["goal", "decline"]).expect(0);
    assert!(!show().contains("briefly"), "{}", show());
    let nothing = world.run(&["goal", "accept", "--json"]).expect(3).json();
    assert_eq!(nothing["rejected"]["code"], "illegal_transition");
}

#[test]
fn g4_a_goal_whose_budget_is_used_up_goes_on_once_the_user_raises_it() {
    let world = World::with_scenario(THREE_TURNS);
    let session = world.session();
    world.run(&["goal", "set", "Greet", "--turns", "1"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(7);
    let shown = flat(&world.run(&["goal", "show"]).expect(0).stdout);
    assert!(shown.contains("not continuing because a budget of the Goal is used up"), "{shown}");
    assert!(shown.contains("`zuno goal budget --turns N` raises it"), "{shown}");
    let resumed = world.run(&["goal", "resume", "--json"]).expect(3).json();
    let why = resumed["rejected"]["violations"][0]["message"].as_str().unwrap();
    assert!(why.contains("`zuno goal budget` raises it"), "{why}");
    for wrong in [&["--time", "0h"][..], &["--time", "-1h"], &["--time", "soon"], &["--turns", "0"], &[]] {
        world.run(&[&["goal", "budget"][..], wrong].concat()).expect(2);
    }
    let goal = world.run(&["goal", "budget", "--turns", "5", "--time", "1h 30m", "--json"]).expect(0).json();
    assert_eq!(
        (&goal["status"], &goal["budgets"]),
        (&json!("active"), &json!({ "tokens": 2_000_000, "turns": 5, "active_ms": 5_400_000 }))
    );
    world.run(&["goal", "run", "--once"]).expect(0);
    assert!(world.kinds(&session).contains(&"goal_budget_changed".to_owned()));
    assert!(world.run(&["goal", "show"]).stdout.contains("3 of 5 turns"));
}

#[test]
fn a_goal_is_edited_and_its_criteria_can_be_dropped() {
    let world = World::new();
    world.session();
    world.run(&["goal", "set", "Reach it", "--criteria", "It is there"]).expect(0);
    let edit = |change: &[&str]| {
        let goal = world.run(&[&["goal", "edit", "--json"][..], change].concat()).expect(0).json();
        (goal["objective"].clone(), goal["criteria"].clone(), goal["revision"].clone())
    };
    assert_eq!(edit(&["--objective", "Come near"]), (json!("Come near"), json!("It is there"), json!(2)));
    assert_eq!(
        edit(&["--criteria", "It is in sight"]),
        (json!("Come near"), json!("It is in sight"), json!(3))
    );
    let both = ["--objective", "Stay", "--no-criteria", "--expected-revision", "3"];
    assert_eq!(edit(&both), (json!("Stay"), json!(null), json!(4)));
    for wrong in [&[][..], &["--criteria", "x", "--no-criteria"], &["--expected-revision", "4"]] {
        world.run(&[&["goal", "edit"][..], wrong].concat()).expect(2);
    }
    let late = ["goal", "edit", "--objective", "x", "--expected-revision", "3", "--json"];
    assert_eq!(world.run(&late).expect(3).json()["rejected"]["code"], "revision_conflict");
}

#[test]
fn g10_a_wait_holds_the_worker_back_and_the_user_can_drop_it() {
    let world = World::with_scenario(
        r#"
[[response]]
[[response.call]]
tool = "goal_wait"
arguments = { until = "inbox", seconds = 36000, note = "a word from the other team" }
[[response]]
text = "I wait."
[[response]]
[[response.call]]
tool = "goal_update"
arguments = { status = "completed" }
[[response]]
text = "Done."
"#,
    );
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    for _ in 0..2 {
        let ran = world.run(&["goal", "run", "--once"]).expect(7);
        assert!(ran.stderr.contains("the agent waits for an input (a word from"), "{}", ran.stderr);
    }
    let asked = || world.kinds(&session).iter().filter(|kind| *kind == "model_requested").count();
    assert_eq!(asked(), 2);
    let shown = flat(&world.run(&["goal", "show"]).expect(0).stdout);
    assert!(shown.contains("at most (in 9 h 59 min)") || shown.contains("at most (in 10 h)"), "{shown}");
    assert!(shown.contains("`zuno goal resume` does not wait"), "{shown}");
    let goal = world.run(&["goal", "resume", "--json"]).expect(0).json();
    assert_eq!((&goal["wait"], &goal["next"]["next"]), (&json!(null), &json!("run_goal")));
    world.run(&["goal", "run", "--once"]).expect(0);
}

#[test]
fn g12_work_that_is_open_is_cancelled_only_by_force() {
    let world = World::with_scenario(
        "[[response]]\n[[response.call]]\ntool = \"ask_user\"\narguments = { question = \"Which one?\" }\n",
    );
    world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(7);
    let refused = world.run(&["goal", "complete", "--json"]).expect(3).json();
    assert_eq!(refused["rejected"]["code"], "open_work");
    let goal = world.run(&["goal", "complete", "--force", "--json"]).expect(0).json();
    assert_eq!((&goal["status"], &goal["requests"]), (&json!("completed"), &json!([])));
    let none = world.run(&["requests", "list"]).expect(0);
    assert_eq!(none.stdout, "");
    assert!(none.stderr.contains("nothing waits for your answer"), "{}", none.stderr);
}

#[test]
fn g7_a_goal_whose_turns_lead_nowhere_pauses_and_says_what_lifts_that() {
    let world = World::with_scenario("[exhausted]\ntext = \"still at it\"");
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    let ran = world.run(&["goal", "run", "--once"]).expect(7);
    let named = short(&session);
    let hint = format!(
        "its turns brought no progress; `zuno run PROMPT --resume --session {named}` goes on with a message, `zuno goal \
         resume --session {named}` goes on"
    );
    assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
    let view = world.run(&["session", "show"]).expect(0).stdout;
    assert_eq!(flat(&view).matches("no progress").count(), 1, "{view}");
    assert!(view.contains("           paused: no_progress\n"), "{view}");
}

/// A worker on a Goal whose background command runs.
fn beside_a_command(world: &World) -> std::process::Child {
    world.session();
    world.run(&["goal", "set", "Serve it"]).expect(0);
    let child = world.command(&["goal", "run"]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    child
}

/// Starts something in the background and ends its turn.
const BACKGROUND: &str = r#"
[[response]]
[[response.call]]
tool = "shell"
arguments = { command = "touch started; exec sleep 60", background = true }
[[response]]
text = "It runs."
[[response]]
[[response.call]]
tool = "goal_update"
arguments = { status = "completed", summary = "served" }
[[response]]
text = "Served."
"#;

#[test]
fn g10_a_background_command_is_listed_and_stopped_and_its_end_is_reported() {
    let world = World::with_scenario(BACKGROUND);
    let worker = beside_a_command(&world);
    let listed = world.run(&["commands", "list"]).expect(0).stdout;
    assert!(
        listed.starts_with("command 1  ")
            && listed
                .ends_with("Serve it\n  touch started; exec sleep 60\n  `zuno commands stop 1` stops it\n"),
        "{listed}"
    );
    let data = world.run(&["commands", "list", "--json"]).expect(0).json();
    assert_eq!(data["commands"][0]["command"]["id"], 1);
    assert!(world.run(&["goal", "show"]).stdout.contains("runs       background command 1 for"));
    world.run(&["commands", "stop", "2"]).expect(4);
    let stopped = world.run(&["commands", "stop", "1"]).expect(0).stdout;
    assert_eq!(stopped, "background command 1 was asked to stop: touch started; exec sleep 60\n");
    while world.run(&["goal", "show", "--json"]).json()["status"] != "completed" {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&worker, "TERM");
    let done = Done::of(worker.wait_with_output().unwrap()).expect(0);
    for told in ["command 1 started: touch started", "command 1 asked to stop", "command 1 ended: stopped"] {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
    assert_eq!(done.stdout, "It runs.\nServed.\n");
    let none = world.run(&["commands", "list", "--all"]).expect(0);
    assert!(none.stderr.contains("no background command runs in this store"), "{}", none.stderr);
}

#[test]
fn t6_a_worker_that_is_ended_ends_its_background_commands_in_order() {
    let world = World::with_scenario(BACKGROUND);
    let worker = beside_a_command(&world);
    signal(&worker, "TERM");
    Done::of(worker.wait_with_output().unwrap()).expect(7);
    let data = world.run(&["goal", "show", "--json"]).expect(0).json();
    assert_eq!((&data["status"], &data["commands"]), (&json!("active"), &json!([])));
    let events = world.run(&["events", "--json"]).json_lines();
    let ended = events.iter().find(|event| event["kind"] == "command_ended").unwrap();
    assert_eq!(ended["payload"]["outcome"], "stopped");
    // What it came to is read in the next turn, and the Goal goes on.
    world.run(&["goal", "run", "--once"]).expect(0);
}

#[test]
fn t2_a_worker_that_stays_says_why_a_session_rests_and_what_changes_that() {
    let world = World::with_scenario(
        "[[response]]\n[[response.call]]\ntool = \"ask_user\"\narguments = { question = \"Which one?\" }\n",
    );
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    let mut worker = world.command(&["goal", "run", "--session", &session]).spawn().unwrap();
    let mut told = BufReader::new(worker.stderr.take().unwrap()).lines();
    let hint = format!("`zuno requests answer 1 TEXT --session {}`", short(&session));
    while !told.next().unwrap().unwrap().contains(&hint) {}
    signal(&worker, "TERM");
    assert_eq!(worker.wait().unwrap().code(), Some(7));
    let shown = flat(&world.run(&["session", "show"]).expect(0).stdout);
    assert!(
        shown.contains("request 1: Which one? next not continuing because the Goal is paused"),
        "{shown}"
    );
    assert_eq!(shown.matches("waits for your answer").count(), 1, "{shown}");
}
