//! What is touched and when, who may act, configuration, and the wrong command line.

use crate::world::{Done, Terminal, World, flat};

const SOME_SESSION: &str = "01a23137-31b3-740b-8e33-dfa7a5b4e8ac";

#[test]
fn version_and_help_touch_nothing() {
    let world = World::new();
    let before = world.files();
    let version = world.run(&["--version"]).expect(0);
    assert_eq!(version.stdout, format!("zuno {}\n", env!("CARGO_PKG_VERSION")));
    world.run(&["--help"]).expect(0);
    world.run(&["goal", "set", "--help"]).expect(0);
    assert_eq!(world.files(), before);
}

#[test]
fn a_wrong_command_line_is_2() {
    let world = World::new();
    for line in [
        &["frobnicate"][..],
        &[],
        &["plan", "show", "--session", "nonsense"],
        &["run"],
        &["goal", "set", "Reach it", "--tokens", "0"],
        &["goal", "set", "Reach it", "--turns", "-1"],
        &["goal", "set", "Reach it", "--time", "0s"],
        &["goal", "set", "Reach it", "--time", "tomorrow"],
        &["requests", "answer", "1"],
        &["requests", "answer", "first", "yes"],
        &["requests", "list", "--all", "--session", SOME_SESSION],
        &["commands", "stop"],
        &["plan", "diff", "one"],
        &["--store", "postgres://somewhere/db", "session", "list"],
        &["--workspace", "nowhere", "session", "new"],
        &["plan", "update", "--stream", "file.json"],
        &["plan", "show", "--session", "abc"],
        &["events", "--limit", "0"],
        &["session", "list", "--limit", "0"],
        &["session", "list", "--limit", "1001"],
        &["plan", "history", "--limit", "0"],
        &["demo", "--store", "here.db"],
        &["demo", "--workspace", "."],
    ] {
        world.run(line).expect(2);
    }
    assert!(!world.path("home").exists());
}

#[test]
fn what_needs_a_store_says_that_there_is_none_and_makes_none() {
    let world = World::with_scenario("[exhausted]\ntext = \"done\"");
    let before = world.files();
    for line in [
        &["session", "list"][..],
        &["session", "show"],
        &["plan", "show"],
        &["plan", "history"],
        &["plan", "diff"],
        &["plan", "update"],
        &["plan", "close", "--reason", "over"],
        &["mode", "show"],
        &["mode", "plan"],
        &["goal", "show"],
        &["goal", "set", "Reach it"],
        &["goal", "run", "--once"],
        &["requests", "list"],
        &["requests", "answer", "1", "yes"],
        &["commands", "list", "--all"],
        &["commands", "stop", "1"],
        &["events"],
        &["interrupt"],
        &["run", "--session", SOME_SESSION, "go on"],
    ] {
        let done = world.run(line).expect(4);
        assert!(done.stderr.contains("there is no store at"), "{line:?}: {}", done.stderr);
        assert_eq!(done.stdout, "");
    }
    let doctor = world.run(&["doctor"]).expect(0);
    assert!(doctor.stdout.contains("none yet"), "{}", doctor.stdout);
    assert_eq!(world.files(), before);
    let json = world.run(&["plan", "show", "--json"]).expect(4).json();
    assert_eq!(json["error"]["code"], "not_found");
}

#[test]
fn what_is_not_there_has_one_shape() {
    let world = World::with_scenario("[exhausted]\ntext = \"done\"");
    world.session();
    for line in [
        &["session", "show", "--session", SOME_SESSION][..],
        &["session", "show", "--session", "dead"],
        &["run", "go", "--session", SOME_SESSION],
        &["goal", "run", "--session", SOME_SESSION],
        &["goal", "pause", "--session", SOME_SESSION],
        &["requests", "list", "--session", SOME_SESSION],
        &["requests", "answer", "1", "yes"],
        &["requests", "deny", "1", "--session", SOME_SESSION],
        &["commands", "stop", "1"],
        &["mode", "plan", "--session", SOME_SESSION],
        &["events", "--session", SOME_SESSION],
        &["events", "--follow", "--session", SOME_SESSION],
        &["plan", "show"],
        &["goal", "show"],
    ] {
        let line: Vec<_> = line.iter().copied().chain(["--json"]).collect();
        let done = world.run(&line).expect(4);
        assert_eq!(done.json()["error"]["code"], "not_found", "{line:?}");
        assert!(done.stderr.contains("zuno: "), "{line:?}: {}", done.stderr);
    }
    let update = ["plan", "update", "--json", "--session", SOME_SESSION];
    let plan = br#"{"title": "Go", "steps": []}"#;
    assert_eq!(world.run_with(&update, plan).expect(4).json()["error"]["code"], "not_found");
}

