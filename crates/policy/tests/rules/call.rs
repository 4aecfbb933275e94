//! Admitting calls: grant, mode and turn are read when a call is recorded as started (C1, C2, C4, M6, T6).

use domain::{CallOutcome, CallRef, Capability, CapabilitySet, Code, Effect, EventBody, Mode, TurnPhase};
use policy::{AgentCommand, CallGrant, PLAN_MODE, UserCommand, in_mode};
use proptest::prelude::*;

use super::commands::{asking, forbidding};
use super::world::{World, code, finish_call, grant, kinds, refuse_call};

fn admit(call: CallRef, grant: CallGrant) -> AgentCommand {
    AgentCommand::AdmitCall { call, grant, effect: Effect::Read }
}

fn a_call(mode: Mode) -> (World, CallRef) {
    let mut world = World::open();
    if mode == Mode::Plan {
        world.user(&UserCommand::EnterPlan).unwrap();
    }
    world.submit("go");
    let turn = world.start();
    let call = world.call(turn, &["tool"])[0];
    (world, call)
}

#[test]
fn c4_plan_mode_lets_through_exactly_these() {
    let names: Vec<_> = PLAN_MODE.iter().map(Capability::name).collect();
    insta::assert_snapshot!(names.join(", "), @"read_workspace, search_workspace, ask_human, load_skill, read_work_state, update_plan, update_goal, update_work_items");
}

#[test]
fn c2_c4_each_capability_in_each_mode() {
    for mode in [Mode::Work, Mode::Plan] {
        for capability in Capability::ALL {
            let (mut world, call) = a_call(mode);
            let result = world.agent(&admit(call, grant(&[capability])));
            let is_allowed = mode == Mode::Work || PLAN_MODE.holds(capability);
            assert_eq!(result.is_ok(), is_allowed, "{capability} in {mode}");
            if let Err(rejection) = result {
                assert_eq!(rejection.code, Code::Denied);
                assert!(rejection.to_string().contains(capability.name()), "{rejection}");
                assert!(rejection.to_string().contains("Plan mode"), "{rejection}");
            }
        }
    }
}

#[test]
fn c2_a_tool_needs_every_capability_it_names() {
    let (mut world, call) = a_call(Mode::Work);
    let requires = CapabilitySet::of(&[Capability::ReadWorkspace, Capability::Delegate, Capability::Network]);
    let short = CallGrant { requires, grant: CapabilitySet::of(&[Capability::ReadWorkspace]), ..grant(&[]) };
    insta::assert_snapshot!(world.agent(&admit(call, short)).unwrap_err(), @"denied: `tool` needs network, delegate, which this agent does not have in work mode. Go on without it, or tell the user what is missing");
}

#[test]
fn c2_a_tool_off_the_list_is_refused_with_every_capability() {
    let (mut world, call) = a_call(Mode::Work);
    let unlisted = CallGrant { tool_is_allowed: false, ..grant(&[]) };
    insta::assert_snapshot!(world.agent(&admit(call, unlisted)).unwrap_err(), @"denied: `tool` is not on the list of allowed tools in the configuration");
}

#[test]
fn c2_permission_rules_narrow_what_mode_and_role_let_through() {
    let (mut world, call) = a_call(Mode::Work);
    let reads = [Capability::ReadWorkspace];
    insta::assert_snapshot!(world.agent(&admit(call, forbidding(&reads))).unwrap_err(), @"denied: `tool` is not allowed: rule 2");
    insta::assert_snapshot!(world.agent(&admit(call, asking(&reads))).unwrap_err(), @"permission_needed: `tool` needs the user's leave: rule 1");
    world.agent(&admit(call, grant(&reads))).unwrap();
    let (mut world, call) = a_call(Mode::Plan);
    let writes = grant(&[Capability::WriteWorkspace]);
    assert_eq!(code(world.agent(&admit(call, writes))), Code::Denied, "a rule that allows adds nothing");
    let asks = asking(&[Capability::WriteWorkspace]);
    assert_eq!(code(world.agent(&admit(call, asks))), Code::Denied, "nor does one that would ask");
}

#[test]
fn c4_a_refusal_in_plan_mode_says_who_leaves_it() {
    let (mut world, call) = a_call(Mode::Plan);
    insta::assert_snapshot!(world.agent(&admit(call, grant(&[Capability::WriteWorkspace]))).unwrap_err(), @"denied: `tool` needs write_workspace, which Plan mode does not allow. Plan mode is read-only and only the user leaves it. Go on with reading and planning, and say what you would do");
}

