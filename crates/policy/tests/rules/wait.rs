//! Waits of a Goal: no turn of its own while one holds, one admission when it is over (G10).

use domain::{
    CallOutcome, Code, CommandId, Condition, Digest, Effect, EventBody, GoalStatus, Timestamp, TurnTrigger,
    WAIT_MS, WaitOver, WaitedPath,
};
use policy::{Awaited, Delay, LOOK_MS, NextAction, RuntimeCommand, UserCommand};

use super::commands::{end_command, wait_goal};
use super::world::{START, World, admit, code, kinds, owner, start_work};

const HOUR_MS: i64 = 3_600_000;
const OLD: Option<Digest> = Some(Digest([1; 32]));
const NEW: Option<Digest> = Some(Digest([2; 32]));

fn goal() -> World {
    let mut world = World::open();
    world.set_goal();
    world
}

fn file(baseline: Option<Digest>) -> Condition {
    Condition::File { path: WaitedPath::parse("target/out").unwrap(), baseline }
}

const fn command(n: u32) -> Condition {
    Condition::Command { command: CommandId(n) }
}

/// A Goal that waits for this for an hour, with a background command 1 that works for it.
fn waiting(condition: Condition) -> World {
    let mut world = goal();
    world.start();
    world.background();
    world.conclude();
    world.now = START;
    // The command is an implicit wait, so that the turn that sets the wait is one for a prompt.
    world.submit("wait for it");
    world.wait_for(condition, START + HOUR_MS);
    world
}

fn look(world: &mut World, found: Option<Digest>) -> Vec<domain::Event> {
    let goal_id = world.goal().id;
    world.runtime(&RuntimeCommand::LookAtFile { goal_id, found }).unwrap()
}

/// Takes the background command out of the picture of wake-ups.
fn without_command(world: &mut World) {
    let lines = RuntimeCommand::EndCommand {
        command: CommandId(1),
        outcome: CallOutcome::Succeeded,
        result: "done".to_owned(),
        full_output: None,
    };
    world.runtime(&lines).unwrap();
    world.start();
    world.conclude();
}

#[test]
fn g10_while_a_wait_holds_no_turn_of_the_goal_starts_and_a_wake_up_is_set() {
    for (condition, wakes) in
        [(Condition::Time, HOUR_MS), (command(1), HOUR_MS), (file(OLD), LOOK_MS), (Condition::Inbox, HOUR_MS)]
    {
        let mut world = waiting(condition.clone());
        let wait = world.goal().wait.clone().unwrap();
        let expected = if condition == Condition::Time {
            NextAction::WaitUntil { at: wait.deadline, cause: Delay::Wait { wait } }
        } else {
            NextAction::WaitFor { what: Awaited::Condition { wait } }
        };
        assert_eq!(world.next(), expected, "{condition:?}");
        assert_eq!(world.next_at(START + HOUR_MS - 1), expected, "{condition:?}: until the last millisecond");
        assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::NotDue, "{condition:?}");
        let lease = world.leases.commands[&CommandId(1)].expires_at;
        assert_eq!(world.wake_at, Some(Timestamp(START + wakes).min(lease)), "{condition:?}");
    }
}

#[test]
fn g10_at_its_deadline_a_wait_is_consumed_by_one_continuation() {
    for condition in [Condition::Time, command(1), file(OLD), Condition::Inbox] {
        let mut world = waiting(condition.clone());
        world.now = START + HOUR_MS;
        assert!(
            matches!(world.next(), NextAction::RunGoal { .. }),
            "{condition:?}: although the command runs"
        );
        let events = world.runtime(&admit(&owner(1))).unwrap();
        let EventBody::TurnStarted { wait_over, trigger, .. } = &events[0].body else { panic!() };
        assert_eq!(*wait_over, Some(WaitOver { condition, is_met: false }));
        assert!(matches!(trigger, TurnTrigger::Goal { .. }));
        assert_eq!((&world.goal().wait, world.running().wait_over.is_some()), (&None, true));
        world.conclude();
        let implicit = NextAction::WaitFor { what: Awaited::Commands { commands: vec![CommandId(1)] } };
        assert_eq!(world.next(), implicit, "the next turn waits for the command again");
    }
}

