//! A turn from admission to its end, and its recovery (T4–T10).

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use domain::{
    BlockCode, CallOutcome, CallRef, Code, Confinement, Core, Digest, Effect, EventBody, Evidence, Failure,
    FailureKind, GoalBinding, GoalStatus, InputCancelReason, InputId, LaneId, ModelCall, ModelName, OpenCall,
    PauseReason, REQUESTS_PER_TURN, Retry, RunningTurn, Settlement, StopReason, Timestamp, TokenUsage,
    TurnNumber, TurnOutcome, TurnPhase, TurnTrigger, WaitOver,
};

use crate::command::{Jitter, Scope};
use crate::continuation::{ContinuationView, NextAction, next_action};
use crate::decision::Draft;
use crate::facts::{LEASE_MS, Lease, Owner};
use crate::inbox::{self, Unconsumed};
use crate::rejection::Rejection;
use crate::{budget, goal, job, mode, progress, retry};

/// Calls in one response: models ask for a handful; more is a malfunction.
pub const CALLS_PER_RESPONSE: usize = 128;
/// Bytes of one response's text and arguments: several times the longest output any model gives.
pub const RESPONSE_BYTES: usize = 4 * 1024 * 1024;

pub(crate) fn admit(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    owner: &Owner,
    model: &ModelName,
    (scope, max_requests, confinement): (Scope, NonZeroU32, Option<Confinement>),
) -> Result<(), Rejection> {
    check_lease_is_free(draft, lane, owner)?;
    let trigger = match next_action(&ContinuationView::of_lane(&draft.state.core, lane), draft.now()) {
        NextAction::RunInput { row } => TurnTrigger::Input { rows: vec![row] },
        NextAction::RunGoal { goal_id, continuation } if scope == Scope::All => {
            TurnTrigger::Goal { goal_id, continuation }
        }
        NextAction::RunGoal { .. } => {
            let message = "the Goal would go on, and this client asks the person first";
            return Err(Rejection::new("T11", Code::NotDue, message));
        }
        NextAction::WaitUntil { .. } | NextAction::WaitFor { .. } | NextAction::Idle { .. } => {
            return Err(Rejection::new("T4", Code::NotDue, "nothing may start a turn at this moment"));
        }
    };
    start(draft, lane, trigger, (model.clone(), max_requests.get(), confinement))?;
    // What runs in other lanes runs under this owner's lease.
    if draft.state.core.running_turns().count() == 1 {
        let epoch = draft.state.core.last_turn;
        let expires_at = draft.now().plus_ms(LEASE_MS);
        draft.leases.turn = Some(Lease { owner: owner.clone(), epoch, expires_at });
    }
    Ok(())
}

/// Starts a turn for this trigger; the lease is the caller's concern.
pub(crate) fn start(
    draft: &mut Draft<'_>,
    lane: &LaneId,
    trigger: TurnTrigger,
    (model, max_requests, confinement): (ModelName, u32, Option<Confinement>),
) -> Result<(), Rejection> {
    let Some(agent) = mode::turn_agent(&draft.state.core, lane) else {
        return Err(Rejection::unknown_session(draft.state.id));
    };
    let turn = draft.state.core.last_turn.next();
    let active = draft.state.core.goal.as_ref().filter(|goal| goal.is_active());
    let goal = active.map(|goal| GoalBinding { goal_id: goal.id, revision: goal.revision });
    let wait_over = wait_over(&draft.state.core, lane, &trigger, draft.now());
    draft.emit(EventBody::TurnStarted {
        turn,
        lane: lane.clone(),
        agent,
        model,
        trigger,
        goal,
        max_requests: max_requests.min(REQUESTS_PER_TURN),
        wait_over,
        confinement,
    });
    Ok(())
}

/// The wait that this turn consumes: one that is over, if the turn runs for its Goal (G10).
fn wait_over(core: &Core, lane: &LaneId, trigger: &TurnTrigger, now: Timestamp) -> Option<WaitOver> {
    let goal = core.goal.as_ref().filter(|goal| goal.is_active())?;
    let is_for_goal = match trigger {
        TurnTrigger::Goal { .. } => true,
        TurnTrigger::Input { rows } => {
            let inbox = core.lanes.get(lane).map_or(&[][..], |slot| &slot.inbox);
            inbox.iter().any(|row| rows.contains(&row.id) && row.goal_id == Some(goal.id))
        }
    };
    let wait = goal.wait.as_ref().filter(|wait| is_for_goal && !wait.holds(now))?;
    Some(WaitOver { condition: wait.condition.clone(), is_met: wait.is_met })
}

