//! The state of a session: the fold of its events, and nothing else (E1, E2).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Actor, Event, EventBody};
use crate::failure::{FailureClass, FailureKind};
use crate::goal::{Goal, GoalStatus, GoalUsage, PauseReason, Remark};
use crate::id::{
    AgentName, CallRef, GoalId, InputId, LaneId, Revision, Seq, SessionId, Timestamp, TurnNumber,
};
use crate::inbox::InboxRow;
use crate::mode::Mode;
use crate::plan::Plan;
use crate::turn::{
    CallOutcome, CallState, RunningTurn, StopReason, TOOL_NAME_CHARS, TurnEnd, TurnOutcome, TurnPhase,
    TurnTrigger,
};

/// What a session is at one place of its log.
///
/// The core is small and stored with every decision as a cache of the fold; plans are read from the events that
/// hold them, so no plan is written twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionState {
    /// Which session.
    pub id: SessionId,
    /// Everything but the texts of plans.
    pub core: Core,
    /// The latest plan of each lane that has one, closed or not.
    pub plans: BTreeMap<LaneId, Arc<Plan>>,
}

/// The part of the state that is stored as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// The last event.
    pub head: Seq,
    /// When it was decided.
    pub last_at: Timestamp,
    /// The workspace root; `None` before the first event.
    pub workspace: Option<String>,
    /// What lists call the session: the start of its first input or objective.
    pub title: Option<String>,
    /// The agent for Work mode, remembered through Plan mode (M2).
    pub work_agent: Option<AgentName>,
    /// The mode.
    pub mode: Mode,
    /// Each lane by name; `main` always exists once the session is open.
    pub lanes: BTreeMap<LaneId, Lane>,
    /// The latest Goal, also when it ended.
    pub goal: Option<Goal>,
    /// A call that may have happened, found while no Goal was active (T7).
    pub uncertain_call: Option<CallRef>,
    /// Whether queued rows wait for an act of the user (G11).
    pub inbox_held: bool,
    /// The number of the last turn.
    pub last_turn: TurnNumber,
}

/// A lane: its plan, its input and its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Where its latest plan stands in the log.
    pub plan: Option<PlanHead>,
    /// Its input that was not consumed, in order.
    pub inbox: Vec<InboxRow>,
    /// Its running turn.
    pub running: Option<RunningTurn>,
    /// How its last turn ended.
    pub last_end: Option<TurnEnd>,
}

/// Where a lane's latest plan stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanHead {
    /// The event that holds it.
    pub seq: Seq,
    /// Who made this revision.
    pub by: Actor,
    /// Set once the plan was closed (P17).
    pub closed: Option<PlanClosure>,
}

/// Who closed a plan and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanClosure {
    /// Who.
    pub by: Actor,
    /// Why.
    pub reason: Remark,
    /// When.
    pub at: Timestamp,
}

/// The latest plan of a lane together with its standing in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatestPlan<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its head.
    pub head: &'a PlanHead,
}

/// Characters of a session's title: one line of a list.
const TITLE_CHARS: usize = 80;

impl SessionState {
    /// The state before the first event.
    pub fn before_first(id: SessionId) -> Self {
        let core = Core {
            head: Seq(0),
            last_at: Timestamp(0),
            workspace: None,
            title: None,
            work_agent: None,
            mode: Mode::Work,
            lanes: BTreeMap::new(),
            goal: None,
            uncertain_call: None,
            inbox_held: false,
            last_turn: TurnNumber(0),
        };
        Self { id, core, plans: BTreeMap::new() }
    }

