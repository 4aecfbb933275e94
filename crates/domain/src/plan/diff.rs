//! What changed between two revisions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Plan, Step, StepId, StepStatus, Title};
use crate::id::{PlanId, Revision};

/// The difference between two revisions, also of different plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PlanDiff {
    /// The earlier one.
    pub from: (PlanId, Revision),
    /// The later one.
    pub to: (PlanId, Revision),
    /// The new title, if it changed.
    pub title: Option<Title>,
    /// Every step that changed, in the order of the later revision; steps that are gone come last.
    pub steps: Vec<StepChange>,
    /// Whether the steps that both revisions have stand in another order.
    pub reordered: bool,
}

/// One changed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum StepChange {
    /// Only in the later revision.
    Added {
        /// The step.
        step: Step,
    },
    /// Only in the earlier one: possible between different plans alone (P10).
    Removed {
        /// The step.
        step: Step,
    },
    /// In both, with another status or title.
    Changed {
        /// The step.
        id: StepId,
        /// Earlier and later status, if it changed.
        status: Option<(StepStatus, StepStatus)>,
        /// Earlier and later title, if it changed.
        title: Option<(Title, Title)>,
    },
}

impl PlanDiff {
    /// Compares two revisions.
    pub fn between(from: &Plan, to: &Plan) -> Self {
        let old: BTreeMap<_, _> = from.snapshot.steps().iter().map(|step| (&step.id, step)).collect();
        let mut steps: Vec<_> = to.snapshot.steps().iter().filter_map(|new| change(&old, new)).collect();
        let gone = from.snapshot.steps().iter().filter(|step| to.step(&step.id).is_none());
        steps.extend(gone.map(|step| StepChange::Removed { step: step.clone() }));
        let order = |plan: &Plan, other: &Plan| -> Vec<StepId> {
            let both = plan.snapshot.steps().iter().filter(|step| other.step(&step.id).is_some());
            both.map(|step| step.id.clone()).collect()
        };
        let title = to.snapshot.title();
        Self {
            from: (from.id, from.revision),
            to: (to.id, to.revision),
            title: (title != from.snapshot.title()).then(|| title.clone()),
            steps,
            reordered: order(from, to) != order(to, from),
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.steps.is_empty() && !self.reordered
    }
}

fn change(old: &BTreeMap<&StepId, &Step>, new: &Step) -> Option<StepChange> {
    let Some(before) = old.get(&new.id) else {
        return Some(StepChange::Added { step: new.clone() });
    };
    let status = (before.status != new.status).then_some((before.status, new.status));
    let title = (before.title != new.title).then(|| (before.title.clone(), new.title.clone()));
    (status.is_some() || title.is_some()).then(|| StepChange::Changed { id: new.id.clone(), status, title })
}
