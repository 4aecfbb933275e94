//! One step: what an act does to a state.

use domain::{Condition, TurnNumber, TurnPhase};
use policy::{BudgetEdit, CriteriaEdit, Delivery, Owner, Rejection, RuntimeCommand, UserCommand};

use crate::act::{Act, Move, UserAct, next_moment};
use crate::bug::Bug;
use crate::commands::{self, Order, say_of};
use crate::property::Property;
use crate::slice::Slice;
use crate::world::{At, Broken, CallStep, Task, World, lane};

/// A state in the middle of a step.
pub(crate) struct Doing<'a> {
    pub(crate) slice: &'a Slice,
    pub(crate) world: World,
    /// The kinds of the events that the step caused.
    pub(crate) log: Vec<&'static str>,
}

/// Who gives an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    User,
    Worker(usize),
}

impl<'a> Doing<'a> {
    pub(crate) const fn new(slice: &'a Slice, world: World) -> Self {
        Self { slice, world, log: Vec::new() }
    }

    /// Does it; `false` if it was refused and nothing changed.
    pub(crate) fn act(&mut self, act: &Act) -> bool {
        match act {
            Act::User(act) => {
                self.world.acts_left = self.world.acts_left.map(|left| left.saturating_sub(1));
                self.user(*act).is_ok()
            }
            Act::Worker(index, what) => self.worker(*index, *what),
            Act::Pass => {
                let Some(at) = next_moment(&self.world) else { return false };
                self.world.now = at;
                // Nothing is stored, but what is due may be another thing.
                self.check_state();
                true
            }
        }
    }

    /// Notes that a property is broken, unless one is already.
    pub(crate) fn breaks(&mut self, property: Property, how: &'static str) {
        self.world.broken.get_or_insert(Broken { property, how });
    }

    pub(crate) fn user(&mut self, act: UserAct) -> Result<(), Rejection> {
        if self.slice.bug == Some(Bug::InterruptsInTheClient) && act == UserAct::Interrupt {
            self.world.notes.hush = true;
            return Ok(());
        }
        let Some(command) = self.command_of(act) else { return Ok(()) };
        self.commit(By::User, &Order::User(command))
    }

    fn command_of(&self, act: UserAct) -> Option<UserCommand> {
        let world = &self.world;
        let budgets = self.slice.budgets;
        Some(match act {
            UserAct::Submit => commands::submit(Delivery::Queue, false),
            UserAct::SubmitAndResume => commands::submit(Delivery::Queue, true),
            UserAct::Steer => commands::submit(Delivery::Steer, false),
            UserAct::SetGoal => commands::set_goal(world, budgets, false),
            UserAct::ReplaceGoal => commands::set_goal(world, budgets, true),
            UserAct::EditGoal => {
                let has_criteria =
                    world.session.core.goal.as_ref().is_some_and(|goal| goal.criteria.is_some());
                let criteria = CriteriaEdit::Set(testkit::objective("It is there"));
                let criteria = if has_criteria { CriteriaEdit::Remove } else { criteria };
                UserCommand::EditGoal { objective: None, criteria, expected_revision: None }
            }
            UserAct::Raise => UserCommand::SetBudgets { budgets: self.slice.raised },
            UserAct::Lower => {
                let (tokens, turns) = (Some(budgets.tokens), Some(budgets.turns));
                let active_ms = Some(budgets.active_ms);
                UserCommand::SetBudgets { budgets: BudgetEdit { tokens, turns, active_ms } }
            }
            UserAct::Pause => UserCommand::PauseGoal,
            UserAct::Resume => UserCommand::ResumeGoal,
            UserAct::Cancel => UserCommand::CancelGoal,
            UserAct::Complete => UserCommand::CompleteGoal { summary: None, force: false },
            UserAct::ForceComplete => UserCommand::CompleteGoal { summary: None, force: true },
            UserAct::Accept => UserCommand::AcceptGoal { expected_revision: None },
            UserAct::Decline => UserCommand::DeclineGoal,
            UserAct::Interrupt => UserCommand::Interrupt,
            UserAct::EnterPlan => UserCommand::EnterPlan,
            UserAct::StartWork => start_work(false),
            UserAct::StartWorkWithPrompt => start_work(true),
            UserAct::Allow => self.answer(domain::Answer::Allow)?,
            UserAct::Deny => self.answer(domain::Answer::Deny { reason: None })?,
            UserAct::AnswerInWords => self.answer(domain::Answer::Text { text: commands::text("this") })?,
            UserAct::AnswerAgain => {
                let answer = domain::Answer::Deny { reason: None };
                UserCommand::AnswerRequest { request: world.notes.settled?, answer }
            }
            UserAct::StopCommand => {
                UserCommand::StopCommand { command: world.session.core.commands.first()?.id }
            }
            UserAct::UpdatePlan => {
                UserCommand::UpdatePlan { lane: lane(), update: commands::plan_update(world) }
            }
            UserAct::ClosePlan => {
                let reason = commands::remark();
                UserCommand::ClosePlan { lane: lane(), expected_revision: None, reason }
            }
        })
    }

