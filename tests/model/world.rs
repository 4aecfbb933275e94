//! A state of the model: what the store holds, what each worker believes, and what an onlooker noted.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    CallOutcome, CallRef, CommandId, FailureKind, InputId, LaneId, RequestId, RunningTurn, SessionState,
    Timestamp, TurnNumber,
};
use policy::{Leases, Owner};

use crate::property::Property;

/// The time of every state after it was made canonical: only distances matter.
pub(crate) const START: Timestamp = Timestamp(1_000_000_000);
/// The name of the process of workers that are gone where nobody can see it.
const GONE: &str = "gone";
/// The name of the process of workers whose death others on their machine see.
const DEAD: &str = "dead";

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// What the store holds of the session.
    pub(crate) session: Arc<SessionState>,
    /// The leases it holds.
    pub(crate) leases: Leases,
    /// The wake-up it holds.
    pub(crate) wake_at: Option<Timestamp>,
    /// The store's clock.
    pub(crate) now: Timestamp,
    /// One process each, and the turn that its task drives.
    pub(crate) workers: Vec<Option<Task>>,
    /// What the onlooker remembers.
    pub(crate) notes: Notes,
    /// How often the user may still act; no bound if absent.
    pub(crate) acts_left: Option<u8>,
    /// The first property that was seen broken. Nothing happens after that.
    pub(crate) broken: Option<Broken>,
}

/// A broken property, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    pub(crate) property: Property,
    pub(crate) how: &'static str,
}

/// A turn as the task that drives it knows it: the state after its last commit, which may be long ago.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) turn: TurnNumber,
    /// The ordinal of its last request.
    pub(crate) request: u32,
    /// Until when it believes that it has the lease.
    pub(crate) until: Timestamp,
    pub(crate) at: At,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// It is about to begin a request, at once or when its wait is over.
    Ready,
    /// It waits for the model.
    Requesting,
    /// It deals with a call of the response.
    Call { say: Say, index: u32, then: Option<Say>, step: CallStep },
    /// It is about to end the turn.
    Leaving(Leave),
    /// Its turn is over, and it does not know: it may try to write anything.
    Stale,
    /// Only with a bug: it looked at what is due and has not admitted it yet.
    Looked(Box<SessionState>),
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CallStep {
    /// To be admitted.
    Asked,
    /// To be answered without having run.
    Refused(CallOutcome),
    /// Admitted: its effect is about to happen or happened.
    Running,
}

/// How a turn is going to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Leave {
    Completed,
    ShutDown,
    Failed(FailureKind),
}

/// What a model may answer: a text, or the call of a tool. The name of the variant is the name of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Say {
    /// No call: the turn is done.
    Text,
    /// Looks at something.
    Read,
    /// Replaces a file.
    Write,
    /// Runs a command in a sandbox.
    Shell,
    /// Does something outside the machine.
    External,
    /// The same, and the permission rules want a person's leave.
    Guarded,
    /// `plan_update`.
    Plan,
    /// `goal_update` with `completed`.
    Done,
    /// `goal_update` with `blocked`.
    Block,
    /// `ask_user`.
    Ask,
    /// `ask_user`, and a write in the same response.
    AskAndWrite,
    /// `goal_wait` for a time.
    WaitTime,
    /// `goal_wait` for the last background command.
    WaitCommand,
    /// `goal_wait` for a file.
    WaitFile,
    /// `goal_wait` for an input.
    WaitInbox,
    /// A background command in a sandbox.
    Background,
    /// A background command without one.
    LooseBackground,
    /// `command_stop`.
    StopBackground,
    /// `goal_propose`.
    Propose,
}

impl Say {
    /// Every call that a tool of a model makes.
    pub(crate) const CALLS: [Self; 17] = [
        Self::Read,
        Self::Write,
        Self::Shell,
        Self::External,
        Self::Guarded,
        Self::Plan,
        Self::Done,
        Self::Block,
        Self::Ask,
        Self::WaitTime,
        Self::WaitCommand,
        Self::WaitFile,
        Self::WaitInbox,
        Self::Background,
        Self::LooseBackground,
        Self::StopBackground,
        Self::Propose,
    ];

    /// The calls of the response.
    pub(crate) fn calls(self) -> Vec<Self> {
        match self {
            Self::Text => Vec::new(),
            Self::AskAndWrite => vec![Self::Ask, Self::Write],
            one => vec![one],
        }
    }
}

/// What the onlooker remembers: what no rule may depend on, and what the state forgets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Notes {
    /// Calls whose effect happened, of those that somebody may still settle or repeat.
    pub(crate) happened: BTreeSet<CallRef>,
    /// Rows whose allowed call was admitted.
    pub(crate) allowed: BTreeSet<InputId>,
    /// Requests that were charged, of turns that somebody still drives.
    pub(crate) charged: BTreeSet<(TurnNumber, u32, u32)>,
    /// The number of the last continuation of the Goal.
    pub(crate) continuation: u64,
    /// What the Goal's requests cost.
    pub(crate) spent: u64,
    /// Continuations in a row that completed without evidence of progress.
    pub(crate) without_evidence: u8,
    /// Turns of the Goal in a row that were lost.
    pub(crate) lost: u8,
    /// Whether the running turn brought evidence.
    pub(crate) has_evidence: bool,
    /// The user interrupted and has not acted since.
    pub(crate) hush: bool,
    /// A request that was settled; a client may still show it.
    pub(crate) settled: Option<RequestId>,
    /// A call may have happened, and no pause told the user.
    pub(crate) uncertain: bool,
}

impl World {
    /// The running turn of the lane.
    pub(crate) fn running(&self) -> Option<&RunningTurn> {
        self.session.core.running_turns().next().map(|(_, running)| running)
    }

    /// Whether this turn runs and is asked to stop.
    pub(crate) fn is_to_stop(&self, turn: TurnNumber) -> bool {
        self.running().is_some_and(|running| running.number == turn && running.stop.is_some())
    }

    /// The processes whose death another worker can tell.
    pub(crate) fn seen_dead(owner: &Owner) -> bool {
        owner.worker.as_str() == DEAD
    }

    /// Whether somebody who lives has this name.
    pub(crate) fn is_alive(owner: &Owner) -> bool {
        !matches!(owner.worker.as_str(), DEAD | GONE)
    }

    /// Gives what a process owned to one that is gone, and its task with it.
    pub(crate) fn bury(&mut self, worker: usize, process: &Owner, is_seen: bool) {
        let heir = owner(if is_seen { DEAD } else { GONE });
        if let Some(lease) = self.leases.turn.as_mut().filter(|lease| lease.owner == *process) {
            lease.owner = heir.clone();
        }
        for lease in self.leases.commands.values_mut().filter(|lease| lease.owner == *process) {
            lease.owner = heir.clone();
        }
        self.workers[worker] = None;
    }

    /// The background commands that a process runs.
    pub(crate) fn commands_at(&self, process: &Owner) -> Vec<CommandId> {
        let leases = self.leases.commands.iter();
        leases.filter(|(_, lease)| lease.owner == *process).map(|(id, _)| *id).collect()
    }
}

/// A process of this name.
pub(crate) fn owner(name: &str) -> Owner {
    Owner { worker: name.parse().unwrap(), place: "here".to_owned(), pid: 1, started: 1 }
}

/// The only lane there is.
pub(crate) fn lane() -> LaneId {
    LaneId::main()
}
