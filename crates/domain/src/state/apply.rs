//! How each event changes the state. Total: an event that names something unknown changes nothing but the head.

use std::sync::Arc;

use super::{Core, Lane, PlanClosure, PlanHead, SessionState};
use crate::event::{Actor, Event, EventBody};
use crate::failure::{FailureClass, FailureKind};
use crate::goal::{Budgets, Denial, Goal, GoalStatus, GoalUsage, Objective, PauseReason};
use crate::id::{CallRef, GoalId, InputId, LaneId, RequestId, Revision, Timestamp, TurnNumber};
use crate::inbox::{GrantedCall, InboxRow, InputKind};
use crate::progress::{Evidence, Fingerprint, Progress, Repeat, Streaks};
use crate::request::{Answer, Asked, RequestEnd};
use crate::turn::{
    CallOutcome, CallState, ModelCall, RunningTurn, StopReason, TOOL_NAME_CHARS, TurnEnd, TurnOutcome,
    TurnPhase, TurnTrigger,
};
use crate::wait::WaitOver;

/// Characters of a session's title: one line of a list.
const TITLE_CHARS: usize = 80;
/// Denied calls that a Goal remembers: a model that is denied one asks for it again soon or not at all (I4).
const REMEMBERED_DENIALS: usize = 8;

