//! A whole Goal through the real program, with workers killed at random moments, against the same Goal undisturbed.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::iter::repeat_n;
use std::time::Duration;

use domain::{CallOutcome, EventBody, GoalStatus, LaneId, PauseReason, Revision, SessionId, Snapshot};
use store::SystemClock;
use tests::{CrashPoint, Effort, Finished, OpenAiServer, Proof, Running, World, Zuno, story};
use tokio::time::sleep;

use crate::agent::{Care, EFFECTS};
use crate::parts::{names, works};
use crate::wreck::{Wreck, check_history, lost};
use crate::{at_each_commit, background, input};

/// A worker is killed within so many commits, on average after half of them: about a third of a turn.
const COMMITS: u64 = 12;
/// How long after an event a worker is killed at most, in milliseconds: longer than a command takes.
const MOMENT_MS: u64 = 40;
/// Resumes in a row after which a Goal is believed never to go on.
const RESUMES: u32 = 10;

/// When a worker is killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    At(CrashPoint),
    /// So long after so many events.
    Moment {
        events: u64,
        then_ms: u64,
    },
    /// As soon as its command has done something.
    Effect,
}

impl Kill {
    /// The choice of a seed.
    fn drawn(seed: u64, number: u64) -> Self {
        let draw = |what: &str, below: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, number, what).hash(&mut hasher);
            hasher.finish() % below
        };
        let commit = u32::try_from(1 + draw("commit", COMMITS)).unwrap();
        match draw("kind", 8) {
            0 | 1 => Self::At(CrashPoint::Before(commit)),
            2 | 3 => Self::At(CrashPoint::After(commit)),
            4..=6 => Self::Moment { events: draw("events", 2 * COMMITS), then_ms: draw("moment", MOMENT_MS) },
            _ => Self::Effect,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::At(CrashPoint::Before(_)) => "right before a commit",
            Self::At(CrashPoint::After(_)) => "right after a commit",
            Self::Moment { .. } => "at any moment",
            Self::Effect => "right after an effect",
        }
    }
}

/// A Goal on its way.
struct Marathon {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    server: OpenAiServer,
    kills: BTreeMap<&'static str, u64>,
    resumes: BTreeMap<&'static str, u64>,
    settled: BTreeMap<CallOutcome, u64>,
    /// Events that a worker told its reader before it was killed.
    told: u64,
}

/// What is there at the end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    files: BTreeMap<String, String>,
    plan: (Revision, Snapshot),
}

