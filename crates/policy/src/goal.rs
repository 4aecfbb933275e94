//! How a Goal moves: the matrix of who may move it where, and the commands that walk it (G1–G3, G8, G13, M5).

use domain::{
    Actor, Budgets, Code, EventBody, Goal, GoalId, GoalState, GoalStatus, Mode, Objective, PauseReason,
    Remark, StopReason, TurnTrigger, Violation,
};

use crate::decision::Draft;
use crate::rejection::Rejection;

/// Who moves a Goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mover {
    /// A person.
    User,
    /// The model of a bound turn.
    Agent,
    /// The runtime.
    Runtime,
}

impl Mover {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Agent, Self::Runtime];

    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Runtime => "runtime",
        }
    }

    const fn of(actor: &Actor) -> Self {
        match actor {
            Actor::User { .. } => Self::User,
            Actor::Agent { .. } => Self::Agent,
            Actor::Runtime { .. } => Self::Runtime,
        }
    }
}

/// Whether the matrix lets this mover take a Goal from one state to another (G1). Conditions of single cells, such
/// as a raised budget, are checked by the commands.
pub const fn may_move(from: GoalState, to: GoalState, mover: Mover) -> bool {
    use GoalState::{Active, Blocked, BudgetLimited, Cancelled, Completed, Paused, Proposed};
    use Mover::{Agent, Runtime, User};
    match (from, to) {
        (Active, Blocked) => true,
        (Active, Completed) => matches!(mover, Agent | User),
        (Active, BudgetLimited) => matches!(mover, Runtime),
        (Active, Paused) | (Paused, Active | Paused | Blocked | BudgetLimited) => {
            matches!(mover, User | Runtime)
        }
        (Proposed | Blocked, Active | Paused | BudgetLimited)
        | (BudgetLimited, Active | Paused)
        | (Paused | Blocked | BudgetLimited, Completed)
        | (Proposed | Active | Paused | Blocked | BudgetLimited, Cancelled) => matches!(mover, User),
        (Proposed, Proposed | Blocked | Completed)
        | (Active, Proposed | Active)
        | (Paused, Proposed)
        | (Blocked, Proposed | Blocked)
        | (BudgetLimited, Proposed | Blocked | BudgetLimited)
        | (Completed | Cancelled, _) => false,
    }
}

/// Moves the Goal, ends its retry, and stops the turns it must not go on with. Callers check the matrix.
///
/// `stop` is the reason given to *bound* turns; without it only turns that the Goal itself triggered stop when it is
/// no longer active: an input turn goes on unbound (T6).
pub(crate) fn move_to(
    draft: &mut Draft<'_>,
    to: GoalStatus,
    summary: Option<Remark>,
    stop: Option<StopReason>,
) {
    let Some(goal) = draft.state.core.goal.clone() else { return };
    let is_completed = to == GoalStatus::Completed;
    let goes_on = to == GoalStatus::Active;
    let unfinished = is_completed.then(|| unfinished_steps(draft));
    draft.emit(EventBody::GoalMoved { goal_id: goal.id, to, summary, unfinished_steps: unfinished });
    if goal.retry.is_some() {
        draft.emit(EventBody::RetryCleared { goal_id: goal.id });
    }
    if goes_on {
        return;
    }
    let completing = match draft.actor() {
        Actor::Agent { turn, .. } => Some(*turn),
        Actor::User { .. } | Actor::Runtime { .. } => None,
    };
    let affected: Vec<_> = draft
        .state
        .core
        .running_turns()
        .map(|(_, turn)| turn)
        .filter(|turn| turn.stop.is_none() && turn.goal.is_some_and(|bound| bound.goal_id == goal.id))
        .filter(|turn| stop.is_some() || matches!(turn.trigger, TurnTrigger::Goal { .. }))
        .map(|turn| turn.number)
        .filter(|turn| Some(*turn) != completing)
        .collect();
    for turn in affected {
        let reason = stop.unwrap_or(StopReason::GoalChanged);
        draft.emit(EventBody::TurnStopRequested { turn, reason });
    }
}

