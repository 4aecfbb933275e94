//! The budget of active time: charged while bound turns run, and for nothing else (G4).

use std::collections::BTreeMap;

use domain::{Condition, EventBody, GoalStatus, PauseReason, StopReason};
use policy::{BudgetEdit, LEASE_MS, RuntimeCommand, UserCommand};

use super::commands::{more_tokens, wait_goal};
use super::world::{
    World, active_budget, begin, budgets, code, finish_call, kinds, owner, respond, spent, start_work,
};

const HOUR_MS: i64 = 3_600_000;

fn renew(world: &mut World) -> Vec<domain::Event> {
    let turn = world.running().number;
    world.runtime(&RuntimeCommand::RenewLease { turn, owner: owner(1) }).unwrap()
}

/// Lets this much time pass in the running turn, whose worker renews its lease as it should.
fn work_for(world: &mut World, ms: i64) {
    for _ in 0..ms / 5_000 {
        world.now += 5_000;
        renew(world);
    }
    world.now += ms % 5_000;
}

fn active_ms(world: &World) -> u64 {
    world.goal().usage.active_ms
}

fn active_time(ms: u64) -> UserCommand {
    UserCommand::SetBudgets { budgets: BudgetEdit { active_ms: ms.try_into().ok(), ..BudgetEdit::default() } }
}

#[test]
fn g4_time_counts_while_a_bound_turn_runs() {
    let mut world = World::open();
    world.set_goal();
    world.now += HOUR_MS;
    world.start();
    assert_eq!(active_ms(&world), 0, "the time before the turn");
    work_for(&mut world, 60_000);
    world.conclude();
    assert_eq!(active_ms(&world), 60_000);
    world.now += HOUR_MS;
    world.start();
    work_for(&mut world, 7_000);
    world.conclude();
    assert_eq!(active_ms(&world), 67_000, "and between two turns");
}

#[test]
fn g4_time_is_charged_with_the_response_the_end_the_loss_and_every_move() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.request(turn);
    world.now += 1_000;
    let events = world.runtime(&respond(turn, &["ask_user"], spent(10))).unwrap();
    assert_eq!(kinds(&events), ["model_responded", "goal_time_charged", "goal_charged"]);
    world.now += 1_000;
    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(active_ms(&world), 2_000);
    world.now += 1_000;
    world.shut_down();
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(active_ms(&world), 2_000, "a turn that runs on after the pause");
    let turn = world.start();
    world.now += 500;
    world.lose(turn);
    let until_the_lease_ended = u64::try_from(LEASE_MS).unwrap();
    assert_eq!(active_ms(&world), 2_000 + until_the_lease_ended);
}

#[test]
fn g4_time_of_a_turn_for_a_prompt_counts_if_it_is_bound() {
    for (is_paused, charged) in [(false, 8_000), (true, 0)] {
        let mut world = World::open();
        world.set_goal();
        if is_paused {
            world.user(&UserCommand::PauseGoal).unwrap();
        }
        world.submit("go");
        world.start();
        work_for(&mut world, 8_000);
        world.conclude();
        assert_eq!(active_ms(&world), charged, "paused: {is_paused}");
    }
}

#[test]
fn g4_time_in_pauses_waits_requests_and_retries_is_free() {
    let pause = |world: &mut World| {
        world.user(&UserCommand::PauseGoal).unwrap();
        world.now += HOUR_MS;
        world.user(&UserCommand::ResumeGoal).unwrap();
    };
    let plan = |world: &mut World| {
        world.user(&UserCommand::EnterPlan).unwrap();
        world.now += HOUR_MS;
        world.user(&start_work(None, None)).unwrap();
    };
    let wait = |world: &mut World| {
        world.wait_for(Condition::Time, world.now + HOUR_MS);
        world.now += HOUR_MS;
    };
    let request = |world: &mut World| {
        world.asked(super::commands::ask);
        world.now += HOUR_MS;
        world.user(&super::commands::answer(1, super::commands::text("8080"))).unwrap();
    };
    let retry = |world: &mut World| {
        let turn = world.start();
        world.fail(turn, super::world::failure(domain::FailureKind::Transport));
        world.now += HOUR_MS;
    };
    for rest in [pause as fn(&mut World), plan, wait, request, retry] {
        let mut world = World::open();
        world.set_goal();
        rest(&mut world);
        world.start();
        work_for(&mut world, 1_000);
        world.conclude();
        assert_eq!(active_ms(&world), 1_000);
    }
}

