//! `zuno run`: streaming, outcomes, Goals, interruption, queues.

use serde_json::{Value, json};

use crate::goal::THREE_TURNS;
use crate::world::{Done, Terminal, World, plain, short, signal, wait_for};

const GREETING: &str = r#"
[[response]]
text = "I write it down. "
usage = { input = 900, output = 12 }
[[response.call]]
tool = "write_file"
arguments = { path = "hello.txt", content = "hello\n" }
[[response.call]]
tool = "shell"
arguments = { command = "cat hello.txt; exit 3" }
[[response.call]]
tool = "teleport"
[[response]]
text = "Done."
"#;

const SLOW: &str = r#"
[[response]]
text = "Slowly."
[[response.call]]
tool = "shell"
arguments = { command = "touch started; exec sleep 60" }
[exhausted]
text = "Here I am."
"#;

#[test]
fn words_go_to_stdout_and_activity_to_stderr() {
    let world = World::with_scenario(GREETING);
    let done = world.run(&["run", "greet"]).expect(0);
    assert_eq!(done.stdout, "I write it down. \nDone.\n");
    let activity: Vec<_> = done.stderr.lines().skip(1).map(str::trim).collect();
    insta::assert_snapshot!(activity.join("\n"), @r"
    turn 1 started: input (orchestrator, play)
    write_file hello.txt: succeeded
    shell cat hello.txt; exit 3: failed: exit code 3 …
    teleport: invalid: there is no tool `teleport`; the tools on offer are: read_file, list_dir, glob, grep, git_status, git_log, git_diff, git_show, git_blame, edit_file, write_file, shell, plan_get, plan_update, plan_close, goal_get, goal_update, goal_propose, goal_wait, task, command_stop, ask_user
    turn 1 completed
    ");
    assert_eq!(std::fs::read_to_string(world.path("work/hello.txt")).unwrap(), "hello\n");
}

#[test]
fn as_json_the_whole_log_comes_line_by_line_and_the_outcome_last() {
    let world = World::with_scenario(GREETING);
    let done = world.run(&["run", "greet", "--json"]).expect(0);
    let mut lines = done.json_lines();
    let ended = lines.pop().unwrap();
    assert_eq!(ended["outcome"], json!({ "type": "completed" }));
    assert_eq!((&ended["turn"], &ended["goal"], &ended["exit"]), (&json!(1), &Value::Null, &json!(0)));
    let session = ended["session"].as_str().unwrap();
    let logged = world.run(&["events", "--session", session, "--json"]).expect(0).json_lines();
    assert_eq!(lines, logged);
}

#[test]
fn a_prompt_comes_from_stdin_and_is_not_blank() {
    let world = World::with_scenario(GREETING);
    world.run_with(&["run", "-"], b"greet\n").expect(0);
    let blank = world.run(&["run", "  ", "--json"]).expect(3);
    assert_eq!(blank.json()["rejected"]["code"], "invalid_input");
    assert_eq!(world.run(&["session", "list", "--json"]).json()["sessions"].as_array().unwrap().len(), 1);
}

/// What a run of a new session told, without the line that names the session.
fn told(done: &Done) -> String {
    let (first, told) = done.stderr.split_once('\n').unwrap();
    let told: Vec<_> = told.lines().map(str::trim).collect();
    plain(&told.join("\n"), first.strip_prefix("session ").unwrap())
}

#[test]
fn a_failed_turn_is_6_and_says_why() {
    let world =
        World::with_scenario("[[response]]\nfailure = { kind = \"authentication\", detail = \"no\" }");
    let done = world.run(&["run", "go"]).expect(6);
    insta::assert_snapshot!(told(&done), @r"
    turn 1 started: input (orchestrator, play)
    the model failed: authentication: model `play`: no; giving up
    turn 1 failed: authentication
    not continuing because turn 1 failed: authentication: model `play`: no; `zuno run PROMPT --session SHORT` goes on
    ");
    let json = world.run(&["run", "go", "--json"]).expect(6).json_lines().pop().unwrap();
    assert_eq!(json["outcome"]["failure"]["kind"], "authentication");
}

#[test]
fn a_session_goes_on_with_its_history_and_another_agent() {
    let world = World::with_scenario(&format!("{GREETING}[exhausted]\ntext = \"Done again.\"\n"));
    let session = world.session();
    world.run(&["run", "greet", "--session", &session, "--agent", "build"]).expect(0);
    assert_eq!(world.run(&["mode", "show", "--json"]).json()["agent"], "build");
    // The first digits of its last group or of all of it are enough.
    let tail = session.rsplit('-').next().unwrap();
    world.run(&["run", "and again", "--session", &tail[..8]]).expect(0);
    world.run(&["goal", "run", "--once", "--session", &session[..8]]).expect(0);
    assert_eq!(world.kinds(&session).iter().filter(|kind| *kind == "turn_started").count(), 2);
    let missing = world.run(&["run", "go", "--session", "01a23137-31b3-740b-8e33-dfa7a5b4e8ac"]).expect(4);
    assert!(missing.stderr.contains("there is no session"), "{}", missing.stderr);
}

#[test]
fn c4_m6_what_plan_mode_does_not_grant_is_denied_and_the_turn_goes_on() {
    let world = World::with_scenario(GREETING);
    let session = world.session();
    world.run(&["mode", "plan"]).expect(0);
    let done = world.run(&["run", "greet", "--session", &session]).expect(0);
    assert!(done.stderr.contains("write_file hello.txt: denied"), "{}", done.stderr);
    assert!(done.stderr.contains("shell cat hello.txt; exit 3: denied: `shell` needs"), "{}", done.stderr);
    assert!(done.stdout.ends_with("Done.\n"));
    assert!(!world.path("work/hello.txt").exists());
}

#[test]
fn c2_a_tool_that_a_list_leaves_out_is_denied() {
    let world = World::with_scenario(GREETING);
    world.write("work/.zuno/zuno.toml", "tools = [\"read_file\", \"shell\"]");
    let done = world.run(&["run", "greet"]).expect(0);
    assert!(done.stderr.contains("write_file hello.txt: denied"), "{}", done.stderr);
    assert!(!done.stderr.contains("shell cat hello.txt; exit 3: denied"), "{}", done.stderr);
}

#[test]
fn p21_a_goal_runs_over_three_turns_and_completes_over_an_unfinished_step() {
    let world = World::with_scenario(THREE_TURNS);
    let done = world.run(&["run", "--goal", "Greet", "--json"]).expect(0);
    let lines = done.json_lines();
    let started: Vec<_> = lines.iter().filter(|line| line["kind"] == "turn_started").collect();
    let continuations: Vec<_> =
        started.iter().map(|event| event["payload"]["trigger"]["continuation"].clone()).collect();
    assert_eq!(continuations, [json!(1), json!(2), json!(3)]);
    let ended = lines.last().unwrap();
    assert_eq!(
        (&ended["goal"]["status"], &ended["goal"]["unfinished_steps"]),
        (&json!("completed"), &json!(1))
    );
}

#[test]
fn i3_a_prompt_goes_before_the_goal_it_comes_with() {
    let world = World::with_scenario(THREE_TURNS);
    let done = world.run(&["run", "first this", "--goal", "Greet", "--json"]).expect(0);
    let lines = done.json_lines();
    let triggers: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "turn_started")
        .map(|event| event["payload"]["trigger"]["type"].as_str().unwrap())
        .collect();
    assert_eq!(triggers, ["input", "goal", "goal"]);
}

#[test]
fn a_goal_that_is_held_is_7() {
    let world = World::with_scenario("[[response]]\nfailure = { kind = \"quota_exhausted\" }");
    let done = world.run(&["run", "--goal", "Greet"]).expect(7);
    assert!(done.stderr.contains("Goal paused: quota"), "{}", done.stderr);
}

#[test]
fn a_failure_that_blocks_the_goal_is_told_when_it_happens_and_as_the_reason_at_the_end() {
    let world = World::with_scenario(
        "[[response]]\nfailure = { kind = \"model_unavailable\", detail = \"no such model here\" }",
    );
    let done = world.run(&["run", "--goal", "Greet"]).expect(7);
    insta::assert_snapshot!(told(&done), @r"
    Goal opened, active: Greet
    turn 1 started: Goal continuation 1 (orchestrator, play)
    the model failed: model_unavailable: model `play`: no such model here; giving up
    turn 1 failed: model_unavailable
    Goal blocked: model_unavailable
    not continuing because the Goal is blocked, since the provider has no such model: model `play`: no such model here; `zuno goal resume --session SHORT` goes on
    ");
}

#[test]
fn t11_a_prompt_to_a_session_with_a_goal_leaves_the_goal_to_the_person() {
    let world = World::with_scenario(THREE_TURNS);
    let session = world.session();
    world.run(&["goal", "set", "Greet"]).expect(0);
    let done = world.run(&["run", "first this", "--session", &session]).expect(0);
    assert!(
        done.stderr.contains(&format!("`zuno goal run --session {}`", short(&session))),
        "{}",
        done.stderr
    );
    let goal = || world.run(&["goal", "show", "--json"]).json();
    assert_eq!((&goal()["status"], &goal()["continuations"]), (&json!("active"), &json!(0)));
}

#[test]
fn t11_the_goal_goes_on_after_a_prompt_if_the_person_configured_that() {
    let world = World::with_scenario(THREE_TURNS);
    let config = std::fs::read_to_string(world.path("home/.config/zuno/zuno.toml")).unwrap();
    world.configure(&format!("{config}[goal]\non_open = \"continue\"\n"));
    let session = world.session();
    world.run(&["goal", "set", "Greet"]).expect(0);
    let done = world.run(&["run", "first this", "--session", &session, "--json"]).expect(0);
    let ended = done.json_lines().pop().unwrap();
    assert_eq!((&ended["goal"]["status"], &ended["goal"]["continuations"]), (&json!("completed"), &json!(2)));
}

#[test]
fn g11_ctrl_c_interrupts_durably_and_ends_with_130() {
    let world = World::with_scenario(SLOW);
    let child = world.command(&["run", "go", "--goal", "Reach it", "--json"]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    signal(&child, "INT");
    let done = Done::of(child.wait_with_output().unwrap()).expect(130);
    let ended = done.json_lines().pop().unwrap();
    assert_eq!(ended["outcome"], json!({ "type": "interrupted" }));
    let goal = &ended["goal"];
    assert_eq!((&goal["status"], &goal["reason"]), (&json!("paused"), &json!("interrupted")));
}

#[test]
fn a_run_goes_on_without_its_reader() {
    let world = World::with_scenario(GREETING);
    let mut child = world.command(&["run", "greet"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(world.path("work/hello.txt").exists());
}

#[test]
fn g11_an_interrupt_from_another_terminal_ends_the_run_which_was_not_interrupted_itself() {
    let world = World::with_scenario(SLOW);
    let session = world.session();
    let child = world.command(&["run", "go", "--session", &session]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    let interrupted = world.run(&["interrupt"]).expect(0);
    assert_eq!(interrupted.stdout, "turn 1 was asked to stop\n");
    let done = Done::of(child.wait_with_output().unwrap()).expect(7);
    assert!(done.stderr.contains("turn 1 was interrupted"), "{}", done.stderr);
}

#[test]
fn i1_a_prompt_to_a_busy_session_is_queued_and_followed() {
    let world = World::with_scenario(&SLOW.replace("sleep 60", "sleep 1"));
    let session = world.session();
    let first = world.command(&["run", "go", "--session", &session]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    let second = world.run(&["run", "and then", "--session", &session]).expect(0);
    let said = second.stderr.matches("another worker runs a turn of this session").count();
    assert_eq!(said, 1, "{}", second.stderr);
    assert!(second.stderr.contains("turn 2"), "{}", second.stderr);
    assert!(second.stdout.ends_with("Here I am.\n"), "{}", second.stdout);
    Done::of(first.wait_with_output().unwrap()).expect(0);
    let consumed = world.kinds(&session).iter().filter(|kind| *kind == "input_consumed").count();
    assert_eq!(consumed, 2);
}

#[test]
fn no_key_of_a_model_reaches_a_command_whatever_its_variable_is_called() {
    let world = World::with_scenario(
        "[[response]]\n[[response.call]]\ntool = \"shell\"\narguments = { command = \"env; echo over\" }\n\
         [exhausted]\ntext = \"done\"",
    );
    let config = std::fs::read_to_string(world.path("home/.config/zuno/zuno.toml")).unwrap();
    world.configure(&format!(
        "default_model = \"play\"\n{config}[models.one]\nprotocol = \"openai-chat\"\nmodel = \"m\"\n\
         api_key_env = \"OPENAI_KEY\"\n[models.two]\nprotocol = \"anthropic\"\nmodel = \"m\"\napi_key_env = \"BRAIN\"\n"
    ));
    let mut command = world.command(&["run", "go", "--json"]);
    command.env("OPENAI_KEY", "first-hidden").env("BRAIN", "second-hidden").env("COPY", "second-hidden");
    command.env("DATABASE_URL", "postgres://me:third-hidden@host/db").env("HARMLESS", "shown");
    let done = Done::of(command.output().unwrap()).expect(0);
    let events = world.run(&["events", "--json"]).expect(0);
    for text in [&done.stdout, &done.stderr, &events.stdout] {
        assert!(!text.contains("hidden"), "{text}");
    }
    assert!(events.stdout.contains("HARMLESS=shown") && events.stdout.contains("over"), "{}", events.stdout);
}

/// A person at a terminal is asked whether the Goal goes on, and a signal is the answer. How the run ends, and the Goal.
fn asked_and_answered_with(name: &str) -> (i32, Value, String) {
    let world = World::with_scenario(THREE_TURNS);
    let session = world.session();
    world.run(&["goal", "set", "Greet"]).expect(0);
    let mut terminal = Terminal::open();
    let mut command = world.command(&["run", "first this", "--session", &session]);
    let mut child = command.stdin(terminal.stream()).stderr(terminal.stream()).spawn().unwrap();
    terminal.read_until("Go on with it? [y/N]");
    signal(&child, name);
    let code = child.wait().unwrap().code().unwrap();
    world.command(&["--version"]).stdout(terminal.stream()).status().unwrap();
    let shown = terminal.read_until(env!("CARGO_PKG_VERSION"));
    (code, world.run(&["goal", "show", "--json"]).json(), shown)
}

#[test]
fn g11_ctrl_c_at_a_question_interrupts_durably() {
    let (code, goal, shown) = asked_and_answered_with("INT");
    assert_eq!((code, &goal["status"], &goal["reason"]), (130, &json!("paused"), &json!("interrupted")));
    assert!(shown.contains("the Goal is paused") && !shown.contains("the Goal is due"), "{shown}");
}

#[test]
fn an_end_at_a_question_leaves_the_goal_as_it_is() {
    let (code, goal, shown) = asked_and_answered_with("TERM");
    assert_eq!((code, &goal["status"], &goal["continuations"]), (0, &json!("active"), &json!(0)));
    assert!(shown.contains("the Goal is due: continuation 1"), "{shown}");
}

#[test]
fn t6_a_run_told_to_end_leaves_the_goal_active_and_says_that_it_is_not_finished() {
    let world = World::with_scenario(SLOW);
    let child = world.command(&["run", "go", "--goal", "Reach it", "--json"]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    signal(&child, "TERM");
    let ended = Done::of(child.wait_with_output().unwrap()).expect(7).json_lines().pop().unwrap();
    assert_eq!(ended["outcome"], json!({ "type": "stopped", "reason": "shutdown" }));
    assert_eq!(ended["goal"]["status"], "active");
}

#[test]
fn i1_a_prompt_whose_workspace_is_gone_stays_queued_and_says_how_it_goes_on() {
    let world = World::with_scenario("[exhausted]\ntext = \"Here I am.\"");
    let folder = world.path("gone");
    std::fs::create_dir(&folder).unwrap();
    let opened = world.run(&["session", "new", "--workspace", folder.to_str().unwrap()]).expect(0);
    let session = opened.stdout.trim();
    std::fs::remove_dir(&folder).unwrap();
    let done = world.run(&["run", "first", "--session", session]).expect(5);
    assert_eq!(done.stdout, "");
    assert!(done.stderr.contains("the prompt stays queued as #2;"), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("zuno run --session {session}")), "{}", done.stderr);
    assert!(!done.stderr.contains("Goal"), "{}", done.stderr);
    let with_goal = world.run(&["run", "--goal", "Greet", "--session", session]).expect(5);
    assert!(with_goal.stderr.contains(&format!("zuno goal run --session {session}")), "{}", with_goal.stderr);
    std::fs::create_dir(&folder).unwrap();
    world.run(&["run", "second", "--session", session]).expect(0);
    let consumed = world.kinds(session).iter().filter(|kind| *kind == "input_consumed").count();
    assert_eq!(consumed, 2);
}

#[test]
fn i1_a_word_to_the_running_turn_joins_it() {
    let world =
        World::with_scenario(&SLOW.replace("exec sleep 60", "while [ ! -e go ]; do sleep 0.05; done"));
    let session = world.session();
    let first = world.command(&["run", "go", "--session", &session]).spawn().unwrap();
    wait_for(&world.path("work/started"));
    let steer = ["run", "and shortly", "--steer", "--session", &session, "--json"];
    let second = world.command(&steer).spawn().unwrap();
    while !world.run(&["events", "--session", &session]).stdout.contains("word to the running turn queued") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    world.write("work/go", "");
    let ended = Done::of(second.wait_with_output().unwrap()).expect(0).json_lines().pop().unwrap();
    assert_eq!((&ended["turn"], &ended["outcome"]["type"]), (&json!(1), &json!("completed")));
    let first = Done::of(first.wait_with_output().unwrap()).expect(0);
    assert!(first.stderr.contains("word to the running turn queued: and shortly"), "{}", first.stderr);
    let started = world.kinds(&session).iter().filter(|kind| *kind == "turn_started").count();
    assert_eq!(started, 1);
}

/// Starts something in the background and says so.
const BACKGROUND: &str = r#"
[[response]]
[[response.call]]
tool = "shell"
arguments = { command = "touch started; COMMAND", background = true }
[[response]]
text = "It runs."
[[response]]
expect = "Background command 1 ended: succeeded"
[[response.call]]
tool = "goal_update"
arguments = { status = "completed" }
[[response]]
text = "Built."
"#;

#[test]
fn a_background_command_ends_with_the_run_that_started_it_and_the_run_says_so() {
    let world = World::with_scenario(&BACKGROUND.replace("COMMAND", "exec sleep 60"));
    let done = world.run(&["run", "serve"]).expect(0);
    assert_eq!(done.stdout, "It runs.\n");
    insta::assert_snapshot!(told(&done), @r"
    turn 1 started: input (orchestrator, play)
    background command 1 started: touch started; exec sleep 60
    turn 1 completed
    background commands end with this run; Ctrl-C leaves at once
    background command 1 ended: stopped
    ");
}

#[test]
fn g10_a_run_with_a_goal_waits_for_the_command_it_started() {
    let world = World::with_scenario(&BACKGROUND.replace("COMMAND", "sleep 1"));
    let done = world.run(&["run", "--goal", "Build it"]).expect(0);
    assert_eq!(done.stdout, "It runs.\nBuilt.\n");
    assert!(done.stderr.contains("waiting for background command 1; Ctrl-C interrupts"), "{}", done.stderr);
    let goal = world.run(&["goal", "show", "--json"]).json();
    assert_eq!((&goal["status"], &goal["usage"]["turns"]), (&json!("completed"), &json!(2)));
}
