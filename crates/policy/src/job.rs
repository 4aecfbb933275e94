//! Delegated work: a job starts, ends and reports, each in one transaction (E8, C5, W2).

use domain::{
    CallOutcome, Capability, CapabilitySet, Code, Effect, EventBody, GoalId, InputCancelReason, InputId,
    InputKind, InputText, Job, JobId, JobOutcome, LaneId, RUNNING_JOBS, StopReason, TurnNumber, TurnOutcome,
    TurnTrigger,
};
use serde::Serialize;

use crate::call;
use crate::command::{CallGrant, NewJob};
use crate::decision::Draft;
use crate::progress;
use crate::rejection::Rejection;
use crate::{inbox, request, turn};

/// Bytes of a report: what a model reads of one result (V2).
pub const REPORT_BYTES: usize = 32 * 1024;

/// All that a lane may keep of what its parent may do: asking the person, delegating on and speaking for the Goal stay
/// with the main lane (C5).
pub const CHILD: CapabilitySet = CapabilitySet::of(&[
    Capability::ReadWorkspace,
    Capability::SearchWorkspace,
    Capability::WriteWorkspace,
    Capability::RunCommand,
    Capability::Network,
    Capability::LoadSkill,
    Capability::ReadWorkState,
    Capability::UpdatePlan,
    Capability::UpdateWorkItems,
]);

/// The answer of a call that starts a job and does not wait for it.
#[derive(Serialize)]
struct Started {
    job: JobId,
    status: &'static str,
    next: &'static str,
}

/// Admits the call, opens the lane and starts its turn: a job is never a promise that nobody keeps.
pub(crate) fn start(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    call: domain::CallRef,
    grant: &CallGrant,
    new: &NewJob,
) -> Result<(), Rejection> {
    if !lane.is_main() {
        let message =
            "only the session's main agent delegates; do it yourself, or say in your report what is left";
        return Err(Rejection::new("C5", Code::Denied, message));
    }
    if draft.state.core.jobs.len() >= RUNNING_JOBS {
        let message =
            format!("{RUNNING_JOBS} jobs run already; wait for the report of one, or do it yourself");
        return Err(Rejection::new("W2", Code::LimitExceeded, message));
    }
    call::admit(draft, call, grant, &Effect::Job)?;
    let parent = turn::running(draft, call.turn)?;
    let goal_id = progress::active(draft, &parent).map(|goal| goal.id);
    let id = draft.state.core.last_job.next();
    let child = LaneId::of_job(id);
    draft.emit(EventBody::JobStarted {
        job: Job {
            id,
            child: child.clone(),
            call,
            agent: new.agent.clone(),
            grant: new.role_grant.intersect(grant.grant).intersect(CHILD).iter().collect(),
            goal_id,
            title: new.title.clone(),
            since: draft.now(),
        },
    });
    draft.emit(EventBody::InputQueued {
        lane: child.clone(),
        input: InputKind::Task,
        text: new.text.clone(),
        goal_id,
        runs: None,
    });
    let trigger = TurnTrigger::Input { rows: vec![InputId(draft.state.core.head)] };
    let terms = (parent.model.clone(), parent.max_requests, new.confinement);
    turn::start(draft, &child, trigger, terms)?;
    if new.is_background {
        let next = "it works beside your turns; its report comes to you. To continue only then, end the turn";
        call::succeed_as(draft, call, &Started { job: id, status: "running", next }, Some(new.ran))?;
    }
    Ok(())
}

/// Draws the consequence of the end of a turn in the lane of a job; `None` is a turn that was lost (T7). `report` is what
/// its agent said last.
pub(crate) fn follow_turn(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    outcome: Option<&TurnOutcome>,
    (is_uncertain, report): (bool, Option<&str>),
) {
    let Some(job) = draft.state.core.job_of(lane).cloned() else { return };
    let (outcome, text) = match outcome {
        Some(TurnOutcome::Completed) => {
            (JobOutcome::Succeeded, report.unwrap_or("it ended without a report").to_owned())
        }
        Some(TurnOutcome::Failed { failure }) => {
            (JobOutcome::Failed, format!("it failed ({}): {}", failure.kind.name(), failure.detail))
        }
        Some(TurnOutcome::Interrupted) => (JobOutcome::Cancelled, "the user interrupted it".to_owned()),
        Some(TurnOutcome::Stopped { reason }) => (JobOutcome::Cancelled, format!("it was stopped: {reason}")),
        // It goes on when the person answered; who waits for it does not.
        Some(TurnOutcome::Waiting { request }) => {
            let text = format!(
                "job {} waits until the user answers request {request}; its report follows in a later turn",
                job.id
            );
            answer_call(draft, &job, CallOutcome::Waiting, &text);
            return;
        }
        None if is_uncertain => (
            JobOutcome::Uncertain,
            "cut off by a crash in the middle of something that may have happened; inspect before repeating"
                .to_owned(),
        ),
        None => (JobOutcome::Failed, "cut off by a crash; inspect before repeating".to_owned()),
    };
    settle(draft, &job, outcome, &text);
}

