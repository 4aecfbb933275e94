//! The canonical form of a state, by which the state space is finite and equal futures are one state.
//!
//! Nothing here loses a behaviour, for these reasons:
//!
//! - *Time*: rules compare moments with the present one and take distances. All moments are moved so that the present is
//!   [`START`]; one that has passed is moved to it. Only the count of active time needs more, and the slice about it keeps
//!   the moments as they are.
//! - *Numbers*: rules ask whether numbers of turns, rows, requests, commands, Goals and revisions are equal, and take the
//!   next one. They are numbered anew in their order.
//! - *A task whose turn is over* and that does not know may try to write anything: more than it really would.
//! - *Workers* are alike: they are sorted, and what they own is renamed with them.
//! - *What only people read* is dropped: titles, ends of turns, the name of the call behind a pause.
//! - *Counters* that no budget or breaker of the slice is about are held at zero: such a slice explores the runs in
//!   which that budget is never used up and that breaker never trips, and another slice has it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use domain::{
    CallRef, CommandId, Condition, Core, Goal, GoalId, GoalStatus, GoalUsage, InputId, PauseReason,
    RequestId, Revision, Seq, SessionState, Streaks, Timestamp, TokenUsage, TurnNumber, TurnPhase,
    TurnTrigger,
};

use crate::slice::{Keep, Slice};
use crate::world::{At, START, World};

/// Where the log of a canonical state ends: past every row's number.
const HEAD: Seq = Seq(100);
/// The number of the last continuation in a canonical state.
const CONTINUATION: u64 = 100;
/// The call in place of calls that nothing depends on.
const SOME_CALL: CallRef = CallRef { turn: TurnNumber(0), request: 0, index: 0 };

/// Makes a state canonical.
pub(crate) fn canonical(slice: &Slice, mut world: World) -> World {
    let mut session = Arc::unwrap_or_clone(world.session);
    forget_what_people_read(&mut session, slice.keep);
    forget_stale_tasks(&session.core, &mut world.workers);
    number_anew(&mut session, &mut world.leases, &mut world.notes, &mut world.workers);
    world.session = Arc::new(session);
    move_to_start(slice.keep, &mut world);
    sort_workers(slice, &mut world);
    world
}

fn forget_what_people_read(session: &mut SessionState, keep: Keep) {
    let core = &mut session.core;
    core.title = None;
    core.head = HEAD;
    if let Some(call) = &mut core.uncertain_call {
        *call = SOME_CALL;
    }
    for request in &mut core.requests {
        request.turn = TurnNumber(0);
        if let domain::Asked::Permission { call, .. } = &mut request.asked {
            *call = SOME_CALL;
        }
    }
    for command in &mut core.commands {
        command.call = SOME_CALL;
    }
    for slot in core.lanes.values_mut() {
        slot.last_end = None;
        if let Some(plan) = &mut slot.plan {
            plan.seq = Seq(0);
        }
        for row in &mut slot.inbox {
            if !keep.returns {
                row.returns = 0;
            }
            if let Some(runs) = &mut row.runs {
                runs.call = SOME_CALL;
            }
        }
        if let Some(running) = &mut slot.running {
            running.wait_over = None;
            if !keep.streaks {
                running.repeat = None;
                running.progress = domain::Progress::None;
                running.staged_block = None;
            }
        }
    }
    if let Some(goal) = &mut core.goal {
        forget_of_goal(goal, keep);
    }
    for plan in session.plans.values_mut() {
        Arc::make_mut(plan).revision = Revision(1);
    }
}

/// A task whose turn is over may try whatever it likes; what it was about does not matter.
fn forget_stale_tasks(core: &Core, workers: &mut [Option<crate::world::Task>]) {
    let running = core.running_turns().next().map(|(_, running)| running.number);
    for task in workers.iter_mut().flatten() {
        if running != Some(task.turn) && !matches!(task.at, At::Looked(_)) {
            task.at = At::Stale;
            task.turn = TurnNumber(0);
            task.request = 1;
        }
    }
}

