//! What the onlooker says of a Goal that moves: who may move it, and where.

use domain::{Actor, Event, EventBody, GoalStatus, InputKind, PauseReason};
use policy::UserCommand;

use super::Seen;
use crate::commands::Order;
use crate::doing::Doing;
use crate::property::Property;
use crate::world::World;

impl Doing<'_> {
    /// Who moves the Goal where.
    pub(super) fn goal_moves(&mut self, seen: &Seen<'_>, event: &Event) {
        match &event.body {
            EventBody::GoalOpened { .. } => {
                self.world.notes.continuation = 0;
                self.world.notes.spent = 0;
            }
            EventBody::GoalMoved { goal_id, to, .. } => match &seen.goal {
                Some((id, from)) if id == goal_id => self.goal_move(seen, event, from, to),
                _ => self.breaks(Property::AfterTheEnd, "a Goal moved that is not the session's"),
            },
            EventBody::GoalBlockStaged { turn, .. } if !is_bound_as_it_is(seen.before, *turn) => {
                self.breaks(
                    Property::Binding,
                    "a turn declared a Goal blocked that it is not bound to as it is",
                );
            }
            EventBody::RetryScheduled { goal_id, .. } | EventBody::GoalWaitSet { goal_id, .. } => {
                let is_active =
                    seen.goal.as_ref().is_some_and(|(id, at)| id == goal_id && *at == GoalStatus::Active);
                if !is_active {
                    self.breaks(
                        Property::AfterTheEnd,
                        "a retry or wait was stored for a Goal that is not active",
                    );
                }
            }
            EventBody::GoalCharged { turn, request, attempt, usage, .. } => {
                if !self.world.notes.charged.insert((*turn, *request, *attempt)) {
                    self.breaks(Property::ChargedOnce, "a request was charged twice");
                }
                if self.slice.keep.tokens {
                    self.world.notes.spent += usage.charged();
                }
            }
            _ => {}
        }
    }

    fn goal_move(&mut self, seen: &Seen<'_>, event: &Event, from: &GoalStatus, to: &GoalStatus) {
        let is_user = matches!(event.actor, Actor::User { .. });
        match to {
            _ if from.state().is_terminal() => {
                self.breaks(Property::AfterTheEnd, "a Goal that is over moved");
            }
            GoalStatus::Active => {
                if !lifts(seen.order, from) {
                    self.breaks(Property::Pauses, "a Goal became active by an act that is not meant for it");
                }
            }
            GoalStatus::Paused(new) => {
                let is_fit = match from {
                    GoalStatus::Active => true,
                    GoalStatus::Paused(old) if is_user => {
                        matches!(seen.order, Order::User(UserCommand::PauseGoal))
                            || lifts(seen.order, from) && *new != *old
                    }
                    GoalStatus::Paused(old) => strength(*new) > strength(*old),
                    _ => lifts(seen.order, from),
                };
                if !is_fit {
                    self.breaks(Property::Pauses, "a weaker pause replaced a stronger one");
                }
            }
            GoalStatus::Completed => {
                let is_fit = match &event.actor {
                    Actor::Agent { turn, .. } => is_bound_as_it_is(seen.before, *turn),
                    Actor::User { .. } => matches!(seen.order, Order::User(UserCommand::CompleteGoal { .. })),
                    Actor::Runtime { .. } => false,
                };
                let is_forced =
                    matches!(seen.order, Order::User(UserCommand::CompleteGoal { force: true, .. }));
                if !is_forced && has_open_work(seen.before) {
                    self.breaks(Property::AfterTheEnd, "a Goal was completed while work of it was open");
                }
                if !is_fit {
                    self.breaks(
                        Property::Binding,
                        "a turn completed a Goal that it is not bound to as it is",
                    );
                }
            }
            GoalStatus::Cancelled if !is_user => {
                self.breaks(Property::Pauses, "somebody else than the user cancelled the Goal");
            }
            GoalStatus::Proposed
            | GoalStatus::Blocked { .. }
            | GoalStatus::BudgetLimited
            | GoalStatus::Cancelled => {}
        }
    }
}

fn is_bound_as_it_is(before: &World, turn: domain::TurnNumber) -> bool {
    let bound = before.running().filter(|running| running.number == turn).and_then(|running| running.goal);
    let goal = before.session.core.goal.as_ref().filter(|goal| goal.is_active());
    bound.is_some()
        && bound.map(|bound| (bound.goal_id, bound.revision)) == goal.map(|goal| (goal.id, goal.revision))
}

/// Whether something still works for the Goal, or waits to be read or answered (G12).
fn has_open_work(before: &World) -> bool {
    let core = &before.session.core;
    let goal = core.goal.as_ref().map(|goal| goal.id);
    let rows = core.lanes.values().flat_map(|slot| &slot.inbox);
    core.commands.iter().any(|command| command.goal_id == goal && !command.is_stopping)
        || core.requests.iter().any(|request| request.goal_id == goal)
        || rows.filter(|row| row.goal_id == goal).any(|row| row.kind == InputKind::Report)
}

/// Whether an act is meant to let a Goal go on from where it is (G9).
fn lifts(order: &Order, from: &GoalStatus) -> bool {
    let Order::User(command) = order else { return false };
    match (command, from) {
        (UserCommand::ResumeGoal | UserCommand::SubmitInput { resume: true, .. }, from) => {
            *from != GoalStatus::Proposed
        }
        (UserCommand::AcceptGoal { .. }, GoalStatus::Proposed)
        | (UserCommand::SetBudgets { .. }, GoalStatus::BudgetLimited)
        | (UserCommand::StartWork { .. }, GoalStatus::Paused(PauseReason::PlanMode)) => true,
        (
            UserCommand::AnswerRequest { request, .. },
            GoalStatus::Paused(
                PauseReason::HumanInput { request: held } | PauseReason::Permission { request: held },
            ),
        ) => request == held,
        _ => false,
    }
}

/// The order of G8, written down once more.
const fn strength(reason: PauseReason) -> u8 {
    match reason {
        PauseReason::PlanMode => 1,
        PauseReason::NoProgress | PauseReason::RepeatedFailure => 2,
        PauseReason::HumanInput { .. } | PauseReason::Permission { .. } => 3,
        PauseReason::Interrupted | PauseReason::User => 4,
        PauseReason::Authentication | PauseReason::Quota => 5,
        PauseReason::UncertainSideEffect { .. } => 6,
    }
}