#[test]
fn g10_a_time_wakes_once_and_then_the_goal_goes_on() {
    let mut world = goal();
    world.wait_for(Condition::Time, START + HOUR_MS);
    assert_eq!(world.wake_at, Some(Timestamp(START + HOUR_MS)));
    world.now = START + HOUR_MS;
    world.working_turn();
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 3, .. }));
    assert_eq!(world.waits_ended(), 1);
}

#[test]
fn g10_what_is_there_when_the_wait_is_stored_is_met_at_once() {
    let mut world = goal();
    world.start();
    let n = world.background();
    world.runtime(&end_command(n, CallOutcome::Succeeded)).unwrap();
    let call = world.one_call("goal_wait");
    let events = world.agent(&wait_goal(call, command(n), START + HOUR_MS)).unwrap();
    assert_eq!(kinds(&events), ["call_admitted", "goal_wait_set", "call_finished", "goal_wait_met"]);
    world.conclude();
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));

    let mut world = goal();
    let call = world.start_with("goal_wait");
    world.submit("a word");
    let events = world.agent(&wait_goal(call, Condition::Inbox, START + HOUR_MS)).unwrap();
    assert_eq!(kinds(&events)[3..], ["goal_wait_met"]);
}

#[test]
fn g10_an_agent_cannot_store_a_wait_that_says_it_is_met() {
    let mut world = goal();
    let call = world.start_with("goal_wait");
    let policy::AgentCommand::WaitGoal { call, grant, mut wait, ran } =
        wait_goal(call, Condition::Inbox, START + HOUR_MS)
    else {
        panic!()
    };
    wait.is_met = true;
    world.agent(&policy::AgentCommand::WaitGoal { call, grant, wait, ran }).unwrap();
    assert!(!world.goal().wait.as_ref().unwrap().is_met);
}

#[test]
fn g10_the_end_of_the_command_meets_the_wait_and_one_turn_consumes_it() {
    let mut world = waiting(command(1));
    world.now += 10 * HOUR_MS / 20;
    let events = world.runtime(&end_command(1, CallOutcome::Failed)).unwrap();
    assert_eq!(kinds(&events), ["command_ended", "input_queued", "goal_wait_met"]);
    assert_eq!(world.wake_at, Some(Timestamp(world.now)));
    let events = world.runtime(&admit(&owner(1))).unwrap();
    let EventBody::TurnStarted { wait_over, trigger, goal, .. } = &events[0].body else { panic!() };
    assert_eq!(*wait_over, Some(WaitOver { condition: command(1), is_met: true }));
    assert!(matches!(trigger, TurnTrigger::Input { .. }), "the report");
    assert!(goal.is_some());
    let continuations = world.goal().continuations;
    world.conclude();
    assert_eq!((&world.goal().wait, world.goal().continuations), (&None, continuations));
}

#[test]
fn g10_an_input_meets_the_wait_runs_first_and_does_not_consume_it() {
    let mut world = goal();
    world.wait_for(Condition::Inbox, START + HOUR_MS);
    let events = world.user(&super::world::submit("here you are")).unwrap();
    assert_eq!(kinds(&events), ["input_queued", "goal_wait_met"]);
    world.start();
    assert_eq!((world.running().wait_over.clone(), world.running().is_for_goal), (None, false));
    world.conclude();
    let events = world.runtime(&admit(&owner(1))).unwrap();
    let over = WaitOver { condition: Condition::Inbox, is_met: true };
    assert!(matches!(&events[0].body, EventBody::TurnStarted { wait_over: Some(is), .. } if *is == over));
}

