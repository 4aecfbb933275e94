//! Calls of every tool through a turn: as texts that may be no JSON, on sessions with and without a plan and a Goal.

use std::collections::BTreeSet;

use domain::{CallOutcome, TurnOutcome};
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::{Step, ToolSpec};
use serde_json::Value;
use tests::{Probe, World, answering, calls, text};

use crate::arguments::PANICKED;
use crate::json::{anything, fields, near, strings};
use crate::run::{self, Extent, Verdict, ends};

/// Bytes of a refusal: a clipped quote of what was sent, and the ids and statuses of a plan's steps.
const REFUSAL_BYTES: usize = 16 * 1024;

/// Bytes of a result as the model reads it, with the line that says how much was left out (V2).
const RESULT_BYTES: usize = 33 * 1024;

/// A session before the calls.
#[derive(Debug, Clone, Copy)]
struct Before {
    has_plan: bool,
    has_goal: bool,
    in_plan_mode: bool,
}

/// The specs of what a turn is offered, but for commands: those would run.
async fn offered() -> Vec<ToolSpec> {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let probe = Probe::on(answering(|_, _| Ok(text("ok"))));
    world.run(session, probe.clone()).await;
    let mut offered = probe.requests().remove(0).tools;
    offered.retain(|spec| spec.name != "shell");
    offered
}

/// Arguments as a model writes them.
fn written(schema: &Value) -> impl Strategy<Value = String> + use<> {
    let json = prop_oneof![9 => near(schema), 1 => anything()].prop_map(|value| value.to_string());
    let cut = near(schema).prop_flat_map(|value| {
        let written = value.to_string();
        (0..=written.len()).prop_map(move |end| written[..written.floor_char_boundary(end)].to_owned())
    });
    let twice = near(schema).prop_map(|value| Value::from(value.to_string()).to_string());
    let nested = (100_usize..2_000).prop_map(|depth| "[{\"a\":".repeat(depth));
    prop_oneof![12 => json, 2 => cut, 1 => twice, 1 => strings(), 1 => nested]
}

pub(crate) fn fuzz(extent: Extent) -> Verdict {
    let setup = tokio::runtime::Runtime::new().unwrap();
    let offered = setup.block_on(offered());
    // What changes the session is drawn more often: the other tools have cases of their own.
    let acts_on_session = |spec: &ToolSpec| {
        ["plan_", "goal_", "command_", "ask_"].iter().any(|start| spec.name.starts_with(start))
    };
    assert!(offered.iter().filter(|spec| acts_on_session(spec)).count() >= 9, "{offered:?}");
    let calls = offered.iter().enumerate().map(|(at, spec)| {
        let weight = if acts_on_session(spec) { 4 } else { 1 };
        (weight, (Just(at), written(&spec.input_schema)).boxed())
    });
    let calls = vec(proptest::strategy::Union::new_weighted(calls.collect()), 1..8);
    let before = any::<(bool, bool, bool)>().prop_map(|(has_plan, has_goal, in_plan_mode)| Before {
        has_plan,
        has_goal,
        in_plan_mode: in_plan_mode && !has_goal,
    });
    run::run("a turn", extent, &(before, calls), async |(before, calls): (Before, Vec<(usize, String)>)| {
        let made = calls.len() as u64;
        let asked = calls.into_iter().map(|(at, arguments)| (offered[at].clone(), arguments)).collect();
        ends("a turn", check(before, asked)).await??;
        Ok(made)
    })
}

async fn check(before: Before, asked: Vec<(ToolSpec, String)>) -> Verdict {
    let world = World::new().await;
    let session = world.session().await;
    if before.has_plan {
        world.plan(session, "look:completed do:in_progress verify").await;
    }
    if before.has_goal {
        world.goal(session, "Something").await;
    } else {
        world.say(session, "go").await;
    }
    if before.in_plan_mode {
        world.user.enter_plan(session).await.unwrap();
    }
    let first =
        calls(&asked.iter().map(|(spec, sent)| (spec.name.as_ref(), sent.clone())).collect::<Vec<_>>());
    let model = answering(move |number, _| Ok(if number == 1 { first.clone() } else { text("ok") }));
    let engine = world.engine(model);
    let step = engine.step(session, runtime::Scope::All).await.map_err(|error| error.to_string())?;
    // A question ends its turn, too.
    let is_over =
        matches!(step, Step::Ran { outcome: TurnOutcome::Completed | TurnOutcome::Waiting { .. }, .. });
    if !is_over {
        return Err(format!("the turn came to {step:?}"));
    }
    let results = world.results(session).await;
    let answered: BTreeSet<_> = results.iter().map(|(call, ..)| (call.request, call.index)).collect();
    let expected: BTreeSet<_> = (0..).zip(&asked).map(|(index, _)| (1, index)).collect();
    if answered != expected || results.len() != expected.len() {
        return Err(format!("{} calls got the results {results:?}", asked.len()));
    }
    for (call, outcome, told) in results {
        check_result(&asked[call.index as usize].0, outcome, &told)?;
    }
    // The log is read back and folded anew: what was accepted can be said again.
    let view = world.view(session).await;
    let again = world.restarted().await.view(session).await;
    if format!("{view:?}") != format!("{again:?}") {
        return Err(format!("{view:?} is read back as {again:?}"));
    }
    Ok(())
}

fn check_result(spec: &ToolSpec, outcome: CallOutcome, told: &str) -> Verdict {
    let name = &spec.name;
    let is_refused = matches!(outcome, CallOutcome::Refused | CallOutcome::Invalid | CallOutcome::Denied);
    let most = if is_refused { REFUSAL_BYTES } else { RESULT_BYTES };
    if told.len() > most {
        return Err(format!("{name} answers with {} bytes: {told}", told.len()));
    }
    if told.contains(PANICKED) {
        return Err(format!("{name} panicked: {told}"));
    }
    // Refused for what was sent, not for the state that it met.
    let is_about_arguments = told.contains("invalid_input: ");
    let mut known = Vec::new();
    fields(&spec.input_schema, &mut known);
    let is_named = known.iter().any(|field| told.contains(field.as_str())) || told.contains("JSON");
    if is_about_arguments && !is_named {
        return Err(format!("{name} does not say which argument is wrong: {told}"));
    }
    Ok(())
}

#[tokio::test]
async fn options_that_are_no_texts_are_refused_by_their_name() {
    let ask = offered().await.into_iter().find(|spec| spec.name == "ask_user").unwrap();
    let before = Before { has_plan: false, has_goal: false, in_plan_mode: false };
    for options in ["[null]", "[\"\"]", "7", "[1,2,3,4,5,6,7,8,9,10,11]"] {
        let sent = format!("{{\"question\":\"Which?\",\"options\":{options}}}");
        check(before, vec![(ask.clone(), sent)]).await.unwrap();
    }
}

#[test]
fn a_result_that_names_no_field_or_says_too_much_is_seen() {
    let spec = ToolSpec {
        name: "goal_wait".into(),
        description: "".into(),
        input_schema: serde_json::json!({ "properties": { "until": { "type": "string" } } }),
        requires: domain::CapabilitySet::of(&[]),
    };
    let check = |text: &str| check_result(&spec, CallOutcome::Refused, text);
    assert!(check("goal_wait refused, nothing changed. invalid_input: `until` must be one of").is_ok());
    assert!(check("goal_wait refused, nothing changed. invalid_input: it must be one of").is_err());
    assert!(check(&"x".repeat(REFUSAL_BYTES + 1)).is_err());
}
