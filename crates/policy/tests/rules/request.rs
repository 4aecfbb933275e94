//! Questions to a person and leave for calls: asked once, answered once, in one transaction each (I4).

use domain::{
    Answer, Asked, BlockCode, CallOutcome, CallRef, CallState, Capability, Code, Effect, EventBody,
    GoalStatus, InputCancelReason, InputKind, OPEN_REQUESTS, PauseReason, RequestEnd, RequestId, TurnEnd,
    TurnOutcome, TurnPhase, TurnTrigger,
};
use policy::{AgentCommand, IdleReason, NewRequest, NextAction, RuntimeCommand, UserCommand};
use testkit::{goal_id, remark};

use super::commands::{answer, ask, ask_leave, asking, deny, fingerprint, forbidding, question, text};
use super::world::{
    World, admit, code, complete, complete_goal, end, finish_call, goal_set, grant, kinds, owner,
    refuse_call, start_work,
};

/// A session whose Goal waits for a request.
fn asked(asks: impl Fn(CallRef) -> RuntimeCommand) -> World {
    let mut world = World::open();
    world.set_goal();
    world.asked(asks);
    world
}

fn admit_asking(call: CallRef) -> AgentCommand {
    AgentCommand::AdmitCall { call, grant: asking(&[Capability::Network]), effect: Effect::External }
}

/// The allowed call of the turn that an answer started.
fn granted(world: &World) -> CallRef {
    let open = world.running().open_calls();
    assert_eq!((open.len(), open[0].tool, open[0].fingerprint), (1, "tool", fingerprint("tool")));
    assert_eq!((open[0].call.request, open[0].effect), (0, None));
    open[0].call
}

fn allowed_rows(world: &World) -> Vec<bool> {
    world.state.core.lanes.values().flat_map(|slot| &slot.inbox).map(|row| row.runs.is_some()).collect()
}

#[test]
fn i4_t6_asking_answers_the_calls_ends_the_turn_and_pauses_the_goal_at_once() {
    for (asks, reason) in [
        (ask as fn(CallRef) -> RuntimeCommand, PauseReason::HumanInput { request: RequestId(1) }),
        (ask_leave, PauseReason::Permission { request: RequestId(1) }),
    ] {
        let mut world = World::open();
        world.set_goal();
        let turn = world.start();
        let calls = world.call(turn, &["one", "two", "three"]);
        world.admit_call(calls[0], Effect::Read);
        world.runtime(&finish_call(calls[0], CallOutcome::Succeeded)).unwrap();
        let events = world.runtime(&asks(calls[1])).unwrap();
        assert_eq!(
            kinds(&events),
            ["request_opened", "call_finished", "call_finished", "turn_ended", "goal_moved"]
        );
        let outcomes: Vec<_> = events
            .iter()
            .filter_map(|event| match event.body {
                EventBody::CallFinished { call, outcome, .. } => Some((call.index, outcome)),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes, [(1, CallOutcome::Waiting), (2, CallOutcome::NotRun)], "siblings do not run");
        let outcome = TurnOutcome::Waiting { request: RequestId(1) };
        let last = world.state.core.lanes[&domain::LaneId::main()].last_end.clone();
        assert_eq!(last, Some(TurnEnd::Ended { turn, outcome }));
        assert_eq!(*world.status(), GoalStatus::Paused(reason));
        assert_eq!((world.leases.is_empty(), world.wake_at), (true, None), "nothing runs and nothing wakes");
        assert_eq!(world.next(), NextAction::Idle { why: IdleReason::GoalPaused { pause: reason } });
        assert_eq!(world.goal().usage.turns, 1, "a turn like any other");
        let request = &world.state.core.requests[0];
        assert_eq!((request.turn, request.goal_id), (turn, Some(world.goal().id)));
    }
}

#[test]
fn i4_a_request_keeps_what_it_asks_for() {
    let world = asked(ask_leave);
    let Asked::Permission { call, tool, subject, because, fingerprint } = &world.state.core.requests[0].asked
    else {
        panic!()
    };
    assert_eq!(
        (call.index, tool.as_str(), subject.as_str(), because.as_str()),
        (0, "tool", "GET example.org", "rule 1")
    );
    assert_eq!(*fingerprint, self::fingerprint("tool"));
}

#[test]
fn i4_without_a_goal_the_session_waits_for_the_answer_and_then_runs_it() {
    let mut world = World::open();
    world.submit("go");
    world.asked(ask);
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::AwaitingAnswer { request: RequestId(1) } });
    let events = world.user(&answer(1, text("8080"))).unwrap();
    assert_eq!(kinds(&events), ["request_settled", "input_queued"]);
    let EventBody::InputQueued { text, goal_id, .. } = &events[1].body else { panic!() };
    insta::assert_snapshot!(text, @r"
    [The user's answer to request 1]
    8080
    ");
    assert_eq!(*goal_id, None);
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
    world.whole_turn();
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::NothingToDo });
}

