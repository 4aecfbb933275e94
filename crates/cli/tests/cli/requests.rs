//! `zuno requests`: what agents ask, and answers from this and other terminals.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{Done, Terminal, World, flat, plain, short, signal};

/// Asks first, then does what was answered.
const QUESTION: &str = r#"
[[response]]
[[response.call]]
tool = "ask_user"
arguments = { question = "Which format\nshall it have?", options = ["JSON", "TOML"] }
[[response]]
expect = "TOML"
[[response.call]]
tool = "write_file"
arguments = { path = "format", content = "TOML\n" }
[[response]]
[[response.call]]
tool = "goal_update"
arguments = { status = "completed", summary = "chosen" }
[[response]]
text = "Chosen."
"#;

/// Wants to run what the rules of [`asking`] put a question on.
const COMMAND: &str = r#"
[[response]]
text = "I tag it."
[[response.call]]
tool = "shell"
arguments = { command = "touch tagged" }
[[response.call]]
tool = "shell"
arguments = { command = "touch later" }
[exhausted]
text = "That was it."
"#;

/// A world in which `touch tagged` needs leave.
fn asking() -> World {
    let world = World::with_scenario(COMMAND);
    let config = std::fs::read_to_string(world.path("home/.config/zuno/zuno.toml")).unwrap();
    let rule = "[[permissions]]\nverdict = \"ask\"\ntool = \"shell\"\ncommand = \"touch tagged\"\n";
    world.configure(&format!("{config}{rule}"));
    world
}

