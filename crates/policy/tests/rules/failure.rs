//! What a typed failure leads to, in place and durably (T9, T10).

use domain::{
    EventBody, Failure, FailureClass, FailureKind, GoalStatus, PauseReason, Retry, StopReason, Timestamp,
    TurnOutcome,
};
use policy::{ATTEMPTS_IN_PLACE, Delay, IdleReason, Jitter, NextAction, RuntimeCommand, UserCommand};
use testkit::goal_id;

use super::commands::{accept, propose};
use super::world::{START, World, begin, code, end, failure, goal_set, kinds, respond, spent, start_work};

/// What a failure does to the session, in one line.
fn effect_of(kind: FailureKind, with_goal: bool) -> String {
    let mut world = World::open();
    if with_goal {
        world.set_goal();
    } else {
        world.submit("go");
    }
    let turn = world.start();
    world.fail(turn, failure(kind));
    match world.state.core.goal.as_ref().map(|goal| (&goal.status, goal.retry)) {
        Some((GoalStatus::Active, Some(retry))) => {
            assert_eq!(world.goal().usage.turns, 0, "{kind}: not counted as a turn");
            format!("retry in {} ms", retry.at.0 - START)
        }
        Some((GoalStatus::Active, None)) => "goes on".to_owned(),
        Some((GoalStatus::Paused(reason), _)) => format!("paused {}", reason.name()),
        Some((GoalStatus::Blocked { code, .. }, _)) => format!("blocked {}", code.name()),
        Some((status, _)) => status.state().to_string(),
        None => match world.next() {
            NextAction::Idle { why: IdleReason::TurnFailed { failure, .. } } => {
                format!("turn failed: {}", failure.kind)
            }
            other => format!("{other:?}"),
        },
    }
}

#[test]
fn t9_what_each_kind_of_failure_leads_to() {
    let row = |kind: FailureKind| {
        format!("{:<18} {:<28} {}", kind.name(), effect_of(kind, true), effect_of(kind, false))
    };
    let table: Vec<_> = FailureKind::ALL.into_iter().map(row).collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    rate_limited       retry in 2000 ms             turn failed: rate_limited
    server_error       retry in 2000 ms             turn failed: server_error
    transport          retry in 2000 ms             turn failed: transport
    stream_incomplete  retry in 2000 ms             turn failed: stream_incomplete
    empty_response     retry in 2000 ms             turn failed: empty_response
    store_busy         retry in 2000 ms             turn failed: store_busy
    context_limit      blocked prompt_too_large     turn failed: context_limit
    authentication     paused authentication        turn failed: authentication
    quota_exhausted    paused quota                 turn failed: quota_exhausted
    provider_protocol  blocked provider_protocol    turn failed: provider_protocol
    refused            blocked provider_refused     turn failed: refused
    unsupported        blocked unsupported_capability turn failed: unsupported
    model_unavailable  blocked model_unavailable    turn failed: model_unavailable
    prompt_too_large   blocked prompt_too_large     turn failed: prompt_too_large
    corrupt_state      blocked corrupt_state        turn failed: corrupt_state
    stuck              goes on                      turn failed: stuck
    no_such_agent      blocked no_such_agent        turn failed: no_such_agent
    ");
}

#[test]
fn t9_kinds_are_stored_by_name() {
    for kind in FailureKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}

#[test]
fn t9_the_detail_of_a_failure_is_never_read() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.fail(turn, Failure::new(FailureKind::Transport, "401 unauthorized: quota exhausted, invalid key"));
    assert!(world.goal().retry.is_some());
}

fn fail_attempt(world: &mut World, kind: FailureKind, elapsed_ms: i64) -> Option<i64> {
    let turn = world.running().number;
    let command =
        RuntimeCommand::FailRequest { turn, failure: failure(kind), elapsed_ms, jitter: Jitter::default() };
    let events = world.runtime(&command).unwrap();
    let retry_at = events.iter().find_map(|event| match &event.body {
        EventBody::ModelFailed { retry_at, .. } => Some(*retry_at),
        _ => None,
    });
    retry_at.unwrap().map(|at| at.0 - world.now)
}

