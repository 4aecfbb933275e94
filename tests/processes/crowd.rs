//! Real workers that wait for the same session: whatever is due there is done once, and what is not due never.

use std::time::{Duration, Instant};

use domain::{Event, EventBody, SessionId};
use policy::{IdleReason, NextAction};
use store::SystemClock;
use tests::{OpenAiServer, Reply, Running, World, Zuno, revised, terminate, wait_until};

use crate::account::{Account, Fault};
use crate::contestant::Contestant;

/// Prompts in an ordinary run.
const PROMPTS: u64 = 10;
/// Turns after which a nag is believed to go on for ever.
const NAGGED: usize = 3;

/// Workers at a session whose plan is not finished. Their model counts what it is asked.
struct Crowd {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    server: OpenAiServer,
    workers: Vec<Running>,
}

impl Crowd {
    async fn gather(processes: usize) -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.plan(session, "inspect:completed implement:in_progress verify").await;
        let server = OpenAiServer::start(|_, _| Reply::text("Done.")).await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        let id = session.to_string();
        let workers = (0..processes).map(|_| zuno.start(&["goal", "run", "--session", &id])).collect();
        let mut crowd = Self { world, zuno, session, server, workers };
        for worker in &mut crowd.workers {
            worker.runs_until("its wait", |worker| worker.printed().contains("until Ctrl-C")).await;
        }
        crowd
    }

    async fn rests(&self) {
        let mut watch = self.world.store.watch();
        while self.world.view(self.session).await.next != (NextAction::Idle { why: IdleReason::NothingToDo })
        {
            watch.changed().await;
        }
    }

    async fn log(&self) -> Vec<Event> {
        self.world.log(self.session).await
    }
}

fn turns(log: &[Event]) -> u64 {
    log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count() as u64
}

/// Workers wait for prompts, one in each round. The prompt's commit is the barrier: it wakes them all.
pub(crate) async fn prompts(processes: usize, rounds: u64) -> Account {
    let crowd = Crowd::gather(processes).await;
    let mut worst = Duration::ZERO;
    for round in 1..=rounds {
        crowd.world.say(crowd.session, &format!("prompt {round}")).await;
        let said = Instant::now();
        crowd.rests().await;
        worst = worst.max(said.elapsed());
    }
    let log = crowd.log().await;
    let consumed = log.iter().filter(|event| matches!(event.body, EventBody::InputConsumed { .. }));
    let consumed = consumed.count() as u64;
    let asked = u64::try_from(crowd.server.bodies().len()).unwrap();
    crowd.zuno.assert_sound().await;
    let more = |count: u64| count.saturating_sub(rounds);
    Account::new("a prompt for workers that wait", processes, rounds)
        .saw(Fault::Duplicated, more(asked).max(more(consumed)))
        .saw(Fault::Lost, rounds.saturating_sub(consumed.min(asked)))
        .saw(Fault::PlanCaused, more(turns(&log)))
        .waited(worst)
}

/// Workers watch a session with an unfinished plan that a person goes on editing: each revision wakes them all, and none
/// is a reason to do anything.
pub(crate) async fn revisions(processes: usize, rounds: u64) -> Account {
    let mut crowd = Crowd::gather(processes).await;
    let steps = "inspect:completed implement:in_progress verify";
    for revision in 1..=rounds {
        let next = revised(revision, steps);
        crowd.world.user.update_plan(crowd.session, &next, None).await.unwrap();
        assert_eq!(
            crowd.world.sessions.next(crowd.session).await.unwrap(),
            NextAction::Idle { why: IdleReason::NothingToDo }
        );
    }
    // A worker ends what it began before it ends itself.
    for worker in &mut crowd.workers {
        terminate(worker.pid());
        worker.ends().await;
    }
    let asked = u64::try_from(crowd.server.bodies().len()).unwrap();
    let turns = turns(&crowd.log().await).max(asked);
    Account::new("revisions of an unfinished plan, seen by workers", processes, rounds)
        .saw(Fault::PlanCaused, turns)
}

/// The control: a client that wakes the session because its plan has open steps.
pub(crate) async fn nagged(processes: usize) -> Account {
    let crowd = Crowd::gather(processes).await;
    let mut nag = Contestant::start("nag", &crowd.world, crowd.session);
    nag.answers("ready");
    let server = &crowd.server;
    wait_until("it goes on and on", || server.bodies().len() >= NAGGED).await;
    drop(nag);
    let turns = turns(&crowd.log().await);
    Account::new("a client that nags about open steps", processes, turns).saw(Fault::PlanCaused, turns)
}

#[tokio::test(flavor = "multi_thread")]
async fn t1_t4_i2_p19_a_prompt_that_twelve_workers_see_is_run_by_one_and_an_unfinished_plan_by_none() {
    prompts(12, PROMPTS).await.assert_clean();
    revisions(12, PROMPTS).await.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_catches_a_client_that_nags_about_open_steps() {
    nagged(2).await.assert_caught();
}