    fn answer(&self, answer: domain::Answer) -> Option<UserCommand> {
        let request = self.world.session.core.requests.last()?.id;
        Some(UserCommand::AnswerRequest { request, answer })
    }

    fn worker(&mut self, index: usize, what: Move) -> bool {
        let process = self.slice.process(index);
        match what {
            Move::Admit => self.admit(index, &process),
            Move::Look => {
                let looked = At::Looked(Box::new((*self.world.session).clone()));
                let (turn, until) = (TurnNumber(0), self.world.now);
                self.world.workers[index] = Some(Task { turn, request: 0, until, at: looked });
                true
            }
            Move::Crash { is_seen } => {
                self.world.bury(index, &process, is_seen);
                true
            }
            Move::LoseTask => {
                self.world.workers[index] = None;
                true
            }
            Move::Recover { can_look } => self.recover(index, can_look),
            Move::LookAtFile { is_changed } => self.look_at_file(index, is_changed),
            Move::EndCommand(command, outcome) => {
                let result = "ended".to_owned();
                let order = RuntimeCommand::EndCommand { command, outcome, result, full_output: None };
                self.runtime(index, order).is_ok()
            }
            Move::RenewCommand(command) => {
                self.runtime(index, RuntimeCommand::RenewCommand { command, owner: process }).is_ok()
            }
            Move::RecoverCommand(command) => {
                let dead = self.world.leases.commands.get(&command).map(|lease| lease.owner.clone());
                let dead = dead.filter(World::seen_dead);
                self.runtime(index, RuntimeCommand::RecoverCommand { command, dead }).is_ok()
            }
            Move::Heartbeat => {
                let Some(turn) = self.world.running().map(|running| running.number) else { return false };
                self.runtime(index, RuntimeCommand::RenewLease { turn, owner: process }).is_ok()
            }
            Move::Repeat => {
                self.breaks(Property::EffectOnce, "the effect of an uncertain call happened again");
                true
            }
            Move::OfTask(what) => match self.world.workers[index].take() {
                Some(task) => self.task(index, task, what, &process),
                None => false,
            },
        }
    }

    pub(crate) fn runtime(&mut self, index: usize, command: RuntimeCommand) -> Result<(), Rejection> {
        self.commit(By::Worker(index), &Order::Runtime(command))
    }

    pub(crate) fn admit(&mut self, index: usize, process: &Owner) -> bool {
        if let Some(bug) = self.slice.bug {
            bug.admits_otherwise(self, index);
        }
        let order = commands::admit(process, self.slice.max_requests);
        let admitted = self.runtime(index, order).is_ok();
        let had_looked = self.world.workers[index].take().is_some();
        if !admitted {
            return had_looked;
        }
        let Some(running) = self.world.running() else { return true };
        // A call that the user allowed runs before the model is asked.
        let allowed = match &running.phase {
            TurnPhase::Calling { .. } => running.open_calls().first().map(|open| say_of(open.tool)),
            TurnPhase::Ready
            | TurnPhase::Requesting { .. }
            | TurnPhase::Failed { .. }
            | TurnPhase::Answered => None,
        };
        let at = match allowed {
            Some(say) => At::Call { say, index: 0, then: None, step: CallStep::Asked },
            None => At::Ready,
        };
        let until = self.world.now.plus_ms(policy::LEASE_MS);
        self.world.workers[index] = Some(Task { turn: running.number, request: 0, until, at });
        true
    }

    pub(crate) fn recover(&mut self, index: usize, can_look: bool) -> bool {
        let Some(turn) = self.world.running().map(|running| running.number) else { return false };
        let lease = self.world.leases.turn.as_ref();
        let is_silent = lease.is_some_and(|lease| lease.expires_at <= self.world.now);
        let sees_death = lease.is_some_and(|lease| World::seen_dead(&lease.owner))
            || self.slice.bug == Some(Bug::RecoversTheLiving)
            || self.slice.bug == Some(Bug::BuriesTheSilent) && is_silent;
        let order = commands::recover(&self.world, turn, can_look, sees_death);
        self.runtime(index, order).is_ok()
    }

    pub(crate) fn look_at_file(&mut self, index: usize, is_changed: bool) -> bool {
        let goal = self.world.session.core.goal.as_ref();
        let Some((goal_id, wait)) = goal.and_then(|goal| Some((goal.id, goal.wait.as_ref()?))) else {
            return false;
        };
        let Condition::File { baseline, .. } = &wait.condition else { return false };
        let found = if is_changed { Some(commands::AFTER) } else { *baseline };
        self.runtime(index, RuntimeCommand::LookAtFile { goal_id, found }).is_ok()
    }
}

fn start_work(with_prompt: bool) -> UserCommand {
    let prompt = with_prompt.then(|| commands::text("go"));
    UserCommand::StartWork { lane: lane(), expected_plan_revision: None, prompt }
}
