//! Workers that sleep past their lease while another one takes over, and wake up.

use std::fs;

use domain::{CallOutcome, Event, EventBody, GoalStatus, PauseReason, SessionId};
use serde_json::json;
use store::SystemClock;
use tests::{OpenAiServer, Reply, Running, World, Zuno, go_on, is_alive, pause, story, wait_until};
use tokio::time::{Duration, sleep};

use crate::contestant::Contestant;

/// A command that never ends by itself.
const TICKS: &str = "echo $$ > pid; while :; do echo tick >> ticks; sleep 0.05; done";
/// A command that ends when it is told to.
const WAITS: &str = "echo here > waits; until [ -e go ]; do sleep 0.05; done; echo gone > waits";

/// A worker at a turn of its own session.
struct Sleeper {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    worker: Running,
    server: OpenAiServer,
}

impl Sleeper {
    /// Starts a worker on a Goal whose first request is answered so, and later ones by completing the Goal.
    async fn start(first: Reply) -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Outlast the night").await;
        let server = OpenAiServer::start(move |number, request| match number {
            1 => first.clone(),
            _ if request.to_string().contains("\\\"status\\\":\\\"completed\\\"") => Reply::text("Reached."),
            _ => Reply::call("goal_update", &json!({ "status": "completed" })),
        })
        .await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        let worker = zuno.start(&["goal", "run", "--session", &session.to_string(), "--once"]);
        Self { world, zuno, session, worker, server }
    }

    /// Stops the worker when its turn is under way.
    async fn falls_asleep_at(&mut self, what: &str, is_there: impl Fn(&World<SystemClock>) -> bool) {
        let world = &self.world;
        self.worker.runs_until(what, |_| is_there(world)).await;
        pause(self.worker.pid()).await;
    }

    /// Lets another worker do what is due. Gives its exit code and the log.
    async fn is_taken_over(&self) -> (Option<i32>, Vec<Event>) {
        let taken = self.zuno.run(&["goal", "run", "--session", &self.session.to_string(), "--once"]).await;
        (taken.code, self.world.log(self.session).await)
    }

    async fn goal(&self) -> GoalStatus {
        self.world.view(self.session).await.goal.unwrap().status
    }

    /// Wakes up and must find that the turn is not its own any more.
    async fn wakes_up_and_records_nothing(&mut self, log: &[Event]) {
        go_on(self.worker.pid());
        self.worker.ends().await;
        let after = self.world.log(self.session).await;
        assert_eq!(after, log, "\n{}\n{}", story(&after), self.worker.printed());
        self.zuno.assert_sound().await;
    }
}

/// A loop of somebody else's, at the beginning of a turn of its own session.
struct Embedder {
    world: World<SystemClock>,
    session: SessionId,
    process: Contestant,
}

impl Embedder {
    async fn falls_asleep_in_its_turn() -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Outlast the night").await;
        let mut process = Contestant::start("admit", &world, session);
        process.answers("ready");
        process.tell("go");
        process.answers("admitted 1 1");
        pause(process.pid()).await;
        Self { world, session, process }
    }

    /// Another worker recovers the turn; then this one goes on with it.
    async fn wakes_up_and_is_refused(&mut self) {
        let mut other = Contestant::start("recover", &self.world, self.session);
        other.answers("ready");
        other.tell("go");
        other.answers("recovered");
        let log = self.world.log(self.session).await;
        assert_eq!(lost(&log), 1);
        go_on(self.process.pid());
        self.process.tell("finish");
        self.process.answers("refused stale_epoch");
        assert_eq!(self.world.log(self.session).await, log);
    }
}

/// What became of the one turn with a call.
#[track_caller]
fn assert_lost_with_an_uncertain_call(log: &[Event]) {
    let outcomes: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::CallFinished { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [CallOutcome::Uncertain], "\n{}", story(log));
    assert_eq!(lost(log), 1, "\n{}", story(log));
}

async fn lease_ends(world: &World<SystemClock>, session: SessionId) {
    let head = world.store.head(session).await.unwrap().unwrap();
    world.sessions.sleep_until(head.leases.turn.unwrap().expires_at.plus_ms(1)).await;
}

fn lost(log: &[Event]) -> usize {
    log.iter().filter(|event| matches!(event.body, EventBody::TurnLost { .. })).count()
}

fn shell(command: &str) -> Reply {
    Reply::call("shell", &json!({ "command": command }))
}

#[tokio::test]
async fn t5_a_worker_that_slept_past_its_lease_records_nothing_more_and_its_command_is_killed() {
    let mut ticking = Sleeper::start(shell(TICKS)).await;
    let mut waiting = Sleeper::start(shell(WAITS)).await;
    let mut asking = Sleeper::start(Reply::Begun("Half an answer".to_owned())).await;
    ticking.falls_asleep_at("its first tick", |world| world.path("ticks").exists()).await;
    waiting.falls_asleep_at("its wait", |world| world.path("waits").exists()).await;
    let server = &asking.server;
    asking.worker.runs_until("its first request", |_| server.bodies().len() == 1).await;
    pause(asking.worker.pid()).await;
    let mut embedder = Embedder::falls_asleep_in_its_turn().await;
    println!("three workers and an embedder sleep, until their leases have ended");
    for (world, session) in [
        (&ticking.world, ticking.session),
        (&waiting.world, waiting.session),
        (&asking.world, asking.session),
        (&embedder.world, embedder.session),
    ] {
        lease_ends(world, session).await;
    }
    embedder.wakes_up_and_is_refused().await;
    println!("an embedder's next step is refused");

    let (code, ticking_log) = ticking.is_taken_over().await;
    assert_eq!(code, Some(7));
    assert_lost_with_an_uncertain_call(&ticking_log);
    assert!(matches!(ticking.goal().await, GoalStatus::Paused(PauseReason::UncertainSideEffect { .. })));
    let (_, waiting_log) = waiting.is_taken_over().await;
    assert_lost_with_an_uncertain_call(&waiting_log);
    let (code, asking_log) = asking.is_taken_over().await;
    assert_eq!(code, Some(0), "{}", story(&asking_log));
    assert_eq!(lost(&asking_log), 1);
    assert_eq!(asking.goal().await, GoalStatus::Completed);

    // This one has a result to record when it wakes up.
    fs::write(waiting.world.path("go"), "").unwrap();
    wait_until("the command ends", || waiting.world.read("waits") == "gone\n").await;
    waiting.wakes_up_and_records_nothing(&waiting_log).await;
    println!("a worker whose command had ended meanwhile records no result");

    asking.wakes_up_and_records_nothing(&asking_log).await;
    println!("a worker in the middle of a stream drops it");

    let command = ticking.world.read("pid").trim().parse().unwrap();
    assert!(is_alive(command), "nobody could stop the command while its worker slept");
    ticking.wakes_up_and_records_nothing(&ticking_log).await;
    wait_until("the command is killed", || !is_alive(command)).await;
    let ticks = ticking.world.read("ticks");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(ticking.world.read("ticks"), ticks, "something still ticks");
    println!("a worker whose command still ran kills it");
}
