//! Who may start a turn: the whole of it (T1–T3, I3).
//!
//! [`ContinuationView`] is built from parts and holds no plan and no mode, so nothing here can look at either
//! (P19). Plan mode acts through the Goal's pause.

use domain::{
    BackgroundCommand, BlockCode, CommandId, Condition, Core, Failure, Goal, GoalId, GoalState, GoalStatus,
    HumanRequest, InboxRow, InputId, InputKind, Job, JobId, LaneId, PauseReason, RequestId, Retry,
    RunningTurn, Timestamp, TurnEnd, TurnNumber, TurnOutcome, Wait,
};
use serde::Serialize;

use crate::facts::Leases;

/// All that the continuation of a session depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContinuationView {
    goal: Option<GoalView>,
    next_input: Option<InputId>,
    inbox_held: bool,
    running: Option<TurnNumber>,
    last_end: Option<TurnEnd>,
    open_request: Option<RequestId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GoalView {
    id: GoalId,
    status: GoalStatus,
    is_spent: bool,
    next_continuation: u64,
    retry: Option<Retry>,
    wait: Option<Wait>,
    /// Its running background commands: an implicit wait (G10).
    commands: Vec<CommandId>,
    /// Its running jobs: an implicit wait too.
    jobs: Vec<JobId>,
}

/// What may happen next in a session without anybody acting.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum NextAction {
    /// A turn for queued input.
    RunInput {
        /// The first row that may run.
        row: InputId,
    },
    /// A turn for the active Goal.
    RunGoal {
        /// The Goal.
        goal_id: GoalId,
        /// The number this continuation takes.
        continuation: u64,
    },
    /// Nothing before this moment (T10).
    WaitUntil {
        /// The moment.
        at: Timestamp,
        /// Why then.
        cause: Delay,
    },
    /// Nothing before this happened.
    WaitFor {
        /// What.
        what: Awaited,
    },
    /// Nothing, however much time passes (T3).
    Idle {
        /// "Not continuing because …".
        why: IdleReason,
    },
}

/// Why a Goal goes on at a certain moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delay {
    /// A request to the model failed and is repeated then (T10).
    Retry {
        /// The retry.
        retry: Retry,
    },
    /// The agent asked to be woken then (G10).
    Wait {
        /// The wait.
        wait: Wait,
    },
}

/// What has to happen before anything else does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Awaited {
    /// The running turn ends.
    Turn {
        /// The turn.
        turn: TurnNumber,
    },
    /// What the Goal waits for happens, or its deadline passes (G10).
    Condition {
        /// The wait.
        wait: Wait,
    },
    /// A background command of the Goal ends (G10).
    Commands {
        /// The commands.
        commands: Vec<CommandId>,
    },
    /// A job of the Goal ends (G10, W2).
    Jobs {
        /// The jobs.
        jobs: Vec<JobId>,
    },
}

/// Why a session does nothing by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum IdleReason {
    /// No input waits and no Goal is open.
    NothingToDo,
    /// The last turn was lost and no Goal goes on by itself (T7).
    TurnLost {
        /// The turn.
        turn: TurnNumber,
    },
    /// The last turn failed and no Goal goes on by itself (T9).
    TurnFailed {
        /// The turn.
        turn: TurnNumber,
        /// Why.
        failure: Failure,
    },
    /// The last turn asked the user something, and no Goal goes on by itself (I4).
    AwaitingAnswer {
        /// The request.
        request: RequestId,
    },
    /// Queued input waits for an act of the user (G11).
    InboxHeld,
    /// The Goal waits to be accepted.
    GoalProposed,
    /// The Goal is paused.
    GoalPaused {
        /// Why.
        pause: PauseReason,
    },
    /// The Goal is blocked.
    GoalBlocked {
        /// What kind of obstacle.
        code: BlockCode,
        /// For people.
        detail: String,
    },
    /// The Goal's budget is used up.
    GoalBudgetLimited,
    /// The Goal is reached.
    GoalCompleted,
    /// The Goal was given up.
    GoalCancelled,
}

