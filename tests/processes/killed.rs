//! Processes killed with SIGKILL: workers in the middle of their turns, and clients right after an answer.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use domain::EventBody;
use policy::{IdleReason, NextAction};
use serde_json::{Value, json};
use tests::{OpenAiServer, Reply, Running, World, Zuno, story, wait_until};

use crate::account::{Account, Fault};
use crate::contestant::Contestant;
use crate::race::{check_log, lasting_goal};

/// Kills in an ordinary run.
const KILLS: u64 = 5;

/// The answers towards a Goal whose every second turn is killed in the middle: those between bring it forward, or it
/// would be paused after five lost turns (G7).
fn answer(number: u64, kills: u64, request: &Value) -> Reply {
    if request.to_string().contains(r#"\"status\":\"completed\""#) {
        return Reply::text("Reached.");
    }
    match number % 3 {
        _ if number > 3 * kills => Reply::call("goal_update", &json!({ "status": "completed" })),
        1 => {
            let path = format!("step-{number}.txt");
            Reply::call("write_file", &json!({ "path": path, "content": "done\n" }))
        }
        2 => Reply::text("One step further."),
        _ => Reply::Begun("Half an answer".to_owned()),
    }
}

/// Workers wait for one session. Whichever runs a turn is killed in the middle of it, and a new one takes its place.
pub(crate) async fn workers(processes: usize, kills: u64) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    lasting_goal(&world, session).await;
    let server =
        OpenAiServer::start(move |number, request| answer(u64::try_from(number).unwrap(), kills, request));
    let server = server.await;
    let zuno = Zuno::of(&world).with_model_at(&server.base_url);
    let id = session.to_string();
    let start = || zuno.start(&["goal", "run", "--session", &id]);
    let mut workers: VecDeque<Running> = (0..processes).map(|_| start()).collect();
    let asked = || u64::try_from(server.bodies().len()).unwrap();
    let mut worst = Duration::ZERO;
    for kill in 1..=kills {
        wait_until("the model is asked", || asked() == 3 * kill).await;
        let owner = world.store.head(session).await.unwrap().unwrap().leases.turn.unwrap().owner;
        let at = workers.iter().position(|worker| worker.pid() == owner.pid).unwrap();
        workers.remove(at).unwrap().kill();
        let killed = Instant::now();
        workers.push_back(start());
        wait_until("another worker goes on", || asked() > 3 * kill).await;
        worst = worst.max(killed.elapsed());
    }
    let mut watch = world.store.watch();
    while world.view(session).await.next != (NextAction::Idle { why: IdleReason::GoalCompleted }) {
        watch.changed().await;
    }
    let log = world.log(session).await;
    let told = story(&log);
    // Two turns for each kill and the last one.
    assert_eq!(check_log(&log, 2 * kills + 1), Ok(()), "\n{told}");
    let lost = log.iter().filter(|event| matches!(event.body, EventBody::TurnLost { .. })).count() as u64;
    zuno.assert_sound().await;
    Account::new("a worker killed in its turn", processes, kills)
        .saw(Fault::Duplicated, lost.saturating_sub(kills) + asked().saturating_sub(3 * kills + 2))
        .saw(Fault::Lost, kills.saturating_sub(lost))
        .waited(worst)
}

/// Clients that are killed as soon as they say that an input is accepted, one in each round.
pub(crate) async fn clients(role: &str, rounds: u64) -> Account {
    let world = World::in_real_time().await;
    let mut lost = 0;
    // A session takes a hundred inputs that nobody runs.
    for first in (0..rounds).step_by(100) {
        let session = world.session().await;
        let texts = first..rounds.min(first + 100);
        for round in texts.clone() {
            let mut client = Contestant::start(role, &world, session);
            client.answers("ready");
            client.tell(&round.to_string());
            client.answer();
            drop(client);
        }
        let log = world.log(session).await;
        let there: BTreeSet<_> = log
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::InputQueued { text, .. } => Some(text.as_str().to_owned()),
                _ => None,
            })
            .collect();
        lost += texts.filter(|round| !there.contains(&round.to_string())).count() as u64;
    }
    Account::new(format!("a client by `{role}` killed at its answer"), 1, rounds).saw(Fault::Lost, lost)
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_t5_t7_of_the_workers_that_wait_one_takes_over_from_each_that_is_killed() {
    workers(3, KILLS).await.assert_clean();
}

#[tokio::test]
async fn e3_i1_what_a_client_said_to_be_accepted_outlives_it() {
    clients("write", 4 * KILLS).await.assert_clean();
}

#[tokio::test]
async fn the_check_catches_a_client_that_says_so_before_it_writes() {
    clients("say-before-it-writes", 4 * KILLS).await.assert_caught();
}
