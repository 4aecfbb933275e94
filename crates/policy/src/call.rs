//! Admitting and finishing the calls of a response (M6, T6).

use domain::{
    CallOutcome, CallRef, Code, Digest, Effect, EventBody, Evidence, Fingerprint, LaneId, OpenCall,
    PauseReason, PlanId, Remark, Revision, RunningTurn, StepId, StopReason, TurnPhase,
};
use serde::Serialize;

use crate::command::{CallGrant, PlanUpdate};
use crate::decision::Draft;
use crate::rejection::Rejection;
use crate::{goal, grant, plan, progress, turn};

/// Bytes of a call's result in the transcript. The turn loop shortens to less; this is the wall behind it.
pub const RESULT_BYTES: usize = 256 * 1024;

/// The answer of `plan_update`: progress, not the plan (V2).
#[derive(Serialize)]
struct PlanUpdated {
    plan_id: PlanId,
    revision: Revision,
    completed: usize,
    total: usize,
    active: Option<StepId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
}

/// The answer of `plan_close`.
#[derive(Serialize)]
struct PlanClosed {
    closed: bool,
    next: &'static str,
}

/// The answer of `goal_update` with `blocked`.
#[derive(Serialize)]
struct BlockStaged {
    status: &'static str,
    turns: u8,
    of: u8,
    next: &'static str,
}

/// The answer of `goal_update` with `completed`.
#[derive(Serialize)]
struct GoalCompleted {
    status: &'static str,
    unfinished_steps: u32,
    next: &'static str,
}

/// Admits a call: the transaction re-reads turn, mode and grant.
pub(crate) fn admit(
    draft: &mut Draft<'_>,
    call: CallRef,
    call_grant: &CallGrant,
    effect: &Effect,
) -> Result<(), Rejection> {
    let running = turn::at_boundary(draft, call.turn)?;
    let open = open_call(&running, call)?;
    if open.effect.is_some() {
        return Err(dealt_with(call));
    }
    let call_grant = in_lane(draft, call, call_grant);
    grant::check_call(open.tool, &call_grant, draft.state.core.mode)?;
    grant::check_permission(open.tool, &call_grant, is_granted(call))?;
    // A turn that completed its Goal has nothing left to do but to report (T6).
    if running.goal_completed_in.is_some() {
        return Err(turn::stopping(StopReason::GoalChanged));
    }
    draft.emit(EventBody::CallAdmitted { call, tool: open.tool.to_owned(), effect: effect.clone() });
    Ok(())
}

/// What a call has in its lane: in that of a job, no more than the job was given (C5).
pub(crate) fn in_lane(draft: &Draft<'_>, call: CallRef, call_grant: &CallGrant) -> CallGrant {
    let lane = draft.state.running(call.turn).map(|(lane, _)| lane);
    let job = lane.and_then(|lane| draft.state.core.job_of(lane));
    let grant = job.map_or(call_grant.grant, |job| call_grant.grant.intersect(job.may()));
    CallGrant { grant, ..call_grant.clone() }
}

/// Whether a person allowed the call: such a call stands before the first request of its turn (I4).
const fn is_granted(call: CallRef) -> bool {
    call.request == 0
}

/// The call, if it is one of the last response's and has no result.
pub(crate) fn open_call(running: &RunningTurn, call: CallRef) -> Result<OpenCall<'_>, Rejection> {
    let open = running.open_calls().into_iter().find(|open| open.call == call);
    open.ok_or_else(|| match &running.phase {
        TurnPhase::Calling { .. } => dealt_with(call),
        TurnPhase::Ready | TurnPhase::Requesting { .. } | TurnPhase::Failed { .. } | TurnPhase::Answered => {
            turn::out_of_order("a call", running)
        }
    })
}

pub(crate) fn dealt_with(call: CallRef) -> Rejection {
    let message = format!("call {call} is not one of the last response's, or was dealt with before");
    Rejection::new("T6", Code::OutOfOrder, message)
}

/// Answers a call that is not admitted.
pub(crate) fn refuse(
    draft: &mut Draft<'_>,
    call: CallRef,
    outcome: CallOutcome,
    result: &str,
) -> Result<(), Rejection> {
    let running = turn::running(draft, call.turn)?;
    let open = open_call(&running, call)?;
    if open.effect.is_some() {
        return Err(dealt_with(call));
    }
    check_size(result)?;
    turn::emit_finished(draft, &open, &turn::Finish { outcome, result, ..turn::Finish::default() });
    Ok(())
}

/// Records the result of an admitted call.
pub(crate) fn finish(
    draft: &mut Draft<'_>,
    call: CallRef,
    outcome: CallOutcome,
    result: &str,
    full_output: Option<Digest>,
    ran: Option<Fingerprint>,
) -> Result<(), Rejection> {
    let running = turn::running(draft, call.turn)?;
    let open = open_call(&running, call)?;
    let Some(effect) = open.effect else {
        let message = format!("call {call} was not admitted, so it has no result");
        return Err(Rejection::new("M6", Code::OutOfOrder, message));
    };
    check_size(result)?;
    let evidence = evidence(draft, &running, effect, outcome, ran);
    turn::emit_finished(draft, &open, &turn::Finish { outcome, result, full_output, evidence });
    if outcome == CallOutcome::Uncertain {
        goal::pause_by_runtime(draft, PauseReason::UncertainSideEffect { call }, None);
    }
    Ok(())
}

