//! Plan mode and the way back (M1, M2, M4, M5, M7).

use domain::{Actor, Code, EventBody, GoalStatus, LaneId, Mode, PauseReason, StopReason};
use policy::{UserCommand, turn_agent};

use super::world::{World, begin, budgets, code, goal_set, kinds, start_work};

fn agent(world: &World) -> String {
    turn_agent(&world.state.core, &domain::LaneId::main()).unwrap().to_string()
}

#[test]
fn m1_the_mode_is_work_until_a_person_changes_it() {
    let mut world = World::open();
    assert_eq!(world.state.core.mode, Mode::Work);
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(world.state.core.mode, Mode::Plan);
    assert_eq!(world.user(&UserCommand::EnterPlan).unwrap(), [], "entering twice is entering once");
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(world.state.core.mode, Mode::Work);
}

#[test]
fn m1_recovery_leaves_the_mode_alone() {
    let mut world = World::open();
    world.submit("plan it");
    let turn = world.start();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.lose(turn);
    assert_eq!(world.state.core.mode, Mode::Plan);
}

#[test]
fn m2_plan_mode_runs_the_plan_agent_and_remembers_the_other() {
    let mut world = World::open();
    assert_eq!(agent(&world), "build");
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(agent(&world), "plan");
    world.submit("look around");
    let turn = world.start();
    assert_eq!(world.running().agent.as_str(), "plan");
    world.answer(turn, 10);

    world.user(&UserCommand::SelectAgent { agent: "deep".parse().unwrap() }).unwrap();
    assert_eq!(agent(&world), "plan", "choosing an agent does not leave Plan mode");
    world.user(&start_work(None, Some("do it"))).unwrap();
    world.start();
    assert_eq!(world.running().agent.as_str(), "deep");
}

#[test]
fn m4_start_work_checks_the_revision_that_was_read() {
    let mut world = World::open();
    world.update_plan("a:in_progress", None).unwrap();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.update_plan("a:in_progress b", Some(1)).unwrap();
    let rejection = world.user(&start_work(Some(1), Some("go"))).unwrap_err();
    insta::assert_snapshot!(rejection, @"revision_conflict: the plan to start was revision 1, current is 2; look at it again. Steps: a in_progress · b pending. The current revision is 2.");
    assert_eq!((world.state.core.mode, world.inbox().len()), (Mode::Plan, 0));
    world.user(&start_work(Some(2), Some("go"))).unwrap();
    assert_eq!((world.state.core.mode, world.inbox().len()), (Mode::Work, 1));
}

#[test]
fn m4_start_work_without_a_plan_succeeds() {
    let mut world = World::open();
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(code(world.user(&start_work(Some(1), None))), Code::RevisionConflict);
    assert_eq!(kinds(&world.user(&start_work(Some(0), None)).unwrap()), ["mode_changed"]);
}

#[test]
fn m4_in_work_mode_it_changes_nothing_but_takes_the_prompt() {
    let mut world = World::open();
    assert_eq!(world.user(&start_work(None, None)).unwrap(), []);
    assert_eq!(kinds(&world.user(&start_work(Some(9), Some("go"))).unwrap()), ["input_queued"]);
}

#[test]
fn m4_a_prompt_for_a_lane_that_does_not_exist_is_refused_and_not_lost() {
    let mut world = World::open();
    let lane: LaneId = "child".parse().unwrap();
    let command = match start_work(None, Some("go")) {
        UserCommand::StartWork { expected_plan_revision, prompt, .. } => {
            UserCommand::StartWork { lane, expected_plan_revision, prompt }
        }
        other => other,
    };
    assert_eq!(code(world.user(&command)), Code::InvalidInput);
}

#[test]
fn m4_start_work_lifts_a_plan_mode_pause_once_and_no_other() {
    let mut world = World::open();
    world.set_goal();
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode));
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);

    world.user(&UserCommand::PauseGoal).unwrap();
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User), "in Work mode it lifts nothing");
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User), "an existing pause is kept");
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User));
}

#[test]
fn m4_a_stronger_pause_set_in_plan_mode_stays() {
    let mut world = World::open();
    world.set_goal();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User));
}

#[test]
fn m5_nothing_becomes_active_in_plan_mode() {
    let held = GoalStatus::Paused(PauseReason::PlanMode);
    let mut world = World::open();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.set_goal();
    assert_eq!(*world.status(), held, "set");
    world.user(&UserCommand::PauseGoal).unwrap();
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(*world.status(), held, "resumed from a stronger pause");
    assert_eq!(world.user(&UserCommand::ResumeGoal).unwrap(), [], "resumed where it lands anyway");
    let id = testkit::goal_id(world.next_fresh());
    world.user(&goal_set(id, budgets(10, 10), true)).unwrap();
    assert_eq!((world.goal().id, world.status()), (id, &held), "replaced");
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn m5_a_blocked_goal_resumed_in_plan_mode_waits_for_start_work() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.fail(turn, super::world::failure(domain::FailureKind::Refused));
    assert_eq!(world.status().state(), domain::GoalState::Blocked);
    world.user(&UserCommand::EnterPlan).unwrap();
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode));
}

#[test]
fn m6_entering_plan_mode_stops_what_runs() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let events = world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(kinds(&events), ["mode_changed", "turn_stop_requested", "goal_moved"]);
    assert_eq!(world.running().stop, Some(StopReason::PlanMode));
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping);
}

#[test]
fn m7_a_change_of_mode_is_an_event_with_its_client() {
    let mut world = World::open();
    let events = world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(events[0].body, EventBody::ModeChanged { mode: Mode::Plan });
    assert_eq!(events[0].actor, Actor::User { client: "cli".parse().unwrap() });
}