#[test]
fn g10_i3_a_prompt_runs_during_a_wait_and_leaves_it() {
    let mut world = goal();
    world.wait_for(Condition::Time, START + HOUR_MS);
    let before = world.goal().wait.clone();
    world.submit("what is it waiting for?");
    world.whole_turn();
    assert_eq!(world.goal().wait, before);
    assert!(matches!(world.next(), NextAction::WaitUntil { .. }));
}

#[test]
fn g10_a_file_is_looked_at_again_and_again_until_it_differs() {
    for (baseline, other) in [(OLD, NEW), (OLD, None), (None, NEW)] {
        let mut world = goal();
        world.wait_for(file(baseline), START + HOUR_MS);
        for n in 1..=3 {
            assert_eq!(world.wake_at, Some(Timestamp(START + n * LOOK_MS)));
            world.now = START + n * LOOK_MS;
            assert_eq!(look(&mut world, baseline), [], "the same: no event");
        }
        world.now += LOOK_MS;
        let events = look(&mut world, other);
        assert_eq!(kinds(&events), ["goal_wait_met"]);
        assert_eq!((world.wake_at, world.leases.next_look), (Some(Timestamp(world.now)), None));
        let goal_id = world.goal().id;
        let again = RuntimeCommand::LookAtFile { goal_id, found: baseline };
        assert_eq!(code(world.runtime(&again)), Code::NotDue, "met once, whatever it becomes");
        world.start();
        assert!(world.running().wait_over.as_ref().unwrap().is_met);
    }
}

#[test]
fn g10_the_last_look_at_a_file_is_at_the_deadline() {
    let mut world = goal();
    world.wait_for(file(OLD), START + LOOK_MS / 2);
    assert_eq!(world.wake_at, Some(Timestamp(START + LOOK_MS / 2)));
}

#[test]
fn g10_a_wait_survives_every_pause_and_can_be_met_meanwhile() {
    type Pause = (UserCommand, UserCommand);
    let pauses: [Pause; 3] = [
        (UserCommand::PauseGoal, UserCommand::ResumeGoal),
        (UserCommand::Interrupt, UserCommand::ResumeGoal),
        (UserCommand::EnterPlan, start_work(None, None)),
    ];
    for (pause, resume) in pauses {
        let mut world = goal();
        world.wait_for(file(OLD), START + HOUR_MS);
        let before = world.goal().wait.clone();
        world.user(&pause).unwrap();
        assert_eq!((world.wake_at, &world.goal().wait), (None, &before), "{pause:?}");
        world.now += 60_000;
        world.user(&resume).unwrap();
        assert_eq!(world.goal().wait, before);
        assert!(world.wake_at.is_some_and(|at| at.0 <= world.now), "{pause:?}: a look is due");
        world.user(&pause).unwrap();
        assert_eq!(kinds(&look(&mut world, NEW)), ["goal_wait_met"], "{pause:?}: during the pause");
        assert_eq!(world.wake_at, None);
        world.user(&resume).unwrap();
        assert!(matches!(world.next(), NextAction::RunGoal { .. }), "{pause:?}");
    }
}

#[test]
fn g10_an_input_that_came_and_went_during_a_pause_has_met_the_wait() {
    let mut world = goal();
    world.wait_for(Condition::Inbox, START + HOUR_MS);
    world.user(&UserCommand::PauseGoal).unwrap();
    world.submit("here you are");
    world.whole_turn();
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(world.goal().wait.as_ref().unwrap().is_met);
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));
}

#[test]
fn g10_a_report_of_no_goal_is_an_input_too() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    world.set_goal();
    world.wait_for(Condition::Inbox, START + HOUR_MS);
    let events = world.runtime(&end_command(1, CallOutcome::Failed)).unwrap();
    assert_eq!(kinds(&events), ["command_ended", "input_queued", "goal_wait_met"]);
    assert!(matches!(world.next(), NextAction::RunGoal { .. }), "whose turn it joins");
}

