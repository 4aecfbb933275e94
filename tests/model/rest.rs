//! What becomes of a state when nobody acts any more, and when the user does the one thing that helps.
//!
//! All workers are gone from here on; a fresh one follows the stored wake-up and nothing else. It answers every row, and
//! blocks a Goal once it went on, so that every such run ends.

use domain::{FailureKind, GoalStatus, InputId, TurnTrigger};
use policy::{Awaited, BudgetEdit, ContinuationView, NextAction, UserCommand, next_action};

use crate::act::{Act, Move, Step};
use crate::bug::Bug;
use crate::commands::Order;
use crate::doing::{By, Doing};
use crate::property::Property;
use crate::slice::Slice;
use crate::state::{is_due_for_goal, may_run};
use crate::world::{At, CallStep, Leave, Say, World, lane};

/// Wake-ups after which a session has to rest: a few turns for rows, three for a Goal that shows no progress, the looks
/// at a file until the deadline of a wait.
const WAKE_UPS: u32 = 60;
/// Steps of one turn: far more than a turn takes that answers at once.
const STEPS: u32 = 40;
/// The worker that is left.
const LAST: usize = 0;

/// What is wrong when a state is left alone or helped, if anything is.
pub(crate) fn stuck(slice: &Slice, world: &World) -> Option<(Property, &'static str)> {
    let mut alone = Rest::of(slice, world);
    alone.until_idle();
    alone
        .found()
        .or_else(|| with_a_prompt(slice, world))
        .or_else(|| with_a_resume(slice, &alone.doing.world))
        .or_else(|| with_an_end(slice, world))
}

/// The user submits a prompt: a turn consumes it and gets an answer.
fn with_a_prompt(slice: &Slice, world: &World) -> Option<(Property, &'static str)> {
    let mut rest = Rest::of(slice, world);
    let submit = crate::commands::submit(policy::Delivery::Queue, false);
    if rest.user(&submit).is_err() {
        return Some((Property::Helped, "a prompt is refused"));
    }
    let rows = rest.doing.world.session.core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
    let row = rows.last().map(|row| row.id);
    rest.until_idle();
    let is_answered = row.is_some_and(|row| rest.answered.contains(&row));
    rest.found().or((!is_answered).then_some((Property::Helped, "a prompt is never answered")))
}

/// In a session that rests, the user leaves Plan mode, raises the budget and resumes: an open Goal goes on.
fn with_a_resume(slice: &Slice, world: &World) -> Option<(Property, &'static str)> {
    let goal = world.session.open_goal()?.clone();
    let mut rest = Rest::of(slice, world);
    let more = BudgetEdit {
        tokens: goal.budgets.tokens.checked_add(1_000_000),
        turns: goal.budgets.turns.checked_add(1_000),
        active_ms: goal.budgets.active_ms.checked_add(1_000_000_000),
    };
    let accept = UserCommand::AcceptGoal { expected_revision: None };
    let start = UserCommand::StartWork { lane: lane(), expected_plan_revision: None, prompt: None };
    let raise = UserCommand::SetBudgets { budgets: more };
    let accept = Some(accept).filter(|_| goal.status == GoalStatus::Proposed);
    for command in accept.into_iter().chain([start, raise, UserCommand::ResumeGoal]) {
        // One that does not apply is refused, and is not needed then.
        rest.user(&command).ok();
    }
    let is_active = rest.doing.world.session.core.goal.as_ref().is_some_and(domain::Goal::is_active);
    rest.until_idle();
    let how = match (is_active, rest.has_continued) {
        (false, _) => "an open Goal cannot be resumed",
        (true, false) => "a Goal that the user resumed does not go on",
        (true, true) => return rest.found(),
    };
    rest.found().or(Some((Property::Helped, how)))
}

/// The user completes or cancels the Goal: it is over, and nothing of it happens any more.
fn with_an_end(slice: &Slice, world: &World) -> Option<(Property, &'static str)> {
    let goal = world.session.open_goal()?;
    let complete = UserCommand::CompleteGoal { summary: None, force: true };
    let ends =
        [Some(UserCommand::CancelGoal), Some(complete).filter(|_| goal.status != GoalStatus::Proposed)];
    ends.into_iter().flatten().find_map(|end| {
        let mut rest = Rest::of(slice, world);
        let is_over = rest.user(&end).is_ok() && rest.doing.world.session.open_goal().is_none();
        rest.until_idle();
        rest.found()
            .or((!is_over).then_some((Property::Helped, "an open Goal cannot be completed or cancelled")))
    })
}

/// A run of one worker by wake-ups.
struct Rest<'a> {
    doing: Doing<'a>,
    is_idle: bool,
    /// The rows that a turn consumed and answered.
    answered: Vec<InputId>,
    has_continued: bool,
}

