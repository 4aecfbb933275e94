//! Plans, their revisions and differences.

use std::fmt::Write as _;

use domain::{PlanDiff, Step, StepChange, StepStatus};
use runtime::{PlanChangeView, PlanRevisionView, PlanView};

use super::{actor, fitted, one_line, time, wrapped};

/// Columns of a step's id in a list; longer ids push their title to the right.
const ID_COLUMNS: usize = 12;

const fn symbol(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Completed => "[x]",
        StepStatus::InProgress => "[>]",
        StepStatus::Pending => "[ ]",
    }
}

const fn words(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Completed => "completed",
        StepStatus::InProgress => "in progress",
        StepStatus::Pending => "pending",
    }
}

/// A plan with its head line.
pub(crate) fn plan(plan: &PlanView) -> String {
    let mut out = format!("{}\n", wrapped(0, &plan.title));
    out.push_str(&progress(plan));
    if let Some(by) = &plan.changed_by {
        let _ = write!(out, ", by {}", actor(by));
    }
    out.push('\n');
    if let Some(goal) = plan.goal_id {
        let _ = writeln!(out, "supports Goal {goal}");
    }
    if let Some(closed) = &plan.closed {
        out.push_str(&wrapped(0, &format!("closed by {}: {}", actor(&closed.by), closed.reason)));
        out.push('\n');
    }
    if let Some(explanation) = &plan.explanation {
        out.push_str(&wrapped(0, &format!("why: {explanation}")));
        out.push('\n');
    }
    out.push_str(&steps(&plan.steps));
    out
}

/// How far a plan is: `revision 3, 1 of 3 completed`.
pub(crate) fn progress(plan: &PlanView) -> String {
    format!("revision {}, {} of {} completed", plan.revision, plan.completed, plan.total)
}

/// The steps, one below the other.
pub(crate) fn steps(steps: &[Step]) -> String {
    let ids = steps.iter().map(|step| one_line(step.id.as_str()).chars().count());
    let id_columns = ids.max().unwrap_or(0).min(ID_COLUMNS);
    steps.iter().map(|step| step_line(step, id_columns)).collect()
}

fn step_line(step: &Step, id_columns: usize) -> String {
    let id = one_line(step.id.as_str());
    // The word tells people and screen readers what the symbol means.
    let head = format!("  {} {:<11}  {id:<id_columns$}  ", symbol(step.status), words(step.status));
    let indent = head.chars().count();
    format!("{head}{}\n", wrapped(indent.min(40), step.title.as_str()))
}

/// Revisions, the latest last.
pub(crate) fn history(revisions: &[PlanRevisionView], columns: Option<usize>) -> String {
    let mut out = String::new();
    let mut plan = None;
    for revision in revisions {
        if plan != Some(revision.plan_id) {
            plan = Some(revision.plan_id);
            let _ = writeln!(out, "plan {}", revision.plan_id);
        }
        let change = match &revision.change {
            PlanChangeView::Closed { reason } => format!("closed: {}", one_line(reason)),
            PlanChangeView::Revised { completed, total, active, .. } => {
                let active = active.as_ref().map(|id| format!(", [>] {}", one_line(id.as_str())));
                format!("{completed} of {total} completed{}", active.unwrap_or_default())
            }
        };
        let line = format!(
            "  {:>3}  {}  {:<15}  {change}",
            revision.revision.0,
            time(revision.at),
            actor(&revision.actor),
        );
        out.push_str(&fitted(&line, columns));
        out.push('\n');
    }
    out
}

/// What changed between two revisions.
pub(crate) fn diff(diff: &PlanDiff) -> String {
    let ((from_plan, from), (to_plan, to)) = (&diff.from, &diff.to);
    let mut out = if from_plan == to_plan {
        format!("revision {from} to {to}\n")
    } else {
        format!("plan {from_plan} revision {from}\nto plan {to_plan} revision {to}\n")
    };
    if diff.is_empty() {
        out.push_str("  nothing changed\n");
    }
    if let Some(title) = &diff.title {
        let _ = writeln!(out, "  title: {}", wrapped(9, title.as_str()));
    }
    for change in &diff.steps {
        out.push_str(&change_lines(change));
    }
    if diff.reordered {
        out.push_str("  the steps stand in another order\n");
    }
    out
}

fn change_lines(change: &StepChange) -> String {
    let of_step = |sign: char, step: &Step| {
        let head = format!("  {sign} {}  ", one_line(step.id.as_str()));
        let indent = head.chars().count().min(40);
        format!("{head}{}\n", wrapped(indent, &format!("{} ({})", step.title, words(step.status))))
    };
    match change {
        StepChange::Added { step } => of_step('+', step),
        StepChange::Removed { step } => of_step('-', step),
        StepChange::Changed { id, status, title } => {
            let mut out = format!("  ~ {}", one_line(id.as_str()));
            if let Some((from, to)) = status {
                let _ = write!(out, "  {} -> {}", words(*from), words(*to));
            }
            out.push('\n');
            if let Some((from, to)) = title {
                let _ = writeln!(out, "      was: {}", wrapped(11, from.as_str()));
                let _ = writeln!(out, "      is:  {}", wrapped(11, to.as_str()));
            }
            out
        }
    }
}
