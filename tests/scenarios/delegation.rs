//! Delegated work through the real engine: lanes beside each other, reports, stops and losses (E8, C5, W2, M3).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{CallOutcome, EventBody, GoalStatus, JobId, SessionId, TurnOutcome};
use policy::Awaited;
use runtime::{Delta, Model, ModelRequest, ModelResponse, Step};
use serde_json::{Value, json};
use tests::{Gate, Probe, World, answering, call, calls, scripted, story, text};

use crate::stop::{outcome, spawn_step};

/// Which agent a request is for.
fn role(request: &ModelRequest) -> &str {
    let (_, rest) = request.system.split_once("# Your role: ").unwrap();
    rest.lines().next().unwrap()
}

fn task(agent: &str, objective: &str, is_background: bool) -> Value {
    json!({
        "agent": agent,
        "objective": objective,
        "deliverable": "the place",
        "instructions": "look everywhere",
        "success_evidence": "a file and a line",
        "background": is_background,
    })
}

async fn orchestrated(world: &World) -> SessionId {
    let session = world.session().await;
    world.user.select_agent(session, "orchestrator".parse().unwrap()).await.unwrap();
    session
}

/// What happened to jobs: their starts and ends.
async fn jobs(world: &World, session: SessionId) -> Vec<String> {
    let log = world.log(session).await;
    let told = log.iter().filter_map(|event| match &event.body {
        EventBody::JobStarted { job } => Some(format!("{} {}", job.id, job.agent)),
        EventBody::JobEnded { job, outcome } => Some(format!("{job} {}", outcome.name())),
        _ => None,
    });
    told.collect()
}