impl ContinuationView {
    /// Takes the parts of a lane's and the session's state that matter.
    pub fn new(
        goal: Option<&Goal>,
        (inbox, inbox_held): (&[InboxRow], bool),
        (running, last_end): (Option<&RunningTurn>, Option<&TurnEnd>),
        (commands, jobs): (&[BackgroundCommand], &[Job]),
        requests: &[HumanRequest],
    ) -> Self {
        let of_goal = |goal: &Goal| GoalView {
            id: goal.id,
            status: goal.status.clone(),
            is_spent: goal.is_spent(),
            next_continuation: goal.continuations.saturating_add(1),
            retry: goal.retry,
            wait: goal.wait.clone(),
            commands: commands
                .iter()
                .filter(|command| command.goal_id == Some(goal.id))
                .map(|command| command.id)
                .collect(),
            jobs: jobs.iter().filter(|job| job.goal_id == Some(goal.id)).map(|job| job.id).collect(),
        };
        let active = goal.filter(|goal| goal.is_active()).map(|goal| goal.id);
        Self {
            goal: goal.map(of_goal),
            next_input: inbox
                .iter()
                .find(|row| row.taken.is_none() && may_run(row, active))
                .map(|row| row.id),
            inbox_held,
            running: running.map(|running| running.number),
            last_end: last_end.cloned(),
            open_request: requests.last().map(|request| request.id),
        }
    }

    /// The view of one lane. Only the main lane goes on for the Goal; that of a job does for its own input.
    pub fn of_lane(core: &Core, lane: &LaneId) -> Self {
        let slot = core.lanes.get(lane);
        let view = Self::new(
            core.goal.as_ref(),
            (slot.map_or(&[], |slot| slot.inbox.as_slice()), core.inbox_held),
            (slot.and_then(|slot| slot.running.as_ref()), slot.and_then(|slot| slot.last_end.as_ref())),
            (&core.commands, &core.jobs),
            &core.requests,
        );
        Self { goal: view.goal.filter(|_| lane.is_main()), ..view }
    }
}

/// Whether a row may start a turn (I5): a person's always; what belongs to a Goal while that is active; the answer to a
/// question that belongs to none. A report that belongs to none joins what something else starts.
fn may_run(row: &InboxRow, active: Option<GoalId>) -> bool {
    match (row.kind, row.goal_id) {
        (InputKind::User | InputKind::Steer, _) | (InputKind::Answer, None) => true,
        (InputKind::Answer | InputKind::Report, Some(goal)) => Some(goal) == active,
        // The turn of a task starts with its job.
        (InputKind::Report, None) | (InputKind::Task, _) => false,
    }
}

/// What happens next (T2). Pure and total.
pub fn next_action(view: &ContinuationView, now: Timestamp) -> NextAction {
    if let Some(turn) = view.running {
        return NextAction::WaitFor { what: Awaited::Turn { turn } };
    }
    if let Some(row) = view.next_input.filter(|_| !view.inbox_held) {
        return NextAction::RunInput { row };
    }
    match &view.goal {
        Some(goal) if goal.status == GoalStatus::Active && !goal.is_spent => continue_goal(goal, now),
        Some(_) | None => NextAction::Idle { why: idle_reason(view) },
    }
}

/// What is before the next turn of an active Goal. Of a retry and a wait the one that ends last counts: with the other,
/// its end would be a wake-up for nothing, and no commit would set the next one.
fn continue_goal(goal: &GoalView, now: Timestamp) -> NextAction {
    let retry = goal.retry.filter(|retry| retry.at > now);
    let wait = goal.wait.as_ref().filter(|wait| wait.holds(now));
    match (wait, retry) {
        (Some(wait), retry) if retry.is_none_or(|retry| retry.at <= wait.deadline) => match wait.condition {
            Condition::Time => {
                NextAction::WaitUntil { at: wait.deadline, cause: Delay::Wait { wait: wait.clone() } }
            }
            Condition::Command { .. } | Condition::Job { .. } | Condition::File { .. } | Condition::Inbox => {
                NextAction::WaitFor { what: Awaited::Condition { wait: wait.clone() } }
            }
        },
        _ if goal.wait.is_none() && !goal.commands.is_empty() => {
            NextAction::WaitFor { what: Awaited::Commands { commands: goal.commands.clone() } }
        }
        _ if goal.wait.is_none() && !goal.jobs.is_empty() => {
            NextAction::WaitFor { what: Awaited::Jobs { jobs: goal.jobs.clone() } }
        }
        (_, Some(retry)) => NextAction::WaitUntil { at: retry.at, cause: Delay::Retry { retry } },
        (_, None) => NextAction::RunGoal { goal_id: goal.id, continuation: goal.next_continuation },
    }
}