fn forget_of_goal(goal: &mut Goal, keep: Keep) {
    goal.summary = None;
    goal.unfinished_steps = None;
    if let GoalStatus::Paused(PauseReason::UncertainSideEffect { call }) = &mut goal.status {
        *call = SOME_CALL;
    }
    if !keep.streaks || !goal.is_open() {
        goal.streaks = Streaks::default();
    }
    // A hundred failures in a row are too many to explore.
    goal.streaks.failed = 0;
    if !keep.tokens || !goal.is_open() {
        goal.usage.tokens = TokenUsage::default();
    }
    if !keep.turns || !goal.is_open() {
        goal.usage.turns = 0;
    }
    if !keep.active_time || !goal.is_open() {
        goal.usage.active_ms = 0;
    }
    if goal.usage == GoalUsage::default() {
        goal.announced_percent = 0;
    }
    for denial in &mut goal.denials {
        // From the third on each blocks.
        denial.times = denial.times.min(3);
    }
    if let Some(retry) = &mut goal.retry {
        // The wait grows with it; that it is a wait is all that matters.
        retry.attempt = 1;
    }
    if !goal.is_open() {
        goal.denials.clear();
        goal.criteria = None;
        goal.budgets = domain::Budgets::default();
    }
}

/// New numbers for the old, in their order, from 1.
fn ranks<T: Ord + Copy>(used: impl IntoIterator<Item = T>) -> BTreeMap<T, u32> {
    let used: BTreeSet<T> = used.into_iter().collect();
    used.into_iter().zip(1..).collect()
}

fn number_anew(
    session: &mut SessionState,
    leases: &mut policy::Leases,
    notes: &mut crate::world::Notes,
    workers: &mut [Option<crate::world::Task>],
) {
    let core = &mut session.core;
    number_goals(core);
    number_turns(core, notes, workers);
    number_requests(core, notes);
    number_commands(core, leases);
    number_rows(core, notes);
}

/// The Goal is the first; any other is one that is over.
fn number_goals(core: &mut Core) {
    const OVER: GoalId = testkit::goal_id(0);
    const CURRENT: GoalId = testkit::goal_id(1);
    let current = core.goal.as_ref().map(|goal| goal.id);
    let of = |id: &mut GoalId| *id = if Some(*id) == current { CURRENT } else { OVER };
    let at = core.goal.as_ref().map_or(Revision(1), |goal| goal.revision);
    let mut is_behind = false;
    for slot in core.lanes.values_mut() {
        slot.inbox.iter_mut().filter_map(|row| row.goal_id.as_mut()).for_each(of);
        let Some(running) = &mut slot.running else { continue };
        if let Some(bound) = &mut running.goal {
            is_behind = Some(bound.goal_id) == current && bound.revision != at;
            of(&mut bound.goal_id);
            bound.revision = Revision(1);
        }
        match &mut running.trigger {
            TurnTrigger::Goal { goal_id, continuation } => {
                of(goal_id);
                *continuation = CONTINUATION;
            }
            TurnTrigger::Input { .. } => {}
        }
        match &mut running.phase {
            TurnPhase::Requesting { charged_to, .. } | TurnPhase::Failed { charged_to, .. } => {
                charged_to.iter_mut().for_each(of);
            }
            TurnPhase::Ready | TurnPhase::Calling { .. } | TurnPhase::Answered => {}
        }
    }
    core.commands.iter_mut().filter_map(|command| command.goal_id.as_mut()).for_each(of);
    core.requests.iter_mut().filter_map(|request| request.goal_id.as_mut()).for_each(of);
    if let Some(goal) = &mut core.goal {
        goal.id = CURRENT;
        goal.revision = if is_behind { Revision(2) } else { Revision(1) };
    }
}