/// Waits until a job is over.
async fn ends(world: &World, session: SessionId) {
    for _ in 0..1_000 {
        if world.view(session).await.jobs.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the job goes on and on");
}

/// A model of which the agents of jobs wait at a gate, and the main one does not.
struct Held {
    inner: Arc<dyn Model>,
    gate: Gate,
}

#[async_trait]
impl Model for Held {
    fn name(&self) -> &domain::ModelName {
        self.inner.name()
    }

    fn context_tokens(&self) -> u64 {
        self.inner.context_tokens()
    }

    async fn respond(
        &self,
        request: &ModelRequest,
        on_delta: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, domain::Failure> {
        if role(request) != "orchestrator" {
            self.gate.pass().await;
        }
        self.inner.respond(request, on_delta).await
    }
}

#[tokio::test]
async fn e8_c5_w2_what_one_answer_delegates_works_side_by_side_and_its_reports_are_the_results() {
    let world = World::new().await;
    world.write("a.rs", "fn a() {}\n");
    let session = orchestrated(&world).await;
    world.say(session, "go").await;
    let inner = answering(|number, request| {
        Ok(match (number, role(request)) {
            (1, _) => {
                let (one, other) = (task("explorer", "Find a.", false), task("deep", "Mend b.", false));
                calls(&[("task", one.to_string()), ("task", other.to_string())])
            }
            (_, "explorer") if request.history.len() == 1 => call("grep", &json!({ "pattern": "fn a" })),
            (_, "explorer") => text("It is in a.rs:1."),
            (_, "deep") => text("Mended."),
            _ => text("Both are done."),
        })
    });
    let probe = Probe::on(inner);
    let gate = Gate::default();
    let model = Arc::new(Held { inner: Arc::clone(&probe) as Arc<dyn Model>, gate: gate.clone() });
    let engine = world.engine(model);
    let step = spawn_step(&engine, session);
    // Both wait for their first answer before either gets one.
    gate.arrival().await;
    gate.arrival().await;
    let view = world.view(session).await;
    assert_eq!(view.jobs.iter().map(|job| job.job.id.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(view.turns().count(), 3);
    (0..3).for_each(|_| gate.open());
    assert_eq!(outcome(step).await, TurnOutcome::Completed);

    let requests = probe.requests();
    let of = |agent: &str| requests.iter().filter(|request| role(request) == agent).collect::<Vec<_>>();
    let offered = |request: &ModelRequest| {
        request.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(offered(of("explorer")[0]), @"read_file list_dir glob grep git_status git_log git_diff git_show git_blame");
    let deep = offered(of("deep")[0]);
    assert!(deep.contains("write_file") && deep.contains("plan_update"), "{deep}");
    for missing in ["ask_user", "task", "goal_update", "goal_propose", "goal_wait"] {
        assert!(!deep.contains(missing), "{deep}");
    }
    assert!(of("deep")[0].system.contains("# Your task comes from another agent"));
    let told = format!("{:?}", of("deep")[0].history);
    assert!(told.contains("Mend b.") && !told.contains("\"go\"") && !told.contains("Find a."), "{told}");
    // The main lane has the reports, and nothing of how they came about.
    let told = format!("{:?}", of("orchestrator")[1].history);
    assert!(told.contains("It is in a.rs:1.") && told.contains("Mended."), "{told}");
    assert!(!told.contains("fn a() {}"), "{told}");
    let results = world.results(session).await;
    let ended: Vec<_> = results.iter().map(|(call, outcome, _)| (call.turn.0, *outcome)).collect();
    assert!(ended.iter().all(|(_, outcome)| *outcome == CallOutcome::Succeeded), "{results:?}");
    assert_eq!(ended.iter().filter(|(turn, _)| *turn == 1).count(), 2);
    assert!(world.view(session).await.jobs.is_empty());
}

#[tokio::test]
async fn w2_one_delegation_told_event_by_event() {
    let world = World::new().await;
    let session = orchestrated(&world).await;
    world.say(session, "go").await;
    let model = answering(|number, request| {
        Ok(match (number, role(request)) {
            (1, _) => call("task", &task("explorer", "Find a.\nAnd b.", false)),
            (_, "explorer") => text("It is nowhere."),
            _ => text("It is nowhere, says the explorer."),
        })
    });
    world.run(session, model).await;
    insta::assert_snapshot!(story(&world.log(session).await.split_off(3)), @r##"
    4 runtime turn_started 1 orchestrator for input #3
    5 runtime input_consumed by 1: #3
    6 runtime model_requested 1.1 attempt 1
    7 runtime model_responded 1.1 "" calls [task]
    8 agent call_admitted 1.1.0 task
    9 agent job_started 1 explorer "Find a."
    10 agent input_queued task "Objective:\nFind a.\nAnd b.\n\nDeliverable:\nthe place\n\nInstructions:\nlook everywhere\n\nIt is done when:\na file and a line"
    11 agent turn_started 2 explorer for input #10
    12 runtime input_consumed by 2: #10
    13 runtime model_requested 2.1 attempt 1
    14 runtime model_responded 2.1 "It is nowhere." calls []
    15 runtime turn_ended 2 completed
    16 runtime job_ended 1 succeeded
    17 runtime call_finished 1.1.0 task succeeded
    18 runtime model_requested 1.2 attempt 1
    19 runtime model_responded 1.2 "It is nowhere, says the explorer." calls []
    20 runtime turn_ended 1 completed
    "##);
}

#[tokio::test]
async fn i5_w2_a_goal_waits_for_a_job_beside_its_turns_and_goes_on_with_the_report() {
    let world = World::new().await;
    let session = orchestrated(&world).await;
    world.goal(session, "Find it").await;
    let probe = Probe::on(answering(|_, request| {
        let history = format!("{:?}", request.history);
        Ok(match role(request) {
            "explorer" => text("It is in b.rs."),
            _ if history.contains("It is in b.rs.") => call("goal_update", &json!({ "status": "completed" })),
            _ if history.contains("running") => text("The explorer looks for it."),
            _ => call("task", &task("explorer", "Find it.", true)),
        })
    }));
    let gate = Gate::default();
    let engine =
        world.engine(Arc::new(Held { inner: Arc::clone(&probe) as Arc<dyn Model>, gate: gate.clone() }));
    assert!(matches!(outcome(spawn_step(&engine, session)).await, TurnOutcome::Completed));
    gate.arrival().await;
    let step = spawn_step(&engine, session).await.unwrap();
    assert!(
        matches!(&step, Step::WaitFor { what: Awaited::Jobs { jobs }, .. } if *jobs == [JobId(1)]),
        "{step:?}"
    );
    let view = world.view(session).await;
    assert_eq!(view.outlook.because, "the Goal waits for job 1");
    gate.open();
    ends(&world, session).await;
    let steps = world.run_engine(session, &engine).await;
    assert_eq!(world.view(session).await.goal.unwrap().status, GoalStatus::Completed, "{steps:?}");
}

#[tokio::test]
async fn m3_entering_plan_mode_stops_the_turns_of_all_lanes_and_what_they_run() {
    let world = World::new().await;
    let session = orchestrated(&world).await;
    world.say(session, "go").await;
    let inner = answering(|number, request| {
        Ok(match (number, role(request)) {
            (1, _) => call("task", &task("deep", "Mend it.", false)),
            (_, "deep") => call("shell", &json!({ "command": "touch begun; sleep 60; touch done" })),
            _ => text("never"),
        })
    });
    let engine = world.engine(inner);
    let step = spawn_step(&engine, session);
    while !world.path("begun").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let view = world.user.enter_plan(session).await.unwrap();
    assert!(view.mode_view().entering);
    assert!(matches!(outcome(step).await, TurnOutcome::Stopped { .. }));
    assert_eq!(jobs(&world, session).await, ["1 deep", "1 cancelled"]);
    let view = world.view(session).await;
    assert!(!view.mode_view().entering && view.jobs.is_empty());
    assert!(!world.path("done").exists());
    let results = world.results(session).await;
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|(_, outcome, _)| *outcome == CallOutcome::Stopped), "{results:?}");
}

#[tokio::test]
async fn w2_t7_a_job_whose_worker_is_gone_is_lost_with_its_parent_and_never_run_again() {
    let world = World::new().await;
    let session = orchestrated(&world).await;
    world.goal(session, "Find it").await;
    let gate = Gate::default();
    let inner = answering(|_, _| Ok(call("task", &task("explorer", "Find it.", false))));
    let engine = world.engine(Arc::new(Held { inner, gate: gate.clone() }));
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    step.abort();
    drop(engine);
    world.clock.advance_ms(policy::LEASE_MS);
    let probe = Probe::on(scripted("[exhausted]\ntext = \"done\""));
    let sessions = world.other_worker();
    let engine = world.engine_of(&sessions, Arc::clone(&probe) as Arc<dyn Model>, tests::Shop::default());
    for _ in 0..2 {
        assert!(matches!(engine.step(session, runtime::Scope::All).await.unwrap(), Step::Recovered { .. }));
    }
    assert_eq!(jobs(&world, session).await, ["1 explorer", "1 failed"]);
    engine.step(session, runtime::Scope::All).await.unwrap();
    let told = format!("{:?}", probe.requests()[0].history);
    assert!(told.contains("cut off by a crash; inspect before repeating"), "{told}");
    assert_eq!(jobs(&world, session).await.len(), 2);
}

#[tokio::test]
async fn w2_the_user_cancels_one_job_and_the_other_and_its_parent_go_on() {
    let world = World::new().await;
    let session = orchestrated(&world).await;
    world.say(session, "go").await;
    let inner = answering(|number, request| {
        Ok(match (number, role(request)) {
            (1, _) => {
                let (one, other) = (task("explorer", "Find a.", false), task("explorer", "Find b.", false));
                calls(&[("task", one.to_string()), ("task", other.to_string())])
            }
            (_, "explorer") => text("Found."),
            _ => text("One was cancelled."),
        })
    });
    let gate = Gate::default();
    let engine = world.engine(Arc::new(Held { inner, gate: gate.clone() }));
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    gate.arrival().await;
    world.user.cancel_job(session, JobId(2)).await.unwrap();
    while world.view(session).await.jobs.len() == 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.open();
    assert_eq!(outcome(step).await, TurnOutcome::Completed);
    let ended = jobs(&world, session).await;
    assert_eq!(ended[2..], ["2 cancelled", "1 succeeded"]);
}

#[tokio::test]
async fn c5_a_target_that_is_none_and_a_task_that_says_too_little_are_refused_with_what_to_do() {
    let world = World::new().await;
    let session = orchestrated(&world).await;
    world.say(session, "go").await;
    let without = |key: &str| {
        let mut task = task("deep", "Mend it.", false);
        task.as_object_mut().unwrap().remove(key);
        ("task", task.to_string())
    };
    let asked = [
        ("task", task("orchestrator", "Mend it.", false).to_string()),
        ("task", task("build", "Mend it.", false).to_string()),
        without("agent"),
        without("success_evidence"),
        without("instructions"),
    ];
    let model = answering(move |number, _| Ok(if number == 1 { calls(&asked) } else { text("done") }));
    world.run(session, model).await;
    let results = world.results(session).await;
    let told: Vec<_> =
        results.iter().map(|(_, outcome, text)| format!("{} {text}", outcome.name())).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    refused task refused, nothing changed. invalid_input: `agent` must be one of "deep", "explorer"
    refused task refused, nothing changed. invalid_input: `agent` must be one of "deep", "explorer"
    refused task refused, nothing changed. invalid_input: `agent` must be one of "deep", "explorer"
    refused task refused, nothing changed. invalid_input: `success_evidence` is missing; the other agent knows nothing but what you send
    refused task refused, nothing changed. invalid_input: `instructions` is missing; the other agent knows nothing but what you send
    "#);
    assert!(jobs(&world, session).await.is_empty());
}
