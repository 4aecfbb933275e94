//! Commands of agents behind the walls, from the configuration to the log.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::{Done, World};

/// A world whose model runs one command and ends.
fn running(arguments: &Value) -> World {
    let arguments = toml(arguments);
    World::with_scenario(&format!(
        "[[response]]\n[[response.call]]\ntool = \"shell\"\narguments = {arguments}\n[exhausted]\ntext = \"Done.\"\n"
    ))
}

/// A flat object as an inline table.
fn toml(object: &Value) -> String {
    let entry = |(key, value): (&String, &Value)| format!("{key} = {value}");
    format!("{{ {} }}", object.as_object().unwrap().iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// What the log of the latest session has of one kind.
fn payload(world: &World, kind: &str) -> Value {
    let lines = world.run(&["events", "--json"]).expect(0).json_lines();
    let found = lines.into_iter().rfind(|line| line["kind"] == kind);
    found.map(|line| line["payload"].clone()).unwrap_or_default()
}

fn result(world: &World) -> String {
    payload(world, "call_finished")["result"].as_str().unwrap().to_owned()
}

#[test]
fn c6_c8_a_command_writes_in_the_workspace_and_sees_nothing_of_ours() {
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = |name: &str| outside.path().join(name).display().to_string();
    let script = format!(
        "echo x > made; echo $TMPDIR > where; cat {} && echo LEAK; echo x > {}; zuno --version; ls -a {}; \
         git config user.name x; echo x > .zuno/zuno.toml; exit 4",
        place("data/zuno/zuno.db"),
        place("file"),
        place("data/zuno"),
    );
    let world = running(&json!({ "command": script }));
    std::fs::create_dir(world.path("work/.zuno")).unwrap();
    std::fs::write(place("file"), "untouched").unwrap();
    let store = place("data/zuno/zuno.db");
    let mut command = world.command(&["run", "go", "--store", &store]);
    command.env("XDG_DATA_HOME", place("data"));
    Done::of(command.output().unwrap()).expect(0);
    assert_eq!(std::fs::read_to_string(world.path("work/made")).unwrap(), "x\n");
    assert_eq!(std::fs::read_to_string(world.path("work/where")).unwrap(), "/tmp\n");
    assert_eq!(std::fs::read_to_string(place("file")).unwrap(), "untouched");
    assert!(Path::new(&store).exists() && !world.path("work/.zuno/zuno.toml").exists());
    let log =
        Done::of(world.command(&["events", "--json", "--store", &store]).output().unwrap()).json_lines();
    let payload = |kind: &str| log.iter().find(|line| line["kind"] == kind).unwrap()["payload"].clone();
    let text = payload("call_finished")["result"].as_str().unwrap().to_owned();
    assert!(
        !text.contains("LEAK") && text.contains("[this may be the sandbox: commands write only beneath"),
        "{text}"
    );
    assert_eq!(payload("call_admitted")["effect"], json!({ "type": "command", "confined": true }));
    assert_eq!(payload("turn_started")["confinement"], "full");
}

#[test]
fn c6_the_network_is_asked_for_before_the_start() {
    let world = running(&json!({ "command": "touch ran", "needs": ["network"] }));
    world.run(&["run", "go", "--wait-for-person"]).expect(7);
    assert!(!world.path("work/ran").exists());
    let asked = world.run(&["requests", "list"]).expect(0).stdout;
    assert!(asked.contains("touch ran") && asked.contains("needs the network"), "{asked}");
    world.run(&["requests", "allow", "1"]).expect(0);
    let session = world.run(&["session", "list", "--json"]).json()["sessions"][0]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    world.run(&["run", "--session", &session]).expect(0);
    assert!(world.path("work/ran").exists());
    assert_eq!(payload(&world, "call_admitted")["effect"], json!({ "type": "command", "confined": false }));
}

#[test]
fn c6_doing_without_is_said_and_recorded() {
    let script = json!({ "command": "readlink /proc/self/ns/user" });
    let outside = std::fs::read_link("/proc/self/ns/user").unwrap();
    for (level, name) in [("full", "full"), ("landlock", "landlock"), ("off", "off")] {
        let world = running(&script);
        let done = world.run(&["run", "go", "--sandbox", level]).expect(0);
        assert_eq!(done.stderr.contains("NO SANDBOX"), level == "off", "{}", done.stderr);
        assert_eq!(payload(&world, "turn_started")["confinement"], name);
        assert_eq!(result(&world).contains(outside.to_str().unwrap()), level != "full", "{}", result(&world));
        let log = world.run(&["events"]).expect(0).stdout;
        assert_eq!(log.contains("WITHOUT A SANDBOX"), level == "off", "{log}");
    }
    let world = running(&script);
    world.configure(&format!("[sandbox]\nlevel = \"off\"\n{}", config(&world)));
    let done = world.run(&["run", "go"]).expect(0);
    assert!(done.stderr.contains("NO SANDBOX"), "{}", done.stderr);
    assert_eq!(payload(&world, "turn_started")["confinement"], "off");
}

fn config(world: &World) -> String {
    std::fs::read_to_string(world.path("home/.config/zuno/zuno.toml")).unwrap()
}

#[test]
fn c6_a_machine_without_namespaces_refuses_and_says_how_to_choose() {
    let world = running(&json!({ "command": "touch ran" }));
    let zuno = world.command(&["run", "go"]);
    // Within a user namespace that allows no further ones.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c"]);
    command.arg("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"").arg("sh");
    command.arg(zuno.get_program()).args(zuno.get_args()).current_dir(world.path("work"));
    command.env_clear().envs(zuno.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = Done::of(command.output().unwrap()).expect(0);
    assert!(!world.path("work/ran").exists(), "{}", done.stderr);
    let text = result(&world);
    assert!(
        text.starts_with("the command was not run, since the sandbox it has to run in cannot be built"),
        "{text}"
    );
    assert!(text.contains("level = \"landlock\"") && text.contains("--sandbox off"), "{text}");
}

#[test]
fn doctor_tries_every_wall_without_a_store() {
    let world = World::new();
    let report = world.run(&["doctor", "--json"]).expect(0).json();
    let walls: Vec<_> =
        report["sandbox"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let names: Vec<_> = walls.iter().map(|line| line.split(':').next().unwrap()).collect();
    insta::assert_snapshot!(names.join("\n"), @"
    level full, tried in a throw-away sandbox
    holds workspace
    holds temporary files
    holds outside
    holds hidden
    holds protected
    holds user namespace
    holds mount namespace
    holds process namespace
    holds network namespace
    holds ipc namespace
    holds loopback
    holds network
    holds landlock
    holds seccomp
    holds capabilities
    holds limits
    ");
    assert!(!world.path("home").exists());
}
