//! One turn at a time, under one lease, with a check at every boundary (T1, T4–T6).

use std::collections::BTreeMap;

use domain::{
    Budgets, Code, Effect, FailureKind, GoalStatus, LaneId, ModelCall, REQUESTS_PER_TURN, StopReason,
    Timestamp, TurnNumber, TurnOutcome, TurnTrigger,
};
use policy::{AgentCommand, CALLS_PER_RESPONSE, Jitter, LEASE_MS, NextAction, RuntimeCommand, UserCommand};
use testkit::goal_id;

use super::commands::{ask, ask_leave, propose, stage_block, start_command, wait_goal};
use super::world::{
    START, World, admit, begin, budgets, code, end, failure, finish_call, goal_set, grant, kinds, owner,
    refuse_call, respond, spent, start_work, submit,
};

#[test]
fn t1_a_turn_has_one_of_two_causes() {
    // Without a wildcard arm: a third variant does not compile.
    let name = |trigger: &TurnTrigger| match trigger {
        TurnTrigger::Input { rows: _ } => "input",
        TurnTrigger::Goal { goal_id: _, continuation: _ } => "goal",
    };
    let mut world = World::open();
    world.set_goal();
    world.submit("go");
    world.start();
    assert_eq!(name(&world.running().trigger), "input");
    let turn = world.running().number;
    world.answer(turn, 10);
    world.start();
    assert_eq!(name(&world.running().trigger), "goal");
}

#[test]
fn t1_t4_without_a_cause_no_turn_is_admitted() {
    let mut world = World::open();
    world.update_plan("a:in_progress b c", None).unwrap();
    assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::NotDue);
    let mut unopened = World::unopened();
    assert_eq!(code(unopened.runtime(&admit(&owner(1)))), Code::UnknownSession);
}

#[test]
fn t4_of_two_workers_one_gets_the_turn() {
    let mut world = World::open();
    world.set_goal();
    world.runtime(&admit(&owner(1))).unwrap();
    assert_eq!(code(world.runtime(&admit(&owner(2)))), Code::LeaseHeld);
    assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::LeaseHeld, "nor does one get two");
    world.now += LEASE_MS;
    assert_eq!(code(world.runtime(&admit(&owner(2)))), Code::RecoveryNeeded);
}

#[test]
fn t4_numbers_of_turns_and_continuations_only_grow() {
    let mut world = World::open();
    let first = world.set_goal();
    for n in 1..=3 {
        let turn = world.start();
        assert_eq!(turn, TurnNumber(n));
        let trigger = TurnTrigger::Goal { goal_id: first, continuation: n };
        assert_eq!(world.running().trigger, trigger);
        if n == 2 { drop(world.lose(turn)) } else { world.answer(turn, 10) }
    }
    world.user(&goal_set(goal_id(50), Budgets::default(), true)).unwrap();
    assert_eq!(world.start(), TurnNumber(4));
    assert!(matches!(world.running().trigger, TurnTrigger::Goal { continuation: 1, .. }), "per Goal");
}

#[test]
fn t4_a_lane_that_does_not_exist_runs_no_turn() {
    let mut world = World::open();
    world.set_goal();
    let lane: LaneId = "child".parse().unwrap();
    let command = RuntimeCommand::AdmitTurn {
        lane,
        owner: owner(1),
        model: "m".parse().unwrap(),
        scope: policy::Scope::All,
        max_requests: 9.try_into().unwrap(),
        confinement: None,
    };
    assert_eq!(code(world.runtime(&command)), Code::InvalidInput);
}

#[test]
fn t5_the_turn_that_takes_the_lease_gives_it_its_number() {
    let mut world = World::open();
    world.set_goal();
    world.whole_turn();
    assert_eq!(world.leases.turn, None, "released with the last running turn");
    let turn = world.start();
    let lease = world.leases.turn.clone().unwrap();
    assert_eq!((lease.epoch, lease.owner, lease.expires_at), (turn, owner(1), Timestamp(START + LEASE_MS)));
    assert_eq!(world.wake_at, Some(Timestamp(START + LEASE_MS)));
}

