//! What an agent is offered and what it is refused (C2, C3, C4, C7).

use std::fmt::Write as _;
use std::sync::Arc;

use agents::ToolAllowList;
use async_trait::async_trait;
use domain::{
    CallOutcome, CallRef, Capability, CapabilitySet, Effect, Mode, ModelCall, SessionId, TokenUsage,
};
use policy::{CallGrant, Permission};
use runtime::{CallSubject, CommandError, Model, PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use serde_json::{Value, json};
use tests::{Probe, Shop, Unprompted, World, answering, call, plan, text};
use tokio_util::sync::CancellationToken;

/// A tool that does nothing, but says that it needs something.
struct Claims {
    spec: ToolSpec,
}

impl Claims {
    fn tool(name: &'static str, requires: &[Capability]) -> Arc<dyn Tool> {
        let input_schema = json!({ "type": "object", "additionalProperties": false });
        let requires = CapabilitySet::of(requires);
        Arc::new(Self {
            spec: ToolSpec {
                name: name.into(),
                description: "Does something.".into(),
                input_schema,
                requires,
            },
        })
    }
}

#[async_trait]
impl Tool for Claims {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, _: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        Ok(Box::new(Done))
    }
}

struct Done;

#[async_trait]
impl PreparedCall for Done {
    fn effect(&self) -> Effect {
        Effect::External
    }

    fn subject(&self) -> CallSubject {
        CallSubject::default()
    }

    async fn run(self: Box<Self>, _: CancellationToken) -> ToolOutput {
        ToolOutput::ok("done")
    }
}

/// The session in this mode with this agent, and what its next turn is offered.
async fn offered(world: &World, agent: &str, mode: Mode, shop: Shop) -> Vec<String> {
    let session = world.session().await;
    world.user.select_agent(session, agent.parse().unwrap()).await.unwrap();
    if mode == Mode::Plan {
        world.user.enter_plan(session).await.unwrap();
    }
    world.say(session, "go").await;
    let model = Probe::on(answering(|_, _| Ok(text("ok"))));
    world.run_engine(session, &world.engine_in(model.clone(), shop)).await;
    model.requests()[0].tools.iter().map(|tool| tool.name.to_string()).collect()
}

/// One more tool for each capability that no real one needs, one for two and one for none.
pub(crate) fn of_every_capability() -> Shop {
    use Capability as C;
    let more = vec![
        Claims::tool("needs_network", &[C::Network]),
        Claims::tool("needs_ask_human", &[C::AskHuman]),
        Claims::tool("needs_load_skill", &[C::LoadSkill]),
        Claims::tool("needs_update_work_items", &[C::UpdateWorkItems]),
        Claims::tool("needs_delegate", &[C::Delegate]),
        Claims::tool("needs_read_and_write", &[C::ReadWorkspace, C::WriteWorkspace]),
        Claims::tool("needs_nothing", &[]),
    ];
    Shop::of(more)
}

