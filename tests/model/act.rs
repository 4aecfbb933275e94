//! Everything that may happen next in a state.

use domain::{
    CallOutcome, CommandId, Core, Effect, FailureKind, GoalStatus, InputKind, Mode, PauseReason, RunningTurn,
    Timestamp, TurnPhase,
};
use policy::{ContinuationView, NextAction, next_action};

use crate::bug::Bug;
use crate::slice::Slice;
use crate::world::{At, CallStep, Leave, Say, Task, World, lane};

/// One step of the model: a transaction, an effect, a death, or time. Between two of them everything else may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    User(UserAct),
    Worker(usize, Move),
    /// Time passes until the next moment at which something that is stored changes its meaning.
    Pass,
}

/// What the user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserAct {
    Submit,
    SubmitAndResume,
    Steer,
    SetGoal,
    ReplaceGoal,
    EditGoal,
    /// Gives the Goal more to spend.
    Raise,
    /// Gives it what the slice begins with.
    Lower,
    Pause,
    Resume,
    Cancel,
    Complete,
    ForceComplete,
    Accept,
    Decline,
    Interrupt,
    EnterPlan,
    StartWork,
    StartWorkWithPrompt,
    Allow,
    Deny,
    AnswerInWords,
    /// Answers a request that is settled, as a client would that has not heard of it.
    AnswerAgain,
    StopCommand,
    UpdatePlan,
    ClosePlan,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Admit,
    /// The task that drives a turn does something.
    OfTask(Step),
    /// The process dies; others on its machine may be able to see it.
    Crash {
        is_seen: bool,
    },
    /// The turn's task dies, the process lives on.
    LoseTask,
    /// Ends the turn of somebody whose lease ended or who is dead.
    Recover {
        can_look: bool,
    },
    LookAtFile {
        is_changed: bool,
    },
    EndCommand(CommandId, CallOutcome),
    RenewCommand(CommandId),
    RecoverCommand(CommandId),
    /// Only with a bug: looks at what is due, and admits it later.
    Look,
    /// Only with a bug: the process renews the lease of a turn that none of its tasks drives.
    Heartbeat,
    /// Only with a bug: does again what recovery could not settle.
    Repeat,
}

/// What the task of a turn does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin,
    Respond(Say),
    /// The request fails; in place, it is tried again within the turn.
    Fail {
        kind: FailureKind,
        in_place: bool,
    },
    /// The turn fails before its first request: its agent does not exist.
    FailAtOnce,
    /// It sees that the turn is to stop.
    Notice,
    /// The next transaction of the call at hand.
    Call,
    /// The effect of the admitted call happens.
    Happen,
    Finish(CallOutcome),
    End,
    ShutDown,
    Renew,
    /// The response is recorded again, because nobody heard that it was.
    RespondAgain,
    /// A task whose turn is over tries to write, and learns of it.
    WriteLate,
}

/// Collects what may happen next.
pub(crate) fn enabled(slice: &Slice, world: &World, acts: &mut Vec<Act>) {
    if world.broken.is_some() {
        return;
    }
    if world.acts_left != Some(0) {
        let user = slice.user.iter().filter(|act| makes_sense(slice, world, **act));
        acts.extend(user.map(|act| Act::User(*act)));
    }
    for (index, task) in world.workers.iter().enumerate() {
        let mut moves = Vec::new();
        match task {
            Some(task) => of_task(slice, world, task, &mut moves),
            None => of_idle(slice, world, &mut moves),
        }
        of_process(slice, world, index, &mut moves);
        acts.extend(moves.into_iter().map(|one| Act::Worker(index, one)));
    }
    if slice.time && next_moment(world).is_some() {
        acts.push(Act::Pass);
    }
}

/// Leaves out acts that would only be refused, and keeps queues short.
fn makes_sense(slice: &Slice, world: &World, act: UserAct) -> bool {
    let core = &world.session.core;
    let goal = core.goal.as_ref().filter(|goal| goal.is_open());
    let has_room = rows(core, InputKind::is_of_person) < slice.rows;
    match act {
        UserAct::Submit | UserAct::Steer | UserAct::StartWorkWithPrompt => has_room,
        UserAct::SubmitAndResume => has_room && goal.is_some(),
        UserAct::SetGoal => goal.is_none_or(|goal| goal.status == GoalStatus::Proposed),
        UserAct::ReplaceGoal
        | UserAct::EditGoal
        | UserAct::Raise
        | UserAct::Lower
        | UserAct::Pause
        | UserAct::Resume
        | UserAct::Cancel
        | UserAct::Complete
        | UserAct::ForceComplete
        | UserAct::Accept
        | UserAct::Decline => goal.is_some(),
        UserAct::Allow | UserAct::Deny | UserAct::AnswerInWords => !core.requests.is_empty(),
        UserAct::AnswerAgain => world.notes.settled.is_some(),
        UserAct::StopCommand => !core.commands.is_empty(),
        UserAct::EnterPlan => core.mode == Mode::Work,
        UserAct::StartWork => core.mode == Mode::Plan,
        UserAct::Interrupt | UserAct::UpdatePlan | UserAct::ClosePlan => true,
    }
}