#[test]
fn t5_the_owner_renews_and_nobody_else() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.now += 5_000;
    let renew = |n| RuntimeCommand::RenewLease { turn, owner: owner(n) };
    assert_eq!(code(world.runtime(&renew(2))), Code::StaleEpoch);
    assert_eq!(world.runtime(&renew(1)).unwrap(), [], "renewing is no event");
    assert_eq!(world.leases.turn.as_ref().unwrap().expires_at, Timestamp(START + 5_000 + LEASE_MS));
    world.now += LEASE_MS + 60_000;
    world.runtime(&renew(1)).unwrap();
    world.lose(turn);
    assert_eq!(code(world.runtime(&renew(1))), Code::StaleEpoch);
}

#[test]
fn t5_a_living_owner_is_not_replaced_and_one_seen_dead_is_at_once() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let recover = |dead| RuntimeCommand::RecoverTurn { turn, dead, found: BTreeMap::new() };
    assert_eq!(code(world.runtime(&recover(None))), Code::LeaseHeld);
    assert_eq!(code(world.runtime(&recover(Some(owner(2))))), Code::LeaseHeld, "another one died");
    let mut reused = owner(1);
    reused.started += 1;
    assert_eq!(
        code(world.runtime(&recover(Some(reused)))),
        Code::LeaseHeld,
        "the same pid is another process"
    );
    world.runtime(&recover(Some(owner(1)))).unwrap();
    assert_eq!(code(world.runtime(&recover(Some(owner(1))))), Code::StaleEpoch, "once");
}

#[test]
fn t5_until_its_last_millisecond_a_lease_holds() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let recover = RuntimeCommand::RecoverTurn { turn, dead: None, found: BTreeMap::new() };
    world.now += LEASE_MS - 1;
    assert_eq!(code(world.runtime(&recover)), Code::LeaseHeld);
    world.now += 1;
    world.runtime(&recover).unwrap();
}

/// Every command that names a turn.
pub(crate) fn writes_of(world: &mut World, turn: TurnNumber) -> Vec<Write> {
    let call = domain::CallRef { turn, request: 1, index: 0 };
    let update = world.plan_update("z:in_progress", None);
    let grant = grant(&[]);
    let reason = testkit::remark("late");
    vec![
        Write::Runtime(RuntimeCommand::RenewLease { turn, owner: owner(1) }),
        Write::Runtime(begin(turn)),
        Write::Runtime(RuntimeCommand::FailRequest {
            turn,
            failure: failure(FailureKind::Transport),
            elapsed_ms: 0,
            jitter: Jitter::default(),
        }),
        Write::Runtime(respond(turn, &["x"], spent(1))),
        Write::Runtime(refuse_call(call, domain::CallOutcome::Denied)),
        Write::Runtime(finish_call(call, domain::CallOutcome::Succeeded)),
        Write::Runtime(end(turn, TurnOutcome::Completed)),
        Write::Runtime(RuntimeCommand::RecoverTurn { turn, dead: None, found: BTreeMap::new() }),
        Write::Agent(AgentCommand::AdmitCall { call, grant: grant.clone(), effect: Effect::Read }),
        Write::Agent(AgentCommand::UpdatePlan { call, grant: grant.clone(), update, ignored: Vec::new() }),
        Write::Agent(AgentCommand::ClosePlan {
            call,
            grant: grant.clone(),
            expected_revision: domain::Revision(1),
            reason,
        }),
        Write::Agent(AgentCommand::CompleteGoal { call, grant, summary: None }),
        Write::Agent(stage_block(call)),
        Write::Agent(propose(call, goal_id(900), "late")),
        Write::Agent(wait_goal(call, domain::Condition::Inbox, world.now + 1_000)),
        Write::Agent(start_command(call, Effect::Read)),
        Write::Agent(AgentCommand::StopCommand {
            call,
            grant: self::grant(&[]),
            command: domain::CommandId(1),
        }),
        Write::Runtime(ask(call)),
        Write::Runtime(ask_leave(call)),
    ]
}

