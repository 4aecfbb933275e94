//! Turns that repeat themselves or do not end (T12).

use domain::{CallOutcome, Code, Effect, Failure, FailureKind, GoalStatus, PauseReason, TurnOutcome};
use policy::RuntimeCommand;

use super::world::{World, begin, code, end, failure, finish_call, grant, respond, spent};

const NO_PROGRESS: GoalStatus = GoalStatus::Paused(PauseReason::NoProgress);

/// A session with a Goal.
fn goal() -> World {
    let mut world = World::open();
    world.set_goal();
    world
}

/// Responses of one call each, all with this outcome.
fn repeat(world: &mut World, times: usize, result_of: impl Fn(usize) -> String, outcome: CallOutcome) {
    let turn = world.running().number;
    for n in 0..times {
        let call = world.call(turn, &["poll"])[0];
        let result = result_of(n);
        world.runtime(&RuntimeCommand::RefuseCall { call, outcome, result }).unwrap();
    }
}

/// Ends the running turn as stuck.
fn stuck(world: &mut World) {
    let turn = world.running().number;
    world.runtime(&end(turn, TurnOutcome::Failed { failure: failure(FailureKind::Stuck) })).unwrap();
}

#[test]
fn t12_the_fifth_identical_call_with_an_identical_result_ends_the_turn() {
    for outcome in [CallOutcome::Denied, CallOutcome::Invalid, CallOutcome::Refused] {
        let mut world = goal();
        let turn = world.start();
        repeat(&mut world, 4, |_| "the same".to_owned(), outcome);
        world.request(turn);
        world.runtime(&respond(turn, &["poll"], spent(1))).unwrap();
        let call = domain::CallRef { turn, request: 5, index: 0 };
        world.runtime(&RuntimeCommand::RefuseCall { call, outcome, result: "the same".to_owned() }).unwrap();
        insta::allow_duplicates! {
            insta::assert_snapshot!(world.runtime(&begin(turn)).unwrap_err(), @"limit_exceeded: the turn got the same result from the same call 5 times in a row");
        }
        stuck(&mut world);
        assert_eq!(*world.status(), NO_PROGRESS, "{outcome:?}");
        assert_eq!(world.goal().usage.turns, 1);
    }
}

#[test]
fn t12_calls_that_ran_count_too_and_also_within_one_response() {
    let mut world = goal();
    let turn = world.start();
    let calls = world.call(turn, &["poll"; 6]);
    for call in &calls[..5] {
        world.admit_call(*call, Effect::Read);
        world.runtime(&finish_call(*call, CallOutcome::Succeeded)).unwrap();
    }
    let admission =
        policy::AgentCommand::AdmitCall { call: calls[5], grant: grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admission)), Code::LimitExceeded);
    stuck(&mut world);
    assert_eq!(*world.status(), NO_PROGRESS);
}

#[test]
fn t12_another_result_call_or_outcome_in_between_starts_the_count_anew() {
    let mut world = goal();
    let turn = world.start();
    repeat(&mut world, 20, |n| format!("{}", n / 4), CallOutcome::Invalid);
    repeat(&mut world, 4, |_| "x".to_owned(), CallOutcome::Invalid);
    repeat(&mut world, 4, |_| "x".to_owned(), CallOutcome::Denied);
    let other = world.call(turn, &["other"])[0];
    world
        .runtime(&RuntimeCommand::RefuseCall {
            call: other,
            outcome: CallOutcome::Denied,
            result: "x".to_owned(),
        })
        .unwrap();
    repeat(&mut world, 4, |_| "x".to_owned(), CallOutcome::Denied);
    world.request(turn);
}

#[test]
fn t12_without_a_goal_the_turn_just_fails() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    repeat(&mut world, 5, |_| "x".to_owned(), CallOutcome::Denied);
    assert_eq!(code(world.runtime(&begin(turn))), Code::LimitExceeded);
    stuck(&mut world);
    assert!(matches!(
        world.next(),
        policy::NextAction::Idle {
            why: policy::IdleReason::TurnFailed { failure: Failure { kind: FailureKind::Stuck, .. }, .. }
        }
    ));
}

#[test]
fn t12_the_bound_of_requests_is_configurable_and_capped() {
    for (asked, gets) in [(1, 1), (7, 7), (250, 250), (251, 250), (100_000, 250)] {
        let mut world = World::open();
        world.submit("go");
        let policy::RuntimeCommand::AdmitTurn { lane, owner, model, scope, .. } =
            super::world::admit(&super::world::owner(1))
        else {
            panic!()
        };
        let max_requests = u32::try_into(asked).unwrap();
        world
            .runtime(&RuntimeCommand::AdmitTurn {
                lane,
                owner,
                model,
                scope,
                max_requests,
                confinement: None,
            })
            .unwrap();
        let turn = world.running().number;
        repeat(&mut world, gets, |n| format!("{n}"), CallOutcome::Invalid);
        assert_eq!(code(world.runtime(&begin(turn))), Code::LimitExceeded, "{asked}");
    }
}

#[test]
fn t12_g7_a_goal_whose_turn_reached_the_bound_goes_on_with_its_streaks() {
    let mut world = goal();
    world.start();
    repeat(&mut world, 20, |n| format!("{n}"), CallOutcome::Invalid);
    stuck(&mut world);
    assert_eq!((world.status(), world.goal().streaks.without_evidence), (&GoalStatus::Active, 1));
}

#[test]
fn t12_calls_that_were_not_run_are_no_repetition() {
    let mut world = goal();
    let turn = world.start();
    world.call(turn, &["poll"; 9]);
    world.shut_down();
    assert_eq!(*world.status(), GoalStatus::Active);
}
