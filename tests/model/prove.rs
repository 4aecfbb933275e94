//! The proof: every slice, every bug caught, and the figures.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tests::{Effort, Proof};

use crate::explore::{Figures, counterexample, explore};
use crate::mutants::{Mutant, mutants};
use crate::property::Property;
use crate::slice::Slice;
use crate::slices::{Reach, slices};

/// Slices explored at the same time. Each takes one thread, and the machines that run this have two at least.
const AT_ONCE: usize = 2;
/// States reached in a slice, at which exploring it ends: some slices are too large for the minutes that a plain proof
/// may take, and the states nearest to the first are explored then.
const PLAIN: u64 = 500_000;
/// The same for the hours of a long proof, and what the memory of a small machine holds.
const LONG: u64 = 20_000_000;

/// A slice, and what exploring it came to.
struct Explored {
    slice: Slice,
    figures: Figures,
}

/// A deliberate bug, and how it was caught.
struct Caught {
    mutant: Mutant,
    by: Property,
    how: &'static str,
    /// Steps of the shortest way there.
    steps: usize,
}

/// Runs all of it, and writes the figures.
pub(crate) fn prove() {
    let proof = Proof::new("model");
    let effort = Effort::asked();
    let reach = match effort {
        Effort::Plain => Reach::Near,
        Effort::Long => Reach::Far,
    };
    let bugs = every_bug_caught();
    let most = usize::try_from(effort.pick(PLAIN, LONG)).unwrap();
    let slices = all_explored(slices(reach), most);
    proof
        .paragraph(summary(&slices, &bugs, most))
        .table(
            "What is explored",
            ["slice", "in play", "states", "different", "steps to the farthest", "explored", "seconds"],
            slices.iter().map(slice_row),
        )
        .table(
            "What holds in each state",
            ["property", "rules", "says"],
            Property::ALL.iter().copied().map(property_row),
        )
        .table(
            "Deliberate bugs, each of which has to be caught",
            ["bug", "what is built wrong", "caught by", "because", "steps"],
            bugs.iter().map(bug_row),
        )
        .write();
}

fn summary(slices: &[Explored], bugs: &[Caught], most: usize) -> String {
    let sum = |count: fn(&Figures) -> usize| slices.iter().map(|slice| count(&slice.figures)).sum::<usize>();
    let whole = slices.iter().filter(|slice| slice.figures.is_whole).count();
    format!(
        "The rules themselves, `policy::decide`, are explored state by state in every order of what users, models, workers \
         and clocks do: {} states were reached, {} of them different. They are cut into {} slices, each with a part of the \
         product in play; {whole} of these were explored to their end, and of each other one the first {most} states that \
         were reached, nearest to its beginning. {} properties hold in each state. Each of {} bugs that were built in on \
         purpose breaks one of them, and each property is broken by one.",
        sum(|figures| figures.states),
        sum(|figures| figures.unique),
        slices.len(),
        Property::ALL.len(),
        bugs.len(),
    )
}

fn slice_row(Explored { slice, figures }: &Explored) -> [String; 7] {
    let Figures { states, unique, depth, seconds, is_whole } = figures;
    let explored = if *is_whole { "to its end" } else { "the nearest states" };
    [
        slice.name.to_owned(),
        slice.about.to_owned(),
        states.to_string(),
        unique.to_string(),
        depth.to_string(),
        explored.to_owned(),
        format!("{seconds:.0}"),
    ]
}

fn property_row(property: Property) -> [String; 3] {
    [property.name(), property.rules(), property.says()].map(str::to_owned)
}

fn bug_row(Caught { mutant, by, how, steps }: &Caught) -> [String; 5] {
    [mutant.name.clone(), mutant.what.to_owned(), by.name().to_owned(), (*how).to_owned(), steps.to_string()]
}

/// Explores the slices, the last first. Fails with the shortest way to a broken property.
fn all_explored(slices: Vec<Slice>, most: usize) -> Vec<Explored> {
    let waiting = Mutex::new(slices.into_iter().enumerate().collect::<Vec<_>>());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((place, slice)) = waiting.lock().unwrap().pop() else { return };
                    let figures = explored(&slice, most, usize::MAX);
                    done.lock().unwrap().push((place, Explored { slice, figures }));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, explored)| explored).collect()
}

fn explored(slice: &Slice, most: usize, steps: usize) -> Figures {
    let figures = explore(slice, most, steps)
        .unwrap_or_else(|found| panic!("{} breaks a property:\n{}", slice.name, found.story));
    println!("{:<14} {figures:?}", slice.name);
    figures
}

/// Explores the states of a slice that are at most so many steps away from the first.
pub(crate) fn first_states(name: &str, steps: usize) {
    let all = slices(Reach::Near);
    let slice = all.iter().find(|slice| slice.name == name).expect("there is a slice of this name");
    explored(slice, usize::MAX, steps);
}

/// Looks for every bug, and for a bug behind every property: one that catches none proves nothing.
fn every_bug_caught() -> Vec<Caught> {
    let found: Vec<_> = mutants().into_iter().map(caught).collect();
    let by: BTreeSet<_> = found.iter().map(|bug| bug.by).collect();
    let idle: Vec<_> = Property::ALL
        .iter()
        .filter(|property| !by.contains(property))
        .map(|property| property.name())
        .collect();
    assert!(idle.is_empty(), "no bug shows that these properties can fail: {}", idle.join(", "));
    found
}

/// Looks for some of the bugs, by their names.
pub(crate) fn these_caught(names: &[&str]) {
    let all = mutants();
    for name in names {
        assert!(all.iter().any(|mutant| mutant.name == *name), "there is no bug {name}");
    }
    all.into_iter()
        .filter(|mutant| names.contains(&mutant.name.as_str()))
        .for_each(|mutant| drop(caught(mutant)));
}

/// Finds the shortest way on which a bug shows.
fn caught(mutant: Mutant) -> Caught {
    let found = counterexample(&mutant.slice);
    let found = found.unwrap_or_else(|| panic!("{} is not caught: {}", mutant.name, mutant.what));
    let steps = found.acts.len();
    println!("{}: {} after {steps} steps\n{}", mutant.name, mutant.what, found.story);
    Caught { mutant, by: found.property, how: found.how, steps }
}