#[test]
fn a_session_is_named_by_its_short_form_and_an_ambiguous_name_lists_what_it_may_mean() {
    let world = World::new();
    let (first, second) = (world.session(), world.session());
    let listed = world.run(&["session", "list"]).expect(0).stdout;
    let short = listed.lines().next().unwrap().split_whitespace().next().unwrap();
    assert!(second.rsplit('-').next().unwrap().starts_with(short) && short.len() == 8, "{listed}");
    for name in [short, &second, &second.to_uppercase(), &second.replace('-', "")] {
        let shown = world.run(&["session", "show", "--json", "--session", name]).expect(0);
        assert_eq!(shown.json()["session"], second, "{name}");
    }
    // Both were opened within the same hours, which is how ids begin.
    let ambiguous = world.run(&["mode", "plan", "--session", &first[..4]]).expect(2);
    assert_eq!(ambiguous.stdout, "");
    let told: Vec<_> = ambiguous.stderr.lines().map(str::trim).collect();
    assert_eq!(told, [&format!("zuno: `{}` names 2 sessions; say which:", &first[..4]), &second, &first]);
    for session in [&first, &second] {
        assert_eq!(world.kinds(session), ["session_opened"]);
    }
}

#[test]
fn the_store_is_where_it_was_asked_for_and_otherwise_in_the_data_folder() {
    let world = World::new();
    let place = world.path("else/where/zuno.db");
    let url = format!("sqlite://{}", place.display());
    world.run(&["session", "new", "--store", &url]).expect(0);
    assert!(place.exists());
    let listed = world.command(&["session", "list", "--json"]).env("ZUNO_STORE", &place).output().unwrap();
    assert!(listed.status.success());
    assert!(!world.path("home").exists());
    world.session();
    assert!(world.path("home/.local/share/zuno/zuno.db").exists());
    world.command(&["session", "new"]).env("XDG_DATA_HOME", world.path("data")).output().unwrap();
    assert!(world.path("data/zuno/zuno.db").exists());
}

#[test]
fn the_workspace_is_the_root_of_the_git_repository() {
    let world = World::new();
    world.session();
    let session = world.session();
    let shown = world.run(&["session", "show", "--json"]).expect(0).json();
    assert_eq!(shown["workspace"], world.workspace().display().to_string());
    // From a folder below, the same sessions are in reach.
    let below = world.command(&["mode", "show"]).current_dir(world.path("work/sub")).output().unwrap();
    assert!(below.status.success());
    assert!(String::from_utf8(below.stderr).unwrap().contains(&session));
    // Another workspace has none yet, and says so.
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    let none = world.run(&["mode", "show", "--workspace", other.to_str().unwrap()]).expect(4);
    assert!(none.stderr.contains("there is no session of"), "{}", none.stderr);
    // Naming the session works from anywhere.
    world.run(&["mode", "show", "--session", &session, "--workspace", other.to_str().unwrap()]).expect(0);
    world.run(&["mode", "show", "--session", SOME_SESSION]).expect(4);
}

