//! Delegated work as a person sees it: told while it runs, listed, shown and cancelled from another terminal, asked about,
//! and there again after a kill.

use domain::{EventBody, JobOutcome};
use serde_json::{Value, json};
use tests::{Gate, Reply};

use crate::desk::{Desk, end_of, kinds, signal};

/// Which agent a request is for.
fn role(request: &Value) -> String {
    let system = request["messages"][0]["content"].as_str().unwrap();
    let (_, rest) = system.split_once("# Your role: ").unwrap();
    rest.lines().next().unwrap().to_owned()
}

fn task(agent: &str, is_background: bool) -> Value {
    json!({
        "agent": agent,
        "objective": "Find who is greeted.",
        "deliverable": "a file and a line",
        "instructions": "read the scripts",
        "success_evidence": "the line itself",
        "background": is_background,
    })
}

/// A desk whose main agent delegates first, then reports; the other agent answers so.
async fn desk(agent: &'static str, reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Desk {
    Desk::with_model(move |_, request| match role(request).as_str() {
        "orchestrator" if request["messages"].to_string().contains("Find who is greeted.") => {
            Reply::text("The explorer found it.")
        }
        "orchestrator" => Reply::call("task", &task(agent, false)),
        _ => reply(request),
    })
    .await
}

/// How jobs ended.
fn ends(log: &[domain::Event]) -> Vec<JobOutcome> {
    let ends = log.iter().filter_map(|event| match &event.body {
        EventBody::JobEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    ends.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_a_job_is_told_listed_and_shown_while_it_runs_and_after() {
    let gate = Gate::default();
    let held = gate.clone();
    let desk = desk("explorer", move |request| {
        let looked = request["messages"].to_string().contains("greet.sh:2");
        if looked {
            Reply::Gated(held.clone(), Box::new(Reply::text("In greet.sh, line 3.")))
        } else {
            Reply::call("grep", &json!({ "pattern": "named" }))
        }
    })
    .await;
    let run = desk.start(&["run", "Who is greeted?"]);
    gate.arrival().await;
    let listed = desk.zuno(&["jobs", "list"]).await;
    let session = desk.latest().await;
    let unnamed = |text: &str| {
        let (id, text) = (session.to_string(), text.replace(&session.to_string(), "SESSION"));
        let (_, last) = id.rsplit_once('-').unwrap();
        text.replace(&last[..8], "SHORT")
    };
    let shape = |text: &str| {
        let ages = text.lines().map(|line| match line.split_once(" ago") {
            Some((age, rest)) => {
                let kept = age.rsplit_once("  ").map_or(age, |(kept, _)| kept);
                format!("{kept}  AGE ago{rest}")
            }
            None => line.to_owned(),
        });
        unnamed(&ages.collect::<Vec<_>>().join("\n"))
    };
    insta::assert_snapshot!(shape(&listed.out), @"
    job 1 (explorer)  AGE ago  session SHORT  Who is greeted?
      Find who is greeted.
      `zuno jobs cancel 1` ends it
    ");
    let shown = desk.zuno(&["jobs", "show", "1"]).await;
    insta::assert_snapshot!(shape(&shown.out), @"
    job 1 (explorer)  AGE ago  session SHORT  Who is greeted?

    Objective:
    Find who is greeted.

    Deliverable:
    a file and a line

    Instructions:
    read the scripts

    It is done when:
    the line itself

    it runs
    ");
    gate.open();
    let run = end_of(run).await;
    assert_eq!((run.code, run.out.as_str()), (Some(0), "The explorer found it.\n"), "{}", run.err);
    insta::assert_snapshot!(unnamed(&run.err), @"
    session SESSION
      turn 1 started: input (orchestrator, local)
      job 1 (explorer) started: Find who is greeted.
      job 1 · grep named: succeeded
      job 1 succeeded
      turn 1 completed
    ");
    let shown = desk.zuno(&["jobs", "show", "1"]).await;
    insta::assert_snapshot!(shape(&shown.out), @"
    job 1 (explorer)  AGE ago  session SHORT  Who is greeted?

    Objective:
    Find who is greeted.

    Deliverable:
    a file and a line

    Instructions:
    read the scripts

    It is done when:
    the line itself

    succeeded:
    In greet.sh, line 3.
    ");
    let none = desk.zuno(&["jobs", "list"]).await;
    insta::assert_snapshot!(none.err, @"no job runs in the sessions of this workspace; --all looks into the others; `zuno jobs show N` shows one that is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn t7_w2_after_a_kill_the_job_is_lost_and_reported_and_not_run_again() {
    let gate = Gate::default();
    let held = gate.clone();
    let desk = desk("explorer", move |_| Reply::Gated(held.clone(), Box::new(Reply::text("never")))).await;
    let session = desk.session().await;
    desk.answer(&["goal", "set", "Find it", "--turns", "3", "--json"]).await;
    let mut run = desk.start(&["goal", "run"]);
    gate.arrival().await;
    signal(&run, "KILL").await;
    run.wait().await.unwrap();
    let again = desk.zuno(&["goal", "run", "--once"]).await;
    assert_eq!(again.code, Some(7), "its three turns are used up: {}{}", again.out, again.err);
    let log = desk.log(session).await;
    assert_eq!(ends(&log), [JobOutcome::Failed]);
    assert_eq!(kinds(&log).iter().filter(|kind| **kind == "turn_lost").count(), 2);
    assert_eq!(kinds(&log).iter().filter(|kind| **kind == "job_started").count(), 1);
    let asked = desk.requests();
    assert_eq!(asked.iter().filter(|request| role(request) == "explorer").count(), 1);
    assert!(asked[2]["messages"].to_string().contains("cut off by a crash"), "its parent reads so");
    let doctor = desk.zuno(&["doctor"]).await;
    assert!(!doctor.out.contains("damaged"), "{}", doctor.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_i4_what_a_job_needs_leave_for_is_asked_on_the_session_and_answered_from_anywhere() {
    let desk = desk("deep", |request| {
        let told = request["messages"].to_string();
        if told.contains("allowed the call") {
            Reply::text("Done, with the network.")
        } else {
            Reply::call("shell", &json!({ "command": "echo fetched > fetched.txt", "needs": ["network"] }))
        }
    })
    .await;
    let asked = desk.zuno(&["run", "Fetch it.", "--wait-for-person"]).await;
    assert_eq!(asked.code, Some(7), "{}{}", asked.out, asked.err);
    let session = desk.latest().await;
    let listed = desk.zuno(&["jobs", "list"]).await;
    assert!(listed.out.contains("it waits for your answer to request 1"), "{}", listed.out);
    assert!(!desk.world.path("fetched.txt").exists());
    desk.answer(&["requests", "allow", "1", "--json"]).await;
    let goes_on = desk.zuno(&["run", "--session", &session.to_string()]).await;
    assert_eq!(goes_on.code, Some(0), "{}{}", goes_on.out, goes_on.err);
    assert_eq!(desk.world.read("fetched.txt"), "fetched\n");
    assert_eq!(ends(&desk.log(session).await), [JobOutcome::Succeeded]);
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_a_job_is_cancelled_from_another_terminal_and_the_run_goes_on() {
    let gate = Gate::default();
    let held = gate.clone();
    let desk = desk("explorer", move |_| Reply::Gated(held.clone(), Box::new(Reply::text("never")))).await;
    let run = desk.start(&["run", "Who is greeted?"]);
    gate.arrival().await;
    let cancelled = desk.zuno(&["jobs", "cancel", "1"]).await;
    assert_eq!(
        (cancelled.code, cancelled.out.as_str()),
        (Some(0), "job 1 was asked to stop: Find who is greeted.\n")
    );
    let run = end_of(run).await;
    assert_eq!(run.code, Some(0), "{}", run.err);
    let session = desk.latest().await;
    assert_eq!(ends(&desk.log(session).await), [JobOutcome::Cancelled]);
    let over = desk.zuno(&["jobs", "cancel", "1"]).await;
    assert_eq!(over.code, Some(4), "{}{}", over.out, over.err);
}