impl SessionState {
    /// Follows one event.
    pub fn apply(&mut self, event: &Event) {
        let core = &mut self.core;
        core.head = event.seq;
        core.last_at = event.at;
        match &event.body {
            EventBody::SessionOpened { workspace, agent } => {
                core.workspace = Some(workspace.clone());
                core.work_agent = Some(agent.clone());
                core.lanes.insert(LaneId::main(), Lane::default());
            }
            EventBody::AgentSelected { agent } => core.work_agent = Some(agent.clone()),
            EventBody::ModeChanged { mode } => core.mode = *mode,
            EventBody::PlanRevised { lane, plan } => {
                if let Some(slot) = core.lanes.get_mut(lane) {
                    slot.plan = Some(PlanHead { seq: event.seq, by: event.actor.clone(), closed: None });
                    self.plans.insert(lane.clone(), Arc::new(plan.clone()));
                }
            }
            EventBody::PlanClosed { lane, reason, .. } => {
                if let Some(head) = core.lanes.get_mut(lane).and_then(|slot| slot.plan.as_mut()) {
                    let by = event.actor.clone();
                    head.closed = Some(PlanClosure { by, reason: reason.clone(), at: event.at });
                }
            }
            EventBody::GoalOpened { .. }
            | EventBody::GoalMoved { .. }
            | EventBody::GoalEdited { .. }
            | EventBody::GoalBudgetChanged { .. }
            | EventBody::GoalAmendmentProposed { .. }
            | EventBody::GoalAmendmentDeclined { .. }
            | EventBody::GoalBlockStaged { .. }
            | EventBody::GoalWaitSet { .. }
            | EventBody::GoalWaitMet { .. }
            | EventBody::GoalWaitLifted { .. }
            | EventBody::GoalTimeCharged { .. }
            | EventBody::GoalCharged { .. }
            | EventBody::GoalBudgetAnnounced { .. }
            | EventBody::RetryScheduled { .. }
            | EventBody::RetryCleared { .. } => core.apply_to_goal(event),
            EventBody::InputQueued { .. }
            | EventBody::InputConsumed { .. }
            | EventBody::InputReturned { .. }
            | EventBody::InputCancelled { .. }
            | EventBody::InboxHeld
            | EventBody::InboxReleased => core.apply_to_inbox(event),
            EventBody::RequestOpened { request } => {
                core.last_request = request.id;
                core.requests.push(request.clone());
            }
            EventBody::RequestSettled { request, end } => core.settle_request(*request, end),
            EventBody::CommandStarted { command } => {
                core.last_command = command.id;
                core.commands.push(command.clone());
            }
            EventBody::CommandStopRequested { command } => {
                if let Some(command) = core.commands.iter_mut().find(|running| running.id == *command) {
                    command.is_stopping = true;
                }
            }
            EventBody::CommandEnded { command, outcome, .. } => {
                let at = core.commands.iter().position(|running| running.id == *command);
                if let Some(command) = at.map(|at| core.commands.remove(at))
                    && *outcome == CallOutcome::Uncertain
                {
                    core.uncertain_call = Some(command.call);
                }
            }
            EventBody::JobStarted { job } => {
                core.last_job = job.id;
                core.lanes.insert(job.child.clone(), Lane::default());
                core.jobs.push(job.clone());
            }
            EventBody::JobEnded { job, .. } => {
                if let Some(at) = core.jobs.iter().position(|running| running.id == *job) {
                    let job = core.jobs.remove(at);
                    core.lanes.remove(&job.child);
                    self.plans.remove(&job.child);
                }
            }
            EventBody::TurnStarted { .. }
            | EventBody::TurnStopRequested { .. }
            | EventBody::ModelRequested { .. }
            | EventBody::ModelFailed { .. }
            | EventBody::ModelResponded { .. }
            | EventBody::CallAdmitted { .. }
            | EventBody::CallFinished { .. }
            | EventBody::TurnEnded { .. }
            | EventBody::TurnLost { .. } => core.apply_to_turn(event),
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "`SessionState::apply` names every kind and sends each here once"
)]
impl Core {
    fn apply_to_goal(&mut self, event: &Event) {
        match &event.body {
            EventBody::GoalOpened { goal_id, objective, criteria, budgets, status } => {
                self.name_after(objective.as_str());
                self.goal = Some(opened(*goal_id, objective, criteria.as_ref(), *budgets, status));
                self.settle_uncertainty(status);
            }
            EventBody::GoalMoved { goal_id, to, summary, unfinished_steps } => {
                self.move_goal(event, *goal_id, to);
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.summary.clone_from(summary);
                    goal.unfinished_steps = *unfinished_steps;
                }
            }
            EventBody::GoalEdited { goal_id, objective, criteria } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.objective = objective.clone();
                    goal.criteria.clone_from(criteria);
                    goal.amendment = None;
                    goal.revision = goal.revision.next();
                }
            }
            EventBody::GoalBudgetChanged { goal_id, budgets } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.budgets = *budgets;
                    goal.revision = goal.revision.next();
                    // What was announced of the old budget says nothing about the new one.
                    goal.announced_percent = 0;
                }
            }
            EventBody::GoalAmendmentProposed { goal_id, amendment } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.amendment = Some(amendment.clone());
                }
            }
            EventBody::GoalAmendmentDeclined { goal_id } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.amendment = None;
                }
            }
            EventBody::GoalBlockStaged { turn, reason, .. } => {
                if let Some(running) = self.running_mut(*turn) {
                    running.staged_block = Some(reason.clone());
                }
            }
            EventBody::GoalWaitSet { goal_id, wait } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.wait = Some(wait.clone());
                }
            }
            EventBody::GoalWaitMet { goal_id } => {
                if let Some(wait) = self.goal_mut(*goal_id).and_then(|goal| goal.wait.as_mut()) {
                    wait.is_met = true;
                }
            }
            EventBody::GoalWaitLifted { goal_id } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.wait = None;
                    clear_streaks_for(&event.actor, goal);
                }
            }
            EventBody::GoalTimeCharged { goal_id, active_ms } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.usage.active_ms = goal.usage.active_ms.saturating_add(*active_ms);
                    goal.active_since = goal.active_since.map(|_| event.at);
                }
            }
            EventBody::GoalCharged { goal_id, usage, .. } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.usage.tokens = goal.usage.tokens.plus(*usage);
                }
            }
            EventBody::GoalBudgetAnnounced { goal_id, percent } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.announced_percent = *percent;
                }
            }
            EventBody::RetryScheduled { goal_id, retry } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.retry = Some(*retry);
                }
            }
            EventBody::RetryCleared { goal_id } => {
                if let Some(goal) = self.goal_mut(*goal_id) {
                    goal.retry = None;
                    clear_streaks_for(&event.actor, goal);
                }
            }
            _ => {}
        }
    }

    fn apply_to_inbox(&mut self, event: &Event) {
        match &event.body {
            EventBody::InputQueued { lane, input, text, goal_id, runs } => {
                if input.is_of_person() {
                    self.name_after(text.as_str());
                }
                let row = InboxRow {
                    id: InputId(event.seq),
                    kind: *input,
                    taken: None,
                    returns: 0,
                    goal_id: *goal_id,
                    runs: runs.clone(),
                };
                if let Some(slot) = self.lanes.get_mut(lane) {
                    slot.inbox.push(row);
                }
            }
            EventBody::InputConsumed { rows, .. } => self.drop_rows(rows),
            EventBody::InputReturned { row } => {
                let mut rows = self.lanes.values_mut().flat_map(|slot| &mut slot.inbox);
                if let Some(row) = rows.find(|waiting| waiting.id == *row) {
                    row.taken = None;
                    row.returns = row.returns.saturating_add(1);
                }
            }
            EventBody::InputCancelled { row, .. } => self.drop_rows(&[*row]),
            EventBody::InboxHeld => self.inbox_held = true,
            EventBody::InboxReleased => self.inbox_held = false,
            _ => {}
        }
    }

    fn apply_to_turn(&mut self, event: &Event) {
        match &event.body {
            EventBody::TurnStarted {
                turn,
                lane,
                agent,
                model,
                trigger,
                goal,
                max_requests,
                wait_over,
                ..
            } => {
                // What was waited for is there, so the turn has something new to go on (G7).
                let is_news = wait_over.as_ref().is_some_and(WaitOver::is_news);
                let running = RunningTurn {
                    number: *turn,
                    agent: agent.clone(),
                    model: model.clone(),
                    trigger: trigger.clone(),
                    goal: *goal,
                    stop: None,
                    request: 0,
                    phase: TurnPhase::Ready,
                    goal_completed_in: None,
                    is_for_goal: matches!(trigger, TurnTrigger::Goal { .. }),
                    max_requests: *max_requests,
                    progress: if is_news { Progress::NewCalls } else { Progress::None },
                    staged_block: None,
                    repeat: None,
                    wait_over: wait_over.clone(),
                };
                self.start_turn(lane, running, event.at);
            }
            EventBody::TurnStopRequested { turn, reason } => {
                if let Some(running) = self.running_mut(*turn) {
                    // The first reason stays, but an interrupt says more than any: the user wants nothing to go on (G11).
                    if running.stop.is_none() || *reason == StopReason::Interrupted {
                        running.stop = Some(*reason);
                    }
                }
            }
            EventBody::ModelRequested { turn, request, attempt, estimated_input, charged_to } => {
                if let Some(running) = self.running_mut(*turn) {
                    running.request = *request;
                    running.phase = TurnPhase::Requesting {
                        attempt: *attempt,
                        estimated_input: *estimated_input,
                        charged_to: *charged_to,
                    };
                }
            }
            EventBody::ModelFailed { turn, failure, retry_at, .. } => {
                self.fail_attempt(*turn, failure.kind, *retry_at);
            }
            EventBody::ModelResponded { turn, calls, .. } => self.take_response(*turn, calls),
            EventBody::CallAdmitted { call, effect, .. } => {
                self.spend_granted_call(*call);
                self.set_call(*call, |tool, fingerprint| CallState::Admitted {
                    tool,
                    fingerprint,
                    effect: effect.clone(),
                });
            }
            EventBody::CallFinished { call, outcome, result, evidence, .. } => {
                // A turn that ended before it came to the call leaves it to the next one.
                if *outcome != CallOutcome::NotRun {
                    self.spend_granted_call(*call);
                }
                self.note_result(*call, *outcome, result, *evidence);
                self.set_call(*call, |_, _| CallState::Finished);
                if *outcome == CallOutcome::Uncertain {
                    self.uncertain_call = Some(*call);
                }
            }
            EventBody::TurnEnded { turn, outcome } => {
                self.end_turn(
                    *turn,
                    Some(outcome),
                    &TurnEnd::Ended { turn: *turn, outcome: outcome.clone() },
                );
            }
            EventBody::TurnLost { turn } => self.end_turn(*turn, None, &TurnEnd::Lost { turn: *turn }),
            _ => {}
        }
    }
}

