//! What a Goal waits for without spending a turn (G10).

use domain::{
    CallRef, Code, CommandId, Condition, Digest, EventBody, Fingerprint, GoalId, JobId, Timestamp, WAIT_MS,
    Wait,
};
use serde::Serialize;

use crate::call;
use crate::decision::Draft;
use crate::goal;
use crate::rejection::Rejection;

/// How often a file that is waited for is looked at: soon enough for a person, rare enough to cost nothing.
pub const LOOK_MS: i64 = 5_000;

/// The answer of `goal_wait`.
#[derive(Serialize)]
struct WaitSet {
    waiting_for: String,
    until: Timestamp,
    next: &'static str,
}

/// `goal_wait`.
pub(crate) fn set(
    draft: &mut Draft<'_>,
    call: CallRef,
    wait: &Wait,
    ran: Fingerprint,
) -> Result<(), Rejection> {
    let (goal_id, _) = goal::bound_and_active(draft, call.turn)?;
    let ahead = wait.deadline.0.saturating_sub(draft.now().0);
    if !(1..=WAIT_MS).contains(&ahead) {
        let message = format!(
            "the wait would end {} s from here; it has to end within {} days",
            ahead / 1_000,
            WAIT_MS / (24 * 60 * 60 * 1_000)
        );
        return Err(Rejection::new("G10", Code::LimitExceeded, message));
    }
    match &wait.condition {
        Condition::Command { command }
            if *command > draft.state.core.last_command || *command == CommandId(0) =>
        {
            let message = format!("there is no background command {command} in this session");
            return Err(Rejection::new("G10", Code::UnknownCommand, message));
        }
        Condition::Job { job } if *job > draft.state.core.last_job || *job == JobId(0) => {
            let message = format!("there is no job {job} in this session");
            return Err(Rejection::new("G10", Code::UnknownJob, message));
        }
        Condition::File { .. } => draft.leases.next_look = Some(draft.now().plus_ms(LOOK_MS)),
        Condition::Command { .. } | Condition::Job { .. } | Condition::Time | Condition::Inbox => {}
    }
    draft.emit(EventBody::GoalWaitSet { goal_id, wait: Wait { is_met: false, ..wait.clone() } });
    let next = "end the turn with a short answer; nothing runs for the Goal until then";
    let answer = WaitSet { waiting_for: wait.condition.to_string(), until: wait.deadline, next };
    call::succeed_as(draft, call, &answer, Some(ran))
}

/// Compares the file that is waited for with what it was.
pub(crate) fn look(draft: &mut Draft<'_>, goal_id: GoalId, found: Option<Digest>) -> Result<(), Rejection> {
    let goal = draft.state.core.goal.as_ref().filter(|goal| goal.id == goal_id && goal.is_open());
    let wait = goal.and_then(|goal| goal.wait.as_ref()).filter(|wait| !wait.is_met);
    let Some(Condition::File { baseline, .. }) = wait.map(|wait| &wait.condition) else {
        return Err(Rejection::new("G10", Code::NotDue, "the Goal waits for no file"));
    };
    if found == *baseline {
        draft.leases.next_look = Some(draft.now().plus_ms(LOOK_MS));
    } else {
        draft.emit(EventBody::GoalWaitMet { goal_id });
    }
    Ok(())
}
