//! A turn for a prompt, without a Goal, killed before and after each of its commits.

use std::collections::BTreeSet;
use std::fs;

use domain::{Event, EventBody, GoalStatus, PauseReason, SessionId};
use store::SystemClock;
use tests::{CrashPoint, OpenAiServer, World, Zuno, story};

use crate::agent::{self, EFFECT, EFFECTS};
use crate::points::at_each_point;
use crate::wreck::Wreck;

/// What the person writes.
const PROMPT: &str = "Append the line, please.";

struct Case {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    server: OpenAiServer,
}

impl Case {
    async fn new() -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        let server = OpenAiServer::start(|_, request| agent::runs_the_command(request)).await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        Self { world, zuno, session, server }
    }

    fn effects(&self) -> String {
        fs::read_to_string(self.world.path(EFFECTS)).unwrap_or_default()
    }

    async fn log(&self) -> Vec<Event> {
        self.world.log(self.session).await
    }

    /// Lets another worker do what is due.
    async fn goes_on(&self) -> Vec<Event> {
        let done = self.zuno.run(&["goal", "run", "--session", &self.session.to_string(), "--once"]).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        self.log().await
    }
}

fn count(log: &[Event], is: impl Fn(&EventBody) -> bool) -> usize {
    log.iter().filter(|event| is(&event.body)).count()
}

fn is_consumed(body: &EventBody) -> bool {
    matches!(body, EventBody::InputConsumed { .. })
}

fn is_queued(body: &EventBody) -> bool {
    matches!(body, EventBody::InputQueued { .. })
}

fn is_started(body: &EventBody) -> bool {
    matches!(body, EventBody::TurnStarted { .. })
}

/// Kills `zuno run` at a point and lets a worker find what it left. `None` if the turn has no such point.
async fn killed_at(point: CrashPoint) -> Option<&'static str> {
    let case = Case::new().await;
    let Case { world, zuno, session, server } = &case;
    let id = session.to_string();
    let mut prompt = zuno.start_until(point, &["run", PROMPT, "--session", &id]);
    if !prompt.reaches_its_point().await {
        assert_eq!(prompt.ends().await.code(), Some(0), "{}", prompt.printed());
        assert_eq!(case.effects(), EFFECT);
        return None;
    }
    prompt.kill();
    let wreck = Wreck::examine(world, *session).await;
    let (effects, asked) = (case.effects(), server.bodies().len());
    let log = case.goes_on().await;
    wreck.check(&log);
    let told = format!("{point}\n{}", story(&log));
    let fate = if count(&wreck.log, is_queued) == 0 {
        assert_eq!(count(&log, is_started), 0, "{told}");
        "never accepted"
    } else if count(&wreck.log, is_consumed) == 0 {
        assert_eq!(count(&log, is_consumed), 1, "{told}");
        assert_eq!(case.effects(), EFFECT, "{told}");
        "given back and run"
    } else {
        assert_eq!(count(&log, is_started), 1, "{told}");
        assert_eq!((case.effects(), server.bodies().len()), (effects, asked), "{told}");
        "consumed and not rerun"
    };
    assert_eq!(world.view(*session).await.queued_inputs, 0, "{told}");
    if let Some(call) = wreck.uncertain() {
        check_that_a_goal_waits(&case, call).await;
    }
    zuno.assert_sound().await;
    println!("{point:<10} {fate}");
    Some(fate)
}

/// A call that may have happened holds the next Goal until the user resumes it in so many words.
async fn check_that_a_goal_waits(case: &Case, call: domain::CallRef) {
    let set = case.zuno.run(&["goal", "set", "--session", &case.session.to_string(), "Go on"]).await;
    assert_eq!(set.code, Some(0), "{set:?}");
    let goal = case.world.view(case.session).await.goal.unwrap();
    assert_eq!(goal.status, GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
}

/// Kills `zuno run` before and after each commit of its turn. Gives how many points that are.
pub(crate) async fn points() -> u64 {
    let fates = at_each_point(killed_at).await;
    let met: BTreeSet<_> = fates.iter().copied().collect();
    assert!(met.into_iter().eq(["consumed and not rerun", "given back and run", "never accepted"]));
    fates.len() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_i2_t7_a_prompt_killed_before_and_after_each_commit_is_not_lost_and_not_rerun() {
    points().await;
}

#[tokio::test]
async fn i2_a_prompt_whose_workers_die_before_they_ask_is_given_back_three_times_and_then_cancelled() {
    let case = Case::new().await;
    let id = case.session.to_string();
    case.world.say(case.session, PROMPT).await;
    // A worker first recovers what the one before it left, then admits the turn.
    for (commit, worker) in [1, 2, 2, 2].into_iter().zip(1..) {
        let work = ["goal", "run", "--session", &id, "--once"];
        let mut worker_process = case.zuno.start_until(CrashPoint::After(commit), &work);
        assert!(worker_process.reaches_its_point().await, "worker {worker}: {}", worker_process.printed());
        worker_process.kill();
    }
    let log = case.goes_on().await;
    let told = story(&log);
    let returned = count(&log, |body| matches!(body, EventBody::InputReturned { .. }));
    let cancelled = count(&log, |body| {
        matches!(body, EventBody::InputCancelled { reason: domain::InputCancelReason::ReturnedTooOften, .. })
    });
    assert_eq!((count(&log, is_started), returned, cancelled), (4, 3, 1), "{told}");
    assert_eq!(case.server.bodies().len(), 0, "nobody asked the model");
    assert_eq!(case.world.view(case.session).await.queued_inputs, 0);
}
