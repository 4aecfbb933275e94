//! A provider that fails: slow down, a stream that breaks off, a key that is not accepted.

use domain::{EventBody, FailureKind};
use serde_json::json;
use tests::Reply;

use crate::desk::{Desk, endings, kinds};

fn refusal(status: &str, headers: &str) -> Reply {
    Reply::Refusal { status: status.to_owned(), headers: headers.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn t9_a_provider_that_asks_to_slow_down_is_asked_again_when_it_said() {
    let desk = Desk::with_model(|number, _| match number {
        1 => refusal("429 Too Many Requests", "retry-after: 3\r\n"),
        _ => Reply::text("There you are."),
    })
    .await;
    let done = desk.zuno(&["run", "Say something."]).await;
    assert_eq!((done.code, done.out.trim()), (Some(0), "There you are."), "{}", done.err);
    let log = desk.log(desk.latest().await).await;
    let failed = log.iter().find_map(|event| match &event.body {
        EventBody::ModelFailed { failure, retry_at, attempt: 1, .. } => Some((event.at, failure, *retry_at)),
        _ => None,
    });
    let (at, failure, retry_at) = failed.unwrap();
    assert_eq!((failure.kind, failure.retry_after_ms), (FailureKind::RateLimited, Some(3_000)));
    assert_eq!(retry_at, Some(at.plus_ms(3_000)));
    let again = log.iter().find(|event| matches!(event.body, EventBody::ModelRequested { attempt: 2, .. }));
    assert!(again.unwrap().at >= at.plus_ms(3_000));
    assert_eq!(endings(&log), ["1 completed"]);
    // The very same request, not another one.
    let bodies = desk.server.bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t6_a_cut_stream_runs_no_call_and_enters_no_history() {
    let desk = Desk::with_model(|number, _| match number {
        1 => Reply::Cut {
            text: "I write it at once.".to_owned(),
            calls: vec![("write_file".to_owned(), json!({ "path": "half.txt", "content": "x" }).to_string())],
        },
        _ => Reply::text("On second thoughts, no."),
    })
    .await;
    let done = desk.zuno(&["run", "Write half.txt."]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert!(!desk.world.path("half.txt").exists());
    let log = desk.log(desk.latest().await).await;
    let failures = log.iter().filter_map(|event| match &event.body {
        EventBody::ModelFailed { failure, .. } => Some(failure.kind),
        _ => None,
    });
    assert_eq!(failures.collect::<Vec<_>>(), [FailureKind::StreamIncomplete]);
    assert!(!kinds(&log).contains(&"call_admitted"), "{:?}", kinds(&log));
    assert_eq!(endings(&log), ["1 completed"]);
    let bodies = desk.server.bodies();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t9_a_key_that_is_not_accepted_fails_the_turn_at_once() {
    let desk = Desk::with_model(|_, _| refusal("401 Unauthorized", "")).await;
    let done = desk.zuno(&["run", "Say something."]).await;
    assert_eq!(done.code, Some(6), "{}{}", done.out, done.err);
    assert_eq!(done.out.trim(), "");
    assert!(done.err.contains("authentication"), "{}", done.err);
    assert_eq!(desk.server.bodies().len(), 1);
    assert_eq!(endings(&desk.log(desk.latest().await).await), ["1 failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t9_a_key_that_is_not_accepted_pauses_the_goal_until_the_user_resumes_it() {
    let desk = Desk::with_model(|number, _| match number {
        1 => refusal("401 Unauthorized", ""),
        2 => Reply::call("goal_update", &json!({ "status": "completed" })),
        _ => Reply::text("Reached."),
    })
    .await;
    let id = desk.session().await.to_string();
    desk.answer(&["goal", "set", "Anything", "--session", &id, "--json"]).await;
    for _ in 0..2 {
        // The second worker finds nothing that is due, and asks nobody.
        let done = desk.zuno(&["goal", "run", "--session", &id, "--once"]).await;
        assert_eq!(done.code, Some(7), "{}{}", done.out, done.err);
        let goal = desk.answer(&["goal", "show", "--session", &id, "--json"]).await;
        assert_eq!((&goal["status"], &goal["reason"]), (&json!("paused"), &json!("authentication")));
        assert_eq!(desk.server.bodies().len(), 1);
    }
    desk.answer(&["goal", "resume", "--session", &id, "--json"]).await;
    let done = desk.zuno(&["goal", "run", "--session", &id, "--once"]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
}
