//! What a killed worker left: its log and its files, what must follow from them, and whether it did.
//!
//! The expectation is worked out here from the log and the disk, not by the rules under test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use domain::{
    CallOutcome, CallRef, CommandId, Effect, Event, EventBody, InputKind, ModelCall, SessionId, TurnNumber,
    TurnTrigger,
};
use serde_json::Value;
use store::SystemClock;
use tests::{World, story};

/// The session of a killed worker as the kill left it.
pub(crate) struct Wreck {
    /// Everything that was durable, and so everything that anybody was told.
    pub(crate) log: Vec<Event>,
    /// The turn that ran.
    pub(crate) running: Option<TurnNumber>,
    /// Its calls without a result, and how each has to be settled.
    pub(crate) open: BTreeMap<CallRef, CallOutcome>,
    /// The background commands that ran.
    pub(crate) commands: BTreeSet<CommandId>,
    /// Whether a Goal pays for a model request that has no answer.
    pub(crate) owes: bool,
}

impl Wreck {
    /// Looks at what is there.
    pub(crate) async fn examine(world: &World<SystemClock>, session: SessionId) -> Self {
        let log = world.log(session).await;
        let (open, commands) = (BTreeMap::new(), BTreeSet::new());
        let mut wreck = Self { log: Vec::new(), running: None, open, commands, owes: false };
        let mut asked: BTreeMap<CallRef, &ModelCall> = BTreeMap::new();
        let mut admitted = BTreeMap::new();
        for event in &log {
            match &event.body {
                EventBody::TurnStarted { turn, .. } => (wreck.running, wreck.owes) = (Some(*turn), false),
                EventBody::ModelRequested { charged_to, .. } => wreck.owes = charged_to.is_some(),
                EventBody::ModelResponded { turn, request, calls, .. } => {
                    wreck.owes = false;
                    let named = |(index, call)| (CallRef { turn: *turn, request: *request, index }, call);
                    asked.extend((0..).zip(calls).map(named));
                }
                EventBody::CallAdmitted { call, effect, .. } => {
                    admitted.insert(*call, effect);
                }
                EventBody::CallFinished { call, .. } => {
                    asked.remove(call);
                }
                EventBody::TurnEnded { .. } | EventBody::TurnLost { .. } => wreck.running = None,
                EventBody::CommandStarted { command } => {
                    wreck.commands.insert(command.id);
                }
                EventBody::CommandEnded { command, .. } => {
                    wreck.commands.remove(command);
                }
                _ => {}
            }
        }
        let settled = |(call, asked)| {
            let effect = admitted.get(&call);
            (call, effect.map_or(CallOutcome::NotRun, |effect| settlement(world, asked, effect)))
        };
        wreck.open = asked.into_iter().map(settled).collect();
        wreck.log = log;
        wreck
    }

    /// A call of which nobody can tell whether it happened.
    pub(crate) fn uncertain(&self) -> Option<CallRef> {
        let uncertain = self.open.iter().find(|(_, outcome)| **outcome == CallOutcome::Uncertain);
        uncertain.map(|(call, _)| *call)
    }

    /// Checks the log after another worker found the wreck: what was there stands, the turn that ran was decided once and
    /// as it must, and nothing was started, run or charged twice.
    #[track_caller]
    pub(crate) fn check(&self, log: &[Event]) {
        let told = story(log);
        self.check_sequel(log, &told);
        let expected: Vec<_> = lost(&self.log).into_iter().chain(self.running).collect();
        assert_eq!(lost(log), expected, "\n{told}");
        check_history(log, &told);
    }

    /// Checks that a longer log continues this one: what was there stands, and the turn that ran was decided first of
    /// all.
    #[track_caller]
    pub(crate) fn check_sequel(&self, log: &[Event], told: &str) {
        assert!(log.starts_with(&self.log), "what was accepted is not all there:\n{told}");
        assert!(log.iter().map(|event| event.seq.0).eq(1..=log.len() as u64), "numbers with a gap:\n{told}");
        self.check_recovery(&log[self.log.len()..], told);
    }