/// What the result says about the progress of the Goal that the turn is bound to (G7). Of the calls on work state only a
/// wait comes with `ran`: a plan that is edited every turn moves nothing.
fn evidence(
    draft: &Draft<'_>,
    running: &RunningTurn,
    effect: &Effect,
    outcome: CallOutcome,
    ran: Option<Fingerprint>,
) -> Option<Evidence> {
    let goal_id = running.goal?.goal_id;
    match effect {
        Effect::FileWrite { before, after, .. } if outcome == CallOutcome::Succeeded => {
            (*before != Some(*after)).then_some(Evidence::FileChanged)
        }
        Effect::Read
        | Effect::WorkState
        | Effect::Job
        | Effect::FileWrite { .. }
        | Effect::Command { .. }
        | Effect::External => {
            ran.filter(|_| draft.facts.evidence_is_new).map(|call| Evidence::NewCall { goal_id, call })
        }
    }
}

pub(crate) fn check_size(result: &str) -> Result<(), Rejection> {
    if result.len() > RESULT_BYTES {
        let message = format!("a result of {} bytes; the limit is {RESULT_BYTES}", result.len());
        return Err(Rejection::new("V2", Code::LimitExceeded, message));
    }
    Ok(())
}

/// `plan_update`: admission, the new revision and the compact answer (V2) in one decision.
pub(crate) fn update_plan(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    call: CallRef,
    update: &PlanUpdate,
    ignored: &[String],
) -> Result<(), Rejection> {
    plan::update(draft, lane, update)?;
    let Some(plan) = draft.state.current_plan(lane) else { return Ok(()) };
    let answer = PlanUpdated {
        plan_id: plan.id,
        revision: plan.revision,
        completed: plan.completed(),
        total: plan.total(),
        active: plan.active().map(|step| step.id.clone()),
        ignored: ignored.to_vec(),
    };
    succeed(draft, call, &answer)
}

/// `plan_close` (P17).
pub(crate) fn close_plan(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    call: CallRef,
    expected_revision: Revision,
    reason: &Remark,
) -> Result<(), Rejection> {
    plan::check_agent_may_close(draft, lane)?;
    plan::close(draft, lane, Some(expected_revision), reason)?;
    let next = "plan_update without expected_revision opens a new plan";
    succeed(draft, call, &PlanClosed { closed: true, next })
}

/// `goal_update` with `completed` (G2, P21).
pub(crate) fn complete_goal(
    draft: &mut Draft<'_>,
    call: CallRef,
    summary: Option<&Remark>,
) -> Result<(), Rejection> {
    goal::complete_by_agent(draft, summary)?;
    let unfinished = draft.state.core.goal.as_ref().and_then(|goal| goal.unfinished_steps).unwrap_or(0);
    let next = "report to the user; further calls do not run";
    succeed(draft, call, &GoalCompleted { status: "completed", unfinished_steps: unfinished, next })
}

/// `goal_update` with `blocked` (G6).
pub(crate) fn stage_block(draft: &mut Draft<'_>, call: CallRef, reason: &Remark) -> Result<(), Rejection> {
    let turns = goal::stage_block(draft, reason)?;
    let next = "only the third turn that says so without progress in between blocks the Goal. Try what is left to try; \
                if a person has to decide or do something, call ask_user; to wait for something, call goal_wait";
    succeed(draft, call, &BlockStaged { status: "staged", turns, of: progress::STAGED_BLOCKS, next })
}

/// The answer of `goal_propose`.
#[derive(Serialize)]
struct GoalProposed {
    status: &'static str,
    next: &'static str,
}

/// `goal_propose` (G3).
pub(crate) fn propose_goal(
    draft: &mut Draft<'_>,
    call: CallRef,
    new: &goal::NewGoal<'_>,
) -> Result<(), Rejection> {
    let status = goal::propose(draft, new)?;
    let next = "the user decides; say in a sentence what you propose and end the turn";
    succeed(draft, call, &GoalProposed { status, next })
}

/// Answers with JSON. Structs, because the order of their keys is theirs, whatever JSON maps are built with.
pub(crate) fn succeed(
    draft: &mut Draft<'_>,
    call: CallRef,
    answer: &impl Serialize,
) -> Result<(), Rejection> {
    succeed_as(draft, call, answer, None)
}

/// The same for a call that may be evidence of progress (G7).
pub(crate) fn succeed_as(
    draft: &mut Draft<'_>,
    call: CallRef,
    answer: &impl Serialize,
    ran: Option<Fingerprint>,
) -> Result<(), Rejection> {
    let answer = serde_json::to_string(answer).unwrap_or_else(|_| "done".to_owned());
    finish(draft, call, CallOutcome::Succeeded, &answer, None, ran)
}
