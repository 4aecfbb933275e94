//! How a Goal moves: the matrix of who may move it where, and the commands that walk it (G1–G3, G8, G13, M5).

use domain::{
    Actor, Amendment, Budgets, Code, EventBody, Goal, GoalId, GoalState, GoalStatus, InputKind, Mode,
    Objective, PauseReason, Remark, Revision, RunningTurn, StopReason, TurnNumber, Violation,
};

use crate::command::{BudgetEdit, CriteriaEdit};
use crate::decision::Draft;
use crate::rejection::Rejection;
use crate::{background, budget, inbox, job, progress, request};

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
        (Active, Paused | BudgetLimited) | (Paused, Active | Paused | Blocked | BudgetLimited) => {
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

/// Moves the Goal, ends its retry, and stops the turns it must not go on with; a Goal that is over takes everything
/// that waits for it along (G12). Callers check the matrix.
///
/// `stop` is the reason given to *bound* turns; without it only turns that run for the Goal alone stop when it is
/// not active any more: a turn for a person's prompt goes on unbound (T6).
pub(crate) fn move_to(
    draft: &mut Draft<'_>,
    to: GoalStatus,
    summary: Option<Remark>,
    stop: Option<StopReason>,
) {
    let Some(goal) = draft.state.core.goal.clone() else { return };
    budget::charge_time(draft);
    let is_completed = to == GoalStatus::Completed;
    let is_over = to.state().is_terminal();
    let goes_on = to == GoalStatus::Active;
    let unfinished = is_completed.then(|| unfinished_steps(draft));
    draft.emit(EventBody::GoalMoved { goal_id: goal.id, to, summary, unfinished_steps: unfinished });
    clear_retry(draft);
    if goes_on {
        return;
    }
    if is_over {
        request::cancel_of_goal(draft, goal.id);
        inbox::cancel_of_goal(draft, goal.id);
        background::stop_of_goal(draft, goal.id);
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
        .filter(|turn| stop.is_some() || turn.is_for_goal)
        .map(|turn| turn.number)
        .filter(|turn| Some(*turn) != completing)
        .collect();
    for turn in affected {
        let reason = stop.unwrap_or(StopReason::GoalChanged);
        draft.emit(EventBody::TurnStopRequested { turn, reason });
    }
    if is_over {
        job::cancel_waiting(draft, Some(goal.id), "its Goal ended");
    }
}

fn clear_retry(draft: &mut Draft<'_>) {
    let goal = draft.state.core.goal.as_ref().filter(|goal| goal.retry.is_some());
    if let Some(goal_id) = goal.map(|goal| goal.id) {
        draft.emit(EventBody::RetryCleared { goal_id });
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
                "a Goal is open ({}, {}): complete or cancel it first, or set the new one with --replace",
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

/// The user lets the Goal go on, whatever held it: its requests are not waited for any more, nor is a wait or a retry of
/// an active one.
pub(crate) fn resume(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Active)?;
    if goal.is_active() && (goal.wait.is_some() || goal.retry.is_some()) {
        if goal.wait.is_some() {
            draft.emit(EventBody::GoalWaitLifted { goal_id: goal.id });
        }
        clear_retry(draft);
        return Ok(());
    }
    if goal.is_active() {
        let message = "the Goal is active and waits for nothing, so there is nothing to resume; a worker runs its turns";
        return Err(Rejection::new("G1", Code::IllegalTransition, message));
    }
    if !may_move(goal.status.state(), GoalState::Active, Mover::User) || goal.status == GoalStatus::Proposed {
        return Err(illegal(draft, &goal, GoalState::Active, "there is nothing to resume"));
    }
    if goal.status == GoalStatus::BudgetLimited && goal.is_spent() {
        let why = "its budget is used up; `zuno goal budget` raises it";
        return Err(illegal(draft, &goal, GoalState::Active, why));
    }
    request::cancel_of_goal(draft, goal.id);
    let to = landing(draft, goal.is_spent(), true);
    if to != goal.status {
        move_to(draft, to, None, None);
    }
    Ok(())
}

/// Lets a Goal go on together with a message (G9): one that runs already just does.
pub(crate) fn resume_with_message(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    if open(draft, GoalState::Active)?.is_active() { Ok(()) } else { resume(draft) }
}

/// Lifts a pause for its own reason; what the user never saw of an uncertain call still holds (M5, T7).
pub(crate) fn lift_pause(draft: &mut Draft<'_>) {
    let Some(goal) = draft.state.core.goal.clone() else { return };
    let to = landing(draft, goal.is_spent(), false);
    if to != goal.status {
        move_to(draft, to, None, None);
    }
}

/// Start Work lifts a `plan_mode` pause and no other (M4, G9). The mode was left before.
pub(crate) fn lift_plan_mode(draft: &mut Draft<'_>) {
    let held = draft.state.core.goal.clone();
    if held.is_some_and(|goal| goal.status == GoalStatus::Paused(PauseReason::PlanMode)) {
        lift_pause(draft);
    }
}

/// An agent proposes a Goal, revises its proposal, or proposes a change of an accepted one (G3).
pub(crate) fn propose(draft: &mut Draft<'_>, new: &NewGoal<'_>) -> Result<&'static str, Rejection> {
    let (objective, criteria) = (new.objective.clone(), new.criteria.cloned());
    match draft.state.open_goal() {
        None if draft.facts.goal_is_known => {
            let message = format!("the Goal id {} was used before; send a new one", new.goal_id);
            Err(Rejection::new("G13", Code::GoalOpen, message))
        }
        None => {
            let (goal_id, budgets, status) = (new.goal_id, new.budgets, GoalStatus::Proposed);
            draft.emit(EventBody::GoalOpened { goal_id, objective, criteria, budgets, status });
            Ok("proposed")
        }
        Some(goal) if goal.status == GoalStatus::Proposed => {
            draft.emit(EventBody::GoalEdited { goal_id: goal.id, objective, criteria });
            Ok("proposed")
        }
        Some(goal) => {
            let amendment = Amendment { objective, criteria };
            draft.emit(EventBody::GoalAmendmentProposed { goal_id: goal.id, amendment });
            Ok("amendment_proposed")
        }
    }
}

/// The user accepts what an agent proposes (G3). A Goal starts; a change takes effect.
pub(crate) fn accept(draft: &mut Draft<'_>, expected: Option<Revision>) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Active)?;
    check_revision(&goal, expected)?;
    if goal.status == GoalStatus::Proposed {
        let to = landing(draft, goal.is_spent(), false);
        move_to(draft, to, None, None);
        return Ok(());
    }
    let Some(Amendment { objective, criteria }) = goal.amendment else {
        return Err(Rejection::new("G3", Code::IllegalTransition, "no agent proposes anything to accept"));
    };
    draft.emit(EventBody::GoalEdited { goal_id: goal.id, objective, criteria });
    clear_retry(draft);
    Ok(())
}

/// The user declines what an agent proposes.
pub(crate) fn decline(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Cancelled)?;
    if goal.status == GoalStatus::Proposed {
        move_to(draft, GoalStatus::Cancelled, None, None);
    } else if goal.amendment.is_some() {
        draft.emit(EventBody::GoalAmendmentDeclined { goal_id: goal.id });
    } else {
        return Err(Rejection::new("G3", Code::IllegalTransition, "no agent proposes anything to decline"));
    }
    Ok(())
}

/// The user changes what the Goal is after. Turns that run for it go on, but cannot complete it any more (G2).
pub(crate) fn edit(
    draft: &mut Draft<'_>,
    objective: Option<&Objective>,
    criteria: &CriteriaEdit,
    expected: Option<Revision>,
) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Active)?;
    check_revision(&goal, expected)?;
    let objective = objective.unwrap_or(&goal.objective).clone();
    let criteria = match criteria {
        CriteriaEdit::Keep => goal.criteria.clone(),
        CriteriaEdit::Remove => None,
        CriteriaEdit::Set(criteria) => Some(criteria.clone()),
    };
    if objective != goal.objective || criteria != goal.criteria {
        draft.emit(EventBody::GoalEdited { goal_id: goal.id, objective, criteria });
        clear_retry(draft);
    }
    Ok(())
}

