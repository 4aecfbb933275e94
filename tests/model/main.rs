//! Model checking: the real rules, explored state by state.
//!
//! The model is a session in a store, some workers, a user, a model that may say anything, and time. Each step of it is
//! one command that the product's [`policy::decide`] decides, or something that happens outside: an effect, a death, a
//! clock that moves. stateright explores every order of such steps, and [`property`] says what must hold in each state
//! that can be reached.
//!
//! - **The rules are not modelled.** State, leases, wake-up and every decision on them are the product's own types and
//!   functions. What is modelled is who acts on them: the turn loop's order of commands ([`task`]), what a worker does in
//!   a session that is due ([`rest`]), and what the store does with a decision ([`ledger`]).
//! - **The properties are.** The onlooker ([`watch`], [`state`]) states the rules anew, asks no function of `policy`, and
//!   keeps notes of what the state forgets.
//! - **The state space is finite**, because only distances, equality and order of times and numbers matter: [`canon`]
//!   says which differences are dropped and why that loses nothing. The user may act any number of times.
//! - **It is cut into slices** ([`slices`]), each with a part of the product in play. The page says of each whether it was
//!   explored to its end.
//! - **Every state is also left alone and helped** ([`rest`]): a fresh worker follows the stored wake-ups until the session
//!   rests, alone and after the user's one helpful act. So "eventually" and "can always" are checked in each state.
//! - **Deliberate bugs** ([`mutants`]) show that the properties can fail. They are built into the model's store and workers
//!   ([`bug`]), never into the product.
//!
//! States are told apart by 64-bit hashes, as stateright does: among ten million the chance that two share one is
//! below one in a hundred thousand.
//!
//! The tests here explore the states nearest to the first. `cargo xtask prove` runs [`prove`] with all of them. A property
//! that breaks is told with the shortest way to it; since workers are alike, a worker may change its number on the way.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a proof says how far it came")]

mod act;
mod bug;
mod canon;
mod commands;
mod doing;
mod explore;
mod ledger;
mod model;
mod mutants;
mod property;
mod prove;
mod rest;
mod slice;
mod slices;
mod state;
mod task;
mod watch;
mod world;

use prove::first_states;

/// Bugs that a test looks for: each of another part of the rules, and soon found.
const SOME_BUGS: &[&str] = &[
    "no_fence",
    "replays_uncertain",
    "weaker_pause_overwrites",
    "mode_read_at_turn_start",
    "loses_rows",
    "keeps_wake_up_at_turn_admitted",
];

/// Steps from the first state that a test explores in a slice: less than a second without optimisation.
const STEPS: usize = 6;

#[test]
fn t4_t5_t7_i2_workers_that_race_sleep_and_die_leave_one_turn_and_no_row_behind() {
    first_states("ownership", STEPS);
}

#[test]
fn g2_g8_g12_g13_goals_move_as_their_rules_say_and_leave_nothing_behind() {
    first_states("goals", STEPS);
}

#[test]
fn m5_m6_plan_mode_holds_whenever_it_is_entered() {
    first_states("modes", STEPS);
}

#[test]
fn i4_g9_questions_and_answers_act_once() {
    first_states("questions", STEPS);
}

#[test]
fn i4_an_allowed_call_runs_once() {
    first_states("permissions", STEPS);
}

#[test]
fn g10_t3_waits_end_and_wake_the_session() {
    first_states("waits", STEPS);
}

#[test]
fn g10_i5_background_commands_end_with_a_report_and_start_nothing_by_themselves() {
    first_states("background", STEPS);
}

#[test]
fn g4_g5_budgets_are_not_exceeded_and_nothing_is_charged_twice() {
    first_states("budget", STEPS);
}

#[test]
fn g4_active_time_is_bounded() {
    first_states("active_time", STEPS);
}

#[test]
fn t9_t10_failures_are_tried_again_pause_or_block() {
    first_states("failures", STEPS);
}

#[test]
fn g6_g7_turns_that_lead_nowhere_stop() {
    first_states("breakers", STEPS);
}

#[test]
fn i1_i3_g11_prompts_words_and_interrupts_find_their_turn() {
    first_states("steering", STEPS);
}

#[test]
fn p19_no_plan_changes_what_a_command_causes() {
    first_states("plans", STEPS);
}

#[test]
fn g3_proposals_start_nothing() {
    first_states("proposals", STEPS);
}

#[test]
fn t1_t2_t3_whatever_is_in_play_causes_and_wake_ups_are_right() {
    first_states("everything", STEPS);
}

#[test]
fn t3_t5_t7_g8_m6_i2_bugs_are_caught() {
    prove::these_caught(SOME_BUGS);
}

#[test]
#[ignore = "takes minutes; `cargo xtask prove` runs it"]
fn prove_model() {
    prove::prove();
}