    /// The state after these events, from the first.
    pub fn fold<'a>(id: SessionId, events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut state = Self::before_first(id);
        for event in events {
            state.apply(event);
        }
        state
    }

    /// Whether the session exists.
    pub const fn is_open(&self) -> bool {
        self.core.head.0 > 0
    }

    /// The latest plan of a lane, closed or not.
    pub fn latest_plan(&self, lane: &LaneId) -> Option<LatestPlan<'_>> {
        let head = self.core.lanes.get(lane)?.plan.as_ref()?;
        Some(LatestPlan { plan: self.plans.get(lane)?, head })
    }

    /// The plan that the next update of this lane continues or follows; none when it was closed (P16, P17).
    pub fn current_plan(&self, lane: &LaneId) -> Option<&Plan> {
        self.latest_plan(lane).filter(|latest| latest.head.closed.is_none()).map(|latest| latest.plan)
    }

    /// The revision an update of this lane has to expect: 0 when there is no current plan (P9).
    pub fn current_revision(&self, lane: &LaneId) -> Revision {
        self.current_plan(lane).map_or(Revision(0), |plan| plan.revision)
    }

    /// The Goal, if it is open.
    pub fn open_goal(&self) -> Option<&Goal> {
        self.core.goal.as_ref().filter(|goal| goal.is_open())
    }

    /// The running turn of this number and its lane.
    pub fn running(&self, turn: TurnNumber) -> Option<(&LaneId, &RunningTurn)> {
        let mut all = self.core.running_turns();
        all.find(|(_, running)| running.number == turn)
    }

    /// Follows one event. Total: an event that names something unknown changes nothing but the head.
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
            EventBody::GoalOpened { goal_id, objective, criteria, budgets, status } => {
                core.name_after(objective.as_str());
                core.goal = Some(Goal {
                    id: *goal_id,
                    objective: objective.clone(),
                    criteria: criteria.clone(),
                    status: status.clone(),
                    budgets: *budgets,
                    usage: GoalUsage::default(),
                    revision: Revision(1),
                    continuations: 0,
                    retry: None,
                    announced_percent: 0,
                    unfinished_steps: None,
                    summary: None,
                });
                core.settle_uncertainty(status);
            }
            EventBody::GoalMoved { goal_id, to, summary, unfinished_steps } => {
                if let Some(goal) = core.goal_mut(*goal_id) {
                    goal.status = to.clone();
                    goal.revision = goal.revision.next();
                    goal.summary.clone_from(summary);
                    goal.unfinished_steps = *unfinished_steps;
                    core.settle_uncertainty(to);
                }
                if let (GoalStatus::Completed, Actor::Agent { turn, .. }) = (to, &event.actor)
                    && let Some(running) = core.running_mut(*turn)
                {
                    running.goal_completed_in = Some(running.request);
                }
            }
            EventBody::GoalCharged { goal_id, usage, .. } => {
                if let Some(goal) = core.goal_mut(*goal_id) {
                    goal.usage.tokens = goal.usage.tokens.plus(*usage);
                }
            }
            EventBody::GoalBudgetAnnounced { goal_id, percent } => {
                if let Some(goal) = core.goal_mut(*goal_id) {
                    goal.announced_percent = *percent;
                }
            }
            EventBody::RetryScheduled { goal_id, retry } => {
                if let Some(goal) = core.goal_mut(*goal_id) {
                    goal.retry = Some(*retry);
                }
            }
            EventBody::RetryCleared { goal_id } => {
                if let Some(goal) = core.goal_mut(*goal_id) {
                    goal.retry = None;
                }
            }
            EventBody::InputQueued { lane, input, text } => {
                core.name_after(text.as_str());
                let row = InboxRow { id: InputId(event.seq), kind: *input, taken: None, returns: 0 };
                if let Some(slot) = core.lanes.get_mut(lane) {
                    slot.inbox.push(row);
                }
            }
            EventBody::InputConsumed { rows, .. } => core.drop_rows(rows),
            EventBody::InputReturned { row } => {
                let mut rows = core.lanes.values_mut().flat_map(|slot| &mut slot.inbox);
                if let Some(row) = rows.find(|waiting| waiting.id == *row) {
                    row.taken = None;
                    row.returns = row.returns.saturating_add(1);
                }
            }
            EventBody::InputCancelled { row, .. } => core.drop_rows(&[*row]),
            EventBody::InboxHeld => core.inbox_held = true,
            EventBody::InboxReleased => core.inbox_held = false,
            EventBody::TurnStarted { turn, lane, agent, model, trigger, goal } => {
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
                };
                core.start_turn(lane, running);
            }
            EventBody::TurnStopRequested { turn, reason } => {
                if let Some(running) = core.running_mut(*turn) {
                    // The first reason stays, but an interrupt says more than any: the user wants nothing to go on (G11).
                    if running.stop.is_none() || *reason == StopReason::Interrupted {
                        running.stop = Some(*reason);
                    }
                }
            }
            EventBody::ModelRequested { turn, request, attempt, estimated_input, charged_to } => {
                if let Some(running) = core.running_mut(*turn) {
                    running.request = *request;
                    running.phase = TurnPhase::Requesting {
                        attempt: *attempt,
                        estimated_input: *estimated_input,
                        charged_to: *charged_to,
                    };
                }
            }
            EventBody::ModelFailed { turn, failure, retry_at, .. } => {
                core.fail_attempt(*turn, failure.kind, *retry_at);
            }
            EventBody::ModelResponded { turn, calls, .. } => {
                if let Some(running) = core.running_mut(*turn) {
                    running.phase = if calls.is_empty() {
                        TurnPhase::Answered
                    } else {
                        let name = |tool: &str| tool.chars().take(TOOL_NAME_CHARS).collect();
                        let calls = calls.iter().map(|call| CallState::Requested { tool: name(&call.tool) });
                        TurnPhase::Calling { calls: calls.collect() }
                    };
                }
            }
            EventBody::CallAdmitted { call, tool, effect } => {
                core.set_call(*call, CallState::Admitted { tool: tool.clone(), effect: effect.clone() });
            }
            EventBody::CallFinished { call, outcome, .. } => {
                core.set_call(*call, CallState::Finished);
                if *outcome == CallOutcome::Uncertain {
                    core.uncertain_call = Some(*call);
                }
            }
            EventBody::TurnEnded { turn, outcome } => {
                let counts = match outcome {
                    TurnOutcome::Failed { failure } => failure.kind.class() != FailureClass::Retry,
                    TurnOutcome::Completed | TurnOutcome::Interrupted | TurnOutcome::Stopped { .. } => true,
                };
                core.end_turn(*turn, counts, &TurnEnd::Ended { turn: *turn, outcome: outcome.clone() });
            }
            EventBody::TurnLost { turn } => core.end_turn(*turn, true, &TurnEnd::Lost { turn: *turn }),
        }
    }
}

