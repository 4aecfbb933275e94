//! One Plan session from the first look to the work: a model that behaves like a capable one and also tries what Plan
//! mode refuses, a person who answers and hands over, and the same plan carried on in Work mode.

use domain::{Actor, CallOutcome, Event, EventBody, Mode, Plan, SessionId};
use serde_json::{Value, json};
use tests::Reply;

use crate::desk::{Desk, contents, endings};

/// What the person wants planned.
const PROMPT: &str = "Plan how the greeting gets a language.";
/// What the hand-over brings along.
const GO: &str = "Carry the plan out.";
/// The steps of the plan.
const STEPS: [&str; 6] = ["inspect", "format", "read", "write", "document", "verify"];
/// The file that the work makes.
const MADE: &str = "languages.toml";

fn calls(calls: &[(&str, Value)]) -> Reply {
    let calls = calls.iter().map(|(tool, arguments)| ((*tool).to_owned(), arguments.to_string()));
    Reply::Answer { text: String::new(), calls: calls.collect(), usage: (100, 10) }
}

/// The plan with this many steps completed, and the next one in progress.
fn plan(revision: u64, completed: usize) -> Value {
    let step = |(at, id): (usize, &&str)| {
        let status = match at.cmp(&completed) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        json!({ "id": id, "title": format!("Do {id}"), "status": status })
    };
    let steps: Vec<_> = STEPS.iter().enumerate().map(step).collect();
    let mut plan = json!({ "title": "Greet in a language", "steps": steps });
    if revision > 0 {
        plan["expected_revision"] = json!(revision);
    }
    plan
}

/// What the model answers to its requests, by their number.
fn answers(number: usize) -> Reply {
    match number {
        1 => calls(&[
            ("list_dir", json!({})),
            ("glob", json!({ "pattern": "**/*.sh" })),
            ("grep", json!({ "pattern": "Hallo" })),
            ("read_file", json!({ "path": "greet.sh" })),
        ]),
        2 => calls(&[
            ("git_status", json!({})),
            ("git_log", json!({})),
            ("git_diff", json!({})),
            ("git_show", json!({ "rev": "HEAD" })),
            ("git_blame", json!({ "path": "greet.sh" })),
        ]),
        3 => calls(&[
            ("write_file", json!({ "path": MADE, "content": "x" })),
            ("edit_file", json!({ "path": "greet.sh", "old_string": "Hallo", "new_string": "Hello" })),
            ("shell", json!({ "command": "touch made; git commit --allow-empty --message=x" })),
        ]),
        4 => calls(&[(
            "ask_user",
            json!({ "question": "Where do languages stand?", "options": ["JSON", "TOML"] }),
        )]),
        5 => calls(&[("plan_update", plan(0, 0))]),
        6 => Reply::text("Six steps; the languages stand in TOML."),
        // The work: it looks at nothing again, and goes on with the plan as it stands.
        7 => calls(&[
            ("plan_update", plan(1, 2)),
            ("write_file", json!({ "path": MADE, "content": "en = \"Hello\"\n" })),
        ]),
        8 => calls(&[("plan_update", plan(2, 5))]),
        _ => Reply::text("All but the verification is done."),
    }
}

/// How the calls of a log ended: tool, outcome and what the model read.
fn results(log: &[Event]) -> Vec<(&str, CallOutcome, &str)> {
    let ended = log.iter().filter_map(|event| match &event.body {
        EventBody::CallFinished { tool, outcome, result, .. } => {
            Some((tool.as_str(), *outcome, result.as_str()))
        }
        _ => None,
    });
    ended.collect()
}

/// The revisions of the plan, in order.
fn plans(log: &[Event]) -> Vec<&Plan> {
    let revised = log.iter().filter_map(|event| match &event.body {
        EventBody::PlanRevised { plan, .. } => Some(plan),
        _ => None,
    });
    revised.collect()
}

/// The changes of mode with their client, and the agent of each turn.
fn modes_and_agents(log: &[Event]) -> (Vec<(Mode, String)>, Vec<String>) {
    let mode = |event: &Event| match (&event.body, &event.actor) {
        (EventBody::ModeChanged { mode }, Actor::User { client }) => Some((*mode, client.to_string())),
        (EventBody::ModeChanged { .. }, other) => panic!("{other:?} changed the mode"),
        _ => None,
    };
    let agent = |event: &Event| match &event.body {
        EventBody::TurnStarted { agent, .. } => Some(agent.to_string()),
        _ => None,
    };
    (log.iter().filter_map(mode).collect(), log.iter().filter_map(agent).collect())
}

/// A history of two commits and a change that is in none, for the tools that read it.
async fn desk_with_a_history() -> Desk {
    let desk = Desk::with_model(|number, _| answers(number)).await;
    desk.world.write("README.md", "# Greeter\n");
    desk.world.git();
    desk.world.write("README.md", "# Greeter\n\nIt greets.\n");
    desk
}