fn opened(
    id: GoalId,
    objective: &Objective,
    criteria: Option<&Objective>,
    budgets: Budgets,
    status: &GoalStatus,
) -> Goal {
    Goal {
        id,
        objective: objective.clone(),
        criteria: criteria.cloned(),
        status: status.clone(),
        budgets,
        usage: GoalUsage::default(),
        revision: Revision(1),
        continuations: 0,
        retry: None,
        announced_percent: 0,
        unfinished_steps: None,
        summary: None,
        amendment: None,
        wait: None,
        streaks: Streaks::default(),
        denials: Vec::new(),
        active_since: None,
    }
}

/// A person looked at the Goal, so what went before does not count against it (G7).
fn clear_streaks_for(actor: &Actor, goal: &mut Goal) {
    if matches!(actor, Actor::User { .. }) {
        goal.streaks = Streaks::default();
    }
}

impl Core {
    fn running_mut(&mut self, turn: TurnNumber) -> Option<&mut RunningTurn> {
        self.lanes
            .values_mut()
            .filter_map(|slot| slot.running.as_mut())
            .find(|running| running.number == turn)
    }

    fn goal_mut(&mut self, id: GoalId) -> Option<&mut Goal> {
        self.goal.as_mut().filter(|goal| goal.id == id)
    }

