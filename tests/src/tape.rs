//! An observer that keeps what it sees, and lets a test act at the very moment of an event.

use std::sync::Mutex;

use domain::{Event, SessionId};
use runtime::{Delta, Observer};

type Act = Box<dyn Fn(&Event) + Send>;

/// What was seen of turns.
#[derive(Default)]
pub struct Tape {
    events: Mutex<Vec<(SessionId, Event)>>,
    text: Mutex<String>,
    act: Mutex<Option<Act>>,
}

impl Tape {
    /// The events that were reported for a session.
    pub fn events(&self, session: SessionId) -> Vec<Event> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(of, _)| *of == session).map(|(_, event)| event.clone()).collect()
    }

    /// The text that was streamed, of all sessions.
    pub fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// From here on does this at each event, before the turn goes on.
    pub fn at_each(&self, act: impl Fn(&Event) + Send + 'static) {
        *self.act.lock().unwrap() = Some(Box::new(act));
    }
}

impl Observer for Tape {
    fn event(&self, session: SessionId, event: &Event) {
        self.events.lock().unwrap().push((session, event.clone()));
        if let Some(act) = &*self.act.lock().unwrap() {
            act(event);
        }
    }

    fn delta(&self, _: SessionId, delta: Delta<'_>) {
        if let Delta::Text(text) = delta {
            self.text.lock().unwrap().push_str(text);
        }
    }
}
