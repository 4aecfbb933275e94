//! Exploring a slice, and the shortest way to a broken property.

use std::fmt::Write as _;
use std::time::Instant;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model as _};

use crate::act::Act;
use crate::model::Explored;
use crate::property::Property;
use crate::slice::Slice;

/// States after which the search for a bug gives up: each shows within a small part of that.
const MOST_FOR_A_BUG: usize = 400_000;

/// What exploring came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// States reached, each as often as it was reached.
    pub(crate) states: usize,
    /// Different ones.
    pub(crate) unique: usize,
    /// Steps to the farthest.
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    /// Whether nothing was left to explore.
    pub(crate) is_whole: bool,
}

/// A broken property with the shortest way to it.
#[derive(Clone, Debug)]
pub(crate) struct Counterexample {
    pub(crate) property: Property,
    pub(crate) how: &'static str,
    pub(crate) acts: Vec<Act>,
    /// The steps, with the events that each caused.
    pub(crate) story: String,
}

/// Explores a slice: all of it, or the states nearest to the first where it has more than `most`, or farther ones than
/// `steps`.
pub(crate) fn explore(slice: &Slice, most: usize, steps: usize) -> Result<Figures, Counterexample> {
    let from = Instant::now();
    let checker =
        checker(slice).target_state_count(most).target_max_depth(steps.saturating_add(1)).spawn_bfs().join();
    if !checker.discoveries().is_empty()
        && let Some(found) = counterexample(slice)
    {
        return Err(found);
    }
    Ok(Figures {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        // The first state has depth 1.
        depth: checker.max_depth().saturating_sub(1),
        seconds: from.elapsed().as_secs_f64(),
        is_whole: checker.state_count() < most && checker.max_depth() <= steps,
    })
}

/// One thread: states are then reached in the order of their depth, and counts are the same in every run.
fn checker(slice: &Slice) -> CheckerBuilder<Explored> {
    Explored::new(slice.clone()).checker().threads(1).finish_when(HasDiscoveries::AnyFailures)
}

/// The shortest way to a broken property, if there is one. The steps alone show most bugs; only what needs it is left
/// alone and helped.
pub(crate) fn counterexample(slice: &Slice) -> Option<Counterexample> {
    let steps_alone = Slice { looks_ahead: false, ..slice.clone() };
    let found = shortest(&steps_alone).or_else(|| shortest(slice).filter(|_| slice.looks_ahead));
    found.map(|acts| told(slice, acts))
}

/// The checker tells the last way of a block that it found, so the depth is bounded until there is no shorter one.
fn shortest(slice: &Slice) -> Option<Vec<Act>> {
    let mut best: Option<Vec<Act>> = None;
    loop {
        // A state after n steps has depth n + 1, and those at the bound are not looked at.
        let bound = best.as_ref().map_or(usize::MAX, |acts| acts.len() + 1);
        let checker = checker(slice).target_state_count(MOST_FOR_A_BUG).target_max_depth(bound);
        let checker = checker.spawn_bfs().join();
        let ways = checker.discoveries().into_values().map(stateright::Path::into_actions);
        match ways.min_by_key(Vec::len) {
            Some(shorter) if !shorter.is_empty() => best = Some(shorter),
            Some(_) | None => return best,
        }
    }
}

fn told(slice: &Slice, acts: Vec<Act>) -> Counterexample {
    let explored = Explored::new(slice.clone());
    let mut world = explored.first();
    let mut story = String::new();
    for act in &acts {
        let Some((next, kinds)) = explored.step(&world, act) else { break };
        let caused = if kinds.is_empty() { String::new() } else { format!(" → {}", kinds.join(", ")) };
        writeln!(story, "    {act:?}{caused}").unwrap();
        world = next;
    }
    let broken = world.broken.expect("the way leads to a broken property");
    writeln!(story, "    {}: {}", broken.property.name(), broken.how).unwrap();
    Counterexample { property: broken.property, how: broken.how, acts, story }
}
