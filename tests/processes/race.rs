//! Two processes want the same thing at the same moment, again and again, and one of them gets it.

use std::collections::BTreeSet;

use domain::{Event, EventBody, TurnTrigger};
use policy::{IdleReason, NextAction};
use serde_json::json;
use tests::{OpenAiServer, Reply, World, Zuno, story, wait_until};

use crate::contestant::{self, Contestant, all_answer, tell_all};

/// How often they race.
const ROUNDS: u64 = 50;

/// A Goal with its turns: what a race left in the log, and what the racers said.
struct Race {
    log: Vec<Event>,
    /// How many racers were admitted in each round.
    admitted: Vec<usize>,
}

/// Two processes of one role race for a Goal: in each round both look, both are let go at once, then both finish.
async fn race(role: &str) -> Race {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.goal(session, "Win the race").await;
    let mut racers = [Contestant::start(role, &world, session), Contestant::start(role, &world, session)];
    all_answer(&mut racers, "ready");
    let mut admitted = Vec::new();
    for round in 0..ROUNDS {
        tell_all(&mut racers, "look");
        all_answer(&mut racers, "looked");
        // The barrier: both wait for this word. Who hears it first changes from round to round.
        tell_all(&mut racers, "go");
        let answers = racers.each_mut().map(Contestant::answer);
        admitted.push(answers.iter().filter(|answer| answer.starts_with("admitted ")).count());
        for answer in answers.iter().filter(|answer| !answer.starts_with("admitted ")) {
            assert_eq!(answer, "refused lease_held", "round {round}");
        }
        tell_all(&mut racers, "finish");
        all_answer(&mut racers, "finished");
        racers.reverse();
    }
    Race { log: world.log(session).await, admitted }
}

/// One turn per continuation number, never two at a time, and one winner in each round.
fn check(race: &Race) -> Result<(), String> {
    check_log(&race.log, ROUNDS)?;
    match race.admitted.iter().position(|count| *count != 1) {
        Some(round) => Err(format!("round {round} admitted {} racers", race.admitted[round])),
        None => Ok(()),
    }
}

/// One turn for each of so many continuation numbers, and never two at a time.
fn check_log(log: &[Event], continuations: u64) -> Result<(), String> {
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

#[tokio::test]
async fn t4_t5_of_two_processes_at_the_barrier_one_gets_the_continuation() {
    let race = race("admit").await;
    assert_eq!(check(&race), Ok(()));
    println!("{ROUNDS} rounds, one turn each");
}

#[tokio::test]
async fn the_check_catches_a_racer_that_admits_on_what_it_saw_before() {
    let race = race("admit-on-what-it-saw-before").await;
    let caught = check(&race).unwrap_err();
    println!("caught: {caught}; both admitted in {} of {ROUNDS} rounds", both(&race));
}

#[tokio::test]
async fn the_check_catches_a_racer_that_admits_without_the_lease() {
    let race = race("admit-without-the-lease").await;
    let caught = check(&race).unwrap_err();
    println!("caught: {caught}; both admitted in {} of {ROUNDS} rounds", both(&race));
}

fn both(race: &Race) -> usize {
    race.admitted.iter().filter(|count| **count == 2).count()
}

#[tokio::test]
async fn t5_t7_of_two_processes_one_declares_the_turn_lost() {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.goal(session, "Survive").await;
    let start = || Contestant::start("recover", &world, session);
    let mut racers = [start(), start()];
    all_answer(&mut racers, "ready");
    for round in 0..ROUNDS {
        contestant::run("admit-and-die", &world, session);
        tell_all(&mut racers, "go");
        let mut answers = racers.each_mut().map(Contestant::answer);
        answers.sort();
        assert_eq!(answers, ["nothing runs", "recovered"], "round {round}");
        racers.reverse();
    }
    assert_each_lost_once(&world.log(session).await);
    println!("{ROUNDS} turns lost, each once");
}

/// Each turn started, was declared lost right after, and the Goal used the next number for the next.
#[track_caller]
fn assert_each_lost_once(log: &[Event]) {
    let turns: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnStarted { turn, trigger: TurnTrigger::Goal { continuation, .. }, .. } => {
                Some(format!("{turn} started as {continuation}"))
            }
            EventBody::TurnLost { turn } => Some(format!("{turn} lost")),
            EventBody::TurnEnded { turn, .. } => Some(format!("{turn} ended")),
            _ => None,
        })
        .collect();
    let expected: Vec<_> =
        (1..=ROUNDS).flat_map(|n| [format!("{n} started as {n}"), format!("{n} lost")]).collect();
    assert_eq!(turns, expected);
}

/// Workers that are killed in the middle of a turn, one after the other.
const KILLED: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn t4_t5_t7_of_the_workers_that_wait_one_takes_over_from_each_that_is_killed() {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.goal(session, "Outlive them all").await;
    let server = OpenAiServer::start(|number, request| match number {
        ..=KILLED => Reply::Begun("Half an answer".to_owned()),
        _ if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
        _ => Reply::call("goal_update", &json!({ "status": "completed" })),
    })
    .await;
    let zuno = Zuno::of(&world).with_model_at(&server.base_url);
    let id = session.to_string();
    let mut workers: Vec<_> = (0..=KILLED).map(|_| zuno.start(&["goal", "run", "--session", &id])).collect();
    for turn in 1..=KILLED {
        wait_until("the model is asked", || server.bodies().len() == turn).await;
        let owner = world.store.head(session).await.unwrap().unwrap().leases.turn.unwrap().owner;
        let at = workers.iter().position(|worker| worker.pid() == owner.pid).unwrap();
        workers.remove(at).kill();
    }
    let mut watch = world.store.watch();
    while world.view(session).await.next != (NextAction::Idle { why: IdleReason::GoalCompleted }) {
        watch.changed().await;
    }
    let log = world.log(session).await;
    let told = story(&log);
    assert_eq!(check_log(&log, KILLED as u64 + 1), Ok(()), "\n{told}");
    let lost = log.iter().filter(|event| matches!(event.body, EventBody::TurnLost { .. })).count();
    assert_eq!((lost, server.bodies().len()), (KILLED, KILLED + 2), "\n{told}");
    zuno.assert_sound().await;
    println!("{KILLED} workers killed, the last of {} reached the Goal", KILLED + 1);
}
