//! A slice as a model that stateright explores.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use domain::SessionState;
use policy::{Command, Facts, Leases, UserActor, UserCommand, decide};
use stateright::Model;

use crate::act::{Act, UserAct, enabled};
use crate::canon::canonical;
use crate::doing::Doing;
use crate::property;
use crate::rest::stuck;
use crate::slice::Slice;
use crate::world::{Broken, Notes, START, World};

/// A slice, and what is known of it.
pub(crate) struct Explored {
    pub(crate) slice: Slice,
    /// States that come to rest and can be helped, without their tasks, which do not matter for that.
    fine: Mutex<HashSet<u64>>,
}

impl Explored {
    pub(crate) fn new(slice: Slice) -> Self {
        Self { slice, fine: Mutex::default() }
    }

    /// The session just opened, and with a Goal if the slice begins with one.
    pub(crate) fn first(&self) -> World {
        let open = UserCommand::OpenSession { workspace: "/w".to_owned(), agent: "build".parse().unwrap() };
        let state = SessionState::before_first(testkit::session_id(1));
        let facts =
            Facts { now: START, leases: Leases::default(), goal_is_known: false, evidence_is_new: false };
        let user = UserActor::for_client("cli".parse().unwrap());
        let decision = decide(&state, Command::User(&user, &open), &facts).unwrap();
        let world = World {
            leases: decision.leases().clone(),
            wake_at: decision.wake_at(),
            session: Arc::new(decision.into_parts().1),
            now: START,
            workers: vec![None; self.slice.workers],
            notes: Notes::default(),
            acts_left: self.slice.acts,
            broken: None,
        };
        let mut doing = Doing::new(&self.slice, world);
        if self.slice.has_goal {
            doing.user(UserAct::SetGoal).unwrap();
        }
        canonical(&self.slice, doing.world)
    }

    /// What an act leads to, and the kinds of the events that it causes. `None` if it changes nothing.
    pub(crate) fn step(&self, world: &World, act: &Act) -> Option<(World, Vec<&'static str>)> {
        let mut doing = Doing::new(&self.slice, world.clone());
        if !doing.act(act) {
            return None;
        }
        let mut next = canonical(&self.slice, doing.world);
        if self.slice.looks_ahead && next.broken.is_none() {
            self.look_ahead(&mut next);
        }
        Some((next, doing.log))
    }

    /// Notes in a state that it comes to no rest or cannot be helped.
    fn look_ahead(&self, world: &mut World) {
        let mut hasher = DefaultHasher::new();
        (&world.session, &world.leases, world.wake_at, &world.notes).hash(&mut hasher);
        let key = hasher.finish();
        if self.fine.lock().unwrap().contains(&key) {
            return;
        }
        match stuck(&self.slice, world) {
            Some((property, how)) => world.broken = Some(Broken { property, how }),
            None => {
                self.fine.lock().unwrap().insert(key);
            }
        }
    }
}

impl Model for Explored {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        enabled(&self.slice, world, acts);
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        self.step(world, &act).map(|(next, _)| next)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        property::conditions()
    }
}
