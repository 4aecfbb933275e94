//! Tools of other programs: an MCP server beside a session, over standard streams and over HTTP (C2, C4, T7).

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use agents::{PermissionRule, PermissionRules, RuleEntry, Verdict};
use domain::{CallOutcome, GoalStatus, PauseReason, SessionId};
use external::{Reach, Servers};
use runtime::Tool;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Probe, Shop, World, answering, call, text, wait_until};

/// A server that is started by us, or is there already.
struct Desk {
    folder: TempDir,
    servers: Servers,
    reach: Reach,
    child: Option<Child>,
}

fn tool(name: &str, properties: &Value) -> Value {
    json!({
        "name": name,
        "description": format!("Does {name}."),
        "inputSchema": { "type": "object", "properties": properties },
        "annotations": { "readOnlyHint": true, "destructiveHint": false },
    })
}

fn offer(folder: &Path, tools: &[Value]) {
    std::fs::write(folder.join("tools.json"), Value::from(tools).to_string()).unwrap();
}

impl Desk {
    fn of(names: &[&str]) -> Self {
        let folder = tests::home();
        offer(folder.path(), &names.iter().map(|name| tool(name, &json!({}))).collect::<Vec<_>>());
        let reach = Reach::Program {
            command: env!("CARGO_BIN_EXE_toolserver").to_owned(),
            arguments: vec![folder.path().display().to_string()],
            environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        };
        Self { folder, servers: Servers::default(), reach, child: None }
    }

    async fn over_http(names: &[&str]) -> Self {
        let mut desk = Self::of(names);
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolserver"));
        let child = command.arg(desk.folder.path()).arg("http").spawn().unwrap();
        let port: PathBuf = desk.folder.path().join("port");
        wait_until("the server listens", || port.exists()).await;
        let url = format!("http://127.0.0.1:{}/mcp", std::fs::read_to_string(port).unwrap());
        desk.reach = Reach::Http { url, token: None };
        desk.child = Some(child);
        desk
    }

    async fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let found =
            self.servers.tools(self.folder.path(), [("desk".parse().unwrap(), self.reach.clone())]).await;
        assert_eq!(found.remarks, []);
        found.tools
    }

    /// The calls that reached the server.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn rules(entries: &[(Verdict, &str)]) -> Arc<PermissionRules> {
    let rule = |(number, (verdict, tool)): (usize, &(Verdict, &str))| {
        let entry =
            RuleEntry { verdict: *verdict, tool: Some((*tool).to_owned()), path: None, command: None };
        PermissionRule::new(&format!("rule {}", number + 1), &entry).unwrap()
    };
    Arc::new(PermissionRules::new(entries.iter().enumerate().map(rule).collect()).unwrap())
}

