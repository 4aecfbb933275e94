//! Deliberate bugs: what a store or a worker would do that was built wrong around the product's rules.
//!
//! Each shows `decide` something else than what is stored, sends another command than it should, or stores something
//! else than what was decided. `policy` itself is the product's, and knows nothing of this.

use std::borrow::Cow;

use domain::{
    Asked, Core, EventBody, GoalBinding, GoalStatus, GoalUsage, HumanRequest, InboxRow, InputCancelReason,
    InputKind, Mode, PauseReason, RequestEnd, RunningTurn, SessionState, StopReason, Timestamp, TurnOutcome,
    TurnPhase, TurnTrigger,
};
use policy::{AgentCommand, Facts, Leases, Rejection, RuntimeCommand, UserCommand, wake_at};

use crate::commands::{self, Order};
use crate::doing::{By, Doing};
use crate::ledger::{Entry, decided};
use crate::world::{At, World, lane};

/// A bug. What each breaks stands in [`mutants`](crate::mutants).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bug {
    NoLeaseAtBoundary,
    AdmitsPastExpiry,
    NoRunningTurnCheck,
    AdmitsWhatItSaw,
    KeepsWakeUp(&'static str),
    NoWakeUpWhileRunning,
    ProcessRenews,
    WeakerPauseOverwrites,
    EnterPlanOverwrites,
    AnswerAfterTheEnd,
    SecondAnswerActs,
    ReplaysUncertain,
    ForgetsUncertain,
    ModeReadAtTurnStart,
    PlanModeKeepsGoal,
    IgnoresGoalAtBoundary,
    ResumeResetsBudget,
    ResumeIgnoresBudget,
    ChargeIgnoresBudget,
    ChargesAgain,
    NoFence,
    FenceByOwner,
    StaleTurnCompletes,
    StartWorkLiftsAny,
    InterruptsInTheClient,
    InterruptNeedsATurn,
    LeavesSteers,
    HeadDecides,
    EndKeepsRetry,
    EndKeepsWait,
    EndKeepsCommands,
    EndKeepsRows,
    EndKeepsQuestions,
    NumbersAtTheEnd,
    RecoversTheLiving,
    BuriesTheSilent,
    ReportsStartTurns,
    LateAnswersStartTurns,
    GivesBackAfterFailure,
    GivesBackForEver,
    LosesRows,
    PlanStartsTurns,
    PlanKeepsGoal,
    HoldsForEver,
    AllowedRunsTwice,
    StartsDuringWait,
    KeepsConsumedWait,
    CompletesOverOpenWork,
    ForgetsStreaks,
    GoalBeforeRows,
    KeepsLease,
}

impl Bug {
    /// Whether a turn is admitted in another transaction than the one that found it due.
    pub(crate) fn admits_in_two_steps(self) -> bool {
        self == Self::AdmitsWhatItSaw
    }

    /// Commits as the bug has it.
    pub(crate) fn commit(
        self,
        doing: &Doing<'_>,
        by: By,
        order: &Order,
        facts: Facts,
    ) -> Result<Entry, Rejection> {
        let stored = &doing.world.session;
        let order = self.sent(doing, by, order);
        let mut shown = Shown { state: Cow::Borrowed(stored), facts };
        self.show(doing, by, &order, &mut shown);
        let mut entry = decided(&shown.state, &order, &shown.facts, doing)?;
        if let Cow::Owned(_) = shown.state {
            if entry.leases.turn == shown.facts.leases.turn {
                entry.leases.turn.clone_from(&doing.world.leases.turn);
            }
            entry.refold(stored, doing.world.now);
        }
        self.store(doing, &order, &mut entry);
        Ok(entry)
    }

    /// The order as it is sent.
    fn sent<'a>(self, doing: &Doing<'_>, by: By, order: &'a Order) -> Cow<'a, Order> {
        let world = &doing.world;
        let By::Worker(index) = by else { return Cow::Borrowed(order) };
        let Some(running) = world.running() else { return Cow::Borrowed(order) };
        let is_late = order.turn().is_some_and(|turn| turn != running.number);
        let owns = world.leases.turn.as_ref().is_some_and(|lease| lease.owner == doing.slice.process(index));
        match self {
            Self::NoFence if is_late => Cow::Owned(order.for_turn(running.number)),
            Self::FenceByOwner if is_late && owns => Cow::Owned(order.for_turn(running.number)),
            _ => Cow::Borrowed(order),
        }
    }