fn rows(core: &Core, is_meant: impl Fn(InputKind) -> bool) -> usize {
    let rows = core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
    rows.iter().filter(|row| is_meant(row.kind)).count()
}

fn of_task(slice: &Slice, world: &World, task: &Task, moves: &mut Vec<Move>) {
    let mut steps = Vec::new();
    let is_to_stop = world.is_to_stop(task.turn);
    match &task.at {
        At::Looked(_) => {
            moves.push(Move::Admit);
            return;
        }
        At::Stale => {
            moves.push(Move::OfTask(Step::WriteLate));
            return;
        }
        At::Ready => {
            steps.extend(Some(Step::Begin).filter(|_| retry_at(world).is_none_or(|at| at <= world.now)));
            steps.extend(Some(Step::Notice).filter(|_| is_to_stop));
            steps.extend(Some(Step::FailAtOnce).filter(|_| slice.fails_at_once && task.request == 0));
            steps.extend(Some(Step::ShutDown).filter(|_| slice.shuts_down));
        }
        At::Requesting => {
            let says = slice.says.iter().filter(|say| has_room_for(slice, world, **say));
            steps.extend(says.map(|say| Step::Respond(*say)));
            let at_the_end = slice.fails.iter().map(|kind| Step::Fail { kind: *kind, in_place: false });
            steps.extend(at_the_end);
            let in_place = slice.fails.iter().filter(|_| slice.in_place);
            steps.extend(in_place.map(|kind| Step::Fail { kind: *kind, in_place: true }));
            steps.extend(Some(Step::Notice).filter(|_| is_to_stop));
        }
        At::Call { say, index, step: CallStep::Running, .. } => {
            of_running_call(*say, world.notes.happened.contains(&task.call(*index)), is_to_stop, &mut steps);
        }
        At::Call { .. } => steps.push(Step::Call),
        At::Leaving(_) => steps.push(Step::End),
    }
    let has_responded =
        matches!(task.at, At::Call { step: CallStep::Asked, .. } | At::Leaving(Leave::Completed));
    steps.extend(Some(Step::RespondAgain).filter(|_| slice.answers_twice && has_responded));
    steps.extend(Some(Step::Renew).filter(|_| slice.renews));
    moves.extend(steps.into_iter().map(Move::OfTask));
    moves.extend(Some(Move::LoseTask).filter(|_| slice.loses_tasks));
}

/// An effect happens before its result is known. A call that is told to stop may have got so far, and may not tell.
fn of_running_call(say: Say, has_happened: bool, is_to_stop: bool, steps: &mut Vec<Step>) {
    if !has_happened {
        steps.push(Step::Happen);
    }
    if has_happened || say == Say::Read {
        steps.push(Step::Finish(CallOutcome::Succeeded));
    }
    if is_to_stop && say != Say::Read {
        steps.push(Step::Finish(CallOutcome::Uncertain));
        steps.extend(Some(Step::Finish(CallOutcome::Stopped)).filter(|_| !has_happened));
    }
}

/// Keeps the number of questions and commands small.
fn has_room_for(slice: &Slice, world: &World, say: Say) -> bool {
    let core = &world.session.core;
    match say {
        Say::Ask | Say::AskAndWrite | Say::Guarded => {
            core.requests.len() + rows(core, |kind| kind == InputKind::Answer) < slice.questions
        }
        Say::Background | Say::LooseBackground => {
            core.commands.len() + rows(core, |kind| kind == InputKind::Report) < slice.commands
        }
        Say::WaitCommand | Say::StopBackground => !core.commands.is_empty(),
        _ => true,
    }
}

