//! Histories as a seed has them, over the real store, turn loop and tools, in simulated time. At each commit another
//! process finds what a crash right before or right after it leaves, recovers it and goes on to the end, and every
//! promise is checked.
//!
//! `ZUNO_SIMULATION_SEED=17` runs the seed that a failure names, `ZUNO_SIMULATION_SEED=1..50` others.

mod aftermath;
mod chance;
mod crowd;
mod effects;
mod history;
mod image;
mod mind;
mod person;
mod promises;
mod site;
mod tally;

use std::env;
use std::ops::RangeInclusive;
use std::sync::Arc;

use domain::SessionState;
use store::CommitSide;
use tests::{Effort, Proof, story};
use tokio::runtime::Runtime;

use aftermath::{Control, Known, follow};
use chance::Chance;
use crowd::{Job, do_all};
use history::{History, Size, tell};
use image::Image;
use promises::Fault;
use tally::Tally;

/// How long histories are: long enough for a Goal with a few turns, waits and requests, short enough that many are told.
const SIZE: Size = Size { acts: 16, commits: 60 };
/// Of so many crashes, one is followed by another while it is dealt with.
const SECOND: u64 = 4;

/// Which crashes of a history are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crashes {
    None,
    /// One of so many, other ones for each seed.
    OneIn(usize),
    All,
}

/// What a run does.
#[derive(Debug, Clone)]
struct Run {
    seeds: RangeInclusive<u64>,
    crashes: Crashes,
    /// Broken variants tried in each history, each in one situation that fits.
    controls: bool,
}

impl Run {
    fn tally(mut self) -> Tally {
        if let Ok(asked) = env::var("ZUNO_SIMULATION_SEED") {
            let (first, last) = asked.split_once("..").unwrap_or((&asked, &asked));
            self.seeds = first.parse().unwrap()..=last.parse().unwrap();
            self.crashes = Crashes::All;
        }
        // The stack gives the last one first.
        let jobs = self.seeds.clone().rev().map(|seed| self.history(seed));
        let mut tally = Tally::default();
        for done in do_all(jobs.collect()) {
            match done {
                Ok(one) => tally.add(one),
                Err(failure) => tally.failures.push(failure),
            }
        }
        tally
    }

    fn history(&self, seed: u64) -> Job<Tally> {
        let run = self.clone();
        let tell = move |runtime: &Runtime| {
            let history = Arc::new(runtime.block_on(tell(seed, SIZE)));
            let (events, commits) = (history.log.len() as u64, history.images.len() as u64 / 2);
            let mut tally = Tally { histories: 1, events, commits, ..Tally::default() };
            tally.note(&format!("seed {seed}"), &history.breaches);
            let mut jobs = run.follows(&history);
            jobs.extend(run.controls.then(|| controls(&history)).into_iter().flatten());
            (tally, jobs)
        };
        Job { name: format!("seed {seed}"), run: Box::new(tell) }
    }

    fn follows(&self, history: &Arc<History>) -> Vec<Job<Tally>> {
        let every = match self.crashes {
            Crashes::None => return Vec::new(),
            Crashes::OneIn(every) => every,
            Crashes::All => 1,
        };
        let first = usize::try_from(history.seed).unwrap() % every;
        (first..history.images.len()).step_by(every).map(|at| crash(history, at)).collect()
    }
}

/// What is known of an image of a history.
fn known<'a>(history: &'a History, image: &Image) -> Known<'a> {
    let commits = image.commit - usize::from(image.side == CommitSide::Before);
    let durable = history.durable_after(commits);
    Known { session: history.session, log: &history.log, durable, asked: &history.asked }
}

/// The chance of what follows a crash: another for each.
fn chance_after(history: &History, image: &Image, round: u64) -> Chance {
    Chance::of(&[history.seed, 3, image.commit as u64, u64::from(image.side == CommitSide::After), round])
}

fn place_of(history: &History, image: &Image) -> String {
    format!("seed {}, {:?} commit {}", history.seed, image.side, image.commit)
}

