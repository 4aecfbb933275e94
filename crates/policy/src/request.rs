//! Asking a person, and what their answer causes (I4).

use domain::{
    Answer, Asked, BlockCode, CallOutcome, CallRef, Code, EventBody, GoalId, GoalStatus, GrantedCall,
    HumanRequest, InputKind, InputText, LaneId, OPEN_REQUESTS, PauseReason, RequestEnd, RequestId,
    RunningTurn, TurnOutcome,
};

use crate::command::{CallGrant, NewRequest, Permission};
use crate::decision::Draft;
use crate::rejection::Rejection;
use crate::{budget, call, goal, grant, inbox, job, progress, turn};

/// Denials of one call after which asking for it again leads nowhere.
const DENIALS: u8 = 3;

/// Opens a request for a call of the running turn, answers its calls and ends it; an active Goal that it was bound to is
/// paused for the request in the same transaction.
pub(crate) fn ask(
    draft: &mut Draft<'_>,
    call: CallRef,
    call_grant: &CallGrant,
    asked: &NewRequest,
) -> Result<(), Rejection> {
    let running = turn::at_boundary(draft, call.turn)?;
    let open = call::open_call(&running, call)?;
    let call_grant = &call::in_lane(draft, call, call_grant);
    if running.open_calls().iter().any(|open| open.effect.is_some()) {
        return Err(turn::out_of_order("a request before every admitted call has its result", &running));
    }
    grant::check_call(open.tool, call_grant, draft.state.core.mode)?;
    // What needs leave may be asked for; what is forbidden may not.
    grant::check_permission(open.tool, call_grant, true)?;
    if running.goal_completed_in.is_some() {
        return Err(turn::stopping(domain::StopReason::GoalChanged));
    }
    if draft.state.core.requests.len() >= OPEN_REQUESTS {
        let message = format!("{OPEN_REQUESTS} requests wait for the user already; go on without asking");
        return Err(Rejection::new("I4", Code::LimitExceeded, message));
    }
    let asked = match (asked, &call_grant.permission) {
        (NewRequest::Input { question, options }, _) => {
            Asked::Input { question: question.clone(), options: options.clone() }
        }
        (NewRequest::Permission { subject }, Permission::Ask { because }) => Asked::Permission {
            call,
            tool: open.tool.to_owned(),
            subject: subject.clone(),
            because: because.clone(),
            fingerprint: open.fingerprint,
        },
        (NewRequest::Permission { .. }, Permission::Allow | Permission::Deny { .. }) => {
            return Err(turn::out_of_order("a request for a call that needs no leave", &running));
        }
    };
    open_request(draft, call, &running, asked);
    Ok(())
}

fn open_request(draft: &mut Draft<'_>, call: CallRef, running: &RunningTurn, asked: Asked) {
    let id = draft.state.core.last_request.next();
    let goal_id = progress::active(draft, running).map(|goal| goal.id);
    let lane = draft.state.running(running.number).map_or_else(LaneId::main, |(lane, _)| lane.clone());
    let pause = match &asked {
        Asked::Input { .. } => PauseReason::HumanInput { request: id },
        Asked::Permission { .. } => PauseReason::Permission { request: id },
    };
    let at = draft.now();
    let request = HumanRequest { id, lane: lane.clone(), turn: running.number, goal_id, at, asked };
    draft.emit(EventBody::RequestOpened { request });
    for open in running.open_calls() {
        let (outcome, result) = if open.call == call {
            (
                CallOutcome::Waiting,
                format!("the user was asked (request {id}); the answer follows in a later turn"),
            )
        } else {
            (CallOutcome::NotRun, format!("not run: the turn ends until the user answers request {id}"))
        };
        let finish = turn::Finish { outcome, result: &result, ..turn::Finish::default() };
        turn::emit_finished(draft, &open, &finish);
    }
    // A call that a person allowed may ask again before the first model request; what allowed it is spent.
    let rows = running.unconsumed_rows().to_vec();
    if !rows.is_empty() {
        draft.emit(EventBody::InputConsumed { turn: running.number, rows });
    }
    budget::charge_time(draft);
    let outcome = TurnOutcome::Waiting { request: id };
    draft.emit(EventBody::TurnEnded { turn: running.number, outcome: outcome.clone() });
    if goal_id.is_some() {
        goal::pause_by_runtime(draft, pause, None);
    }
    budget::settle(draft);
    job::follow_turn(draft, &lane, Some(&outcome), (false, None));
}

