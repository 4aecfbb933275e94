//! What an agent may propose and a person decides (G3).

use domain::{
    Actor, BlockCode, Capability, Code, EventBody, GoalStatus, Mode, Objective, PauseReason, Revision,
};
use policy::{BudgetEdit, CriteriaEdit, IdleReason, NextAction, UserCommand};
use testkit::{goal_id, objective};

use super::commands::{accept, more_tokens, propose};
use super::world::{World, budgets, code, failure, goal_set, grant, kinds, start_work};

/// A session in which a turn for a prompt proposed a Goal.
fn proposed() -> World {
    let mut world = World::open();
    world.submit("what would you do?");
    let call = world.start_with("goal_propose");
    let id = goal_id(world.next_fresh());
    world.agent(&propose(call, id, "Port it")).unwrap();
    world.conclude();
    world
}

/// A session with an active Goal for which a turn proposed a change.
fn amended() -> World {
    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("goal_propose");
    world.agent(&propose(call, goal_id(77), "Reach the half of it")).unwrap();
    world.conclude();
    world
}

fn decline() -> UserCommand {
    UserCommand::DeclineGoal
}

fn edit(words: &str) -> UserCommand {
    let objective = Some(objective(words));
    UserCommand::EditGoal { objective, criteria: CriteriaEdit::Keep, expected_revision: None }
}

#[test]
fn g3_a_proposal_starts_nothing_until_the_person_accepts_it() {
    let mut world = proposed();
    assert_eq!(*world.status(), GoalStatus::Proposed);
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::GoalProposed });
    assert_eq!(world.wake_at, None);
    insta::assert_snapshot!(world.user(&UserCommand::ResumeGoal).unwrap_err(), @"illegal_transition: a user cannot take the Goal from proposed to active: there is nothing to resume");
    let events = world.user(&accept()).unwrap();
    assert_eq!(kinds(&events), ["goal_moved"]);
    assert!(matches!(events[0].actor, Actor::User { .. }));
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 1, .. }));
}

