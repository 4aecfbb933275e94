//! A slice of the state space: which parts of the product are in play at once.

use std::num::{NonZeroU32, NonZeroU64};

use domain::{Budgets, FailureKind};
use policy::{BudgetEdit, LEASE_MS, Owner};

use crate::act::UserAct;
use crate::bug::Bug;
use crate::commands::Names;
use crate::world::{Say, owner};

/// Which counters a slice explores; the others are held at zero, see [`canon`](crate::canon).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    pub(crate) tokens: bool,
    pub(crate) turns: bool,
    pub(crate) active_time: bool,
    /// Turns in a row without evidence, with a staged block, or lost.
    pub(crate) streaks: bool,
    /// How often rows were given back.
    pub(crate) returns: bool,
}

/// A slice.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) name: &'static str,
    /// What is in play, for people.
    pub(crate) about: &'static str,
    pub(crate) workers: usize,
    /// What the user may do.
    pub(crate) user: Vec<UserAct>,
    /// How often the user may act; without a bound if absent.
    pub(crate) acts: Option<u8>,
    /// Whether a Goal is set at the beginning.
    pub(crate) has_goal: bool,
    /// What the model may say.
    pub(crate) says: Vec<Say>,
    /// How a request may fail.
    pub(crate) fails: Vec<FailureKind>,
    /// Whether a failed request may also be tried again within its turn.
    pub(crate) in_place: bool,
    /// Whether a turn may fail before its first request.
    pub(crate) fails_at_once: bool,
    /// How processes die: so that others see it, or not.
    pub(crate) crashes: Vec<bool>,
    pub(crate) loses_tasks: bool,
    pub(crate) renews: bool,
    pub(crate) time: bool,
    pub(crate) shuts_down: bool,
    /// Whether a response may be recorded again.
    pub(crate) answers_twice: bool,
    /// Whether recovery may be unable to look at files.
    pub(crate) blind_recovery: bool,
    /// Whether each decision is compared to the one with another plan.
    pub(crate) compares_plans: bool,
    /// Whether each state is also left alone and helped.
    pub(crate) looks_ahead: bool,
    /// Rows of the user that may wait.
    pub(crate) rows: usize,
    /// Questions that may be open or whose answers wait.
    pub(crate) questions: usize,
    /// Background commands that may run or whose reports wait.
    pub(crate) commands: usize,
    /// Requests that a turn may make.
    pub(crate) max_requests: u32,
    pub(crate) budgets: Budgets,
    pub(crate) raised: BudgetEdit,
    /// What a request costs, in tokens.
    pub(crate) cost: u64,
    pub(crate) keep: Keep,
    /// Only with a bug: the workers are tasks of one process.
    pub(crate) is_one_process: bool,
    pub(crate) bug: Option<Bug>,
    pub(crate) names: Names,
}

impl Default for Slice {
    fn default() -> Self {
        Self {
            name: "",
            about: "",
            workers: 1,
            user: Vec::new(),
            acts: None,
            has_goal: false,
            says: vec![Say::Text],
            fails: Vec::new(),
            in_place: false,
            fails_at_once: false,
            crashes: Vec::new(),
            loses_tasks: false,
            renews: false,
            time: false,
            shuts_down: false,
            answers_twice: false,
            blind_recovery: false,
            compares_plans: false,
            looks_ahead: true,
            rows: 1,
            questions: 1,
            commands: 1,
            max_requests: 2,
            budgets: Budgets::default(),
            raised: BudgetEdit::default(),
            cost: COST,
            keep: Keep::default(),
            is_one_process: false,
            bug: None,
            names: Names::default(),
        }
    }
}

/// What a request costs, in tokens: budgets are counted in requests.
const COST: u64 = 100;

impl Slice {
    /// The process of a worker.
    pub(crate) fn process(&self, index: usize) -> Owner {
        match if self.is_one_process { 0 } else { index } {
            0 => owner("w0"),
            1 => owner("w1"),
            _ => owner("w2"),
        }
    }
}

/// Budgets of this many requests, turns and leases' lengths of active time.
pub(crate) fn budgets(requests: u64, turns: u32, leases: u64) -> Budgets {
    Budgets {
        tokens: NonZeroU64::new(requests * COST).unwrap(),
        turns: NonZeroU32::new(turns).unwrap(),
        active_ms: NonZeroU64::new(leases * LEASE_MS.unsigned_abs()).unwrap(),
    }
}

/// A raise to as much, of what is not zero.
pub(crate) fn raised(requests: u64, turns: u32, leases: u64) -> BudgetEdit {
    BudgetEdit {
        tokens: NonZeroU64::new(requests * COST),
        turns: NonZeroU32::new(turns),
        active_ms: NonZeroU64::new(leases * LEASE_MS.unsigned_abs()),
    }
}
