//! Who may start the next turn, and when to look again (T2, T3, T8).

use domain::{Code, FailureKind, InboxRow, InputId, InputKind, Seq, Timestamp, TurnNumber};
use policy::{Awaited, ContinuationView, IdleReason, NextAction, RuntimeCommand, UserCommand, next_action};

use testkit::goal_id;

use super::commands::{ask, end_command, propose};
use super::world::{START, World, admit, budgets, code, failure, kinds, owner};

/// A day: longer than any wait.
const LONG_MS: i64 = 86_400_000;

fn why(world: &World) -> String {
    match world.next() {
        NextAction::Idle { why } => serde_json::to_value(why).unwrap()["why"].as_str().unwrap().to_owned(),
        other => format!("{other:?}"),
    }
}

/// A session for each reason to be idle.
fn idle_worlds() -> Vec<World> {
    let mut worlds = vec![World::open()];
    let with_goal = |act: &dyn Fn(&mut World)| {
        let mut world = World::open();
        world.set_goal_with(budgets(1_000, 10));
        act(&mut world);
        world
    };
    let command = |command: UserCommand| with_goal(&|world: &mut World| drop(world.user(&command).unwrap()));
    let fails = |kind| {
        with_goal(&move |world: &mut World| {
            let turn = world.start();
            world.fail(turn, failure(kind));
        })
    };
    worlds.push(command(UserCommand::PauseGoal));
    worlds.push(command(UserCommand::Interrupt));
    worlds.push(command(UserCommand::EnterPlan));
    worlds.push(command(UserCommand::CancelGoal));
    worlds.push(command(UserCommand::CompleteGoal { summary: None, force: false }));
    worlds.push(fails(FailureKind::Authentication));
    worlds.push(fails(FailureKind::Refused));
    worlds.push(with_goal(&|world| {
        let turn = world.start();
        world.answer(turn, 1_000);
    }));
    let mut world = World::open();
    world.submit("go");
    world.user(&UserCommand::Interrupt).unwrap();
    worlds.push(world);
    for kind in [None, Some(FailureKind::Transport)] {
        let mut world = World::open();
        world.submit("go");
        let turn = world.start();
        world.request(turn);
        match kind {
            None => drop(world.lose(turn)),
            Some(kind) => drop(world.fail(turn, failure(kind))),
        }
        worlds.push(world);
    }
    let mut world = World::open();
    world.submit("what would you do?");
    let call = world.start_with("goal_propose");
    world.agent(&propose(call, goal_id(5), "Port it")).unwrap();
    world.conclude();
    worlds.push(world);
    let mut world = World::open();
    world.submit("go");
    world.asked(ask);
    worlds.push(world);
    worlds.push(with_goal(&|world| {
        world.asked(ask);
    }));
    // Its report joins what something else starts.
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    world.runtime(&end_command(1, domain::CallOutcome::Succeeded)).unwrap();
    worlds.push(world);
    worlds
}

#[test]
fn t2_an_idle_session_says_why() {
    let reasons: Vec<_> = idle_worlds().iter().map(why).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r"
    nothing_to_do
    goal_paused
    goal_paused
    goal_paused
    goal_cancelled
    goal_completed
    goal_paused
    goal_blocked
    goal_budget_limited
    inbox_held
    turn_lost
    turn_failed
    goal_proposed
    awaiting_answer
    goal_paused
    nothing_to_do
    ");
}

#[test]
fn t3_idle_means_that_time_alone_changes_nothing() {
    for world in idle_worlds() {
        assert_eq!(world.wake_at, None);
        for later in [1, 1_000, LONG_MS] {
            assert_eq!(world.next_at(world.now + later), world.next(), "{}", why(&world));
        }
    }
}

#[test]
fn t3_the_wake_up_is_now_the_retry_or_the_end_of_the_lease() {
    let mut world = World::open();
    assert_eq!(world.wake_at, None);
    world.set_goal();
    assert_eq!(world.wake_at, Some(Timestamp(START)), "due");
    let turn = world.start();
    assert_eq!(world.wake_at, Some(Timestamp(START + policy::LEASE_MS)), "the lease");
    world.now += 100;
    world.fail(turn, failure(FailureKind::ServerError));
    assert_eq!(world.wake_at, Some(Timestamp(START + 2_100)), "the retry");
    world.submit("go");
    assert_eq!(world.wake_at, Some(Timestamp(START + 100)), "input goes first");
}

#[test]
fn t3_a_running_command_wakes_at_the_end_of_its_lease_also_when_idle() {
    let mut world = World::open();
    world.submit("serve");
    world.start();
    world.background();
    world.conclude();
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::NothingToDo });
    assert_eq!(
        world.wake_at,
        Some(Timestamp(START + policy::LEASE_MS)),
        "somebody has to notice a dead owner"
    );
}