    fn name_after(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        self.title.get_or_insert_with(|| line.chars().take(TITLE_CHARS).collect());
    }

    fn move_goal(&mut self, event: &Event, goal_id: GoalId, to: &GoalStatus) {
        let has_turn = self.has_turn_of(goal_id);
        let Some(goal) = self.goal_mut(goal_id) else { return };
        goal.status = to.clone();
        goal.revision = goal.revision.next();
        let is_active = *to == GoalStatus::Active;
        goal.active_since = (is_active && has_turn).then_some(event.at);
        if is_active {
            clear_streaks_for(&event.actor, goal);
        }
        if to.state().is_terminal() {
            goal.wait = None;
            goal.amendment = None;
        }
        self.settle_uncertainty(to);
        if let (GoalStatus::Completed, Actor::Agent { turn, .. }) = (to, &event.actor)
            && let Some(running) = self.running_mut(*turn)
        {
            running.goal_completed_in = Some(running.request);
        }
    }

    /// A remembered uncertain call is dealt with once the Goal is paused for it or runs again in spite of it.
    fn settle_uncertainty(&mut self, status: &GoalStatus) {
        if matches!(status, GoalStatus::Active | GoalStatus::Paused(PauseReason::UncertainSideEffect { .. }))
        {
            self.uncertain_call = None;
        }
    }

    fn settle_request(&mut self, id: RequestId, end: &RequestEnd) {
        let Some(at) = self.requests.iter().position(|request| request.id == id) else { return };
        let request = self.requests.remove(at);
        if let RequestEnd::Answered { answer: Answer::Deny { .. } } = end
            && let Asked::Permission { fingerprint, .. } = request.asked
            && let Some(goal) = request.goal_id.and_then(|goal| self.goal_mut(goal))
        {
            let before = goal.denials.iter().position(|denial| denial.call == fingerprint);
            let times = before.map_or(0, |at| goal.denials.remove(at).times).saturating_add(1);
            goal.denials.push(Denial { call: fingerprint, times });
            let forgotten = goal.denials.len().saturating_sub(REMEMBERED_DENIALS);
            goal.denials.drain(..forgotten);
        }
    }

    fn drop_rows(&mut self, gone: &[InputId]) {
        for slot in self.lanes.values_mut() {
            slot.inbox.retain(|row| !gone.contains(&row.id));
        }
    }

    fn has_turn_of(&self, goal: GoalId) -> bool {
        self.running_turns().any(|(_, turn)| turn.goal.is_some_and(|bound| bound.goal_id == goal))
    }

    fn start_turn(&mut self, lane: &LaneId, mut running: RunningTurn, at: Timestamp) {
        self.last_turn = running.number;
        if let TurnTrigger::Input { rows } = &running.trigger {
            let inbox = self.lanes.get_mut(lane).map(|slot| slot.inbox.iter_mut());
            for row in inbox.into_iter().flatten().filter(|row| rows.contains(&row.id)) {
                row.taken = Some(running.number);
                running.is_for_goal |= row.goal_id.is_some();
                if let Some(GrantedCall { tool, fingerprint, .. }) = row.runs.clone() {
                    running.phase =
                        TurnPhase::Calling { calls: vec![CallState::Requested { tool, fingerprint }] };
                }
            }
        }
        if let Some(goal) = &mut self.goal {
            if let TurnTrigger::Goal { goal_id, continuation } = &running.trigger
                && goal.id == *goal_id
            {
                goal.continuations = *continuation;
            }
            if running.wait_over.is_some() {
                goal.wait = None;
            }
            if running.goal.is_some_and(|bound| bound.goal_id == goal.id) {
                goal.active_since.get_or_insert(at);
            }
        }
        if let Some(slot) = self.lanes.get_mut(lane) {
            slot.running = Some(running);
        }
    }

