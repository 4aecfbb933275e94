//! A store that another process keeps busy: typed as `store_busy`, and over as soon as the store is free.

use domain::{EventBody, FailureKind, GoalStatus, SessionId, TurnOutcome};
use serde_json::json;
use store::SystemClock;
use tests::{Gate, OpenAiServer, Reply, World, Zuno, story};
use tokio::time::{Duration, sleep};

use crate::account::{Account, Fault};
use crate::contestant::Contestant;

/// Somewhat longer than a store is waited for, so that the failure is recorded right after.
const BUSY: Duration = Duration::from_secs(35);

/// A process takes the store's turn at writing while a worker waits for its model, and keeps it for longer than anybody
/// waits. The turn fails as `store_busy` or, where not even that can be written in time, is lost; either way the Goal goes
/// on by itself.
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
    let mut holder = Contestant::start("hold-the-store", &world, session);
    holder.answers("ready");
    holder.tell("take");
    holder.answers("done");
    gate.open();
    // A client meanwhile is told in the same words.
    let (client, ()) = tokio::join!(zuno.run(&["goal", "pause", "--json"]), sleep(BUSY));
    assert_eq!(client.code, Some(5), "{client:?}");
    assert!(format!("{client:?}").contains("the store stayed locked"), "{client:?}");
    holder.tell("give");
    holder.answers("done");
    worker.runs_until("its end", |worker| worker.printed().contains("Reached.")).await;
    let failed = store_busy(&world, session).await;
    zuno.assert_sound().await;
    Account::new("a store that stays busy", 3, 1).saw(Fault::Lost, u64::from(!failed)).waited(BUSY)
}

/// Whether the turn failed as it must, and the Goal went on.
async fn store_busy(world: &World<SystemClock>, session: SessionId) -> bool {
    let log = world.log(session).await;
    println!("{}", story(&log));
    let is_busy = |body: &EventBody| {
        matches!(body, EventBody::TurnEnded { outcome: TurnOutcome::Failed { failure }, .. }
            if failure.kind == FailureKind::StoreBusy)
    };
    let failed = log.iter().filter(|event| is_busy(&event.body)).count();
    failed == 1 && world.view(session).await.goal.unwrap().status == GoalStatus::Completed
}
