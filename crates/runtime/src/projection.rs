//! What clients show: one shared reading of the state, so that no client keeps its own.

use domain::{
    Actor, AgentName, Amendment, BackgroundCommand, Budgets, Core, Event, EventBody, FailureKind, GoalId,
    GoalState, GoalStatus, GoalUsage, HumanRequest, Job, LaneId, Mode, ModelName, Plan, PlanClosure,
    PlanHead, PlanId, RequestId, Retry, Revision, RunningTurn, Seq, SessionId, SessionState, Step, StepId,
    StopReason, Streaks, Timestamp, TurnEnd, TurnNumber, TurnPhase, TurnTrigger, Wait,
};
use policy::{ContinuationView, Leases, NextAction};
use schemars::JsonSchema;
use serde::Serialize;

use crate::outlook::Outlook;
use crate::owner::WorkerState;

/// A session at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionView {
    /// Which session.
    pub session: SessionId,
    /// What lists call it.
    pub title: Option<String>,
    /// The workspace root.
    pub workspace: String,
    /// The mode.
    pub mode: Mode,
    /// The agent of the next turn.
    pub agent: Option<AgentName>,
    /// The agent for Work mode.
    pub work_agent: Option<AgentName>,
    /// The last event.
    pub head: Seq,
    /// The latest plan of the main lane.
    pub plan: Option<PlanView>,
    /// The latest Goal.
    pub goal: Option<GoalView>,
    /// Inputs that wait.
    pub queued_inputs: usize,
    /// Requests that wait for a person (I4).
    pub requests: Vec<HumanRequest>,
    /// Background commands that run.
    pub commands: Vec<CommandView>,
    /// Jobs that are not over.
    pub jobs: Vec<JobView>,
    /// The running turn of the main lane.
    pub running: Option<TurnView>,
    /// How the last turn ended.
    pub last_turn: Option<TurnEnd>,
    /// What happens next without anybody acting.
    pub next: NextAction,
    /// The same in words, and what a person can do about it.
    pub outlook: Outlook,
    /// When the session needs attention next (T3).
    pub wake_at: Option<Timestamp>,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanView {
    /// Which plan.
    pub plan_id: PlanId,
    /// Its revision.
    pub revision: Revision,
    /// Its title.
    pub title: String,
    /// Its steps.
    pub steps: Vec<Step>,
    /// The Goal it supports.
    pub goal_id: Option<GoalId>,
    /// Why this revision was made.
    pub explanation: Option<String>,
    /// Completed steps.
    pub completed: usize,
    /// All steps.
    pub total: usize,
    /// The step in progress.
    pub active: Option<StepId>,
    /// Who made this revision, where that is known without reading the log.
    pub changed_by: Option<Actor>,
    /// Set once the plan was closed.
    pub closed: Option<PlanClosure>,
}

/// One revision of a plan, or its closing, as a line of history (P15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanRevisionView {
    /// Which plan.
    pub plan_id: PlanId,
    /// The revision.
    pub revision: Revision,
    /// The event.
    pub seq: Seq,
    /// When it was.
    pub at: Timestamp,
    /// Who made it.
    pub actor: Actor,
    /// What it says.
    #[serde(flatten)]
    pub change: PlanChangeView,
}

/// What happened to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum PlanChangeView {
    /// It was revised.
    Revised {
        /// Its title.
        title: String,
        /// Completed steps.
        completed: usize,
        /// All steps.
        total: usize,
        /// The step in progress.
        active: Option<StepId>,
        /// Why.
        explanation: Option<String>,
    },
    /// It was closed (P17).
    Closed {
        /// Why.
        reason: String,
    },
}

/// The answer to an accepted update: progress, not the plan (V2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanAccepted {
    /// Which plan.
    pub plan_id: PlanId,
    /// Its revision.
    pub revision: Revision,
    /// Completed steps.
    pub completed: usize,
    /// All steps.
    pub total: usize,
    /// The step in progress.
    pub active: Option<StepId>,
}