#[test]
fn a3_only_a_prompt_and_the_worker_start_turns() {
    let world = World::with_scenario("[exhausted]\ntext = \"done\"");
    let session = world.session();
    let plan = r#"{"title": "Go", "steps": [{"id": "a", "title": "A", "status": "in_progress"}]}"#;
    world.run_with(&["plan", "update"], plan.as_bytes()).expect(0);
    world.run(&["goal", "set", "Reach it"]).expect(0);
    for line in [
        &["session", "show"][..],
        &["session", "list"],
        &["plan", "show"],
        &["plan", "history"],
        &["mode", "show"],
        &["mode", "plan"],
        &["mode", "work"],
        &["goal", "show"],
        &["goal", "pause"],
        &["goal", "resume"],
        &["events"],
        &["doctor"],
    ] {
        world.run(line).expect(0);
    }
    let turns = || world.kinds(&session).iter().filter(|kind| *kind == "turn_started").count();
    assert_eq!(turns(), 0);
    // An unfinished plan without an active Goal gives the worker nothing to do.
    world.run(&["goal", "pause"]).expect(0);
    world.run(&["goal", "run", "--once"]).expect(7);
    assert_eq!(turns(), 0);
    world.run(&["run", "go", "--session", &session]).expect(0);
    assert_eq!(turns(), 1);
}

#[test]
fn without_a_model_the_error_prints_what_to_paste() {
    let world = World::new();
    let done = world.run(&["run", "do it"]).expect(5);
    assert!(done.stderr.contains("[models.main]") && done.stderr.contains(".config/zuno/zuno.toml"));
    assert!(!world.path("home").exists());
}

#[test]
fn a_broken_configuration_is_5_and_says_where() {
    let world = World::new();
    world.configure("default_model = \"a\"\n[budgets]\ntokens = 0\n");
    let done = world.run(&["session", "new"]).expect(5);
    assert!(done.stderr.contains("zuno.toml:3: `budgets.tokens`"), "{}", done.stderr);
    world.run(&["doctor"]).expect(5);
    world.configure("");
    world.write("work/.zuno/zuno.toml", "default_agent = \"build\"\n[turns]\nmax_requests = 0\n");
    let done = world.run(&["session", "new"]).expect(5);
    assert!(done.stderr.contains(".zuno/zuno.toml:3: `turns.max_requests`"), "{}", done.stderr);
    // What does not depend on the configuration does not fall with it.
    world.run(&["session", "new", "--agent", "deep"]).expect(0);
    world.run(&["session", "show"]).expect(0);
}

#[test]
fn a_configuration_that_is_no_regular_file_is_5_and_blocks_nothing() {
    for place in ["home/.config/zuno/zuno.toml", "work/.zuno/zuno.toml"] {
        let world = World::new();
        let path = world.path(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let refused = || {
            let done = world.run(&["session", "new"]).expect(5);
            let said = format!("{}: cannot be read: it is not a regular file", path.display());
            // The workspace is named without symbolic links, the home as it is.
            assert!(done.stderr.contains(said.strip_prefix("/").unwrap()), "{}", done.stderr);
            world.run(&["doctor"]).expect(5);
        };
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        refused();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused();
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
        let done = world.run(&["session", "new"]).expect(5);
        assert!(done.stderr.contains("is larger than 1024 KiB"), "{}", done.stderr);
    }
}

#[test]
fn a_project_picks_the_agent_and_lowers_the_budget() {
    let world = World::new();
    world.configure("default_agent = \"deep\"\n[budgets]\ntokens = 5000\nturns = 50\nactive_time = \"2h\"\n");
    let project = "default_agent = \"build\"\n[budgets]\ntokens = 9000\nturns = 7\nactive_time = \"30m\"\n";
    world.write("work/.zuno/zuno.toml", project);
    world.session();
    assert_eq!(world.run(&["mode", "show", "--json"]).json()["agent"], "build");
    let goal = world.run(&["goal", "set", "Reach it", "--json"]).expect(0).json();
    assert_eq!(goal["budgets"], serde_json::json!({ "tokens": 5000, "turns": 7, "active_ms": 1_800_000 }));
}

#[test]
fn an_agent_that_cannot_be_selected_is_refused() {
    let world = World::new();
    for agent in ["plan", "nobody"] {
        let done = world.run(&["session", "new", "--agent", agent, "--json"]).expect(3);
        assert_eq!(done.json()["rejected"]["code"], "no_such_agent");
    }
}

#[test]
fn doctor_finds_nothing_in_a_sound_store_and_leaves_other_files_alone() {
    let world = World::new();
    world.session();
    let sound = world.run(&["doctor", "--json"]).expect(0).json();
    assert_eq!(sound["findings"], serde_json::json!([]));
    let other = world.path("notes.txt");
    std::fs::write(&other, "these are notes").unwrap();
    let done = world.run(&["doctor", "--json", "--store", other.to_str().unwrap()]).expect(5);
    assert!(done.json()["findings"][0].as_str().unwrap().contains("notes.txt"));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "these are notes");
}

