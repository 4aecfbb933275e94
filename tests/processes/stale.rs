//! Owners that sleep past their lease: too late if another one took over meanwhile, and else in time.

use domain::{EventBody, SessionId};
use serde_json::json;
use store::SystemClock;
use tests::{OpenAiServer, Reply, World, Zuno, go_on, pause, story};

use crate::account::{Account, Fault};
use crate::contestant::Contestant;
use crate::sleeper::{Amid, Sleeper, lost};

/// What a worker that is taken over can be in the middle of.
const TAKEN_OVER: [Amid; 4] = [Amid::Stream, Amid::Command, Amid::EndingCommand, Amid::Background];
/// What a worker that goes on can be in the middle of.
const GOING_ON: [Amid; 2] = [Amid::Answer, Amid::EndingCommand];
/// A command that takes longer than a lease lasts.
const LONG: &str = "sleep 20; echo awake >> slept";

/// Workers that sleep past their lease all at the same time, so many of each kind, while others take over.
pub(crate) async fn taken_over(of_each: usize) -> Account {
    let mut sleepers = asleep(&TAKEN_OVER, of_each).await;
    let mut ghosts = 0;
    for sleeper in &mut sleepers {
        sleeper.sleeps_past_its_lease().await;
        sleeper.is_taken_over().await;
        let written = sleeper.wakes_up_too_late().await;
        ghosts += u64::from(written > 0);
    }
    let rounds = sleepers.len() as u64;
    Account::new("a worker that wakes up after it was replaced", 2 * sleepers.len(), rounds)
        .saw(Fault::Ghost, ghosts)
}

/// The same while nobody takes over.
pub(crate) async fn going_on(of_each: usize) -> Account {
    let mut sleepers = asleep(&GOING_ON, of_each).await;
    let mut stranded = 0;
    for sleeper in &mut sleepers {
        sleeper.sleeps_past_its_lease().await;
        stranded += u64::from(!sleeper.wakes_up_in_time().await);
    }
    let rounds = sleepers.len() as u64;
    Account::new("a worker that wakes up before anybody replaced it", sleepers.len(), rounds)
        .saw(Fault::Lost, stranded)
}

async fn asleep(kinds: &[Amid], of_each: usize) -> Vec<Sleeper> {
    let mut sleepers = Vec::new();
    for _ in 0..of_each {
        for amid in kinds {
            let mut sleeper = Sleeper::start(*amid).await;
            sleeper.falls_asleep().await;
            sleepers.push(sleeper);
        }
    }
    sleepers
}

/// Loops of somebody else's, each asleep at the beginning of a turn of its own session while another process recovers it.
/// Awake again they go on with the turn.
pub(crate) async fn embedders(role: &str, processes: usize) -> Account {
    let world = World::in_real_time().await;
    let mut sleepers = Vec::new();
    for _ in 0..processes {
        let session = world.session().await;
        world.goal(session, "Outlast the night").await;
        let mut process = Contestant::start(role, &world, session);
        process.answers("ready");
        process.tell("go");
        process.answers("admitted 1 1");
        pause(process.pid()).await;
        sleepers.push((session, process));
    }
    let mut ghosts = 0;
    for (session, process) in &mut sleepers {
        lease_ends(&world, *session).await;
        let mut other = Contestant::start("recover", &world, *session);
        other.answers("ready");
        other.tell("go");
        other.answers("recovered");
        let log = world.log(*session).await;
        assert_eq!(lost(&log), 1);
        go_on(process.pid());
        process.tell("finish");
        let is_refused = process.answer() == "refused stale_epoch";
        let is_unchanged = world.log(*session).await == log;
        assert_eq!(is_refused, is_unchanged);
        ghosts += u64::from(!is_unchanged);
    }
    Account::new(
        format!("a turn by `{role}` that goes on after it was lost"),
        2 * processes,
        processes as u64,
    )
    .saw(Fault::Ghost, ghosts)
}

async fn lease_ends(world: &World<SystemClock>, session: SessionId) {
    let head = world.store.head(session).await.unwrap().unwrap();
    world.sessions.sleep_until(head.leases.turn.unwrap().expires_at.plus_ms(1)).await;
}

/// A worker at a command that takes longer than its lease, while others wait for the lease to end.
pub(crate) async fn awake(rivals: usize) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.goal(session, "Stay awake").await;
    let server = OpenAiServer::start(|number, request| match number {
        1 => Reply::call("shell", &json!({ "command": LONG })),
        _ if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
        _ => Reply::call("goal_update", &json!({ "status": "completed" })),
    })
    .await;
    let zuno = Zuno::of(&world).with_model_at(&server.base_url);
    let id = session.to_string();
    let mut worker = zuno.start(&["goal", "run", "--session", &id, "--once"]);
    worker.runs_until("its command", |worker| worker.printed().contains("sleep 20")).await;
    let rivals: Vec<_> = (0..rivals).map(|_| zuno.start(&["goal", "run", "--session", &id])).collect();
    assert_eq!(worker.ends().await.code(), Some(0), "{}", worker.printed());
    let log = world.log(session).await;
    let turns = log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count();
    assert_eq!((turns, lost(&log)), (1, 0), "\n{}", story(&log));
    let awoke = world.read("slept").lines().count() as u64;
    Account::new("a command longer than the lease, beside workers that wait", rivals.len() + 1, 1)
        .saw(Fault::Duplicated, awoke - 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn t5_t6_t7_an_owner_that_slept_past_its_lease_is_fenced_if_replaced_and_else_goes_on() {
    let (taken_over, going_on, embedders, control, awake) = tokio::join!(
        taken_over(1),
        going_on(1),
        embedders("admit", 1),
        embedders("admit-and-never-look-again", 1),
        awake(2),
    );
    taken_over.assert_clean();
    going_on.assert_clean();
    embedders.assert_clean();
    control.assert_caught();
    awake.assert_clean();
}
