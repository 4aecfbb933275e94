//! The state of a session: the fold of its events, and nothing else (E1, E2).

mod apply;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Actor, Event};
use crate::goal::{Goal, Remark};
use crate::id::{
    AgentName, CallRef, CommandId, GoalId, JobId, LaneId, RequestId, Revision, Seq, SessionId, Timestamp,
    TurnNumber,
};
use crate::inbox::InboxRow;
use crate::job::Job;
use crate::mode::Mode;
use crate::plan::Plan;
use crate::request::HumanRequest;
use crate::turn::{RunningTurn, TurnEnd};
use crate::wait::BackgroundCommand;

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
    /// Each lane by name: `main`, once the session is open, and one for each job that runs (E8).
    pub lanes: BTreeMap<LaneId, Lane>,
    /// The latest Goal, also when it ended.
    pub goal: Option<Goal>,
    /// A call that may have happened, found while no Goal was active (T7).
    pub uncertain_call: Option<CallRef>,
    /// Whether queued rows wait for an act of the user (G11).
    pub inbox_held: bool,
    /// The number of the last turn.
    pub last_turn: TurnNumber,
    /// Requests that wait for a person, in the order they were made (I4).
    #[serde(default)]
    pub requests: Vec<HumanRequest>,
    /// The number of the last request.
    #[serde(default)]
    pub last_request: RequestId,
    /// Background commands that run.
    #[serde(default)]
    pub commands: Vec<BackgroundCommand>,
    /// The number of the last background command.
    #[serde(default)]
    pub last_command: CommandId,
    /// Jobs that run.
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// The number of the last job.
    #[serde(default)]
    pub last_job: JobId,
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
            requests: Vec::new(),
            last_request: RequestId(0),
            commands: Vec::new(),
            last_command: CommandId(0),
            jobs: Vec::new(),
            last_job: JobId(0),
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
}

impl Core {
    /// The running turns with their lanes.
    pub fn running_turns(&self) -> impl Iterator<Item = (&LaneId, &RunningTurn)> {
        self.lanes.iter().filter_map(|(lane, slot)| Some((lane, slot.running.as_ref()?)))
    }

    /// The request of this number, if it waits for its answer.
    pub fn request(&self, id: RequestId) -> Option<&HumanRequest> {
        self.requests.iter().find(|request| request.id == id)
    }

    /// The background command of this number, if it runs.
    pub fn command(&self, id: CommandId) -> Option<&BackgroundCommand> {
        self.commands.iter().find(|command| command.id == id)
    }

    /// The job of this number, if it runs.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// The job whose lane this is.
    pub fn job_of(&self, lane: &LaneId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.child == *lane)
    }

    /// The running jobs that work for a Goal.
    pub fn jobs_of(&self, goal: GoalId) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| job.goal_id == Some(goal))
    }

    /// The running background commands that work for a Goal.
    pub fn commands_of(&self, goal: GoalId) -> impl Iterator<Item = &BackgroundCommand> {
        self.commands.iter().filter(move |command| command.goal_id == Some(goal))
    }
}

#[cfg(test)]
mod tests;