fn idle_reason(view: &ContinuationView) -> IdleReason {
    if view.next_input.is_some() {
        return IdleReason::InboxHeld;
    }
    let open = view.goal.as_ref().filter(|goal| !goal.status.state().is_terminal());
    match open.map(|goal| &goal.status) {
        Some(GoalStatus::Proposed) => return IdleReason::GoalProposed,
        Some(GoalStatus::Paused(pause)) => return IdleReason::GoalPaused { pause: *pause },
        Some(GoalStatus::Blocked { code, detail }) => {
            return IdleReason::GoalBlocked { code: *code, detail: detail.clone() };
        }
        // An active Goal only comes here with its budget used up.
        Some(GoalStatus::BudgetLimited | GoalStatus::Active) => return IdleReason::GoalBudgetLimited,
        Some(GoalStatus::Completed | GoalStatus::Cancelled) | None => {}
    }
    if let Some(request) = view.open_request {
        return IdleReason::AwaitingAnswer { request };
    }
    match &view.last_end {
        Some(TurnEnd::Lost { turn }) => return IdleReason::TurnLost { turn: *turn },
        Some(TurnEnd::Ended { turn, outcome: TurnOutcome::Failed { failure } }) => {
            return IdleReason::TurnFailed { turn: *turn, failure: failure.clone() };
        }
        Some(TurnEnd::Ended { .. }) | None => {}
    }
    match view.goal.as_ref().map(|goal| goal.status.state()) {
        Some(GoalState::Completed) => IdleReason::GoalCompleted,
        Some(GoalState::Cancelled) => IdleReason::GoalCancelled,
        _ => IdleReason::NothingToDo,
    }
}

/// When a session needs attention next without anybody acting (T3): when something may run, when a lease ends and its
/// owner, if gone, can be replaced, or when something outside is to be looked at.
pub fn wake_at(core: &Core, leases: &Leases, now: Timestamp) -> Option<Timestamp> {
    let of_lane = |lane: &LaneId| match next_action(&ContinuationView::of_lane(core, lane), now) {
        NextAction::RunInput { .. } | NextAction::RunGoal { .. } => Some(now),
        NextAction::WaitUntil { at, .. } => Some(at),
        NextAction::WaitFor { what: Awaited::Turn { .. } } => {
            Some(leases.turn.as_ref().map_or(now, |lease| lease.expires_at))
        }
        NextAction::WaitFor { what: Awaited::Condition { wait } } => {
            let look = matches!(wait.condition, Condition::File { .. });
            let look = look.then(|| leases.next_look.unwrap_or(now));
            Some(look.map_or(wait.deadline, |look| look.min(wait.deadline)))
        }
        NextAction::WaitFor { what: Awaited::Commands { .. } | Awaited::Jobs { .. } }
        | NextAction::Idle { .. } => None,
    };
    let of_command =
        |command: &BackgroundCommand| leases.commands.get(&command.id).map_or(now, |lease| lease.expires_at);
    core.lanes.keys().filter_map(of_lane).chain(core.commands.iter().map(of_command)).min()
}

/// Whether the Goal waits for a file, so that somebody has to look at it.
pub(crate) fn waits_for_file(core: &Core) -> bool {
    let wait = core.goal.as_ref().filter(|goal| goal.is_open()).and_then(|goal| goal.wait.as_ref());
    wait.is_some_and(|wait| !wait.is_met && matches!(wait.condition, Condition::File { .. }))
}