fn number_turns(
    core: &mut Core,
    notes: &mut crate::world::Notes,
    workers: &mut [Option<crate::world::Task>],
) {
    let rows = core.lanes.values().flat_map(|slot| &slot.inbox).filter_map(|row| row.taken);
    let running = core.running_turns().map(|(_, running)| running.number);
    let used: BTreeSet<TurnNumber> = rows.chain(running).collect();
    notes.happened.retain(|call| is_open(core, *call));
    notes.charged.retain(|(turn, ..)| used.contains(turn));
    let new = ranks(used);
    let of = |turn: &mut TurnNumber| *turn = TurnNumber(new.get(turn).copied().unwrap_or(0).into());
    for slot in core.lanes.values_mut() {
        slot.inbox.iter_mut().filter_map(|row| row.taken.as_mut()).for_each(of);
        slot.running.iter_mut().for_each(|running| of(&mut running.number));
    }
    for task in workers.iter_mut().flatten() {
        of(&mut task.turn);
    }
    let moved = |mut call: CallRef| {
        of(&mut call.turn);
        call
    };
    notes.happened = std::mem::take(&mut notes.happened).into_iter().map(moved).collect();
    let moved = |(mut turn, request, attempt)| {
        of(&mut turn);
        (turn, request, attempt)
    };
    notes.charged = std::mem::take(&mut notes.charged).into_iter().map(moved).collect();
    core.last_turn = TurnNumber(u64::try_from(new.len()).unwrap_or(0));
}

fn is_open(core: &Core, call: CallRef) -> bool {
    core.running_turns().any(|(_, running)| running.open_calls().iter().any(|open| open.call == call))
}

fn number_requests(core: &mut Core, notes: &mut crate::world::Notes) {
    let paused = match core.goal.as_mut().map(|goal| &mut goal.status) {
        Some(GoalStatus::Paused(
            PauseReason::HumanInput { request } | PauseReason::Permission { request },
        )) => Some(request),
        _ => None,
    };
    let open = core.requests.iter().map(|request| request.id);
    let new = ranks(open.chain(paused.as_deref().copied()).chain(notes.settled));
    let of = |id: &mut RequestId| *id = RequestId(new.get(id).copied().unwrap_or(0));
    core.requests.iter_mut().for_each(|request| of(&mut request.id));
    paused.into_iter().for_each(of);
    notes.settled.iter_mut().for_each(of);
    core.last_request = RequestId(u32::try_from(new.len()).unwrap_or(0));
}

fn number_commands(core: &mut Core, leases: &mut policy::Leases) {
    let new = ranks(core.commands.iter().map(|command| command.id));
    // A wait for a command that is over is met.
    let of = |id: &mut CommandId| *id = CommandId(new.get(id).copied().unwrap_or(0));
    core.commands.iter_mut().for_each(|command| of(&mut command.id));
    if let Some(Condition::Command { command }) =
        core.goal.as_mut().and_then(|goal| goal.wait.as_mut()).map(|wait| &mut wait.condition)
    {
        of(command);
    }
    let moved = std::mem::take(&mut leases.commands).into_iter().map(|(mut id, lease)| {
        of(&mut id);
        (id, lease)
    });
    leases.commands = moved.collect();
    core.last_command = CommandId(u32::try_from(new.len()).unwrap_or(0));
}

fn number_rows(core: &mut Core, notes: &mut crate::world::Notes) {
    let new = ranks(core.lanes.values().flat_map(|slot| &slot.inbox).map(|row| row.id));
    let of = |id: &mut InputId| *id = InputId(Seq(new.get(id).copied().unwrap_or(0).into()));
    for slot in core.lanes.values_mut() {
        slot.inbox.iter_mut().for_each(|row| of(&mut row.id));
        if let Some(TurnTrigger::Input { rows }) = slot.running.as_mut().map(|running| &mut running.trigger) {
            rows.iter_mut().for_each(of);
        }
    }
    notes.allowed.retain(|row| new.contains_key(row));
    let moved = |mut row: InputId| {
        of(&mut row);
        row
    };
    notes.allowed = std::mem::take(&mut notes.allowed).into_iter().map(moved).collect();
    if let Some(goal) = &mut core.goal {
        let behind = goal.continuations.saturating_sub(notes.continuation);
        let ahead = notes.continuation.saturating_sub(goal.continuations);
        goal.continuations = CONTINUATION;
        notes.continuation = (CONTINUATION + ahead).saturating_sub(behind);
    }
}