/// A crash at one place of a history, and perhaps another one in what follows.
fn crash(history: &Arc<History>, at: usize) -> Job<Tally> {
    let name = place_of(history, &history.images[at]);
    let (history, place) = (Arc::clone(history), name.clone());
    let run = move |runtime: &Runtime| {
        let image = &history.images[at];
        let known = known(&history, image);
        let mut tally = Tally { crashes: 1, ..Tally::default() };
        let commit = history.durable_after(image.commit - 1).0..history.durable_after(image.commit).1;
        tally.kinds.extend(history.log[commit].iter().map(|event| (event.body.kind(), 1)));
        let mut chance = chance_after(&history, image, 0);
        let crashes = chance.one_in(SECOND);
        let first = follow(&known, image, Control::None, chance, (crashes, ("f", "Bob")));
        let first = runtime.block_on(first);
        tally.take(&place, &first);
        if let Some((second, log, asked)) = &first.second {
            let known = Known { durable: (known.durable.0, log.len()), log, asked, ..known };
            let chance = chance_after(&history, image, 1);
            let last = follow(&known, second, Control::None, chance, (false, ("g", "Cid")));
            let last = runtime.block_on(last);
            tally.take(&format!("{place}, then {:?} commit {}", second.side, second.commit), &last);
            tally.second_crashes += 1;
        }
        (tally, Vec::new())
    };
    Job { name, run: Box::new(run) }
}

/// Each broken variant once, in a situation of the history where it makes a difference.
fn controls(history: &Arc<History>) -> Vec<Job<Tally>> {
    let state_of = |image| {
        let (least, _) = known(history, image).durable;
        SessionState::fold(history.session, &history.log[..least])
    };
    let states: Vec<_> = history.images.iter().map(state_of).collect();
    let mut chance = Chance::of(&[history.seed, 4]);
    let chosen = Control::ALL.into_iter().filter_map(|control| {
        let fits = |at: &usize| {
            let before = at.checked_sub(1).map(|before| &states[before]);
            control.fits((before, &states[*at]), &history.images[*at], &history.log)
        };
        let fitting: Vec<_> = (0..history.images.len()).filter(fits).collect();
        (!fitting.is_empty()).then(|| self::control(history, *chance.pick(&fitting), control))
    });
    chosen.collect()
}

fn control(history: &Arc<History>, at: usize, control: Control) -> Job<Tally> {
    let name = format!("{}, {control:?}", place_of(history, &history.images[at]));
    let (history, place) = (Arc::clone(history), name.clone());
    let run = move |runtime: &Runtime| {
        let mut image = history.images[at].clone();
        let known = known(&history, &image);
        if control == Control::AnswersEarly {
            // Each commit has an image before it and one after it.
            let Image { database, wal, wal_bytes, .. } = history.images[at - 1].clone();
            image = Image { database, wal, wal_bytes, ..image };
        }
        let chance = chance_after(&history, &image, 2);
        let outcome = runtime.block_on(follow(&known, &image, control, chance, (false, ("f", "Bob"))));
        let mut tally = Tally::default();
        tally.take_control(&place, control, &outcome);
        (tally, Vec::new())
    };
    Job { name, run: Box::new(run) }
}

#[test]
fn e3_t7_a_history_cut_off_before_or_after_a_commit_loses_and_repeats_nothing() {
    let tally = Run { seeds: 1..=8, crashes: Crashes::OneIn(8), controls: false }.tally();
    println!("{tally}");
    tally.assert_kept();
}

/// In this one a worker falls silent in the middle of a write, and finishes it after its turn was recovered.
#[test]
fn t7_a_write_that_a_silent_worker_finishes_late_was_never_said_not_to_have_run() {
    let tally = Run { seeds: 7351..=7351, crashes: Crashes::OneIn(8), controls: false }.tally();
    tally.assert_kept();
}

#[test]
fn the_simulation_notices_what_it_is_there_for() {
    let tally = Run { seeds: 1..=4, crashes: Crashes::None, controls: true }.tally();
    println!("{tally}");
    tally.assert_kept();
    for control in Control::ALL {
        assert!(tally.controls.contains_key(&control), "{control:?} was never tried");
    }
}

