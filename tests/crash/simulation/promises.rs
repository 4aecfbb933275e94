//! What a log must never show, read without the rules under test: from the events alone, the acts that were asked for
//! and the effects that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::{
    Actor, CallOutcome, CallRef, Core, Event, EventBody, FailureClass, GoalId, GoalStatus, InputId,
    InputKind, LaneId, RunningTurn, Seq, SessionId, SessionState, TokenUsage, TurnEnd, TurnNumber,
    TurnOutcome, TurnTrigger,
};

use super::effects::token_of;

/// The kinds of what can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Something happened twice.
    Duplicated,
    /// Something that was answered for is gone, or stays undone for ever.
    Lost,
    /// Something that nobody asked for, or after the end.
    Ghost,
    /// A turn because of an unfinished plan.
    PlanCaused,
    /// Any other promise.
    Broken,
}

/// A promise that was not kept.
#[derive(Debug, Clone)]
pub(crate) struct Breach {
    pub(crate) fault: Fault,
    pub(crate) what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.fault, self.what)
    }
}

/// What the harness did in the name of a person.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// The prompts.
    pub(crate) texts: BTreeSet<String>,
    /// The events after `since` that acts of the harness caused.
    pub(crate) events: BTreeSet<Seq>,
    /// From where on every event of a person is known.
    pub(crate) since: Seq,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowState {
    Waiting,
    Taken(TurnNumber),
    Consumed,
    Cancelled,
}

struct Row {
    state: RowState,
    kind: InputKind,
    /// The call that it allows.
    runs: Option<CallRef>,
}

struct Call {
    tool: String,
    token: Option<String>,
    is_admitted: bool,
    outcome: Option<CallOutcome>,
}

#[derive(Default)]
struct Account {
    has_ended: bool,
    continuations: u64,
    tokens: TokenUsage,
    active_ms: u64,
    turns: u32,
}

/// A log on its way through the checks.
pub(crate) struct Reading<'a> {
    asked: &'a Asked,
    state: SessionState,
    rows: BTreeMap<InputId, Row>,
    texts: BTreeSet<String>,
    calls: BTreeMap<CallRef, Call>,
    goals: BTreeMap<GoalId, Account>,
    /// The Goal that pays for each request, until it did.
    owed: BTreeMap<(TurnNumber, u32), GoalId>,
    charged: BTreeSet<(TurnNumber, u32, u32)>,
    breaches: Vec<Breach>,
}

/// Reads a whole log.
pub(crate) fn read<'a>(session: SessionId, log: &[Event], asked: &'a Asked) -> Reading<'a> {
    let mut reading = Reading {
        asked,
        state: SessionState::before_first(session),
        rows: BTreeMap::new(),
        texts: BTreeSet::new(),
        calls: BTreeMap::new(),
        goals: BTreeMap::new(),
        owed: BTreeMap::new(),
        charged: BTreeSet::new(),
        breaches: Vec::new(),
    };
    for event in log {
        reading.event(event);
        reading.state.apply(event);
    }
    reading
}