/// Every way in which nothing runs although something may later; [`super::invariants`] checks the stored moment.
#[test]
fn t3_a_wake_up_is_set_whenever_time_alone_makes_something_run() {
    type Rest = fn(&mut World);
    let rests: [(&str, Rest); 6] = [
        ("a retry", |world| {
            let turn = world.start();
            world.fail(turn, failure(FailureKind::Transport));
        }),
        ("a time", |world| world.wait_for(domain::Condition::Time, START + 9_000)),
        ("an input", |world| world.wait_for(domain::Condition::Inbox, START + 9_000)),
        ("a file", |world| {
            let path = domain::WaitedPath::parse("out").unwrap();
            world.wait_for(domain::Condition::File { path, baseline: None }, START + 9_000);
        }),
        ("a command", |world| {
            world.start();
            world.background();
            world.conclude();
        }),
        ("a turn", |world| {
            world.start_with("shell");
        }),
    ];
    for (what, rest) in rests {
        let mut world = World::open();
        world.set_goal();
        rest(&mut world);
        let refusal = code(world.runtime(&admit(&owner(2))));
        assert!(matches!(refusal, Code::NotDue | Code::LeaseHeld), "{what}: {refusal}");
        assert!(world.wake_at.is_some_and(|at| at.0 > world.now), "{what}: {:?}", world.wake_at);
    }
}

#[test]
fn t2_while_a_turn_runs_everything_waits_for_it() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.submit("go");
    assert_eq!(world.next(), NextAction::WaitFor { what: Awaited::Turn { turn } });
    assert_eq!(world.next_at(START + LONG_MS), NextAction::WaitFor { what: Awaited::Turn { turn } });
}

#[test]
fn t8_without_an_active_goal_a_finished_turn_schedules_nothing() {
    let mut world = World::open();
    world.update_plan("a:completed b:completed c:completed d:in_progress e f", None).unwrap();
    world.submit("go");
    world.whole_turn();
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::NothingToDo });
    assert_eq!(world.next_at(START + LONG_MS), NextAction::Idle { why: IdleReason::NothingToDo });
    assert_eq!(world.wake_at, None);
    let events =
        world.update_plan("a:completed b:completed c:completed d:completed e:in_progress f", Some(1));
    assert_eq!(kinds(&events.unwrap()), ["plan_revised"]);
    assert_eq!(world.wake_at, None, "a plan update wakes nobody");
}

#[test]
fn t8_a_complete_plan_does_not_stop_a_goal_and_an_unfinished_one_does_not_keep_it() {
    for line in ["a:completed", "a:in_progress b c"] {
        let mut world = World::open();
        world.update_plan(line, None).unwrap();
        world.set_goal();
        world.whole_turn();
        assert!(matches!(world.next(), NextAction::RunGoal { continuation: 2, .. }), "{line}");
        world.user(&UserCommand::CompleteGoal { summary: None, force: false }).unwrap();
        assert_eq!(world.next(), NextAction::Idle { why: IdleReason::GoalCompleted }, "{line}");
    }
}

#[test]
fn t2_the_view_alone_keeps_a_spent_goal_from_running() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    let mut goal = world.goal().clone();
    goal.usage.turns = 10;
    let view = ContinuationView::new(Some(&goal), (&[], false), (None, None), (&[], &[]), &[]);
    let next = next_action(&view, Timestamp(START));
    assert_eq!(next, NextAction::Idle { why: IdleReason::GoalBudgetLimited });
}

#[test]
fn t2_the_view_passes_over_a_row_that_is_taken() {
    let row = |seq, taken| InboxRow {
        id: InputId(Seq(seq)),
        kind: InputKind::User,
        taken,
        returns: 0,
        goal_id: None,
        runs: None,
    };
    let rows = [row(3, Some(TurnNumber(1))), row(4, None), row(5, None)];
    let view = ContinuationView::new(None, (&rows, false), (None, None), (&[], &[]), &[]);
    assert_eq!(next_action(&view, Timestamp(START)), NextAction::RunInput { row: InputId(Seq(4)) });
}

#[test]
fn t11_a_client_that_asks_first_admits_input_and_no_goal_turn() {
    let mut world = World::open();
    world.set_goal();
    let RuntimeCommand::AdmitTurn { lane, owner, model, max_requests, .. } = admit(&owner(1)) else {
        panic!()
    };
    let input_only = RuntimeCommand::AdmitTurn {
        lane,
        owner,
        model,
        scope: policy::Scope::InputOnly,
        max_requests,
        confinement: None,
    };
    assert_eq!(code(world.runtime(&input_only)), Code::NotDue);
    assert_eq!(world.goal().continuations, 0, "the Goal waits for another worker or the person");
    world.submit("go");
    world.runtime(&input_only).unwrap();
}
