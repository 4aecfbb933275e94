//! Single calls of a model: odd ones, several at once, large results, and the keys that name them (E5, V2).

use std::sync::Arc;

use domain::{CallOutcome, EventBody, SessionId, TurnOutcome};
use models::{Protocol, RemoteModel, RemoteSettings};
use runtime::{Message, ModelResponse, Step};
use serde_json::json;
use tests::{OpenAiServer, Probe, Reply, World, answering, calls, plan, story, text};

/// One response with calls, then a text; gives how the calls ended and what the model read.
async fn play(world: &World, session: SessionId, asked: &[(&str, String)]) -> Vec<(CallOutcome, String)> {
    let before = world.results(session).await.len();
    world.say(session, "go").await;
    let first: ModelResponse = calls(asked);
    let model = answering(move |number, _| Ok(if number == 1 { first.clone() } else { text("ok") }));
    let steps = world.run(session, model).await;
    // Whatever the calls were like, the turn goes on to its answer.
    assert!(matches!(steps[0], Step::Ran { outcome: TurnOutcome::Completed, .. }), "{steps:?}");
    let results = world.results(session).await.split_off(before);
    results.into_iter().map(|(_, outcome, text)| (outcome, text)).collect()
}

#[tokio::test]
async fn arguments_that_are_no_json_object_are_answered_and_the_turn_goes_on() {
    let world = World::new().await;
    let session = world.session().await;
    let asked = [
        ("read_file", "{\"path\": \"a".to_owned()),
        ("read_file", "path=a".to_owned()),
        ("read_file", "[\"a\"]".to_owned()),
        ("read_file", "\"a\"".to_owned()),
        ("read_file", "null".to_owned()),
        ("read_file", String::new()),
        ("list_dir", "  ".to_owned()),
        ("plan_update", "{\"title\": \"x\", \"steps\": [".to_owned()),
        ("plan_update", "{}".to_owned()),
        ("plan_close", "{}".to_owned()),
        ("goal_update", "{\"status\": \"done\"}".to_owned()),
    ];
    let results = play(&world, session, &asked).await;
    let told: Vec<_> = asked
        .iter()
        .zip(&results)
        .map(|((tool, arguments), (outcome, text))| {
            format!("{tool}({arguments})\n  {}: {text}", outcome.name())
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    read_file({"path": "a)
      invalid: the arguments are not valid JSON (EOF while parsing a string at line 1 column 11); send one JSON object
    read_file(path=a)
      invalid: the arguments are not valid JSON (expected value at line 1 column 1); send one JSON object
    read_file(["a"])
      invalid: the arguments must be one JSON object
    read_file("a")
      invalid: the arguments must be one JSON object
    read_file(null)
      invalid: the arguments must be one JSON object
    read_file()
      invalid: invalid arguments: `path` is missing: no arguments were sent. read_file expects {"path": string, "limit"?: integer, "offset"?: integer}; ? marks optional keys
    list_dir(  )
      succeeded: [the directory is empty]
    plan_update({"title": "x", "steps": [)
      invalid: the arguments are not valid JSON (EOF while parsing a list at line 1 column 25); send one JSON object
    plan_update({})
      refused: plan_update refused, nothing changed. invalid_input: `title` is missing; invalid_input: `steps` is missing; send the list of all steps. There is no current plan: send all steps without "expected_revision".
    plan_close({})
      refused: plan_close refused, nothing changed. invalid_input: `expected_revision` is missing; send the plan's current revision
    goal_update({"status": "done"})
      refused: goal_update refused, nothing changed. invalid_input: `status` must be "completed" or "blocked", the only ones an agent can declare
    "#);
}

#[tokio::test]
async fn several_calls_of_one_response_have_their_results_in_order() {
    let world = World::new().await;
    world.write("a.txt", "alpha\n");
    world.write("b.txt", "beta\n");
    let session = world.session().await;
    let read = |path: &str| ("read_file", json!({ "path": path }).to_string());
    let asked = [read("b.txt"), read("a.txt"), read("none.txt")];
    let results = play(&world, session, &asked).await;
    let outcomes: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(outcomes[..2], [CallOutcome::Succeeded; 2]);
    assert_ne!(outcomes[2], CallOutcome::Succeeded);
    assert!(results[0].1.contains("beta") && results[1].1.contains("alpha"));
    insta::assert_snapshot!(story(&world.log(session).await[5..13]), @r#"
    6 runtime model_responded 1.1 "" calls [read_file, read_file, read_file]
    7 agent call_admitted 1.1.0 read_file
    8 runtime call_finished 1.1.0 read_file succeeded
    9 agent call_admitted 1.1.1 read_file
    10 runtime call_finished 1.1.1 read_file succeeded
    11 agent call_admitted 1.1.2 read_file
    12 runtime call_finished 1.1.2 read_file failed
    13 runtime model_requested 1.2 attempt 1
    "#);
}

#[tokio::test]
async fn v2_a_large_result_is_head_and_tail_and_kept_whole_beside_the_log() {
    let world = World::new().await;
    let session = world.session().await;
    let asked = [("shell", json!({ "command": "echo first; seq 12000; echo last" }).to_string())];
    let results = play(&world, session, &asked).await;
    let (outcome, shown) = &results[0];
    assert_eq!(*outcome, CallOutcome::Succeeded);
    assert!(shown.len() <= 33 * 1024, "{}", shown.len());
    assert!(shown.starts_with("exit code 0\nfirst\n1\n2\n") && shown.ends_with("\n12000\nlast"));
    let gap = shown.lines().find(|line| line.starts_with('[')).unwrap();
    let digest = world.log(session).await.into_iter().find_map(|event| match event.body {
        EventBody::CallFinished { full_output, .. } => full_output,
        _ => None,
    });
    let whole = world.store.blob(digest.unwrap()).await.unwrap().unwrap();
    let whole = String::from_utf8(whole).unwrap();
    let numbers: Vec<_> = (1..=12_000).map(|number| number.to_string()).collect();
    assert_eq!(whole, format!("exit code 0\nfirst\n{}\nlast", numbers.join("\n")));
    let left_out: usize = gap.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(shown.len() - gap.len() - 2 + left_out, whole.len(), "{gap}");

    // A result that fits is not kept twice.
    play(&world, session, &[("shell", json!({ "command": "seq 1000" }).to_string())]).await;
    let kept = world
        .log(session)
        .await
        .into_iter()
        .filter(|event| matches!(&event.body, EventBody::CallFinished { full_output: Some(_), .. }));
    assert_eq!(kept.count(), 1);
}

#[tokio::test]
async fn v2_a_large_result_is_cut_between_characters() {
    let world = World::new().await;
    let session = world.session().await;
    world.write("wide.txt", &"é\u{1f980}".repeat(400).split_inclusive('é').collect::<Vec<_>>().join("\n"));
    for _ in 0..3 {
        let command = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do cat wide.txt; printf x; done";
        let results = play(&world, session, &[("shell", json!({ "command": command }).to_string())]).await;
        assert!(results[0].1.contains("bytes left out"), "{}", results[0].1.len());
        assert!(!results[0].1.contains(char::REPLACEMENT_CHARACTER));
        let wide = world.read("wide.txt");
        world.write("wide.txt", &format!("x{wide}"));
    }
}

#[tokio::test]
async fn e5_the_same_call_twice_is_two_calls_named_by_their_places() {
    let world = World::new().await;
    let session = world.session().await;
    let update = plan("a:completed b:completed").to_string();
    // A complete plan is followed by leaving the revision out, so both are accepted, as two plans.
    let asked = [("plan_update", update.clone()), ("plan_update", update)];
    let results = play(&world, session, &asked).await;
    assert!(results.iter().all(|(outcome, _)| *outcome == CallOutcome::Succeeded), "{results:?}");
    let log = world.log(session).await;
    let revised: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::PlanRevised { plan, .. } => Some(plan.id),
            _ => None,
        })
        .collect();
    assert_eq!(revised.len(), 2);
    assert_ne!(revised[0], revised[1]);
    let mut keys: Vec<_> =
        log.iter().filter_map(|event| event.command_key.as_ref()).map(ToString::to_string).collect();
    keys.dedup();
    assert_eq!(keys, ["call:1.1.0", "call:1.1.1"]);
}

#[tokio::test]
async fn e5_a_model_that_repeats_its_call_ids_gets_a_result_for_each_call() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    // The server calls the first call of every response `c0`.
    let server = OpenAiServer::start(|number, _| match number {
        1 => Reply::call("shell", &json!({ "command": "echo one >> log" })),
        2 | 3 => Reply::call("shell", &json!({ "command": "echo two >> log" })),
        _ => Reply::text("done"),
    })
    .await;
    let settings = RemoteSettings {
        name: "remote".parse().unwrap(),
        protocol: Protocol::OpenaiChat,
        model: "m".to_owned(),
        base_url: Some(server.base_url.clone()),
        api_key: None,
        context_tokens: 100_000,
    };
    let model = Probe::on(Arc::new(RemoteModel::new(settings).unwrap()));
    world.run(session, model.clone()).await;
    assert_eq!(world.read("log"), "one\ntwo\ntwo\n");
    let last = model.requests().pop().unwrap();
    let ids: Vec<_> = last
        .history
        .iter()
        .filter_map(|message| match message {
            Message::ToolResult { call_id, .. } => Some(call_id.clone()),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    assert_eq!(ids, ["call_1_1_0", "call_1_2_0", "call_1_3_0"]);
    let body = server.bodies().pop().unwrap();
    assert!(!body.contains("\"c0\""), "the provider's own ids are not sent back");
}

#[tokio::test]
async fn e5_a_plan_that_a_client_sends_twice_with_one_key_is_one_revision() {
    let world = World::new().await;
    let session = world.session().await;
    let key = || Some(domain::CommandKey::parse("update-1").unwrap());
    let first = world.user.update_plan(session, &plan("a:in_progress b"), key()).await.unwrap();
    let events = world.log(session).await.len();
    let again = world.user.update_plan(session, &plan("a:in_progress b"), key()).await.unwrap();
    assert_eq!((first, events), (again, world.log(session).await.len()));
    let other = world.user.update_plan(session, &plan("a:in_progress c"), key()).await;
    let Err(runtime::CommandError::Rejected(refused)) = other else { panic!("{other:?}") };
    assert_eq!(refused.code, domain::Code::KeyReused);
    // A refusal is not remembered: the same key works once the call does.
    let key = || Some(domain::CommandKey::parse("update-2").unwrap());
    world.user.update_plan(session, &plan("x"), key()).await.unwrap_err();
    let next = tests::revised(1, "a:completed b:in_progress");
    assert_eq!(world.user.update_plan(session, &next, key()).await.unwrap().revision.0, 2);
}