/// The user changes the budgets. A Goal that had used them up goes on if it has some left; one that has none left is
/// limited at once (G4).
pub(crate) fn set_budgets(draft: &mut Draft<'_>, change: BudgetEdit) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Active)?;
    let budgets = change.apply_to(goal.budgets);
    if budgets == goal.budgets {
        return Ok(());
    }
    budget::charge_time(draft);
    draft.emit(EventBody::GoalBudgetChanged { goal_id: goal.id, budgets });
    let is_spent = draft.state.core.goal.as_ref().is_some_and(Goal::is_spent);
    if goal.status == GoalStatus::BudgetLimited && !is_spent {
        inbox::release(draft);
        lift_pause(draft);
    }
    budget::settle(draft);
    Ok(())
}

fn check_revision(goal: &Goal, expected: Option<Revision>) -> Result<(), Rejection> {
    match expected.filter(|expected| *expected != goal.revision) {
        None => Ok(()),
        Some(expected) => {
            let message = format!(
                "the Goal is at revision {}, and {expected} was expected; look at it again",
                goal.revision
            );
            Err(Rejection::new("G2", Code::RevisionConflict, message))
        }
    }
}

pub(crate) fn cancel(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    open(draft, GoalState::Cancelled)?;
    move_to(draft, GoalStatus::Cancelled, None, Some(StopReason::GoalChanged));
    Ok(())
}