/// No turn runs, or those that do are this owner's in other lanes; else says whether their owner still has time.
fn check_lease_is_free(draft: &Draft<'_>, lane: &LaneId, owner: &Owner) -> Result<(), Rejection> {
    let core = &draft.state.core;
    let Some((_, running)) = core.running_turns().next() else { return Ok(()) };
    let own = core.lanes.get(lane).and_then(|slot| slot.running.as_ref());
    let turn = own.unwrap_or(running).number;
    match draft.leases.turn.as_ref().filter(|lease| lease.expires_at > draft.now()) {
        Some(lease) if lease.owner == *owner && own.is_none() => Ok(()),
        Some(lease) => {
            let message = format!("turn {turn} runs at worker {}", lease.owner.worker);
            Err(Rejection::new("T5", Code::LeaseHeld, message))
        }
        None => {
            let message = format!("the owner of turn {turn} is gone; recover the turn first");
            Err(Rejection::new("T7", Code::RecoveryNeeded, message))
        }
    }
}

/// The running turn of this number, or the refusal of a write that comes too late (T5).
pub(crate) fn running(draft: &Draft<'_>, turn: TurnNumber) -> Result<RunningTurn, Rejection> {
    match draft.state.running(turn) {
        Some((_, running)) => Ok(running.clone()),
        None => {
            let message = format!("turn {turn} is over; what it still had to say is not recorded");
            Err(Rejection::new("T5", Code::StaleEpoch, message))
        }
    }
}

pub(crate) fn renew(draft: &mut Draft<'_>, turn: TurnNumber, owner: &Owner) -> Result<(), Rejection> {
    running(draft, turn)?;
    let now = draft.now();
    match draft.leases.turn.clone().filter(|lease| lease.owner == *owner) {
        Some(lease) => {
            budget::watch_time(draft, lease.expires_at <= now);
            draft.leases.turn = Some(Lease { expires_at: now.plus_ms(LEASE_MS), ..lease });
            Ok(())
        }
        None => Err(Rejection::new("T5", Code::StaleEpoch, "another worker owns the session")),
    }
}

pub(crate) fn begin_request(
    draft: &mut Draft<'_>,
    turn: TurnNumber,
    estimated_input: u64,
) -> Result<(), Rejection> {
    let running = at_boundary(draft, turn)?;
    let (request, attempt) = match &running.phase {
        TurnPhase::Ready => (running.request + 1, 1),
        TurnPhase::Failed { attempt, retry_at: Some(at), .. } if *at <= draft.now() => {
            (running.request, attempt + 1)
        }
        TurnPhase::Failed { .. }
        | TurnPhase::Requesting { .. }
        | TurnPhase::Calling { .. }
        | TurnPhase::Answered => return Err(out_of_order("a model request", &running)),
    };
    if running.goal_completed_in.is_some_and(|done| request > done + 1) {
        return Err(stopping(StopReason::GoalChanged));
    }
    if request > running.max_requests {
        let message = format!("the turn made {} model requests, which is the limit", running.max_requests);
        return Err(Rejection::new("T12", Code::LimitExceeded, message));
    }
    let rows = rows_to_consume(draft, &running);
    if !rows.is_empty() {
        draft.emit(EventBody::InputConsumed { turn, rows });
    }
    let charged_to = running.goal.map(|bound| bound.goal_id).filter(|id| {
        let same = draft.state.core.goal.as_ref().filter(|goal| goal.id == *id);
        same.is_some_and(domain::Goal::is_active) || running.goal_completed_in.is_some()
    });
    draft.emit(EventBody::ModelRequested { turn, request, attempt, estimated_input, charged_to });
    Ok(())
}