#[test]
fn g4_a_bound_turn_across_a_pause_is_charged_for_both_ends() {
    let mut world = World::open();
    world.set_goal();
    world.submit("go");
    world.start();
    world.now += 2_000;
    world.user(&UserCommand::PauseGoal).unwrap();
    work_for(&mut world, 60_000);
    world.user(&UserCommand::ResumeGoal).unwrap();
    world.now += 3_000;
    world.conclude();
    assert_eq!(active_ms(&world), 5_000);
}

#[test]
fn g4_a_worker_that_slept_past_its_lease_did_not_work() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.request(turn);
    world.now += 10 * HOUR_MS;
    world.runtime(&respond(turn, &["one"], spent(1))).unwrap();
    assert_eq!(active_ms(&world), 15_000, "up to the end of the lease");
    let events = renew(&mut world);
    assert_eq!(kinds(&events), ["goal_time_charged"], "and counts anew from here");
    world.now += 1_000;
    world.shut_down();
    assert_eq!(active_ms(&world), 16_000);
}

#[test]
fn g4_a_worker_that_renews_after_sleeping_counts_anew() {
    let mut world = World::open();
    world.set_goal();
    world.start();
    world.now += 10 * HOUR_MS;
    renew(&mut world);
    assert_eq!(active_ms(&world), 15_000);
    for _ in 0..3 {
        world.now += 5_000;
        assert_eq!(renew(&mut world), [], "renewing in time is no event");
    }
    world.conclude();
    assert_eq!(active_ms(&world), 30_000);
}

#[test]
fn g4_a_turn_recovered_long_after_is_charged_up_to_its_lease() {
    for (dead, charged) in [(None, 15_000), (Some(owner(1)), 2_000)] {
        let mut world = World::open();
        world.set_goal();
        let turn = world.start();
        world.now += if dead.is_some() { 2_000 } else { 9 * HOUR_MS };
        world.runtime(&RuntimeCommand::RecoverTurn { turn, dead, found: BTreeMap::new() }).unwrap();
        assert_eq!(active_ms(&world), charged);
    }
}

#[test]
fn g4_a_clock_set_back_charges_nothing_twice_and_nothing_negative() {
    let mut world = World::open();
    world.set_goal();
    world.start();
    world.now += 4_000;
    let call = world.one_call("one");
    world.now -= HOUR_MS;
    world.admit_call(call, domain::Effect::Read);
    world.runtime(&finish_call(call, domain::CallOutcome::Succeeded)).unwrap();
    world.now += 1_000;
    world.conclude();
    assert_eq!(active_ms(&world), 4_000);
    world.start();
    world.now += HOUR_MS;
    world.conclude();
    assert_eq!(active_ms(&world), 4_000 + 5_000 - 4_000, "time starts again where the log stands");
}

#[test]
fn g4_a_long_answer_does_not_outrun_the_budget() {
    let mut world = World::open();
    world.set_goal_with(active_budget(12_000));
    let turn = world.start();
    world.request(turn);
    for _ in 0..2 {
        world.now += 5_000;
        assert_eq!(renew(&mut world), []);
    }
    world.now += 5_000;
    let events = renew(&mut world);
    assert_eq!(
        kinds(&events),
        ["goal_time_charged", "goal_budget_announced", "goal_moved", "turn_stop_requested"]
    );
    assert_eq!(
        (world.status(), world.running().stop),
        (&GoalStatus::BudgetLimited, Some(StopReason::Budget))
    );
    world.runtime(&respond(turn, &["one"], spent(10))).unwrap();
    world.shut_down();
    assert_eq!(active_ms(&world), 15_000, "at most the time between two renewals over");
    assert_eq!(world.wake_at, None);
}