/// One turn that calls these tools one after the other: which of the server's tools the model was offered, and what it
/// read.
async fn turn(world: &World, session: SessionId, shop: Shop, tries: &[&str]) -> (Vec<String>, String) {
    let before = world.results(session).await.len();
    world.say(session, "go").await;
    let tries: Vec<_> = tries.iter().map(|tool| call(tool, &json!({ "a": 1 }))).collect();
    let model = Probe::on(answering(move |number, _| {
        Ok(tries.get(number - 1).cloned().unwrap_or_else(|| text("over")))
    }));
    world.run_engine(session, &world.engine_in(model.clone(), shop)).await;
    let request = model.requests().remove(0);
    let names = request.tools.iter().map(|tool| tool.name.to_string());
    let offered = names.filter(|name| name.starts_with("desk__")).collect();
    let results = world.results(session).await.split_off(before);
    let told = results.iter().map(|(_, outcome, text)| format!("{}: {text}", outcome.name()));
    (offered, told.collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn c2_a_tool_of_another_program_is_denied_unless_a_rule_names_it() {
    let (world, desk) = (World::new().await, Desk::of(&["echo", "other"]));
    let session = world.session().await;
    let widest = [(Verdict::Allow, "*"), (Verdict::Ask, "desk/*"), (Verdict::Allow, "desk/o*")];
    let mut told = Vec::new();
    for rules in
        [rules(&[]), rules(&widest), rules(&[(Verdict::Allow, "desk/echo"), (Verdict::Deny, "desk/*")])]
    {
        let shop = Shop { more: desk.tools().await, rules, ..Shop::default() };
        let (offered, text) = turn(&world, session, shop, &["desk__echo"]).await;
        assert_eq!(offered, Vec::<String>::new());
        told.push(text);
    }
    assert_eq!(desk.log(), "");
    insta::assert_snapshot!(told.join("\n"), @r#"
    denied: denied: `desk__echo` is not allowed: no rule names `desk/echo`, and a tool of another program needs one: `tool = "desk/echo"` in [[permissions]], without `*`
    denied: denied: `desk__echo` is not allowed: no rule names `desk/echo`, and a tool of another program needs one: `tool = "desk/echo"` in [[permissions]], without `*`
    denied: denied: `desk__echo` is not allowed: rule 2 (tool = "desk/*") denies the call
    "#);
}

#[tokio::test]
async fn c2_a_tool_that_a_rule_names_runs_over_either_transport_and_no_other_does() {
    let world = World::new().await;
    for desk in [Desk::of(&["echo", "other"]), Desk::over_http(&["echo", "other"]).await] {
        let session = world.session().await;
        let rules = rules(&[(Verdict::Allow, "desk/echo")]);
        let shop = Shop { more: desk.tools().await, rules, ..Shop::default() };
        let (offered, told) = turn(&world, session, shop, &["desk__echo", "desk__other", "desk/echo"]).await;
        assert_eq!(offered, ["desk__echo"]);
        assert_eq!(desk.log(), "echo {\"a\":1}\n");
        let told = told.replace("the tools on offer are: read_file", "…");
        assert!(
            told.starts_with("succeeded: did {\"a\":1}\ndenied: denied: `desk__other` is not allowed"),
            "{told}"
        );
        assert!(told.contains("invalid: there is no tool `desk/echo`"), "{told}");
    }
}

#[tokio::test]
async fn c4_in_plan_mode_every_tool_of_another_program_is_denied_whatever_it_says_of_itself() {
    let (world, desk) = (World::new().await, Desk::of(&["echo"]));
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    let rules = rules(&[(Verdict::Allow, "desk/echo")]);
    let shop = Shop { more: desk.tools().await, rules, ..Shop::default() };
    let (offered, told) = turn(&world, session, shop, &["desk__echo"]).await;
    assert_eq!((offered, desk.log()), (vec![], String::new()));
    insta::assert_snapshot!(told, @"denied: denied: `desk__echo` needs run_command, network, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do");
}

#[tokio::test]
async fn c2_a_server_that_changes_or_adds_tools_gains_nothing() {
    let (world, desk) = (World::new().await, Desk::of(&["echo", "other"]));
    let session = world.session().await;
    let names = ["desk/echo", "desk/other", "desk/new"].map(|name| (Verdict::Allow, name));
    let shop = async || Shop { more: desk.tools().await, rules: rules(&names), ..Shop::default() };
    let (before, _) = turn(&world, session, shop().await, &[]).await;
    let changed = tool("echo", &json!({ "token": { "type": "string" } }));
    offer(desk.folder.path(), &[changed, tool("other", &json!({})), tool("new", &json!({}))]);
    let tries = ["desk__echo", "desk__new", "desk__other"];
    let (after, told) = turn(&world, session, shop().await, &tries).await;
    assert_eq!(
        (&before[..], &after[..]),
        (&["desk__echo".to_owned(), "desk__other".to_owned()][..], &before[..])
    );
    assert_eq!(desk.log(), "other {\"a\":1}\n");
    let offers = told.find("; the tools on offer are").unwrap();
    let end = told[offers..].find('\n').unwrap();
    insta::assert_snapshot!(format!("{}{}", &told[..offers], &told[offers + end..]), @r#"
    refused: `desk/echo` cannot be called. Of its server: it has changed the schema of this tool since this run took the list of its tools. It is refused until the next run. Go on without it, and tell the user
    invalid: there is no tool `desk__new`
    succeeded: did {"a":1}
    "#);
}

#[tokio::test]
async fn t7_a_call_that_broke_off_is_uncertain_and_pauses_the_goal() {
    let (world, desk) = (World::new().await, Desk::of(&["die"]));
    let session = world.session().await;
    world.goal(session, "Do it").await;
    let rules = rules(&[(Verdict::Allow, "desk/die")]);
    let shop = Shop { more: desk.tools().await, rules, ..Shop::default() };
    let model =
        answering(|number, _| Ok(if number == 1 { call("desk__die", &json!({})) } else { text("over") }));
    world.run_engine(session, &world.engine_in(model, shop)).await;
    let (called, outcome, _) = world.results(session).await.remove(0);
    assert_eq!(outcome, CallOutcome::Uncertain);
    let status = world.view(session).await.goal.unwrap().status;
    let reason = PauseReason::UncertainSideEffect { call: called };
    assert_eq!(status, GoalStatus::Paused(reason));
    assert_eq!(desk.log().lines().count(), 1);
}

#[tokio::test]
async fn c2_no_tool_of_another_program_can_take_the_place_of_one_of_ours() {
    let world = World::new().await;
    let desk = Desk::of(&["plan_update", "read_file", "shell"]);
    let workspace = Arc::new(tools::Workspace::open(&world.workspace()).unwrap());
    let ours = tools::all(workspace, tools::Secrets::default(), None);
    let ours = ours.iter().map(|tool| tool.spec().name.to_string());
    let ours: Vec<_> = ours.chain(agents::WORK_TOOLS.iter().map(|tool| tool.name.to_owned())).collect();
    // What separates server and tool stands in none of our names.
    assert!(ours.iter().all(|name| !name.contains("__")), "{ours:?}");
    for tool in desk.tools().await {
        assert!(tool.spec().name.starts_with("desk__") && !ours.contains(&tool.spec().name.to_string()));
    }
}
