//! The model's store: one command is decided on what is stored and the decision replaces it, as one step.
//!
//! Without a bug that is [`policy::decide`] and nothing else. A bug shows `decide` something else than what is stored,
//! or stores something else than what was decided; the rules themselves are the product's in either case.

use std::sync::Arc;

use domain::{Event, SessionState, Timestamp};
use policy::{Facts, Leases, Rejection, decide, wake_at};

use crate::commands::Order;
use crate::doing::{By, Doing};

/// What is about to be stored.
pub(crate) struct Entry {
    pub(crate) events: Vec<Event>,
    pub(crate) state: SessionState,
    pub(crate) leases: Leases,
    pub(crate) wake_at: Option<Timestamp>,
}

impl Doing<'_> {
    /// Decides an order and stores what was decided; then the onlooker looks.
    pub(crate) fn commit(&mut self, by: By, order: &Order) -> Result<(), Rejection> {
        let facts = Facts {
            now: self.world.now.max(self.world.session.core.last_at),
            leases: self.world.leases.clone(),
            // Every id that the model sends is fresh.
            goal_is_known: false,
            evidence_is_new: false,
        };
        let entry = match self.slice.bug {
            None => decided(&self.world.session, order, &facts, self)?,
            Some(bug) => bug.commit(self, by, order, facts)?,
        };
        let before = self.world.clone();
        // Without an event or another lease what is stored is as right as before.
        if !entry.events.is_empty() || entry.leases != before.leases {
            self.world.session = Arc::new(entry.state);
            self.world.leases = entry.leases;
            self.world.wake_at = entry.wake_at;
        }
        self.log.extend(entry.events.iter().map(|event| event.body.kind()));
        self.watch(&before, by, order, &entry.events);
        Ok(())
    }
}

/// What the product decides.
pub(crate) fn decided(
    state: &SessionState,
    order: &Order,
    facts: &Facts,
    doing: &Doing<'_>,
) -> Result<Entry, Rejection> {
    let decision = decide(state, order.as_command(&doing.slice.names), facts)?;
    let (leases, wake_at) = (decision.leases().clone(), decision.wake_at());
    let (events, state) = decision.into_parts();
    Ok(Entry { events, state, leases, wake_at })
}

impl Entry {
    /// Follows the events from another state, and derives anew what follows from it.
    pub(crate) fn refold(&mut self, from: &SessionState, now: Timestamp) {
        let mut state = from.clone();
        for (event, seq) in self.events.iter_mut().zip(from.core.head.0 + 1..) {
            event.seq = domain::Seq(seq);
            state.apply(event);
        }
        self.leases.turn = self.leases.turn.take().filter(|_| state.core.running_turns().next().is_some());
        self.leases.commands.retain(|id, _| state.core.command(*id).is_some());
        self.wake_at = wake_at(&state.core, &self.leases, now);
        self.state = state;
    }
}
