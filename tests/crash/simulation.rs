//! Histories as a seed has them, over the real store, turn loop and tools, in simulated time. At each commit another
//! process finds what a crash right before or right after it leaves, recovers it and goes on to the end, and every
//! promise is checked.
//!
//! `ZUNO_SIMULATION_SEED=17` runs the seed that a failure names, `ZUNO_SIMULATION_SEED=1..50` others.

mod aftermath;
mod chance;
mod effects;
mod history;
mod image;
mod mind;
mod person;
mod promises;
mod site;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::CallOutcome;
use store::CommitSide;
use tests::{Effort, Proof, story};

use aftermath::{Control, Known, Outcome, follow};
use chance::Chance;
use history::{History, Size, tell};
use image::Image;
use promises::{Breach, Fault};

/// How long histories are: long enough for a Goal with a few turns, waits and requests, short enough that many are told.
const SIZE: Size = Size { acts: 12, commits: 48 };
/// Seeds at a time: a history mostly waits for the threads of its database.
const AT_A_TIME: usize = 4;
/// Of so many crashes, one is followed by another while it is dealt with.
const SECOND: u64 = 4;

/// What many histories came to.
#[derive(Default)]
struct Tally {
    histories: u64,
    commits: u64,
    /// Crashes of the workers of a history.
    crashes: u64,
    /// Crashes of the process that deals with one.
    second_crashes: u64,
    lost_turns: u64,
    settled: BTreeMap<&'static str, u64>,
    /// Crashes before and after commits that begin with such an event.
    kinds: BTreeMap<&'static str, u64>,
    /// Events of such kinds in all histories.
    events: u64,
    failures: Vec<String>,
    faults: BTreeMap<Fault, u64>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.commits += other.commits;
        self.crashes += other.crashes;
        self.second_crashes += other.second_crashes;
        self.lost_turns += other.lost_turns;
        self.events += other.events;
        for (name, count) in other.settled {
            *self.settled.entry(name).or_default() += count;
        }
        for (name, count) in other.kinds {
            *self.kinds.entry(name).or_default() += count;
        }
        self.failures.extend(other.failures);
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }

    fn note(&mut self, place: &str, breaches: &[Breach]) {
        let faults: std::collections::BTreeSet<_> = breaches.iter().map(|breach| breach.fault).collect();
        for fault in faults {
            *self.faults.entry(fault).or_default() += 1;
        }
        self.failures.extend(breaches.iter().map(|breach| format!("{place}: {breach}")));
    }

    fn take(&mut self, outcome: &Outcome) {
        self.lost_turns += outcome.lost_turns as u64;
        for settled in &outcome.settled {
            *self.settled.entry(CallOutcome::name(*settled)).or_default() += 1;
        }
    }
}

fn known<'a>(history: &'a History, image: &Image) -> Known<'a> {
    let commits = image.commit - usize::from(image.side == CommitSide::Before);
    Known {
        session: history.session,
        log: &history.log,
        durable: history.durable_after(commits),
        asked: &history.asked,
    }
}

/// The chance of what follows a crash: another for each.
fn chance_after(history: &History, image: &Image, round: u64) -> Chance {
    Chance::of(&[history.seed, 3, image.commit as u64, u64::from(image.side == CommitSide::After), round])
}

/// Tells a history and crashes it at each side of each commit.
async fn crash_everywhere(seed: u64) -> Tally {
    let history = tell(seed, SIZE).await;
    let mut tally = Tally { histories: 1, events: history.log.len() as u64, ..Tally::default() };
    tally.note(&format!("seed {seed}"), &history.breaches);
    for image in &history.images {
        let known = known(&history, image);
        let mut chance = chance_after(&history, image, 0);
        let crashes = chance.one_in(SECOND);
        let outcome = follow(&known, image, Control::None, chance, (crashes, ("f", "Bob"))).await;
        let place = format!("seed {seed}, {:?} commit {}", image.side, image.commit);
        tally.note(&place, &outcome.breaches);
        tally.take(&outcome);
        tally.crashes += 1;
        tally.commits += u64::from(image.side == CommitSide::After);
        if let Some(event) = history.log.get(history.durable_after(image.commit - 1).0) {
            *tally.kinds.entry(event.body.kind()).or_default() += 1;
        }
        if let Some((second, log, asked)) = &outcome.second {
            let durable = (known.durable.0, log.len());
            let known = Known { session: history.session, log, durable, asked };
            let chance = chance_after(&history, image, 1);
            let outcome = follow(&known, second, Control::None, chance, (false, ("g", "Cid"))).await;
            let place = format!("{place}, then {:?} commit {}", second.side, second.commit);
            tally.note(&place, &outcome.breaches);
            tally.take(&outcome);
            tally.second_crashes += 1;
        }
    }
    tally
}

/// Does this with each seed, several at a time, each in a thread and a runtime of its own.
fn with_each_seed<T: Send>(seeds: Range<u64>, each: impl AsyncFn(u64) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end {
                        return;
                    }
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    let came = runtime.block_on(each(seed));
                    done.lock().unwrap().push(came);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

fn crash_all(seeds: Range<u64>) -> Tally {
    let seeds = match env::var("ZUNO_SIMULATION_SEED") {
        Ok(asked) => {
            let (first, last) = asked.split_once("..").unwrap_or((&asked, &asked));
            first.parse().unwrap()..last.parse::<u64>().unwrap() + 1
        }
        Err(_) => seeds,
    };
    let mut tally = Tally::default();
    for one in with_each_seed(seeds, crash_everywhere) {
        tally.add(one);
    }
    tally
}

fn assert_kept(tally: &Tally) {
    let mut told = String::new();
    for failure in tally.failures.iter().take(20) {
        let _ = writeln!(told, "{failure}");
    }
    assert!(
        tally.failures.is_empty(),
        "{} promises were not kept; ZUNO_SIMULATION_SEED runs one seed\n{told}",
        tally.failures.len()
    );
}

#[test]
fn e3_t7_a_history_cut_off_before_or_after_any_commit_loses_and_repeats_nothing() {
    let tally = crash_all(1..3);
    println!(
        "{} histories, {} commits, {} crashes, {} second crashes, {} lost turns, {:?} {:?}",
        tally.histories,
        tally.commits,
        tally.crashes,
        tally.second_crashes,
        tally.lost_turns,
        tally.settled,
        tally.kinds
    );
    assert_kept(&tally);
}

#[test]
fn a_seed_tells_one_history() {
    let told = |seed| {
        with_each_seed(seed..seed + 1, async |seed| {
            let history = tell(seed, SIZE).await;
            (story(&history.log), history.images.len(), history.heads)
        })
    };
    for seed in 1..4 {
        assert_eq!(told(seed), told(seed), "seed {seed}");
    }
}