/// Settles a request, queues what the agent reads of it and lifts exactly the pause that it caused. A request that was
/// settled before stays as it is.
pub(crate) fn answer(draft: &mut Draft<'_>, id: RequestId, answer: &Answer) -> Result<(), Rejection> {
    if id > draft.state.core.last_request || id == RequestId(0) {
        let message = format!("there is no request {id} in this session; `zuno requests list` shows them");
        return Err(Rejection::new("I4", Code::UnknownRequest, message));
    }
    let Some(request) = draft.state.core.request(id).cloned() else { return Ok(()) };
    let (text, runs) = reply(&request, answer)?;
    draft.emit(EventBody::RequestSettled {
        request: id,
        end: RequestEnd::Answered { answer: answer.clone() },
    });
    // A Goal that ended takes its answers with it; its requests were cancelled with it, so this one belongs to none.
    let (lane, goal_id) = (request.lane.clone(), request.goal_id);
    draft.emit(EventBody::InputQueued { lane, input: InputKind::Answer, text, goal_id, runs });
    inbox::release(draft);
    lift(draft, &request);
    Ok(())
}

/// What the agent reads, and the call that the answer allows.
fn reply(request: &HumanRequest, answer: &Answer) -> Result<(InputText, Option<GrantedCall>), Rejection> {
    let id = request.id;
    let why = |reason: &Option<domain::Remark>| {
        reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
    };
    match (&request.asked, answer) {
        (Asked::Input { .. }, Answer::Text { text }) => {
            let labelled = InputText::parse(&format!("[The user's answer to request {id}]\n{text}"));
            Ok((labelled.unwrap_or_else(|_| text.clone()), None))
        }
        (Asked::Input { .. }, Answer::Deny { reason }) => {
            let text = format!(
                "[The user does not answer request {id}{}. Decide yourself or go on without.]",
                why(reason)
            );
            Ok((note(&text)?, None))
        }
        (Asked::Permission { call, tool, fingerprint, .. }, Answer::Allow) => {
            let runs = GrantedCall { call: *call, tool: tool.clone(), fingerprint: *fingerprint };
            let text = format!("[The user allowed the call of `{tool}` (request {id}), once.]");
            Ok((note(&text)?, Some(runs)))
        }
        (Asked::Permission { tool, .. }, Answer::Deny { reason }) => {
            let text = format!(
                "[The user denied the call of `{tool}` (request {id}){}. It did not run. Go on without it.]",
                why(reason)
            );
            Ok((note(&text)?, None))
        }
        (Asked::Input { .. }, Answer::Allow) => {
            let message = format!("request {id} is a question; answer it in words, or deny it");
            Err(Rejection::new("I4", Code::WrongAnswer, message))
        }
        (Asked::Permission { .. }, Answer::Text { .. }) => {
            let message = format!("request {id} asks for leave to run a call; answer with allow or deny");
            Err(Rejection::new("I4", Code::WrongAnswer, message))
        }
    }
}

fn note(text: &str) -> Result<InputText, Rejection> {
    InputText::parse(text).map_err(|fault| Rejection::new("I4", Code::InvalidInput, fault.to_string()))
}

fn lift(draft: &mut Draft<'_>, request: &HumanRequest) {
    let held = draft.state.core.goal.as_ref().filter(|goal| Some(goal.id) == request.goal_id);
    let Some(goal) = held.filter(|goal| match goal.status {
        GoalStatus::Paused(
            PauseReason::HumanInput { request: id } | PauseReason::Permission { request: id },
        ) => id == request.id,
        GoalStatus::Proposed
        | GoalStatus::Active
        | GoalStatus::Paused(_)
        | GoalStatus::Blocked { .. }
        | GoalStatus::BudgetLimited
        | GoalStatus::Completed
        | GoalStatus::Cancelled => false,
    }) else {
        return;
    };
    if let Asked::Permission { tool, fingerprint, .. } = &request.asked
        && goal.denials.iter().any(|denial| denial.call == *fingerprint && denial.times >= DENIALS)
    {
        let detail = format!("the user denied the same call of `{tool}` {DENIALS} times");
        let to = GoalStatus::Blocked { code: BlockCode::PermissionDenied, detail };
        goal::move_to(draft, to, None, None);
    } else {
        goal::lift_pause(draft);
    }
}

/// Settles the requests of a lane that ends, and lifts exactly the pauses that they caused.
pub(crate) fn cancel_of_lane(draft: &mut Draft<'_>, lane: &LaneId) {
    let requests = draft.state.core.requests.iter().filter(|request| request.lane == *lane);
    let requests: Vec<_> = requests.cloned().collect();
    for request in requests {
        draft.emit(EventBody::RequestSettled { request: request.id, end: RequestEnd::Cancelled });
        lift(draft, &request);
    }
}

/// Settles the requests of a Goal that goes on without them or ended.
pub(crate) fn cancel_of_goal(draft: &mut Draft<'_>, goal: GoalId) {
    let requests = draft.state.core.requests.iter().filter(|request| request.goal_id == Some(goal));
    let requests: Vec<_> = requests.map(|request| request.id).collect();
    for request in requests {
        draft.emit(EventBody::RequestSettled { request, end: RequestEnd::Cancelled });
    }
}
