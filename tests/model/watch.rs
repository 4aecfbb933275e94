//! The onlooker: what each stored decision must not have done.
//!
//! It knows the rules only as their text says them; it asks no function of `policy`. What is wrong with a single state,
//! whoever made it, is in [`state`](crate::state).

mod goal;

use domain::{
    CallOutcome, CallRef, Effect, Event, EventBody, FailureKind, GoalId, GoalStatus, InboxRow,
    InputCancelReason, InputId, InputKind, Mode, PauseReason, RequestEnd, RunningTurn, StopReason,
    TurnOutcome, TurnTrigger,
};
use policy::{RuntimeCommand, UserCommand};

use crate::commands::Order;
use crate::doing::{By, Doing};
use crate::property::Property;
use crate::state::{is_due_for_goal, is_spent, may_run};
use crate::world::{At, CallStep, Task, World, lane};

/// Turns in a row without evidence after which a Goal stops (G7).
const WITHOUT_EVIDENCE: u8 = 3;
/// Turns in a row that were lost after which it stops (G7).
const LOST: u8 = 5;

/// One decision as the onlooker sees it.
struct Seen<'a> {
    before: &'a World,
    order: &'a Order,
    events: &'a [Event],
    /// Where the Goal stands between the events.
    goal: Option<(GoalId, GoalStatus)>,
}

