//! MCP servers of the configuration: what starts them, what they get, what is said of them.

use crate::world::{Done, World, flat};

/// The model calls the server's tool and says something.
const SCENARIO: &str = "[[response]]\n[[response.call]]\ntool = \"demo__do\"\n[exhausted]\ntext = \"over\"\n";

/// A server that says what it got.
fn world() -> World {
    let world = World::with_scenario(SCENARIO);
    let case = "open('started', 'w').close()\n\
                def call(r): answer(r, text('token ' + os.environ.get('DEMO_TOKEN', 'unset') + ', key ' + \
                os.environ.get('OPENAI_API_KEY', 'unset') + ', ' + os.environ['ZUNO_ACTOR']))";
    let script = include_str!("../../../external/tests/servers/case.py").replace("# CASE", case);
    world.write("server.py", &script);
    world
}

fn configure(world: &World, more: &str) {
    let model = "[models.play]\nprotocol = \"scripted\"\nscenario = \"../../../scenario.toml\"\n";
    let script = world.path("server.py");
    let server = format!("[mcp.demo]\ncommand = \"python3\"\nargs = [\"{}\"]\n", script.display());
    world.configure(&format!("{model}{server}{more}"));
}

fn run(world: &World, arguments: &[&str]) -> Done {
    let mut command = world.command(arguments);
    Done::of(command.env("DEMO_TOKEN", "t-1").env("OPENAI_API_KEY", "k-1").output().unwrap())
}

const ALLOWED: &str = "[[permissions]]\nverdict = \"allow\"\ntool = \"demo/do\"\n";

#[test]
fn c2_a_server_is_started_only_for_a_tool_that_a_rule_names() {
    let world = world();
    for rules in [
        "",
        "[[permissions]]\nverdict = \"allow\"\ntool = \"*\"\n[[permissions]]\nverdict = \"allow\"\ntool = \"demo/*\"\n",
    ] {
        configure(&world, rules);
        let done = run(&world, &["run", "go"]).expect(0);
        assert!(done.stderr.contains("demo__do: invalid: there is no tool `demo__do`"), "{}", done.stderr);
    }
    assert!(!world.path("work/started").exists());
    // For one run it is enough to name it on the command line.
    let done = run(&world, &["run", "--allow", "demo/do", "go"]).expect(0);
    assert!(done.stderr.contains("demo__do: succeeded"), "{}", done.stderr);
    assert!(world.path("work/started").exists());
}

#[test]
fn a_server_gets_the_variables_that_are_named_for_it_and_no_other_secret() {
    let world = world();
    configure(&world, &format!("env = [\"DEMO_TOKEN\"]\n{ALLOWED}"));
    let done = run(&world, &["run", "--json", "go"]).expect(0);
    assert!(done.stdout.contains("token t-1, key unset, agent"), "{}", done.stdout);
    configure(&world, ALLOWED);
    let done = run(&world, &["run", "--json", "go"]).expect(0);
    assert!(done.stdout.contains("token unset, key unset, agent"), "{}", done.stdout);
    configure(&world, &format!("env = [\"DEMO_TOKEN\", \"NOT_SET\"]\n{ALLOWED}"));
    let said = flat(&run(&world, &["run", "go"]).expect(0).stderr);
    assert!(
        said.contains("MCP server `demo`: the variable NOT_SET is not set; its tools are not there"),
        "{said}"
    );
}

#[test]
fn c9_a_project_grants_no_tool_of_a_server_without_trust() {
    let world = world();
    configure(&world, "");
    world.write("work/.zuno/zuno.toml", ALLOWED);
    let done = run(&world, &["run", "go"]).expect(0);
    assert!(done.stderr.contains("there is no tool `demo__do`"), "{}", done.stderr);
    assert!(!world.path("work/started").exists());
    run(&world, &["trust", "--yes"]).expect(0);
    assert!(run(&world, &["run", "go"]).expect(0).stderr.contains("demo__do: succeeded"));
}

#[test]
fn what_is_not_as_the_rules_have_it_is_said_and_stops_no_run() {
    let world = world();
    let rules = "[mcp.broken]\ncommand = \"sh\"\nargs = [\"-c\", \"read -r _; echo no licence >&2\"]\n\
        [[permissions]]\nverdict = \"allow\"\ntool = \"demo/other\"\n\
        [[permissions]]\nverdict = \"allow\"\ntool = \"broken/x\"\n\
        [[permissions]]\nverdict = \"ask\"\ntool = \"gone/x\"\n";
    configure(&world, rules);
    let done = run(&world, &["run", "go"]).expect(0);
    assert_eq!(done.stdout, "over\n");
    let said = flat(&done.stderr);
    for line in [
        "MCP server `broken`: its connection broke off",
        "no licence",
        "a rule names `demo/other`, but its server offers no such tool",
        "a rule names `gone/x`, but no [mcp] table has the name before the `/`",
        "demo__do: denied",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // Nobody asked what servers offer, so nothing is started to find out.
    std::fs::remove_file(world.path("work/started")).unwrap();
    assert!(run(&world, &["doctor"]).stdout.contains("MCP server demo: python3"));
    assert!(!world.path("work/started").exists());
    let doctor = flat(&run(&world, &["doctor", "--servers"]).expect(5).stdout);
    assert!(doctor.contains("MCP tool demo/do: denied: no rule names it"), "{doctor}");
    assert!(doctor.contains("MCP server `broken`"), "{doctor}");
}
