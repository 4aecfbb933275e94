//! Failures of the model: attempts in place, durable retries, pauses and blocks (T9, T10).

use domain::{
    Event, EventBody, Failure, FailureClass, FailureKind, GoalStatus, SessionId, Timestamp, TurnOutcome,
};
use policy::{ATTEMPTS_IN_PLACE, Delay, IdleReason, NextAction};
use runtime::{Scope, Step};
use tests::{Probe, World, answering, scripted, story, text};

/// Whether the step is a turn that failed with this kind.
fn is_failed(step: &Step, kind: FailureKind) -> bool {
    matches!(step, Step::Ran { outcome: TurnOutcome::Failed { failure }, .. } if failure.kind == kind)
}

/// The waits between attempts in place, in milliseconds.
fn waits(log: &[Event]) -> Vec<i64> {
    let wait = |event: &Event| match &event.body {
        EventBody::ModelFailed { retry_at: Some(at), .. } => Some(at.0 - event.at.0),
        _ => None,
    };
    log.iter().filter_map(wait).collect()
}

async fn retry_of(world: &World, session: SessionId) -> Option<domain::Retry> {
    world.view(session).await.goal.unwrap().retry
}

#[tokio::test]
async fn t9_a_passing_failure_is_retried_in_place_and_the_turn_completes() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.say(session, "go").await;
    let model = Probe::on(scripted(
        r#"
        [[response]]
        text = "there you are"
        failure = { kind = "rate_limited", times = 3 }
        "#,
    ));
    let steps = world.run(session, model.clone()).await;
    assert!(matches!(steps[0], Step::Ran { outcome: TurnOutcome::Completed, .. }), "{steps:?}");
    let log = world.log(session).await;
    insta::assert_snapshot!(story(&log[2..]), @r#"
    3 runtime turn_started 1 build for input #2
    4 runtime input_consumed by 1: #2
    5 runtime model_requested 1.1 attempt 1
    6 runtime model_failed 1.1 attempt 1 rate_limited, again
    7 runtime model_requested 1.1 attempt 2
    8 runtime model_failed 1.1 attempt 2 rate_limited, again
    9 runtime model_requested 1.1 attempt 3
    10 runtime model_failed 1.1 attempt 3 rate_limited, again
    11 runtime model_requested 1.1 attempt 4
    12 runtime model_responded 1.1 "there you are" calls []
    13 runtime turn_ended 1 completed
    "#);
    let waits = waits(&log);
    for (wait, doubled) in waits.iter().zip([2_000, 4_000, 8_000]) {
        assert!((doubled * 8 / 10..=doubled * 12 / 10).contains(wait), "{waits:?}");
    }
    // It is the same request each time, byte for byte.
    let requests = model.requests();
    assert!(requests.iter().all(|request| *request == requests[0]));
}

#[tokio::test]
async fn t9_retry_after_is_honoured_and_attempts_in_place_end_within_180_s() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.say(session, "go").await;
    let model = scripted("[[response]]\nfailure = { kind = \"rate_limited\", retry_after_ms = 100000 }");
    let steps = world.run(session, model).await;
    assert!(is_failed(&steps[0], FailureKind::RateLimited), "{steps:?}");
    // A second wait of 100 s would end after 200 s.
    assert_eq!(waits(&world.log(session).await), [100_000]);
}

#[tokio::test]
async fn t9_t10_what_does_not_pass_becomes_a_durable_retry_of_the_goal() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let model = Probe::on(scripted("[[response]]\nfailure = { kind = \"server_error\" }"));
    let engine = world.engine(model.clone());
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(is_failed(&step, FailureKind::ServerError), "{step:?}");
    assert_eq!(model.count(), usize::try_from(ATTEMPTS_IN_PLACE).unwrap());
    let log = world.log(session).await;
    insta::assert_snapshot!(story(&log[2..]), @r"
    3 runtime turn_started 1 build for continuation 1, bound
    4 runtime model_requested 1.1 attempt 1
    5 runtime model_failed 1.1 attempt 1 server_error, again
    6 runtime model_requested 1.1 attempt 2
    7 runtime model_failed 1.1 attempt 2 server_error, again
    8 runtime model_requested 1.1 attempt 3
    9 runtime model_failed 1.1 attempt 3 server_error, again
    10 runtime model_requested 1.1 attempt 4
    11 runtime model_failed 1.1 attempt 4 server_error, gives up
    12 runtime goal_time_charged
    13 runtime turn_ended 1 failed server_error
    14 runtime retry_scheduled 1 after server_error
    ");

    // The row is there before anybody waits, and says when.
    let retry = retry_of(&world, session).await.unwrap();
    let view = world.view(session).await;
    assert_eq!(view.wake_at, Some(retry.at));
    assert_eq!(view.next, NextAction::WaitUntil { at: retry.at, cause: Delay::Retry { retry } });
    assert_eq!(engine.step(session, Scope::All).await.unwrap(), Step::WaitUntil { at: retry.at });
    // It costs no turn and no token: the provider did nothing.
    let usage = view.goal.unwrap().usage;
    assert_eq!((usage.turns, usage.tokens.charged()), (0, 0));

    // Each further failure waits longer, up to 300 s.
    for attempt in 2..=12 {
        let due = retry_of(&world, session).await.unwrap().at;
        world.clock.set(due);
        assert_eq!(world.sessions.due(None, 10).await.unwrap(), [session]);
        let step = engine.step(session, Scope::All).await.unwrap();
        assert!(is_failed(&step, FailureKind::ServerError), "{step:?}");
        let retry = retry_of(&world, session).await.unwrap();
        assert_eq!(retry.attempt, attempt);
        let wait = retry.at.0 - world.clock_now().0;
        let doubled = (2_000_i64 << (attempt - 1)).min(300_000);
        assert!((doubled * 8 / 10..=doubled * 12 / 10).contains(&wait), "attempt {attempt}: {wait}");
    }
}