/// Plan mode up to the accepted plan: everything is looked at, nothing is changed.
async fn plans_it(desk: &Desk, id: &str) -> Vec<Event> {
    let session: SessionId = id.parse().unwrap();
    let before = contents(&desk.world.workspace());
    desk.answer(&["mode", "plan", "--session", id, "--json"]).await;
    let asked = desk.zuno(&["run", PROMPT, "--session", id, "--wait-for-person"]).await;
    assert_eq!(asked.code, Some(7), "{}{}", asked.out, asked.err);
    let log = desk.log(session).await;
    let results = results(&log);
    let (looked, tried) = results.split_at(9);
    for (tool, outcome, told) in looked {
        assert_eq!(*outcome, CallOutcome::Succeeded, "{tool}: {told}");
    }
    let told = |tool: &str| looked.iter().find(|(name, ..)| *name == tool).unwrap().2;
    for (tool, holds) in [
        ("list_dir", "greet.sh"),
        ("glob", "test.sh"),
        ("grep", "Hallo"),
        ("read_file", "Greets whoever"),
        ("git_status", "README.md"),
        ("git_log", "start"),
        ("git_diff", "+It greets."),
        ("git_show", "README.md"),
        ("git_blame", "Hallo"),
    ] {
        assert!(told(tool).contains(holds), "{tool} without {holds}: {}", told(tool));
    }
    let refused = ["write_file", "edit_file", "shell"];
    for ((tool, outcome, told), refused) in tried.iter().zip(refused) {
        assert_eq!((*tool, *outcome), (refused, CallOutcome::Denied), "{told}");
        assert!(told.contains("Plan mode does not allow"), "{told}");
    }
    assert_eq!((tried.len(), tried[3].0, tried[3].1), (4, "ask_user", CallOutcome::Waiting));

    desk.answer(&["requests", "answer", "1", "2", "--session", id, "--json"]).await;
    let planned = desk.zuno(&["run", "--session", id]).await;
    assert_eq!(planned.code, Some(0), "{}{}", planned.out, planned.err);
    let told = desk.requests()[4]["messages"].to_string();
    assert!(told.contains("The user's answer to request 1") && told.contains("TOML"), "{told}");
    assert_eq!(contents(&desk.world.workspace()), before, "Plan mode left the tree as it was");
    for request in desk.requests() {
        let offered = request["tools"].to_string();
        let is_offered = |tool: &&&str| offered.contains(&format!("\"name\":\"{tool}\""));
        assert_eq!(refused.iter().find(is_offered), None, "{offered}");
    }
    desk.log(session).await
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_m2_m4_m6_m7_a_plan_made_in_plan_mode_is_carried_on_as_the_same_plan_in_work_mode() {
    let desk = desk_with_a_history().await;
    let session = desk.session().await;
    let id = session.to_string();
    let log = plans_it(&desk, &id).await;
    let shown = desk.answer(&["plan", "show", "--session", &id, "--json"]).await;
    assert_eq!((&shown["revision"], shown["steps"].as_array().unwrap().len()), (&json!(1), STEPS.len()));

    // Who read another revision than the one there is changes nothing, and leaves no prompt behind.
    let work = ["mode", "work", "--session", &id, "--json", "--prompt", GO, "--expected-plan-revision"];
    let stale = desk.zuno(&[&work[..], &["2"]].concat()).await;
    let refused: Value = serde_json::from_str(&stale.out).unwrap();
    assert_eq!((stale.code, &refused["rejected"]["code"]), (Some(3), &json!("revision_conflict")));
    assert_eq!(refused["rejected"]["current_revision"], json!(1), "{refused}");
    assert_eq!(desk.log(session).await, log);

    // The hand-over starts nothing by itself.
    let started = desk.answer(&[&work[..], &["1"]].concat()).await;
    assert_eq!((&started["mode"], &started["outlook"]["goes_on"]), (&json!("work"), &json!(true)));
    assert_eq!(desk.server.bodies().len(), 6);
    let worked = desk.zuno(&["run", "--session", &id]).await;
    assert_eq!(worked.code, Some(0), "{}{}", worked.out, worked.err);

    assert_eq!(desk.world.read(MADE), "en = \"Hello\"\n");
    let first = &desk.requests()[6];
    let told = first["messages"].to_string();
    assert_eq!((told.matches(GO).count(), told.matches(PROMPT).count()), (1, 1), "{told}");
    assert!(first["tools"].to_string().contains("write_file"));
    let log = desk.log(session).await;
    let revisions: Vec<_> =
        plans(&log).iter().map(|plan| (plan.id, plan.revision.0, plan.completed())).collect();
    let plan = revisions[0].0;
    assert_eq!(revisions, [(plan, 1, 0), (plan, 2, 2), (plan, 3, 5)]);
    let (modes, agents) = modes_and_agents(&log);
    assert_eq!(modes, [(Mode::Plan, "cli".to_owned()), (Mode::Work, "cli".to_owned())]);
    assert_eq!(agents, ["plan", "plan", "orchestrator"]);
    assert_eq!(endings(&log), ["1 waiting", "2 completed", "3 completed"]);
    // Every client shows the changes with their author.
    let told = desk.zuno(&["events", "--session", &id]).await.out;
    assert_eq!(told.matches("you      mode changed to ").count(), 2, "{told}");
}
