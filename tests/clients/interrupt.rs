//! Ctrl-C while the model answers.

use domain::{Event, EventBody, GoalStatus};
use serde_json::json;
use tests::Reply;
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;

use crate::desk::{Desk, end_of, endings, signal};

const HALF: &str = "Half of an answer";

/// Waits until the beginning of the answer stands on standard output.
async fn reads_half(child: &mut Child) {
    let stdout = child.stdout.as_mut().unwrap();
    let mut said = String::new();
    while !said.contains(HALF) {
        let mut bytes = [0; 256];
        let read = stdout.read(&mut bytes).await.unwrap();
        assert!(read > 0, "it ended after {said:?}");
        said.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

fn pauses(log: &[Event]) -> Vec<String> {
    let paused = |event: &Event| match &event.body {
        EventBody::GoalMoved { to: GoalStatus::Paused(reason), .. } => Some(reason.name().to_owned()),
        _ => None,
    };
    log.iter().filter_map(paused).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_ctrl_c_during_an_answer_ends_the_turn_as_interrupted() {
    let desk = Desk::with_model(|_, _| Reply::Begun(HALF.to_owned())).await;
    let mut run = desk.start(&["run", "Talk to me."]);
    reads_half(&mut run).await;
    signal(&run, "INT").await;
    let done = end_of(run).await;
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let log = desk.log(desk.latest().await).await;
    assert_eq!(endings(&log), ["1 interrupted"]);
    assert!(!log.iter().any(|event| matches!(event.body, EventBody::ModelResponded { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_ctrl_c_pauses_the_goal_of_the_run_and_only_the_user_goes_on() {
    let desk = Desk::with_model(|_, _| Reply::Begun(HALF.to_owned())).await;
    let mut run = desk.start(&["run", "--goal", "Never stop talking"]);
    reads_half(&mut run).await;
    signal(&run, "INT").await;
    let done = end_of(run).await;
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let session = desk.latest().await;
    let log = desk.log(session).await;
    assert_eq!(endings(&log), ["1 interrupted"]);
    assert_eq!(pauses(&log), ["interrupted"]);

    let worker = desk.zuno(&["goal", "run", "--session", &session.to_string(), "--once"]).await;
    assert_ne!(worker.code, Some(0), "{}{}", worker.out, worker.err);
    assert_eq!(desk.server.bodies().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_ended_stops_its_turn_and_leaves_the_goal_active() {
    let desk = Desk::with_model(|_, _| Reply::Begun(HALF.to_owned())).await;
    let session = desk.session().await;
    let id = session.to_string();
    desk.answer(&["goal", "set", "Never stop talking", "--session", &id, "--json"]).await;
    let worker = desk.start(&["goal", "run", "--session", &id]);
    desk.asked(1).await;
    signal(&worker, "TERM").await;
    let done = end_of(worker).await;
    assert!(done.code.is_some(), "{}{}", done.out, done.err);
    let log = desk.log(session).await;
    assert_eq!(endings(&log), ["1 stopped"]);
    assert_eq!(pauses(&log), [""; 0]);
    let goal = desk.answer(&["goal", "show", "--session", &id, "--json"]).await;
    assert_eq!(goal["status"], json!("active"));
}