#[test]
fn i4_an_answer_settles_queues_and_resumes_in_one_decision() {
    let mut world = asked(ask);
    let events = world.user(&answer(1, text("8080"))).unwrap();
    assert_eq!(kinds(&events), ["request_settled", "input_queued", "goal_moved"]);
    assert_eq!((world.status(), world.row_kinds()), (&GoalStatus::Active, vec!["answer"]));
    world.start();
    assert!(matches!(world.running().trigger, TurnTrigger::Input { .. }), "the answer goes first");
    assert!(world.running().goal.is_some());
    world.conclude();
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 2, .. }));
}

#[test]
fn i4_a_second_answer_changes_nothing() {
    for first in [text("8080"), deny()] {
        let mut world = asked(ask);
        world.user(&answer(1, first)).unwrap();
        for second in [text("9090"), deny(), Answer::Allow] {
            assert_eq!(world.user(&answer(1, second)).unwrap(), []);
        }
        assert_eq!(world.row_kinds(), ["answer"]);
    }
}

#[test]
fn i4_an_answer_to_nothing_or_of_another_kind_is_refused() {
    let mut world = asked(ask);
    insta::assert_snapshot!(world.user(&answer(2, deny())).unwrap_err(), @"unknown_request: there is no request 2 in this session; `zuno requests list` shows them");
    assert_eq!(code(world.user(&answer(0, deny()))), Code::UnknownRequest);
    insta::assert_snapshot!(world.user(&answer(1, Answer::Allow)).unwrap_err(), @"wrong_answer: request 1 is a question; answer it in words, or deny it");
    let mut world = asked(ask_leave);
    insta::assert_snapshot!(world.user(&answer(1, text("yes"))).unwrap_err(), @"wrong_answer: request 1 asks for leave to run a call; answer with allow or deny");
    assert_eq!(world.state.core.requests.len(), 1, "it can still be answered");
}

#[test]
fn i4_what_the_agent_reads_of_a_denial() {
    let mut lines = Vec::new();
    for asks in [ask as fn(CallRef) -> RuntimeCommand, ask_leave] {
        for reason in [None, Some(remark("too risky"))] {
            let mut world = asked(asks);
            let events = world.user(&answer(1, Answer::Deny { reason })).unwrap();
            let EventBody::InputQueued { text, runs, .. } = &events[1].body else { panic!() };
            assert_eq!(*runs, None);
            lines.push(text.to_string());
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    [The user does not answer request 1. Decide yourself or go on without.]
    [The user does not answer request 1: too risky. Decide yourself or go on without.]
    [The user denied the call of `tool` (request 1). It did not run. Go on without it.]
    [The user denied the call of `tool` (request 1): too risky. It did not run. Go on without it.]
    ");
}

#[test]
fn i4_only_a_call_that_was_not_admitted_and_needs_leave_can_be_asked_for() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let calls = world.call(turn, &["one", "two"]);
    let leave = |grant| RuntimeCommand::Ask {
        call: calls[1],
        grant,
        asked: NewRequest::Permission { subject: domain::Question::parse("x").unwrap() },
    };
    assert_eq!(code(world.runtime(&leave(grant(&[])))), Code::OutOfOrder, "it needs none");
    assert_eq!(code(world.runtime(&leave(forbidding(&[])))), Code::Denied, "it is forbidden");
    let forbidden = RuntimeCommand::Ask { call: calls[1], grant: forbidding(&[]), asked: question() };
    assert_eq!(code(world.runtime(&forbidden)), Code::Denied, "so is asking at all");
    assert_eq!(code(world.agent(&admit_asking(calls[1]))), Code::PermissionNeeded);
    let dealt_with = CallRef { index: 7, ..calls[0] };
    assert_eq!(code(world.runtime(&ask(dealt_with))), Code::OutOfOrder);
    world.admit_call(calls[0], Effect::External);
    assert_eq!(code(world.runtime(&ask(calls[0]))), Code::OutOfOrder, "it runs already");
    assert_eq!(code(world.runtime(&ask(calls[1]))), Code::OutOfOrder, "a sibling has no result yet");
    world.runtime(&finish_call(calls[0], CallOutcome::Succeeded)).unwrap();
    world.runtime(&ask(calls[1])).unwrap();
    assert_eq!(code(world.runtime(&ask(calls[1]))), Code::StaleEpoch, "the turn is over");
}

#[test]
fn i4_a_turn_does_not_wait_of_its_own_accord() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let outcome = TurnOutcome::Waiting { request: RequestId(1) };
    assert_eq!(code(world.runtime(&end(turn, outcome))), Code::OutOfOrder);
}

