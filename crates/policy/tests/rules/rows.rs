//! Rows that join a running turn, and which row may start one while the Goal is in which state (I1, I5).

use domain::{
    CallOutcome, Code, EventBody, FailureKind, GoalState, InputCancelReason, InputKind, QUEUED_ROWS,
    TurnTrigger,
};
use policy::{Delivery, NextAction, RuntimeCommand, UserCommand};
use testkit::goal_id;

use super::commands::{answer, ask, deny, end_command, more_tokens, propose, text};
use super::world::{
    World, begin, budgets, code, complete, complete_goal, end, failure, goal_set, kinds, steer, submit,
};

fn consumed(events: &[domain::Event]) -> usize {
    events
        .iter()
        .map(|event| match &event.body {
            EventBody::InputConsumed { rows, .. } => rows.len(),
            _ => 0,
        })
        .sum()
}

// I1

#[test]
fn i1_a_word_to_the_running_turn_joins_it_at_its_next_request() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let call = world.call(turn, &["read_file"])[0];
    let events = world.user(&steer("only src")).unwrap();
    assert!(matches!(events[0].body, EventBody::InputQueued { input: InputKind::Steer, .. }));
    world.user(&steer("and tests")).unwrap();
    world.submit("something else, later");
    world.runtime(&super::world::refuse_call(call, CallOutcome::Invalid)).unwrap();
    let events = world.runtime(&begin(turn)).unwrap();
    assert_eq!((kinds(&events), consumed(&events)), (vec!["input_consumed", "model_requested"], 2));
    assert_eq!(world.row_kinds(), ["user"], "a prompt waits for a turn of its own");
}

#[test]
fn i1_a_word_joins_before_the_first_request_too() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.user(&steer("quickly")).unwrap();
    assert_eq!(consumed(&world.runtime(&begin(turn)).unwrap()), 2);
}

#[test]
fn i1_without_a_running_turn_a_word_is_a_prompt() {
    let mut world = World::open();
    world.user(&steer("go")).unwrap();
    assert_eq!(world.row_kinds(), ["user"]);
    world.start();
}

#[test]
fn i1_a_word_that_came_too_late_becomes_a_prompt() {
    type Last = fn(&mut World);
    let ends: [(&str, Last); 4] = [
        ("completed", |world| {
            let turn = world.running().number;
            world.runtime(&super::world::respond(turn, &[], super::world::spent(1))).unwrap();
            world.user(&steer("wait")).unwrap();
            assert_eq!(world.row_kinds(), ["steer"]);
            world.runtime(&end(turn, domain::TurnOutcome::Completed)).unwrap();
        }),
        ("failed", |world| {
            let turn = world.running().number;
            world.user(&steer("wait")).unwrap();
            world.fail(turn, failure(FailureKind::Refused));
        }),
        ("lost", |world| {
            let turn = world.running().number;
            world.user(&steer("wait")).unwrap();
            world.lose(turn);
        }),
        ("stopped", |world| {
            world.user(&steer("wait")).unwrap();
            world.shut_down();
        }),
    ];
    for (how, last) in ends {
        let mut world = World::open();
        world.submit("go");
        let turn = world.start();
        world.request(turn);
        last(&mut world);
        assert_eq!(world.row_kinds(), ["user"], "{how}");
        assert!(matches!(world.next(), NextAction::RunInput { .. }), "{how}");
    }
}

#[test]
fn i1_g11_a_word_before_an_interrupt_is_held_with_the_queue() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.user(&steer("quickly")).unwrap();
    world.user(&UserCommand::Interrupt).unwrap();
    world.runtime(&end(turn, domain::TurnOutcome::Completed)).unwrap();
    assert_eq!((world.row_kinds(), world.wake_at), (vec!["user"], None));
}

