//! Background commands: started by a call, owned by a worker, ended once (T5, T7, M3, M6).

use domain::{
    CallOutcome, CallRef, Capability, Code, CommandId, Effect, EventBody, Evidence, GoalStatus, PauseReason,
    RUNNING_COMMANDS, Timestamp,
};
use policy::{AgentCommand, LEASE_MS, NextAction, Owner, RESULT_BYTES, RuntimeCommand, UserCommand};

use super::commands::{asking, end_command, start_command};
use super::world::{START, World, code, grant, kinds, owner, start_work};

const CONFINED: Effect = Effect::Command { confined: true };
const FREE: Effect = Effect::Command { confined: false };

/// A session with a Goal, whose first turn started this command and ended.
fn running(effect: Effect) -> World {
    let mut world = World::open();
    world.set_goal();
    world.start();
    world.background_with(effect);
    world.conclude();
    world
}

fn recover(dead: Option<Owner>) -> RuntimeCommand {
    RuntimeCommand::RecoverCommand { command: CommandId(1), dead }
}

fn renew(n: u32) -> RuntimeCommand {
    RuntimeCommand::RenewCommand { command: CommandId(1), owner: owner(n) }
}

fn stop_by_agent(call: CallRef, n: u32) -> AgentCommand {
    AgentCommand::StopCommand { call, grant: grant(&[Capability::RunCommand]), command: CommandId(n) }
}

fn is_stopping(world: &World) -> bool {
    world.state.core.commands[0].is_stopping
}

#[test]
fn m6_starting_a_command_is_admitted_recorded_and_answered_at_once() {
    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("shell");
    let narrow = AgentCommand::StartCommand {
        call,
        grant: asking(&[Capability::RunCommand]),
        effect: FREE,
        title: domain::CommandTitle::parse("make").unwrap(),
        owner: owner(1),
        ran: domain::Fingerprint::default(),
    };
    assert_eq!(code(world.agent(&narrow)), Code::PermissionNeeded);
    let events = world.agent(&start_command(call, FREE)).unwrap();
    assert_eq!(kinds(&events), ["call_admitted", "command_started", "call_finished"]);
    let EventBody::CallFinished { result, .. } = &events[2].body else { panic!() };
    insta::assert_snapshot!(result, @r#"{"command":1,"status":"running","next":"it goes on beside your turns; its end is reported to you. To continue only then, end the turn"}"#);
    let command = &world.state.core.commands[0];
    assert_eq!(
        (command.call, command.goal_id, command.since),
        (call, Some(world.goal().id), Timestamp(START))
    );
    assert_eq!(world.leases.commands[&CommandId(1)].expires_at, Timestamp(START + LEASE_MS));
}

#[test]
fn m6_plan_mode_starts_no_command() {
    let mut world = World::open();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.submit("go");
    let call = world.start_with("shell");
    assert_eq!(code(world.agent(&start_command(call, CONFINED))), Code::Denied);
    assert_eq!(world.state.core.commands, []);
}

#[test]
fn entering_plan_mode_asks_every_command_to_stop() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    world.set_goal();
    world.start();
    world.background();
    world.conclude();
    let events = world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(
        kinds(&events),
        ["mode_changed", "command_stop_requested", "command_stop_requested", "goal_moved"]
    );
    world.runtime(&end_command(1, CallOutcome::Stopped)).unwrap();
    world.runtime(&end_command(2, CallOutcome::Stopped)).unwrap();
    world.user(&start_work(None, None)).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }), "the report of the Goal's");
}

#[test]
fn t5_the_owner_of_a_command_renews_it_and_nobody_else() {
    let mut world = running(CONFINED);
    world.now += 10_000;
    assert_eq!(code(world.runtime(&renew(2))), Code::StaleEpoch);
    assert_eq!(world.runtime(&renew(1)).unwrap(), [], "no event");
    assert_eq!(world.wake_at, Some(Timestamp(START + 10_000 + LEASE_MS)));
    assert_eq!(code(world.runtime(&recover(None))), Code::LeaseHeld);
    world.now += LEASE_MS;
    world.runtime(&renew(1)).unwrap();
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    assert_eq!(code(world.runtime(&renew(1))), Code::UnknownCommand);
    assert!(world.leases.commands.is_empty());
}