/// A Goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GoalView {
    /// Which Goal.
    pub goal_id: GoalId,
    /// What it is after.
    pub objective: String,
    /// How to tell that it is reached.
    pub criteria: Option<String>,
    /// Where it stands, with the reason.
    #[serde(flatten)]
    pub status: GoalStatus,
    /// Its revision.
    pub revision: Revision,
    /// What it may spend.
    pub budgets: Budgets,
    /// What it has spent.
    pub usage: GoalUsage,
    /// The used share of the nearest budget, in percent.
    pub used_percent: u8,
    /// Continuations so far.
    pub continuations: u64,
    /// The retry it waits for.
    pub retry: Option<Retry>,
    /// What the agent has it wait for (G10).
    pub wait: Option<Wait>,
    /// The change that an agent proposes (G3).
    pub amendment: Option<Amendment>,
    /// Turns in a row that went one way (G6, G7).
    pub streaks: Streaks,
    /// Steps that were unfinished at its completion (P21).
    pub unfinished_steps: Option<u32>,
    /// What whoever ended it had to say.
    pub summary: Option<String>,
}

/// A running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TurnView {
    /// Its number.
    pub turn: TurnNumber,
    /// Its agent.
    pub agent: AgentName,
    /// Its model.
    pub model: ModelName,
    /// Why it started.
    pub trigger: TurnTrigger,
    /// Its last model request.
    pub request: u32,
    /// Why it was asked to stop.
    pub stop: Option<StopReason>,
    /// The next attempt at a request that failed (T10).
    pub again: Option<AgainView>,
    /// Whether its worker is there.
    pub worker: WorkerState,
}

/// When a model is asked again, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgainView {
    /// What the last attempt failed with.
    pub failure: FailureKind,
    /// The attempt that follows.
    pub attempt: u32,
    /// Not before then.
    pub at: Timestamp,
}

/// A background command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandView {
    /// The command.
    #[serde(flatten)]
    pub command: BackgroundCommand,
    /// Whether its worker is there.
    pub worker: WorkerState,
}

/// A job that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobView {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// The running turn of its lane.
    pub running: Option<TurnView>,
    /// The request whose answer it waits for.
    pub waits_for: Option<RequestId>,
}

/// The mode, and what is still under way against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModeView {
    /// The mode.
    pub mode: Mode,
    /// Plan mode was entered while a turn ran that has not stopped yet (M3).
    pub entering: bool,
    /// The agent of the next turn.
    pub agent: Option<AgentName>,
    /// The agent that Work mode runs or comes back to.
    pub work_agent: Option<AgentName>,
}

impl SessionView {
    /// Reads the state.
    pub(crate) fn of(
        state: &SessionState,
        leases: &Leases,
        wake_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let main = LaneId::main();
        let core = &state.core;
        let lane = core.lanes.get(&main);
        let next = policy::next_action(&ContinuationView::of_lane(core, &main), now);
        let running = lane.and_then(|lane| lane.running.as_ref());
        let running = running.map(|running| TurnView::of(running, leases, now));
        let commands = core.commands.iter().map(|command| CommandView::of(command, leases, now));
        let commands: Vec<_> = commands.collect();
        let jobs: Vec<_> = core.jobs.iter().map(|job| JobView::of(job, core, leases, now)).collect();
        Self {
            session: state.id,
            title: core.title.clone(),
            workspace: core.workspace.clone().unwrap_or_default(),
            mode: core.mode,
            agent: policy::turn_agent(core, &main),
            work_agent: core.work_agent.clone(),
            head: core.head,
            plan: state.latest_plan(&main).map(|latest| PlanView::of(latest.plan, Some(latest.head))),
            goal: core.goal.as_ref().map(GoalView::of),
            queued_inputs: lane.map_or(0, |lane| lane.inbox.iter().filter(|row| row.taken.is_none()).count()),
            last_turn: lane.and_then(|lane| lane.last_end.clone()),
            requests: core.requests.clone(),
            outlook: Outlook::of(&next, running.as_ref(), &commands, &jobs),
            running,
            jobs,
            commands,
            next,
            wake_at,
        }
    }

    /// The running turns of all lanes.
    pub fn turns(&self) -> impl Iterator<Item = &TurnView> {
        self.running.iter().chain(self.jobs.iter().filter_map(|job| job.running.as_ref()))
    }

    /// The mode as its own view.
    pub fn mode_view(&self) -> ModeView {
        ModeView {
            mode: self.mode,
            entering: self.mode == Mode::Plan
                && self.turns().any(|turn| turn.stop == Some(StopReason::PlanMode)),
            agent: self.agent.clone(),
            work_agent: self.work_agent.clone(),
        }
    }
}

