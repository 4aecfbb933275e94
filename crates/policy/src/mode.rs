//! Entering and leaving Plan mode (M1–M5).

use domain::{AgentName, Code, Core, EventBody, InputText, LaneId, Mode, PauseReason, Revision, StopReason};

use crate::command::Delivery;
use crate::decision::Draft;
use crate::rejection::Rejection;
use crate::{background, goal, inbox, job, stop};

/// The agent that every turn runs in Plan mode (M2).
pub const PLAN_AGENT: &str = "plan";

/// The agent of a lane's next turn: in Plan mode `plan`, else the one of its job or the one that the user chose. `None`
/// before the session is open.
pub fn turn_agent(core: &Core, lane: &LaneId) -> Option<AgentName> {
    match core.mode {
        Mode::Work => core.job_of(lane).map(|job| job.agent.clone()).or_else(|| core.work_agent.clone()),
        Mode::Plan => PLAN_AGENT.parse().ok(),
    }
}

pub(crate) fn enter_plan(draft: &mut Draft<'_>) {
    if draft.state.core.mode == Mode::Plan {
        return;
    }
    draft.emit(EventBody::ModeChanged { mode: Mode::Plan });
    stop::stop_all(draft, StopReason::PlanMode);
    background::stop_all(draft);
    if draft.state.core.goal.as_ref().is_some_and(domain::Goal::is_active) {
        goal::move_to(draft, domain::GoalStatus::Paused(PauseReason::PlanMode), None, None);
    }
    job::cancel_waiting(draft, None, "Plan mode was entered");
}

pub(crate) fn start_work(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    expected_plan_revision: Option<Revision>,
    prompt: Option<&InputText>,
) -> Result<(), Rejection> {
    if draft.state.core.mode == Mode::Plan {
        let actual = draft.state.current_revision(lane);
        if let Some(sent) = expected_plan_revision.filter(|sent| *sent != actual) {
            let message =
                format!("the plan to start was revision {sent}, current is {actual}; look at it again");
            return Err(Rejection::new("M4", Code::RevisionConflict, message).with_plan(&draft.state, lane));
        }
        draft.emit(EventBody::ModeChanged { mode: Mode::Work });
        inbox::release(draft);
        goal::lift_plan_mode(draft);
    }
    match prompt {
        Some(text) => inbox::submit(draft, lane, Delivery::Queue, text),
        None => Ok(()),
    }
}