impl Core {
    /// The running turns with their lanes.
    pub fn running_turns(&self) -> impl Iterator<Item = (&LaneId, &RunningTurn)> {
        self.lanes.iter().filter_map(|(lane, slot)| Some((lane, slot.running.as_ref()?)))
    }

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

    /// A remembered uncertain call is dealt with once the Goal is paused for it or runs again in spite of it.
    fn settle_uncertainty(&mut self, status: &GoalStatus) {
        if matches!(status, GoalStatus::Active | GoalStatus::Paused(PauseReason::UncertainSideEffect { .. }))
        {
            self.uncertain_call = None;
        }
    }

    fn drop_rows(&mut self, gone: &[InputId]) {
        for slot in self.lanes.values_mut() {
            slot.inbox.retain(|row| !gone.contains(&row.id));
        }
    }

    fn start_turn(&mut self, lane: &LaneId, running: RunningTurn) {
        self.last_turn = running.number;
        match &running.trigger {
            TurnTrigger::Goal { goal_id, continuation } => {
                if let Some(goal) = self.goal.as_mut().filter(|goal| goal.id == *goal_id) {
                    goal.continuations = *continuation;
                }
            }
            TurnTrigger::Input { rows } => {
                let inbox = self.lanes.get_mut(lane).map(|slot| slot.inbox.iter_mut());
                for row in inbox.into_iter().flatten().filter(|row| rows.contains(&row.id)) {
                    row.taken = Some(running.number);
                }
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

    fn set_call(&mut self, call: CallRef, state: CallState) {
        let Some(running) = self.running_mut(call.turn).filter(|running| running.request == call.request)
        else {
            return;
        };
        let TurnPhase::Calling { calls } = &mut running.phase else { return };
        if let Some(slot) = usize::try_from(call.index).ok().and_then(|index| calls.get_mut(index)) {
            *slot = state;
        }
        if calls.iter().all(|call| *call == CallState::Finished) {
            running.phase = TurnPhase::Ready;
        }
    }

    fn end_turn(&mut self, turn: TurnNumber, counts: bool, end: &TurnEnd) {
        for slot in self.lanes.values_mut() {
            let Some(running) = slot.running.take_if(|running| running.number == turn) else { continue };
            slot.last_end = Some(end.clone());
            let bound = running.goal.map(|bound| bound.goal_id);
            if let Some(goal) = self.goal.as_mut().filter(|goal| counts && Some(goal.id) == bound) {
                goal.usage.turns = goal.usage.turns.saturating_add(1);
            }
        }
    }
}