    /// What `decide` is shown.
    fn show(self, doing: &Doing<'_>, by: By, order: &Order, shown: &mut Shown<'_>) {
        match order {
            Order::Runtime(RuntimeCommand::AdmitTurn { .. }) => self.show_at_admission(doing, by, shown),
            Order::Agent(AgentCommand::AdmitCall { .. }) if self == Self::ModeReadAtTurnStart => {
                shown.state.to_mut().core.mode = Mode::Work;
                shown.running(|running| running.stop = None);
            }
            Order::Runtime(RuntimeCommand::BeginRequest { .. })
            | Order::Agent(AgentCommand::AdmitCall { .. }) => {
                self.show_at_boundary(shown);
            }
            Order::Agent(AgentCommand::CompleteGoal { .. }) if self == Self::StaleTurnCompletes => {
                let goal = doing.world.session.core.goal.as_ref();
                let binding = goal.map(|goal| GoalBinding { goal_id: goal.id, revision: goal.revision });
                shown.running(|running| {
                    running.stop = None;
                    running.goal = binding;
                });
            }
            Order::Runtime(RuntimeCommand::RecordResponse { .. }) if self == Self::ChargesAgain => {
                let charged_to =
                    doing.world.running().and_then(|running| running.goal).map(|bound| bound.goal_id);
                shown.running(|running| {
                    running.phase = TurnPhase::Requesting { attempt: 1, estimated_input: 1, charged_to };
                });
            }
            Order::Runtime(RuntimeCommand::Ask { .. }) if self == Self::WeakerPauseOverwrites => {
                shown.as_active();
            }
            Order::User(command) => self.show_to_user(doing, command, shown),
            Order::Agent(_) | Order::Runtime(_) => {}
        }
    }

    fn show_at_admission(self, doing: &Doing<'_>, by: By, shown: &mut Shown<'_>) {
        let lease_holds =
            doing.world.leases.turn.as_ref().is_some_and(|lease| lease.expires_at > doing.world.now);
        match self {
            Self::NoRunningTurnCheck => shown.without_turn(),
            Self::AdmitsPastExpiry if !lease_holds => shown.without_turn(),
            Self::AdmitsWhatItSaw => {
                if let By::Worker(index) = by
                    && let Some(At::Looked(seen)) = doing.world.workers[index].as_ref().map(|task| &task.at)
                {
                    shown.state = Cow::Owned((**seen).clone());
                }
            }
            Self::StartsDuringWait => shown.goal(|goal| goal.wait = None),
            _ => {
                if let Some(core) = self.seen_by_scheduler(&doing.world.session.core) {
                    shown.state.to_mut().core = core;
                }
            }
        }
    }

    /// The part of the state that the scheduler sees, if it is not all of it.
    fn seen_by_scheduler(self, core: &Core) -> Option<Core> {
        let active = core.goal.as_ref().filter(|goal| goal.is_active()).map(|goal| goal.id);
        let mut seen = core.clone();
        let rows = &mut seen.lanes.get_mut(&lane())?.inbox;
        match self {
            Self::LeavesSteers => rows.retain(|row| row.kind != InputKind::Steer),
            Self::HeadDecides => {
                let head = rows.iter().position(|row| row.taken.is_none());
                rows.truncate(head.map_or(0, |head| head + 1));
            }
            Self::GoalBeforeRows => {
                if active.is_some() {
                    rows.clear();
                }
            }
            Self::ReportsStartTurns | Self::LateAnswersStartTurns => {
                let kind =
                    if self == Self::ReportsStartTurns { InputKind::Report } else { InputKind::Answer };
                let late =
                    |row: &&mut InboxRow| row.kind == kind && (active.is_none() || row.goal_id != active);
                rows.iter_mut().filter(late).for_each(|row| {
                    row.kind = InputKind::User;
                    row.goal_id = None;
                });
            }
            _ => return None,
        }
        Some(seen)
    }

    fn show_at_boundary(self, shown: &mut Shown<'_>) {
        match self {
            Self::NoLeaseAtBoundary => {
                if let Some(lease) = &mut shown.facts.leases.turn {
                    lease.expires_at = Timestamp(i64::MAX);
                }
                shown.state.to_mut();
            }
            Self::IgnoresGoalAtBoundary => {
                let others = |stop: &StopReason| *stop != StopReason::GoalChanged;
                shown.running(|running| running.stop = running.stop.filter(others));
            }
            _ => {}
        }
    }