impl TurnView {
    fn of(running: &RunningTurn, leases: &Leases, now: Timestamp) -> Self {
        let again = match running.phase {
            TurnPhase::Failed { attempt, failure, retry_at: Some(at), .. } => {
                Some(AgainView { failure, attempt: attempt.saturating_add(1), at })
            }
            _ => None,
        };
        let lease = leases.turn.as_ref();
        Self {
            turn: running.number,
            agent: running.agent.clone(),
            model: running.model.clone(),
            trigger: running.trigger.clone(),
            request: running.request,
            stop: running.stop,
            again,
            worker: lease.map_or(WorkerState::Silent { since: now }, |lease| {
                WorkerState::of(&lease.owner, lease.expires_at, now)
            }),
        }
    }
}

impl JobView {
    fn of(job: &Job, core: &Core, leases: &Leases, now: Timestamp) -> Self {
        let running = core.lanes.get(&job.child).and_then(|lane| lane.running.as_ref());
        let waits_for = core.requests.iter().find(|request| request.lane == job.child);
        Self {
            job: job.clone(),
            running: running.map(|running| TurnView::of(running, leases, now)),
            waits_for: waits_for.map(|request| request.id),
        }
    }
}

impl CommandView {
    fn of(command: &BackgroundCommand, leases: &Leases, now: Timestamp) -> Self {
        let lease = leases.commands.get(&command.id);
        let worker = lease.map_or(WorkerState::Silent { since: now }, |lease| {
            WorkerState::of(&lease.owner, lease.expires_at, now)
        });
        Self { command: command.clone(), worker }
    }
}

impl PlanView {
    /// Reads a plan. The head is known for the latest revision alone.
    pub(crate) fn of(plan: &Plan, head: Option<&PlanHead>) -> Self {
        Self {
            plan_id: plan.id,
            revision: plan.revision,
            title: plan.snapshot.title().to_string(),
            steps: plan.snapshot.steps().to_vec(),
            goal_id: plan.goal_id,
            explanation: plan.snapshot.explanation().map(str::to_owned),
            completed: plan.completed(),
            total: plan.total(),
            active: plan.active().map(|step| step.id.clone()),
            changed_by: head.map(|head| head.by.clone()),
            closed: head.and_then(|head| head.closed.clone()),
        }
    }
}

impl PlanRevisionView {
    /// Reads an event; `None` if it is not about a plan.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let (plan_id, revision, change) = match &event.body {
            EventBody::PlanRevised { plan, .. } => {
                let change = PlanChangeView::Revised {
                    title: plan.snapshot.title().to_string(),
                    completed: plan.completed(),
                    total: plan.total(),
                    active: plan.active().map(|step| step.id.clone()),
                    explanation: plan.snapshot.explanation().map(str::to_owned),
                };
                (plan.id, plan.revision, change)
            }
            EventBody::PlanClosed { plan_id, revision, reason, .. } => {
                (*plan_id, *revision, PlanChangeView::Closed { reason: reason.to_string() })
            }
            _ => return None,
        };
        let Event { seq, at, actor, .. } = event;
        Some(Self { plan_id, revision, seq: *seq, at: *at, actor: actor.clone(), change })
    }
}

impl PlanAccepted {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            plan_id: plan.id,
            revision: plan.revision,
            completed: plan.completed(),
            total: plan.total(),
            active: plan.active().map(|step| step.id.clone()),
        }
    }
}

impl GoalView {
    pub(crate) fn of(goal: &domain::Goal) -> Self {
        Self {
            goal_id: goal.id,
            objective: goal.objective.to_string(),
            criteria: goal.criteria.as_ref().map(ToString::to_string),
            status: goal.status.clone(),
            revision: goal.revision,
            budgets: goal.budgets,
            usage: goal.usage,
            used_percent: goal.used_percent(),
            continuations: goal.continuations,
            retry: goal.retry,
            wait: goal.wait.clone(),
            amendment: goal.amendment.clone(),
            streaks: goal.streaks,
            unfinished_steps: goal.unfinished_steps,
            summary: goal.summary.as_ref().map(ToString::to_string),
        }
    }

    /// The status without its detail.
    pub fn state(&self) -> GoalState {
        self.status.state()
    }
}