#[test]
fn i4_a_turn_that_stops_or_has_completed_its_goal_asks_nobody() {
    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("ask_user");
    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(code(world.runtime(&ask(call))), Code::TurnStopping);
    world.shut_down();
    world.user(&UserCommand::ResumeGoal).unwrap();
    let call = world.start_with("goal_update");
    world.agent(&complete_goal(call)).unwrap();
    let call = world.one_call("ask_user");
    assert_eq!(code(world.runtime(&ask(call))), Code::TurnStopping);
    assert_eq!(world.state.core.requests, []);
}

#[test]
fn i4_requests_have_a_bound() {
    let mut world = World::open();
    for _ in 0..OPEN_REQUESTS {
        world.submit("go");
        world.asked(ask);
    }
    world.submit("go");
    let call = world.start_with("ask_user");
    assert_eq!(code(world.runtime(&ask(call))), Code::LimitExceeded);
    world.user(&answer(3, deny())).unwrap();
    world.runtime(&ask(call)).unwrap();
    let ids: Vec<_> = world.state.core.requests.iter().map(|request| request.id.0).collect();
    assert_eq!((ids[0], ids[2], ids.len()), (1, 4, OPEN_REQUESTS), "numbers are used once");
    assert_eq!(ids[OPEN_REQUESTS - 1], 21);
}

#[test]
fn i4_an_allowed_call_runs_first_and_once() {
    let mut world = asked(ask_leave);
    let asked_for = CallRef { turn: domain::TurnNumber(1), request: 1, index: 0 };
    world.user(&answer(1, Answer::Allow)).unwrap();
    let turn = world.start();
    let call = granted(&world);
    assert_eq!(call, CallRef { turn, request: 0, index: 0 });
    assert_ne!(call, asked_for, "it has a place in the turn that runs it");
    assert_eq!(code(world.runtime(&super::world::begin(turn))), Code::OutOfOrder, "before the first request");
    assert_eq!(code(world.runtime(&end(turn, TurnOutcome::Completed))), Code::OutOfOrder);
    world.agent(&admit_asking(call)).unwrap();
    assert_eq!(allowed_rows(&world), [false], "spent with its admission");
    assert_eq!(code(world.agent(&admit_asking(call))), Code::OutOfOrder);
    world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
    assert_eq!(world.running().phase, TurnPhase::Ready);
    let events = world.runtime(&super::world::begin(turn)).unwrap();
    assert_eq!(kinds(&events), ["input_consumed", "model_requested"]);
}

#[test]
fn i4_the_same_call_asked_for_again_needs_leave_again() {
    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    world.start();
    let call = granted(&world);
    world.agent(&admit_asking(call)).unwrap();
    world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
    let call = world.one_call("tool");
    assert_eq!(code(world.agent(&admit_asking(call))), Code::PermissionNeeded);
}

#[test]
fn i4_i2_t7_a_crash_before_the_admission_leaves_the_allowed_call_to_the_next_turn() {
    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    let turn = world.start();
    granted(&world);
    world.lose(turn);
    assert_eq!(allowed_rows(&world), [true]);
    world.start();
    let call = granted(&world);
    world.agent(&admit_asking(call)).unwrap();
}

#[test]
fn i4_a_worker_that_leaves_before_the_admission_leaves_the_call_too() {
    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    world.start();
    world.shut_down();
    world.start();
    granted(&world);
}

#[test]
fn i4_t7_after_a_crash_past_its_admission_the_allowed_call_does_not_run_again() {
    for (effect, outcome) in
        [(Effect::External, CallOutcome::Uncertain), (Effect::Command { confined: true }, CallOutcome::Lost)]
    {
        let mut world = asked(ask_leave);
        world.user(&answer(1, Answer::Allow)).unwrap();
        let turn = world.start();
        let call = granted(&world);
        world.agent(&AgentCommand::AdmitCall { call, grant: asking(&[]), effect }).unwrap();
        let events = world.lose(turn);
        let EventBody::CallFinished { outcome: settled, .. } = events[0].body else { panic!() };
        assert_eq!(settled, outcome);
        assert_eq!((allowed_rows(&world), world.row_kinds()), (vec![false], vec!["answer"]));
        if outcome == CallOutcome::Uncertain {
            assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
            world.user(&UserCommand::ResumeGoal).unwrap();
        }
        world.start();
        assert_eq!(world.running().phase, TurnPhase::Ready, "the answer is read, the call is not repeated");
    }
}

