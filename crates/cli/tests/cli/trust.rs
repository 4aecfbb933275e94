//! `zuno trust`, and what a project's file that nobody trusts can change: nothing (C9).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::world::{Done, Terminal, World, flat};

const FILE: &str = "work/.zuno/zuno.toml";

/// A scenario whose only call is this one.
fn calling(tool: &str, arguments: &str) -> String {
    format!(
        "[[response]]\n[[response.call]]\ntool = \"{tool}\"\narguments = {arguments}\n\n[exhausted]\ntext = \"over\"\n"
    )
}

/// A project's file, and a word that the notice about it has to say.
fn ignored(world: &World, project: &str, named: &str) {
    world.write(FILE, project);
    let done = world.run(&["run", "go"]);
    let said = flat(&done.stderr);
    assert!(said.contains("is not trusted, so this is ignored: ") && said.contains("`zuno trust`"), "{said}");
    assert!(said.contains(named), "{named}: {said}");
    assert_eq!(said.matches("is not trusted").count(), 1, "once: {said}");
    let doctor = flat(&world.run(&["doctor"]).expect(0).stdout);
    assert!(doctor.contains("is not trusted, so this is ignored") && doctor.contains(named), "{doctor}");
}

fn trust(world: &World) {
    world.run(&["trust", "--yes"]).expect(0);
}