#[tokio::test]
async fn c2_c3_c4_what_each_agent_is_offered_in_each_mode() {
    let world = World::new().await;
    let mut table = String::new();
    for mode in [Mode::Work, Mode::Plan] {
        for role in agents::selectable() {
            let names = offered(&world, role.name, mode, of_every_capability()).await;
            let _ = writeln!(table, "{} in {mode} mode:\n  {}", role.name, names.join(" "));
        }
    }
    insta::assert_snapshot!(table, @r"
    orchestrator in work mode:
      read_file list_dir glob grep git_status git_log git_diff git_show git_blame edit_file write_file shell needs_network needs_ask_human needs_load_skill needs_update_work_items needs_delegate needs_read_and_write needs_nothing plan_get plan_update plan_close goal_get goal_update goal_propose goal_wait task command_stop ask_user
    build in work mode:
      read_file list_dir glob grep git_status git_log git_diff git_show git_blame edit_file write_file shell needs_network needs_ask_human needs_load_skill needs_update_work_items needs_read_and_write needs_nothing plan_get plan_update plan_close goal_get goal_update goal_propose goal_wait command_stop ask_user
    deep in work mode:
      read_file list_dir glob grep git_status git_log git_diff git_show git_blame edit_file write_file shell needs_network needs_ask_human needs_load_skill needs_update_work_items needs_read_and_write needs_nothing plan_get plan_update plan_close goal_get goal_update goal_propose goal_wait command_stop ask_user
    orchestrator in plan mode:
      read_file list_dir glob grep git_status git_log git_diff git_show git_blame needs_ask_human needs_load_skill needs_update_work_items plan_get plan_update plan_close goal_get goal_update goal_propose goal_wait ask_user
    build in plan mode:
      read_file list_dir glob grep git_status git_log git_diff git_show git_blame needs_ask_human needs_load_skill needs_update_work_items plan_get plan_update plan_close goal_get goal_update goal_propose goal_wait ask_user
    deep in plan mode:
      read_file list_dir glob grep git_status git_log git_diff git_show git_blame needs_ask_human needs_load_skill needs_update_work_items plan_get plan_update plan_close goal_get goal_update goal_propose goal_wait ask_user
    ");
}

/// Plays calls in one response each and gives what the model read of them.
async fn play(
    world: &World,
    session: SessionId,
    shop: Shop,
    tries: &[(&str, Value)],
) -> Vec<(CallOutcome, String)> {
    let before = world.results(session).await.len();
    world.say(session, "go").await;
    let tries: Vec<_> = tries.iter().map(|(tool, arguments)| call(tool, arguments)).collect();
    let model =
        answering(move |number, _| Ok(tries.get(number - 1).cloned().unwrap_or_else(|| text("over"))));
    world.run_engine(session, &world.engine_in(model, shop)).await;
    let results = world.results(session).await.split_off(before);
    results.into_iter().map(|(_, outcome, text)| (outcome, text)).collect()
}

pub(crate) fn told(results: &[(CallOutcome, String)]) -> String {
    let lines: Vec<_> = results.iter().map(|(outcome, text)| format!("{}: {text}", outcome.name())).collect();
    lines.join("\n")
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_tools_on_offer() {
    let world = World::new().await;
    let session = world.session().await;
    let tries = [("Bash", json!({ "command": "ls" })), ("read_fil", json!({}))];
    let results = play(&world, session, Shop::default(), &tries).await;
    insta::assert_snapshot!(told(&results), @r"
    invalid: there is no tool `Bash`; the tools on offer are: read_file, list_dir, glob, grep, git_status, git_log, git_diff, git_show, git_blame, edit_file, write_file, shell, plan_get, plan_update, plan_close, goal_get, goal_update, goal_propose, goal_wait, command_stop, ask_user
    invalid: there is no tool `read_fil`; the tools on offer are: read_file, list_dir, glob, grep, git_status, git_log, git_diff, git_show, git_blame, edit_file, write_file, shell, plan_get, plan_update, plan_close, goal_get, goal_update, goal_propose, goal_wait, command_stop, ask_user
    ");
    // Of a tool with a name of any length the start is kept.
    let long = "x".repeat(10_000);
    let results = play(&world, session, Shop::default(), &[(&long, json!({}))]).await;
    assert_eq!(results[0].0, CallOutcome::Invalid);
}

#[tokio::test]
async fn c2_an_allow_list_hides_and_denies_every_other_tool() {
    let world = World::new().await;
    let shop = || {
        let names = ["read_file", "shell", "plan_get"].map(str::to_owned);
        Shop { allowed: ToolAllowList::Only(names.into()), ..Shop::default() }
    };
    assert_eq!(offered(&world, "build", Mode::Work, shop()).await, ["read_file", "shell", "plan_get"]);
    // In Plan mode the list does not bring back what the mode takes.
    assert_eq!(offered(&world, "build", Mode::Plan, shop()).await, ["read_file", "plan_get"]);
    let session = world.session().await;
    let tries = [
        ("write_file", json!({ "path": "a", "content": "x" })),
        ("plan_update", plan("a:in_progress b")),
        ("plan_get", json!({})),
    ];
    let results = play(&world, session, shop(), &tries).await;
    insta::assert_snapshot!(told(&results), @r#"
    denied: denied: `write_file` is not on the list of allowed tools in the configuration
    denied: denied: `plan_update` is not on the list of allowed tools in the configuration
    succeeded: {"plan":null,"expected_revision":0}
    "#);
    assert!(!world.path("a").exists());
    assert_eq!(world.view(session).await.plan, None);
}

#[tokio::test]
async fn c2_a_call_is_denied_with_the_capability_and_the_mode() {
    let world = World::new().await;
    let session = world.session().await;
    let tries = [("needs_delegate", json!({})), ("needs_network", json!({}))];
    let results = play(&world, session, of_every_capability(), &tries).await;
    insta::assert_snapshot!(told(&results), @r"
    denied: denied: `needs_delegate` needs delegate, which this agent does not have in work mode. Go on without it, or tell the user what is missing
    succeeded: done
    ");
}

#[tokio::test]
async fn c4_in_plan_mode_a_tool_that_is_not_on_the_list_is_denied_whoever_brought_it() {
    let world = World::new().await;
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    let more = vec![
        Claims::tool("mcp_read_only_they_say", &[Capability::Network]),
        Claims::tool("mcp_writer", &[Capability::ReadWorkspace, Capability::WriteWorkspace]),
        // One that claims to need nothing is not taken at its word either.
        Claims::tool("needs_nothing", &[]),
    ];
    let tries =
        [("mcp_read_only_they_say", json!({})), ("mcp_writer", json!({})), ("needs_nothing", json!({}))];
    let results = play(&world, session, Shop::of(more), &tries).await;
    insta::assert_snapshot!(told(&results), @r"
    denied: denied: `mcp_read_only_they_say` needs network, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do
    denied: denied: `mcp_writer` needs write_workspace, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do
    denied: denied: `needs_nothing` does not say what it needs, and Plan mode allows by name. Go on with reading and planning, and say what you would do
    ");
}

/// What a model does that never read a prompt.
pub(crate) fn tries() -> Vec<(&'static str, Value)> {
    vec![
        ("write_file", json!({ "path": "a", "content": "x" })),
        ("edit_file", json!({ "path": "a", "old_string": "x", "new_string": "y" })),
        ("shell", json!({ "command": "touch a" })),
        ("needs_network", json!({})),
        ("needs_delegate", json!({})),
        ("goal_update", json!({ "status": "completed" })),
        ("goal_update", json!({ "status": "blocked" })),
        ("plan_close", json!({ "expected_revision": 1, "reason": "no" })),
        ("start_work", json!({})),
    ]
}

#[tokio::test]
async fn c7_without_any_prompt_every_refusal_is_the_same() {
    let world = World::new().await;
    for mode in [Mode::Work, Mode::Plan] {
        let mut told_each = Vec::new();
        for unprompted in [false, true] {
            std::fs::remove_file(world.path("a")).ok();
            let session = world.session().await;
            if mode == Mode::Plan {
                world.user.enter_plan(session).await.unwrap();
            }
            world.say(session, "go").await;
            let all = tries();
            let shop = of_every_capability();
            let inner = answering(move |number, _| {
                Ok(match all.get(number - 1) {
                    Some((tool, arguments)) => call(tool, arguments),
                    None => text("over"),
                })
            });
            let model: Arc<dyn Model> = if unprompted { Arc::new(Unprompted { inner }) } else { inner };
            world.run_engine(session, &world.engine_in(model, shop)).await;
            let results = world.results(session).await;
            let results: Vec<_> = results.into_iter().map(|(_, outcome, text)| (outcome, text)).collect();
            told_each.push(told(&results));
        }
        assert_eq!(told_each[0], told_each[1]);
        if mode == Mode::Plan {
            assert!(!world.path("a").exists(), "nothing was written");
            let lines = told_each[0].lines().filter(|line| line.starts_with("denied")).count();
            assert_eq!(lines, 5, "{}", told_each[0]);
        }
    }
}

#[tokio::test]
async fn c7_a_loop_of_ones_own_that_has_no_prompt_at_all_is_refused_in_the_same_words() {
    let world = World::new().await;
    // The turn loop's answers, in Plan mode.
    let session = world.session().await;
    world.user.enter_plan(session).await.unwrap();
    let own_loop = play(&world, session, of_every_capability(), &tries()[..5]).await;

    // The same calls through the steps of a turn, without prompts, tools or a model.
    world.say(session, "go").await;
    let mut turn = world
        .sessions
        .admit(session, &"none".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
        .await
        .unwrap();
    turn.begin_request(0).await.unwrap();
    let asked: Vec<_> = tries()[..5]
        .iter()
        .map(|(tool, arguments)| ModelCall { tool: (*tool).to_owned(), arguments: arguments.to_string() })
        .collect();
    turn.record_response(String::new(), asked, TokenUsage::default()).await.unwrap();
    let requires = [
        Capability::WriteWorkspace,
        Capability::WriteWorkspace,
        Capability::RunCommand,
        Capability::Network,
        Capability::Delegate,
    ];
    for (index, (needs, (outcome, told))) in (0..).zip(requires.into_iter().zip(own_loop)) {
        // Even a loop that claims to have every capability.
        let grant = CallGrant {
            requires: CapabilitySet::of(&[needs]),
            grant: CapabilitySet::of(&Capability::ALL),
            tool_is_allowed: true,
            permission: Permission::Allow,
        };
        let call: CallRef = turn.call(index);
        let admitted = turn.admit_call(call, grant, Effect::Read).await;
        let Err(CommandError::Rejected(refused)) = admitted else { panic!("{admitted:?}") };
        assert_eq!((outcome, told), (CallOutcome::Denied, refused.to_string()));
    }
}