#[test]
fn i4_m6_an_allowed_call_is_admitted_under_the_mode_and_grant_in_force() {
    let mut world = World::open();
    world.submit("go");
    world.asked(ask_leave);
    world.user(&UserCommand::EnterPlan).unwrap();
    world.user(&answer(1, Answer::Allow)).unwrap();
    let turn = world.start();
    assert_eq!(world.running().agent.as_str(), "plan");
    let call = granted(&world);
    assert_eq!(code(world.agent(&admit_asking(call))), Code::Denied, "Plan mode");
    world.runtime(&refuse_call(call, CallOutcome::Denied)).unwrap();
    assert_eq!(allowed_rows(&world), [false], "leave is not kept for later");
    world.answer(turn, 10);

    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    world.start();
    let call = granted(&world);
    let forbidden = AgentCommand::AdmitCall { call, grant: forbidding(&[]), effect: Effect::External };
    assert_eq!(code(world.agent(&forbidden)), Code::Denied, "a rule that forbids it by now");
    let narrow =
        policy::CallGrant { grant: domain::CapabilitySet::of(&[]), ..asking(&[Capability::Network]) };
    let narrow = AgentCommand::AdmitCall { call, grant: narrow, effect: Effect::External };
    assert_eq!(code(world.agent(&narrow)), Code::Denied, "an agent that may not");
}

#[test]
fn i4_an_allowed_call_may_ask_in_turn() {
    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    world.start();
    let call = granted(&world);
    let events = world.runtime(&ask(call)).unwrap();
    assert_eq!(
        kinds(&events),
        ["request_opened", "call_finished", "input_consumed", "turn_ended", "goal_moved"]
    );
    assert_eq!(world.row_kinds(), [""; 0], "the leave is used up");
    world.user(&answer(2, text("8080"))).unwrap();
    world.start();
    assert_eq!(world.running().phase, TurnPhase::Ready);
}

#[test]
fn i4_the_third_denial_of_the_same_call_blocks_the_goal() {
    let mut world = asked(ask_leave);
    for n in 1..=2 {
        world.user(&answer(n, deny())).unwrap();
        assert_eq!(*world.status(), GoalStatus::Active);
        world.asked(ask_leave);
    }
    let events = world.user(&answer(3, deny())).unwrap();
    assert_eq!(kinds(&events), ["request_settled", "input_queued", "goal_moved"], "in one decision");
    let GoalStatus::Blocked { code, detail } = world.status() else { panic!() };
    assert_eq!(*code, BlockCode::PermissionDenied);
    insta::assert_snapshot!(detail, @"the user denied the same call of `tool` 3 times");
    assert_eq!((world.wake_at, world.row_kinds()), (None, vec!["answer"]));
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }), "the denial is read after all");
}

#[test]
fn i4_denials_count_by_call_and_only_for_leave() {
    let mut world = World::open();
    world.set_goal();
    for tool in ["one", "two", "one", "two", "three"] {
        let call = world.start_with(tool);
        world.runtime(&ask_leave(call)).unwrap();
        world.user(&answer(world.state.core.last_request.0, deny())).unwrap();
        assert_eq!(*world.status(), GoalStatus::Active, "{tool}");
    }
    for _ in 0..4 {
        world.asked(ask);
        world.user(&answer(world.state.core.last_request.0, deny())).unwrap();
    }
    assert_eq!(*world.status(), GoalStatus::Active, "questions may stay open as often as they like");
    let call = world.start_with("two");
    world.runtime(&ask_leave(call)).unwrap();
    world.user(&answer(world.state.core.last_request.0, deny())).unwrap();
    assert!(matches!(world.status(), GoalStatus::Blocked { code: BlockCode::PermissionDenied, .. }));
}

#[test]
fn i4_a_goal_remembers_a_bounded_number_of_denied_calls() {
    let mut world = World::open();
    world.set_goal();
    for n in 0..30 {
        let call = world.start_with(&format!("tool{n}"));
        world.runtime(&ask_leave(call)).unwrap();
        world.user(&answer(n + 1, deny())).unwrap();
        assert!(world.goal().denials.len() <= 8);
    }
}