fn fail_again(world: &mut World) -> Result<Vec<domain::Event>, policy::Rejection> {
    let turn = world.running().number;
    let failure = failure(FailureKind::ServerError);
    world.runtime(&RuntimeCommand::FailRequest { turn, failure, elapsed_ms: 0, jitter: Jitter::default() })
}

#[test]
fn t9_an_attempt_waits_its_time() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    assert_eq!(fail_attempt(&mut world, FailureKind::ServerError, 0), Some(2_000));
    world.now += 1_999;
    assert_eq!(code(world.runtime(&begin(turn))), domain::Code::OutOfOrder);
    world.now += 1;
    world.runtime(&begin(turn)).unwrap();
}

#[test]
fn g4_t9_a_stop_during_the_wait_charges_only_what_may_have_cost() {
    for (kind, tokens) in [(FailureKind::RateLimited, 0), (FailureKind::StreamIncomplete, 500)] {
        let mut world = World::open();
        world.set_goal();
        let turn = world.start();
        world.request(turn);
        fail_attempt(&mut world, kind, 0);
        world.user(&UserCommand::Interrupt).unwrap();
        world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
        assert_eq!(world.goal().usage.tokens.charged(), tokens, "{kind}");
    }
}

#[test]
fn t9_a_request_is_first_repeated_in_place() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let mut waits = Vec::new();
    for _ in 0..ATTEMPTS_IN_PLACE {
        world.request(turn);
        waits.push(fail_attempt(&mut world, FailureKind::ServerError, 1_000));
    }
    assert_eq!(waits, [Some(2_000), Some(4_000), Some(8_000), None]);
    assert_eq!(code(fail_again(&mut world)), domain::Code::OutOfOrder, "one failure per attempt");
    assert_eq!(code(world.runtime(&begin(turn))), domain::Code::OutOfOrder, "a fifth attempt");
}

#[test]
fn t9_attempts_in_place_end_with_their_time_and_with_a_stop() {
    let mut world = World::open();
    world.submit("go");
    for (kind, elapsed_ms, is_interrupted) in [
        (FailureKind::ServerError, 179_000, false),
        (FailureKind::Authentication, 0, false),
        (FailureKind::ServerError, 0, true),
    ] {
        let turn = world.start();
        world.request(turn);
        if is_interrupted {
            world.user(&UserCommand::Interrupt).unwrap();
        }
        assert_eq!(fail_attempt(&mut world, kind, elapsed_ms), None);
        assert_eq!(
            code(world.runtime(&begin(turn))).name(),
            if is_interrupted { "turn_stopping" } else { "out_of_order" }
        );
        world.runtime(&end(turn, TurnOutcome::Failed { failure: failure(kind) })).unwrap();
        world.submit("again");
    }
}

#[test]
fn t9_a_durable_retry_doubles_to_300_s() {
    let mut world = World::open();
    world.set_goal();
    let mut waits = Vec::new();
    for attempt in 1..=10 {
        let turn = world.start();
        world.fail(turn, failure(FailureKind::Transport));
        let retry = world.goal().retry.unwrap();
        assert_eq!((retry.attempt, retry.failure), (attempt, FailureKind::Transport));
        waits.push((retry.at.0 - world.now) / 1_000);
        world.now = retry.at.0;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(world.goal().usage.turns, 0);
}

#[test]
fn t9_retry_after_is_honoured() {
    let mut world = World::open();
    world.set_goal();
    for (asked, wait) in [(0, 2_000), (45_000, 45_000), (3_600_000, 3_600_000)] {
        let turn = world.start();
        world.fail(turn, Failure { retry_after_ms: Some(asked), ..failure(FailureKind::RateLimited) });
        let at = world.goal().retry.unwrap().at;
        assert_eq!(at.0 - world.now, wait);
        world.now = at.0;
    }
}

#[test]
fn t9_a_failure_of_an_input_turn_counts_for_the_goal_it_was_bound_to() {
    let mut world = World::open();
    world.set_goal();
    world.submit("go");
    let turn = world.start();
    world.fail(turn, failure(FailureKind::Authentication));
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::Authentication));
}