/// A session whose Goal waits for a retry, and a model that works again.
async fn waiting(world: &World) -> (SessionId, Timestamp) {
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let broken = scripted("[[response]]\nfailure = { kind = \"rate_limited\", retry_after_ms = 60000 }");
    world.skip_waits_in_place();
    let step = world.engine(broken).step(session, Scope::All).await.unwrap();
    assert!(is_failed(&step, FailureKind::RateLimited), "{step:?}");
    (session, retry_of(world, session).await.unwrap().at)
}

#[tokio::test]
async fn t10_i3_a_retry_gives_way_to_user_input_and_success_clears_it() {
    let world = World::new().await;
    let (session, at) = waiting(&world).await;
    let engine = world.engine(scripted("[exhausted]\ntext = \"works again\""));
    assert_eq!(engine.step(session, Scope::All).await.unwrap(), Step::WaitUntil { at });
    world.say(session, "are you there?").await;
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
    assert!(world.clock_now() < at);
    // The provider answers, so the Goal need not wait any longer.
    assert_eq!(retry_of(&world, session).await, None);
    let view = world.view(session).await;
    assert!(matches!(view.next, NextAction::RunGoal { continuation: 2, .. }), "{:?}", view.next);
    assert_eq!(view.wake_at, Some(world.clock_now()));
}

#[tokio::test]
async fn t10_a_retry_that_comes_due_runs_the_goal_and_success_clears_it() {
    let world = World::new().await;
    let (session, at) = waiting(&world).await;
    world.clock.set(at);
    let step = world
        .engine(scripted("[exhausted]\ntext = \"works again\""))
        .step(session, Scope::All)
        .await
        .unwrap();
    assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
    assert_eq!(retry_of(&world, session).await, None);
    assert_eq!(world.view(session).await.goal.unwrap().usage.turns, 1);
}

#[tokio::test]
async fn t10_pause_cancellation_and_replacement_clear_the_retry() {
    let world = World::new().await;
    let (session, _) = waiting(&world).await;
    world.user.pause_goal(session).await.unwrap();
    assert_eq!(retry_of(&world, session).await, None);
    let view = world.user.resume_goal(session).await.unwrap();
    assert!(matches!(view.next, NextAction::RunGoal { .. }), "{:?}", view.next);

    let world = World::new().await;
    let (session, _) = waiting(&world).await;
    world.user.cancel_goal(session).await.unwrap();
    assert_eq!(retry_of(&world, session).await, None);

    let world = World::new().await;
    let (session, _) = waiting(&world).await;
    let new = runtime::NewGoal {
        objective: testkit::objective("another"),
        criteria: None,
        budgets: domain::Budgets::default(),
        replace: true,
    };
    world.user.set_goal(session, new).await.unwrap();
    let view = world.view(session).await;
    assert_eq!(view.goal.unwrap().retry, None);
    assert!(matches!(view.next, NextAction::RunGoal { continuation: 1, .. }), "{:?}", view.next);
}

/// Plays one failure to a Goal turn and to a turn without a Goal.
async fn play(kind: FailureKind) -> String {
    let failure = move || Failure { retry_after_ms: Some(1), ..Failure::new(kind, "it said so") };
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let model = Probe::on(answering(move |_, _| Err(failure())));
    let engine = world.engine(model.clone());
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(is_failed(&step, kind), "{step:?}");
    let attempts = model.count();
    let goal = world.view(session).await.goal.unwrap();
    let status = match &goal.status {
        GoalStatus::Active => format!("active, retry {}", goal.retry.unwrap().attempt),
        GoalStatus::Paused(reason) => format!("paused {}", reason.name()),
        GoalStatus::Blocked { code, detail } => {
            assert_eq!(detail, "it said so");
            format!("blocked {}", code.name())
        }
        other => panic!("{other:?}"),
    };
    let turns = goal.usage.turns;

    // Without a Goal the turn fails, the session says so, and the next turn is an ordinary one.
    let session = world.session().await;
    world.say(session, "go").await;
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(is_failed(&step, kind), "{step:?}");
    let Step::Idle { why: IdleReason::TurnFailed { failure, .. } } =
        engine.step(session, Scope::All).await.unwrap()
    else {
        panic!("a failed turn is the reason for resting");
    };
    assert_eq!(failure.kind, kind);
    world.say(session, "again").await;
    let steps = world.run(session, answering(|_, _| Ok(text("fine")))).await;
    assert!(matches!(steps[0], Step::Ran { outcome: TurnOutcome::Completed, .. }), "{steps:?}");
    format!("{kind}: {attempts} attempts, goal {status}, {turns} turns counted")
}