#[test]
fn i4_the_persons_resume_and_the_end_of_the_goal_cancel_its_requests() {
    let acts = [
        (UserCommand::ResumeGoal, "active"),
        (super::world::submit_and_resume("never mind"), "active"),
        (UserCommand::CancelGoal, "cancelled"),
        (complete(true), "completed"),
        (goal_set(goal_id(50), domain::Budgets::default(), true), "active"),
    ];
    for (act, state) in acts {
        let mut world = asked(ask_leave);
        let events = world.user(&act).unwrap();
        let end = RequestEnd::Cancelled;
        let settled = EventBody::RequestSettled { request: RequestId(1), end };
        assert!(events.iter().any(|event| event.body == settled), "{act:?}");
        assert_eq!((world.state.core.requests.len(), world.status().state().name()), (0, state), "{act:?}");
        let before = world.row_kinds();
        assert_eq!(world.user(&answer(1, Answer::Allow)).unwrap(), [], "{act:?}: too late, and no harm");
        assert_eq!(world.row_kinds(), before);
    }
}

#[test]
fn i4_a_request_of_no_goal_outlives_the_goals() {
    let mut world = World::open();
    world.submit("go");
    world.asked(ask);
    world.set_goal();
    world.user(&UserCommand::CancelGoal).unwrap();
    world.set_goal();
    assert_eq!(world.state.core.requests.len(), 1);
    world.user(&UserCommand::PauseGoal).unwrap();
    world.user(&answer(1, text("8080"))).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User), "it held no Goal");
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn i4_g8_an_answer_lifts_exactly_the_pause_of_its_request() {
    let mut world = asked(ask);
    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(world.state.core.requests.len(), 1, "it can still be answered");
    world.user(&answer(1, text("8080"))).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User));
    assert_eq!(world.row_kinds(), ["answer"]);
    assert_eq!(world.wake_at, None, "an answer for the Goal waits with it (I5)");
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn i4_m5_an_answer_in_plan_mode_leaves_the_goal_to_start_work() {
    let mut world = asked(ask_leave);
    world.user(&UserCommand::EnterPlan).unwrap();
    assert!(matches!(world.status(), GoalStatus::Paused(PauseReason::Permission { .. })), "kept");
    world.user(&answer(1, Answer::Allow)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode));
    assert_eq!(world.wake_at, None);
    world.user(&start_work(None, None)).unwrap();
    world.start();
    granted(&world);
}

#[test]
fn i4_g4_an_answer_to_a_goal_without_budget_left_lands_in_budget_limited() {
    let mut world = World::open();
    world.set_goal_with(super::world::budgets(1_000_000, 1));
    world.asked(ask);
    assert!(matches!(world.status(), GoalStatus::Paused(PauseReason::HumanInput { .. })));
    world.user(&answer(1, text("8080"))).unwrap();
    assert_eq!((world.status(), world.wake_at), (&GoalStatus::BudgetLimited, None));
}

#[test]
fn i4_g11_an_answer_lets_held_rows_run() {
    let mut world = World::open();
    world.submit("go");
    world.asked(ask);
    world.submit("later");
    world.user(&UserCommand::Interrupt).unwrap();
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::InboxHeld });
    world.user(&answer(1, text("8080"))).unwrap();
    world.whole_turn();
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn i4_i2_an_interrupted_answer_does_not_run_behind_the_persons_back() {
    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    let turn = world.start();
    world.user(&UserCommand::Interrupt).unwrap();
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    let cancelled = events.iter().any(|event| {
        matches!(event.body, EventBody::InputCancelled { reason: InputCancelReason::Interrupted, .. })
    });
    assert!(cancelled, "{:?}", kinds(&events));
    assert_eq!(world.row_kinds(), [""; 0]);
}

#[test]
fn i4_t4_of_two_workers_one_runs_the_allowed_call() {
    let mut world = asked(ask_leave);
    world.user(&answer(1, Answer::Allow)).unwrap();
    world.runtime(&admit(&owner(1))).unwrap();
    assert_eq!(code(world.runtime(&admit(&owner(2)))), Code::LeaseHeld);
    let TurnPhase::Calling { calls } = &world.running().phase else { panic!() };
    assert!(matches!(&calls[..], [CallState::Requested { tool, .. }] if tool == "tool"));
    assert!(
        world.state.core.lanes.values().flat_map(|slot| &slot.inbox).all(|row| row.kind == InputKind::Answer)
    );
}