    /// The first thing to follow is the decision on what ran, and it is complete.
    #[track_caller]
    fn check_recovery(&self, followed: &[Event], told: &str) {
        let (mut settled, mut cut_off) = (BTreeMap::new(), BTreeSet::new());
        let (mut lost, mut charged) = (None, 0);
        for event in followed {
            if (lost, &cut_off) == (self.running, &self.commands) {
                break;
            }
            match &event.body {
                EventBody::CallFinished { call, outcome, .. } => {
                    settled.insert(*call, *outcome);
                }
                EventBody::GoalCharged { usage, .. } => {
                    assert!(usage.estimated, "nobody knows what it cost:\n{told}");
                    charged += 1;
                }
                EventBody::GoalTimeCharged { .. }
                | EventBody::GoalBudgetAnnounced { .. }
                | EventBody::InputReturned { .. } => {}
                EventBody::CommandEnded { command, outcome, .. } => {
                    let of_a_crash = matches!(outcome, CallOutcome::Uncertain | CallOutcome::Lost);
                    assert!(of_a_crash, "command {command} {}:\n{told}", outcome.name());
                    cut_off.insert(*command);
                }
                // The report of a command that was cut off, and what holds its Goal.
                EventBody::InputQueued { input: InputKind::Report, .. }
                | EventBody::GoalMoved { .. }
                | EventBody::GoalWaitMet { .. }
                | EventBody::TurnStopRequested { .. }
                    if !cut_off.is_empty() => {}
                EventBody::TurnLost { turn } => lost = Some(*turn),
                other => panic!("{} before what ran was decided:\n{told}", other.kind()),
            }
        }
        assert_eq!((lost, &cut_off), (self.running, &self.commands), "never decided:\n{told}");
        if self.running.is_some() {
            assert_eq!(settled, self.open, "\n{told}");
            assert_eq!(charged, u32::from(self.owes), "\n{told}");
        }
    }
}

/// The turns that were declared lost.
pub(crate) fn lost(log: &[Event]) -> Vec<TurnNumber> {
    let of = |event: &Event| match event.body {
        EventBody::TurnLost { turn } => Some(turn),
        _ => None,
    };
    log.iter().filter_map(of).collect()
}

/// How an admitted call without a result has to be settled, going by what is on disk.
fn settlement(world: &World<SystemClock>, call: &ModelCall, effect: &Effect) -> CallOutcome {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    let text = |key: &str| arguments[key].as_str().unwrap();
    let on_disk = |path: &str| fs::read_to_string(world.path(path)).unwrap_or_default();
    let done = match call.tool.as_str() {
        "write_file" => on_disk(text("path")) == text("content"),
        "edit_file" => on_disk(text("path")).contains(text("new_string")),
        "read_file" => return CallOutcome::Lost,
        // Within walls it changed nothing but the workspace, and there looking tells.
        "shell" if *effect == (Effect::Command { confined: true }) => return CallOutcome::Lost,
        "shell" => return CallOutcome::Uncertain,
        other => panic!("{other} commits together with its admission"),
    };
    if done { CallOutcome::Succeeded } else { CallOutcome::NotRun }
}

/// Turns follow each other, each ends once, each call is admitted at most once and has one result, each continuation
/// number is used once and each request is charged once.
#[track_caller]
pub(crate) fn check_history(log: &[Event], told: &str) {
    let mut running = None;
    let mut continuations = Vec::new();
    let mut once = BTreeSet::new();
    let mut happens_once = |what: String| assert!(once.insert(what.clone()), "{what} twice:\n{told}");
    for event in log {
        match &event.body {
            EventBody::TurnStarted { turn, trigger, .. } => {
                assert_eq!(running.replace(*turn), None, "two turns at a time:\n{told}");
                if let TurnTrigger::Goal { continuation, .. } = trigger {
                    continuations.push(*continuation);
                }
            }
            EventBody::TurnEnded { turn, .. } | EventBody::TurnLost { turn } => {
                assert_eq!(running.take(), Some(*turn), "a turn that does not run ends:\n{told}");
            }
            EventBody::CallAdmitted { call, .. } => happens_once(format!("admission of {call}")),
            EventBody::CallFinished { call, .. } => happens_once(format!("result of {call}")),
            EventBody::GoalCharged { turn, request, attempt, .. } => {
                happens_once(format!("charge for attempt {attempt} at {turn}.{request}"));
            }
            EventBody::InputConsumed { rows, .. } => {
                for row in rows {
                    happens_once(format!("input {row}"));
                }
            }
            EventBody::PlanRevised { plan, .. } => happens_once(format!("plan revision {}", plan.revision)),
            EventBody::CommandEnded { command, .. } => happens_once(format!("end of command {command}")),
            _ => {}
        }
    }
    assert_eq!(running, None, "a turn still runs:\n{told}");
    let count = continuations.len() as u64;
    assert!(continuations.into_iter().eq(1..=count), "continuation numbers:\n{told}");
}