#[test]
fn i4_a_question_is_answered_from_another_process_after_the_worker_is_gone() {
    let world = World::with_scenario(QUESTION);
    let session = world.session();
    world.run(&["goal", "set", "Choose a format"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(7);
    let listed = world.run(&["requests", "list"]).expect(0).stdout;
    insta::assert_snapshot!(plain(&listed, &session), @r"
    request 1  N s ago  session SHORT  Choose a format
      Which format
      shall it have?
         1  JSON
         2  TOML
      `zuno requests answer 1 NUMBER` or with a text of your own, or
      `zuno requests deny 1`
    ");
    let data = world.run(&["requests", "list", "--json"]).expect(0).json();
    assert_eq!(data["requests"][0]["request"]["asked"]["options"], json!(["JSON", "TOML"]));
    assert_eq!(data["requests"][0]["session"], session);
    let shown = world.run(&["goal", "show"]).expect(0).stdout;
    assert!(shown.contains("request    1: Which format"), "{shown}");

    let wrong = world.run(&["requests", "answer", "1", "3"]).expect(3);
    assert!(wrong.stderr.contains("has the options 1 to 2"), "{}", wrong.stderr);
    let wrong = world.run(&["requests", "allow", "1"]).expect(3);
    assert!(wrong.stderr.contains("request 1 is a question"), "{}", wrong.stderr);
    let answered = world.run(&["requests", "answer", "1", "2"]).expect(0).stdout;
    insta::assert_snapshot!(plain(&answered, &session), @r"
    request 1 answered: TOML
    next: an input waits for its turn
          a worker runs it: `zuno goal run --session SHORT`
    ");
    let again = world.run(&["requests", "answer", "1", "1", "--json"]).expect(3).json();
    assert_eq!((&again["request"], &again["changed"]), (&json!(1), &json!(false)));
    assert_eq!(again["end"]["answer"]["text"], "TOML");
    let again = world.run(&["requests", "deny", "1"]).expect(3).stdout;
    assert!(again.starts_with("request 1 was settled before, nothing changed: answered: TOML\n"), "{again}");
    world.run(&["requests", "answer", "2", "1"]).expect(4);
    world.run(&["requests", "answer", "0", "1", "--session", &session]).expect(4);

    world.run(&["goal", "run", "--once"]).expect(0);
    assert_eq!(std::fs::read_to_string(world.path("work/format")).unwrap(), "TOML\n");
}

#[test]
fn i4_of_answers_at_the_same_time_one_counts_and_each_is_told_which() {
    let world = asking();
    let session = world.session();
    world.run(&["run", "tag it", "--wait-for-person", "--session", &session]).expect(7);
    let verbs = ["deny", "allow", "deny", "allow"];
    let start = |verb| world.command(&["requests", verb, "1", "--json"]).spawn().unwrap();
    let running = verbs.map(start);
    let told = running.map(|child| {
        let done = Done::of(child.wait_with_output().unwrap());
        let told = done.json();
        assert_eq!(told["changed"], json!(done.code == 0), "{told}");
        (done.code, told["end"].clone())
    });
    let events = world.run(&["events", "--session", &session, "--json"]).json_lines();
    let ends: Vec<_> = events.iter().filter(|event| event["kind"] == "request_settled").collect();
    assert_eq!(ends.len(), 1);
    assert!(told.iter().all(|(_, end)| *end == ends[0]["payload"]["end"]), "{told:?}");
    let mut codes = told.map(|(code, _)| code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 3, 3]);
}

#[test]
fn a_number_means_the_session_in_which_it_waits() {
    let world = World::with_scenario(QUESTION);
    let ask = || {
        let session = world.session();
        world.run(&["run", "choose", "--wait-for-person", "--session", &session]).expect(7);
        session
    };
    let first = ask();
    // Another one that changed later has no such request.
    world.session();
    let settled = world.run(&["requests", "answer", "1", "a", "third", "one", "--json"]).expect(0).json();
    assert_eq!((&settled["session"], &settled["changed"]), (&json!(first), &json!(true)));
    let events = world.run(&["events", "--session", &first, "--json"]).json_lines();
    let end = events.iter().find(|event| event["kind"] == "request_settled").unwrap();
    assert_eq!(end["payload"]["end"]["answer"]["text"], "a third one");

    let (second, third) = (ask(), ask());
    let several = world.run(&["requests", "answer", "1", "2"]).expect(2).stderr;
    for session in [&second, &third] {
        assert!(several.contains(&format!("--session {}", short(session))), "{several}");
    }
    let listed = world.run(&["requests", "list"]).expect(0).stdout;
    assert!(
        listed.contains(&format!("`zuno requests answer 1 NUMBER --session {}`", short(&second))),
        "{listed}"
    );
    world.run(&["requests", "deny", "1", "--reason", "not yet", "--session", short(&second)]).expect(0);
    let left = world.run(&["requests", "list", "--json"]).json();
    assert_eq!(left["requests"].as_array().unwrap().len(), 1);
}

#[test]
fn what_needs_leave_is_denied_at_once_where_nobody_can_be_asked_and_the_flag_is_named() {
    let world = asking();
    let done = world.run(&["run", "tag it"]).expect(0);
    let told = done.stderr.lines().find(|line| line.contains("touch tagged")).unwrap();
    for words in ["denied", "nobody is here to give it", "--allow shell:COMMAND", "--wait-for-person"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!world.path("work/tagged").exists() && world.path("work/later").exists());
    // Nor does a question wait for nobody.
    let other = World::with_scenario(QUESTION);
    let done = other.run(&["run", "choose"]).expect(6);
    assert!(done.stderr.contains("ask_user Which format …: denied"), "{}", done.stderr);
}

#[test]
fn a_rule_of_the_command_line_allows_for_one_run() {
    for (rule, is_allowed) in [
        ("shell:touch tagged", true),
        ("shell:touch*", true),
        ("shell", true),
        ("*", true),
        ("write_file", false),
        ("shell:git push*", false),
    ] {
        let world = asking();
        world.run(&["run", "tag it", "--allow", "read_file", "--allow", rule]).expect(0);
        assert_eq!(world.path("work/tagged").exists(), is_allowed, "{rule}");
        // What is not asked about stays allowed.
        assert!(world.path("work/later").exists(), "{rule}");
    }
    let world = asking();
    for wrong in ["", "shell:", " :x"] {
        world.run(&["run", "tag it", "--allow", wrong]).expect(2);
    }
}

#[test]
fn i4_a_run_that_waits_for_a_person_says_how_to_answer_and_the_allowed_call_runs_once() {
    let world = asking();
    let session = world.session();
    let done = world.run(&["run", "tag it", "--wait-for-person", "--session", &session]).expect(7);
    let told: Vec<_> = done.stderr.lines().map(str::trim).collect();
    insta::assert_snapshot!(plain(&told.join("\n"), &session), @r#"
    turn 1 started: input (orchestrator, play)
    shell touch later: not run: the turn ends until the user answers request 1
    turn 1 waits for the answer to request 1
    request 1:
    may it run shell: touch tagged
    why: rule 1 of the user's zuno.toml (tool = "shell", command = "touch
    tagged") asks a person about "touch tagged"
    not continuing because request 1 waits for your answer; `zuno requests allow 1 --session SHORT` or `zuno requests deny 1 --session SHORT`
    "#);
    assert!(!world.path("work/tagged").exists() && !world.path("work/later").exists());
    let wrong = world.run(&["requests", "answer", "1", "perhaps"]).expect(3).stderr;
    assert!(wrong.contains("`zuno requests allow 1") && wrong.contains("`zuno requests deny 1"), "{wrong}");
    let allowed = world.run(&["requests", "answer", "1", "allow"]).expect(0).stdout;
    assert!(allowed.starts_with("request 1 allowed, once\nnext: an input waits"), "{allowed}");
    let ended = world.run(&["run", "--session", &session, "--json"]).expect(0).json_lines().pop().unwrap();
    assert_eq!((&ended["exit"], &ended["requests"]), (&json!(0), &json!([])));
    assert!(world.path("work/tagged").exists());
    let admitted = world.kinds(&session).iter().filter(|kind| *kind == "call_admitted").count();
    assert_eq!(admitted, 1);
}

/// A run at a terminal, answered with these lines as it asks; what was shown, and its exit code.
fn at_a_terminal(world: &World, session: &str, typed: &[(&str, &str)]) -> (String, Option<i32>) {
    let mut terminal = Terminal::open();
    let mut command = world.command(&["run", "go", "--session", session]);
    let command = command.stdin(terminal.stream()).stderr(terminal.stream()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut shown = String::new();
    for (asked, answer) in typed {
        shown += &terminal.read_until(asked);
        terminal.person.write_all(answer.as_bytes()).unwrap();
    }
    let code = child.wait().unwrap().code();
    world.command(&["--version"]).stdout(terminal.stream()).status().unwrap();
    (shown + &terminal.read_until(env!("CARGO_PKG_VERSION")), code)
}

#[test]
fn i4_a_person_at_the_terminal_is_asked_and_the_run_goes_on() {
    let ask = "Allow it, once? [y/N]";
    for (typed, is_allowed, code) in [
        (vec![(ask, "y\n")], true, Some(0)),
        (vec![(ask, "\n")], false, Some(0)),
        (vec![(ask, "n use a branch\n")], false, Some(0)),
        (vec![(ask, "hm\n"), ("Type y or n", "yes\n")], true, Some(0)),
        // Ctrl-D.
        (vec![(ask, "\u{4}")], false, Some(7)),
    ] {
        let world = asking();
        let session = world.session();
        let (shown, ended) = at_a_terminal(&world, &session, &typed);
        assert_eq!((ended, world.path("work/tagged").exists()), (code, is_allowed), "{typed:?}: {shown}");
        assert!(
            shown.contains("may it run shell: touch tagged") && shown.contains("why: rule 1 of"),
            "{shown}"
        );
        assert_eq!(shown.contains("requests allow 1 --session"), code == Some(7), "{shown}");
        let events = world.run(&["events", "--session", &session, "--json"]).json_lines();
        let ends: Vec<_> = events.iter().filter(|event| event["kind"] == "request_settled").collect();
        let reason = ends.first().map(|end| end["payload"]["end"]["answer"]["reason"].clone());
        let is_reasoned = typed[0].1.contains("branch");
        assert_eq!(reason.is_some_and(|reason| reason == "use a branch"), is_reasoned, "{events:#?}");
    }
}

#[test]
fn i4_a_question_at_the_terminal_takes_a_number_and_asks_again_after_a_wrong_one() {
    let world = World::with_scenario(QUESTION);
    let session = world.session();
    let asked = "A number, or your own words";
    let typed = [(asked, "\n"), (asked, "3\n"), ("has the options 1 to 2", "2\n")];
    let (shown, code) = at_a_terminal(&world, &session, &typed);
    assert!(shown.contains("   1  JSON") && shown.contains("   2  TOML"), "{shown}");
    // There is no Goal to complete, so the model has nothing left to say.
    assert_eq!(code, Some(0), "{shown}");
    assert!(world.path("work/format").exists());
}

#[test]
fn i4_an_answer_from_elsewhere_ends_the_question_at_the_terminal() {
    let world = asking();
    let session = world.session();
    let mut terminal = Terminal::open();
    let mut command = world.command(&["run", "go", "--session", &session]);
    let command = command.stdin(terminal.stream()).stderr(terminal.stream()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    terminal.read_until("[y/N]");
    world.run(&["requests", "allow", "1"]).expect(0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(world.path("work/tagged").exists());
}

#[test]
fn g11_ctrl_c_at_a_request_interrupts_and_leaves_it_open() {
    let world = asking();
    let session = world.session();
    let mut terminal = Terminal::open();
    let mut command = world.command(&["run", "go", "--session", &session]);
    let command = command.stdin(terminal.stream()).stderr(terminal.stream()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    terminal.read_until("[y/N]");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let open: Value = world.run(&["requests", "list", "--json"]).json();
    assert_eq!(open["requests"].as_array().unwrap().len(), 1);
}

#[test]
fn g9_a_message_can_take_the_goal_along() {
    let world = World::with_scenario(
        r#"
[[response]]
text = "Noted."
[[response]]
[[response.call]]
tool = "goal_update"
arguments = { status = "completed" }
[[response]]
text = "Reached."
"#,
    );
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    world.run(&["goal", "pause"]).expect(0);
    let run = |arguments: &[&str]| {
        let line = [&["run"][..], arguments, &["--session", &session, "--json"]].concat();
        world.run(&line).expect(0).json_lines().pop().unwrap()["goal"]["status"].clone()
    };
    // A plain message leaves it as it is.
    assert_eq!(run(&["remember this"]), "paused");
    assert_eq!(run(&["go on", "--resume"]), "completed");
    for wrong in [
        &["run", "go", "--resume"][..],
        &["run", "--steer", "--session", &session],
        &["run", "go", "--steer"],
    ] {
        world.run(wrong).expect(2);
    }
}

#[test]
fn g9_whoever_leaves_the_question_about_a_held_goal_has_sent_nothing() {
    let world = World::with_scenario("[exhausted]\ntext = \"still at it\"");
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    world.run(&["interrupt"]).expect(0);
    let before = world.kinds(&session);
    for (name, code) in [("HUP", 7), ("TERM", 7), ("INT", 130)] {
        let mut terminal = Terminal::open();
        let mut command = world.command(&["run", "go", "--agent", "build", "--session", &session]);
        let command = command.stdin(terminal.stream()).stderr(terminal.stream()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        terminal.read_until("Go on with it, with your message? [y/m/N]");
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        assert_eq!(world.kinds(&session), before, "{name}");
    }
    let (_, code) = at_a_terminal(&world, &session, &[("[y/m/N]", "\n")]);
    assert_eq!((code, world.kinds(&session)), (Some(7), before));
}

#[test]
fn t2_a_run_without_a_prompt_says_why_nothing_runs() {
    let world = World::with_scenario("[exhausted]\ntext = \"still at it\"");
    let session = world.session();
    let run = |code| flat(&world.run(&["run", "--session", &session]).expect(code).stderr);
    let told = run(0);
    assert!(
        told.contains("not continuing because there is no input and no Goal; `zuno run PROMPT"),
        "{told}"
    );
    world.run(&["goal", "set", "Reach it"]).expect(0);
    let told = run(7);
    assert!(told.contains("the Goal is due: continuation 1; a worker runs it: `zuno goal run"), "{told}");
    world.run(&["goal", "pause"]).expect(0);
    let told = run(7);
    assert!(
        told.contains("not continuing because the Goal is paused: you paused it; `zuno goal resume"),
        "{told}"
    );
}

#[test]
fn g9_a_message_to_a_goal_that_led_nowhere_is_offered_to_take_it_along() {
    let world = World::with_scenario("[exhausted]\ntext = \"still at it\"");
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(7);
    let goal = || world.run(&["goal", "show", "--json"]).json();
    let turns = || goal()["usage"]["turns"].as_u64().unwrap();
    assert_eq!((goal()["reason"].clone(), turns()), (json!("no_progress"), 3));
    let lately = world.run(&["goal", "show"]).stdout;
    assert!(lately.contains("lately     in a row: 3 turns without progress\n"), "{lately}");
    let plain = world.run(&["run", "Try it that way.", "--session", &session]).expect(0);
    let way = format!("`zuno run PROMPT --resume --session {}` takes it along", short(&session));
    assert!(plain.stderr.contains(&way), "{}", plain.stderr);
    let asked = "Go on with it, with your message? [Y/m/n]";
    let events = || world.kinds(&session).len();
    let before = events();
    for nothing in ["n\n", "\u{4}"] {
        let (shown, code) = at_a_terminal(&world, &session, &[(asked, nothing)]);
        assert!(shown.contains("the Goal is paused: its turns brought no progress."), "{shown}");
        assert!(shown.contains("Nothing was sent, nothing changed."), "{shown}");
        assert_eq!((code, events()), (Some(7), before));
    }
    let (_, code) = at_a_terminal(&world, &session, &[(asked, "m\n")]);
    assert_eq!((code, turns()), (Some(0), 3));
    let (_, code) = at_a_terminal(&world, &session, &[(asked, "\n")]);
    assert!(code == Some(7) && turns() > 3, "{code:?}, {} turns", turns());
}