#[tokio::test]
async fn t9_what_follows_from_each_failure_of_a_model() {
    let mut lines = Vec::new();
    for kind in FailureKind::ALL {
        // These do not come from a model.
        let is_ours = matches!(
            kind,
            FailureKind::StoreBusy
                | FailureKind::CorruptState
                | FailureKind::Stuck
                | FailureKind::NoSuchAgent
        );
        if !is_ours {
            lines.push(play(kind).await);
            assert_eq!(lines.last().unwrap().contains(": 4 attempts"), kind.class() == FailureClass::Retry);
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    rate_limited: 4 attempts, goal active, retry 1, 0 turns counted
    server_error: 4 attempts, goal active, retry 1, 0 turns counted
    transport: 4 attempts, goal active, retry 1, 0 turns counted
    stream_incomplete: 4 attempts, goal active, retry 1, 0 turns counted
    empty_response: 4 attempts, goal active, retry 1, 0 turns counted
    context_limit: 1 attempts, goal blocked prompt_too_large, 1 turns counted
    authentication: 1 attempts, goal paused authentication, 1 turns counted
    quota_exhausted: 1 attempts, goal paused quota, 1 turns counted
    provider_protocol: 1 attempts, goal blocked provider_protocol, 1 turns counted
    refused: 1 attempts, goal blocked provider_refused, 1 turns counted
    unsupported: 1 attempts, goal blocked unsupported_capability, 1 turns counted
    model_unavailable: 1 attempts, goal blocked model_unavailable, 1 turns counted
    prompt_too_large: 1 attempts, goal blocked prompt_too_large, 1 turns counted
    ");
}

#[tokio::test]
async fn t9_after_a_pause_for_the_key_the_user_resumes_and_the_goal_goes_on() {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let model = scripted("[[response]]\ntext = \"fine\"\nfailure = { kind = \"authentication\", times = 1 }");
    let engine = world.engine(model);
    let steps = world.run_engine(session, &engine).await;
    assert!(is_failed(&steps[0], FailureKind::Authentication), "{steps:?}");
    let pause = domain::PauseReason::Authentication;
    assert_eq!(steps[1], Step::Idle { why: IdleReason::GoalPaused { pause } });
    // A plain message does not resume it (G9).
    world.user.resume_goal(session).await.unwrap();
    let step = engine.step(session, Scope::All).await.unwrap();
    assert!(matches!(step, Step::Ran { outcome: TurnOutcome::Completed, .. }), "{step:?}");
}

#[tokio::test]
async fn an_empty_or_blank_response_is_a_failure_that_passes() {
    let world = World::new().await;
    world.skip_waits_in_place();
    let session = world.session().await;
    world.say(session, "go").await;
    let model = answering(|number, _| {
        Ok(if number < 3 { runtime::ModelResponse::default() } else { text("oh, hi") })
    });
    let steps = world.run(session, model).await;
    assert!(matches!(steps[0], Step::Ran { outcome: TurnOutcome::Completed, .. }), "{steps:?}");
    insta::assert_snapshot!(story(&world.log(session).await[4..]), @r#"
    5 runtime model_requested 1.1 attempt 1
    6 runtime model_failed 1.1 attempt 1 empty_response, again
    7 runtime model_requested 1.1 attempt 2
    8 runtime model_failed 1.1 attempt 2 empty_response, again
    9 runtime model_requested 1.1 attempt 3
    10 runtime model_responded 1.1 "oh, hi" calls []
    11 runtime turn_ended 1 completed
    "#);
}

#[tokio::test]
async fn t9_a_stop_ends_the_wait_between_attempts() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let model =
        Probe::on(scripted("[[response]]\nfailure = { kind = \"rate_limited\", retry_after_ms = 60000 }"));
    let engine = world.engine(model.clone());
    let failing = tests::Gate::default();
    let (at, waiting) = (failing.clone(), tokio::runtime::Handle::current());
    world.tape.at_each(move |event| {
        if let EventBody::ModelFailed { .. } = event.body {
            let at = at.clone();
            waiting.spawn(async move { at.pass().await });
        }
    });
    let step = crate::stop::spawn_step(&engine, session);
    failing.arrival().await;
    world.user.interrupt(session).await.unwrap();
    let Step::Ran { outcome, .. } = step.await.unwrap() else { panic!("no turn ran") };
    assert_eq!(outcome, TurnOutcome::Interrupted);
    assert_eq!(model.count(), 1);
}