impl Doing<'_> {
    /// Looks at a decision that was just stored.
    pub(crate) fn watch(&mut self, before: &World, by: By, order: &Order, events: &[Event]) {
        self.fence(before, by, order, events);
        let goal = before.session.core.goal.as_ref().map(|goal| (goal.id, goal.status.clone()));
        let mut seen = Seen { before, order, events, goal: goal.clone() };
        // What becomes of the Goal says more than how it came to that.
        for event in events {
            self.goal_moves(&seen, event);
            seen.follow(event);
        }
        if self.slice.keep.streaks {
            self.streaks(before, by, events);
        }
        seen.goal = goal;
        for event in events {
            self.cause(&seen, event);
            self.boundary(&seen, event);
            self.rows(&seen, event);
            seen.follow(event);
            self.requests_and_effects(&seen, event);
        }
        self.mode_change(before, order, events);
        self.uncertainty(before, order, events);
        if by == By::User {
            self.world.notes.hush = matches!(order, Order::User(UserCommand::Interrupt));
            self.interrupt();
        }
        if self.slice.compares_plans {
            self.twin(before, order, events);
        }
        self.check_state();
    }

    /// What an interrupt leaves.
    fn interrupt(&mut self) {
        let core = &self.world.session.core;
        let goes_on = core.running_turns().any(|(_, running)| running.stop != Some(StopReason::Interrupted))
            || core.goal.as_ref().is_some_and(domain::Goal::is_active);
        if self.world.notes.hush && goes_on {
            self.breaks(Property::Interrupt, "a turn or the Goal goes on after the user's interrupt");
        }
    }

    /// Turns in a row that lead nowhere.
    fn streaks(&mut self, before: &World, by: By, events: &[Event]) {
        let is_for_goal = before.running().is_some_and(|running| running.is_for_goal);
        let is_bound = before.running().is_some_and(|running| running.goal.is_some());
        for event in events {
            let notes = &mut self.world.notes;
            match &event.body {
                EventBody::TurnStarted { trigger: TurnTrigger::Goal { .. }, .. }
                    if notes.without_evidence >= WITHOUT_EVIDENCE || notes.lost >= LOST =>
                {
                    self.breaks(Property::Breakers, "a Goal went on although its turns lead nowhere");
                }
                EventBody::CallFinished { evidence: Some(_), .. } => notes.has_evidence = true,
                EventBody::TurnLost { .. } => {
                    notes.has_evidence = false;
                    notes.lost += u8::from(is_bound);
                }
                EventBody::TurnEnded { outcome, .. } => {
                    let has_evidence = std::mem::take(&mut notes.has_evidence);
                    if matches!(outcome, TurnOutcome::Completed | TurnOutcome::Waiting { .. }) {
                        notes.lost = 0;
                    }
                    // One that ran into its own limits had every chance to show something.
                    let was_stuck = matches!(outcome, TurnOutcome::Failed { failure } if failure.kind == FailureKind::Stuck);
                    if was_stuck || *outcome == TurnOutcome::Completed {
                        let more = notes.without_evidence + u8::from(is_for_goal);
                        notes.without_evidence = if has_evidence { 0 } else { more };
                    }
                }
                EventBody::GoalOpened { .. } | EventBody::GoalMoved { to: GoalStatus::Active, .. }
                    if by == By::User =>
                {
                    (notes.without_evidence, notes.lost) = (0, 0);
                }
                _ => {}
            }
        }
    }

    /// A turn's writes need its turn and its lease.
    fn fence(&mut self, before: &World, by: By, order: &Order, events: &[Event]) {
        let By::Worker(index) = by else {
            return;
        };
        if matches!(order, Order::User(_)) {
            self.breaks(Property::Cause, "a worker acted as the user");
        }
        let Some(turn) = order.turn() else { return };
        if events.is_empty() && self.world.leases == before.leases {
            return;
        }
        let process = self.slice.process(index);
        if before.running().is_none_or(|running| running.number != turn) {
            self.breaks(Property::Fence, "a turn that is over wrote something");
        } else if before.leases.turn.as_ref().is_none_or(|lease| lease.owner != process) {
            self.breaks(Property::Fence, "a worker wrote for a turn that another one owns");
        }
    }

    /// What may start a turn, and who queues rows.
    fn cause(&mut self, seen: &Seen<'_>, event: &Event) {
        let before = seen.before;
        match &event.body {
            EventBody::TurnStarted { trigger, goal, agent, .. } => {
                if before.running().is_some() {
                    self.breaks(Property::OneTurn, "a turn started while another ran");
                }
                if before.notes.hush {
                    self.breaks(Property::Interrupt, "a turn started after the user's interrupt");
                }
                self.trigger(before, trigger);
                let is_plan_agent = agent.as_str() == policy::PLAN_AGENT;
                if is_plan_agent != (before.session.core.mode == Mode::Plan) {
                    self.breaks(Property::Mode, "a turn runs an agent of the other mode");
                }
                let active = before.session.core.goal.as_ref().filter(|goal| goal.is_active());
                if goal.map(|bound| (bound.goal_id, bound.revision))
                    != active.map(|goal| (goal.id, goal.revision))
                {
                    self.breaks(Property::Binding, "a turn is not bound to the active Goal as it is");
                }
            }
            EventBody::TurnLost { .. } => {
                let lease = before.leases.turn.as_ref();
                if lease.is_some_and(|lease| lease.expires_at > before.now && World::is_alive(&lease.owner)) {
                    self.breaks(Property::OneTurn, "a turn was declared lost while its worker had the lease");
                }
            }
            EventBody::InputQueued { input, .. } => {
                let is_fit = match (input, seen.order) {
                    (InputKind::User | InputKind::Steer, Order::User(command)) => {
                        matches!(command, UserCommand::SubmitInput { .. } | UserCommand::StartWork { .. })
                    }
                    (InputKind::Answer, Order::User(UserCommand::AnswerRequest { .. })) => true,
                    (InputKind::Report, Order::Runtime(command)) => matches!(
                        command,
                        RuntimeCommand::EndCommand { .. } | RuntimeCommand::RecoverCommand { .. }
                    ),
                    _ => false,
                };
                if !is_fit {
                    self.breaks(Property::Cause, "a row was queued by nobody");
                }
            }
            EventBody::InboxReleased if !matches!(seen.order, Order::User(_)) => {
                self.breaks(Property::Interrupt, "held rows were released by somebody else than the user");
            }
            _ => {}
        }
    }

    fn trigger(&mut self, before: &World, trigger: &TurnTrigger) {
        let core = &before.session.core;
        match trigger {
            TurnTrigger::Input { rows } => {
                let [row] = rows.as_slice() else {
                    return self.breaks(Property::Cause, "a turn for input took no row, or several");
                };
                match row_of(before, *row) {
                    Some(row) if row.taken.is_some() => {
                        self.breaks(Property::Rows, "a turn took a row that another had taken");
                    }
                    Some(row) if may_run(core, row) && !core.inbox_held => {}
                    Some(_) => {
                        self.breaks(Property::Cause, "a turn started for a row that may not start one");
                    }
                    None => self.breaks(Property::Rows, "a turn started for a row that is not there"),
                }
            }
            TurnTrigger::Goal { goal_id, continuation } => {
                if core.goal.as_ref().is_none_or(|goal| goal.id != *goal_id)
                    || !is_due_for_goal(core, before.now)
                {
                    self.breaks(Property::Cause, "a turn started for a Goal that is not due");
                }
                let rows = core.lanes.get(&lane()).map_or(&[][..], |slot| &slot.inbox);
                if rows.iter().any(|row| row.taken.is_none() && may_run(core, row) && !core.inbox_held) {
                    self.breaks(Property::Cause, "the Goal went on before a queued row");
                }
                if *continuation != before.notes.continuation + 1 {
                    self.breaks(
                        Property::Numbers,
                        "a continuation number was used twice, or one was left out",
                    );
                }
                self.world.notes.continuation = *continuation;
                if self.world.session.core.goal.as_ref().is_some_and(|goal| goal.wait.is_some()) {
                    self.breaks(Property::Cause, "a continuation did not consume the wait that was over");
                }
            }
        }
    }

    /// Requests and calls begin only where the turn may go on.
    fn boundary(&mut self, seen: &Seen<'_>, event: &Event) {
        let before = seen.before;
        let (turn, is_request) = match &event.body {
            EventBody::ModelRequested { turn, .. } => (*turn, true),
            EventBody::CallAdmitted { call, .. } => (call.turn, false),
            _ => return,
        };
        let Some(running) = before.running().filter(|running| running.number == turn) else {
            return self.breaks(Property::Fence, "a turn that does not run passed a boundary");
        };
        if before.leases.turn.as_ref().is_none_or(|lease| lease.expires_at <= before.now) {
            self.breaks(Property::Fence, "a turn passed a boundary after its lease had ended");
        }
        if before.notes.hush {
            self.breaks(Property::Interrupt, "a request or call began after the user's interrupt");
        }
        if let EventBody::CallAdmitted { effect, .. } = &event.body
            && before.session.core.mode == Mode::Plan
            && !matches!(effect, Effect::Read | Effect::WorkState)
        {
            self.breaks(Property::Mode, "a call that changes something was admitted in Plan mode");
        }
        self.works_for_a_goal(before, running, is_request);
        if let EventBody::ModelRequested { charged_to: Some(goal), .. } = &event.body {
            let charged = before.session.core.goal.as_ref().filter(|of| of.id == *goal);
            let by_notes = self.slice.keep.tokens
                && charged.is_some_and(|goal| before.notes.spent >= goal.budgets.tokens.get());
            let is_last = running.goal_completed_in.is_some();
            if !is_last && (by_notes || charged.is_some_and(is_spent)) {
                self.breaks(Property::Budget, "a request began on a budget that was used up");
            }
        }
        if let EventBody::CallAdmitted { call, .. } = &event.body {
            let row = taken_by(before, running).filter(|_| call.request == 0);
            if row.is_some_and(|row| !self.world.notes.allowed.insert(row)) {
                self.breaks(Property::AllowedOnce, "a call that the user allowed was admitted twice");
            }
        }
    }

    fn works_for_a_goal(&mut self, before: &World, running: &RunningTurn, is_request: bool) {
        let Some(bound) = running.goal else { return };
        let current = before.session.core.goal.as_ref().filter(|goal| goal.id == bound.goal_id);
        let has_completed = running.goal_completed_in;
        let is_last_answer = has_completed.is_some_and(|done| is_request && running.request <= done);
        if is_last_answer {
            return;
        }
        if !current.is_some_and(domain::Goal::is_open) {
            self.breaks(Property::AfterTheEnd, "a request or call began for a Goal that is over");
        } else if running.is_for_goal && !current.is_some_and(domain::Goal::is_active) {
            self.breaks(Property::Pauses, "a turn that runs for the Goal alone outlived its activity");
        }
    }

    /// What becomes of rows.
    fn rows(&mut self, seen: &Seen<'_>, event: &Event) {
        let before = seen.before;
        match &event.body {
            EventBody::InputConsumed { turn, rows } => {
                for row in rows {
                    let is_fit = row_of(before, *row).is_some_and(|row| match row.taken {
                        Some(by) => by == *turn,
                        None => matches!(row.kind, InputKind::Steer | InputKind::Report),
                    });
                    if !is_fit {
                        self.breaks(
                            Property::Rows,
                            "a row became history twice, or in a turn that had not taken it",
                        );
                    }
                }
            }
            EventBody::InputReturned { row } => {
                if !seen.has(|body| {
                    matches!(
                        body,
                        EventBody::TurnLost { .. }
                            | EventBody::TurnEnded { outcome: TurnOutcome::Stopped { .. }, .. }
                    )
                }) {
                    self.breaks(
                        Property::Rows,
                        "a row was given back by a turn that was neither lost nor stopped",
                    );
                }
                if row_of(before, *row).is_none_or(|row| row.returns >= domain::RETURNS) {
                    self.breaks(Property::Rows, "a row was given back a fourth time");
                }
            }
            EventBody::InputCancelled { row, reason } => {
                let row = row_of(before, *row);
                let is_fit = match reason {
                    InputCancelReason::ReturnedTooOften => {
                        row.is_some_and(|row| row.returns >= domain::RETURNS)
                    }
                    InputCancelReason::Interrupted => seen.has(|body| {
                        matches!(body, EventBody::TurnEnded { outcome: TurnOutcome::Interrupted, .. })
                    }),
                    InputCancelReason::TurnFailed => seen.has(|body| {
                        matches!(body, EventBody::TurnEnded { outcome: TurnOutcome::Failed { .. }, .. })
                    }),
                    InputCancelReason::JobEnded => {
                        seen.has(|body| matches!(body, EventBody::JobEnded { .. }))
                    }
                    InputCancelReason::GoalEnded => row.is_some_and(|row| row.goal_id.is_some()),
                };
                if !is_fit {
                    self.breaks(Property::Rows, "a row was cancelled for a reason that is not so");
                }
            }
            _ => {}
        }
    }

    /// Questions, background commands, and what belongs to a Goal that is over.
    fn requests_and_effects(&mut self, seen: &Seen<'_>, event: &Event) {
        let open = seen.goal.as_ref().filter(|(_, status)| !status.state().is_terminal()).map(|(id, _)| *id);
        let of = match &event.body {
            EventBody::InputQueued { goal_id, .. } => *goal_id,
            EventBody::RequestOpened { request } => request.goal_id,
            EventBody::CommandStarted { command } => command.goal_id,
            EventBody::CallFinished { call, outcome, .. } => {
                self.told_not_run(*call, *outcome);
                None
            }
            EventBody::RequestSettled { request, end } => {
                let is_settled = seen.before.session.core.request(*request).is_none();
                if matches!(end, RequestEnd::Answered { .. }) && is_settled {
                    self.breaks(Property::AnsweredOnce, "an answer acted on a request that was settled");
                }
                if self.slice.user.contains(&crate::act::UserAct::AnswerAgain) {
                    self.world.notes.settled = Some(*request);
                }
                None
            }
            _ => None,
        };
        if of.is_some_and(|goal| Some(goal) != open) {
            self.breaks(Property::AfterTheEnd, "something was stored for a Goal that is over");
        }
    }

    /// A result that denies the call holds: also against a task that lost its turn and is in the middle of it.
    fn told_not_run(&mut self, call: CallRef, outcome: CallOutcome) {
        let denies = match outcome {
            CallOutcome::NotRun | CallOutcome::Denied | CallOutcome::Refused | CallOutcome::Invalid => true,
            CallOutcome::Succeeded
            | CallOutcome::Failed
            | CallOutcome::Stopped
            | CallOutcome::Lost
            | CallOutcome::Uncertain
            | CallOutcome::Waiting => false,
        };
        let is_in_it = |task: &Task| match task.at {
            At::Call { index, step: CallStep::Running, .. } => task.call(index) == call,
            _ => false,
        };
        let happens = self.world.workers.iter().flatten().any(is_in_it);
        if denies && (happens || self.world.notes.happened.contains(&call)) {
            self.breaks(Property::ToldNotRun, "a call was said not to have run, and it happens");
        }
    }

    fn mode_change(&mut self, before: &World, order: &Order, events: &[Event]) {
        let is_changed = events.iter().any(|event| matches!(event.body, EventBody::ModeChanged { .. }));
        if !is_changed {
            return;
        }
        if !matches!(order, Order::User(UserCommand::EnterPlan | UserCommand::StartWork { .. })) {
            self.breaks(Property::Mode, "the mode changed without the user");
        }
        let core = &self.world.session.core;
        if core.mode == Mode::Plan {
            let goes_on = core.running_turns().any(|(_, running)| running.stop.is_none())
                || core.commands.iter().any(|command| !command.is_stopping);
            let was_paused = before.session.core.goal.as_ref().map(|goal| &goal.status);
            let is_kept = !matches!(was_paused, Some(GoalStatus::Paused(_)))
                || was_paused == core.goal.as_ref().map(|goal| &goal.status);
            if goes_on {
                self.breaks(Property::Mode, "something goes on after Plan mode was entered");
            } else if !is_kept {
                self.breaks(Property::Pauses, "entering Plan mode replaced a pause");
            }
        }
    }

    /// What may have happened and nobody can tell is told to the user.
    fn uncertainty(&mut self, before: &World, order: &Order, events: &[Event]) {
        let is_new = events.iter().any(|event| match &event.body {
            EventBody::CallFinished { outcome, .. } | EventBody::CommandEnded { outcome, .. } => {
                *outcome == CallOutcome::Uncertain
            }
            _ => false,
        });
        let is_activated = events.iter().any(|event| match &event.body {
            EventBody::GoalMoved { to, .. } => *to == GoalStatus::Active,
            EventBody::GoalOpened { status, .. } => *status == GoalStatus::Active,
            _ => false,
        });
        let status = self.world.session.core.goal.as_ref().map(|goal| &goal.status);
        let is_told = matches!(status, Some(GoalStatus::Paused(PauseReason::UncertainSideEffect { .. })));
        let is_active = status == Some(&GoalStatus::Active);
        let says_so = matches!(
            order,
            Order::User(UserCommand::ResumeGoal | UserCommand::SubmitInput { resume: true, .. })
        );
        if is_new && is_active {
            self.breaks(Property::Uncertain, "an active Goal goes on after a call that may have happened");
        }
        if is_activated && before.notes.uncertain && !says_so {
            self.breaks(Property::Uncertain, "a Goal became active although a call may have happened");
        }
        self.world.notes.uncertain = !is_told && (is_new || before.notes.uncertain && !is_activated);
    }

    /// The same command with another plan: the same events, but for the count of unfinished steps that they carry (P21).
    fn twin(&mut self, before: &World, order: &Order, events: &[Event]) {
        let is_about_the_plan = events
            .iter()
            .any(|event| matches!(event.body, EventBody::PlanRevised { .. } | EventBody::PlanClosed { .. }));
        if is_about_the_plan || before.session.plans.is_empty() {
            return;
        }
        let mut other = (*before.session).clone();
        other.plans.clear();
        other.core.lanes.values_mut().for_each(|slot| slot.plan = None);
        let facts = policy::Facts {
            now: before.now,
            leases: before.leases.clone(),
            goal_is_known: false,
            evidence_is_new: false,
        };
        let Ok(twin) = crate::ledger::decided(&other, order, &facts, self) else {
            return self.breaks(Property::Plans, "a command is refused for want of a plan");
        };
        let same = twin
            .events
            .iter()
            .zip(events)
            .all(|(one, two)| without_steps(&one.body) == without_steps(&two.body));
        if !same
            || twin.events.len() != events.len()
            || twin.wake_at != self.world.wake_at && !events.is_empty()
        {
            self.breaks(Property::Plans, "a plan changed what a command causes");
        }
    }
}