/// A command that names a turn.
pub(crate) enum Write {
    Agent(AgentCommand),
    Runtime(RuntimeCommand),
}

impl Write {
    pub(crate) fn code(&self, world: &mut World) -> Option<Code> {
        let result = match self {
            Self::Agent(command) => world.agent(command),
            Self::Runtime(command) => world.runtime(command),
        };
        result.err().map(|rejection| rejection.code)
    }
}

#[test]
fn t5_after_its_end_or_loss_every_write_of_a_turn_is_refused() {
    for is_lost in [false, true] {
        let mut world = World::open();
        world.set_goal();
        let turn = world.start();
        world.call(turn, &["one"]);
        if is_lost {
            world.lose(turn);
        } else {
            world.user(&UserCommand::Interrupt).unwrap();
            world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
        }
        world.submit("go");
        world.start();
        for write in writes_of(&mut world, turn) {
            let before = world.state.clone();
            assert_eq!(write.code(&mut world), Some(Code::StaleEpoch));
            assert_eq!(world.state, before);
        }
    }
}

/// What stops a running turn, and the reason the turn is given. The turn is triggered by the Goal.
fn stops() -> Vec<(UserCommand, StopReason)> {
    vec![
        (UserCommand::EnterPlan, StopReason::PlanMode),
        (UserCommand::Interrupt, StopReason::Interrupted),
        (UserCommand::PauseGoal, StopReason::GoalChanged),
        (UserCommand::CancelGoal, StopReason::GoalChanged),
        (UserCommand::CompleteGoal { summary: None, force: false }, StopReason::GoalChanged),
        (goal_set(goal_id(50), Budgets::default(), true), StopReason::GoalChanged),
    ]
}

#[test]
fn t6_a_turn_that_was_stopped_passes_no_boundary() {
    for (stop, reason) in stops() {
        let mut world = World::open();
        world.set_goal();
        let turn = world.start();
        let calls = world.call(turn, &["one", "two"]);
        world.admit_call(calls[0], Effect::Command { confined: true });
        world.user(&stop).unwrap();
        assert_eq!(world.running().stop, Some(reason), "{stop:?}");
        let admission = AgentCommand::AdmitCall { call: calls[1], grant: grant(&[]), effect: Effect::Read };
        assert_eq!(code(world.agent(&admission)), Code::TurnStopping, "{stop:?}");
        assert_eq!(
            code(world.runtime(&end(turn, TurnOutcome::Completed))),
            Code::OutOfOrder,
            "a call is open"
        );
        world.runtime(&finish_call(calls[0], domain::CallOutcome::Stopped)).unwrap();
        assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping, "{stop:?}");
        let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
        assert_eq!(kinds(&events)[..2], ["call_finished", "turn_ended"], "{stop:?}");
        let outcome = match reason {
            StopReason::Interrupted => TurnOutcome::Interrupted,
            reason => TurnOutcome::Stopped { reason },
        };
        let ended = domain::EventBody::TurnEnded { turn, outcome };
        assert!(events.iter().any(|event| event.body == ended), "{stop:?}");
    }
}

#[test]
fn t6_a_goal_that_is_resumed_at_once_does_not_call_its_stopped_turn_back() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping);
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 2, .. }));
}

#[test]
fn t6_a_used_up_budget_is_a_boundary() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    let turn = world.start();
    world.request(turn);
    world.runtime(&respond(turn, &["one"], spent(500))).unwrap();
    let call = domain::CallRef { turn, request: 1, index: 0 };
    let admission = AgentCommand::AdmitCall { call, grant: grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admission)), Code::TurnStopping);
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
}

#[test]
fn t6_a_response_in_flight_is_recorded_although_the_turn_stops() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.request(turn);
    world.user(&UserCommand::EnterPlan).unwrap();
    world.runtime(&respond(turn, &["one"], spent(70))).unwrap();
    assert_eq!(world.goal().usage.tokens.charged(), 70);
}