    fn show_to_user(self, doing: &Doing<'_>, command: &UserCommand, shown: &mut Shown<'_>) {
        let core = &doing.world.session.core;
        match (self, command) {
            (Self::ResumeResetsBudget | Self::ResumeIgnoresBudget, UserCommand::ResumeGoal) => {
                shown.goal(|goal| goal.usage = GoalUsage::default());
            }
            (Self::EnterPlanOverwrites, UserCommand::EnterPlan) => shown.as_active(),
            (Self::CompletesOverOpenWork, UserCommand::CompleteGoal { .. }) => {
                shown.state.to_mut().core.commands.clear();
            }
            (Self::StartWorkLiftsAny, UserCommand::StartWork { .. }) => shown.goal(|goal| {
                if matches!(goal.status, GoalStatus::Paused(_)) {
                    goal.status = GoalStatus::Paused(PauseReason::PlanMode);
                }
            }),
            (
                Self::AnswerAfterTheEnd | Self::SecondAnswerActs,
                UserCommand::AnswerRequest { request, .. },
            ) if core.request(*request).is_none() => {
                let is_over = core.goal.as_ref().is_some_and(|goal| !goal.is_open());
                if (self == Self::AnswerAfterTheEnd) != is_over {
                    return;
                }
                let question = domain::Question::parse("which?").unwrap();
                let again = HumanRequest {
                    id: *request,
                    lane: lane(),
                    turn: core.last_turn,
                    goal_id: core.goal.as_ref().map(|goal| goal.id),
                    at: doing.world.now,
                    asked: Asked::Input { question, options: Vec::new() },
                };
                shown.state.to_mut().core.requests.push(again);
                if is_over {
                    let held = GoalStatus::Paused(PauseReason::HumanInput { request: *request });
                    shown.goal(|goal| goal.status = held);
                }
            }
            _ => {}
        }
    }

    /// What is stored of a decision.
    fn store(self, doing: &Doing<'_>, order: &Order, entry: &mut Entry) {
        let world = &doing.world;
        let before = entry.events.len();
        self.store_other_events(world, order, entry);
        if entry.events.len() != before || self.replaces_events() {
            entry.refold(&world.session, world.now);
        }
        self.store_other_state(world, order, entry);
        let loses = matches!(self, Self::LeavesSteers | Self::HeadDecides);
        let scheduled = self.seen_by_scheduler(&entry.state.core).filter(|_| loses);
        entry.wake_at = match self {
            Self::KeepsWakeUp(kind) if kind == order.kind() => world.wake_at,
            Self::NoWakeUpWhileRunning => {
                entry.wake_at.filter(|_| entry.state.core.running_turns().next().is_none())
            }
            _ => wake_at(scheduled.as_ref().unwrap_or(&entry.state.core), &entry.leases, world.now),
        };
    }

    const fn replaces_events(self) -> bool {
        matches!(self, Self::GivesBackAfterFailure | Self::GivesBackForEver)
    }

    fn store_other_events(self, world: &World, order: &Order, entry: &mut Entry) {
        let is_left_out = |body: &EventBody| match self {
            Self::EndKeepsRetry => matches!(body, EventBody::RetryCleared { .. }),
            Self::EndKeepsCommands => matches!(body, EventBody::CommandStopRequested { .. }),
            Self::EndKeepsRows => {
                matches!(body, EventBody::InputCancelled { reason: InputCancelReason::GoalEnded, .. })
            }
            Self::EndKeepsQuestions => {
                matches!(body, EventBody::RequestSettled { end: RequestEnd::Cancelled, .. })
            }
            Self::PlanModeKeepsGoal => {
                matches!(body, EventBody::GoalMoved { to: GoalStatus::Paused(PauseReason::PlanMode), .. })
            }
            Self::ChargeIgnoresBudget => {
                matches!(body, EventBody::GoalMoved { to: GoalStatus::BudgetLimited, .. })
            }
            Self::LosesRows => matches!(body, EventBody::InputReturned { .. }),
            Self::HoldsForEver => matches!(body, EventBody::InboxReleased),
            Self::PlanKeepsGoal => {
                let plan = world.session.current_plan(&lane());
                plan.is_some_and(|plan| plan.unfinished() > 0)
                    && matches!(body, EventBody::GoalMoved { to: GoalStatus::Completed, .. })
            }
            Self::InterruptNeedsATurn => {
                matches!(order, Order::User(UserCommand::Interrupt)) && world.running().is_none()
            }
            _ => false,
        };
        entry.events.retain(|event| !is_left_out(&event.body));
        for event in &mut entry.events {
            let given_back = match (self, &event.body) {
                (
                    Self::GivesBackAfterFailure,
                    EventBody::InputCancelled { row, reason: InputCancelReason::TurnFailed },
                )
                | (
                    Self::GivesBackForEver,
                    EventBody::InputCancelled { row, reason: InputCancelReason::ReturnedTooOften },
                ) => *row,
                _ => continue,
            };
            event.body = EventBody::InputReturned { row: given_back };
        }
        if self == Self::FenceByOwner
            && matches!(order, Order::User(UserCommand::Interrupt))
            && let Some(turn) = world.running().map(|running| running.number)
            && let Some(last) = entry.events.last().cloned()
        {
            // The client ends the turn itself instead of waiting for its worker.
            let rows = world.running().map(|running| running.unconsumed_rows().to_vec()).unwrap_or_default();
            let reason = InputCancelReason::Interrupted;
            let cancelled = rows.into_iter().map(|row| EventBody::InputCancelled { row, reason });
            let ended = EventBody::TurnEnded { turn, outcome: TurnOutcome::Interrupted };
            let more = cancelled.chain([ended]).map(|body| domain::Event { body, ..last.clone() });
            entry.events.extend(more);
        }
    }