#[test]
fn g4_crossing_the_time_is_decided_with_the_response() {
    let mut world = World::open();
    world.set_goal_with(active_budget(2_000));
    world.submit("go");
    let turn = world.start();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.request(turn);
    world.user(&UserCommand::ResumeGoal).unwrap();
    world.now += 2_000;
    // The Goal was paused when the request began, so that nothing but time is charged with its response.
    world.runtime(&respond(turn, &["one"], spent(10))).unwrap();
    assert_eq!((world.status(), world.goal().usage.tokens.charged()), (&GoalStatus::BudgetLimited, 0));
    assert_eq!(code(world.runtime(&begin(turn))), domain::Code::TurnStopping);
}

#[test]
fn g4_half_and_four_fifths_of_the_time_are_announced() {
    let mut world = World::open();
    world.set_goal_with(active_budget(10_000));
    for _ in 0..9 {
        world.start();
        world.now += 1_000;
        let call = world.one_call("write_file");
        world.admit_call(call, super::world::write("a", 1));
        world.runtime(&finish_call(call, domain::CallOutcome::Succeeded)).unwrap();
        world.conclude();
    }
    world.start();
    world.now += 1_000;
    world.conclude();
    let announced = world.events.iter().filter_map(|event| match event.body {
        EventBody::GoalBudgetAnnounced { percent, .. } => Some((percent, event.at.0 - super::world::START)),
        _ => None,
    });
    assert_eq!(announced.collect::<Vec<_>>(), [(50, 5_000), (80, 8_000)]);
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
}

#[test]
fn g4_a_raised_budget_lets_the_goal_go_on() {
    let mut world = World::open();
    world.set_goal_with(active_budget(1_000));
    world.start();
    world.now += 1_000;
    world.conclude();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    insta::assert_snapshot!(world.user(&UserCommand::ResumeGoal).unwrap_err(), @"illegal_transition: a user cannot take the Goal from budget_limited to active: its budget is used up; `zuno goal budget` raises it");
    let events = world.user(&active_time(1_000)).unwrap();
    assert_eq!(events, [], "the same budget is no change");
    world.user(&more_tokens(5_000_000)).unwrap();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited, "another budget is used up");
    let events = world.user(&active_time(4_000)).unwrap();
    assert_eq!(kinds(&events), ["goal_budget_changed", "goal_moved"]);
    assert_eq!((world.status(), world.goal().announced_percent), (&GoalStatus::Active, 0));
    world.start();
    world.now += 1_000;
    world.conclude();
    assert_eq!(world.goal().announced_percent, 50, "shares of the new budget are announced anew");
}

#[test]
fn g4_a_lowered_budget_stops_a_goal_that_has_spent_it() {
    let mut world = World::open();
    world.set_goal();
    world.whole_turn();
    let turn = world.start();
    let events = world.user(&more_tokens(100)).unwrap();
    assert_eq!(
        kinds(&events),
        ["goal_budget_changed", "goal_budget_announced", "goal_moved", "turn_stop_requested"]
    );
    assert_eq!(
        (world.status(), world.running().stop),
        (&GoalStatus::BudgetLimited, Some(StopReason::Budget))
    );
    assert_eq!(code(world.runtime(&begin(turn))), domain::Code::TurnStopping);
}

#[test]
fn g4_g8_a_budget_changed_during_a_pause_moves_nothing_until_it_is_lifted() {
    let mut world = World::open();
    world.set_goal();
    world.whole_turn();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.user(&more_tokens(100)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User));
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
}

#[test]
fn g4_m5_a_budget_raised_in_plan_mode_waits_for_start_work() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    world.whole_turn();
    world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    world.user(&more_tokens(1_000)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode));
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn g4_g11_a_budget_raised_after_an_interrupt_is_an_act_that_lets_held_rows_run() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    world.whole_turn();
    world.submit("later");
    world.user(&UserCommand::Interrupt).unwrap();
    assert!(world.state.core.inbox_held);
    world.user(&more_tokens(1_000)).unwrap();
    assert!(matches!(world.next(), policy::NextAction::RunInput { .. }), "before the Goal goes on");
}

#[test]
fn g4_g10_a_wait_is_no_way_around_the() {
    let mut world = World::open();
    world.set_goal_with(active_budget(1_000));
    let call = world.start_with("goal_wait");
    world.agent(&wait_goal(call, Condition::Time, world.now + 60_000)).unwrap();
    world.now += 1_000;
    world.conclude();
    world.now += 60_000;
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    assert_eq!(world.wake_at, None);
}