impl Seen<'_> {
    /// Keeps track of where the Goal stands.
    fn follow(&mut self, event: &Event) {
        match &event.body {
            EventBody::GoalOpened { goal_id, status, .. } => self.goal = Some((*goal_id, status.clone())),
            EventBody::GoalMoved { goal_id, to, .. } => self.goal = Some((*goal_id, to.clone())),
            _ => {}
        }
    }

    fn has(&self, what: impl Fn(&EventBody) -> bool) -> bool {
        self.events.iter().any(|event| what(&event.body))
    }
}

fn row_of(world: &World, id: InputId) -> Option<&InboxRow> {
    world.session.core.lanes.values().flat_map(|slot| &slot.inbox).find(|row| row.id == id)
}

/// The row that a turn took and has not consumed.
fn taken_by(world: &World, running: &RunningTurn) -> Option<InputId> {
    let rows = world.session.core.lanes.values().flat_map(|slot| &slot.inbox);
    rows.filter(|row| row.taken == Some(running.number)).map(|row| row.id).next()
}

fn without_steps(body: &EventBody) -> EventBody {
    match body.clone() {
        EventBody::GoalMoved { goal_id, to, summary, .. } => {
            EventBody::GoalMoved { goal_id, to, summary, unfinished_steps: None }
        }
        EventBody::CallFinished { call, tool, outcome, full_output, evidence, .. } => {
            EventBody::CallFinished { call, tool, outcome, result: String::new(), full_output, evidence }
        }
        other => other,
    }
}