/// The rows that become part of the history with this request: those the turn took, and those that join it (I1, I5).
fn rows_to_consume(draft: &Draft<'_>, running: &RunningTurn) -> Vec<InputId> {
    let mut rows = running.unconsumed_rows().to_vec();
    if let Some((lane, _)) = draft.state.running(running.number)
        && !draft.state.core.inbox_held
        // A turn that only reports that its Goal is reached cannot do what it is told meanwhile.
        && running.goal_completed_in.is_none()
    {
        let bound = progress::active(draft, running).map(|goal| goal.id);
        rows.extend(inbox::joining(&draft.state.core, lane, bound));
    }
    rows
}

/// The boundary of T6: the running turn, if nobody asked it to stop and its lease holds (T5). A worker that slept
/// past its time has to renew first, and learns then whether another one took over.
pub(crate) fn at_boundary(draft: &Draft<'_>, turn: TurnNumber) -> Result<RunningTurn, Rejection> {
    let running = running(draft, turn)?;
    if let Some(reason) = running.stop {
        return Err(stopping(reason));
    }
    if draft.leases.turn.as_ref().is_none_or(|lease| lease.expires_at <= draft.now()) {
        let message = format!("the lease of turn {turn} has ended; renew it first");
        return Err(Rejection::new("T5", Code::StaleEpoch, message));
    }
    if progress::is_stuck(&running) {
        let times = progress::IDENTICAL_CALLS;
        let message = format!("the turn got the same result from the same call {times} times in a row");
        return Err(Rejection::new("T12", Code::LimitExceeded, message));
    }
    Ok(running)
}

pub(crate) fn stopping(reason: StopReason) -> Rejection {
    Rejection::new("T6", Code::TurnStopping, format!("the turn was asked to stop: {reason}"))
}

pub(crate) fn out_of_order(what: &str, running: &RunningTurn) -> Rejection {
    let phase = match &running.phase {
        TurnPhase::Ready => "between requests",
        TurnPhase::Requesting { .. } => "waiting for the model",
        TurnPhase::Failed { retry_at: Some(_), .. } => "waiting to try its request again",
        TurnPhase::Failed { retry_at: None, .. } => "left with a failed request",
        TurnPhase::Calling { .. } => "at its calls",
        TurnPhase::Answered => "answered",
    };
    let message = format!("turn {} is {phase}: {what} does not fit here", running.number);
    Rejection::new("T6", Code::OutOfOrder, message)
}

pub(crate) fn fail_request(
    draft: &mut Draft<'_>,
    turn: TurnNumber,
    failure: &Failure,
    elapsed_ms: i64,
    jitter: Jitter,
) -> Result<(), Rejection> {
    let asking = running(draft, turn)?;
    let TurnPhase::Requesting { attempt, estimated_input, charged_to } = asking.phase else {
        return Err(out_of_order("a failed attempt", &asking));
    };
    // First, as one that crosses the budget is not repeated.
    if let Some(usage) = cost(failure, estimated_input) {
        budget::charge(draft, charged_to, &asking, attempt, usage);
    }
    let running = running(draft, turn)?;
    let delay =
        retry::in_place_delay_ms(attempt, failure, elapsed_ms, jitter).filter(|_| running.stop.is_none());
    draft.emit(EventBody::ModelFailed {
        turn,
        request: running.request,
        attempt,
        failure: failure.clone(),
        retry_at: delay.map(|ms| draft.now().plus_ms(ms)),
    });
    Ok(())
}

pub(crate) fn record_response(
    draft: &mut Draft<'_>,
    turn: TurnNumber,
    text: &str,
    calls: &[ModelCall],
    usage: TokenUsage,
) -> Result<(), Rejection> {
    let running = running(draft, turn)?;
    let TurnPhase::Requesting { attempt, charged_to, .. } = running.phase else {
        return Err(out_of_order("a response", &running));
    };
    let bytes = text.len() + calls.iter().map(|call| call.tool.len() + call.arguments.len()).sum::<usize>();
    if calls.len() > CALLS_PER_RESPONSE || bytes > RESPONSE_BYTES {
        let message = format!(
            "a response of {} calls and {bytes} bytes; the limits are {CALLS_PER_RESPONSE} and {RESPONSE_BYTES}",
            calls.len()
        );
        return Err(Rejection::new("T6", Code::LimitExceeded, message));
    }
    let request = running.request;
    draft.emit(EventBody::ModelResponded {
        turn,
        request,
        text: text.to_owned(),
        calls: calls.to_vec(),
        usage,
    });
    let retry =
        draft.state.core.goal.as_ref().filter(|goal| goal.retry.is_some() && charged_to == Some(goal.id));
    if let Some(goal_id) = retry.map(|goal| goal.id) {
        draft.emit(EventBody::RetryCleared { goal_id });
    }
    budget::charge_time(draft);
    budget::charge(draft, charged_to, &running, attempt, usage);
    budget::settle(draft);
    Ok(())
}