#[test]
fn t9_a_failure_of_an_unbound_turn_leaves_the_goal_alone() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.set_goal();
    world.fail(turn, failure(FailureKind::Refused));
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn t9_a_turn_that_was_asked_to_stop_does_not_fail() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.request(turn);
    world.user(&UserCommand::PauseGoal).unwrap();
    let outcome = TurnOutcome::Failed { failure: failure(FailureKind::Refused) };
    world.runtime(&end(turn, outcome)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User));
}

/// A session whose Goal waits for a retry.
fn waiting() -> World {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.fail(turn, failure(FailureKind::ServerError));
    world
}

#[test]
fn t10_a_retry_is_stored_before_the_wait_and_tied_to_its_goal() {
    let mut world = World::open();
    let id = world.set_goal();
    let turn = world.start();
    let events = world.fail(turn, failure(FailureKind::ServerError));
    assert_eq!(kinds(&events), ["turn_ended", "retry_scheduled"]);
    let at = Timestamp(START + 2_000);
    let retry = Retry { attempt: 1, at, failure: FailureKind::ServerError };
    assert_eq!(events[1].body, EventBody::RetryScheduled { goal_id: id, retry });
    assert_eq!(world.wake_at, Some(at));
    assert_eq!(world.next(), NextAction::WaitUntil { at, cause: Delay::Retry { retry } });
    assert_eq!(world.next_at(at.0 - 1), NextAction::WaitUntil { at, cause: Delay::Retry { retry } });
    assert_eq!(world.next_at(at.0), NextAction::RunGoal { goal_id: id, continuation: 2 });
    assert_eq!(code(world.runtime(&super::world::admit(&super::world::owner(1)))), domain::Code::NotDue);
}

#[test]
fn t10_success_clears_it() {
    let mut world = waiting();
    world.now += 2_000;
    let turn = world.start();
    assert!(world.goal().retry.is_some(), "not before an answer");
    world.request(turn);
    let events = world.runtime(&respond(turn, &[], spent(10))).unwrap();
    assert_eq!(kinds(&events), ["model_responded", "retry_cleared", "goal_charged"]);
    assert_eq!(world.goal().retry, None);
}

#[test]
fn t10_it_gives_way_to_input_and_the_answer_clears_it() {
    let mut world = waiting();
    world.submit("try now");
    world.whole_turn();
    assert_eq!(world.goal().retry, None);
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));
}

#[test]
fn t10_pause_completion_cancellation_and_replacement_clear_it() {
    for command in [
        UserCommand::PauseGoal,
        UserCommand::EnterPlan,
        UserCommand::Interrupt,
        UserCommand::CancelGoal,
        UserCommand::CompleteGoal { summary: None, force: false },
        goal_set(goal_id(50), domain::Budgets::default(), true),
    ] {
        let mut world = waiting();
        world.user(&command).unwrap();
        assert_eq!(world.goal().retry, None, "{command:?}");
    }
}

#[test]
fn t10_an_edit_clears_it_and_the_goal_goes_on_at_once() {
    let edit = |words| UserCommand::EditGoal {
        objective: Some(testkit::objective(words)),
        criteria: policy::CriteriaEdit::Keep,
        expected_revision: None,
    };
    let mut world = waiting();
    assert_eq!(world.user(&edit("Reach it")).unwrap(), [], "the same objective is no edit");
    assert!(world.goal().retry.is_some());
    assert_eq!(kinds(&world.user(&edit("Reach more")).unwrap()), ["goal_edited", "retry_cleared"]);
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));

    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("goal_propose");
    world.agent(&propose(call, goal_id(9), "Reach more")).unwrap();
    world.fail(call.turn, failure(FailureKind::ServerError));
    let events = world.user(&accept()).unwrap();
    assert_eq!(kinds(&events), ["goal_edited", "retry_cleared"], "an accepted change is an edit");
}