#[test]
fn a_store_of_an_impossible_schema_is_called_damaged() {
    let world = World::new();
    world.session();
    let store = world.path("home/.local/share/zuno/zuno.db");
    let whole = std::fs::read(&store).unwrap();
    for (schema, why) in [(0_i32, "its tables are there"), (-1, "versions count from 1")] {
        let mut file = whole.clone();
        // Where the header of an SQLite file holds its `user_version`.
        file[60..64].copy_from_slice(&schema.to_be_bytes());
        std::fs::write(&store, file).unwrap();
        for line in [&["session", "list", "--json"][..], &["session", "new", "--json"]] {
            let done = world.run(line).expect(5).json();
            let message = done["error"]["message"].as_str().unwrap();
            let said = format!("its schema version (user_version) is {schema}, and {why}; ");
            assert!(
                message.contains("is a Zuno store and is damaged: ") && message.contains(&said),
                "{message}"
            );
        }
    }
    std::fs::write(&store, whole).unwrap();
    world.run(&["doctor"]).expect(0);
}

#[test]
fn doctor_finds_names_that_no_tool_and_no_agent_has() {
    let world = World::new();
    world.configure("tools = [\"read_file\", \"shel\"]\ndefault_agent = \"plan\"\n");
    let findings = world.run(&["doctor", "--json"]).expect(5).json()["findings"].clone();
    assert!(findings[0].as_str().unwrap().contains("no agent `plan` can be selected"), "{findings}");
    assert!(findings[1].as_str().unwrap().contains("no tool is called shel;"), "{findings}");
}

#[test]
fn completions_are_printed_and_touch_nothing() {
    let world = World::new();
    let done = world.run(&["completions", "bash"]).expect(0);
    assert!(done.stdout.contains("_zuno()"));
    world.run(&["completions", "tcsh"]).expect(2);
    assert!(!world.path("home").exists());
}

#[test]
fn e6_a_cursor_ahead_of_the_log_is_an_error_and_one_within_gives_what_follows() {
    let world = World::new();
    let session = world.session();
    world.run(&["mode", "plan"]).expect(0);
    world.run(&["mode", "work"]).expect(0);
    let after = |cursor: &str| world.run(&["events", "--session", &session, "--json", "--after", cursor]);
    let seqs = |cursor: &str| -> Vec<u64> {
        after(cursor).expect(0).json_lines().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs("0"), [1, 2, 3]);
    assert_eq!(seqs("2"), [3]);
    assert_eq!(seqs("3"), [0; 0]);
    let done = after("4").expect(4);
    assert_eq!(done.json()["error"]["code"], "cursor_ahead");
    assert!(done.stderr.contains("ahead"), "{}", done.stderr);
    assert_eq!(world.run(&["events", "--limit", "2", "--json"]).json_lines().len(), 2);
    let timeline = world.run(&["events"]).expect(0).stdout;
    assert!(timeline.contains("mode changed to plan"), "{timeline}");
}