/// The unfinished steps of all open plans: a figure to show, never a reason (P21).
fn unfinished_steps(draft: &Draft<'_>) -> u32 {
    let lanes = draft.state.core.lanes.keys();
    let unfinished: usize =
        lanes.filter_map(|lane| draft.state.current_plan(lane)).map(domain::Plan::unfinished).sum();
    u32::try_from(unfinished).unwrap_or(u32::MAX)
}

/// Where an activation lands: in Plan mode held by it (M5), without budget limited (G4), after a call that may have
/// happened paused for it unless the user resumes in so many words (T7).
fn landing(draft: &Draft<'_>, is_spent: bool, is_explicit_resume: bool) -> GoalStatus {
    let core = &draft.state.core;
    match core.uncertain_call.filter(|_| !is_explicit_resume) {
        _ if core.mode == Mode::Plan => GoalStatus::Paused(PauseReason::PlanMode),
        _ if is_spent => GoalStatus::BudgetLimited,
        Some(call) => GoalStatus::Paused(PauseReason::UncertainSideEffect { call }),
        None => GoalStatus::Active,
    }
}

pub(crate) struct NewGoal<'a> {
    pub(crate) goal_id: GoalId,
    pub(crate) objective: &'a Objective,
    pub(crate) criteria: Option<&'a Objective>,
    pub(crate) budgets: Budgets,
    pub(crate) replace: bool,
}

pub(crate) fn set(draft: &mut Draft<'_>, new: &NewGoal<'_>) -> Result<(), Rejection> {
    if draft.facts.goal_is_known {
        let message = format!("the Goal id {} was used before; send a new one", new.goal_id);
        return Err(Rejection::new("G13", Code::GoalOpen, message));
    }
    if let Some(open) = draft.state.open_goal() {
        if open.status != GoalStatus::Proposed && !new.replace {
            let message = format!(
                "a Goal is open ({}, {}): complete or cancel it first, or set the new one with replace",
                open.id,
                open.status.state()
            );
            return Err(Rejection::new("G13", Code::GoalOpen, message));
        }
        move_to(draft, GoalStatus::Cancelled, None, Some(StopReason::GoalChanged));
    }
    let status = landing(draft, false, false);
    draft.emit(EventBody::GoalOpened {
        goal_id: new.goal_id,
        objective: new.objective.clone(),
        criteria: new.criteria.cloned(),
        budgets: new.budgets,
        status,
    });
    Ok(())
}

pub(crate) fn pause(draft: &mut Draft<'_>, reason: PauseReason) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Paused)?;
    match &goal.status {
        GoalStatus::Paused(held) if *held == reason => return Ok(()),
        GoalStatus::Active | GoalStatus::Paused(_) => {}
        GoalStatus::Proposed
        | GoalStatus::Blocked { .. }
        | GoalStatus::BudgetLimited
        | GoalStatus::Completed
        | GoalStatus::Cancelled => return Err(illegal(draft, &goal, GoalState::Paused, "it does not run")),
    }
    move_to(draft, GoalStatus::Paused(reason), None, None);
    Ok(())
}

/// The runtime's pause: only an active Goal, or one paused for a weaker reason, takes it (G8).
pub(crate) fn pause_by_runtime(draft: &mut Draft<'_>, reason: PauseReason, stop: Option<StopReason>) {
    let takes = match draft.state.core.goal.as_ref().map(|goal| &goal.status) {
        Some(GoalStatus::Active) => true,
        Some(GoalStatus::Paused(held)) => held.strength() < reason.strength(),
        Some(
            GoalStatus::Proposed
            | GoalStatus::Blocked { .. }
            | GoalStatus::BudgetLimited
            | GoalStatus::Completed
            | GoalStatus::Cancelled,
        )
        | None => false,
    };
    if takes {
        move_to(draft, GoalStatus::Paused(reason), None, stop);
    }
}