impl Marathon {
    async fn begin(parts: usize, care: Care) -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Do all parts").await;
        let server = OpenAiServer::start(move |_, request| works(request, parts, care)).await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        let (kills, resumes, settled) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { world, zuno, session, server, kills, resumes, settled, told: 0 }
    }

    /// Lets a worker go on until it is killed. `before` is what the last one left.
    async fn kill(&mut self, kill: Kill, before: Option<Wreck>) -> Wreck {
        let id = self.session.to_string();
        let work = ["goal", "run", "--session", &id, "--once", "--json"];
        let begins_at = self.events().await;
        let worker = loop {
            let mut worker = match kill {
                Kill::At(point) => self.zuno.start_until(point, &work),
                Kill::Moment { .. } | Kill::Effect => self.zuno.start(&work),
            };
            if self.comes_to(kill, begins_at, &mut worker).await && worker.kill_if_it_runs() {
                break worker;
            }
            // It rested before it came to that: for the user, who lets it go on, or for good.
            worker.ends().await;
            self.resume().await;
        };
        *self.kills.entry(kill.name()).or_default() += 1;
        let wreck = Wreck::examine(&self.world, self.session).await;
        for (seq, kind) in worker.told() {
            let is_there = wreck.log.iter().any(|event| event.seq.0 == seq && event.body.kind() == kind);
            assert!(is_there, "{kill:?}: it told of event {seq}, {kind}, which is not durable");
            self.told += 1;
        }
        if let Some(before) = before.filter(|before| before.log.len() < wreck.log.len()) {
            before.check_sequel(&wreck.log, &story(&wreck.log));
        }
        for outcome in wreck.open.values() {
            *self.settled.entry(*outcome).or_default() += 1;
        }
        wreck
    }

    /// Whether the worker came to where it is to be killed.
    async fn comes_to(&self, kill: Kill, begins_at: u64, worker: &mut Running) -> bool {
        let effects = self.effects();
        loop {
            let is_there = match kill {
                Kill::At(_) => return worker.reaches_its_point().await,
                Kill::Moment { events, .. } => self.events().await >= begins_at + events,
                Kill::Effect => self.effects() != effects,
            };
            if is_there {
                if let Kill::Moment { then_ms, .. } = kill {
                    sleep(Duration::from_millis(then_ms)).await;
                }
                return true;
            }
            if worker.has_ended() {
                return false;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// How many there are.
    async fn events(&self) -> u64 {
        self.world.store.head(self.session).await.unwrap().unwrap().state.core.head.0
    }

    fn effects(&self) -> String {
        fs::read_to_string(self.world.path(EFFECTS)).unwrap_or_default()
    }

    async fn status(&self) -> GoalStatus {
        self.world.view(self.session).await.goal.unwrap().status
    }

    /// Lets a Goal go on that waits for the user, as it must after a call that nobody can tell about, and after five lost
    /// turns in a row.
    async fn resume(&mut self) {
        let status = self.status().await;
        let GoalStatus::Paused(
            reason @ (PauseReason::UncertainSideEffect { .. } | PauseReason::RepeatedFailure),
        ) = status
        else {
            let kills: u64 = self.kills.values().sum();
            panic!(
                "after {kills} kills the Goal is {status:?}\n{}",
                story(&self.world.log(self.session).await)
            );
        };
        *self.resumes.entry(reason.name()).or_default() += 1;
        let resumed = self.zuno.run(&["goal", "resume", "--session", &self.session.to_string()]).await;
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
    }

    /// Lets workers go on to the end, undisturbed.
    async fn finish(&mut self) -> End {
        let id = self.session.to_string();
        for _ in 0..RESUMES {
            let Finished { code, out, err } =
                self.zuno.run(&["goal", "run", "--session", &id, "--once"]).await;
            if self.status().await == GoalStatus::Completed {
                assert_eq!(code, Some(0), "{out}{err}");
                self.zuno.assert_sound().await;
                return self.end().await;
            }
            self.resume().await;
        }
        panic!("{RESUMES} resumes, and no end:\n{}", story(&self.world.log(self.session).await));
    }

    async fn end(&self) -> End {
        let entries = fs::read_dir(self.world.workspace()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files = names.map(|name| (name.clone(), self.world.read(&name))).collect();
        let head = self.world.store.head(self.session).await.unwrap().unwrap();
        let plan = head.state.current_plan(&LaneId::main()).unwrap();
        End { files, plan: (plan.revision, plan.snapshot.clone()) }
    }
}

/// What is told of a run. An event is told when its worker said it before it was killed; all of them are in the log.
const COLUMNS: [&str; 8] =
    ["seed", "kills", "turns", "lost", "calls cut off", "pauses resumed", "model requests", "events told"];

fn listed<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let counts: Vec<_> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// A marathon that is over.
struct Run {
    seed: u64,
    marathon: Marathon,
    end: End,
    /// How many lines are there once too often, and how many not at all.
    duplicated: u64,
    missing: u64,
    lost_turns: usize,
    turns: usize,
}

/// Runs a Goal of so many parts under so many kills.
async fn run(parts: usize, care: Care, seed: u64, kills: impl IntoIterator<Item = Kill>) -> Run {
    let mut marathon = Marathon::begin(parts, care).await;
    let mut wreck = None;
    for kill in kills {
        wreck = Some(marathon.kill(kill, wreck).await);
    }
    let end = marathon.finish().await;
    let log = marathon.world.log(marathon.session).await;
    let told = story(&log);
    if let Some(wreck) = wreck {
        wreck.check_sequel(&log, &told);
    }
    check_history(&log, &told);
    let effects = marathon.effects();
    let times = |name: &String| effects.lines().filter(|line| line == name).count();
    let duplicated = names(parts).map(|name| times(&name).saturating_sub(1)).sum::<usize>() as u64;
    let missing = names(parts).filter(|name| times(name) == 0).count() as u64;
    let lost_turns = lost(&log).len();
    let turns = log.iter().filter(|event| matches!(event.body, EventBody::TurnStarted { .. })).count();
    Run { seed, marathon, end, duplicated, missing, lost_turns, turns }
}

/// Kills as a seed has them.
fn drawn(seed: u64, kills: u64) -> impl Iterator<Item = Kill> {
    (1..=kills).map(move |number| Kill::drawn(seed, number))
}

impl Run {
    fn kills(&self) -> u64 {
        self.marathon.kills.values().sum()
    }

    /// What happened, in the columns of [`COLUMNS`].
    fn row(&self) -> [String; 8] {
        let Self { seed, marathon, lost_turns, turns, .. } = self;
        let Marathon { kills, resumes, settled, server, told, .. } = marathon;
        let settled = settled.iter().map(|(outcome, count)| (outcome.name(), *count));
        [
            seed.to_string(),
            listed(kills.iter().map(|(name, count)| (*name, *count))),
            turns.to_string(),
            lost_turns.to_string(),
            listed(settled),
            listed(resumes.iter().map(|(name, count)| (*name, *count))),
            server.bodies().len().to_string(),
            told.to_string(),
        ]
    }

    fn tell(&self) -> String {
        let cells = COLUMNS.iter().zip(self.row()).map(|(column, cell)| format!("{column}: {cell}"));
        cells.collect::<Vec<_>>().join("; ")
    }

    #[track_caller]
    fn assert_same(&self, undisturbed: &Self) {
        println!("{}", self.tell());
        assert_eq!((self.duplicated, self.missing), (0, 0), "{}", self.marathon.effects());
        assert_eq!(self.end, undisturbed.end);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_t7_a_goal_survives_random_kills_and_ends_as_if_undisturbed() {
    let undisturbed = run(3, Care::Looks, 0, []).await;
    // Of this seed the first six kills are of every kind.
    run(3, Care::Looks, 11, drawn(11, 6)).await.assert_same(&undisturbed);
}

/// The control that repeats a command which may have run: its worker is killed right after an effect, so often.
async fn repeating(kills: usize) -> Run {
    for _ in 0..ATTEMPTS {
        let run = run(kills + 1, Care::Repeats, 0, vec![Kill::Effect; kills]).await;
        println!("{}", run.tell());
        if run.duplicated > 0 {
            return run;
        }
    }
    panic!("no command was cut off between its effect and its result");
}

/// How often the kill after an effect is tried: on a busy machine the worker may record the result before it comes.
const ATTEMPTS: u32 = 5;

/// The control that takes a command for done which may have run: its worker is killed each time when the command is
/// admitted and has not begun.
async fn trusting(kills: usize) -> Run {
    // The commits up to there, for the first worker, and for one that goes on after a worker was killed there.
    let (first, later) = (CrashPoint::After(13), CrashPoint::After(17));
    let kills = [first].into_iter().chain(repeat_n(later, kills - 1)).map(Kill::At);
    let kills: Vec<_> = kills.collect();
    let run = run(kills.len() + 1, Care::Trusts, 0, kills).await;
    assert!(run.missing > 0, "{}", run.tell());
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_catches_agents_that_repeat_or_trust_what_nobody_can_tell() {
    let (repeating, trusting) = (repeating(1).await, trusting(1).await);
    println!("{}\n{}", repeating.tell(), trusting.tell());
    assert_eq!((repeating.duplicated, repeating.missing), (1, 0), "{}", repeating.marathon.effects());
    assert_eq!((trusting.duplicated, trusting.missing), (0, 1), "{}", trusting.marathon.effects());
}

/// Parts of the Goal in the proof: the work of more commits than fifty kills leave room for.
const PARTS: usize = 24;
/// Kills of one Goal.
const KILLS: u64 = 50;
/// Kills of each control.
const CONTROL_KILLS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; `cargo xtask prove` runs it"]
async fn prove_a_goal_survives_fifty_random_kills() {
    let runs = Effort::asked().pick(1, 20);
    let mut proof = Proof::new("endurance");
    let points = at_each_commit::points().await + background::points().await + input::points().await;
    let undisturbed = run(PARTS, Care::Looks, 0, []).await;
    let (mut kills, mut duplicated, mut missing) = (0, 0, 0);
    let mut rows = Vec::new();
    for seed in 1..=runs {
        let run = run(PARTS, Care::Looks, seed, drawn(seed, KILLS)).await;
        run.assert_same(&undisturbed);
        kills += run.kills();
        duplicated += run.duplicated;
        missing += run.missing;
        rows.push(run.row());
    }
    let (repeating, trusting) = (repeating(CONTROL_KILLS).await, trusting(CONTROL_KILLS).await);
    proof = proof
        .paragraph(format!(
            "A Goal of {PARTS} parts, each a turn that revises the plan, writes and edits a file and appends a line by an \
             unsandboxed command, runs through the real program. Its workers are killed with SIGKILL {KILLS} times. It \
             ends with the same files, byte for byte, and the same plan as an undisturbed run, which took {} turns and \
             {} model requests. What the rules demand of a person, the harness does: it resumes the Goal after a call \
             that nobody can tell about and after five lost turns in a row.",
            undisturbed.turns,
            undisturbed.marathon.server.bodies().len()
        ))
        .table("Runs", COLUMNS, rows)
        .paragraph(format!(
            "Besides, a worker was killed at {points} chosen points: before and after each commit of a turn for a Goal, of \
             one for a prompt, and of a wait for a background command. Controls: an agent that repeats a command of which nobody can tell whether it ran did \
             {} things twice in {CONTROL_KILLS} kills, and one that takes it for done left out {}.",
            repeating.duplicated, trusting.missing
        ))
        .fault("duplicated", duplicated, kills + points, repeating.duplicated, repeating.kills())
        .fault("lost", missing, kills + points, trusting.missing, trusting.kills());
    proof.write();
}
