//! Background commands whose worker dies, and those whose worker lives.

use domain::{CallOutcome, EventBody, GoalStatus, PauseReason, SessionId, SessionState};
use policy::{Awaited, Command, Facts, NextAction, RuntimeCommand};
use serde_json::json;
use store::{Ask, SystemClock};
use tests::{OpenAiServer, Reply, Running, World, Zuno, is_alive, story, wait_until};

/// A command that ends when it is told to.
const COMMAND: &str = "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo built >> built";

/// A worker that waits for a background command of its Goal.
struct Waiting {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    worker: Running,
    server: OpenAiServer,
}

impl Waiting {
    async fn start() -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Build it").await;
        let server = OpenAiServer::start(|number, request| match number {
            1 => Reply::call("shell", &json!({ "command": COMMAND, "background": true })),
            2 => Reply::text("It builds."),
            _ if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
            _ => Reply::call("goal_update", &json!({ "status": "completed" })),
        })
        .await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        let mut worker = zuno.start(&["goal", "run", "--session", &session.to_string(), "--once"]);
        let is_there = || world.path("pid").exists();
        worker
            .runs_until("its command", |worker| worker.printed().contains("It builds.") && is_there())
            .await;
        let mut watch = world.store.watch();
        while !matches!(
            world.view(session).await.next,
            NextAction::WaitFor { what: Awaited::Commands { .. } }
        ) {
            watch.changed().await;
        }
        Self { world, zuno, session, worker, server }
    }

    /// Another worker does what is due anywhere; its exit code.
    async fn another_worker(&self) -> Option<i32> {
        let code = self.zuno.run(&["goal", "run", "--all", "--once"]).await.code;
        self.zuno.assert_sound().await;
        code
    }

    async fn goal(&self) -> GoalStatus {
        self.world.view(self.session).await.goal.unwrap().status
    }

    fn command(&self) -> u32 {
        self.world.read("pid").trim().parse().unwrap()
    }

    /// Renews the command's lease in the name of its dead worker, so that nothing but the death can be a reason.
    async fn renew_the_lease(&self) -> domain::Timestamp {
        let store = &self.world.store;
        let leases = store.head(self.session).await.unwrap().unwrap().leases;
        let (command, lease) = leases.commands.into_iter().next().unwrap();
        let renew = RuntimeCommand::RenewCommand { command, owner: lease.owner.clone() };
        let decide = move |state: &SessionState, facts: &Facts| {
            policy::decide(state, Command::Runtime(&lease.owner.worker, &renew), facts)
        };
        let renewed = store.execute(self.session, Ask::default(), decide).await.unwrap();
        renewed.leases.commands[&command].expires_at
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t7_g10_a_background_command_whose_worker_is_killed_is_uncertain_at_once_and_its_goal_waits() {
    let mut waiting = Waiting::start().await;
    waiting.worker.kill();
    let command = waiting.command();
    wait_until("the command is killed with its worker", || !is_alive(command)).await;
    let expires_at = waiting.renew_the_lease().await;
    assert_eq!(waiting.another_worker().await, Some(7));
    let log = waiting.world.log(waiting.session).await;
    let told = story(&log);
    let ended: Vec<_> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::CommandEnded { outcome, .. } => Some((*outcome, event.at)),
            _ => None,
        })
        .collect();
    let [(CallOutcome::Uncertain, at)] = ended[..] else { panic!("{ended:?}\n{told}") };
    assert!(at < expires_at, "ended at {at:?}, and the lease would have at {expires_at:?}");
    let pause = waiting.goal().await;
    assert!(
        matches!(pause, GoalStatus::Paused(PauseReason::UncertainSideEffect { .. })),
        "{pause:?}\n{told}"
    );
    assert_eq!(waiting.server.bodies().len(), 2, "nothing goes on before the user says so\n{told}");

    // The user's resume takes the risk; the agent reads the report and nothing runs twice.
    let resumed = waiting.zuno.run(&["goal", "resume", "--session", &waiting.session.to_string()]).await;
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(waiting.another_worker().await, Some(0));
    assert_eq!(waiting.goal().await, GoalStatus::Completed);
    assert!(waiting.server.bodies()[2].contains("cut off when its worker died"));
    assert!(!waiting.world.path("built").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_t5_a_goal_that_waits_for_a_command_of_a_living_worker_is_left_alone_by_others() {
    let mut waiting = Waiting::start().await;
    let log = waiting.world.log(waiting.session).await;
    assert_eq!(waiting.another_worker().await, Some(7));
    assert_eq!(waiting.world.log(waiting.session).await, log);
    assert!(is_alive(waiting.command()));
    std::fs::write(waiting.world.path("go"), "").unwrap();
    assert_eq!(waiting.worker.ends().await.code(), Some(0), "{}", waiting.worker.printed());
    assert_eq!(waiting.goal().await, GoalStatus::Completed);
    assert_eq!((waiting.world.read("built").as_str(), waiting.server.bodies().len()), ("built\n", 4));
}
