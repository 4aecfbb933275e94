//! The end of a Goal: what it waits for, what it takes along, and the last answer of the turn that completes it (G12).

use domain::{
    CallOutcome, Code, Condition, Effect, EventBody, FailureKind, GoalStatus, StopReason, TurnOutcome,
};
use policy::{AgentCommand, RuntimeCommand, UserCommand};
use testkit::goal_id;

use super::commands::{answer, ask, end_command, propose, text, wait_goal};
use super::world::{
    START, World, begin, code, complete, complete_goal, end, failure, goal_set, grant, kinds, respond, spent,
};

fn goal() -> World {
    let mut world = World::open();
    world.set_goal();
    world
}

/// A Goal with a running command, an unread report and an open request.
fn busy() -> World {
    let mut world = goal();
    world.start();
    world.background();
    world.background();
    world.background();
    let call = world.one_call("ask_user");
    world.runtime(&ask(call)).unwrap();
    world.runtime(&end_command(2, CallOutcome::Succeeded)).unwrap();
    world
}

/// What ends a Goal at once, whatever is open.
fn ends() -> [UserCommand; 3] {
    [complete(true), UserCommand::CancelGoal, goal_set(goal_id(50), domain::Budgets::default(), true)]
}

#[test]
fn g12_completion_is_refused_with_counts_of_what_is_open() {
    let mut world = busy();
    insta::assert_snapshot!(world.user(&complete(false)).unwrap_err(), @"open_work: the Goal still has open work (2 running background commands, 1 unread report, 1 unanswered request); complete it with --force to cancel that");
    world.user(&UserCommand::StopCommand { command: domain::CommandId(1) }).unwrap();
    insta::assert_snapshot!(world.user(&complete(false)).unwrap_err(), @"open_work: the Goal still has open work (1 running background command, 1 unread report, 1 unanswered request); complete it with --force to cancel that");
    world.runtime(&end_command(1, CallOutcome::Stopped)).unwrap();
    world.runtime(&end_command(3, CallOutcome::Succeeded)).unwrap();
    insta::assert_snapshot!(world.user(&complete(false)).unwrap_err(), @"open_work: the Goal still has open work (3 unread reports, 1 unanswered request); complete it with --force to cancel that");
    world.user(&answer(1, text("8080"))).unwrap();
    world.whole_turn();
    assert_eq!(world.row_kinds(), ["answer"], "the reports are read in one turn");
    world.whole_turn();
    world.user(&complete(false)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Completed);
}

#[test]
fn g12_the_agent_is_refused_the_same_way_and_has_no_force() {
    let mut world = goal();
    world.start();
    world.background();
    let call = world.one_call("goal_update");
    insta::assert_snapshot!(world.agent(&complete_goal(call)).unwrap_err(), @"open_work: the Goal still has open work (1 running background command); wait for it with goal_wait, or stop it with command_stop");
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    assert_eq!(code(world.agent(&complete_goal(call))), Code::OpenWork, "the report is unread");
    world.runtime(&super::world::refuse_call(call, CallOutcome::Refused)).unwrap();
    let call = world.one_call("goal_update");
    world.agent(&complete_goal(call)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Completed, "read with the next request");
}

#[test]
fn g12_what_belongs_to_no_goal_is_in_nobodys_way() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.background();
    let call = world.one_call("ask_user");
    world.runtime(&ask(call)).unwrap();
    world.runtime(&end_command(2, CallOutcome::Succeeded)).unwrap();
    world.set_goal();
    let call = world.start_with("goal_update");
    world.agent(&complete_goal(call)).unwrap();
    let core = &world.state.core;
    assert_eq!((core.commands.len(), core.requests.len()), (1, 1), "nor is it touched");
    assert!(!core.commands[0].is_stopping);
}

#[test]
fn g12_the_end_takes_requests_rows_and_commands_along_silently() {
    for last in ends() {
        let mut world = busy();
        let events = world.user(&last).unwrap();
        let count = |kind| events.iter().filter(|event| event.body.kind() == kind).count();
        assert_eq!(count("request_settled"), 1, "{last:?}");
        assert_eq!(count("input_cancelled"), 1, "{last:?}");
        assert_eq!(count("command_stop_requested"), 2, "{last:?}");
        assert_eq!(count("input_queued"), 0, "{last:?}: no answer row");
        let core = &world.state.core;
        assert_eq!((core.requests.len(), world.row_kinds().len()), (0, 0));
        for n in [1, 3] {
            let events = world.runtime(&end_command(n, CallOutcome::Stopped)).unwrap();
            assert_eq!(kinds(&events), ["command_ended"], "{last:?}: its report has no reader");
        }
    }
}