#[test]
fn t5_a_command_and_a_turn_have_leases_of_their_own() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    world.submit("go");
    world.now += 5_000;
    let turn = world.start();
    assert_eq!(world.wake_at, Some(Timestamp(START + LEASE_MS)), "the command's ends first");
    world.runtime(&renew(1)).unwrap();
    world.now += LEASE_MS;
    let again = RuntimeCommand::RenewLease { turn, owner: owner(1) };
    world.runtime(&again).unwrap();
    world.runtime(&recover(None)).unwrap();
    assert_eq!(world.running().number, turn, "the turn goes on without it");
}

#[test]
fn t7_a_command_whose_worker_is_gone_is_lost_or_uncertain_once() {
    for (effect, outcome) in [
        (CONFINED, CallOutcome::Lost),
        (Effect::Read, CallOutcome::Lost),
        (FREE, CallOutcome::Uncertain),
        (Effect::External, CallOutcome::Uncertain),
    ] {
        for dead in [None, Some(owner(1))] {
            let mut world = running(effect.clone());
            let call = world.state.core.commands[0].call;
            assert_eq!(code(world.runtime(&recover(None))), Code::LeaseHeld);
            assert_eq!(code(world.runtime(&recover(Some(owner(2))))), Code::LeaseHeld, "another one died");
            if dead.is_none() {
                world.now += LEASE_MS;
            }
            let events = world.runtime(&recover(dead)).unwrap();
            let EventBody::CommandEnded { outcome: settled, .. } = events[0].body else { panic!() };
            assert_eq!(settled, outcome);
            assert_eq!(world.row_kinds(), ["report"]);
            if outcome == CallOutcome::Uncertain {
                assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
                assert_eq!(world.wake_at, None);
            } else {
                assert!(matches!(world.next(), NextAction::RunInput { .. }));
            }
            assert_eq!(code(world.runtime(&recover(None))), Code::UnknownCommand, "once");
            assert_eq!(code(world.runtime(&end_command(1, CallOutcome::Succeeded))), Code::UnknownCommand);
        }
    }
}

#[test]
fn t7_an_uncertain_command_of_no_goal_holds_the_active_one_or_the_next() {
    for has_goal in [true, false] {
        let mut world = World::open();
        world.submit("deploy");
        world.start();
        world.background_with(FREE);
        let call = world.state.core.commands[0].call;
        world.conclude();
        if has_goal {
            world.set_goal();
        }
        world.now += LEASE_MS;
        world.runtime(&recover(None)).unwrap();
        if !has_goal {
            assert_eq!(world.state.core.uncertain_call, Some(call));
            world.set_goal();
        }
        assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
        world.user(&UserCommand::ResumeGoal).unwrap();
        assert_eq!(*world.status(), GoalStatus::Active);
    }
}

#[test]
fn t7_what_the_agent_reads_of_a_command_that_was_cut_off() {
    let mut texts = Vec::new();
    for effect in [CONFINED, FREE] {
        let mut world = running(effect);
        world.now += LEASE_MS;
        let events = world.runtime(&recover(None)).unwrap();
        let EventBody::InputQueued { text, .. } = &events[1].body else { panic!() };
        texts.push(text.to_string());
    }
    insta::assert_snapshot!(texts.join("\n"), @r"
    [Background command 1 ended: lost. make all]
    cut off when its worker died; inspect before repeating
    [Background command 1 ended: uncertain. make all]
    cut off when its worker died; how far it came cannot be told; inspect before repeating
    ");
}

#[test]
fn t7_a_lost_turn_leaves_the_command_that_it_started() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.background();
    world.runtime(&renew(1)).unwrap();
    let dead =
        RuntimeCommand::RecoverTurn { turn, dead: Some(owner(1)), found: std::collections::BTreeMap::new() };
    world.runtime(&dead).unwrap();
    assert_eq!(world.state.core.commands.len(), 1, "it has a lease of its own");
    assert!(matches!(world.next(), NextAction::WaitFor { .. }));
}