fn move_to_start(keep: Keep, world: &mut World) {
    let by = START.0 - world.now.0;
    let future = |at: &mut Timestamp| *at = Timestamp((at.0 + by).max(START.0));
    // The count of active time takes the distance to moments that have passed.
    let past = |at: &mut Timestamp| {
        *at = Timestamp(if keep.active_time { at.0 + by } else { (at.0 + by).max(START.0) });
    };
    let session = Arc::make_mut(&mut world.session);
    let core = &mut session.core;
    core.last_at = START;
    core.requests.iter_mut().for_each(|request| request.at = START);
    core.commands.iter_mut().for_each(|command| command.since = START);
    for slot in core.lanes.values_mut() {
        if let Some(closed) = slot.plan.as_mut().and_then(|plan| plan.closed.as_mut()) {
            closed.at = START;
        }
        if let Some(TurnPhase::Failed { retry_at: Some(at), .. }) =
            slot.running.as_mut().map(|running| &mut running.phase)
        {
            future(at);
        }
    }
    if let Some(goal) = &mut core.goal {
        goal.retry.iter_mut().for_each(|retry| future(&mut retry.at));
        goal.wait.iter_mut().for_each(|wait| future(&mut wait.deadline));
        goal.active_since.iter_mut().for_each(past);
        if !keep.active_time {
            goal.active_since = goal.active_since.map(|_| START);
        }
    }
    world.leases.turn.iter_mut().for_each(|lease| past(&mut lease.expires_at));
    world.leases.commands.values_mut().for_each(|lease| future(&mut lease.expires_at));
    world.leases.next_look.iter_mut().for_each(future);
    world.wake_at.iter_mut().for_each(future);
    world.workers.iter_mut().flatten().for_each(|task| future(&mut task.until));
    world.now = START;
}

/// Workers are alike, so their order says nothing.
fn sort_workers(slice: &Slice, world: &mut World) {
    if slice.is_one_process {
        return;
    }
    if let Some(lease) = &mut world.leases.turn {
        // The number of the turn that took it; nobody reads it.
        lease.epoch = TurnNumber(0);
    }
    let key = |index: usize| {
        let process = slice.process(index);
        let mut hasher = DefaultHasher::new();
        world.workers[index].hash(&mut hasher);
        world.leases.turn.as_ref().is_some_and(|lease| lease.owner == process).hash(&mut hasher);
        world.commands_at(&process).hash(&mut hasher);
        hasher.finish()
    };
    let mut order: Vec<(u64, usize)> = (0..world.workers.len()).map(|index| (key(index), index)).collect();
    order.sort_unstable();
    if order.iter().zip(0..).all(|((_, index), place)| *index == place) {
        return;
    }
    let renamed: Vec<_> = order
        .iter()
        .zip(0..)
        .map(|((_, index), place)| (slice.process(*index), slice.process(place)))
        .collect();
    let rename = |owner: &mut policy::Owner| {
        if let Some((_, new)) = renamed.iter().find(|(old, _)| old == owner) {
            *owner = new.clone();
        }
    };
    world.leases.turn.iter_mut().for_each(|lease| rename(&mut lease.owner));
    world.leases.commands.values_mut().for_each(|lease| rename(&mut lease.owner));
    let mut tasks = std::mem::take(&mut world.workers);
    world.workers = order.iter().map(|(_, index)| tasks[*index].take()).collect();
}
