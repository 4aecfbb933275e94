//! Plans: written down in one line, or random.

use std::collections::BTreeSet;

use domain::{Candidate, CandidateStep, Plan, Revision, Snapshot, Step, StepStatus};
use proptest::prelude::*;

use crate::name::plan_id;
use crate::text::texts;

/// Steps from `inspect:completed implement:in_progress verify:pending`; each title is its id with a capital word in
/// front. A step without a status is pending.
///
/// # Panics
///
/// On a status that does not exist.
pub fn steps(line: &str) -> Vec<CandidateStep> {
    let step = |word: &str| {
        let (id, status) = word.split_once(':').unwrap_or((word, "pending"));
        let status = match status {
            "pending" => StepStatus::Pending,
            "in_progress" => StepStatus::InProgress,
            "completed" => StepStatus::Completed,
            other => panic!("`{other}` is no status of a step"),
        };
        CandidateStep { id: id.to_owned(), title: format!("Do {id}"), status }
    };
    line.split_whitespace().map(step).collect()
}

/// A candidate from a line of [`steps`].
pub fn candidate(title: &str, line: &str) -> Candidate {
    let title = title.to_owned();
    Candidate { title, steps: steps(line), expected_revision: None, goal_id: None, explanation: None }
}

/// A checked snapshot from a line of [`steps`].
///
/// # Panics
///
/// When the line breaks a rule of plans.
pub fn snapshot(title: &str, line: &str) -> Snapshot {
    Snapshot::check(&candidate(title, line)).expect("a test's plan is valid")
}

/// The n-th plan at a revision, from a line of [`steps`].
pub fn plan(n: u128, revision: u64, title: &str, line: &str) -> Plan {
    Plan { id: plan_id(n), revision: Revision(revision), goal_id: None, snapshot: snapshot(title, line) }
}

/// Any candidate: most break some rule, several at a time.
pub fn candidates() -> impl Strategy<Value = Candidate> {
    let id = prop_oneof![4 => "[a-e]", 1 => texts(), 1 => "[a-z]{60,70}"];
    let title = prop_oneof![4 => "[A-Z][a-z]{1,8}", 1 => texts(), 1 => "x{495,505}"];
    let step =
        (id, title.clone(), statuses()).prop_map(|(id, title, status)| CandidateStep { id, title, status });
    (title, proptest::collection::vec(step, 0..8), proptest::option::of(texts())).prop_map(
        |(title, steps, explanation)| Candidate {
            title,
            steps,
            expected_revision: None,
            goal_id: None,
            explanation,
        },
    )
}

/// Random snapshots that keep every rule, of few ids, so that two of them often have steps in common.
pub fn snapshots() -> impl Strategy<Value = Snapshot> {
    let ids = proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..=6).prop_shuffle();
    let statuses = proptest::collection::vec(statuses(), 6);
    ("[A-Z][a-z]{1,8}", ids, statuses).prop_map(|(title, ids, statuses)| {
        let step = |(id, status): (&&str, &StepStatus)| CandidateStep {
            id: (*id).to_owned(),
            title: format!("Do {id}"),
            status: *status,
        };
        checked(title, ids.iter().zip(&statuses).map(step).collect())
    })
}

/// Random snapshots that may follow this one as its next revision: steps stay and completed ones stay completed,
/// everything else is free.
pub fn successors(of: &Snapshot) -> impl Strategy<Value = Snapshot> + use<> {
    let kept: Vec<Step> = of.steps().to_vec();
    let known: BTreeSet<_> = kept.iter().map(|step| step.id.as_str().to_owned()).collect();
    let kept = kept
        .into_iter()
        .map(|step| {
            let status = match step.status {
                StepStatus::Completed => Just(StepStatus::Completed).boxed(),
                StepStatus::Pending | StepStatus::InProgress => statuses().boxed(),
            };
            (Just(step.id.as_str().to_owned()), "[A-Z][a-z]{1,8}", status)
                .prop_map(|(id, title, status)| CandidateStep { id, title, status })
        })
        .collect::<Vec<_>>();
    let new = ("[a-h]", "[A-Z][a-z]{1,8}", statuses()).prop_map(|(id, title, status)| CandidateStep {
        id,
        title,
        status,
    });
    (kept, proptest::collection::vec(new, 0..3), "[A-Z][a-z]{1,8}").prop_flat_map(
        move |(mut steps, new, title)| {
            let mut ids = known.clone();
            steps.extend(new.into_iter().filter(|step| ids.insert(step.id.clone())));
            Just(steps).prop_shuffle().prop_map(move |steps| checked(title.clone(), steps))
        },
    )
}

fn statuses() -> impl Strategy<Value = StepStatus> + Clone {
    proptest::sample::select(vec![StepStatus::Pending, StepStatus::InProgress, StepStatus::Completed])
}

/// A snapshot of these steps with their statuses mended where they break a rule of the set.
///
/// # Panics
///
/// When ids repeat or a title is too long.
pub fn mended(title: &str, steps: impl IntoIterator<Item = Step>) -> Snapshot {
    let candidate = |step: Step| CandidateStep {
        id: step.id.as_str().to_owned(),
        title: step.title.as_str().to_owned(),
        status: step.status,
    };
    checked(title.to_owned(), steps.into_iter().map(candidate).collect())
}

/// Makes the statuses keep the rules: of the steps that are not completed, while one is pending, one is active.
fn checked(title: String, mut steps: Vec<CandidateStep>) -> Snapshot {
    let mut has_active = false;
    for step in steps.iter_mut().filter(|step| step.status == StepStatus::InProgress) {
        if has_active {
            step.status = StepStatus::Pending;
        }
        has_active = true;
    }
    if !has_active && let Some(next) = steps.iter_mut().find(|step| step.status == StepStatus::Pending) {
        next.status = StepStatus::InProgress;
    }
    let candidate = Candidate { title, steps, expected_revision: None, goal_id: None, explanation: None };
    Snapshot::check(&candidate).expect("made to keep the rules")
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn successors_keep_ids_and_completions(
            (old, new) in snapshots().prop_flat_map(|old| (Just(old.clone()), successors(&old)))
        ) {
            for step in old.steps() {
                let kept = new.steps().iter().find(|kept| kept.id == step.id);
                prop_assert!(kept.is_some_and(|kept| step.status != StepStatus::Completed
                    || kept.status == StepStatus::Completed));
            }
        }
    }
}
