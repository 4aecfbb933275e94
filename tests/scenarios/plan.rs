//! The plan tools in the hands of a model (P14, P17, P20).

use domain::{CallOutcome, GoalStatus, Mode, SessionId};
use runtime::{Message, ModelRequest};
use serde_json::{Value, json};
use tests::{World, answering, call, plan, revised, text};

/// What the model reads last.
fn last_result(request: &ModelRequest) -> &str {
    match request.history.last() {
        Some(Message::ToolResult { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

/// The statuses that a refusal lists, as pairs of id and status.
fn listed_steps(refusal: &str) -> Vec<(String, String)> {
    let Some((_, rest)) = refusal.split_once("Steps: ") else { return Vec::new() };
    let list = rest.split(". ").next().unwrap();
    let pair = |step: &str| {
        let (id, status) = step.rsplit_once(' ').unwrap();
        (id.to_owned(), status.to_owned())
    };
    list.split(" · ").map(pair).collect()
}

/// Repairs a call from the text of its refusal alone, as a careful model would: it keeps what it meant to say, except
/// where the text contradicts it.
fn repaired(meant: &Value, refusal: &str) -> Value {
    let known = listed_steps(refusal);
    let mut steps: Vec<(String, String)> = meant["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["id"].as_str().unwrap().to_owned(), step["status"].as_str().unwrap().to_owned()))
        .collect();
    for (id, status) in &known {
        match steps.iter_mut().find(|(step, _)| step == id) {
            // What is completed stays so.
            Some(step) if status == "completed" => step.1.clone_from(status),
            Some(_) => {}
            None => steps.push((id.clone(), status.clone())),
        }
    }
    // One step is active while any is pending.
    let mut active = steps.iter_mut().filter(|(_, status)| status == "in_progress");
    let has_active = active.next().is_some();
    active.for_each(|(_, status)| "pending".clone_into(status));
    if !has_active && let Some((_, status)) = steps.iter_mut().find(|(_, status)| status == "pending") {
        "in_progress".clone_into(status);
    }
    let step =
        |(id, status): &(String, String)| json!({ "id": id, "title": format!("Do {id}"), "status": status });
    let mut repaired = json!({ "title": "Repaired", "steps": steps.iter().map(step).collect::<Vec<_>>() });
    if let Some((_, revision)) = refusal.split_once("Resend all steps with \"expected_revision\": ") {
        repaired["expected_revision"] = json!(revision.trim_end_matches('.').parse::<u64>().unwrap());
    }
    repaired
}

/// A model sends this candidate, is refused, repairs it from the text and is accepted.
async fn repair(world: &World, session: SessionId, candidate: Value) -> String {
    let before = world.results(session).await.len();
    world.say(session, "update the plan").await;
    let model = answering(move |number, request| {
        Ok(match number {
            1 => call("plan_update", &candidate),
            2 => call("plan_update", &repaired(&candidate, last_result(request))),
            _ => text("ok"),
        })
    });
    world.run(session, model).await;
    let results = world.results(session).await.split_off(before);
    let outcomes: Vec<_> = results.iter().map(|(_, outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Refused, CallOutcome::Succeeded], "{results:?}");
    results[0].2.clone()
}

#[tokio::test]
async fn p14_a_model_repairs_a_refused_update_in_one_try_from_the_text_alone() {
    let world = World::new().await;
    let session = world.session().await;
    let mut told = Vec::new();
    // No plan yet: a revision that does not exist, then a structure that does not hold.
    told.push(repair(&world, session, revised(4, "a:in_progress b")).await);
    let session = world.session().await;
    told.push(repair(&world, session, plan("a b c")).await);
    let session = world.session().await;
    told.push(repair(&world, session, plan("a:in_progress b:in_progress c")).await);

    // An unfinished plan that a person moves on.
    let session = world.session().await;
    world.plan(session, "inspect:in_progress implement verify").await;
    let second = revised(1, "inspect:completed implement:in_progress verify");
    world.user.update_plan(session, &second, None).await.unwrap();
    told.push(repair(&world, session, plan("inspect:in_progress implement verify")).await);
    told.push(
        repair(&world, session, revised(1, "inspect:completed implement:completed verify:in_progress")).await,
    );
    told.push(repair(&world, session, revised(4, "inspect:completed implement:completed")).await);
    told.push(repair(&world, session, revised(5, "inspect:in_progress implement verify")).await);
    // Both at once are told at once.
    told.push(repair(&world, session, revised(6, "inspect:in_progress extra")).await);
    insta::assert_snapshot!(told.join("\n"), @r#"
    plan_update refused, nothing changed. revision_conflict: sent 4, current is 0. There is no current plan: send all steps without "expected_revision".
    plan_update refused, nothing changed. no_active_step: steps are pending, so exactly one must be in_progress; mark one, for example `a`. There is no current plan: send all steps without "expected_revision".
    plan_update refused, nothing changed. several_in_progress: only one step may be in_progress; these are: a, b. There is no current plan: send all steps without "expected_revision".
    plan_update refused, nothing changed. expected_revision_required: the current plan is unfinished, so say which revision you change: current is 2. Steps: inspect completed · implement in_progress · verify pending. Resend all steps with "expected_revision": 2.
    plan_update refused, nothing changed. revision_conflict: sent 1, current is 3 (changed by agent). Steps: inspect completed · implement in_progress · verify pending. Resend all steps with "expected_revision": 3.
    plan_update refused, nothing changed. step_removed: accepted step ids must stay; missing: verify. Steps: inspect completed · implement completed · verify in_progress. Resend all steps with "expected_revision": 4.
    plan_update refused, nothing changed. step_regressed: completed steps stay completed: inspect, implement; add a new step for work that has to be done again. Steps: inspect completed · implement completed · verify in_progress. Resend all steps with "expected_revision": 5.
    plan_update refused, nothing changed. step_removed: accepted step ids must stay; missing: implement, verify; step_regressed: completed steps stay completed: inspect; add a new step for work that has to be done again. Steps: inspect completed · implement completed · verify in_progress. Resend all steps with "expected_revision": 6.
    "#);
}

/// One call of a model, and what it reads.
async fn one_call(
    world: &World,
    session: SessionId,
    tool: &'static str,
    arguments: Value,
) -> (CallOutcome, String) {
    let before = world.results(session).await.len();
    world.say(session, "go").await;
    let model = answering(move |number, _| Ok(if number == 1 { call(tool, &arguments) } else { text("ok") }));
    world.run(session, model).await;
    let (_, outcome, text) = world.results(session).await.swap_remove(before);
    (outcome, text)
}

#[tokio::test]
async fn p17_an_agent_closes_a_plan_that_no_longer_applies_and_the_next_update_opens_another() {
    let world = World::new().await;
    let session = world.session().await;
    let first = world.plan(session, "a:completed b:in_progress c").await;
    let close = |revision: u64| json!({ "expected_revision": revision, "reason": "the idea does not work" });
    let stale = one_call(&world, session, "plan_close", close(7)).await;
    let (outcome, _) = one_call(&world, session, "plan_close", close(1)).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    let closed = world.view(session).await.plan.unwrap();
    assert_eq!(closed.closed.as_ref().map(|closed| closed.reason.as_str()), Some("the idea does not work"));
    assert_eq!((closed.completed, closed.active.map(String::from)), (1, Some("b".to_owned())));
    let again = one_call(&world, session, "plan_close", close(1)).await;
    let based_on_it =
        one_call(&world, session, "plan_update", revised(1, "a:completed b:in_progress c")).await;
    insta::assert_snapshot!([stale.1, again.1, based_on_it.1].join("\n"), @r#"
    plan_close refused, nothing changed. revision_conflict: sent 7, current is 1 (changed by user). Steps: a completed · b in_progress · c pending. The current revision is 1.
    plan_close refused, nothing changed. no_plan: there is no open plan to close
    plan_update refused, nothing changed. revision_conflict: sent 1, current is 0 (the plan was closed by agent: the idea does not work). There is no current plan: send all steps without "expected_revision".
    "#);

    let (outcome, _) = one_call(&world, session, "plan_update", plan("x:in_progress y")).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    let next = world.view(session).await.plan.unwrap();
    assert_ne!(next.plan_id, first.plan_id);
    assert_eq!((next.revision.0, next.closed), (1, None));
}

#[tokio::test]
async fn p17_an_agent_does_not_close_the_plan_of_the_active_goal() {
    let world = World::new().await;
    let session = world.session().await;
    let goal = world
        .goal_within(session, "reach it", domain::Budgets { turns: 1.try_into().unwrap(), ..<_>::default() })
        .await;
    let mut linked = plan("a:in_progress b");
    linked["goal_id"] = json!(goal.to_string());
    world.user.update_plan(session, &linked, None).await.unwrap();
    let close = json!({ "expected_revision": 1, "reason": "too hard" });
    let (outcome, told) = one_call(&world, session, "plan_close", close.clone()).await;
    assert_eq!(outcome, CallOutcome::Refused);
    insta::assert_snapshot!(told, @"plan_close refused, nothing changed. plan_not_open: the plan supports the active Goal; update it instead, or complete the Goal first. Steps: a in_progress · b pending. The current revision is 1.");
    assert_eq!(world.view(session).await.plan.unwrap().closed, None);
    // That turn used up the budget: the Goal is not active any more, and the plan may be closed.
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::BudgetLimited);
    let (outcome, _) = one_call(&world, session, "plan_close", close).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
}

#[tokio::test]
async fn p20_plan_update_touches_neither_goal_nor_mode() {
    let world = World::new().await;
    let everything = |revision: Option<u64>, goal: Option<String>| {
        let mut update = plan("a:completed b:completed");
        update["mode"] = json!("plan");
        update["status"] = json!("completed");
        update["goal"] = json!({ "objective": "a new Goal", "status": "active" });
        update["expected_revision"] = json!(revision);
        update["goal_id"] = json!(goal);
        update
    };
    // Without a Goal none comes to be.
    let session = world.session().await;
    let (outcome, _) = one_call(&world, session, "plan_update", everything(None, None)).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    let view = world.view(session).await;
    assert_eq!((view.goal, view.mode), (None, Mode::Work));
    // A paused Goal stays as it is, also when a complete plan names it.
    let goal = world.goal(session, "reach it").await;
    world.user.pause_goal(session).await.unwrap();
    let before = world.view(session).await.goal;
    let update = everything(Some(1), Some(goal.to_string()));
    let (outcome, _) = one_call(&world, session, "plan_update", update).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    let view = world.view(session).await;
    assert_eq!((view.goal, view.mode), (before, Mode::Work));
    assert_eq!(view.plan.unwrap().goal_id, Some(goal));
    // In Plan mode it is allowed, and stays in Plan mode.
    world.user.enter_plan(session).await.unwrap();
    let (outcome, _) = one_call(&world, session, "plan_update", everything(Some(2), None)).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    let view = world.view(session).await;
    assert_eq!((view.mode, view.plan.unwrap().goal_id), (Mode::Plan, None));
}

#[tokio::test]
async fn keys_that_a_plan_does_not_have_are_dropped_and_listed() {
    let world = World::new().await;
    let session = world.session().await;
    let mut update = plan("a:in_progress b");
    update["priority"] = json!("high");
    update["steps"][1]["note"] = json!("later");
    update["explanation"] = Value::Null;
    let (outcome, told) = one_call(&world, session, "plan_update", update).await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    let plan_id = world.view(session).await.plan.unwrap().plan_id.to_string();
    insta::assert_snapshot!(told.replace(&plan_id, "PLAN"), @r#"{"plan_id":"PLAN","revision":1,"completed":0,"total":2,"active":"a","ignored":["priority","steps[1].note"]}"#);
}