#[test]
fn i1_a_word_is_read_by_the_goals_turn_and_counts_in_the_quota() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    for _ in 0..QUEUED_ROWS {
        world.user(&steer("quickly")).unwrap();
    }
    assert_eq!(code(world.user(&steer("one more"))), Code::LimitExceeded);
    assert_eq!(code(world.user(&submit("one more"))), Code::LimitExceeded);
    assert_eq!(consumed(&world.runtime(&begin(turn)).unwrap()), QUEUED_ROWS);
    world.submit("there is room again");
}

#[test]
fn i1_g12_a_word_does_not_vanish_in_the_last_answer_of_a_completing_turn() {
    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("goal_update");
    world.user(&steer("and the tests")).unwrap();
    world.agent(&complete_goal(call)).unwrap();
    assert_eq!(consumed(&world.runtime(&begin(call.turn)).unwrap()), 0);
    world.runtime(&super::world::respond(call.turn, &[], super::world::spent(1))).unwrap();
    world.runtime(&end(call.turn, domain::TurnOutcome::Completed)).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn i1_steering_is_a_command_of_its_own_and_pauses_nothing() {
    let UserCommand::SubmitInput { delivery, resume, .. } = steer("x") else { panic!() };
    assert_eq!((delivery, resume), (Delivery::Steer, false));
    let mut world = World::open();
    world.set_goal();
    world.start();
    let before = world.status().clone();
    assert_eq!(kinds(&world.user(&steer("x")).unwrap()), ["input_queued"]);
    assert_eq!((world.status(), world.running().stop), (&before, None));
}

// I5

/// The rows that can wait, by where they come from and whom they belong to.
#[derive(Debug, Clone, Copy)]
enum Row {
    User,
    Answer,
    GoalAnswer,
    Report,
    GoalReport,
}

const ROWS: [Row; 5] = [Row::User, Row::Answer, Row::GoalAnswer, Row::Report, Row::GoalReport];

impl Row {
    const fn belongs_to_goal(self) -> bool {
        matches!(self, Self::GoalAnswer | Self::GoalReport)
    }

    /// Before the Goal is set, and while it is active, what has to happen for the row to be queued later.
    fn prepare(self, world: &mut World) {
        match self {
            Self::User => {}
            Self::Answer | Self::GoalAnswer => {
                if matches!(self, Self::Answer) {
                    world.submit("go");
                }
                world.asked(ask);
            }
            Self::Report | Self::GoalReport => {
                if matches!(self, Self::Report) {
                    world.submit("go");
                }
                world.start();
                world.background();
                world.conclude();
            }
        }
    }

    fn queue(self, world: &mut World) {
        match self {
            Self::User => drop(world.submit("go")),
            Self::Answer | Self::GoalAnswer => drop(world.user(&answer(1, text("8080"))).unwrap()),
            Self::Report | Self::GoalReport => {
                drop(world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap());
            }
        }
    }
}

/// Brings an active Goal, with nothing running, into this state; a row that waits keeps waiting on the way.
fn bring_to(world: &mut World, state: GoalState) {
    match state {
        GoalState::Active => {}
        GoalState::Paused => drop(world.user(&UserCommand::PauseGoal).unwrap()),
        GoalState::BudgetLimited => drop(world.user(&more_tokens(1)).unwrap()),
        GoalState::Completed => drop(world.user(&complete(true)).unwrap()),
        GoalState::Cancelled => drop(world.user(&UserCommand::CancelGoal).unwrap()),
        // Both take a turn; it must not read the row that is looked at.
        GoalState::Proposed | GoalState::Blocked => unreachable!("prepared before the row is queued"),
    }
}

/// A Goal in this state with the row queued, or none if this cannot be.
fn with_row(row: Row, state: GoalState) -> Option<World> {
    let mut world = World::open();
    if state == GoalState::Proposed {
        if row.belongs_to_goal() {
            return None;
        }
        row.prepare(&mut world);
        world.submit("propose");
        let call = world.start_with("goal_propose");
        world.agent(&propose(call, goal_id(5), "Port it")).unwrap();
        world.conclude();
        row.queue(&mut world);
        return Some(world);
    }
    if !row.belongs_to_goal() {
        row.prepare(&mut world);
    }
    world.set_goal_with(budgets(1_000_000, 100));
    world.working_turn();
    if row.belongs_to_goal() {
        row.prepare(&mut world);
    }
    if state == GoalState::Blocked {
        if matches!(row, Row::GoalAnswer) {
            // The third denial of a call leaves its answer behind.
            world.user(&answer(1, deny())).unwrap();
            world.start();
            world.conclude();
            for n in 2..=4 {
                let call = world.start_with("tool");
                world.runtime(&super::commands::ask_leave(call)).unwrap();
                world.user(&answer(n, deny())).unwrap();
                if n < 4 {
                    world.start();
                    world.conclude();
                }
            }
            return Some(world);
        }
        world.submit("go");
        let turn = world.start();
        world.fail(turn, failure(FailureKind::Refused));
        row.queue(&mut world);
    } else {
        row.queue(&mut world);
        bring_to(&mut world, state);
    }
    assert_eq!(world.status().state(), state);
    Some(world)
}

#[test]
fn i5_which_row_starts_a_turn_while_the_goal_is_in_which_state() {
    let cell = |row, state| {
        let Some(mut world) = with_row(row, state) else { return "–" };
        if world.row_kinds().is_empty() {
            let reason = InputCancelReason::GoalEnded;
            assert!(world.events.iter().any(
                |event| matches!(event.body, EventBody::InputCancelled { reason: is, .. } if is == reason)
            ));
            return "cancelled";
        }
        if matches!(world.next(), NextAction::RunInput { .. }) {
            return "runs";
        }
        // It waits; a prompt behind it is not hidden by it, and a report of no Goal joins that turn.
        world.submit("go");
        let turn = world.start();
        assert!(matches!(world.running().trigger, TurnTrigger::Input { .. }), "{row:?} {state}");
        match consumed(&world.runtime(&begin(turn)).unwrap()) {
            1 => "waits",
            _ => "joins",
        }
    };
    let line = |row: Row| {
        let cells: Vec<_> = GoalState::ALL.iter().map(|state| cell(row, *state)).collect();
        format!("{row:?} | {}", cells.join(" | "))
    };
    let header = GoalState::ALL.map(GoalState::name).join(" | ");
    let table = ROWS.map(line).join("\n");
    insta::assert_snapshot!(format!("row | {header}\n{table}"), @r"
    row | proposed | active | paused | blocked | budget_limited | completed | cancelled
    User | runs | runs | runs | runs | runs | runs | runs
    Answer | runs | runs | runs | runs | runs | runs | runs
    GoalAnswer | – | runs | waits | waits | waits | cancelled | cancelled
    Report | joins | joins | joins | joins | joins | joins | joins
    GoalReport | – | runs | waits | waits | waits | cancelled | cancelled
    ");
}

#[test]
fn i5_a_report_of_no_goal_starts_no_turn_and_joins_the_next_one() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    let events = world.runtime(&end_command(1, CallOutcome::Failed)).unwrap();
    assert_eq!(kinds(&events), ["command_ended", "input_queued"]);
    let EventBody::InputQueued { text, .. } = &events[1].body else { panic!() };
    insta::assert_snapshot!(text, @r"
    [Background command 1 ended: failed. make all]
    the last lines
    ");
    assert_eq!((world.wake_at, world.row_kinds()), (None, vec!["report"]));
    world.set_goal();
    world.start();
    assert!(matches!(world.running().trigger, TurnTrigger::Goal { .. }));
    let turn = world.running().number;
    assert_eq!(consumed(&world.runtime(&begin(turn)).unwrap()), 1, "whatever starts it");
}

#[test]
fn i5_a_goals_report_joins_a_turn_bound_to_it_and_no_other() {
    for is_paused in [false, true] {
        let mut world = World::open();
        world.set_goal();
        world.start();
        world.background();
        world.conclude();
        if is_paused {
            world.user(&UserCommand::PauseGoal).unwrap();
        }
        world.submit("go");
        let turn = world.start();
        world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
        let joined = consumed(&world.runtime(&begin(turn)).unwrap()) - 1;
        assert_eq!(joined, usize::from(!is_paused), "paused: {is_paused}");
    }
}

#[test]
fn i5_reports_and_answers_leave_the_persons_quota_alone() {
    let mut world = World::open();
    world.submit("go");
    world.start();
    world.background();
    world.conclude();
    for _ in 0..QUEUED_ROWS {
        world.submit("row");
    }
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    assert_eq!(world.row_kinds().len(), QUEUED_ROWS + 1);
    assert_eq!(code(world.user(&submit("one more"))), Code::LimitExceeded);
    world.whole_turn();
    world.submit("room for one");
}

#[test]
fn i5_a_command_that_always_ends_with_a_new_one_is_no_loop_without_an_active_goal() {
    let mut world = World::open();
    world.set_goal();
    world.start();
    world.background();
    world.conclude();
    for n in 1..=2 {
        world.runtime(&end_command(n, CallOutcome::Succeeded)).unwrap();
        world.start();
        world.background();
        world.conclude();
    }
    // Turns that lead to nothing but the next command are turns without evidence.
    assert_eq!(world.status().state(), GoalState::Paused);
    world.runtime(&end_command(3, CallOutcome::Succeeded)).unwrap();
    assert_eq!((world.wake_at, world.row_kinds()), (None, vec!["report"]));
    world.now += 86_400_000;
    assert!(matches!(world.next(), NextAction::Idle { .. }));
}

#[test]
fn i5_g12_a_row_of_an_ended_goal_that_was_taken_does_not_come_back() {
    for last in
        [UserCommand::CancelGoal, complete(true), goal_set(goal_id(50), domain::Budgets::default(), true)]
    {
        for is_lost in [false, true] {
            let mut world = World::open();
            world.set_goal();
            world.asked(ask);
            world.user(&answer(1, text("8080"))).unwrap();
            let turn = world.start();
            world.user(&last).unwrap();
            assert_eq!(world.running().stop, Some(domain::StopReason::GoalChanged));
            if is_lost {
                world.lose(turn);
            } else {
                world.runtime(&end(turn, domain::TurnOutcome::Completed)).unwrap();
            }
            assert_eq!(world.row_kinds(), [""; 0], "{last:?}, lost: {is_lost}");
        }
    }
}

#[test]
fn i5_i2_a_goals_row_taken_before_a_pause_waits_with_the_goal() {
    let mut world = World::open();
    world.set_goal();
    world.asked(ask);
    world.user(&answer(1, text("8080"))).unwrap();
    let turn = world.start();
    assert!(world.running().is_for_goal);
    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping, "it runs for the Goal alone");
    world.runtime(&end(turn, domain::TurnOutcome::Completed)).unwrap();
    assert_eq!((world.row_kinds(), world.wake_at), (vec!["answer"], None));
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn i5_g11_a_report_during_a_hold_waits_for_the_person_too() {
    let mut world = World::open();
    world.set_goal();
    world.start();
    world.background();
    world.conclude();
    world.submit("later");
    world.user(&UserCommand::Interrupt).unwrap();
    world.runtime(&end_command(1, CallOutcome::Succeeded)).unwrap();
    assert_eq!(world.wake_at, None);
    world.user(&UserCommand::ResumeGoal).unwrap();
    let recover = RuntimeCommand::RecoverCommand { command: domain::CommandId(1), dead: None };
    assert_eq!(code(world.runtime(&recover)), Code::UnknownCommand);
    world.whole_turn();
    assert!(matches!(world.next(), NextAction::RunGoal { .. }), "the report joined the turn for the prompt");
}