    fn store_other_state(self, world: &World, order: &Order, entry: &mut Entry) {
        let before = &world.session.core;
        let core = &mut entry.state.core;
        let ended = entry.events.iter().any(|event| matches!(event.body, EventBody::TurnEnded { .. }));
        let started = entry.events.iter().any(|event| {
            matches!(event.body, EventBody::TurnStarted { trigger: TurnTrigger::Goal { .. }, .. })
        });
        match self {
            Self::LeavesSteers => {
                let steers: Vec<_> =
                    rows(before).filter(|row| row.kind == InputKind::Steer).map(|row| row.id).collect();
                let left = core.lanes.values_mut().flat_map(|slot| &mut slot.inbox);
                left.filter(|row| steers.contains(&row.id)).for_each(|row| row.kind = InputKind::Steer);
            }
            Self::AllowedRunsTwice => {
                let left = core.lanes.values_mut().flat_map(|slot| &mut slot.inbox);
                left.for_each(|row| {
                    let was = rows(before).find(|old| old.id == row.id);
                    row.runs = row.runs.take().or_else(|| was.and_then(|old| old.runs.clone()));
                });
            }
            Self::EndKeepsWait => {
                let wait = before.goal.as_ref().and_then(|goal| goal.wait.clone());
                if let Some(goal) = core.goal.as_mut().filter(|goal| !goal.is_open()) {
                    goal.wait = wait;
                }
            }
            Self::NumbersAtTheEnd => {
                if let Some((goal, old)) = core.goal.as_mut().zip(before.goal.as_ref()) {
                    let is_of_goal = world
                        .running()
                        .is_some_and(|running| matches!(running.trigger, TurnTrigger::Goal { .. }));
                    if started {
                        goal.continuations = old.continuations;
                    } else if ended && is_of_goal {
                        goal.continuations += 1;
                    }
                }
            }
            Self::ForgetsUncertain => core.uncertain_call = None,
            Self::ResumeResetsBudget if matches!(order, Order::User(UserCommand::ResumeGoal)) => {
                if let Some(goal) = &mut core.goal {
                    goal.usage = GoalUsage::default();
                }
            }
            Self::KeepsConsumedWait if started => {
                let wait = before.goal.as_ref().and_then(|goal| goal.wait.clone());
                if let Some(goal) = &mut core.goal {
                    goal.wait = wait;
                }
            }
            Self::ForgetsStreaks => {
                let is_lost =
                    entry.events.iter().any(|event| matches!(event.body, EventBody::TurnLost { .. }));
                if let Some(goal) = core.goal.as_mut().filter(|_| is_lost) {
                    goal.streaks = domain::Streaks::default();
                }
            }
            Self::KeepsLease if entry.leases.turn.is_none() => {
                entry.leases.turn.clone_from(&world.leases.turn);
            }
            _ => {}
        }
    }

    /// What a worker with this bug does instead of admitting a turn.
    pub(crate) fn admits_otherwise(self, doing: &mut Doing<'_>, index: usize) {
        let world = &doing.world;
        let is_unfinished = world.session.current_plan(&lane()).is_some_and(|plan| plan.unfinished() > 0);
        if self == Self::PlanStartsTurns && is_unfinished && world.wake_at.is_none() {
            let order = Order::User(commands::submit(policy::Delivery::Queue, false));
            doing.commit(By::Worker(index), &order).ok();
        }
    }
}

fn rows(core: &Core) -> impl Iterator<Item = &InboxRow> {
    core.lanes.values().flat_map(|slot| &slot.inbox)
}

/// The arguments of `decide`.
struct Shown<'a> {
    state: Cow<'a, SessionState>,
    facts: Facts,
}

impl Shown<'_> {
    fn running(&mut self, change: impl FnOnce(&mut RunningTurn)) {
        let mut slots = self.state.to_mut().core.lanes.values_mut();
        if let Some(running) = slots.find_map(|slot| slot.running.as_mut()) {
            change(running);
        }
    }

    fn goal(&mut self, change: impl FnOnce(&mut domain::Goal)) {
        if let Some(goal) = &mut self.state.to_mut().core.goal {
            change(goal);
        }
    }

    fn as_active(&mut self) {
        self.goal(|goal| {
            if matches!(goal.status, GoalStatus::Paused(_)) {
                goal.status = GoalStatus::Active;
            }
        });
    }

    fn without_turn(&mut self) {
        self.state.to_mut().core.lanes.values_mut().for_each(|slot| slot.running = None);
        self.facts.leases = Leases { turn: None, ..self.facts.leases.clone() };
    }
}
