//! A store that another process keeps busy: typed as `store_busy`, and over as soon as the store is free.

use domain::{EventBody, FailureKind, GoalStatus, SessionId, TurnOutcome};
use serde_json::json;
use store::SystemClock;
use tests::{CrashPoint, Gate, OpenAiServer, Reply, World, Zuno};
use tokio::time::{Duration, sleep};

use crate::account::{Account, Fault};

/// Somewhat longer than a store is waited for, so that the failure can be recorded right after.
const BUSY: Duration = Duration::from_secs(35);

/// A process is stopped right before its commit while a worker waits for its model, and so holds the store for longer than
/// anybody waits; then it is killed. The turn fails as `store_busy`, and its Goal goes on by itself.
pub(crate) async fn busy() -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.goal(session, "Wait for the store").await;
    let gate = Gate::default();
    let gated = gate.clone();
    let server = OpenAiServer::start(move |number, request| match number {
        1 => Reply::Gated(gated.clone(), Box::new(Reply::text("First answer."))),
        _ if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
        _ => Reply::call("goal_update", &json!({ "status": "completed" })),
    })
    .await;
    let zuno = Zuno::of(&world).with_model_at(&server.base_url);
    let mut worker = zuno.start(&["goal", "run", "--session", &session.to_string()]);
    gate.arrival().await;
    let other = world.session().await;
    let set = ["goal", "set", "--session", &other.to_string(), "Never be set"];
    let mut holder = zuno.start_until(CrashPoint::Before(1), &set);
    assert!(holder.reaches_its_point().await, "{}", holder.printed());
    gate.open();
    // A client meanwhile is told in the same words.
    let pause = ["goal", "pause", "--session", &session.to_string()];
    let (client, ()) = tokio::join!(zuno.run(&pause), sleep(BUSY));
    assert_eq!(client.code, Some(5), "{client:?}");
    assert!(client.err.contains("the store stayed locked by another program for 30 s"), "{client:?}");
    holder.kill();
    worker.runs_until("its end", |worker| worker.printed().contains("Reached.")).await;
    let failed = store_busy(&world, session).await;
    assert_eq!(world.view(other).await.goal, None, "what was not committed is not there");
    zuno.assert_sound().await;
    Account::new("a store that stays busy", 3, 1).saw(Fault::Lost, u64::from(!failed)).waited(BUSY)
}

/// Whether the turn failed as it must, and the Goal went on.
async fn store_busy(world: &World<SystemClock>, session: SessionId) -> bool {
    let log = world.log(session).await;
    let is_busy = |body: &EventBody| {
        matches!(body, EventBody::TurnEnded { outcome: TurnOutcome::Failed { failure }, .. }
            if failure.kind == FailureKind::StoreBusy)
    };
    let failed = log.iter().filter(|event| is_busy(&event.body)).count();
    failed == 1 && world.view(session).await.goal.unwrap().status == GoalStatus::Completed
}
