//! A worker whose Goal waits for a background command, killed before and after each of its commits.

use std::collections::BTreeSet;
use std::fs;

use domain::{Event, EventBody, GoalStatus, InputId, InputKind, PauseReason, SessionId};
use serde_json::{Value, json};
use store::SystemClock;
use tests::{CrashPoint, OpenAiServer, Reply, World, Zuno, story};

use crate::agent::{EFFECT, EFFECTS};
use crate::agent::{Standing, answer, answered, call, calls, standing};
use crate::points::at_each_point;
use crate::wreck::Wreck;

/// A command that ends after the turn that waits for it, which needs two commits more when the file appears.
const COMMAND: &str = "until [ -e go ]; do sleep 0.05; done; sleep 0.5; echo happened >> effects.txt";
/// What the agent says when nothing is left to do but to wait.
const WAITING: &str = "I wait.";
/// Resumes after which a Goal is believed never to go on.
const RESUMES: usize = 3;

/// The situations that a worker can be killed in. Each must occur, or the test tries less than it says.
const SITUATIONS: [&str; 4] =
    ["before the command", "the command and its turn run", "the command runs alone", "the command is over"];

/// Starts the command, waits for it, and completes the Goal once its line is there.
fn waits(request: &Value) -> Reply {
    let calls = calls(request);
    let messages = request["messages"].as_array().unwrap();
    let report = |command: &str, ended: &str| {
        let begins = format!("[Background command {command} ended: {ended}");
        let is_it = |message: &&Value| message["content"].as_str().is_some_and(|text| text.contains(&begins));
        messages.iter().rposition(|message| is_it(&message))
    };
    // At most two: the one that is cut off, and its repetition.
    let started =
        [2, 1].into_iter().find(|number| answered(&calls, "shell", &format!("\"command\":{number}")));
    let start = call("shell", &json!({ "command": COMMAND, "background": true }));
    let Some(command) = started.map(|number| number.to_string()) else { return answer(vec![start]) };
    let wait =
        json!({ "until": "command", "command": started, "seconds": 600, "note": format!("of {command}") });
    let is_there = || match standing(&calls, "read_file", EFFECTS) {
        Standing::Done => Some(answered(&calls, "read_file", EFFECT.trim_end())),
        Standing::Open | Standing::Uncertain => None,
    };
    let done = match (report(&command, "succeeded"), report(&command, "uncertain")) {
        (Some(_), _) => true,
        (None, Some(_)) => match is_there() {
            None => return answer(vec![call("read_file", &json!({ "path": EFFECTS }))]),
            Some(is_there) => is_there,
        },
        (None, None) if !answered(&calls, "goal_wait", &format!("command {command}")) => {
            return answer(vec![call("goal_wait", &wait)]);
        }
        (None, None) => return Reply::text(WAITING),
    };
    match (done, answered(&calls, "goal_update", "\"status\":\"completed\"")) {
        (false, _) => answer(vec![start]),
        (true, false) => answer(vec![call("goal_update", &json!({ "status": "completed" }))]),
        (true, true) => Reply::text("The line is there."),
    }
}

struct Case {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    _server: OpenAiServer,
}

impl Case {
    async fn new() -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Append the line in the background").await;
        let go = world.path("go");
        let server = OpenAiServer::start(move |_, request| {
            let reply = waits(request);
            if matches!(&reply, Reply::Answer { text, .. } if text == WAITING) {
                fs::write(&go, "").unwrap();
            }
            reply
        })
        .await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        Self { world, zuno, session, _server: server }
    }

    fn effects(&self) -> String {
        fs::read_to_string(self.world.path(EFFECTS)).unwrap_or_default()
    }

    async fn goal(&self) -> GoalStatus {
        self.world.view(self.session).await.goal.unwrap().status
    }

    /// Lets other workers go on until the Goal is reached, with the user's resume where nobody can tell what happened.
    async fn goes_on_to_the_end(&self, wreck: &Wreck) -> Vec<Event> {
        let id = self.session.to_string();
        let work = ["goal", "run", "--session", &id, "--once"];
        for resumes in 0..RESUMES {
            let next = self.zuno.run(&work).await;
            let log = self.world.log(self.session).await;
            wreck.check(&log);
            let told = story(&log);
            match self.goal().await {
                GoalStatus::Completed => {
                    assert_eq!(next.code, Some(0), "{next:?}\n{told}");
                    return log;
                }
                GoalStatus::Paused(PauseReason::UncertainSideEffect { .. }) => {
                    assert_eq!((next.code, resumes), (Some(7), 0), "{next:?}\n{told}");
                    assert!(!wreck.commands.is_empty(), "nothing was uncertain\n{told}");
                    let resumed = self.zuno.run(&["goal", "resume", "--session", &id]).await;
                    assert_eq!(resumed.code, Some(0), "{resumed:?}");
                }
                other => panic!("{other:?}\n{told}"),
            }
        }
        panic!("no end after {RESUMES} resumes");
    }
}

/// Where the worker was when it was killed.
fn situation(wreck: &Wreck) -> &'static str {
    let started = wreck.log.iter().any(|event| matches!(event.body, EventBody::CommandStarted { .. }));
    match (started, wreck.commands.is_empty(), wreck.running) {
        (false, ..) => SITUATIONS[0],
        (true, false, Some(_)) => SITUATIONS[1],
        (true, false, None) => SITUATIONS[2],
        (true, true, _) => SITUATIONS[3],
    }
}

/// Each command that was started ended, and its report was read.
#[track_caller]
fn assert_each_is_reported(log: &[Event]) {
    let (mut started, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let (mut reports, mut read) = (BTreeSet::new(), BTreeSet::new());
    for event in log {
        match &event.body {
            EventBody::CommandStarted { command } => started.extend([command.id]),
            EventBody::CommandEnded { command, .. } => ended.extend([*command]),
            EventBody::InputQueued { input: InputKind::Report, .. } => reports.extend([InputId(event.seq)]),
            EventBody::InputConsumed { rows, .. } => read.extend(rows.iter().copied()),
            _ => {}
        }
    }
    let told = story(log);
    assert_eq!((&started, started.len(), &reports), (&ended, reports.len(), &read), "\n{told}");
}

/// Kills a worker at a point and lets others go on until the Goal is reached. `None` if there is no such point.
async fn killed_at(point: CrashPoint) -> Option<&'static str> {
    let case = Case::new().await;
    let Case { world, zuno, session, .. } = &case;
    let mut worker = zuno.start_until(point, &["goal", "run", "--session", &session.to_string(), "--once"]);
    if !worker.reaches_its_point().await {
        assert_eq!(worker.ends().await.code(), Some(0), "{}", worker.printed());
        return None;
    }
    worker.kill();
    let wreck = Wreck::examine(world, *session).await;
    let log = case.goes_on_to_the_end(&wreck).await;
    assert_each_is_reported(&log);
    assert_eq!(case.effects(), EFFECT, "the effect is there once\n{}", story(&log));
    zuno.assert_sound().await;
    let situation = situation(&wreck);
    println!("{point:<10} {situation}");
    Some(situation)
}

/// Kills a worker before and after each of its commits. Gives how many points that are.
pub(crate) async fn points() -> u64 {
    let situations = at_each_point(killed_at).await;
    let missed: Vec<_> = SITUATIONS.iter().filter(|situation| !situations.contains(situation)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
    situations.len() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_t7_g10_i5_a_wait_for_a_background_command_survives_a_kill_before_and_after_each_commit() {
    points().await;
}
