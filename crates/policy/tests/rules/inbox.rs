//! Input: queued first, taken in order, consumed once (I1–I3, G11).

use domain::{
    Code, EventBody, FailureKind, GoalStatus, InputCancelReason, InputId, LaneId, PauseReason, QUEUED_ROWS,
    RETURNS, Seq, StopReason, TurnEnd, TurnOutcome, TurnTrigger,
};
use policy::{IdleReason, Jitter, NextAction, RuntimeCommand, UserCommand};

use super::world::{World, admit, begin, code, end, failure, kinds, owner, start_work, submit};

fn row(seq: u64) -> InputId {
    InputId(Seq(seq))
}

#[test]
fn i1_input_is_queued_while_a_turn_runs() {
    let mut world = World::open();
    world.submit("first");
    let turn = world.start();
    world.submit("second");
    world.submit("third");
    assert_eq!(world.inbox(), [2, 4, 5]);
    assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::LeaseHeld);
    world.answer(turn, 10);
    assert_eq!(world.next(), NextAction::RunInput { row: row(4) });
    world.whole_turn();
    assert_eq!(world.next(), NextAction::RunInput { row: row(5) });
}

#[test]
fn i1_a_full_queue_refuses_and_keeps_what_it_has() {
    let mut world = World::open();
    for n in 0..QUEUED_ROWS {
        world.submit(&format!("row {n}"));
    }
    assert_eq!(code(world.user(&submit("one more"))), Code::LimitExceeded);
    assert_eq!(code(world.user(&start_work(None, Some("one more")))), Code::LimitExceeded);
    assert_eq!(world.inbox().len(), QUEUED_ROWS);
}

#[test]
fn i1_a_lane_that_does_not_exist_takes_no_input() {
    let mut world = World::open();
    let UserCommand::SubmitInput { text, delivery, resume, .. } = submit("x") else { panic!() };
    let to_nobody = UserCommand::SubmitInput { lane: "child".parse().unwrap(), text, delivery, resume };
    assert_eq!(code(world.user(&to_nobody)), Code::InvalidInput);
}

#[test]
fn i2_a_row_is_taken_with_the_turn_and_consumed_with_its_first_request() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    assert_eq!(world.running().trigger, TurnTrigger::Input { rows: vec![row(2)] });
    assert_eq!(world.inbox(), [2]);
    let events = world.runtime(&begin(turn)).unwrap();
    assert_eq!(kinds(&events), ["input_consumed", "model_requested"]);
    assert_eq!(world.inbox(), [0; 0]);
    let failure = failure(FailureKind::ServerError);
    let jitter = Jitter::default();
    world.runtime(&RuntimeCommand::FailRequest { turn, failure, elapsed_ms: 0, jitter }).unwrap();
    world.now += 2_000;
    let events = world.runtime(&begin(turn)).unwrap();
    assert_eq!(kinds(&events), ["model_requested"], "consumed once");
}

#[test]
fn i2_a_lost_turn_gives_its_row_back_three_times() {
    let mut world = World::open();
    world.submit("go");
    world.submit("later");
    for _ in 0..RETURNS {
        let turn = world.start();
        assert_eq!(world.running().trigger, TurnTrigger::Input { rows: vec![row(2)] }, "to its place");
        assert_eq!(kinds(&world.lose(turn)), ["input_returned", "turn_lost"]);
    }
    let turn = world.start();
    let events = world.lose(turn);
    let reason = InputCancelReason::ReturnedTooOften;
    assert_eq!(events[0].body, EventBody::InputCancelled { row: row(2), reason });
    assert_eq!(world.inbox(), [3]);
}

#[test]
fn i2_a_consumed_row_never_runs_again() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    world.lose(turn);
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::TurnLost { turn } });
}

#[test]
fn i2_an_interrupted_turn_gives_nothing_back() {
    for is_lost in [false, true] {
        let mut world = World::open();
        world.submit("go");
        let turn = world.start();
        world.user(&UserCommand::Interrupt).unwrap();
        let events = if is_lost {
            world.lose(turn)
        } else {
            world.runtime(&end(turn, TurnOutcome::Completed)).unwrap()
        };
        let reason = InputCancelReason::Interrupted;
        assert_eq!(events[0].body, EventBody::InputCancelled { row: row(2), reason });
        assert_eq!(events[1].body, EventBody::TurnEnded { turn, outcome: TurnOutcome::Interrupted });
        assert_eq!(world.next(), NextAction::Idle { why: IdleReason::NothingToDo });
    }
}

