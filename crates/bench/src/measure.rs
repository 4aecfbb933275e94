//! Times of things that are done in turn, and the ratios between them.
//!
//! A round does each candidate once. What slows the machine for a while slows a whole round, so a ratio is taken within
//! each round and then over the rounds. Each round begins with another candidate than the one before it: nothing always
//! comes after the same thing.

use std::time::{Duration, Instant};

use crate::error::Error;

/// How often things are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Rounds at first that do not count: programs and files come into memory.
    pub(crate) warm_ups: usize,
    /// Rounds that count.
    pub(crate) rounds: usize,
}

/// Something to be timed.
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'static str,
    /// Does it once. What is not to be timed was done before.
    pub(crate) once: Box<dyn FnMut() -> Result<(), Error> + 'a>,
}

/// The times of several candidates.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// In the order of the candidates.
    pub(crate) measured: Vec<Measured>,
    /// Those that the others are held against, by their place among the measured.
    pub(crate) baselines: &'static [usize],
    /// What else is to be known of this run, as a sentence.
    pub(crate) note: String,
}

/// The times of one candidate, round by round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) seconds: Vec<f64>,
}

/// Does all candidates in turn. Gives their times in the same order.
pub(crate) fn in_turn(effort: Effort, mut candidates: Vec<Candidate<'_>>) -> Result<Vec<Measured>, Error> {
    let count = candidates.len();
    let measured = |candidate: &Candidate<'_>| Measured { name: candidate.name, seconds: Vec::new() };
    let mut measured: Vec<_> = candidates.iter().map(measured).collect();
    for round in 0..effort.warm_ups + effort.rounds {
        for at in (0..count).map(|place| (place + round) % count) {
            let took = time(&mut candidates[at])?;
            if round >= effort.warm_ups {
                measured[at].seconds.push(took.as_secs_f64());
            }
        }
    }
    Ok(measured)
}

fn time(candidate: &mut Candidate<'_>) -> Result<Duration, Error> {
    let start = Instant::now();
    (candidate.once)()?;
    Ok(start.elapsed())
}

impl Measured {
    /// The values below which a quarter, a half and three quarters of the times lie.
    pub(crate) fn quartiles(&self) -> [f64; 3] {
        [0.25, 0.5, 0.75].map(|part| quantile(self.seconds.clone(), part))
    }

    /// The medians over the rounds of how many times longer it took than another, and how many seconds longer.
    pub(crate) fn against(&self, other: &Self) -> (f64, f64) {
        let rounds = || self.seconds.iter().zip(&other.seconds);
        let ratios = rounds().map(|(own, other)| own / other).collect();
        let differences = rounds().map(|(own, other)| own - other).collect();
        (quantile(ratios, 0.5), quantile(differences, 0.5))
    }
}

/// The value below which this part of the values lies, between the two nearest ones in proportion. `NaN` of none.
fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer rounds than a float can count")]
    let place = part * values.len().saturating_sub(1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the values")]
    let below = place as usize;
    let Some(low) = values.get(below) else { return f64::NAN };
    let high = values.get(below + 1).unwrap_or(low);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn measured(seconds: &[f64]) -> Measured {
        Measured { name: "it", seconds: seconds.to_vec() }
    }

    #[test]
    fn quartiles_lie_between_the_nearest_values() {
        for (seconds, quartiles) in [
            (&[4.0, 1.0, 3.0, 2.0, 5.0][..], "[2.0, 3.0, 4.0]"),
            (&[1.0, 2.0], "[1.25, 1.5, 1.75]"),
            (&[7.0], "[7.0, 7.0, 7.0]"),
        ] {
            assert_eq!(format!("{:?}", measured(seconds).quartiles()), quartiles);
        }
        assert!(measured(&[]).quartiles()[1].is_nan());
    }

    #[test]
    fn a_slow_round_changes_no_ratio() {
        let (base, other) = (measured(&[1.0, 10.0, 1.0]), measured(&[2.0, 20.0, 2.0]));
        assert_eq!(other.against(&base), (2.0, 1.0));
    }

    #[test]
    fn each_round_does_each_candidate_once_and_begins_with_another() {
        let done = RefCell::new(Vec::new());
        let candidate = |name| {
            let done = &done;
            let once = move || {
                done.borrow_mut().push(name);
                Ok(())
            };
            Candidate { name, once: Box::new(once) }
        };
        let candidates = ["a", "b", "c"].map(candidate).into();
        let compared = in_turn(Effort { warm_ups: 1, rounds: 3 }, candidates).unwrap();
        assert_eq!(done.borrow().concat(), "abcbcacababc");
        let counts: Vec<_> = compared.iter().map(|one| (one.name, one.seconds.len())).collect();
        assert_eq!(counts, [("a", 3), ("b", 3), ("c", 3)]);
    }

    #[test]
    fn what_did_something_else_is_no_time() {
        let failing = || Candidate {
            name: "a",
            once: Box::new(|| Err(Error::Candidate { candidate: "a", problem: "exit code 1".to_owned() })),
        };
        assert!(in_turn(Effort { warm_ups: 0, rounds: 1 }, vec![failing()]).is_err());
    }
}