#[test]
fn commands_are_asked_to_stop_by_people_and_agents() {
    let mut world = running(CONFINED);
    let stop = |n| UserCommand::StopCommand { command: CommandId(n) };
    insta::assert_snapshot!(world.user(&stop(2)).unwrap_err(), @"unknown_command: there is no background command 2 in this session");
    assert_eq!(code(world.user(&stop(0))), Code::UnknownCommand);
    assert_eq!(kinds(&world.user(&stop(1)).unwrap()), ["command_stop_requested"]);
    assert_eq!(world.user(&stop(1)).unwrap(), [], "once");
    world.runtime(&end_command(1, CallOutcome::Stopped)).unwrap();
    insta::assert_snapshot!(world.user(&stop(1)).unwrap_err(), @"unknown_command: background command 1 is over");

    let mut world = running(CONFINED);
    world.submit("stop it");
    let call = world.start_with("command_stop");
    assert_eq!(code(world.agent(&stop_by_agent(call, 2))), Code::UnknownCommand);
    let events = world.agent(&stop_by_agent(call, 1)).unwrap();
    assert_eq!(kinds(&events), ["call_admitted", "command_stop_requested", "call_finished"]);
    assert!(is_stopping(&world));
}

#[test]
fn commands_and_their_results_have_bounds() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    for _ in 0..RUNNING_COMMANDS {
        world.background();
    }
    let call = world.call(turn, &["shell"])[0];
    insta::assert_snapshot!(world.agent(&start_command(call, CONFINED)).unwrap_err(), @"limit_exceeded: 8 background commands run already; stop one with command_stop, or wait for one");
    let long = RuntimeCommand::EndCommand {
        command: CommandId(3),
        outcome: CallOutcome::Succeeded,
        result: "x".repeat(RESULT_BYTES + 1),
        full_output: None,
    };
    assert_eq!(code(world.runtime(&long)), Code::LimitExceeded);
    world.runtime(&end_command(3, CallOutcome::Succeeded)).unwrap();
    world.agent(&start_command(call, CONFINED)).unwrap();
    assert_eq!(world.state.core.last_command, CommandId(9), "numbers are used once");
}

#[test]
fn g11_an_interrupt_holds_the_goal_that_waits_for_a_command() {
    let mut world = running(CONFINED);
    world.user(&UserCommand::Interrupt).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::Interrupted));
    let events = world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    assert_eq!(kinds(&events), ["command_ended", "input_queued"]);
    assert_eq!(world.wake_at, None, "its end wakes nobody");
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn g11_an_interrupt_during_a_request_a_wait_or_a_retry_holds_the_goal() {
    type Rest = fn(&mut World);
    let rests: [(Rest, &str); 3] = [
        // The request can still be answered, and an answer is an act of the person.
        (
            |world| {
                world.asked(super::commands::ask);
            },
            "human_input",
        ),
        (|world| world.wait_for(domain::Condition::Inbox, START + 60_000), "interrupted"),
        (
            |world| {
                let turn = world.start();
                world.fail(turn, super::world::failure(domain::FailureKind::Transport));
            },
            "interrupted",
        ),
    ];
    for (rest, held) in rests {
        let mut world = World::open();
        world.set_goal();
        rest(&mut world);
        world.user(&UserCommand::Interrupt).unwrap();
        let GoalStatus::Paused(reason) = world.status() else { panic!() };
        assert_eq!((reason.name(), world.wake_at), (held, None));
        world.now += 86_400_000;
        assert!(matches!(world.next(), NextAction::Idle { .. }));
    }
}

#[test]
fn g7_starting_a_command_is_no_evidence_and_its_report_starts_a_turn_of_the_goal() {
    let mut world = running(CONFINED);
    assert_eq!(world.goal().streaks.without_evidence, 1);
    let brought = |event: &domain::Event| {
        matches!(event.body, EventBody::CallFinished { evidence: Some(Evidence::NewCall { .. }), .. })
    };
    assert!(!world.events.iter().any(brought));
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    world.start();
    assert!(world.running().is_for_goal);
}