#[test]
fn t10_after_a_pause_the_goal_goes_on_at_once() {
    let mut world = waiting();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.user(&start_work(None, None)).unwrap();
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));
}

#[test]
fn t9_classes_decide_the_attempts_in_place() {
    for kind in FailureKind::ALL {
        let mut world = World::open();
        world.submit("go");
        let turn = world.start();
        world.request(turn);
        let is_repeated = fail_attempt(&mut world, kind, 0).is_some();
        assert_eq!(is_repeated, kind.class() == FailureClass::Retry, "{kind}");
    }
}

#[test]
fn t9_a_failure_that_crosses_the_budget_is_limited_and_not_retried() {
    let mut world = World::open();
    world.set_goal_with(super::world::budgets(400, 10));
    let turn = world.start();
    let events = world.fail(turn, failure(FailureKind::StreamIncomplete));
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    assert!(!kinds(&events).contains(&"retry_scheduled"));
    assert!(
        events.iter().any(|event| matches!(
            event.body,
            EventBody::TurnStopRequested { reason: StopReason::Budget, .. }
        ))
    );
}

/// What the Goal pays for these failed attempts at one request, and for the answer to the last.
fn charged(failures: &[Failure], last: Option<u64>) -> domain::TokenUsage {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    for failure in failures {
        world.request(turn);
        let (failure, jitter) = (failure.clone(), Jitter::default());
        world.runtime(&RuntimeCommand::FailRequest { turn, failure, elapsed_ms: 0, jitter }).unwrap();
    }
    if let Some(tokens) = last {
        world.request(turn);
        world.runtime(&respond(turn, &[], spent(tokens))).unwrap();
    }
    let outcome =
        last.map_or_else(|| TurnOutcome::Failed { failure: failures[0].clone() }, |_| TurnOutcome::Completed);
    world.runtime(&end(turn, outcome)).unwrap();
    world.goal().usage.tokens
}

#[test]
fn g4_g5_each_attempt_that_cost_something_is_charged_once_with_what_it_cost() {
    let with = |kind, usage| Failure { usage: Some(usage), ..failure(kind) };
    let told = domain::TokenUsage { input: 90, cached_input: 7, output: 5, estimated: false };
    let delivered = domain::TokenUsage { output: 30, estimated: true, ..domain::TokenUsage::default() };
    let cut = failure(FailureKind::StreamIncomplete);
    for kind in FailureKind::ALL {
        assert_eq!(charged(&[with(kind, told)], None), told, "{kind}: as reported");
        let all = domain::TokenUsage { input: 500, ..delivered };
        assert_eq!(charged(&[with(kind, delivered)], None), all, "{kind}: with the input's estimate");
    }
    assert_eq!(charged(&[failure(FailureKind::ServerError)], None).charged(), 0);
    assert_eq!(charged(std::slice::from_ref(&cut), None).charged(), 500);
    assert_eq!(charged(&[cut.clone(), with(FailureKind::ServerError, told), cut], Some(8)).charged(), 1_103);
}

#[test]
fn g4_a_failed_attempt_that_crosses_the_budget_is_not_repeated() {
    let mut world = World::open();
    world.set_goal_with(super::world::budgets(400, 10));
    let turn = world.start();
    world.request(turn);
    assert_eq!(fail_attempt(&mut world, FailureKind::StreamIncomplete, 0), None);
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    assert_eq!(code(world.runtime(&begin(turn))).name(), "turn_stopping");
}
