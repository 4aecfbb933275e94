//! What an agent's command may do with the program: look, and not act as the user (C8).

use std::collections::BTreeSet;

use crate::world::{Done, World};

/// Every verb that acts as the user, as a command line that would change something. `{}` is a session.
const ACTS: [&str; 23] = [
    "session new",
    "run hello --session {}",
    "plan update --session {}",
    "plan close --reason over --session {}",
    "mode plan --session {}",
    "mode work --session {}",
    "goal set Another --replace --session {}",
    "goal accept --session {}",
    "goal decline --session {}",
    "goal edit --objective Another --session {}",
    "goal budget --turns 1000 --session {}",
    "goal pause --session {}",
    "goal resume --session {}",
    "goal cancel --session {}",
    "goal complete --session {}",
    "goal run --once --session {}",
    "requests answer 1 yes --session {}",
    "requests allow 1 --session {}",
    "requests deny 1 --session {}",
    "commands stop 1 --session {}",
    "jobs cancel 1 --session {}",
    "interrupt --session {}",
    "trust --yes",
];

/// Every verb that looks, with the exit code it has here.
const LOOKS: [(&str, i32); 16] = [
    ("session list", 0),
    ("session show", 0),
    ("plan show", 4),
    ("plan history", 4),
    ("plan diff", 4),
    ("mode show", 0),
    ("goal show", 0),
    ("requests list", 0),
    ("commands list", 0),
    ("jobs list", 0),
    ("jobs show 1", 4),
    ("commands show 1", 4),
    ("events", 0),
    ("doctor", 0),
    ("completions bash", 0),
    ("demo --help", 0),
];

/// Every verb that the program's own help names.
fn verbs(world: &World, path: &[&str], found: &mut BTreeSet<String>) {
    let line: Vec<_> = path.iter().copied().chain(["--help"]).collect();
    let help = world.run(&line).expect(0).stdout;
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        found.insert(path.join(" "));
        return;
    };
    let names = list.lines().take_while(|line| !line.is_empty());
    // A description that is broken into lines goes on deeper.
    for name in names.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = name.split_whitespace().next().unwrap();
        verbs(world, &path.iter().copied().chain([name]).collect::<Vec<_>>(), found);
    }
}

#[test]
fn c8_of_all_verbs_an_agents_command_may_use_those_that_look() {
    let world = World::with_scenario("[exhausted]\ntext = \"done\"");
    let session = world.session();
    world.run(&["goal", "set", "Reach it"]).expect(0);
    let before = world.kinds(&session);
    let as_agent = |line: &str| {
        let line = line.replace("{}", &session);
        let arguments: Vec<_> = line.split(' ').chain(["--json"]).collect();
        Done::of(world.command(&arguments).env("ZUNO_ACTOR", "agent").output().unwrap())
    };
    let mut all = BTreeSet::new();
    verbs(&world, &[], &mut all);
    assert!(all.len() > 30, "{all:?}");
    let mut strike = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let is_known = (1..=2.min(words.len())).any(|end| all.remove(&words[..end].join(" ")));
        assert!(is_known, "there is no verb `{line}`, or it stands here twice");
    };
    for line in ACTS {
        strike(line);
        let done = as_agent(line).expect(8);
        assert_eq!(done.json()["error"]["code"], "not_the_user", "{line}");
        assert_eq!(world.kinds(&session), before, "{line}");
    }
    for (line, code) in LOOKS {
        strike(line);
        as_agent(line).expect(code);
    }
    assert!(all.is_empty(), "say of these whether they look or act: {all:?}");
    assert_eq!(world.kinds(&session), before);
    assert_eq!(
        world.run(&["session", "list", "--json"]).expect(0).json()["sessions"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn c8_the_refusal_says_who_and_what_to_do_instead() {
    let world = World::new();
    let refused =
        Done::of(world.command(&["mode", "work"]).env("ZUNO_ACTOR", "agent").output().unwrap()).expect(8);
    insta::assert_snapshot!(refused.stderr, @"zuno: this acts as the user, and the environment says that somebody else started it (ZUNO_ACTOR=agent). Agents have tools of their own, such as plan_update, and ask the user for the rest");
    // Nothing was looked for, and nothing was made.
    assert!(!world.files().iter().any(|file| file.contains("zuno.db")));
}