fn of_idle(slice: &Slice, world: &World, moves: &mut Vec<Move>) {
    let core = &world.session.core;
    let next = next_action(&ContinuationView::of_lane(core, &lane()), world.now);
    // A bug may find something due where nothing is, and somebody dead who is not.
    if slice.bug.is_some() || matches!(next, NextAction::RunInput { .. } | NextAction::RunGoal { .. }) {
        let looks = slice.bug.is_some_and(Bug::admits_in_two_steps);
        moves.push(if looks { Move::Look } else { Move::Admit });
    }
    let lease = world.leases.turn.as_ref();
    let is_lost = lease.is_none_or(|lease| lease.expires_at <= world.now || World::seen_dead(&lease.owner));
    if world.running().is_some() && (is_lost || slice.bug.is_some()) {
        moves.push(Move::Recover { can_look: true });
        if slice.blind_recovery && has_open_write(world.running()) {
            moves.push(Move::Recover { can_look: false });
        }
    }
    let active = core.goal.as_ref().filter(|goal| goal.is_active());
    let wait = active.and_then(|goal| goal.wait.as_ref()).filter(|wait| !wait.is_met);
    let is_due = world.leases.next_look.is_none_or(|at| at <= world.now);
    if is_due && wait.is_some_and(|wait| wait.condition.name() == "file") {
        moves.extend([false, true].map(|is_changed| Move::LookAtFile { is_changed }));
    }
    let commands = world.leases.commands.iter();
    let lost = commands.filter(|(_, lease)| lease.expires_at <= world.now || World::seen_dead(&lease.owner));
    moves.extend(lost.map(|(id, _)| Move::RecoverCommand(*id)));
    if slice.bug == Some(Bug::ReplaysUncertain) && is_uncertain(core) {
        moves.push(Move::Repeat);
    }
}

/// What a process does whether or not a task of it drives a turn.
fn of_process(slice: &Slice, world: &World, index: usize, moves: &mut Vec<Move>) {
    let process = slice.process(index);
    let commands = world.commands_at(&process);
    for id in &commands {
        let is_stopping = world.session.core.command(*id).is_some_and(|command| command.is_stopping);
        moves.push(Move::EndCommand(*id, CallOutcome::Succeeded));
        moves.extend(Some(Move::EndCommand(*id, CallOutcome::Stopped)).filter(|_| is_stopping));
        moves.extend(Some(Move::RenewCommand(*id)).filter(|_| slice.renews));
    }
    if world.workers[index].is_some() || !commands.is_empty() {
        moves.extend(slice.crashes.iter().map(|is_seen| Move::Crash { is_seen: *is_seen }));
    }
    let owns_turn = world.leases.turn.as_ref().is_some_and(|lease| lease.owner == process);
    if slice.bug == Some(Bug::ProcessRenews) && owns_turn && world.workers[index].is_none() {
        moves.push(Move::Heartbeat);
    }
}

fn is_uncertain(core: &Core) -> bool {
    let status = core.goal.as_ref().map(|goal| &goal.status);
    let is_told = matches!(status, Some(GoalStatus::Paused(PauseReason::UncertainSideEffect { .. })));
    is_told || core.uncertain_call.is_some()
}

fn has_open_write(running: Option<&RunningTurn>) -> bool {
    let open = running.map(RunningTurn::open_calls).unwrap_or_default();
    open.iter().any(|open| matches!(open.effect, Some(Effect::FileWrite { .. })))
}

/// When the running turn tries its request again.
fn retry_at(world: &World) -> Option<Timestamp> {
    match world.running()?.phase {
        TurnPhase::Failed { retry_at, .. } => retry_at,
        TurnPhase::Ready | TurnPhase::Requesting { .. } | TurnPhase::Calling { .. } | TurnPhase::Answered => {
            None
        }
    }
}

/// The next moment that is stored, or that a task remembers.
pub(crate) fn next_moment(world: &World) -> Option<Timestamp> {
    let goal = world.session.core.goal.as_ref().filter(|goal| goal.is_open());
    let retry = goal.and_then(|goal| goal.retry).map(|retry| retry.at);
    let deadline = goal.and_then(|goal| goal.wait.as_ref()).map(|wait| wait.deadline);
    let lease = world.leases.turn.as_ref().map(|lease| lease.expires_at);
    let one_each = [retry, deadline, lease, world.leases.next_look, retry_at(world)];
    let of_commands = world.leases.commands.values().map(|lease| lease.expires_at);
    let of_tasks = world.workers.iter().flatten().map(|task| task.until);
    let all = one_each.into_iter().flatten().chain(of_commands).chain(of_tasks);
    all.filter(|at| *at > world.now).min()
}
