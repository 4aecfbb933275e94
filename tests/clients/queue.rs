//! Two `zuno run` on one session.

use domain::EventBody;
use tests::{Gate, Reply};

use crate::desk::{Desk, end_of, endings};
use crate::greeter::transcript;

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_prompt_that_comes_during_a_turn_is_kept_and_runs_after_it() {
    let gate = Gate::default();
    let held = gate.clone();
    let desk = Desk::with_model(move |number, _| match number {
        1 => Reply::Gated(held.clone(), Box::new(Reply::text("The first answer."))),
        _ => Reply::text("The second answer."),
    })
    .await;
    let session = desk.session().await;
    let id = session.to_string();
    let first = desk.start(&["run", "The first prompt.", "--session", &id]);
    gate.arrival().await;
    let second = desk.start(&["run", "The second prompt.", "--session", &id]);
    // It is durable while the first turn still runs.
    loop {
        let log = desk.log(session).await;
        let queued = log.iter().filter(|event| matches!(event.body, EventBody::InputQueued { .. })).count();
        if queued == 2 {
            assert_eq!(endings(&log), [""; 0]);
            break;
        }
        tokio::task::yield_now().await;
    }
    gate.open();

    let (first, second) = (end_of(first).await, end_of(second).await);
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{}{}", first.err, second.err);
    assert!(first.out.contains("The first answer."), "{}", first.out);
    assert!(second.out.contains("The second answer."), "{}", second.out);
    let log = desk.log(session).await;
    assert_eq!(endings(&log), ["1 completed", "2 completed"]);
    let requests = desk.requests();
    assert_eq!(requests.len(), 2);
    let prompts = |at: usize| -> Vec<_> {
        let messages = transcript(&requests[at]).iter();
        messages
            .filter(|message| message["role"] == "user")
            .map(|message| message["content"].clone())
            .collect()
    };
    assert_eq!(prompts(0), ["The first prompt."]);
    assert_eq!(prompts(1), ["The first prompt.", "The second prompt."]);
}
