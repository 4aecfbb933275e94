//! Processes want the same thing at the same moment, again and again, and one of them gets it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use domain::{Budgets, Event, EventBody, GoalStatus, PauseReason, SessionId, TurnTrigger};
use store::SystemClock;
use tests::World;

use crate::account::{Account, Fault};
use crate::contestant::{self, Contestant, all_answer, tell_all};

/// How often they race in an ordinary run.
const ROUNDS: u64 = 50;
/// Turns that a Goal may take in a contest: more than any has rounds.
const TURNS: NonZeroU32 = NonZeroU32::new(100_000).expect("not zero");

/// A Goal that a contest does not use up.
pub(crate) async fn lasting_goal(world: &World<SystemClock>, session: SessionId) {
    world.goal_within(session, "Win the race", Budgets { turns: TURNS, ..Budgets::default() }).await;
}

/// So many processes of one role.
pub(crate) fn field(
    role: &str,
    processes: usize,
    world: &World<SystemClock>,
    session: SessionId,
) -> Vec<Contestant> {
    let mut field: Vec<_> = (0..processes).map(|_| Contestant::start(role, world, session)).collect();
    all_answer(&mut field, "ready");
    field
}

/// Lets all look, and then go at once: the barrier is that each waits for this word. Gives their answers, and how long
/// the last one took. Who hears the word first changes from round to round.
pub(crate) fn at_once(field: &mut [Contestant]) -> (Vec<String>, Duration) {
    tell_all(field, "look");
    all_answer(field, "looked");
    let gun = Instant::now();
    tell_all(field, "go");
    let answers = field.iter_mut().map(Contestant::answer).collect();
    field.rotate_left(1);
    (answers, gun.elapsed())
}

/// Processes of one role race for the continuations of a Goal: in each round all look, all are let go at once, then all
/// finish.
pub(crate) async fn admissions(role: &str, processes: usize, rounds: u64) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    lasting_goal(&world, session).await;
    let mut racers = field(role, processes, &world, session);
    let (mut many, mut none, mut worst) = (0, 0, Duration::ZERO);
    for round in 0..rounds {
        let (answers, took) = at_once(&mut racers);
        worst = worst.max(took);
        let admitted = answers.iter().filter(|answer| answer.starts_with("admitted ")).count();
        many += u64::from(admitted > 1);
        none += u64::from(admitted == 0);
        for answer in answers.iter().filter(|answer| !answer.starts_with("admitted ")) {
            assert_eq!(answer, "refused lease_held", "round {round}");
        }
        tell_all(&mut racers, "finish");
        all_answer(&mut racers, "finished");
    }
    let checked = check_log(&world.log(session).await, rounds);
    assert_eq!(checked.is_ok(), many + none == 0, "the racers and the log disagree: {checked:?}");
    Account::new(format!("admission by `{role}`"), processes, rounds)
        .saw(Fault::Duplicated, many)
        .saw(Fault::Lost, none)
        .waited(worst)
}

/// One turn for each of so many continuation numbers, and never two at a time.
pub(crate) fn check_log(log: &[Event], continuations: u64) -> Result<(), String> {
    let mut numbers = BTreeSet::new();
    let mut running = None;
    for event in log {
        match &event.body {
            EventBody::TurnStarted { turn, trigger: TurnTrigger::Goal { continuation, .. }, .. } => {
                if let Some(other) = running.replace(*turn) {
                    return Err(format!("turn {turn} started while turn {other} ran"));
                }
                if !numbers.insert(*continuation) {
                    return Err(format!("continuation {continuation} was used twice"));
                }
            }
            EventBody::TurnEnded { .. } | EventBody::TurnLost { .. } => running = None,
            _ => {}
        }
    }
    if !numbers.iter().copied().eq(1..=continuations) {
        return Err(format!("continuations {numbers:?} instead of 1 to {continuations}"));
    }
    Ok(())
}

/// Processes of one role race to recover the turns of workers that die, one in each round.
pub(crate) async fn recoveries(role: &str, processes: usize, rounds: u64) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    lasting_goal(&world, session).await;
    let mut racers = field(role, processes, &world, session);
    let mut worst = Duration::ZERO;
    for round in 0..rounds {
        resume_if_it_was_lost_too_often(&world, session).await;
        contestant::run("admit-and-die", &world, session);
        let (answers, took) = at_once(&mut racers);
        worst = worst.max(took);
        for answer in answers.iter().filter(|answer| *answer != "recovered") {
            assert_eq!(answer, "nothing runs", "round {round}");
        }
    }
    let lost = losses(&world.log(session).await);
    let twice = lost.values().filter(|times| **times > 1).count() as u64;
    let never = lost.values().filter(|times| **times == 0).count() as u64;
    assert_eq!(lost.len() as u64, rounds);
    Account::new(format!("recovery by `{role}`"), processes, rounds)
        .saw(Fault::Duplicated, twice)
        .saw(Fault::Lost, never)
        .waited(worst)
}

/// A Goal pauses after five lost turns in a row (G7), which is what this contest is made of.
async fn resume_if_it_was_lost_too_often(world: &World<SystemClock>, session: SessionId) {
    let goal = world.view(session).await.goal.unwrap();
    if goal.status == GoalStatus::Paused(PauseReason::RepeatedFailure) {
        world.user.resume_goal(session).await.unwrap();
    }
}

/// How often each turn that was started was declared lost.
fn losses(log: &[Event]) -> BTreeMap<u64, usize> {
    let mut losses = BTreeMap::new();
    for event in log {
        match &event.body {
            EventBody::TurnStarted { turn, .. } => {
                losses.entry(turn.0).or_default();
            }
            EventBody::TurnLost { turn } => *losses.entry(turn.0).or_default() += 1,
            _ => {}
        }
    }
    losses
}

#[tokio::test]
async fn t4_t5_of_two_processes_at_the_barrier_one_gets_the_continuation() {
    admissions("admit", 2, ROUNDS).await.assert_clean();
}

#[tokio::test]
async fn t4_t5_of_twelve_processes_at_the_barrier_one_gets_the_continuation() {
    admissions("admit", 12, ROUNDS).await.assert_clean();
}

#[tokio::test]
async fn the_check_catches_a_racer_that_admits_on_what_it_saw_before() {
    admissions("admit-on-what-it-saw-before", 2, ROUNDS).await.assert_caught();
}

#[tokio::test]
async fn the_check_catches_a_racer_that_admits_without_the_lease() {
    admissions("admit-without-the-lease", 2, ROUNDS).await.assert_caught();
}

#[tokio::test]
async fn t5_t7_of_two_processes_one_declares_the_turn_lost() {
    recoveries("recover", 2, ROUNDS).await.assert_clean();
}

#[tokio::test]
async fn the_check_catches_a_racer_that_recovers_on_what_it_saw_before() {
    recoveries("recover-on-what-it-saw-before", 2, ROUNDS).await.assert_caught();
}