/// Ends the turn. A turn that was asked to stop ends as stopped, whatever its owner proposes.
pub(crate) fn end(
    draft: &mut Draft<'_>,
    turn: TurnNumber,
    proposed: &TurnOutcome,
    report: Option<&str>,
    jitter: Jitter,
) -> Result<(), Rejection> {
    let running = running(draft, turn)?;
    let lane = lane_of(draft, turn);
    let is_done = running.phase == TurnPhase::Answered || running.goal_completed_in.is_some();
    let outcome = match running.stop {
        Some(StopReason::Interrupted) => TurnOutcome::Interrupted,
        Some(reason) => TurnOutcome::Stopped { reason },
        None if *proposed == TurnOutcome::Completed && !is_done => {
            return Err(out_of_order("completion", &running));
        }
        // Only a request to a person makes a turn wait, and it ends the turn itself (I4).
        None if matches!(proposed, TurnOutcome::Waiting { .. }) => {
            return Err(out_of_order("an end that waits for a person", &running));
        }
        None => proposed.clone(),
    };
    if running.open_calls().iter().any(|open| open.effect.is_some()) {
        return Err(out_of_order("an end before every admitted call has its result", &running));
    }
    finish_unadmitted_calls(draft, &running, "not run: the turn ended first");
    let failure = match &outcome {
        TurnOutcome::Failed { failure } => Some(failure),
        TurnOutcome::Completed
        | TurnOutcome::Waiting { .. }
        | TurnOutcome::Interrupted
        | TurnOutcome::Stopped { .. } => None,
    };
    charge_unanswered(draft, &running, failure);
    budget::charge_time(draft);
    let fate = match &outcome {
        TurnOutcome::Interrupted => Unconsumed::Cancel(InputCancelReason::Interrupted),
        TurnOutcome::Failed { .. } => Unconsumed::Cancel(InputCancelReason::TurnFailed),
        TurnOutcome::Stopped { .. } | TurnOutcome::Completed | TurnOutcome::Waiting { .. } => {
            Unconsumed::Return
        }
    };
    inbox::give_back(draft, running.unconsumed_rows(), fate);
    draft.emit(EventBody::TurnEnded { turn, outcome: outcome.clone() });
    // A Goal whose budget is used up is limited by it, whatever else its last turn says.
    budget::settle(draft);
    if !lane.is_main() {
        job::follow_turn(draft, &lane, Some(&outcome), (false, report));
        return Ok(());
    }
    progress::settle(draft, &running);
    if let TurnOutcome::Failed { failure } = &outcome {
        follow_failure(draft, &running, failure, jitter);
    }
    Ok(())
}

fn lane_of(draft: &Draft<'_>, turn: TurnNumber) -> LaneId {
    draft.state.running(turn).map_or_else(LaneId::main, |(lane, _)| lane.clone())
}

/// Whether a failed request may have cost something. One that the provider turned away, or that never
/// reached it, did not: an outage of a night must not use up the budget.
const fn may_have_cost(failure: FailureKind) -> bool {
    match failure {
        FailureKind::StreamIncomplete
        | FailureKind::EmptyResponse
        | FailureKind::ProviderProtocol
        | FailureKind::Refused
        | FailureKind::Stuck
        | FailureKind::StoreBusy
        | FailureKind::CorruptState => true,
        FailureKind::RateLimited
        | FailureKind::ServerError
        | FailureKind::Transport
        | FailureKind::ContextLimit
        | FailureKind::Authentication
        | FailureKind::QuotaExhausted
        | FailureKind::Unsupported
        | FailureKind::ModelUnavailable
        | FailureKind::PromptTooLarge
        | FailureKind::NoSuchAgent => false,
    }
}

