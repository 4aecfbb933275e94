//! What a contest came to: how often each fault was seen, and how long the longest wait was.

use std::time::Duration;

/// A fault that contests look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Something happened twice.
    Duplicated,
    /// Something that was answered for is not there.
    Lost,
    /// Something is there that nobody asked for, or that came after its end.
    Ghost,
    /// A turn that an unfinished plan started.
    PlanCaused,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Duplicated, Self::Lost, Self::Ghost, Self::PlanCaused];

    /// Its name on the page of guarantees.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Duplicated => "duplicated",
            Self::Lost => "lost",
            Self::Ghost => "ghost",
            Self::PlanCaused => "plan_caused",
        }
    }
}

/// How often something was seen, and in how many tries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) seen: u64,
    pub(crate) of: u64,
}

/// The account of a contest.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// What was contested, and by whom.
    pub(crate) what: String,
    /// How many at a time.
    pub(crate) processes: usize,
    /// How often.
    pub(crate) rounds: u64,
    faults: [Count; 4],
    /// The longest wait for an answer, or for another process to go on.
    pub(crate) worst_wait: Duration,
}

impl Account {
    pub(crate) fn new(what: impl Into<String>, processes: usize, rounds: u64) -> Self {
        let (faults, worst_wait) = ([Count::default(); 4], Duration::ZERO);
        Self { what: what.into(), processes, rounds, faults, worst_wait }
    }

    /// Adds what was seen of a fault that was looked for in each round.
    #[must_use]
    pub(crate) fn saw(mut self, fault: Fault, seen: u64) -> Self {
        let rounds = self.rounds;
        let count = &mut self.faults[fault as usize];
        (count.seen, count.of) = (count.seen + seen, rounds);
        self
    }

    /// Notes how long something was waited for.
    #[must_use]
    pub(crate) const fn waited(mut self, worst: Duration) -> Self {
        self.worst_wait = worst;
        self
    }

    pub(crate) const fn count(&self, fault: Fault) -> Count {
        self.faults[fault as usize]
    }

    /// What was seen, in a few words: `2 duplicated in 50`, or `nothing`.
    pub(crate) fn seen(&self) -> String {
        let seen = Fault::ALL.into_iter().filter(|fault| self.count(*fault).seen > 0);
        let seen: Vec<_> = seen.map(|fault| format!("{} {}", self.count(fault).seen, fault.name())).collect();
        if seen.is_empty() { "nothing".to_owned() } else { format!("{} in {}", seen.join(", "), self.rounds) }
    }

    /// Checks that nothing was seen, and says what was done.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        let Self { what, processes, rounds, worst_wait, .. } = self;
        assert_eq!(self.seen(), "nothing", "{what}");
        let wait =
            if worst_wait.is_zero() { String::new() } else { format!(", longest wait {worst_wait:.1?}") };
        println!("{what}: {processes} processes, {rounds} rounds{wait}");
    }

    /// Checks that the check of this contest catches its control.
    #[track_caller]
    pub(crate) fn assert_caught(&self) {
        assert_ne!(self.seen(), "nothing", "{}", self.what);
        println!("caught: {}: {}", self.what, self.seen());
    }
}