    fn fail_attempt(&mut self, turn: TurnNumber, failure: FailureKind, retry_at: Option<Timestamp>) {
        let Some(running) = self.running_mut(turn) else { return };
        if let TurnPhase::Requesting { attempt, estimated_input, charged_to } = running.phase {
            running.phase = TurnPhase::Failed { attempt, estimated_input, charged_to, failure, retry_at };
        }
    }

    fn take_response(&mut self, turn: TurnNumber, calls: &[ModelCall]) {
        let Some(running) = self.running_mut(turn) else { return };
        let requested = |call: &ModelCall| CallState::Requested {
            tool: call.tool.chars().take(TOOL_NAME_CHARS).collect(),
            fingerprint: Fingerprint::of_call(&call.tool, &call.arguments),
        };
        running.phase = if calls.is_empty() {
            TurnPhase::Answered
        } else {
            TurnPhase::Calling { calls: calls.iter().map(requested).collect() }
        };
    }

    /// An allowed call runs once: from its admission or refusal on, the row that allowed it carries none (I4).
    fn spend_granted_call(&mut self, call: CallRef) {
        if call.request == 0 {
            let rows = self.lanes.values_mut().flat_map(|slot| &mut slot.inbox);
            rows.filter(|row| row.taken == Some(call.turn)).for_each(|row| row.runs = None);
        }
    }

    /// What a result says about repetition and progress (T12, G7).
    fn note_result(&mut self, call: CallRef, outcome: CallOutcome, result: &str, evidence: Option<Evidence>) {
        let Some(running) = self.running_mut(call.turn) else { return };
        let asked = running.open_calls().into_iter().find(|open| open.call == call);
        let Some(asked) = asked.map(|open| open.fingerprint) else { return };
        let answered = asked.with(outcome.name()).with(result);
        let before = running.repeat.filter(|repeat| repeat.call == answered).map_or(0, |repeat| repeat.times);
        running.repeat = Some(Repeat { call: answered, times: before.saturating_add(1) });
        let progress = match evidence {
            None => Progress::None,
            Some(Evidence::NewCall { .. }) => Progress::NewCalls,
            Some(Evidence::FileChanged) => Progress::Change,
        };
        running.progress = running.progress.max(progress);
    }

    fn set_call(&mut self, call: CallRef, to: impl FnOnce(String, Fingerprint) -> CallState) {
        let Some(running) = self.running_mut(call.turn).filter(|running| running.request == call.request)
        else {
            return;
        };
        let TurnPhase::Calling { calls } = &mut running.phase else { return };
        if let Some(slot) = usize::try_from(call.index).ok().and_then(|index| calls.get_mut(index))
            && let CallState::Requested { tool, fingerprint } | CallState::Admitted { tool, fingerprint, .. } =
                slot
        {
            *slot = to(std::mem::take(tool), *fingerprint);
        }
        if calls.iter().all(|call| *call == CallState::Finished) {
            running.phase = TurnPhase::Ready;
        }
    }

    /// Ends a turn; without an outcome it is lost.
    fn end_turn(&mut self, turn: TurnNumber, outcome: Option<&TurnOutcome>, end: &TurnEnd) {
        let ended = self.lanes.iter_mut().find_map(|(lane, slot)| {
            let running = slot.running.take_if(|running| running.number == turn)?;
            slot.last_end = Some(end.clone());
            // A word to a turn that is over is a prompt like any other (I1).
            for row in slot.inbox.iter_mut().filter(|row| row.kind == InputKind::Steer) {
                row.kind = InputKind::User;
            }
            Some((lane.is_main(), running))
        });
        let Some((is_main, running)) = ended else { return };
        let Some(bound) = running.goal.map(|bound| bound.goal_id) else { return };
        let has_turn = self.has_turn_of(bound);
        let Some(goal) = self.goal_mut(bound) else { return };
        if !has_turn {
            goal.active_since = None;
        }
        if !outcome.is_some_and(is_retried) {
            goal.usage.turns = goal.usage.turns.saturating_add(1);
        }
        // What a job brings counts for the Goal. That it brought nothing is for the turn that delegated to answer for.
        if is_main {
            goal.streaks = goal.streaks.after_turn(&running, outcome);
        } else if goal.streaks.are_ended_by(running.progress) {
            goal.streaks = goal.streaks.after_evidence(&running);
        }
    }
}

/// Whether a durable retry repeats the turn, so that it is not counted as one (T9).
fn is_retried(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Failed { failure } if failure.kind.class() == FailureClass::Retry)
}