impl Reading<'_> {
    fn breach(&mut self, fault: Fault, event: &Event, what: impl fmt::Display) {
        self.breaches
            .push(Breach { fault, what: format!("event {} ({}): {what}", event.seq, event.body.kind()) });
    }

    /// What an event is that has no cause: the work of a plan that is not finished, if there is nothing else.
    fn without_cause(&self) -> Fault {
        let has_goal = self.state.core.goal.as_ref().is_some_and(domain::Goal::is_active);
        let plan = self.state.current_plan(&LaneId::main());
        if !has_goal && plan.is_some_and(|plan| plan.unfinished() > 0) {
            Fault::PlanCaused
        } else {
            Fault::Ghost
        }
    }

    fn event(&mut self, event: &Event) {
        if event.seq != self.state.core.head.next() {
            self.breach(Fault::Lost, event, "a number is missing");
        }
        let is_of_person = matches!(event.actor, Actor::User { .. });
        if is_of_person && event.seq > self.asked.since && !self.asked.events.contains(&event.seq) {
            let is_prompt = matches!(event.body, EventBody::InputQueued { .. });
            let fault = if is_prompt { self.without_cause() } else { Fault::Ghost };
            self.breach(fault, event, "no person did that");
        }
        match &event.body {
            EventBody::TurnStarted { turn, trigger, goal, .. } => {
                let bound = goal.map(|bound| bound.goal_id);
                self.turn_started(event, *turn, trigger, bound);
            }
            EventBody::TurnEnded { turn, .. } | EventBody::TurnLost { turn } => self.turn_ended(event, *turn),
            EventBody::ModelRequested { turn, request, charged_to, .. } => {
                self.requested(event, *turn, *request, *charged_to);
            }
            EventBody::ModelResponded { turn, request, calls, .. } => {
                for (index, call) in (0..).zip(calls) {
                    let call_ref = CallRef { turn: *turn, request: *request, index };
                    let (tool, token) = (call.tool.clone(), token_of(&call.arguments));
                    let call = Call { tool, token, is_admitted: false, outcome: None };
                    if self.calls.insert(call_ref, call).is_some() {
                        self.breach(Fault::Duplicated, event, format!("{call_ref} is asked for twice"));
                    }
                }
            }
            EventBody::CallAdmitted { call, .. } => self.admitted(event, *call),
            EventBody::CallFinished { call, outcome, .. } => self.finished(event, *call, *outcome),
            EventBody::PlanRevised { plan, .. } => {
                let before = self.state.latest_plan(&LaneId::main()).map(|latest| latest.plan);
                let same = before.filter(|before| before.id == plan.id);
                if plan.revision != same.map_or(domain::Revision(1), |before| before.revision.next()) {
                    self.breach(Fault::Duplicated, event, format!("revision {}", plan.revision));
                }
            }
            EventBody::InputQueued { .. }
            | EventBody::InputConsumed { .. }
            | EventBody::InputReturned { .. }
            | EventBody::InputCancelled { .. } => self.inbox(event),
            _ => self.goal(event),
        }
    }

    fn running(&self) -> Option<&RunningTurn> {
        self.state.core.running_turns().next().map(|(_, turn)| turn)
    }

    fn turn_started(
        &mut self,
        event: &Event,
        turn: TurnNumber,
        trigger: &TurnTrigger,
        bound: Option<GoalId>,
    ) {
        if self.running().is_some() {
            self.breach(Fault::Duplicated, event, "another turn runs");
        }
        if turn != self.state.core.last_turn.next() {
            self.breach(Fault::Duplicated, event, format!("turn {turn} after {}", self.state.core.last_turn));
        }
        let active = self.state.core.goal.as_ref().filter(|goal| goal.is_active()).cloned();
        if bound != active.as_ref().map(|goal| goal.id) {
            self.breach(Fault::Ghost, event, "it is bound to a Goal that is not active");
        }
        match trigger {
            TurnTrigger::Input { rows } => {
                if self.state.core.inbox_held || rows.is_empty() {
                    self.breach(self.without_cause(), event, "no input may run");
                }
                for id in rows {
                    self.take(event, *id, turn);
                }
            }
            TurnTrigger::Goal { goal_id, continuation } => {
                let is_due = active.as_ref().is_some_and(|goal| {
                    goal.id == *goal_id
                        && !goal.is_spent()
                        && goal.retry.is_none_or(|retry| retry.at <= event.at)
                        && goal.wait.as_ref().is_none_or(|wait| !wait.holds(event.at))
                        && (goal.wait.is_some() || self.state.core.commands_of(goal.id).count() == 0)
                });
                if !is_due {
                    self.breach(self.without_cause(), event, "its Goal is not due");
                }
                let account = self.goals.entry(*goal_id).or_default();
                account.continuations += 1;
                if account.continuations != *continuation {
                    self.breach(Fault::Duplicated, event, format!("continuation {continuation}"));
                }
            }
        }
    }

    fn take(&mut self, event: &Event, id: InputId, turn: TurnNumber) {
        let Some(row) = self.rows.get_mut(&id) else {
            self.breach(Fault::Ghost, event, format!("there is no row {id}"));
            return;
        };
        let granted = row.runs;
        if std::mem::replace(&mut row.state, RowState::Taken(turn)) != RowState::Waiting {
            self.breach(Fault::Duplicated, event, format!("row {id} runs again"));
        }
        let still_runs = self.state.core.lanes.values().flat_map(|lane| &lane.inbox);
        let still_runs = still_runs.into_iter().any(|row| row.id == id && row.runs.is_some());
        if let Some(asked) = granted.filter(|_| still_runs).and_then(|call| self.calls.get(&call)) {
            let (tool, token) = (asked.tool.clone(), asked.token.clone());
            let call = Call { tool, token, is_admitted: false, outcome: None };
            self.calls.insert(CallRef { turn, request: 0, index: 0 }, call);
        }
    }

    fn turn_ended(&mut self, event: &Event, turn: TurnNumber) {
        let Some(running) = self.running().filter(|running| running.number == turn).cloned() else {
            self.breach(Fault::Duplicated, event, format!("turn {turn} does not run"));
            return;
        };
        let open = |(call, state): (&CallRef, &Call)| call.turn == turn && state.outcome.is_none();
        if self.calls.iter().any(open) {
            self.breach(Fault::Lost, event, "a call has no result");
        }
        let left = |row: &Row| row.state == RowState::Taken(turn);
        if self.rows.values().any(left) {
            self.breach(Fault::Lost, event, "a row that the turn took is neither read nor given back");
        }
        let is_retried = matches!(&event.body, EventBody::TurnEnded { outcome: TurnOutcome::Failed { failure }, .. }
            if failure.kind.class() == FailureClass::Retry);
        if let Some(bound) = running.goal.filter(|_| !is_retried) {
            self.goals.entry(bound.goal_id).or_default().turns += 1;
        }
    }

    /// The turn, if it may go on: nobody asked it to stop, and a turn for a Goal has it.
    fn check_goes_on(&mut self, event: &Event, turn: TurnNumber) {
        let Some(running) = self.running().filter(|running| running.number == turn).cloned() else {
            self.breach(Fault::Ghost, event, format!("turn {turn} does not run"));
            return;
        };
        if let Some(reason) = running.stop {
            self.breach(Fault::Ghost, event, format!("turn {turn} was asked to stop: {reason}"));
        }
        let reports = running.goal_completed_in.is_some_and(|done| running.request <= done + 1);
        let bound = running.goal.map(|bound| bound.goal_id);
        let goal = self.state.core.goal.as_ref().filter(|goal| Some(goal.id) == bound);
        if running.is_for_goal && !reports && !goal.is_some_and(domain::Goal::is_active) {
            self.breach(Fault::Ghost, event, "its Goal is not active");
        }
    }

    fn requested(&mut self, event: &Event, turn: TurnNumber, request: u32, charged_to: Option<GoalId>) {
        self.check_goes_on(event, turn);
        let Some(goal_id) = charged_to else { return };
        let reports = self.running().is_some_and(|running| running.goal_completed_in.is_some());
        let goal = self.state.core.goal.as_ref().filter(|goal| goal.id == goal_id);
        if !reports && goal.is_none_or(domain::Goal::is_spent) {
            self.breach(Fault::Broken, event, "the Goal that pays has nothing left");
        }
        self.owed.insert((turn, request), goal_id);
    }

    fn admitted(&mut self, event: &Event, call: CallRef) {
        self.check_goes_on(event, call.turn);
        match self.calls.get_mut(&call) {
            Some(state) if !state.is_admitted && state.outcome.is_none() => state.is_admitted = true,
            Some(_) => self.breach(Fault::Duplicated, event, format!("{call} was dealt with")),
            None => self.breach(Fault::Ghost, event, format!("nobody asked for {call}")),
        }
    }

    fn finished(&mut self, event: &Event, call: CallRef, outcome: CallOutcome) {
        match self.calls.get_mut(&call) {
            Some(state) if state.outcome.is_none() => state.outcome = Some(outcome),
            Some(_) => self.breach(Fault::Duplicated, event, format!("{call} has a result")),
            None => self.breach(Fault::Ghost, event, format!("nobody asked for {call}")),
        }
    }

    fn inbox(&mut self, event: &Event) {
        match &event.body {
            EventBody::InputQueued { input, text, goal_id, runs, .. } => {
                if goal_id.is_some_and(|goal| self.has_ended(goal)) {
                    self.breach(Fault::Ghost, event, "its Goal has ended");
                }
                if input.is_of_person() {
                    if !self.asked.texts.contains(text.as_str()) {
                        self.breach(self.without_cause(), event, format!("nobody said {text}"));
                    }
                    if !self.texts.insert(text.as_str().to_owned()) {
                        self.breach(Fault::Duplicated, event, format!("{text} was said once"));
                    }
                }
                let runs = runs.as_ref().map(|granted| granted.call);
                let row = Row { state: RowState::Waiting, kind: *input, runs };
                self.rows.insert(InputId(event.seq), row);
            }
            EventBody::InputConsumed { rows, .. } => {
                for id in rows {
                    self.move_row(event, *id, RowState::Consumed);
                }
            }
            EventBody::InputReturned { row } => self.move_row(event, *row, RowState::Waiting),
            EventBody::InputCancelled { row, .. } => self.move_row(event, *row, RowState::Cancelled),
            _ => {}
        }
    }

    fn move_row(&mut self, event: &Event, id: InputId, to: RowState) {
        match self.rows.get_mut(&id) {
            Some(row) if matches!(row.state, RowState::Waiting | RowState::Taken(_)) => row.state = to,
            Some(_) => self.breach(Fault::Duplicated, event, format!("row {id} was dealt with")),
            None => self.breach(Fault::Ghost, event, format!("there is no row {id}")),
        }
    }

    fn has_ended(&self, goal: GoalId) -> bool {
        self.goals.get(&goal).is_some_and(|account| account.has_ended)
    }

    fn goal(&mut self, event: &Event) {
        let about = match &event.body {
            EventBody::GoalOpened { goal_id, .. } => {
                if self.state.open_goal().is_some() || self.goals.contains_key(goal_id) {
                    self.breach(Fault::Duplicated, event, "a Goal is open");
                }
                self.goals.entry(*goal_id).or_default();
                return;
            }
            EventBody::GoalCharged { goal_id, turn, request, attempt, usage } => {
                if self.owed.get(&(*turn, *request)) != Some(goal_id) {
                    self.breach(Fault::Ghost, event, format!("{turn}.{request} was not on its account"));
                }
                if !self.charged.insert((*turn, *request, *attempt)) {
                    self.breach(Fault::Duplicated, event, format!("{turn}.{request} was charged"));
                }
                let account = self.goals.entry(*goal_id).or_default();
                account.tokens = account.tokens.plus(*usage);
                return;
            }
            EventBody::GoalTimeCharged { goal_id, active_ms } => {
                self.goals.entry(*goal_id).or_default().active_ms += active_ms;
                goal_id
            }
            EventBody::GoalMoved { goal_id, .. }
            | EventBody::GoalEdited { goal_id, .. }
            | EventBody::GoalBudgetChanged { goal_id, .. }
            | EventBody::GoalAmendmentProposed { goal_id, .. }
            | EventBody::GoalBlockStaged { goal_id, .. }
            | EventBody::GoalWaitSet { goal_id, .. }
            | EventBody::GoalWaitMet { goal_id }
            | EventBody::RetryScheduled { goal_id, .. } => goal_id,
            EventBody::RequestOpened { request } => match &request.goal_id {
                Some(goal_id) => goal_id,
                None => return,
            },
            EventBody::CommandStarted { command } => match &command.goal_id {
                Some(goal_id) => goal_id,
                None => return,
            },
            _ => return,
        };
        let ends = matches!(&event.body, EventBody::GoalMoved { to, .. } if to.state().is_terminal());
        let account = self.goals.entry(*about).or_default();
        let had_ended = account.has_ended;
        account.has_ended |= ends;
        if had_ended {
            self.breach(Fault::Ghost, event, format!("Goal {about} has ended"));
        }
    }

    /// Compares the results with what happened, and the usage with what was charged. Holds at any time.
    pub(crate) fn check_effects(&mut self, effects: &[String]) {
        let mut found = Vec::new();
        let mut broken = |fault, what: String| found.push(Breach { fault, what });
        if let Some(goal) = &self.state.core.goal {
            let account = self.goals.get(&goal.id);
            let (tokens, turns, active_ms) =
                account.map_or_else(Default::default, |sum| (sum.tokens, sum.turns, sum.active_ms));
            let usage = goal.usage;
            if (usage.tokens, usage.turns, usage.active_ms) != (tokens, turns, active_ms) {
                broken(Fault::Broken, format!("usage {usage:?} is not the sum of what was charged"));
            }
        }
        let mut runs: BTreeMap<&str, (usize, Vec<&Call>)> = BTreeMap::new();
        for effect in effects {
            runs.entry(effect).or_default().0 += 1;
        }
        for call in self.calls.values() {
            if let Some(token) = &call.token {
                runs.entry(token).or_default().1.push(call);
            }
        }
        for (token, (runs, calls)) in runs {
            let admitted = calls.iter().filter(|call| call.is_admitted).count();
            if runs > admitted {
                let fault = if runs > 1 { Fault::Duplicated } else { Fault::Ghost };
                broken(fault, format!("{token} happened {runs} times and was admitted {admitted} times"));
            }
            let did_run = |call: &&&Call| match call.outcome {
                // A background command is answered when it starts; its own end tells the rest.
                Some(CallOutcome::Succeeded) => call.tool != "watch",
                Some(CallOutcome::Failed | CallOutcome::Stopped) => true,
                _ => false,
            };
            let may_have = |call: &&&Call| {
                call.is_admitted
                    && !matches!(
                        call.outcome,
                        Some(CallOutcome::NotRun | CallOutcome::Denied | CallOutcome::Invalid)
                    )
            };
            if runs < calls.iter().filter(did_run).count() {
                broken(Fault::Lost, format!("{token} happened {runs} times, and more results say so"));
            }
            if runs > calls.iter().filter(may_have).count() {
                broken(Fault::Ghost, format!("{token} happened, and its result says that it did not"));
            }
        }
        self.breaches.append(&mut found);
    }

    /// What must hold once everybody did all they can: nothing runs, waits or is asked.
    pub(crate) fn check_rest(&mut self) {
        let mut found = Vec::new();
        let mut broken = |fault, what: String| found.push(Breach { fault, what });
        let core = &self.state.core;
        for (call, state) in &self.calls {
            if state.outcome.is_none() {
                broken(Fault::Lost, format!("{call} has no result"));
            }
        }
        if let Some((_, turn)) = core.running_turns().next() {
            broken(Fault::Lost, format!("turn {} runs for ever", turn.number));
        }
        if !core.commands.is_empty() {
            broken(Fault::Lost, "a background command runs for ever".to_owned());
        }
        for (id, row) in &self.rows {
            let waits = matches!(row.state, RowState::Waiting | RowState::Taken(_));
            // A report without a Goal waits for whatever comes next.
            if waits && row.kind != InputKind::Report {
                broken(Fault::Lost, format!("input {id} is never read"));
            }
        }
        if let Some(goal) = &core.goal {
            if goal.is_open() {
                broken(Fault::Broken, format!("Goal {} cannot be brought to an end", goal.id));
            }
            if goal.retry.is_some() || goal.wait.is_some() {
                broken(Fault::Broken, "a Goal that ended waits for something".to_owned());
            }
        }
        let last_end = core.lanes.get(&LaneId::main()).and_then(|lane| lane.last_end.as_ref());
        if !matches!(last_end, Some(TurnEnd::Ended { outcome: TurnOutcome::Completed, .. })) {
            broken(Fault::Lost, format!("the last prompt ended with {last_end:?}"));
        }
        self.breaches.append(&mut found);
    }

    /// The breaches, at the end of the reading.
    pub(crate) fn into_breaches(self) -> Vec<Breach> {
        self.breaches
    }
}

/// Whether anything happens in a session without anybody acting (T3), worked out anew.
pub(crate) fn can_run(core: &Core) -> bool {
    let active = core.goal.as_ref().filter(|goal| goal.status == GoalStatus::Active);
    let rows = core.lanes.values().flat_map(|lane| &lane.inbox).filter(|row| row.taken.is_none());
    let runnable = |row: &domain::InboxRow| match row.kind {
        InputKind::User | InputKind::Steer => true,
        InputKind::Answer if row.goal_id.is_none() => true,
        InputKind::Task => false,
        InputKind::Answer | InputKind::Report => {
            row.goal_id.is_some() && row.goal_id == active.map(|goal| goal.id)
        }
    };
    let has_input = !core.inbox_held && rows.into_iter().any(runnable);
    let has_turn = core.running_turns().next().is_some();
    has_turn || !core.commands.is_empty() || has_input || active.is_some_and(|goal| !goal.is_spent())
}