#[test]
fn g10_a_deadline_that_passes_during_a_pause_is_over_afterwards() {
    let mut world = goal();
    world.wait_for(Condition::Time, START + HOUR_MS);
    world.user(&UserCommand::PauseGoal).unwrap();
    world.now = START + 2 * HOUR_MS;
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));
}

#[test]
fn g10_a_running_command_is_an_implicit_wait_without_end() {
    let mut world = goal();
    world.start();
    world.background();
    world.conclude();
    let waits = NextAction::WaitFor { what: Awaited::Commands { commands: vec![CommandId(1)] } };
    assert_eq!((world.next(), world.next_at(START + 100 * HOUR_MS)), (waits.clone(), waits));
    assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::NotDue);
    let lease = world.leases.commands[&CommandId(1)].expires_at;
    assert_eq!(world.wake_at, Some(lease), "its owner may be gone by then");
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    let turns = world.events.iter().filter(|event| event.body.kind() == "turn_started").count();
    world.whole_turn();
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 2, .. }));
    let after = world.events.iter().filter(|event| event.body.kind() == "turn_started").count();
    assert_eq!(after - turns, 1);
}

#[test]
fn g10_a_command_of_no_goal_holds_none() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    world.set_goal();
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 1, .. }));
}

#[test]
fn g10_a_goal_that_waited_ten_hours_for_a_command_made_no_request_and_goes_on_once() {
    let mut world = goal();
    world.start();
    world.background();
    world.conclude();
    let requests = |world: &World| world.events.iter().filter(|e| e.body.kind() == "model_requested").count();
    let before = requests(&world);
    for _ in 0..10 * 720 {
        world.now += 5_000;
        world.runtime(&RuntimeCommand::RenewCommand { command: CommandId(1), owner: owner(1) }).unwrap();
        assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::NotDue);
    }
    assert_eq!((requests(&world), world.goal().usage.active_ms), (before, 0));
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    world.runtime(&admit(&owner(1))).unwrap();
    assert_eq!(code(world.runtime(&admit(&owner(2)))), Code::LeaseHeld);
}

