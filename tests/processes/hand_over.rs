//! Workers that are asked with SIGTERM to end in order, and those that go on where they left off.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use domain::{CallOutcome, Event, EventBody, GoalStatus, StopReason, TurnOutcome};
use serde_json::json;
use tests::{OpenAiServer, Reply, Running, World, Zuno, story, terminate, wait_until};

use crate::account::{Account, Fault};
use crate::race::{check_log, lasting_goal};

/// Hand-overs in an ordinary run.
const ROUNDS: u64 = 3;

/// Workers wait for one session; whichever runs a turn is asked to end in the middle of it, and a new one takes its place.
pub(crate) async fn hand_overs(processes: usize, rounds: u64) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    lasting_goal(&world, session).await;
    let server = OpenAiServer::start(move |number, request| match u64::try_from(number).unwrap() {
        number if number <= rounds => Reply::Begun("Half an answer".to_owned()),
        _ if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
        _ => Reply::call("goal_update", &json!({ "status": "completed" })),
    })
    .await;
    let zuno = Zuno::of(&world).with_model_at(&server.base_url);
    let id = session.to_string();
    let start = || zuno.start(&["goal", "run", "--session", &id]);
    let mut workers: VecDeque<Running> = (0..processes).map(|_| start()).collect();
    let asked = || u64::try_from(server.bodies().len()).unwrap();
    let (mut worst, mut late) = (Duration::ZERO, 0);
    for round in 1..=rounds {
        wait_until("the model is asked", || asked() == round).await;
        let lease = world.store.head(session).await.unwrap().unwrap().leases.turn.unwrap();
        let at = workers.iter().position(|worker| worker.pid() == lease.owner.pid).unwrap();
        let mut leaver = workers.remove(at).unwrap();
        let told = Instant::now();
        terminate(leaver.pid());
        wait_until("another worker goes on", || asked() > round).await;
        worst = worst.max(told.elapsed());
        late += u64::from(world.clock_now() >= lease.expires_at);
        // What it leaves behind is a Goal that is not finished.
        assert_eq!(leaver.ends().await.code(), Some(7), "{}", leaver.printed());
        workers.push_back(start());
    }
    wait_until("the Goal is reached", || asked() == rounds + 2).await;
    let mut watch = world.store.watch();
    while world.view(session).await.goal.unwrap().status != GoalStatus::Completed {
        watch.changed().await;
    }
    let log = world.log(session).await;
    assert_eq!(check_log(&log, rounds + 1), Ok(()), "\n{}", story(&log));
    let stopped = ends(&log).filter(|end| **end == TurnOutcome::Stopped { reason: StopReason::Shutdown });
    assert_eq!(stopped.count() as u64, rounds, "\n{}", story(&log));
    zuno.assert_sound().await;
    Account::new("a worker asked to end in its turn", processes, rounds)
        .saw(Fault::Duplicated, asked().saturating_sub(rounds + 2))
        .saw(Fault::Lost, late)
        .waited(worst)
}

fn ends(log: &[Event]) -> impl Iterator<Item = &TurnOutcome> {
    log.iter().filter_map(|event| match &event.body {
        EventBody::TurnEnded { outcome, .. } => Some(outcome),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn t5_t6_a_worker_that_is_asked_to_end_hands_its_goal_over_at_once() {
    hand_overs(3, ROUNDS).await.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn t6_g10_the_commands_of_a_worker_that_is_asked_to_end_are_stopped_and_not_uncertain() {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.goal(session, "Build and test").await;
    let server = OpenAiServer::start(|number, request| match number {
        1 => Reply::call(
            "shell",
            &json!({ "command": "echo built > built; exec sleep 60", "background": true }),
        ),
        2 => Reply::call("shell", &json!({ "command": "echo tested > tested; exec sleep 60" })),
        _ if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
        _ => Reply::call("goal_update", &json!({ "status": "completed" })),
    })
    .await;
    let zuno = Zuno::of(&world).with_model_at(&server.base_url);
    let id = session.to_string();
    let mut leaver = zuno.start(&["goal", "run", "--session", &id, "--once"]);
    let is_there = |file: &str| world.path(file).exists();
    leaver.runs_until("both commands", |_| is_there("built") && is_there("tested")).await;
    terminate(leaver.pid());
    assert_eq!(leaver.ends().await.code(), Some(7), "{}", leaver.printed());
    let log = world.log(session).await;
    let told = story(&log);
    let outcomes: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::CallFinished { outcome, .. } | EventBody::CommandEnded { outcome, .. } => {
                Some(*outcome)
            }
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [CallOutcome::Succeeded, CallOutcome::Stopped, CallOutcome::Stopped], "\n{told}");
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Active, "\n{told}");
    let leases = world.store.head(session).await.unwrap().unwrap().leases;
    assert!(leases.is_empty(), "nothing is left to wait for: {leases:?}");

    let next = zuno.run(&["goal", "run", "--session", &id, "--once"]).await;
    assert_eq!(next.code, Some(0), "{next:?}");
    assert!(server.bodies()[2].contains("Background command 1 ended: stopped"), "its end is reported");
    zuno.assert_sound().await;
}
