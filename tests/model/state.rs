//! What must not be wrong with a state, and what is due in one: the rules about continuation in words of their own.

use domain::{Condition, Core, Goal, GoalStatus, InboxRow, InputKind, Mode, PauseReason, Timestamp};
use policy::Leases;

use crate::doing::Doing;
use crate::property::Property;
use crate::world::{World, lane};

/// Whether a row may start a turn (I5).
pub(crate) fn may_run(core: &Core, row: &InboxRow) -> bool {
    let active = core.goal.as_ref().filter(|goal| goal.status == GoalStatus::Active).map(|goal| goal.id);
    match (row.kind, row.goal_id) {
        (InputKind::User | InputKind::Steer, _) | (InputKind::Answer, None) => true,
        (InputKind::Report, None) | (InputKind::Task, _) => false,
        (InputKind::Answer | InputKind::Report, of) => of == active,
    }
}

/// Whether a budget is used up (G4).
pub(crate) const fn is_spent(goal: &Goal) -> bool {
    goal.usage.tokens.input + goal.usage.tokens.output >= goal.budgets.tokens.get()
        || goal.usage.turns >= goal.budgets.turns.get()
        || goal.usage.active_ms >= goal.budgets.active_ms.get()
}

/// Whether a turn may start for the Goal at this moment, if no row is before it (T2, T10, G10).
pub(crate) fn is_due_for_goal(core: &Core, now: Timestamp) -> bool {
    matches!(goal_is_due(core, &Leases::default(), now), Some(at) if at <= now)
}

/// When the Goal goes on or is to be looked at; never by itself if absent.
fn goal_is_due(core: &Core, leases: &Leases, now: Timestamp) -> Option<Timestamp> {
    let goal = core.goal.as_ref().filter(|goal| goal.status == GoalStatus::Active && !is_spent(goal))?;
    let retry = goal.retry.map(|retry| retry.at).filter(|at| *at > now);
    let wait = goal.wait.as_ref().filter(|wait| !wait.is_met && wait.deadline > now);
    if goal.wait.is_none() && core.commands.iter().any(|command| command.goal_id == Some(goal.id)) {
        // Their ends wake it.
        return None;
    }
    let Some(wait) = wait else { return Some(retry.unwrap_or(now)) };
    // Nothing happens before both are over, but a file is looked at meanwhile if that could end the last of them.
    match retry.filter(|at| *at > wait.deadline) {
        Some(retry) => Some(retry),
        None => Some(match wait.condition {
            Condition::File { .. } => leases.next_look.unwrap_or(now).min(wait.deadline),
            Condition::Time | Condition::Command { .. } | Condition::Job { .. } | Condition::Inbox => {
                wait.deadline
            }
        }),
    }
}

/// When a session needs attention next without anybody acting (T3).
fn needs_attention(core: &Core, leases: &Leases, now: Timestamp) -> Option<Timestamp> {
    let rows = core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
    let has_row = !core.inbox_held && rows.iter().any(|row| row.taken.is_none() && may_run(core, row));
    let of_lane = if core.running_turns().next().is_some() {
        leases.turn.as_ref().map(|lease| lease.expires_at)
    } else if has_row {
        Some(now)
    } else {
        goal_is_due(core, leases, now)
    };
    leases.commands.values().map(|lease| lease.expires_at).chain(of_lane).min()
}

impl Doing<'_> {
    /// Looks at the state as it is.
    pub(crate) fn check_state(&mut self) {
        let world = &self.world;
        let found = lease_is_wrong(world)
            .or_else(|| goal_is_wrong(world))
            .or_else(|| the_end_is_wrong(world))
            .or_else(|| rows_are_wrong(world))
            .or_else(|| wake_up_is_wrong(world));
        if let Some((property, how)) = found {
            self.breaks(property, how);
        }
    }
}

type Found = Option<(Property, &'static str)>;

fn lease_is_wrong(world: &World) -> Found {
    let believe = world.workers.iter().flatten().filter(|task| task.until > world.now).count();
    let commands = world.session.core.commands.iter().map(|command| command.id);
    if believe > 1 {
        return Some((
            Property::OneTurn,
            "two workers have reason to believe that they drive the lane's turn",
        ));
    }
    if world.leases.turn.is_some() != world.running().is_some()
        || !commands.eq(world.leases.commands.keys().copied())
    {
        return Some((Property::Fence, "something runs without a lease, or a lease is held for nothing"));
    }
    None
}

fn goal_is_wrong(world: &World) -> Found {
    let core = &world.session.core;
    let goal = core.goal.as_ref()?;
    match goal.status {
        GoalStatus::Active if core.mode == Mode::Plan => {
            Some((Property::Mode, "a Goal is active in Plan mode"))
        }
        GoalStatus::Active if is_spent(goal) => {
            Some((Property::Budget, "a Goal is active with its budget used up, and idle for ever"))
        }
        GoalStatus::Paused(PauseReason::HumanInput { request } | PauseReason::Permission { request })
            if core.request(request).is_none() =>
        {
            Some((Property::Pauses, "a Goal is paused for a question that nobody can answer any more"))
        }
        _ => None,
    }
}

/// After the end nothing of a Goal waits or goes on (G12).
fn the_end_is_wrong(world: &World) -> Found {
    let core = &world.session.core;
    let open = core.goal.as_ref().filter(|goal| goal.is_open()).map(|goal| goal.id);
    let is_over = |of: Option<domain::GoalId>| of.is_some() && of != open;
    let ended = core.goal.as_ref().filter(|goal| !goal.is_open());
    let held = core.goal.as_ref().filter(|goal| !goal.is_active());
    let rows = core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
    let how = if held.is_some_and(|goal| goal.retry.is_some()) {
        "a retry is left of a Goal that is not active"
    } else if ended.is_some_and(|goal| goal.wait.is_some()) {
        "a wait is left of a Goal that is over"
    } else if rows.iter().any(|row| row.taken.is_none() && is_over(row.goal_id)) {
        "a row is left of a Goal that is over"
    } else if core.requests.iter().any(|request| is_over(request.goal_id)) {
        "a question is left of a Goal that is over"
    } else if core.commands.iter().any(|command| is_over(command.goal_id) && !command.is_stopping) {
        "a background command goes on for a Goal that is over"
    } else if core.running_turns().any(|(_, running)| {
        is_over(running.goal.map(|bound| bound.goal_id))
            && running.stop.is_none()
            && running.goal_completed_in.is_none()
    }) {
        "a turn goes on for a Goal that is over"
    } else {
        return None;
    };
    Some((Property::AfterTheEnd, how))
}

fn rows_are_wrong(world: &World) -> Found {
    let running = world.running().map(|running| running.number);
    let rows = world.session.core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
    let is_lost = rows.iter().any(|row| row.taken.is_some() && row.taken != running);
    is_lost.then_some((Property::Rows, "a row is taken by a turn that does not run"))
}

fn wake_up_is_wrong(world: &World) -> Found {
    let past_is_now = |at: Option<Timestamp>| at.map(|at| at.max(world.now));
    let due = past_is_now(needs_attention(&world.session.core, &world.leases, world.now));
    let stored = past_is_now(world.wake_at);
    let how = match (stored, due) {
        (None, None) => return None,
        (Some(stored), Some(due)) if stored == due => return None,
        (None, Some(_)) => "something is due, and nothing wakes the session for it",
        (Some(_), None) => "time alone changes nothing, and the session is woken all the same",
        (Some(stored), Some(due)) if stored > due => "the session is woken later than something is due",
        (Some(_), Some(_)) => "the session is woken before anything is due",
    };
    Some((Property::WakeUp, how))
}