#[test]
fn i2_a_turn_stopped_for_plan_mode_gives_its_row_back() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.user(&UserCommand::EnterPlan).unwrap();
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(kinds(&events), ["input_returned", "turn_ended"]);
    assert_eq!(world.next(), NextAction::RunInput { row: row(2) });
}

#[test]
fn i2_a_turn_that_fails_before_its_first_request_does_not_try_for_ever() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let outcome = TurnOutcome::Failed { failure: failure(FailureKind::NoSuchAgent) };
    let events = world.runtime(&end(turn, outcome)).unwrap();
    let reason = InputCancelReason::TurnFailed;
    assert_eq!(events[0].body, EventBody::InputCancelled { row: row(2), reason });
}

#[test]
fn i3_input_goes_before_a_continuation_one_row_per_turn() {
    let mut world = World::open();
    world.set_goal();
    world.submit("one");
    world.submit("two");
    for _ in 0..2 {
        world.start();
        assert!(matches!(&world.running().trigger, TurnTrigger::Input { rows } if rows.len() == 1));
        let turn = world.running().number;
        world.answer(turn, 10);
    }
    world.start();
    assert!(matches!(world.running().trigger, TurnTrigger::Goal { continuation: 1, .. }));
}

#[test]
fn i3_t10_input_does_not_wait_for_a_retry() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.fail(turn, failure(FailureKind::ServerError));
    assert!(matches!(world.next(), NextAction::WaitUntil { .. }));
    world.submit("what is going on?");
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn g11_an_interrupt_marks_the_turn_pauses_the_goal_and_holds_the_queue() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.submit("next");
    let events = world.user(&UserCommand::Interrupt).unwrap();
    assert_eq!(kinds(&events), ["turn_stop_requested", "goal_moved", "inbox_held"]);
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::Interrupted));
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping);
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    let last = world.state.core.lanes[&LaneId::main()].last_end.clone();
    assert_eq!(last, Some(TurnEnd::Ended { turn, outcome: TurnOutcome::Interrupted }));
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::InboxHeld });
    assert_eq!(world.wake_at, None);
}

#[test]
fn g11_an_act_of_the_user_lets_held_rows_run() {
    let acts = [
        ("send input", submit("go on")),
        ("start work", start_work(None, Some("go on"))),
        ("set a Goal", super::world::goal_set(testkit::goal_id(99), domain::Budgets::default(), false)),
    ];
    for (what, act) in acts {
        let mut world = World::open();
        world.submit("first");
        world.user(&UserCommand::Interrupt).unwrap();
        assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::NotDue, "{what}");
        world.user(&act).unwrap();
        assert_eq!(world.next(), NextAction::RunInput { row: row(2) }, "{what}");
    }
}

#[test]
fn g11_starting_work_lets_held_rows_run_also_without_a_prompt() {
    let mut world = World::open();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.submit("first");
    world.user(&UserCommand::Interrupt).unwrap();
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::InboxHeld });
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(world.next(), NextAction::RunInput { row: row(3) });
}

#[test]
fn g11_resuming_the_goal_lets_held_rows_run() {
    let mut world = World::open();
    world.set_goal();
    world.submit("first");
    world.user(&UserCommand::Interrupt).unwrap();
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn g11_without_a_goal_it_just_ends_the_turn() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    let events = world.user(&UserCommand::Interrupt).unwrap();
    let reason = StopReason::Interrupted;
    assert_eq!(
        events.iter().map(|e| e.body.clone()).collect::<Vec<_>>(),
        [EventBody::TurnStopRequested { turn, reason }]
    );
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::NothingToDo });
}

#[test]
fn g11_with_nothing_to_stop_it_changes_nothing() {
    let mut world = World::open();
    assert_eq!(world.user(&UserCommand::Interrupt).unwrap(), []);
    world.set_goal();
    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(world.user(&UserCommand::Interrupt).unwrap(), [], "a stronger or equal pause stays");
}

#[test]
fn g11_i2_an_interrupt_outranks_the_reason_a_turn_was_stopping_for() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.user(&UserCommand::EnterPlan).unwrap();
    world.user(&UserCommand::Interrupt).unwrap();
    assert_eq!(world.running().stop, Some(StopReason::Interrupted));
    assert_eq!(world.user(&UserCommand::Interrupt).unwrap(), [], "once");
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(world.inbox(), [0; 0], "the prompt does not run behind the user's back");
}

#[test]
fn g11_steering_and_a_lost_worker_pause_nothing() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.submit("a word in between");
    world.lose(turn);
    assert_eq!(*world.status(), GoalStatus::Active);
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}