/// Ends a job with its lane and reports it, in one transaction (W2).
fn settle(draft: &mut Draft<'_>, job: &Job, outcome: JobOutcome, text: &str) {
    inbox::cancel_of_lane(draft, &job.child, InputCancelReason::JobEnded);
    request::cancel_of_lane(draft, &job.child);
    draft.emit(EventBody::JobEnded { job: job.id, outcome });
    let text = &text[..text.floor_char_boundary(REPORT_BYTES)];
    let text = format!("[Job {} ({}) {}: {}]\n{text}", job.id, job.agent, outcome.name(), job.title);
    let of_call = match outcome {
        JobOutcome::Succeeded => CallOutcome::Succeeded,
        JobOutcome::Failed => CallOutcome::Failed,
        JobOutcome::Cancelled => CallOutcome::Stopped,
        JobOutcome::Uncertain => CallOutcome::Uncertain,
    };
    // The report of a Goal that ended has no reader.
    let open = draft.state.open_goal().map(|goal| goal.id);
    if answer_call(draft, job, of_call, &text) || job.goal_id.is_some_and(|goal| Some(goal) != open) {
        return;
    }
    // Neither blank nor too long, by its first line and its bound.
    let Ok(text) = InputText::parse(&text) else { return };
    let (lane, goal_id) = (LaneId::main(), job.goal_id);
    draft.emit(EventBody::InputQueued { lane, input: InputKind::Report, text, goal_id, runs: None });
}

/// Answers the call that delegated the job, if it still waits for it.
fn answer_call(draft: &mut Draft<'_>, job: &Job, outcome: CallOutcome, result: &str) -> bool {
    let parent = draft.state.running(job.call.turn).map(|(_, running)| running.clone());
    let open = parent.as_ref().and_then(|parent| {
        let waits = |open: &domain::OpenCall<'_>| open.call == job.call && open.effect == Some(&Effect::Job);
        parent.open_calls().into_iter().find(waits)
    });
    let Some(open) = open else { return false };
    turn::emit_finished(draft, &open, &turn::Finish { outcome, result, ..turn::Finish::default() });
    true
}

/// The user ends a job.
pub(crate) fn cancel(draft: &mut Draft<'_>, id: JobId) -> Result<(), Rejection> {
    let Some(job) = draft.state.core.job(id).cloned() else {
        let message = if id > draft.state.core.last_job || id == JobId(0) {
            format!("there is no job {id} in this session; `zuno jobs list` shows them")
        } else {
            format!("job {id} is over")
        };
        return Err(Rejection::new("W2", Code::UnknownJob, message));
    };
    match running_turn(draft, &job) {
        Some((turn, None)) => {
            draft.emit(EventBody::TurnStopRequested { turn, reason: StopReason::JobCancelled });
        }
        Some((_, Some(_))) => {}
        None => settle(draft, &job, JobOutcome::Cancelled, "the user cancelled it"),
    }
    Ok(())
}

/// Ends the jobs that wait for a person and have no turn whose stop would end them: all of them, or those of a Goal.
pub(crate) fn cancel_waiting(draft: &mut Draft<'_>, goal: Option<GoalId>, why: &str) {
    let is_meant = |job: &&Job| goal.is_none() || job.goal_id == goal;
    let jobs: Vec<_> = draft.state.core.jobs.iter().filter(is_meant).cloned().collect();
    for job in jobs {
        if running_turn(draft, &job).is_none() {
            settle(draft, &job, JobOutcome::Cancelled, why);
        }
    }
}

/// Ends the jobs that nothing goes on with: whose question the user goes on without, for one. Looked for after every
/// decision, whatever led to it.
pub(crate) fn end_forgotten(draft: &mut Draft<'_>) {
    let core = &draft.state.core;
    let goes_on = |job: &Job| {
        let slot = core.lanes.get(&job.child);
        slot.is_some_and(|slot| slot.running.is_some() || !slot.inbox.is_empty())
            || core.requests.iter().any(|request| request.lane == job.child)
    };
    let forgotten: Vec<_> = core.jobs.iter().filter(|job| !goes_on(job)).cloned().collect();
    for job in forgotten {
        settle(draft, &job, JobOutcome::Cancelled, "the user went on without answering what it asked");
    }
}

/// The running turn of a job, and why it is to stop.
fn running_turn(draft: &Draft<'_>, job: &Job) -> Option<(TurnNumber, Option<StopReason>)> {
    let running = draft.state.core.lanes.get(&job.child)?.running.as_ref()?;
    Some((running.number, running.stop))
}