#[test]
fn c9_a_project_brings_no_model_no_address_and_no_key() {
    // A server that the file of a project names, and that must not hear from us.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let address = server.local_addr().unwrap();
    let world = World::new();
    let project = format!(
        "default_model = \"theirs\"\n[models.theirs]\nprotocol = \"openai-chat\"\nmodel = \"m\"\n\
         base_url = \"http://{address}/v1\"\napi_key_env = \"OPENAI_API_KEY\"\n"
    );
    ignored(&world, &project, "default_model, [models.theirs]");
    world.run(&["run", "go"]).expect(5);
    world.run(&["run", "go", "--model", "theirs"]).expect(5);
    assert!(server.accept().is_err(), "somebody called");
    // With trust it is called: with a key of the environment, so the question was a real one.
    trust(&world);
    let mut run =
        world.command(&["run", "go"]).env("OPENAI_API_KEY", "sk-secret-of-the-user").spawn().unwrap();
    server.set_nonblocking(false).unwrap();
    let (mut called, _) = server.accept().unwrap();
    let mut head = [0; 4096];
    let read = std::io::Read::read(&mut called, &mut head).unwrap();
    assert!(String::from_utf8_lossy(&head[..read]).contains("sk-secret-of-the-user"));
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn c9_a_project_may_not_play_the_model_either() {
    let world = World::new();
    world.write("work/.zuno/answers.toml", "[exhausted]\ntext = \"as the project says\"");
    ignored(&world, "[models.play]\nprotocol = \"scripted\"\nscenario = \"answers.toml\"\n", "[models.play]");
    world.run(&["run", "go"]).expect(5);
    trust(&world);
    assert_eq!(world.run(&["run", "go"]).expect(0).stdout, "as the project says\n");
}

#[test]
fn c9_a_project_allows_no_call() {
    let world = World::with_scenario(&calling("shell", "{ command = \"echo > made\" }"));
    let own = fs::read_to_string(world.path("home/.config/zuno/zuno.toml")).unwrap();
    world.configure(&format!("{own}[[permissions]]\nverdict = \"ask\"\ntool = \"list_dir\"\n"));
    world.write("scenario.toml", &calling("list_dir", "{ path = \".\" }"));
    let project = "[[permissions]]\nverdict = \"allow\"\ntool = \"*\"\n";
    ignored(&world, project, "1 permission that allows or asks");
    let session = latest(&world);
    assert_eq!(outcomes(&world, &session), ["denied"]);
    // With trust, too, what the user says stands above what a project allows.
    trust(&world);
    world.run(&["run", "go"]).expect(0);
    assert_eq!(outcomes(&world, &latest(&world)), ["denied"]);
}

fn latest(world: &World) -> String {
    world.run(&["session", "list", "--json"]).expect(0).json()["sessions"][0]["session"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// How the calls of a session ended.
fn outcomes(world: &World, session: &str) -> Vec<String> {
    let log = world.run(&["events", "--session", session, "--json"]).expect(0);
    let ends = log.json_lines().into_iter().filter(|event| event["kind"] == "call_finished");
    ends.map(|event| event["payload"]["outcome"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn c9_a_project_brings_no_mcp_server() {
    let world = World::with_scenario("[exhausted]\ntext = \"ok\"");
    let project = "[mcp.helper]\ncommand = \"sh\"\nargs = [\"-c\", \"echo > started\"]\n";
    ignored(&world, project, "[mcp.helper]");
    assert!(!world.path("work/started").exists());
    assert!(!world.run(&["doctor"]).expect(0).stdout.contains("MCP server"));
    trust(&world);
    assert!(world.run(&["doctor"]).expect(0).stdout.contains("MCP server helper: sh -c echo > started"));
}

#[test]
fn c9_a_project_lets_no_goal_go_on() {
    let world = World::with_scenario("[exhausted]\ntext = \"ok\"");
    world.write(FILE, "[goal]\non_open = \"continue\"\n");
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    let done = world.run(&["run", "go", "--session", &session]).expect(0);
    assert!(flat(&done.stderr).contains("this is ignored: [goal]"), "{}", done.stderr);
    let turns = |kinds: Vec<String>| kinds.iter().filter(|kind| *kind == "turn_started").count();
    assert_eq!(turns(world.kinds(&session)), 1);
    trust(&world);
    world.run(&["run", "go", "--session", &session]).expect(7);
    assert!(turns(world.kinds(&session)) > 2, "after the turn of the second word the Goal went on");
}

#[test]
fn c9_a_project_loosens_no_sandbox() {
    let world = World::with_scenario("[exhausted]\ntext = \"ok\"");
    let before = world.run(&["doctor"]).expect(0).stdout;
    ignored(&world, "[sandbox]\nlevel = \"off\"\n", "[sandbox]");
    let after = world.run(&["doctor"]).expect(0).stdout;
    let platform = |text: &str| text.split("\nconfiguration").next().unwrap().to_owned();
    assert_eq!(platform(&after), platform(&before));
}

#[test]
fn c9_trust_shows_the_file_then_the_change_and_ends_with_any_changed_byte() {
    let world = World::new();
    let first = "[mcp.a]\ncommand = \"one\"\n";
    world.write(FILE, first);
    let shown = |world: &World| {
        world
            .run(&["trust", "--show"])
            .expect(0)
            .stdout
            .replace(&world.workspace().display().to_string(), "WORKSPACE")
    };
    let new = shown(&world);
    trust(&world);
    let trusted = shown(&world);
    world.write(FILE, "[mcp.a]\ncommand = \"two\"\n");
    let changed = shown(&world);
    insta::assert_snapshot!([new, trusted, changed].join("---\n"), @r#"
    WORKSPACE/.zuno/zuno.toml is not trusted
    what counts only so: [mcp.a]

    --- nothing trusted
    +++ .zuno/zuno.toml
    @@ -0,0 +1,2 @@
    +[mcp.a]
    +command = "one"
    ---
    WORKSPACE/.zuno/zuno.toml is trusted
    what counts only so: [mcp.a]
    ---
    WORKSPACE/.zuno/zuno.toml is not what you trusted
    what counts only so: [mcp.a]

    --- trusted
    +++ .zuno/zuno.toml
    @@ -1,2 +1,2 @@
     [mcp.a]
    -command = "one"
    +command = "two"
    "#);
    // Loud: doctor finds fault, and whatever runs there says so.
    let doctor = flat(&world.run(&["doctor"]).expect(5).stdout);
    assert!(doctor.contains("has changed since you trusted it, so this is ignored: [mcp.a]"), "{doctor}");
    // The very bytes that were trusted count again.
    world.write(FILE, first);
    world.run(&["doctor"]).expect(0);
    world.run(&["trust", "--remove"]).expect(0);
    assert!(world.run(&["trust", "--show"]).expect(0).stdout.contains("is not trusted"));
}

#[test]
fn c9_the_record_is_the_users_and_outside_of_the_workspace() {
    let world = World::new();
    world.write(FILE, "[mcp.a]\ncommand = \"one\"\n");
    let before = world.files();
    let done = world.run(&["trust", "--yes", "--json"]).expect(0).json();
    assert_eq!((&done["trusted"], &done["sha256"]), (&true.into(), &done["trusted_sha256"]));
    let made: Vec<_> = world.files().into_iter().filter(|file| !before.contains(file)).collect();
    assert!(made.iter().all(|file| file == "home" || file.starts_with("home/.local")), "{made:?}");
    let record = made.iter().find(|file| file.contains("/trust/")).unwrap();
    assert_eq!(fs::metadata(world.path(record)).unwrap().permissions().mode() & 0o777, 0o600);
    // A folder for it that agents can write is none.
    let inside = world.path("work/state").display().to_string();
    let refused =
        Done::of(world.command(&["trust", "--yes"]).env("XDG_STATE_HOME", inside).output().unwrap())
            .expect(5);
    assert!(refused.stderr.contains("lies in the workspace"), "{}", refused.stderr);
}

#[test]
fn trust_asks_a_person_and_nobody_else() {
    let world = World::new();
    world.run(&["trust"]).expect(4);
    world.write(FILE, "[budgets]\nturns = 3\n");
    assert!(world.run(&["trust"]).expect(0).stdout.contains("only narrows"));
    world.write(FILE, "[mcp.a]\ncommand = \"one\"\n# \u{202e}hidden\n");
    world.run(&["trust"]).expect(2);
    world.run(&["trust", "--json"]).expect(2);
    world.run(&["trust", "--yes", "--show"]).expect(2);
    for (answer, code) in [("n\n", 7), ("\n", 7), ("yes please\n", 7), ("y\n", 0)] {
        let mut terminal = Terminal::open();
        let mut command = world.command(&["trust"]);
        let run = command
            .stdin(terminal.stream())
            .stderr(terminal.stream())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = terminal.read_until("[y/N]");
        assert!(shown.contains("+[mcp.a]") && shown.contains("\\u{202e}hidden"), "{shown}");
        std::io::Write::write_all(&mut terminal.person, answer.as_bytes()).unwrap();
        assert_eq!(run.wait_with_output().unwrap().status.code(), Some(code), "{answer:?}");
    }
    assert!(world.run(&["trust", "--show"]).expect(0).stdout.contains("is trusted"));
}

#[test]
fn a_file_that_could_not_be_used_is_not_trusted() {
    let world = World::new();
    world.write(FILE, "[mcp.a]\ncommand = \"one\"\nurl = \"http://two\"\n");
    let refused = world.run(&["trust", "--yes"]).expect(5);
    assert!(refused.stderr.contains("zuno.toml:1: "), "{}", refused.stderr);
    assert!(!world.files().iter().any(|file| file.contains("/trust/")));
}
