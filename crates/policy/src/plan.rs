//! Which plan may follow which (P8–P13, P16, P17).

use domain::{
    Code, EventBody, GoalId, LaneId, Plan, Remark, Revision, Snapshot, Standing, StepStatus, Violation,
};

use crate::command::PlanUpdate;
use crate::decision::Draft;
use crate::rejection::Rejection;

pub(crate) fn update(draft: &mut Draft<'_>, lane: &LaneId, update: &PlanUpdate) -> Result<(), Rejection> {
    let plan =
        next_plan(draft, lane, update).map_err(|found| Rejection::of(found).with_plan(&draft.state, lane))?;
    draft.emit(EventBody::PlanRevised { lane: lane.clone(), plan });
    Ok(())
}

/// The revision an update makes, or the violations of the first failing group.
fn next_plan(draft: &Draft<'_>, lane: &LaneId, update: &PlanUpdate) -> Result<Plan, Vec<Violation>> {
    let current = draft.state.current_plan(lane);
    let base = match (current.map(Plan::standing), update.expected_revision) {
        (Some(Standing::Unfinished), None) => return Err(vec![revision_required(current)]),
        // A complete plan is continued by naming its revision and followed by leaving it out (P16).
        (Some(Standing::Complete) | None, None) => None,
        (_, Some(sent)) => {
            let actual = draft.state.current_revision(lane);
            if sent != actual {
                return Err(vec![conflict("P9", draft, lane, sent, actual)]);
            }
            current
        }
    };
    let mut found = base.map(|plan| broken_continuity(plan, &update.snapshot)).unwrap_or_default();
    let goal_id = known_goal(draft, update).map_err(|violation| found.push(violation));
    match goal_id {
        Ok(goal_id) if found.is_empty() => Ok(Plan {
            id: base.map_or(update.new_plan, |plan| plan.id),
            revision: base.map_or(Revision(0), |plan| plan.revision).next(),
            goal_id,
            snapshot: update.snapshot.clone(),
        }),
        _ => Err(found),
    }
}

fn revision_required(current: Option<&Plan>) -> Violation {
    let revision = current.map_or(Revision(0), |plan| plan.revision);
    Violation::new(
        "P8",
        Code::ExpectedRevisionRequired,
        format!("the current plan is unfinished, so say which revision you change: current is {revision}"),
    )
}

fn conflict(
    rule: &'static str,
    draft: &Draft<'_>,
    lane: &LaneId,
    sent: Revision,
    actual: Revision,
) -> Violation {
    let by = draft.state.latest_plan(lane).map_or(String::new(), |latest| match &latest.head.closed {
        Some(closed) => format!(" (the plan was closed by {}: {})", closed.by.kind(), closed.reason),
        None => format!(" (changed by {})", latest.head.by.kind()),
    });
    Violation::new(rule, Code::RevisionConflict, format!("sent {sent}, current is {actual}{by}"))
}

/// P10 and P11: what must not change between two revisions of one plan.
fn broken_continuity(base: &Plan, next: &Snapshot) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_kept = |id: &domain::StepId| next.steps().iter().any(|step| step.id == *id);
    let removed: Vec<_> = base.snapshot.steps().iter().filter(|old| !is_kept(&old.id)).collect();
    if !removed.is_empty() {
        let ids: Vec<_> = removed.iter().map(|step| step.id.as_str()).collect();
        let message = format!("accepted step ids must stay; missing: {}", ids.join(", "));
        found.push(Violation::new("P10", Code::StepRemoved, message).of_steps(ids));
    }
    let was_completed =
        |id: &domain::StepId| base.step(id).is_some_and(|old| old.status == StepStatus::Completed);
    let regressed = |step: &&domain::Step| step.status != StepStatus::Completed && was_completed(&step.id);
    let ids: Vec<_> = next.steps().iter().filter(regressed).map(|step| step.id.as_str()).collect();
    if !ids.is_empty() {
        let message = format!(
            "completed steps stay completed: {}; add a new step for work that has to be done again",
            ids.join(", ")
        );
        found.push(Violation::new("P11", Code::StepRegressed, message).of_steps(ids));
    }
    found
}

/// P12: the Goal that the update names, if it names one that this session knows.
fn known_goal(draft: &Draft<'_>, update: &PlanUpdate) -> Result<Option<GoalId>, Violation> {
    let Some(sent) = &update.goal_id else { return Ok(None) };
    match sent.trim().parse::<GoalId>() {
        Ok(id) if draft.facts.goal_is_known => Ok(Some(id)),
        Ok(_) | Err(_) => {
            let known = draft.state.core.goal.as_ref();
            let hint = known.map_or("leave goal_id out: this session has no Goal".to_owned(), |goal| {
                format!("the latest Goal is {}", goal.id)
            });
            let sent: String = sent.chars().take(80).collect();
            Err(Violation::new("P12", Code::UnknownGoal, format!("no Goal `{sent}` in this session; {hint}")))
        }
    }
}

pub(crate) fn close(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    expected_revision: Option<Revision>,
    reason: &Remark,
) -> Result<(), Rejection> {
    let reject = |violation| Err(Rejection::of(vec![violation]).with_plan(&draft.state, lane));
    let Some(plan) = draft.state.current_plan(lane) else {
        return reject(Violation::new("P17", Code::NoPlan, "there is no open plan to close"));
    };
    let actual = plan.revision;
    if let Some(sent) = expected_revision.filter(|sent| *sent != actual) {
        return reject(conflict("P17", draft, lane, sent, actual));
    }
    if plan.standing() == Standing::Complete {
        let message =
            "the plan is complete and needs no closing; plan_update without expected_revision opens the next";
        return reject(Violation::new("P17", Code::PlanNotOpen, message));
    }
    let plan_id = plan.id;
    draft.emit(EventBody::PlanClosed {
        lane: lane.clone(),
        plan_id,
        revision: actual,
        reason: reason.clone(),
    });
    Ok(())
}

/// P17: an agent does not close the plan of the Goal it works for.
pub(crate) fn check_agent_may_close(draft: &Draft<'_>, lane: &LaneId) -> Result<(), Rejection> {
    let linked = draft.state.current_plan(lane).and_then(|plan| plan.goal_id);
    match &draft.state.core.goal {
        Some(goal) if goal.is_active() && linked == Some(goal.id) => {
            let message = "the plan supports the active Goal; update it instead, or complete the Goal first";
            Err(Rejection::new("P17", Code::PlanNotOpen, message).with_plan(&draft.state, lane))
        }
        Some(_) | None => Ok(()),
    }
}