pub(crate) fn complete_by_user(
    draft: &mut Draft<'_>,
    summary: Option<&Remark>,
    force: bool,
) -> Result<(), Rejection> {
    let goal = open(draft, GoalState::Completed)?;
    if !may_move(goal.status.state(), GoalState::Completed, Mover::User) {
        return Err(illegal(draft, &goal, GoalState::Completed, "it was never accepted"));
    }
    if !force {
        check_work_is_done(draft, goal.id, "complete it with --force to cancel that")?;
    }
    move_to(draft, GoalStatus::Completed, summary.cloned(), Some(StopReason::GoalChanged));
    Ok(())
}

/// A turn completes the Goal it is bound to, if the Goal is as it was when the turn started (G2).
pub(crate) fn complete_by_agent(draft: &mut Draft<'_>, summary: Option<&Remark>) -> Result<(), Rejection> {
    let Actor::Agent { turn, .. } = draft.actor().clone() else { return Ok(()) };
    let (goal_id, _) = bound_and_unchanged(draft, turn)?;
    check_work_is_done(draft, goal_id, "wait for it with goal_wait, or stop it with command_stop")?;
    move_to(draft, GoalStatus::Completed, summary.cloned(), None);
    Ok(())
}

/// A turn declares the Goal it is bound to blocked (G6). Says which turn it is that does since the last progress.
pub(crate) fn stage_block(draft: &mut Draft<'_>, reason: &Remark) -> Result<u8, Rejection> {
    let Actor::Agent { turn, .. } = draft.actor().clone() else { return Ok(0) };
    let (goal_id, running) = bound_and_unchanged(draft, turn)?;
    Ok(progress::stage_block(draft, goal_id, &running, reason))
}

/// Completion waits for what still works for the Goal (G12).
fn check_work_is_done(draft: &Draft<'_>, goal: GoalId, remedy: &str) -> Result<(), Rejection> {
    let core = &draft.state.core;
    let commands = core.commands_of(goal).filter(|command| !command.is_stopping).count();
    let rows = core.lanes.values().flat_map(|slot| &slot.inbox);
    let reports = rows.filter(|row| row.kind == InputKind::Report && row.goal_id == Some(goal)).count();
    let requests = core.requests.iter().filter(|request| request.goal_id == Some(goal)).count();
    let counts = [
        (core.jobs_of(goal).count(), "running job"),
        (commands, "running background command"),
        (reports, "unread report"),
        (requests, "unanswered request"),
    ];
    let open: Vec<_> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    let message = format!("the Goal still has open work ({}); {remedy}", open.join(", "));
    Err(Rejection::new("G12", Code::OpenWork, message))
}

/// The Goal that a turn is bound to, while it is active.
pub(crate) fn bound_and_active(
    draft: &Draft<'_>,
    turn: TurnNumber,
) -> Result<(GoalId, RunningTurn), Rejection> {
    let running = draft.state.running(turn).map(|(_, running)| running.clone());
    let Some((running, bound)) = running.and_then(|running| running.goal.map(|bound| (running, bound)))
    else {
        let message = "this turn works for no Goal; report to the user instead";
        return Err(Rejection::new("G2", Code::GoalNotBound, message));
    };
    match &draft.state.core.goal {
        Some(goal) if goal.id == bound.goal_id && goal.is_active() => Ok((goal.id, running)),
        Some(goal) => {
            let message = format!(
                "the Goal changed since this turn started (it is {}, {}); finish by reporting to the user",
                goal.id,
                goal.status.state()
            );
            Err(Rejection::new("G2", Code::GoalNotBound, message))
        }
        None => Err(no_goal()),
    }
}

/// The same, if the Goal is also as it was when the turn started (G2).
fn bound_and_unchanged(draft: &Draft<'_>, turn: TurnNumber) -> Result<(GoalId, RunningTurn), Rejection> {
    let (goal_id, running) = bound_and_active(draft, turn)?;
    let is_at = draft.state.core.goal.as_ref().map_or(Revision(0), |goal| goal.revision);
    match running.goal.map(|bound| bound.revision) {
        Some(bound) if bound != is_at => {
            let message = format!(
                "the Goal changed since this turn started (it is at revision {is_at}, this turn is bound to \
                 {bound}); finish by reporting to the user"
            );
            Err(Rejection::new("G2", Code::GoalNotBound, message))
        }
        Some(_) | None => Ok((goal_id, running)),
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