#[test]
fn m6_a_plan_update_passes_in_plan_mode_and_a_write_does_not() {
    let (mut world, call) = a_call(Mode::Plan);
    let write = Effect::FileWrite { path: "a".to_owned(), before: None, after: domain::Digest([0; 32]) };
    let command =
        AgentCommand::AdmitCall { call, grant: grant(&[Capability::WriteWorkspace]), effect: write };
    assert_eq!(code(world.agent(&command)), Code::Denied);
    let update = world.plan_update("a:in_progress", None);
    let grant = grant(&[Capability::UpdatePlan]);
    world.agent(&AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() }).unwrap();
}

#[test]
fn m6_after_enter_plan_the_running_turn_admits_nothing_not_even_a_read() {
    let (mut world, call) = a_call(Mode::Work);
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(code(world.agent(&admit(call, grant(&[Capability::ReadWorkspace])))), Code::TurnStopping);
    let update = world.plan_update("a:in_progress", None);
    let grant = grant(&[Capability::UpdatePlan]);
    let command = AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() };
    assert_eq!(code(world.agent(&command)), Code::TurnStopping);
}

#[test]
fn m6_an_effect_admitted_before_may_still_report() {
    let (mut world, call) = a_call(Mode::Work);
    world.admit_call(call, Effect::Command { confined: false });
    world.user(&UserCommand::EnterPlan).unwrap();
    world.runtime(&finish_call(call, CallOutcome::Stopped)).unwrap();
}

#[test]
fn m6_a_result_needs_an_admission() {
    let (mut world, call) = a_call(Mode::Work);
    assert_eq!(code(world.runtime(&finish_call(call, CallOutcome::Succeeded))), Code::OutOfOrder);
    world.admit_call(call, Effect::Read);
    assert_eq!(code(world.agent(&admit(call, grant(&[])))), Code::OutOfOrder, "admitted twice");
    assert_eq!(code(world.runtime(&refuse_call(call, CallOutcome::Denied))), Code::OutOfOrder);
    world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
    assert_eq!(code(world.runtime(&finish_call(call, CallOutcome::Succeeded))), Code::OutOfOrder);
}

#[test]
fn t6_calls_are_those_of_the_last_response() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let calls = world.call(turn, &["one", "two"]);
    for wrong in [
        CallRef { index: 2, ..calls[0] },
        CallRef { request: 2, ..calls[0] },
        CallRef { request: 0, ..calls[0] },
    ] {
        assert_eq!(code(world.agent(&admit(wrong, grant(&[])))), Code::OutOfOrder, "{wrong}");
    }
    world.admit_call(calls[1], Effect::Read);
    world.runtime(&finish_call(calls[1], CallOutcome::Succeeded)).unwrap();
    assert!(matches!(world.running().phase, TurnPhase::Calling { .. }), "one call is open");
    let events = world.runtime(&refuse_call(calls[0], CallOutcome::Invalid)).unwrap();
    assert!(matches!(&events[0].body, EventBody::CallFinished { tool, .. } if tool == "one"));
    assert_eq!(world.running().phase, TurnPhase::Ready);
    assert_eq!(code(world.agent(&admit(calls[0], grant(&[])))), Code::OutOfOrder);
}

#[test]
fn t6_a_refused_plan_update_leaves_the_call_open() {
    let (mut world, call) = a_call(Mode::Work);
    let update = world.plan_update("a:in_progress", Some(3));
    let grant = grant(&[Capability::UpdatePlan]);
    let command = AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() };
    assert_eq!(code(world.agent(&command)), Code::RevisionConflict);
    let events = world.runtime(&refuse_call(call, CallOutcome::Refused)).unwrap();
    assert_eq!(kinds(&events), ["call_finished"]);
}

fn sets() -> impl Strategy<Value = CapabilitySet> {
    proptest::sample::subsequence(Capability::ALL.to_vec(), 0..=12).prop_map(|list| CapabilitySet::of(&list))
}

proptest! {
    #![proptest_config(testkit::cases(128))]

    #[test]
    fn c2_c4_whatever_is_admitted_was_granted_in_this_mode(requires in sets(), granted in sets(), plan in any::<bool>()) {
        let mode = if plan { Mode::Plan } else { Mode::Work };
        let (mut world, call) = a_call(mode);
        let call_grant = CallGrant { requires, grant: granted, ..grant(&[]) };
        let is_admitted = world.agent(&admit(call, call_grant)).is_ok();
        let effective = in_mode(granted, mode);
        // Plan mode allows by name, so it does not let through what names nothing.
        let is_named = !plan || requires.iter().next().is_some();
        prop_assert_eq!(is_admitted, is_named && requires.iter().all(|c| effective.holds(c)));
        prop_assert!(effective.iter().all(|c| granted.holds(c)));
        if plan {
            prop_assert!(effective.iter().all(|c| PLAN_MODE.holds(c)));
        }
    }
}