impl<'a> Rest<'a> {
    fn of(slice: &'a Slice, world: &World) -> Self {
        let mut world = world.clone();
        for index in 0..world.workers.len() {
            if slice.bug == Some(Bug::ProcessRenews) {
                world.workers[index] = None;
            } else {
                world.bury(index, &slice.process(index), false);
            }
        }
        Self { doing: Doing::new(slice, world), is_idle: false, answered: Vec::new(), has_continued: false }
    }

    fn user(&mut self, command: &UserCommand) -> Result<(), policy::Rejection> {
        self.doing.commit(By::User, &Order::User(command.clone()))
    }

    /// Follows the wake-ups until there are none.
    fn until_idle(&mut self) {
        for _ in 0..WAKE_UPS {
            let Some(at) = self.doing.world.wake_at else {
                self.is_idle = true;
                return;
            };
            self.doing.world.now = self.doing.world.now.max(at);
            self.heartbeat();
            self.step();
            if self.doing.world.broken.is_some() {
                return;
            }
        }
    }

    /// Only with a bug: processes that live renew what they own in time.
    fn heartbeat(&mut self) {
        if self.doing.slice.bug != Some(Bug::ProcessRenews) {
            return;
        }
        let now = self.doing.world.now;
        if let Some(lease) =
            self.doing.world.leases.turn.as_mut().filter(|lease| World::is_alive(&lease.owner))
        {
            lease.expires_at = now.plus_ms(policy::LEASE_MS);
            self.doing.world.wake_at = Some(lease.expires_at);
        }
    }

    /// What the product's engine does in a session that is due.
    fn step(&mut self) {
        let world = &self.doing.world;
        let lost = world.leases.commands.iter().find(|(_, lease)| lease.expires_at <= world.now);
        if let Some(command) = lost.map(|(id, _)| *id) {
            self.doing.act(&Act::Worker(LAST, Move::RecoverCommand(command)));
            return;
        }
        match next_action(&ContinuationView::of_lane(&world.session.core, &lane()), world.now) {
            NextAction::WaitFor { what: Awaited::Turn { .. } } => {
                self.doing.recover(LAST, true);
            }
            NextAction::WaitFor { what: Awaited::Condition { .. } } => {
                self.doing.look_at_file(LAST, false);
            }
            NextAction::RunInput { .. } | NextAction::RunGoal { .. } => self.turn(),
            NextAction::WaitFor { what: Awaited::Commands { .. } | Awaited::Jobs { .. } }
            | NextAction::WaitUntil { .. }
            | NextAction::Idle { .. } => {}
        }
    }

    /// A whole turn, answered at once.
    fn turn(&mut self) {
        let process = self.doing.slice.process(LAST);
        let logged = self.doing.log.len();
        if !self.doing.admit(LAST, &process) {
            return;
        }
        let rows = match self.doing.world.running().map(|running| &running.trigger) {
            Some(TurnTrigger::Input { rows }) => rows.clone(),
            Some(TurnTrigger::Goal { .. }) | None => Vec::new(),
        };
        // That it goes on is enough to know: a turn that finds no agent blocks the Goal, and the session rests.
        if rows.is_empty()
            && let Some(task) = &mut self.doing.world.workers[LAST]
        {
            task.at = At::Leaving(Leave::Failed(FailureKind::NoSuchAgent));
        }
        self.has_continued |= self.doing.world.running().is_some_and(|running| running.goal.is_some());
        for _ in 0..STEPS {
            let Some(task) = &self.doing.world.workers[LAST] else { break };
            let next = match &task.at {
                At::Ready => Step::Begin,
                At::Requesting => Step::Respond(Say::Text),
                At::Call { step: CallStep::Running, index, .. } => {
                    if self.doing.world.notes.happened.contains(&task.call(*index)) {
                        Step::Finish(domain::CallOutcome::Succeeded)
                    } else {
                        Step::Happen
                    }
                }
                At::Call { .. } => Step::Call,
                At::Leaving(_) => Step::End,
                At::Stale => Step::WriteLate,
                At::Looked(_) => return,
            };
            self.doing.act(&Act::Worker(LAST, Move::OfTask(next)));
        }
        let logged = self.doing.log.iter().skip(logged);
        if logged.filter(|kind| matches!(**kind, "input_consumed" | "model_responded")).count() >= 2 {
            self.answered.extend(rows);
        }
    }

    /// What is wrong with where it came to rest.
    fn found(&self) -> Option<(Property, &'static str)> {
        let world = &self.doing.world;
        if let Some(broken) = world.broken {
            return Some((broken.property, broken.how));
        }
        let core = &world.session.core;
        let rows = core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
        let how = if !self.is_idle {
            "left alone, the session never comes to rest"
        } else if world.running().is_some() {
            "left alone, a turn never ends"
        } else if !core.inbox_held && rows.iter().any(|row| row.taken.is_none() && may_run(core, row)) {
            "left alone, a queued row never runs"
        } else if is_due_for_goal(core, world.now) {
            "left alone, a Goal that is due is never continued"
        } else if !core.commands.is_empty() {
            "left alone, a background command never ends"
        } else {
            return None;
        };
        Some((Property::Continued, how))
    }
}