pub(crate) fn resume(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Active)?;
    if !may_move(goal.status.state(), GoalState::Active, Mover::User) || goal.status == GoalStatus::Proposed {
        return Err(illegal(draft, &goal, GoalState::Active, "there is nothing to resume"));
    }
    if goal.status == GoalStatus::BudgetLimited && goal.is_spent() {
        return Err(illegal(draft, &goal, GoalState::Active, "its budget is used up"));
    }
    let to = landing(draft, goal.is_spent(), true);
    if to != goal.status {
        move_to(draft, to, None, None);
    }
    Ok(())
}

/// Start Work lifts a `plan_mode` pause and no other (M4, G9). The mode was left before.
pub(crate) fn lift_plan_mode(draft: &mut Draft<'_>) {
    let held = draft.state.core.goal.clone();
    if let Some(goal) = held.filter(|goal| goal.status == GoalStatus::Paused(PauseReason::PlanMode)) {
        let to = landing(draft, goal.is_spent(), false);
        move_to(draft, to, None, None);
    }
}

pub(crate) fn cancel(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    open(draft, GoalState::Cancelled)?;
    move_to(draft, GoalStatus::Cancelled, None, Some(StopReason::GoalChanged));
    Ok(())
}

pub(crate) fn complete_by_user(draft: &mut Draft<'_>, summary: Option<&Remark>) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Completed)?;
    if !may_move(goal.status.state(), GoalState::Completed, Mover::User) {
        return Err(illegal(draft, &goal, GoalState::Completed, "it was never accepted"));
    }
    move_to(draft, GoalStatus::Completed, summary.cloned(), Some(StopReason::GoalChanged));
    Ok(())
}

/// A turn completes the Goal it is bound to, if the Goal is as it was when the turn started (G2).
pub(crate) fn complete_by_agent(draft: &mut Draft<'_>, summary: Option<&Remark>) -> Result<(), Rejection> {
    let Actor::Agent { turn, .. } = draft.actor().clone() else { return Ok(()) };
    let bound = draft.state.running(turn).and_then(|(_, running)| running.goal);
    let Some(bound) = bound else {
        let message = "this turn works for no Goal, so there is none to complete; report to the user instead";
        return Err(Rejection::new("G2", Code::GoalNotBound, message));
    };
    match draft.state.core.goal.clone() {
        Some(goal) if goal.id == bound.goal_id && goal.revision == bound.revision && goal.is_active() => {
            move_to(draft, GoalStatus::Completed, summary.cloned(), None);
            Ok(())
        }
        Some(goal) => {
            let message = format!(
                "the Goal changed since this turn started (it is {} at revision {}, this turn is bound to {} at \
                 revision {}); finish by reporting to the user",
                goal.status.state(),
                goal.revision,
                bound.goal_id,
                bound.revision
            );
            Err(Rejection::new("G2", Code::GoalNotBound, message))
        }
        None => Err(no_goal()),
    }
}

/// The Goal, if it is open: one that ended goes nowhere.
fn open(draft: &Draft<'_>, to: GoalState) -> Result<Goal, Rejection> {
    match &draft.state.core.goal {
        Some(goal) if goal.is_open() => Ok(goal.clone()),
        Some(goal) => Err(illegal(draft, goal, to, "it is over; `zuno goal set` opens a new one")),
        None => Err(no_goal()),
    }
}

fn no_goal() -> Rejection {
    Rejection::new("G1", Code::UnknownGoal, "this session has no Goal; `zuno goal set` opens one")
}

fn illegal(draft: &Draft<'_>, goal: &Goal, to: GoalState, why: &str) -> Rejection {
    let from = goal.status.state();
    let mover = Mover::of(draft.actor()).name();
    let message = format!("a {mover} cannot take the Goal from {from} to {to}: {why}");
    Rejection::of(vec![Violation::new("G1", Code::IllegalTransition, message)])
}
