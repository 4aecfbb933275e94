//! Calls that no model was offered: in Plan mode nothing is written, with and without a prompt.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use domain::CallOutcome;
use serde_json::Value;
use tests::{
    OpenAiServer, Record, Reply, Unprompted, World, answering, calls, difference, record_tree, text,
};
use tokio_util::sync::CancellationToken;

use crate::cases::{self, Call};
use crate::place::Place;

/// Calls in one response.
const AT_ONCE: usize = 8;

/// What a forged call came to.
pub(crate) struct Answered {
    pub(crate) call: Call,
    pub(crate) outcome: CallOutcome,
    pub(crate) told: String,
}

fn furnish(world: &World) {
    for name in ["file", ".git/hooks/post-commit.sample", ".zuno/zuno.toml"] {
        world.write(name, if name == "file" { "one\ntwo\n" } else { "" });
    }
}

fn recorded(root: &Path) -> Record {
    let mut record = Record::new();
    record_tree(root, &mut record);
    record
}

/// Sends every call of the file in Plan mode through the real engine, whose tools have no walls around them. Gives what
/// was answered and what changed.
pub(crate) async fn play(has_prompt: bool) -> (Vec<Answered>, Vec<String>) {
    let world = World::new().await;
    furnish(&world);
    let session = world.session().await;
    world.user.select_agent(session, "orchestrator".parse().unwrap()).await.unwrap();
    world.user.enter_plan(session).await.unwrap();
    let before = recorded(&world.workspace());
    let mut answered = Vec::new();
    for some in cases::forged().chunks(AT_ONCE) {
        let seen = world.results(session).await.len();
        world.say(session, "go").await;
        let asked: Vec<_> = some.iter().map(|case| (case.tool.clone(), case.arguments.clone())).collect();
        let model = answering(move |number, _| {
            let asked: Vec<_> =
                asked.iter().map(|(tool, arguments)| (tool.as_str(), arguments.clone())).collect();
            Ok(if number == 1 { calls(&asked) } else { text("over") })
        });
        let model = if has_prompt { model } else { Arc::new(Unprompted { inner: model }) };
        world.run(session, model).await;
        let results = world.results(session).await.split_off(seen);
        assert_eq!(results.len(), some.len(), "{results:?}");
        let each = some.iter().zip(results);
        answered.extend(each.map(|(call, (_, outcome, told))| Answered {
            call: call.clone(),
            outcome,
            told,
        }));
    }
    (answered, difference(&before, &recorded(&world.workspace())))
}

fn is_as_expected(answered: &Answered) -> bool {
    match answered.call.expected.as_str() {
        "denied" => answered.outcome == CallOutcome::Denied,
        "invalid" => answered.outcome == CallOutcome::Invalid,
        "allowed" => !matches!(answered.outcome, CallOutcome::Denied | CallOutcome::Invalid),
        other => panic!("forged.txt: `{other}` is neither denied, allowed nor invalid"),
    }
}

#[tokio::test]
async fn c2_c4_c7_in_plan_mode_every_forged_call_is_refused_with_and_without_a_prompt() {
    let mut told = Vec::new();
    for has_prompt in [true, false] {
        let (answered, changed) = play(has_prompt).await;
        assert_eq!(changed, [""; 0]);
        let wrong = answered.iter().filter(|answered| !is_as_expected(answered));
        let wrong: Vec<_> =
            wrong.map(|answered| (&answered.call, answered.outcome, &answered.told)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        told.push(answered.into_iter().map(|answered| answered.told).collect::<Vec<_>>());
    }
    assert_eq!(told[0].len(), told[1].len());
    let refusals =
        |told: &[String]| told.iter().filter(|told| told.starts_with("denied")).cloned().collect::<Vec<_>>();
    assert_eq!(refusals(&told[0]), refusals(&told[1]), "a prompt changes no refusal");
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_every_tool_that_exists_is_among_the_forged_calls() {
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&asked);
    let server = OpenAiServer::start(move |_, request| {
        kept.lock().unwrap().push(request.clone());
        Reply::text("Nothing to do.")
    })
    .await;
    let place = Place::new(&server.base_url);
    let mut command = tokio::process::Command::from(place.command(&["run", "go"]));
    assert!(command.output().await.unwrap().status.success());
    let requests = asked.lock().unwrap();
    let tools = requests[0]["tools"].as_array().unwrap().iter();
    let offered: BTreeSet<_> =
        tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
    let named: BTreeSet<_> = cases::forged().into_iter().map(|case| case.tool).collect();
    let forgotten: Vec<_> = offered.difference(&named).collect();
    assert!(offered.len() > 10 && forgotten.is_empty(), "forged.txt has no line for {forgotten:?}");
}

/// An engine that admits everything: the denied calls go straight to the tools. Gives those that changed something.
pub(crate) async fn without_the_grant() -> (usize, Vec<Call>) {
    let denied: Vec<_> = cases::forged().into_iter().filter(|case| case.expected == "denied").collect();
    let count = denied.len();
    let mut wrote = Vec::new();
    for case in denied {
        let world = World::new().await;
        furnish(&world);
        let before = recorded(&world.workspace());
        let workspace = Arc::new(tools::Workspace::open(&world.workspace()).unwrap());
        let tools = tools::all(workspace, tools::Secrets::default(), None);
        let Some(tool) = tools.iter().find(|tool| tool.spec().name == case.tool) else { continue };
        let arguments: Value = serde_json::from_str(&case.arguments).unwrap();
        if let Ok(call) = tool.prepare(arguments).await {
            call.run(CancellationToken::new()).await;
        }
        if !difference(&before, &recorded(&world.workspace())).is_empty() {
            wrote.push(case);
        }
    }
    (count, wrote)
}

#[tokio::test]
async fn without_the_grant_the_same_calls_write() {
    let (denied, wrote) = without_the_grant().await;
    let tools: BTreeSet<_> = wrote.iter().map(|case| case.tool.as_str()).collect();
    assert_eq!(tools, ["edit_file", "shell", "write_file"].into());
    println!("control: {} of {denied} denied calls would have written", wrote.len());
}