#[test]
fn a_seed_tells_one_history() {
    let tell_one = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let history = runtime.block_on(tell(seed, SIZE));
        (story(&history.log), history.heads, history.images.len())
    };
    for seed in 1..=3 {
        assert_eq!(tell_one(seed), tell_one(seed), "seed {seed}");
    }
}

/// Histories of which each commit is crashed at.
const CRASHED: (u64, u64) = (40, 1_200);
/// Histories that are only told, after those: they show what workers do to each other without a crash.
const TOLD: (u64, u64) = (600, 10_000);

#[test]
#[ignore = "takes minutes; `cargo xtask prove` runs it"]
fn prove_simulation() {
    let effort = Effort::asked();
    let proof = Proof::new("simulation");
    let crashed = effort.pick(CRASHED.0, CRASHED.1);
    let told = effort.pick(TOLD.0, TOLD.1);
    let mut tally = Run { seeds: 1..=crashed, crashes: Crashes::All, controls: true }.tally();
    let only_told = crashed + 1..=crashed + told;
    let others = Run { seeds: only_told.clone(), crashes: Crashes::None, controls: false }.tally();
    let figures = (others.histories, others.commits);
    tally.failures.extend(others.failures);
    println!("{tally}");
    write_proof(proof, &tally, crashed, &only_told, figures);
    tally.assert_kept();
    if effort == Effort::Long {
        assert!(tally.crashes >= 100_000, "{} crashes", tally.crashes);
    }
}

fn write_proof(
    proof: Proof,
    tally: &Tally,
    crashed: u64,
    only_told: &RangeInclusive<u64>,
    (histories, commits): (u64, u64),
) {
    let points = tally.crashes + tally.second_crashes;
    let mut proof = proof
        .paragraph(format!(
            "Seeds 1 to {crashed}: {} histories with {} commits and {} events, over the real store, turn loop, \
             scheduler and file tools. A person, two workers and a clock take turns at each commit; the model's answers, \
             failures and silences, the deaths of workers and the person's acts follow from the seed alone.",
            tally.histories, tally.commits, tally.events
        ))
        .paragraph(format!(
            "Crashes: {} right before or right after a commit, which is both sides of every commit, and {} more while \
             such a crash was dealt with. At each one the bytes of the database and of the workspace are what another \
             process finds. It recovers {} turns, goes on until nothing is left to do, and every promise is checked: the \
             deep check of the store; what was there stands; each turn, continuation, call, row, charge and plan revision \
             once; each effect at most once, and as its result says; nothing for a Goal that is over or held; \
             no request over the budget; usage as charged; `wake_at` exactly if something can run; a second recovery \
             finds nothing; every input is read or cancelled; the Goal can be ended and a last prompt is answered.",
            tally.crashes, tally.second_crashes, tally.lost_turns
        ))
        .paragraph(format!(
            "Seeds {} to {}: {histories} more histories with {commits} commits, without other crashes than their own.",
            only_told.start(),
            only_told.end()
        ))
        .table(
            "Crashes by what is decided in the commit",
            ["event", "crashes"],
            tally.kinds.iter().map(|(kind, count)| [format!("`{kind}`"), count.to_string()]),
        )
        .table(
            "Calls without a result, as they were settled",
            ["outcome", "calls"],
            tally.settled.iter().map(|(outcome, count)| [format!("`{outcome}`"), count.to_string()]),
        )
        .table(
            "Broken variants that have to be noticed",
            ["variant", "noticed", "of"],
            tally.controls.iter().map(|(control, noticed)| {
                [control.what().to_owned(), noticed.noticed.to_string(), noticed.of.to_string()]
            }),
        );
    let faults = [
        ("duplicated", Fault::Duplicated),
        ("lost", Fault::Lost),
        ("ghost", Fault::Ghost),
        ("plan_caused", Fault::PlanCaused),
    ];
    for (name, fault) in faults {
        let control = tally.noticed(fault);
        proof = proof.fault(name, tally.seen(fault), points, control.noticed, control.of);
    }
    proof.write();
}