/// What a failed attempt cost: what was reported, or an estimate of what may have been spent (G4, G5).
fn cost(failure: &Failure, estimated_input: u64) -> Option<TokenUsage> {
    let input = TokenUsage { input: estimated_input, estimated: true, ..TokenUsage::default() };
    match failure.usage {
        // No request is empty: one without input does not tell it.
        Some(usage) if usage.input == 0 && usage.cached_input == 0 => Some(usage.plus(input)),
        Some(usage) => Some(usage),
        None => may_have_cost(failure.kind).then_some(input),
    }
}

/// A request that was sent and never answered still cost something (G4, G5). `ending` is what the turn fails with.
fn charge_unanswered(draft: &mut Draft<'_>, running: &RunningTurn, ending: Option<&Failure>) {
    // What failed before was charged with its failure.
    let TurnPhase::Requesting { attempt, estimated_input, charged_to } = running.phase else { return };
    let input = TokenUsage { input: estimated_input, estimated: true, ..TokenUsage::default() };
    let usage = ending.map_or(Some(input), |failure| cost(failure, estimated_input));
    if let Some(usage) = usage {
        budget::charge(draft, charged_to, running, attempt, usage);
    }
}

fn finish_unadmitted_calls(draft: &mut Draft<'_>, running: &RunningTurn, result: &str) {
    for open in running.open_calls().into_iter().filter(|open| open.effect.is_none()) {
        emit_finished(draft, &open, &Finish { outcome: CallOutcome::NotRun, result, ..Finish::default() });
    }
}

/// What a call came to.
pub(crate) struct Finish<'a> {
    pub(crate) outcome: CallOutcome,
    pub(crate) result: &'a str,
    pub(crate) full_output: Option<Digest>,
    pub(crate) evidence: Option<Evidence>,
}

impl Default for Finish<'_> {
    fn default() -> Self {
        Self { outcome: CallOutcome::NotRun, result: "", full_output: None, evidence: None }
    }
}

/// Gives a call its result.
pub(crate) fn emit_finished(draft: &mut Draft<'_>, open: &OpenCall<'_>, finish: &Finish<'_>) {
    let Finish { outcome, result, full_output, evidence } = *finish;
    let (call, tool, result) = (open.call, open.tool.to_owned(), result.to_owned());
    draft.emit(EventBody::CallFinished { call, tool, outcome, result, full_output, evidence });
}

/// What a failed turn does to the Goal it was bound to (T9, T10).
fn follow_failure(draft: &mut Draft<'_>, running: &RunningTurn, failure: &Failure, jitter: Jitter) {
    let Some(goal) = draft.state.core.goal.clone() else { return };
    if running.goal.map(|bound| bound.goal_id) != Some(goal.id) || !goal.is_active() {
        return;
    }
    let pause = |draft: &mut Draft<'_>, reason| goal::pause_by_runtime(draft, reason, None);
    let block = |draft: &mut Draft<'_>, code| {
        let detail = failure.detail.clone();
        goal::move_to(draft, GoalStatus::Blocked { code, detail }, None, None);
    };
    match failure.kind {
        FailureKind::RateLimited
        | FailureKind::ServerError
        | FailureKind::Transport
        | FailureKind::StreamIncomplete
        | FailureKind::EmptyResponse
        | FailureKind::StoreBusy => {
            let attempt = goal.retry.map_or(0, |retry| retry.attempt).saturating_add(1);
            let at = draft.now().plus_ms(retry::delay_ms(attempt, failure, jitter));
            let retry = Retry { attempt, at, failure: failure.kind };
            draft.emit(EventBody::RetryScheduled { goal_id: goal.id, retry });
        }
        FailureKind::Authentication => pause(draft, PauseReason::Authentication),
        FailureKind::QuotaExhausted => pause(draft, PauseReason::Quota),
        FailureKind::ProviderProtocol => block(draft, BlockCode::ProviderProtocol),
        FailureKind::Refused => block(draft, BlockCode::ProviderRefused),
        FailureKind::Unsupported => block(draft, BlockCode::UnsupportedCapability),
        FailureKind::ModelUnavailable => block(draft, BlockCode::ModelUnavailable),
        // Without compaction a history that does not fit will not fit next time either.
        FailureKind::ContextLimit | FailureKind::PromptTooLarge => block(draft, BlockCode::PromptTooLarge),
        FailureKind::CorruptState => block(draft, BlockCode::CorruptState),
        FailureKind::NoSuchAgent => block(draft, BlockCode::NoSuchAgent),
        // One that repeats itself was paused with its streaks; the budget bounds one whose turns run to their limit.
        FailureKind::Stuck => {}
    }
}