#[test]
fn t6_the_steps_of_a_turn_have_an_order() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    assert_eq!(code(world.runtime(&respond(turn, &[], spent(1)))), Code::OutOfOrder, "no request");
    assert_eq!(code(world.runtime(&end(turn, TurnOutcome::Completed))), Code::OutOfOrder, "no answer");
    world.call(turn, &["one"]);
    assert_eq!(code(world.runtime(&begin(turn))), Code::OutOfOrder, "a call is open");
    assert_eq!(code(world.runtime(&end(turn, TurnOutcome::Completed))), Code::OutOfOrder);
    let call = domain::CallRef { turn, request: 1, index: 0 };
    world.runtime(&refuse_call(call, domain::CallOutcome::Invalid)).unwrap();
    world.request(turn);
    world.runtime(&respond(turn, &[], spent(1))).unwrap();
    assert_eq!(code(world.runtime(&begin(turn))), Code::OutOfOrder, "answered");
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
}

#[test]
fn t6_a_cut_stream_runs_no_call_and_leaves_the_request_open() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    let command = RuntimeCommand::FailRequest {
        turn,
        failure: failure(FailureKind::StreamIncomplete),
        elapsed_ms: 10,
        jitter: Jitter::default(),
    };
    let events = world.runtime(&command).unwrap();
    assert_eq!(kinds(&events), ["model_failed"]);
    let call = domain::CallRef { turn, request: 1, index: 0 };
    let admission = AgentCommand::AdmitCall { call, grant: grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admission)), Code::OutOfOrder);
    world.request(turn);
    assert_eq!(world.running().request, 1, "the same request again");
}

#[test]
fn t6_a_response_has_bounds() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    let call = ModelCall { tool: "t".to_owned(), arguments: "{}".to_owned() };
    let many = RuntimeCommand::RecordResponse {
        turn,
        text: String::new(),
        calls: vec![call; CALLS_PER_RESPONSE + 1],
        usage: spent(1),
    };
    assert_eq!(code(world.runtime(&many)), Code::LimitExceeded);
    let long = RuntimeCommand::RecordResponse {
        turn,
        text: "x".repeat(policy::RESPONSE_BYTES + 1),
        calls: Vec::new(),
        usage: spent(1),
    };
    assert_eq!(code(world.runtime(&long)), Code::LimitExceeded);
}

#[test]
fn t6_a_turn_ends_within_its_bound_of_requests() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    for n in 0..REQUESTS_PER_TURN {
        let call = world.call(turn, &["one"])[0];
        let result = format!("no. {n}");
        let outcome = domain::CallOutcome::Invalid;
        world.runtime(&RuntimeCommand::RefuseCall { call, outcome, result }).unwrap();
    }
    assert_eq!(code(world.runtime(&begin(turn))), Code::LimitExceeded);
}

#[test]
fn t5_commands_of_a_person_need_no_lease() {
    let mut world = World::open();
    world.set_goal();
    world.start();
    for command in [submit("x"), UserCommand::EnterPlan, start_work(None, None), UserCommand::Interrupt] {
        world.user(&command).unwrap();
    }
}

#[test]
fn t5_t6_past_its_lease_a_turn_begins_nothing_until_it_renews() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let calls = world.call(turn, &["one", "two"]);
    world.admit_call(calls[0], Effect::Read);
    world.now += LEASE_MS;
    let admission = AgentCommand::AdmitCall { call: calls[1], grant: grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admission)), Code::StaleEpoch);
    world.runtime(&finish_call(calls[0], domain::CallOutcome::Succeeded)).unwrap();
    world.runtime(&RuntimeCommand::RenewLease { turn, owner: owner(1) }).unwrap();
    world.agent(&admission).unwrap();
    world.runtime(&finish_call(calls[1], domain::CallOutcome::Succeeded)).unwrap();
    world.now += LEASE_MS;
    assert_eq!(code(world.runtime(&begin(turn))), Code::StaleEpoch);
    world.runtime(&RuntimeCommand::RenewLease { turn, owner: owner(1) }).unwrap();
    world.request(turn);
}
