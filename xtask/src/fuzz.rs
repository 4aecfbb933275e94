//! `fuzz`: runs the strategies of `tests/fuzz` for as long as it is told to.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::prove::cargo;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// The strategies, with the packages beside which they have the features of the whole workspace: after the other tests
/// nothing is built anew.
const FUZZ: &str = "--package tests --package cli --package xtask --test fuzz";

/// What to run, from the words after the verb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Beyond the first case of each kind, which is always taken.
    seconds: u64,
    /// Where the seeds start; somewhere else each time if nobody says it.
    seed: Option<u64>,
}

/// As long as a person waits for a push, and the same cases each time: a push fails for what it changes.
pub(crate) const SMOKE: Run = Run { seconds: 20, seed: Some(1) };

/// Enough to find what a smoke run has little chance to.
const SECONDS: u64 = 300;

impl Run {
    /// Reads `--smoke`, `--seconds N` and `--seed S`; nothing if there is another word. A seed alone is one case of each
    /// kind, as a failure names it.
    pub(crate) fn of(words: &[&str]) -> Option<Self> {
        let (mut seconds, mut seed) = (None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--smoke" => {
                    seconds = seconds.or(Some(SMOKE.seconds));
                    seed = seed.or(SMOKE.seed);
                }
                "--seconds" => seconds = Some(words.next()?.parse().ok()?),
                "--seed" => seed = Some(words.next()?.parse().ok()?),
                _ => return None,
            }
        }
        let seconds = seconds.unwrap_or(if seed.is_some() { 0 } else { SECONDS });
        Some(Self { seconds, seed })
    }
}

pub(crate) fn run(workspace: &Workspace, run: &Run) -> Result<(), Error> {
    let mut steps = Steps::default();
    let verdict = self::steps(workspace, run, &mut steps);
    steps.print();
    verdict
}

/// Builds and runs, as steps among others.
pub(crate) fn steps(workspace: &Workspace, run: &Run, steps: &mut Steps) -> Result<(), Error> {
    cargo(steps, workspace, "fuzz build", &format!("test --no-run {FUZZ}"), &[])?;
    let seed = run.seed.unwrap_or_else(seed_of_now).to_string();
    let seconds = run.seconds.to_string();
    println!("   seed {seed}; the same again: cargo xtask fuzz --seconds {seconds} --seed {seed}");
    let variables = [("ZUNO_FUZZ_SEED", seed.as_str()), ("ZUNO_FUZZ_SECONDS", seconds.as_str())];
    // Cargo's own runner has no limit of time: a call that hangs is found by the test itself.
    let line = format!("test {FUZZ} -- --ignored --exact for_a_while --nocapture");
    cargo(steps, workspace, "fuzz", &line, &variables)
}

/// Milliseconds: short enough to be typed, and far from those of other runs.
fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_how_long_and_from_where() {
        assert_eq!(Run::of(&[]), Some(Run { seconds: SECONDS, seed: None }));
        assert_eq!(Run::of(&["--smoke"]), Some(SMOKE));
        let elsewhere = Run::of(&["--smoke", "--seed", "7"]);
        assert_eq!(elsewhere, Some(Run { seconds: SMOKE.seconds, seed: Some(7) }));
        let both = Run::of(&["--seed", "7", "--seconds", "3"]);
        assert_eq!(both, Some(Run { seconds: 3, seed: Some(7) }));
        // What a failure tells to run.
        assert_eq!(Run::of(&["--seed", "7"]), Some(Run { seconds: 0, seed: Some(7) }));
        for wrong in [&["--seed"][..], &["--seed", "x"], &["smoke"]] {
            assert_eq!(Run::of(wrong), None);
        }
    }
}
