//! A turn of a Goal, killed before and after each of its commits.

use std::collections::BTreeSet;
use std::fs;

use domain::{CallOutcome, EventBody, GoalStatus, PauseReason, SessionId};
use store::SystemClock;
use tests::{CrashPoint, OpenAiServer, World, Zuno, story};

use crate::agent::{self, EFFECT, EFFECTS, NOTES};
use crate::points::at_each_point;
use crate::wreck::Wreck;

/// The situations that a turn can be killed in. Each must occur, or the test tries less than it says.
const SITUATIONS: [&str; 10] = [
    "no turn was admitted",
    "admitted, the model not asked",
    "the model asked, no answer recorded",
    "answer recorded, no call admitted",
    "between two calls",
    "a write admitted and not done",
    "a write done, its result not recorded",
    "a command admitted and not run",
    "a command run, its result not recorded",
    "the turn ended",
];

/// A worker on a Goal that takes one turn.
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
        world.goal(session, "Write the notes and append the line").await;
        let server = OpenAiServer::start(|_, request| agent::works_on_the_goal(request)).await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        Self { world, zuno, session, _server: server }
    }

    fn effects(&self) -> String {
        fs::read_to_string(self.world.path(EFFECTS)).unwrap_or_default()
    }

    async fn goal(&self) -> GoalStatus {
        self.world.view(self.session).await.goal.unwrap().status
    }

    /// Where the worker was when it was killed.
    fn situation(&self, wreck: &Wreck) -> &'static str {
        let started = wreck.log.iter().any(|event| matches!(event.body, EventBody::TurnStarted { .. }));
        let Some(_) = wreck.running else {
            return if started { "the turn ended" } else { "no turn was admitted" };
        };
        let effect_is_there = self.effects() == EFFECT;
        match (wreck.open.values().max(), &wreck.log.last().unwrap().body) {
            (Some(CallOutcome::Uncertain), _) if effect_is_there => "a command run, its result not recorded",
            (Some(CallOutcome::Uncertain), _) => "a command admitted and not run",
            (Some(_), EventBody::CallAdmitted { call, tool, .. }) if tool != "read_file" => {
                match wreck.open[call] {
                    CallOutcome::Succeeded => "a write done, its result not recorded",
                    _ => "a write admitted and not done",
                }
            }
            (_, EventBody::TurnStarted { .. }) => "admitted, the model not asked",
            (_, EventBody::ModelRequested { .. }) => "the model asked, no answer recorded",
            (Some(_), EventBody::GoalCharged { .. }) => "answer recorded, no call admitted",
            (Some(_), _) => "between two calls",
            (None, _) => "between a result and what follows it",
        }
    }
}

/// Kills a worker at a point, a second one at a point of its recovery if one is given, and lets others go on until the
/// Goal is reached. `None` if the turn has no such point.
async fn killed_at(point: CrashPoint, recovery: Option<CrashPoint>) -> Option<&'static str> {
    let case = Case::new().await;
    let Case { world, zuno, session, .. } = &case;
    let id = session.to_string();
    let work = ["goal", "run", "--session", &id, "--once", "--json"];
    let mut worker = zuno.start_until(point, &work);
    if !worker.reaches_its_point().await {
        assert_eq!(worker.ends().await.code(), Some(0), "{}", worker.printed());
        return None;
    }
    let seen = world.log(*session).await;
    worker.kill();
    let wreck = Wreck::examine(world, *session).await;
    assert_eq!(wreck.log, seen, "a reader saw something else than what is durable");
    for (seq, kind) in worker.told() {
        let is_there = wreck.log.iter().any(|event| event.seq.0 == seq && event.body.kind() == kind);
        assert!(is_there, "{point}: it told of event {seq}, {kind}, which is not durable");
    }
    let situation = case.situation(&wreck);
    if let Some(point) = recovery {
        assert!(wreck.running.is_some(), "{point}: {situation}");
        let mut second = zuno.start_until(point, &work);
        assert!(second.reaches_its_point().await, "{point}: {}", second.printed());
        second.kill();
    }
    case.goes_on_to_the_end(&wreck, &work).await;
    let second = recovery.map_or_else(String::new, |point| format!(", recovery killed {point}"));
    println!("{point:<10} {situation}: {}{second}", decision(&wreck));
    Some(situation)
}

impl Case {
    /// Lets other workers go on until the Goal is reached, with the user's resume where nobody can tell what happened.
    async fn goes_on_to_the_end(&self, wreck: &Wreck, work: &[&str]) {
        let Self { world, zuno, session, .. } = self;
        let mut next = zuno.run(work).await;
        let mut log = world.log(*session).await;
        wreck.check(&log);
        if let Some(call) = wreck.uncertain() {
            assert_eq!(self.goal().await, GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
            assert_eq!(next.code, Some(7), "{next:?}");
            zuno.run(work).await;
            assert_eq!(world.log(*session).await, log, "nothing goes on before the user says so");
            let resumed = zuno.run(&["goal", "resume", "--session", &session.to_string()]).await;
            assert_eq!(resumed.code, Some(0), "{resumed:?}");
            next = zuno.run(work).await;
            log = world.log(*session).await;
            wreck.check(&log);
        }
        let told = story(&log);
        assert_eq!(next.code, Some(0), "{next:?}\n{told}");
        assert_eq!(self.goal().await, GoalStatus::Completed, "\n{told}");
        assert_eq!(self.effects(), EFFECT, "the effect is there once\n{told}");
        assert_eq!(world.read(NOTES), "two\n", "\n{told}");
        let entries = fs::read_dir(world.workspace()).unwrap();
        let names: BTreeSet<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().eq([EFFECTS, NOTES]), "{names:?}");
        zuno.assert_sound().await;
    }
}

fn decision(wreck: &Wreck) -> String {
    let Some(turn) = wreck.running else { return "nothing to recover".to_owned() };
    let calls = wreck.open.iter().map(|(call, outcome)| format!(", {call} {}", outcome.name()));
    format!("turn {turn} lost{}", calls.collect::<String>())
}

/// Kills a worker before and after each commit of its turn. Gives how many points that are.
pub(crate) async fn points() -> u64 {
    let situations = at_each_point(|point| killed_at(point, None)).await;
    let missed: Vec<_> = SITUATIONS.iter().filter(|situation| !situations.contains(situation)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
    situations.len() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_t7_a_turn_killed_before_and_after_each_commit_is_decided_once_and_its_effects_happen_once() {
    points().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_t7_a_recovery_that_is_killed_itself_leaves_one_decision() {
    use CrashPoint::{After, Before};
    // A write done, one not done, a command run, and a Goal completed by a turn that did not end.
    for turn in [Before(6), After(9), Before(16), After(20)] {
        for recovery in [Before(1), After(1)] {
            killed_at(turn, Some(recovery)).await.unwrap();
        }
    }
}
