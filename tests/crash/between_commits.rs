//! Workers killed in the middle of something that takes time: a stream, a command. Nothing is committed meanwhile.

use std::fs;

use domain::{
    Event, EventBody, GoalStatus, PauseReason, SessionId, SessionState, Timestamp, TurnOutcome, TurnTrigger,
};
use policy::{Command, Facts, RuntimeCommand};
use serde_json::json;
use store::{Ask, SystemClock};
use tests::{OpenAiServer, Reply, World, Zuno, is_alive, story, wait_until};

use crate::agent::EFFECTS;
use crate::wreck::Wreck;

/// What the model says before its worker dies.
const HALF: &str = "Half an answer";

/// A session whose worker was killed in its first turn.
struct Killed {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    server: OpenAiServer,
    wreck: Wreck,
}

impl Killed {
    /// A Goal whose first request is answered so, and later ones by completing the Goal. Its worker is killed once this
    /// is there.
    async fn when(what: &str, first: Reply, is_there: impl Fn(&World<SystemClock>, &str) -> bool) -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Survive").await;
        let server = OpenAiServer::start(move |number, request| match number {
            1 => first.clone(),
            _ if request.to_string().contains("\\\"status\\\":\\\"completed\\\"") => Reply::text("Reached."),
            _ => Reply::call("goal_update", &json!({ "status": "completed" })),
        })
        .await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        let mut worker = zuno.start(&["goal", "run", "--session", &session.to_string(), "--once"]);
        worker.runs_until(what, |worker| is_there(&world, &worker.printed())).await;
        worker.kill();
        let wreck = Wreck::examine(&world, session).await;
        Self { world, zuno, session, server, wreck }
    }

    async fn in_mid_stream() -> Self {
        let first = Reply::Begun(HALF.to_owned());
        Self::when("the middle of the stream", first, |_, printed| printed.contains(HALF)).await
    }

    /// Lets another worker do what is due anywhere, and gives its exit code and the log.
    async fn goes_on(&self) -> (Option<i32>, Vec<Event>) {
        let next = self.zuno.run(&["goal", "run", "--all", "--once"]).await;
        self.zuno.assert_sound().await;
        (next.code, self.world.log(self.session).await)
    }

    async fn goal(&self) -> GoalStatus {
        self.world.view(self.session).await.goal.unwrap().status
    }
}

#[tokio::test]
async fn t6_t7_g4_half_a_stream_is_lost_without_a_trace_but_charged() {
    let killed = Killed::in_mid_stream().await;
    assert!(killed.wreck.running.is_some() && killed.wreck.owes);
    let (code, log) = killed.goes_on().await;
    killed.wreck.check(&log);
    assert_eq!((code, killed.goal().await), (Some(0), GoalStatus::Completed), "{}", story(&log));
    let bodies = killed.server.bodies();
    assert!(bodies.len() > 1 && bodies.iter().all(|body| !body.contains(HALF)), "it entered the history");
    assert!(!format!("{log:?}").contains(HALF), "it entered the log");
}

#[tokio::test]
async fn t7_a_command_dies_with_its_worker_and_is_uncertain() {
    let command = format!("echo $$ > pid; echo begun >> {EFFECTS}; sleep 60; echo ended >> {EFFECTS}");
    let first = Reply::call("shell", &json!({ "command": command }));
    let killed = Killed::when("its command", first, |world, _| world.path(EFFECTS).exists()).await;
    let command = killed.world.read("pid").trim().parse().unwrap();
    wait_until("the command is killed", || !is_alive(command)).await;
    let call = killed.wreck.uncertain().unwrap();
    let (code, log) = killed.goes_on().await;
    killed.wreck.check(&log);
    assert_eq!(code, Some(7));
    assert_eq!(killed.goal().await, GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
    assert_eq!(fs::read_to_string(killed.world.path(EFFECTS)).unwrap(), "begun\n");
}

#[tokio::test]
async fn g11_t7_an_interrupt_that_finds_the_worker_dead_ends_its_turn_as_interrupted() {
    let killed = Killed::in_mid_stream().await;
    let turn = killed.wreck.running.unwrap();
    let interrupted = killed.zuno.run(&["interrupt", "--session", &killed.session.to_string()]).await;
    assert_eq!(interrupted.code, Some(0), "{interrupted:?}");
    let (code, log) = killed.goes_on().await;
    assert!(log.starts_with(&killed.wreck.log));
    let ends: Vec<_> = log
        .iter()
        .map(|event| &event.body)
        .filter(|body| matches!(body, EventBody::TurnEnded { .. } | EventBody::TurnLost { .. }))
        .collect();
    assert_eq!(ends, [&EventBody::TurnEnded { turn, outcome: TurnOutcome::Interrupted }], "{}", story(&log));
    assert_eq!(code, Some(7));
    assert_eq!(killed.goal().await, GoalStatus::Paused(PauseReason::Interrupted));
    killed.zuno.run(&["goal", "resume", "--session", &killed.session.to_string()]).await;
    let (code, log) = killed.goes_on().await;
    assert_eq!((code, continuations(&log)), (Some(0), vec![1, 2]), "{}", story(&log));
}

#[tokio::test]
async fn t4_t5_a_dead_owner_is_replaced_at_once_and_the_goal_goes_on_with_the_next_number() {
    let killed = Killed::in_mid_stream().await;
    // The whole of its lease lies ahead, so that nothing but its death can be the reason.
    let expires_at = renew_the_lease(&killed).await;
    let (code, log) = killed.goes_on().await;
    killed.wreck.check(&log);
    assert_eq!((code, continuations(&log)), (Some(0), vec![1, 2]), "{}", story(&log));
    assert_eq!(killed.goal().await, GoalStatus::Completed);
    let lost = log.iter().find(|event| matches!(event.body, EventBody::TurnLost { .. })).unwrap();
    assert!(lost.at < expires_at, "lost at {:?}, and the lease would have ended at {expires_at:?}", lost.at);
}

/// Renews the lease of a dead worker in its name. Says when it ends.
async fn renew_the_lease(killed: &Killed) -> Timestamp {
    let store = &killed.world.store;
    let owner = store.head(killed.session).await.unwrap().unwrap().leases.turn.unwrap().owner;
    let renew = RuntimeCommand::RenewLease { turn: killed.wreck.running.unwrap(), owner: owner.clone() };
    let decide = move |state: &SessionState, facts: &Facts| {
        policy::decide(state, Command::Runtime(&owner.worker, &renew), facts)
    };
    let renewed = store.execute(killed.session, Ask::default(), decide).await.unwrap();
    renewed.leases.turn.unwrap().expires_at
}

/// The continuation numbers in the order of their turns.
fn continuations(log: &[Event]) -> Vec<u64> {
    let of = |event: &Event| match &event.body {
        EventBody::TurnStarted { trigger: TurnTrigger::Goal { continuation, .. }, .. } => Some(*continuation),
        _ => None,
    };
    log.iter().filter_map(of).collect()
}