pub(crate) fn recover(
    draft: &mut Draft<'_>,
    turn: TurnNumber,
    dead: Option<&Owner>,
    found: &BTreeMap<CallRef, Option<Digest>>,
) -> Result<(), Rejection> {
    let running = running(draft, turn)?;
    let lane = lane_of(draft, turn);
    if let Some(lease) = &draft.leases.turn
        && lease.expires_at > draft.now()
        && dead != Some(&lease.owner)
    {
        let message = format!("turn {turn} runs at worker {}, whose lease has not ended", lease.owner.worker);
        return Err(Rejection::new("T5", Code::LeaseHeld, message));
    }
    let is_seen_dead = dead.is_some() && dead == draft.leases.turn.as_ref().map(|lease| &lease.owner);
    let mut uncertain = None;
    for open in running.open_calls() {
        let Some(effect) = open.effect else { continue };
        let settlement = settle((open.call, effect), found, is_seen_dead);
        if settlement == Settlement::Uncertain {
            uncertain.get_or_insert(open.call);
        }
        let (outcome, result) = settled(settlement);
        emit_finished(draft, &open, &Finish { outcome, result, ..Finish::default() });
    }
    finish_unadmitted_calls(draft, &running, "not run: the worker died first");
    charge_unanswered(draft, &running, None);
    budget::charge_time(draft);
    let is_interrupted = running.stop == Some(StopReason::Interrupted);
    let fate =
        if is_interrupted { Unconsumed::Cancel(InputCancelReason::Interrupted) } else { Unconsumed::Return };
    inbox::give_back(draft, running.unconsumed_rows(), fate);
    draft.emit(if is_interrupted {
        EventBody::TurnEnded { turn, outcome: TurnOutcome::Interrupted }
    } else {
        EventBody::TurnLost { turn }
    });
    if let Some(call) = uncertain
        && draft.state.core.goal.as_ref().is_some_and(domain::Goal::is_active)
    {
        goal::pause_by_runtime(draft, PauseReason::UncertainSideEffect { call }, None);
    }
    budget::settle(draft);
    if !lane.is_main() {
        let ended = is_interrupted.then_some(&TurnOutcome::Interrupted);
        job::follow_turn(draft, &lane, ended, (uncertain.is_some(), None));
        return Ok(());
    }
    progress::settle(draft, &running);
    Ok(())
}

fn settle(
    (call, effect): (CallRef, &Effect),
    found: &BTreeMap<CallRef, Option<Digest>>,
    is_seen_dead: bool,
) -> Settlement {
    let Effect::FileWrite { .. } = effect else { return effect.settle(None) };
    // Nobody could look at the file.
    let Some(found) = found.get(&call) else { return Settlement::Uncertain };
    let settlement = effect.settle(*found);
    // Whoever only fell silent may be in the middle of the write, and wake up and finish it.
    if settlement == Settlement::NotRun && !is_seen_dead { Settlement::Uncertain } else { settlement }
}

const fn settled(settlement: Settlement) -> (CallOutcome, &'static str) {
    match settlement {
        Settlement::Done => (
            CallOutcome::Succeeded,
            "done: the worker died before it could report, but the file has exactly the content that was to be written",
        ),
        Settlement::NotRun => (
            CallOutcome::NotRun,
            "not run: the worker died before the call changed anything; call it again if needed",
        ),
        Settlement::Lost => (CallOutcome::Lost, "cut off by a crash; inspect before repeating"),
        Settlement::Uncertain => (
            CallOutcome::Uncertain,
            "cut off by a crash, and it cannot be told whether it happened; it was not repeated; inspect first",
        ),
    }
}
