//! What many histories and crashes came to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::aftermath::{Control, Outcome};
use super::promises::{Breach, Fault};

/// How often a broken variant was noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) noticed: u64,
    pub(crate) of: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) histories: u64,
    pub(crate) events: u64,
    pub(crate) commits: u64,
    /// Crashes of the workers of a history.
    pub(crate) crashes: u64,
    /// Crashes of the process that deals with one.
    pub(crate) second_crashes: u64,
    pub(crate) lost_turns: u64,
    /// How calls that had no result were settled.
    pub(crate) settled: BTreeMap<&'static str, u64>,
    /// Crashes at commits with an event of this kind.
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// Crashes with such a fault.
    pub(crate) faults: BTreeMap<Fault, u64>,
    pub(crate) controls: BTreeMap<Control, Noticed>,
    /// What was not kept, and where.
    pub(crate) failures: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} histories, {} commits, {} crashes and {} second ones, {} lost turns; calls settled {:?}; controls {:?}",
            self.histories,
            self.commits,
            self.crashes,
            self.second_crashes,
            self.lost_turns,
            self.settled,
            self.controls
                .iter()
                .map(|(control, found)| (control, found.noticed, found.of))
                .collect::<Vec<_>>()
        )
    }
}

impl Tally {
    /// Adds another one to this.
    pub(crate) fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.events += other.events;
        self.commits += other.commits;
        self.crashes += other.crashes;
        self.second_crashes += other.second_crashes;
        self.lost_turns += other.lost_turns;
        for (name, count) in other.settled {
            *self.settled.entry(name).or_default() += count;
        }
        for (name, count) in other.kinds {
            *self.kinds.entry(name).or_default() += count;
        }
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (control, noticed) in other.controls {
            let sum = self.controls.entry(control).or_default();
            sum.noticed += noticed.noticed;
            sum.of += noticed.of;
        }
        self.failures.extend(other.failures);
    }

    /// Notes what was not kept.
    pub(crate) fn note(&mut self, place: &str, breaches: &[Breach]) {
        let faults: BTreeSet<_> = breaches.iter().map(|breach| breach.fault).collect();
        for fault in faults {
            *self.faults.entry(fault).or_default() += 1;
        }
        self.failures.extend(breaches.iter().map(|breach| format!("{place}: {breach}")));
    }

    /// Notes what became of a crash.
    pub(crate) fn take(&mut self, place: &str, outcome: &Outcome) {
        self.note(place, &outcome.breaches);
        self.lost_turns += outcome.lost_turns;
        for settled in &outcome.settled {
            *self.settled.entry(settled.name()).or_default() += 1;
        }
    }

    /// Notes whether a broken variant was noticed.
    pub(crate) fn take_control(&mut self, place: &str, control: Control, outcome: &Outcome) {
        if !outcome.applied {
            return;
        }
        let expected = control.fault();
        let is_noticed = outcome.breaches.iter().any(|breach| Some(breach.fault) == expected);
        let noticed = self.controls.entry(control).or_default();
        noticed.of += 1;
        noticed.noticed += u64::from(is_noticed);
        if !is_noticed {
            let found: Vec<_> = outcome.breaches.iter().map(ToString::to_string).collect();
            self.failures.push(format!("{place}: nobody noticed {control:?}, only {found:?}"));
        }
    }

    /// How often this fault was seen.
    pub(crate) fn seen(&self, fault: Fault) -> u64 {
        self.faults.get(&fault).copied().unwrap_or(0)
    }

    /// How often the controls with this fault were noticed.
    pub(crate) fn noticed(&self, fault: Fault) -> Noticed {
        let of_fault = self.controls.iter().filter(|(control, _)| control.fault() == Some(fault));
        of_fault.fold(Noticed::default(), |sum, (_, noticed)| Noticed {
            noticed: sum.noticed + noticed.noticed,
            of: sum.of + noticed.of,
        })
    }

    /// Fails if anything was not kept.
    pub(crate) fn assert_kept(&self) {
        /// Failures that are shown: usually they have one cause.
        const SHOWN: usize = 20;
        let shown: Vec<_> = self.failures.iter().take(SHOWN).cloned().collect();
        assert!(
            self.failures.is_empty(),
            "{} promises were not kept; ZUNO_SIMULATION_SEED runs a seed again\n{}",
            self.failures.len(),
            shown.join("\n")
        );
    }
}