#[test]
fn g10_the_bounds_of_a_wait() {
    let mut world = goal();
    let call = world.start_with("goal_wait");
    let now = world.now;
    for deadline in [now, now - 1, now + WAIT_MS + 1, i64::MAX, i64::MIN] {
        let wait = wait_goal(call, Condition::Time, deadline);
        assert_eq!(code(world.agent(&wait)), Code::LimitExceeded, "{deadline}");
    }
    for n in [0, 1, u32::MAX] {
        let wait = wait_goal(call, command(n), now + 1);
        assert_eq!(code(world.agent(&wait)), Code::UnknownCommand, "{n}");
    }
    let events = world.agent(&wait_goal(call, Condition::Time, now + WAIT_MS)).unwrap();
    let EventBody::CallFinished { result, .. } = &events[2].body else { panic!() };
    insta::assert_snapshot!(result, @r#"{"waiting_for":"a time","until":2679400000,"next":"end the turn with a short answer; nothing runs for the Goal until then"}"#);
}

#[test]
fn g10_a_later_wait_replaces_the_earlier_one() {
    let mut world = goal();
    let call = world.start_with("goal_wait");
    world.agent(&wait_goal(call, file(OLD), START + HOUR_MS)).unwrap();
    let call = world.one_call("goal_wait");
    world.agent(&wait_goal(call, Condition::Time, START + 2 * HOUR_MS)).unwrap();
    world.conclude();
    assert_eq!((world.leases.next_look, world.wake_at), (None, Some(Timestamp(START + 2 * HOUR_MS))));
}

#[test]
fn g10_g2_only_a_turn_bound_to_the_active_goal_waits() {
    let mut world = goal();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.submit("go");
    let call = world.start_with("goal_wait");
    let wait = wait_goal(call, Condition::Time, START + HOUR_MS);
    assert_eq!(code(world.agent(&wait)), Code::GoalNotBound, "not bound");
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(code(world.agent(&wait)), Code::GoalNotBound, "nor by being resumed");
}

/// One wake-up, at the end of both: at the first of two nothing could run, and nothing would set the second.
#[test]
fn g10_t10_of_a_wait_and_a_retry_both_have_to_be_over() {
    for (ahead, wait_ends_last) in [(HOUR_MS, true), (1_000, false)] {
        for condition in [Condition::Time, Condition::Inbox, file(OLD)] {
            let mut world = goal();
            let call = world.start_with("goal_wait");
            world.agent(&wait_goal(call, condition.clone(), START + ahead)).unwrap();
            world.fail(call.turn, super::world::failure(domain::FailureKind::Transport));
            let retry = world.goal().retry.unwrap();
            let is_retry = matches!(world.next(), NextAction::WaitUntil { cause: Delay::Retry { .. }, .. });
            assert_eq!(is_retry, !wait_ends_last, "{condition:?}");
            let last = retry.at.0.max(START + ahead);
            assert!(!matches!(world.next_at(last - 1), NextAction::RunGoal { .. }), "{condition:?}");
            assert!(matches!(world.next_at(last), NextAction::RunGoal { .. }), "{condition:?}");
        }
    }
}

#[test]
fn g10_t10_a_wait_that_is_met_during_a_retry_leaves_the_retry() {
    let mut world = goal();
    let call = world.start_with("goal_wait");
    world.agent(&wait_goal(call, file(OLD), START + HOUR_MS)).unwrap();
    world.fail(call.turn, super::world::failure(domain::FailureKind::Transport));
    look(&mut world, NEW);
    let retry = world.goal().retry.unwrap();
    assert_eq!(world.next(), NextAction::WaitUntil { at: retry.at, cause: Delay::Retry { retry } });
    assert_eq!(world.wake_at, Some(retry.at));
}

#[test]
fn g10_g12_the_end_of_a_goal_ends_its_wait() {
    for last in [UserCommand::CancelGoal, super::world::complete(false)] {
        let mut world = goal();
        world.wait_for(file(OLD), START + HOUR_MS);
        let id = world.goal().id;
        world.user(&last).unwrap();
        assert_eq!((&world.goal().wait, world.wake_at, world.leases.next_look), (&None, None, None));
        let look = RuntimeCommand::LookAtFile { goal_id: id, found: NEW };
        assert_eq!(code(world.runtime(&look)), Code::NotDue);
    }
}

#[test]
fn g10_a_look_for_another_goal_is_refused() {
    let mut world = goal();
    world.wait_for(file(OLD), START + HOUR_MS);
    let other = RuntimeCommand::LookAtFile { goal_id: testkit::goal_id(77), found: NEW };
    assert_eq!(code(world.runtime(&other)), Code::NotDue);
    assert_eq!(*world.status(), GoalStatus::Active);
    assert!(!world.goal().wait.as_ref().unwrap().is_met);
}

#[test]
fn g10_an_explicit_wait_wins_over_the_implicit_one_and_back() {
    let mut world = waiting(Condition::Time);
    assert!(matches!(world.next(), NextAction::WaitUntil { cause: Delay::Wait { .. }, .. }));
    without_command(&mut world);
    assert!(
        matches!(world.next(), NextAction::WaitUntil { .. }),
        "its report ran, and the time is not there"
    );
    assert!(world.state.core.commands.is_empty());
    assert_eq!(world.wake_at, Some(Timestamp(START + HOUR_MS)));
}

#[test]
fn g10_a_command_outside_the_sandbox_is_waited_for_like_any_other() {
    let mut world = goal();
    world.start();
    world.background_with(Effect::Command { confined: false });
    world.conclude();
    assert!(matches!(world.next(), NextAction::WaitFor { what: Awaited::Commands { .. } }));
}