#[test]
fn g3_the_answer_to_a_proposal_says_who_decides() {
    let mut world = World::open();
    world.submit("go");
    let call = world.start_with("goal_propose");
    let events = world.agent(&propose(call, goal_id(5), "Port it")).unwrap();
    assert_eq!(kinds(&events), ["call_admitted", "goal_opened", "call_finished"]);
    let EventBody::CallFinished { result, .. } = &events[2].body else { panic!() };
    insta::assert_snapshot!(result, @r#"{"status":"proposed","next":"the user decides; say in a sentence what you propose and end the turn"}"#);
}

#[test]
fn g3_a_proposal_is_revised_in_place_and_accepted_as_it_was_read() {
    let mut world = proposed();
    let id = world.goal().id;
    world.submit("smaller");
    let call = world.start_with("goal_propose");
    let events = world.agent(&propose(call, goal_id(77), "Port half of it")).unwrap();
    assert_eq!(kinds(&events), ["call_admitted", "goal_edited", "call_finished"]);
    world.conclude();
    assert_eq!((world.goal().id, world.goal().revision), (id, Revision(2)), "the same proposal");
    assert_eq!(world.goal().objective, objective("Port half of it"));
    let stale = UserCommand::AcceptGoal { expected_revision: Some(Revision(1)) };
    insta::assert_snapshot!(world.user(&stale).unwrap_err(), @"revision_conflict: the Goal is at revision 2, and 1 was expected; look at it again");
    world.user(&UserCommand::AcceptGoal { expected_revision: Some(Revision(2)) }).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn g3_a_declined_proposal_is_over_and_the_next_one_is_another_goal() {
    let mut world = proposed();
    let first = world.goal().id;
    assert_eq!(kinds(&world.user(&decline()).unwrap()), ["goal_moved"]);
    assert_eq!(*world.status(), GoalStatus::Cancelled);
    assert_eq!(code(world.user(&accept())), Code::IllegalTransition);
    world.submit("again");
    let call = world.start_with("goal_propose");
    assert_eq!(code(world.agent(&propose(call, first, "Port it"))), Code::GoalOpen, "ids are used once");
    world.agent(&propose(call, goal_id(78), "Port it")).unwrap();
    assert_eq!((world.goal().id, world.status()), (goal_id(78), &GoalStatus::Proposed));
}

#[test]
fn g3_g13_a_person_may_edit_bound_and_replace_a_proposal() {
    let mut world = proposed();
    assert_eq!(kinds(&world.user(&edit("Port a third")).unwrap()), ["goal_edited"]);
    assert_eq!(kinds(&world.user(&more_tokens(50)).unwrap()), ["goal_budget_changed"]);
    assert_eq!((world.status(), world.goal().budgets.tokens.get()), (&GoalStatus::Proposed, 50));
    let events = world.user(&goal_set(goal_id(50), budgets(10, 10), false)).unwrap();
    assert_eq!(kinds(&events), ["goal_moved", "goal_opened"], "without asking for replace");
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn g3_an_amendment_changes_nothing_until_it_is_accepted() {
    let mut world = amended();
    let before = (objective("Reach it"), Revision(1));
    assert_eq!((world.goal().objective.clone(), world.goal().revision), before);
    assert_eq!(*world.status(), GoalStatus::Active, "and the Goal goes on meanwhile");
    let turn = world.start();
    let events = world.user(&accept()).unwrap();
    assert_eq!(kinds(&events), ["goal_edited"]);
    let goal = world.goal();
    assert_eq!(
        (&goal.objective, goal.revision, &goal.amendment),
        (&objective("Reach the half of it"), Revision(2), &None)
    );
    let call = world.call(turn, &["goal_update"])[0];
    let late = world.agent(&super::world::complete_goal(call));
    assert_eq!(code(late), Code::GoalNotBound, "a turn bound to what it was cannot complete what it is");
    assert_eq!(code(world.user(&accept())), Code::IllegalTransition, "once");
}

#[test]
fn g3_an_amendment_is_declined_and_replaced_by_a_later_one() {
    let mut world = amended();
    let call = world.start_with("goal_propose");
    world.agent(&propose(call, goal_id(77), "Reach a quarter of it")).unwrap();
    let latest = world.goal().amendment.clone().unwrap();
    assert_eq!(latest.objective, objective("Reach a quarter of it"));
    assert_eq!(kinds(&world.user(&decline()).unwrap()), ["goal_amendment_declined"]);
    assert_eq!((&world.goal().amendment, &world.goal().objective), (&None, &objective("Reach it")));
    insta::assert_snapshot!(world.user(&decline()).unwrap_err(), @"illegal_transition: no agent proposes anything to decline");
    insta::assert_snapshot!(world.user(&accept()).unwrap_err(), @"illegal_transition: no agent proposes anything to accept");
}

#[test]
fn g3_an_amendment_can_be_accepted_in_every_open_state_and_leaves_it() {
    let pause = |world: &mut World| drop(world.user(&UserCommand::PauseGoal).unwrap());
    let block = |world: &mut World| {
        let turn = world.start();
        world.fail(turn, failure(domain::FailureKind::Refused));
    };
    let limit = |world: &mut World| drop(world.user(&more_tokens(1)).unwrap());
    for hold in [pause as fn(&mut World), block, limit] {
        let mut world = amended();
        hold(&mut world);
        let held = world.status().clone();
        world.user(&accept()).unwrap();
        assert_eq!(*world.status(), held);
        assert_eq!(world.goal().objective, objective("Reach the half of it"));
    }
}

#[test]
fn g3_the_end_of_a_goal_takes_the_amendment_along() {
    for last in [UserCommand::CancelGoal, super::world::complete(false)] {
        let mut world = amended();
        world.user(&last).unwrap();
        assert_eq!(world.goal().amendment, None);
        assert_eq!(code(world.user(&accept())), Code::IllegalTransition);
    }
}

#[test]
fn g3_m5_a_goal_proposed_and_accepted_in_plan_mode_waits_for_start_work() {
    let mut world = World::open();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.submit("plan it");
    let call = world.start_with("goal_propose");
    world.agent(&propose(call, goal_id(5), "Port it")).unwrap();
    world.conclude();
    world.user(&accept()).unwrap();
    assert_eq!(
        (world.status(), world.state.core.mode),
        (&GoalStatus::Paused(PauseReason::PlanMode), Mode::Plan)
    );
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn g3_t7_a_goal_accepted_after_an_uncertain_call_is_held_for_it() {
    let mut world = proposed();
    world.submit("send it");
    let call = world.start_with("mail");
    world.admit_call(call, domain::Effect::External);
    world.lose(call.turn);
    world.user(&accept()).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
}

#[test]
fn g3_a_proposal_needs_the_capability() {
    let mut world = World::open();
    world.submit("go");
    let call = world.start_with("goal_propose");
    let policy::AgentCommand::ProposeGoal { goal_id, objective, criteria, budgets, .. } =
        propose(call, goal_id(5), "Port it")
    else {
        panic!()
    };
    let short = policy::CallGrant {
        grant: domain::CapabilitySet::of(&[Capability::UpdatePlan]),
        ..grant(&[Capability::UpdateGoal])
    };
    let command =
        policy::AgentCommand::ProposeGoal { call, grant: short, goal_id, objective, criteria, budgets };
    assert_eq!(code(world.agent(&command)), Code::Denied);
    assert_eq!(world.state.core.goal, None);
}

#[test]
fn g3_an_edit_changes_what_it_names_and_nothing_when_nothing_changes() {
    let mut world = World::open();
    world.set_goal();
    let criteria = |criteria| UserCommand::EditGoal { objective: None, criteria, expected_revision: None };
    let tests: Objective = objective("The tests pass");
    world.user(&criteria(CriteriaEdit::Set(tests.clone()))).unwrap();
    assert_eq!(world.user(&criteria(CriteriaEdit::Set(tests.clone()))).unwrap(), []);
    assert_eq!(world.user(&criteria(CriteriaEdit::Keep)).unwrap(), []);
    world.user(&edit("Reach more")).unwrap();
    assert_eq!((&world.goal().objective, &world.goal().criteria), (&objective("Reach more"), &Some(tests)));
    world.user(&criteria(CriteriaEdit::Remove)).unwrap();
    assert_eq!((&world.goal().criteria, world.goal().revision), (&None, Revision(4)));
    let stale = UserCommand::EditGoal {
        objective: None,
        criteria: CriteriaEdit::Remove,
        expected_revision: Some(Revision(1)),
    };
    assert_eq!(code(world.user(&stale)), Code::RevisionConflict);
    world.user(&UserCommand::CancelGoal).unwrap();
    assert_eq!(code(world.user(&edit("Reach it after all"))), Code::IllegalTransition);
    let none = UserCommand::SetBudgets { budgets: BudgetEdit::default() };
    assert_eq!(code(world.user(&none)), Code::IllegalTransition);
}

#[test]
fn g3_g2_an_edit_takes_completion_and_blocking_from_the_turns_that_run() {
    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("goal_update");
    world.user(&edit("Reach more")).unwrap();
    assert_eq!(world.running().stop, None, "the turn goes on");
    assert_eq!(code(world.agent(&super::world::complete_goal(call))), Code::GoalNotBound);
    assert_eq!(code(world.agent(&super::commands::stage_block(call))), Code::GoalNotBound);
}

#[test]
fn g3_block_codes_are_not_the_agents_to_choose() {
    let mut world = World::open();
    world.set_goal();
    for _ in 0..3 {
        world.blocked_turn();
    }
    let GoalStatus::Blocked { code, .. } = world.status() else { panic!() };
    assert_eq!(*code, BlockCode::AgentDeclared);
}
