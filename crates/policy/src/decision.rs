//! A decision: events that may be appended, made by [`decide`](crate::decide) and by nothing else.

use domain::{Actor, Condition, Event, EventBody, Goal, LaneId, Seq, SessionId, SessionState, Timestamp};

use crate::continuation;
use crate::facts::{Facts, Leases};
use crate::job;

/// What a command causes. The private fields and the single constructor make "no check was skipped" a property
/// of the store's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    session: SessionId,
    based_on: Seq,
    events: Vec<Event>,
    state: SessionState,
    leases: Leases,
    wake_at: Option<Timestamp>,
}

impl Decision {
    /// The session it is about.
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// The head of the log it was made on; it fits no other.
    pub const fn based_on(&self) -> Seq {
        self.based_on
    }

    /// The events in order. Empty for a command that asks for what already is.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The state after them.
    pub const fn state(&self) -> &SessionState {
        &self.state
    }

    /// The leases after them; none for what does not run any more.
    pub const fn leases(&self) -> &Leases {
        &self.leases
    }

    /// When the session needs attention next without anybody acting (T3).
    pub const fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }

    /// Takes the decision apart for storing.
    pub fn into_parts(self) -> (Vec<Event>, SessionState) {
        (self.events, self.state)
    }
}

/// A decision in the making: each event is applied at once, so that later rules see what earlier ones caused.
pub(crate) struct Draft<'a> {
    pub(crate) state: SessionState,
    pub(crate) facts: &'a Facts,
    pub(crate) leases: Leases,
    based_on: Seq,
    actor: Actor,
    events: Vec<Event>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: &SessionState, facts: &'a Facts, actor: Actor) -> Self {
        Self {
            state: state.clone(),
            facts,
            leases: facts.leases.clone(),
            based_on: state.core.head,
            actor,
            events: Vec::new(),
        }
    }

    pub(crate) const fn now(&self) -> Timestamp {
        self.facts.now
    }

    pub(crate) const fn actor(&self) -> &Actor {
        &self.actor
    }

    pub(crate) fn emit(&mut self, body: EventBody) {
        let event = Event {
            seq: self.state.core.head.next(),
            at: self.facts.now.max(self.state.core.last_at),
            actor: self.actor.clone(),
            body,
            command_key: None,
        };
        self.state.apply(&event);
        self.events.push(event);
    }

    pub(crate) fn finish(mut self) -> Decision {
        job::end_forgotten(&mut self);
        self.test_wait();
        let core = &self.state.core;
        let mut leases = self.leases;
        leases.turn = leases.turn.filter(|_| core.running_turns().next().is_some());
        leases.commands.retain(|id, _| core.command(*id).is_some());
        leases.next_look = leases.next_look.filter(|_| continuation::waits_for_file(core));
        Decision {
            session: self.state.id,
            based_on: self.based_on,
            wake_at: continuation::wake_at(core, &leases, self.facts.now),
            events: self.events,
            state: self.state,
            leases,
        }
    }

    /// A condition within the session is tested at every event, and so also when the wait is stored (G10).
    fn test_wait(&mut self) {
        let core = &self.state.core;
        let Some(goal) = core.goal.as_ref().filter(|goal| goal.is_open()) else { return };
        let Some(wait) = goal.wait.as_ref().filter(|wait| !wait.is_met) else { return };
        let is_met = match wait.condition {
            Condition::Time | Condition::File { .. } => false,
            Condition::Command { command } => core.command(command).is_none(),
            Condition::Job { job } => core.job(job).is_none(),
            Condition::Inbox => {
                let main = core.lanes.get(&LaneId::main());
                main.is_some_and(|slot| slot.inbox.iter().any(|row| row.taken.is_none()))
            }
        };
        if is_met {
            let Goal { id: goal_id, .. } = *goal;
            self.emit(EventBody::GoalWaitMet { goal_id });
        }
    }
}