#[test]
fn g12_the_end_clears_retry_wait_and_continuation() {
    for last in ends() {
        let mut world = goal();
        let call = world.start_with("goal_wait");
        world.agent(&wait_goal(call, Condition::Time, START + 60_000)).unwrap();
        world.fail(call.turn, failure(FailureKind::Transport));
        assert!(world.goal().retry.is_some() && world.goal().wait.is_some());
        world.user(&last).unwrap();
        let old = world.goal().id != goal_id(50);
        assert_eq!((world.goal().retry, &world.goal().wait), (None, &None), "{last:?}");
        if old {
            assert_eq!(world.wake_at, None, "{last:?}");
            world.now += 86_400_000;
            assert!(matches!(world.next(), policy::NextAction::Idle { .. }), "{last:?}");
        } else {
            assert!(matches!(world.next(), policy::NextAction::RunGoal { continuation: 1, .. }));
        }
    }
}

#[test]
fn g12_completion_by_a_turn_clears_them_too() {
    let mut world = goal();
    let turn = world.start();
    world.fail(turn, failure(FailureKind::Transport));
    world.submit("go");
    let call = world.start_with("goal_wait");
    world.agent(&wait_goal(call, Condition::Inbox, START + 60_000)).unwrap();
    let call = world.one_call("goal_propose");
    world.agent(&propose(call, goal_id(9), "More")).unwrap();
    let call = world.one_call("goal_update");
    world.agent(&complete_goal(call)).unwrap();
    world.conclude();
    assert_eq!(world.wake_at, None);
}

#[test]
fn g12_the_completing_turn_gets_one_more_answer_without_calls_and_it_is_charged() {
    let mut world = goal();
    let call = world.start_with("goal_update");
    world.agent(&complete_goal(call)).unwrap();
    let turn = call.turn;
    assert_eq!(world.running().stop, None);
    let before = world.goal().usage.tokens.charged();
    world.runtime(&begin(turn)).unwrap();
    world.runtime(&respond(turn, &["write_file"], spent(40))).unwrap();
    assert_eq!(world.goal().usage.tokens.charged(), before + 40);
    let call = domain::CallRef { turn, request: 2, index: 0 };
    let admission = AgentCommand::AdmitCall { call, grant: grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admission)), Code::TurnStopping);
    world.runtime(&super::world::refuse_call(call, CallOutcome::NotRun)).unwrap();
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping, "one");
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(kinds(&events), ["turn_ended"]);
}

#[test]
fn g12_the_other_calls_of_the_completing_response_do_not_run() {
    let mut world = goal();
    let turn = world.start();
    let calls = world.call(turn, &["goal_update", "shell", "goal_update"]);
    world.agent(&complete_goal(calls[0])).unwrap();
    let admission = AgentCommand::AdmitCall { call: calls[1], grant: grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admission)), Code::TurnStopping);
    assert_eq!(code(world.agent(&complete_goal(calls[2]))), Code::TurnStopping);
    assert_eq!(code(world.runtime(&ask(calls[2]))), Code::TurnStopping);
}

#[test]
fn g12_a_completing_turn_that_dies_before_its_last_answer_has_completed() {
    let mut world = goal();
    let call = world.start_with("goal_update");
    world.agent(&complete_goal(call)).unwrap();
    world.request(call.turn);
    world.lose(call.turn);
    assert_eq!((world.status(), world.wake_at), (&GoalStatus::Completed, None));
    assert!(world.goal().usage.tokens.estimated, "and is charged by estimate");
}

#[test]
fn g12_the_persons_end_stops_bound_turns_of_the_goal() {
    for last in ends() {
        for by_prompt in [false, true] {
            let mut world = goal();
            if by_prompt {
                world.submit("go");
            }
            world.start();
            world.user(&last).unwrap();
            assert_eq!(world.running().stop, Some(StopReason::GoalChanged), "{last:?}");
        }
    }
}

#[test]
fn g12_a_goal_that_was_never_accepted_cannot_be_completed() {
    let mut world = World::open();
    world.submit("go");
    let call = world.start_with("goal_propose");
    world.agent(&propose(call, goal_id(5), "Port it")).unwrap();
    for force in [false, true] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(world.user(&complete(force)).unwrap_err(), @"illegal_transition: a user cannot take the Goal from proposed to completed: it was never accepted");
        }
    }
}

#[test]
fn g12_nothing_of_the_old_goal_reaches_the_new_one() {
    let mut world = busy();
    world.user(&goal_set(goal_id(50), domain::Budgets::default(), true)).unwrap();
    let before = world.goal().clone();
    assert_eq!(world.user(&answer(1, text("8080"))).unwrap(), []);
    for n in [1, 3] {
        world.runtime(&end_command(n, CallOutcome::Failed)).unwrap();
    }
    assert_eq!(*world.goal(), before);
    assert_eq!(world.row_kinds(), [""; 0]);
    let of_old = |event: &&domain::Event| match &event.body {
        EventBody::InputQueued { goal_id: Some(id), .. } => *id != goal_id(50),
        _ => false,
    };
    assert_eq!(world.events.iter().filter(of_old).count(), 1, "the report that was cancelled with it");
    assert!(matches!(world.next(), policy::NextAction::RunGoal { continuation: 1, .. }));
    let late = RuntimeCommand::RenewCommand { command: domain::CommandId(1), owner: super::world::owner(1) };
    assert_eq!(code(world.runtime(&late)), Code::UnknownCommand);
}