#[test]
fn a_reader_that_leaves_early_is_no_fault() {
    let world = World::new();
    world.session();
    let mut child = world.command(&["events"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_log_has_colours_only_for_a_terminal_that_wants_them() {
    let first_session = |variable: &str, value: &str, stderr: std::process::Stdio| {
        // A new store logs that it gets its schema.
        let world = World::new();
        let mut command = world.command(&["session", "new"]);
        command.env("ZUNO_LOG", "debug").env("TERM", "xterm").env(variable, value);
        command.stderr(stderr).output().unwrap()
    };
    let piped = String::from_utf8(first_session("LANG", "C", std::process::Stdio::piped()).stderr).unwrap();
    assert!(piped.contains("the schema moved") && !piped.contains('\u{1b}'), "{piped}");
    for (variable, value, has_colours) in
        [("LANG", "C", true), ("NO_COLOR", "1", false), ("NO_COLOR", "", true), ("TERM", "dumb", false)]
    {
        let mut terminal = Terminal::open();
        first_session(variable, value, terminal.stream());
        let shown = terminal.read_until("the schema moved");
        assert_eq!(shown.contains('\u{1b}'), has_colours, "{variable}={value}: {shown}");
    }
}

#[test]
fn a_cleared_zuno_store_counts_as_unset_and_a_wrong_one_is_2() {
    let world = World::new();
    let with_store = |value: &str| {
        let mut command = world.command(&["session", "new", "--json"]);
        Done::of(command.env("ZUNO_STORE", value).output().unwrap())
    };
    with_store("").expect(0);
    assert!(world.path("home/.local/share/zuno/zuno.db").exists());
    let wrong = with_store("postgres://somewhere/db").expect(2).json();
    assert_eq!(wrong["error"]["code"], "usage");
    assert!(wrong["error"]["message"].as_str().unwrap().starts_with("ZUNO_STORE: "), "{wrong}");
}

#[test]
fn a_wrong_command_line_is_data_for_programs_and_harmless_for_terminals() {
    let world = World::new();
    let budget = ["goal", "set", "Reach it", "--tokens", "0"];
    let plain = world.run(&budget).expect(2);
    assert!(plain.stderr.contains("a budget is a whole number from 1"), "{}", plain.stderr);
    assert_eq!(plain.stdout, "");
    let json = world.run(&[&budget[..], &["--json"]].concat()).expect(2).json();
    assert_eq!(json["error"]["code"], "usage");
    let message = json["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("invalid value '0' for '--tokens <N>'"), "{message}");
    // Behind `--` it is a prompt.
    assert_eq!(world.run(&["run", "--nonsense", "--", "--json"]).expect(2).stdout, "");
    let pasted = world.run(&["fro\u{1b}[31mb\u{202e}nicate", "--json"]).expect(2);
    assert!(pasted.stderr.contains("b\\u{202e}nicate"), "{}", pasted.stderr);
    let mut terminal = Terminal::open();
    world.command(&["fro\u{1b}[35mbnicate"]).stderr(terminal.stream()).status().unwrap();
    let shown = terminal.read_until("--help");
    for text in [&pasted.stdout, &pasted.stderr, &shown] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}

#[test]
fn a_configured_agent_that_cannot_be_selected_is_5() {
    let world = World::new();
    world.write("work/.zuno/zuno.toml", "default_agent = \"nobody\"");
    let done = world.run(&["session", "new", "--json"]).expect(5);
    assert_eq!(done.json()["error"]["code"], "environment");
    assert!(done.stderr.contains("default_agent in zuno.toml: no agent `nobody`"), "{}", done.stderr);
    world.run(&["session", "new", "--agent", "build"]).expect(0);
}

#[test]
fn doctor_tells_the_texts_for_agents_and_what_is_wrong_with_them() {
    let world = World::new();
    world.write("work/AGENTS.md", "Use tabs.");
    world.write("work/sub/AGENTS.md", "Use blanks.");
    world.write("home/.config/zuno/AGENTS.md", "Be short.");
    world.write("home/.config/zuno/skills/mine/SKILL.md", "---\nname: mine\ndescription: x\n---\n");
    let here = |world: &World| {
        Done::of(world.command(&["doctor"]).current_dir(world.path("work/sub")).output().unwrap())
    };
    let doctor = flat(&here(&world).expect(0).stdout);
    let told = format!(
        "instructions for agents: sub/AGENTS.md, AGENTS.md, {} skills: mine",
        world.path("home/.config/zuno/AGENTS.md").display()
    );
    assert!(doctor.contains(&told), "{doctor}");
    world.write("work/.zuno/skills/theirs/SKILL.md", "no head");
    let doctor = flat(&here(&world).expect(5).stdout);
    assert!(doctor.contains("! .zuno/skills/theirs: SKILL.md does not begin with"), "{doctor}");
}
