//! Which plan may follow which, and how plans end (P8–P17, P20).

use domain::{
    Actor, Capability, Code, EventBody, GoalId, GoalStatus, LaneId, Mode, PauseReason, PlanDiff, Revision,
    SessionState, Snapshot, UnknownKeys, decode_candidate,
};
use policy::{AgentCommand, PlanUpdate, Rejection, UserCommand};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::remark;

use super::world::{self, World, code, in_short};

/// A candidate sent to a session with a past, and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "rule")]
    _rule: String,
    says: String,
    #[serde(default)]
    before: Vec<Before>,
    send: Value,
    accepted: Option<Accepted>,
    refused: Option<Vec<String>>,
    current_revision: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Before {
    Update(Value),
    Close(String),
    Goal(GoalAct),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum GoalAct {
    Open,
    Cancel,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Accepted {
    revision: u64,
    plan: Which,
    steps: String,
    #[serde(default)]
    linked: bool,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Which {
    New,
    Same,
}

/// Reads a candidate as a client would; `steps` may be a line, the title may be left out and `$goal` is the Goal.
fn update(world: &mut World, candidate: &Value) -> PlanUpdate {
    let mut candidate = candidate.clone();
    if let Some(line) = candidate["steps"].as_str().map(str::to_owned) {
        let steps = testkit::steps(&line);
        candidate["steps"] =
            steps.iter().map(|s| json!({ "id": s.id, "title": s.title, "status": s.status })).collect();
    }
    if candidate["title"].is_null() {
        candidate["title"] = json!("Plan");
    }
    if candidate["goal_id"] == "$goal" {
        candidate["goal_id"] = json!(world.goal().id);
    }
    let candidate = decode_candidate(&candidate, UnknownKeys::Refuse).unwrap().candidate;
    PlanUpdate {
        snapshot: Snapshot::check(&candidate).unwrap(),
        expected_revision: candidate.expected_revision,
        goal_id: candidate.goal_id,
        new_plan: world.next_plan_id(),
    }
}

fn send(world: &mut World, candidate: &Value) -> Result<Vec<domain::Event>, Rejection> {
    let update = update(world, candidate);
    world.user(&UserCommand::UpdatePlan { lane: LaneId::main(), update })
}

fn close(world: &mut World, expected: Option<u64>, reason: &str) -> Result<Vec<domain::Event>, Rejection> {
    world.user(&UserCommand::ClosePlan {
        lane: LaneId::main(),
        expected_revision: expected.map(Revision),
        reason: remark(reason),
    })
}

fn check(case: &Case) {
    let says = &case.says;
    let mut world = World::open();
    for before in &case.before {
        match before {
            Before::Update(candidate) => drop(send(&mut world, candidate).unwrap()),
            Before::Close(reason) => drop(close(&mut world, None, reason).unwrap()),
            Before::Goal(GoalAct::Open) => drop(world.set_goal()),
            Before::Goal(GoalAct::Cancel) => drop(world.user(&UserCommand::CancelGoal).unwrap()),
        }
    }
    let old = world.state.clone();
    let old_plan = old.latest_plan(&LaneId::main()).map(|latest| latest.plan.id);
    match send(&mut world, &case.send) {
        Ok(events) => {
            assert_eq!(world::kinds(&events), ["plan_revised"], "{says}");
            let plan = world.state.current_plan(&LaneId::main()).unwrap();
            let is_same = old_plan == Some(plan.id);
            let found = Accepted {
                revision: plan.revision.0,
                plan: if is_same { Which::Same } else { Which::New },
                steps: world::steps(&world.state),
                linked: plan.goal_id.is_some(),
            };
            let wanted = case.accepted.as_ref().map(|wanted| Accepted {
                steps: testkit::snapshot("Plan", &wanted.steps)
                    .steps()
                    .iter()
                    .map(|step| format!("{}:{}", step.id, step.status))
                    .collect::<Vec<_>>()
                    .join(" "),
                revision: wanted.revision,
                plan: if wanted.plan == Which::New { Which::New } else { Which::Same },
                linked: wanted.linked,
            });
            assert_eq!(Some(found), wanted, "{says}");
        }
        Err(rejection) => {
            assert_eq!(Some(in_short(&rejection)), case.refused, "{says}");
            assert_eq!(rejection.current_revision.map(|r| r.0), case.current_revision, "{says}");
            assert_eq!(world.state, old, "a refusal changes nothing: {says}");
        }
    }
}

#[test]
fn p8_p9_p10_p11_p12_p13_p16_which_plan_may_follow_which() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../cases/revisions.json")).unwrap();
    cases.iter().for_each(check);
}

/// A session whose plan the user changed at revision 5.
fn at_revision_5() -> World {
    let mut world = World::open();
    let line = "inspect:completed implement:in_progress verify";
    world.update_plan("inspect:in_progress implement verify", None).unwrap();
    for revision in 1..5 {
        world.update_plan(line, Some(revision)).unwrap();
    }
    world
}

#[test]
fn p14_a_refusal_repairs_the_call_in_one_try() {
    let mut world = at_revision_5();
    let rejection = world.update_plan("inspect:completed", Some(3)).unwrap_err();
    insta::assert_snapshot!(rejection, @r#"revision_conflict: sent 3, current is 5 (changed by user). Steps: inspect completed · implement in_progress · verify pending. Resend all steps with "expected_revision": 5."#);
    insta::assert_compact_json_snapshot!(rejection, @r#"
    {
      "code": "revision_conflict",
      "violations": [
        {
          "rule": "P9",
          "code": "revision_conflict",
          "steps": [],
          "message": "sent 3, current is 5 (changed by user)"
        }
      ],
      "current_revision": 5,
      "current_plan": {
        "plan_id": "91a00000-0000-0000-0000-000000000001",
        "revision": 5,
        "changed_by": {
          "type": "user",
          "client": "cli"
        },
        "steps": [
          {
            "id": "inspect",
            "status": "completed",
            "title": "Do inspect"
          },
          {
            "id": "implement",
            "status": "in_progress",
            "title": "Do implement"
          },
          {
            "id": "verify",
            "status": "pending",
            "title": "Do verify"
          }
        ]
      }
    }
    "#);
    let rejection = world.update_plan("inspect:completed", None).unwrap_err();
    insta::assert_snapshot!(rejection, @r#"expected_revision_required: the current plan is unfinished, so say which revision you change: current is 5. Steps: inspect completed · implement in_progress · verify pending. Resend all steps with "expected_revision": 5."#);
    let rejection = world.update_plan("inspect:in_progress implement", Some(5)).unwrap_err();
    insta::assert_snapshot!(rejection, @r#"step_removed: accepted step ids must stay; missing: verify; step_regressed: completed steps stay completed: inspect; add a new step for work that has to be done again. Steps: inspect completed · implement in_progress · verify pending. Resend all steps with "expected_revision": 5."#);

    close(&mut world, None, "it does not apply").unwrap();
    let rejection = world.update_plan("inspect:completed", Some(5)).unwrap_err();
    insta::assert_snapshot!(rejection, @r#"revision_conflict: sent 5, current is 0 (the plan was closed by user: it does not apply). There is no current plan: send all steps without "expected_revision"."#);
    world.update_plan("again:in_progress", None).unwrap();
}

#[test]
fn p14_titles_are_left_out_once_they_are_8_kib_together() {
    let has_titles = |bytes_of_last: usize| {
        let step = |n| json!({ "id": format!("s{n}"), "title": "x".repeat(256), "status": "completed" });
        let mut steps: Vec<_> = (0..31).map(step).collect();
        steps.push(json!({ "id": "last", "title": "y".repeat(bytes_of_last), "status": "in_progress" }));
        let candidate = json!({ "title": "T", "steps": steps });
        let mut world = World::open();
        send(&mut world, &candidate).unwrap();
        let brief = send(&mut world, &candidate).unwrap_err().current_plan.unwrap();
        assert_eq!(brief.steps.len(), 32);
        let titled = brief.steps.iter().filter(|step| step.title.is_some()).count();
        assert!(titled == 0 || titled == 32, "all or none");
        titled > 0
    };
    assert!(has_titles(255));
    assert!(!has_titles(256));
}

#[test]
fn p15_every_revision_can_be_read_from_the_log() {
    let mut world = World::open();
    world.update_plan("a:in_progress b", None).unwrap();
    world.update_plan("a:completed b:in_progress", Some(1)).unwrap();
    close(&mut world, Some(2), "enough").unwrap();
    world.update_plan("c:in_progress", None).unwrap();
    let revisions: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::PlanRevised { plan, .. } => Some((event.seq, plan)),
            _ => None,
        })
        .collect();
    assert_eq!(revisions.iter().map(|(_, plan)| plan.revision.0).collect::<Vec<_>>(), [1, 2, 1]);
    for (seq, plan) in &revisions {
        let until = world.events.iter().filter(|event| event.seq <= *seq);
        let then = SessionState::fold(world.state.id, until);
        assert_eq!(then.current_plan(&LaneId::main()), Some(*plan));
    }
    let diff = PlanDiff::between(revisions[0].1, revisions[1].1);
    assert_eq!(diff.steps.len(), 2);
}

#[test]
fn p17_a_closed_plan_keeps_its_statuses_and_says_who_closed_it_and_why() {
    let mut world = World::open();
    world.update_plan("a:completed b:in_progress c", None).unwrap();
    assert_eq!(code(close(&mut world, Some(7), "x")), Code::RevisionConflict);
    let events = close(&mut world, Some(1), "the task changed").unwrap();
    assert_eq!(world::kinds(&events), ["plan_closed"]);
    let latest = world.state.latest_plan(&LaneId::main()).unwrap();
    assert_eq!(latest.plan.snapshot, testkit::snapshot("Plan", "a:completed b:in_progress c"));
    let closed = latest.head.closed.as_ref().unwrap();
    assert_eq!((closed.by.kind(), closed.reason.as_str()), ("user", "the task changed"));
    assert_eq!(world.state.current_plan(&LaneId::main()), None);
    assert_eq!(code(close(&mut world, None, "twice")), Code::NoPlan);
}

#[test]
fn p17_a_complete_plan_needs_no_closing() {
    let mut world = World::open();
    assert_eq!(code(close(&mut world, None, "x")), Code::NoPlan);
    world.update_plan("a:completed", None).unwrap();
    assert_eq!(code(close(&mut world, None, "x")), Code::PlanNotOpen);
}

#[test]
fn p17_refusals_to_close_do_not_ask_for_steps() {
    let mut world = at_revision_5();
    insta::assert_snapshot!(close(&mut world, Some(3), "x").unwrap_err(), @"revision_conflict: sent 3, current is 5 (changed by user). Steps: inspect completed · implement in_progress · verify pending. The current revision is 5.");
    close(&mut world, Some(5), "x").unwrap();
    insta::assert_snapshot!(close(&mut world, Some(5), "x").unwrap_err(), @"no_plan: there is no open plan to close");
}

fn close_by_agent(world: &mut World, expected: u64) -> Result<Vec<domain::Event>, Rejection> {
    let turn = world.running().number;
    let call = world.call(turn, &["plan_close"])[0];
    let grant = world::grant(&[Capability::UpdatePlan]);
    let result = world.agent(&AgentCommand::ClosePlan {
        call,
        grant,
        expected_revision: Revision(expected),
        reason: remark("it does not apply"),
    });
    if result.is_err() {
        world.runtime(&world::refuse_call(call, domain::CallOutcome::Refused)).unwrap();
    }
    result
}

#[test]
fn p17_the_agent_does_not_close_the_plan_of_the_active_goal() {
    let mut world = World::open();
    let goal: GoalId = world.set_goal();
    send(&mut world, &json!({ "steps": "a:in_progress", "goal_id": goal })).unwrap();
    world.submit("go on");
    world.start();
    assert_eq!(code(close_by_agent(&mut world, 1)), Code::PlanNotOpen);
    assert_eq!(world::steps(&world.state), "a:in_progress");

    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(code(close_by_agent(&mut world, 4)), Code::RevisionConflict);
    let events = close_by_agent(&mut world, 1).unwrap();
    assert_eq!(world::kinds(&events), ["call_admitted", "plan_closed", "call_finished"]);
    let latest = world.state.latest_plan(&LaneId::main()).unwrap();
    assert!(matches!(latest.head.closed.as_ref().unwrap().by, Actor::Agent { .. }));
}

#[test]
fn p17_the_agent_may_close_a_plan_that_no_goal_is_linked_to() {
    let mut world = World::open();
    world.set_goal();
    world.update_plan("a:in_progress", None).unwrap();
    world.start();
    close_by_agent(&mut world, 1).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn p20_an_update_touches_neither_goal_nor_mode() {
    let mut world = World::open();
    world.update_plan("a:in_progress b", None).unwrap();
    assert_eq!(world.state.core.goal, None);

    let goal = world.set_goal();
    world.user(&UserCommand::EnterPlan).unwrap();
    let before = world.state.core.clone();
    let link = json!({ "steps": "a:completed b:completed", "expected_revision": 1, "goal_id": goal });
    send(&mut world, &link).unwrap();
    assert_eq!(world.state.core.goal, before.goal);
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode));
    assert_eq!((world.state.core.mode, before.mode), (Mode::Plan, Mode::Plan));
}

#[test]
fn v2_p20_what_an_agent_sends_becomes_a_plan_with_a_short_answer_and_nothing_else() {
    let mut world = World::open();
    world.submit("plan it");
    let turn = world.start();
    let call = world.call(turn, &["plan_update"])[0];
    let update = world.plan_update("a:in_progress b", None);
    let grant = world::grant(&[Capability::UpdatePlan]);
    let events = world
        .agent(&AgentCommand::UpdatePlan { call, grant, update, ignored: vec!["mode".to_owned()] })
        .unwrap();
    assert_eq!(world::kinds(&events), ["call_admitted", "plan_revised", "call_finished"]);
    let EventBody::CallFinished { result, .. } = &events[2].body else { panic!() };
    insta::assert_snapshot!(result, @r#"{"plan_id":"91a00000-0000-0000-0000-000000000001","revision":1,"completed":0,"total":2,"active":"a","ignored":["mode"]}"#);
    assert_eq!((world.state.core.goal.as_ref(), world.state.core.mode), (None, Mode::Work));
}

#[test]
fn p13_a_lane_that_does_not_exist_has_no_plan() {
    let mut world = World::open();
    let lane: LaneId = "child".parse().unwrap();
    let update = world.plan_update("a:in_progress", None);
    assert_eq!(code(world.user(&UserCommand::UpdatePlan { lane, update })), Code::InvalidInput);
}
