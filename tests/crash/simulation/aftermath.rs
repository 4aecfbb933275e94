//! What follows a crash: another process finds what was left, recovers it, and goes on until nothing is left to do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use domain::{
    CallOutcome, CallRef, Digest, Effect, Event, EventBody, GoalStatus, LaneId, OpenCall, PauseReason, Seq,
    SessionId, SessionState, Timestamp,
};
use policy::{Delivery, Scope};
use runtime::{Recovery, Step};
use serde_json::Value;
use store::{CommitSide, Head, at_each_commit};
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::effects;
use super::image::{Camera, Files, Image, files_of};
use super::mind::{Finisher, Shared};
use super::person::{Act, Person};
use super::promises::{Asked, Breach, Fault, can_run, read};
use super::site::{Manner, Process, Site};

/// Steps until a session rests: one that never does is a bug.
const STEPS: usize = 150;
/// Acts of a person who wants the session to come to rest.
const RESPONSES: usize = 8;
/// After the crash of recovery itself: at one of so many of its first commits.
const SECOND_CRASHES: u64 = 6;
/// A month: longer than anything waits.
const MONTH_MS: i64 = 31 * 24 * 60 * 60 * 1_000;

/// What is known of what an image holds.
pub(crate) struct Known<'a> {
    pub(crate) session: SessionId,
    /// The log of which the image has the beginning.
    pub(crate) log: &'a [Event],
    /// How much of it, at least and at most.
    pub(crate) durable: (usize, usize),
    pub(crate) asked: &'a Asked,
}

/// A broken variant of what follows, which the checks must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Control {
    /// The product as it is.
    None,
    /// An answer was given before its commit was durable.
    AnswersEarly,
    /// Recovery runs the calls without a result again.
    Replays,
    /// The worker never looks for lost turns.
    Forgets,
    /// A client lets a Goal go on that its user stopped.
    Resumes,
    /// A client sends a prompt because the plan is not finished.
    PlansOn,
}

impl Control {
    /// All that are broken.
    pub(crate) const ALL: [Self; 5] =
        [Self::AnswersEarly, Self::Replays, Self::Forgets, Self::Resumes, Self::PlansOn];

    /// What has to be noticed.
    pub(crate) const fn fault(self) -> Option<Fault> {
        match self {
            Self::None => None,
            Self::AnswersEarly | Self::Forgets => Some(Fault::Lost),
            Self::Replays => Some(Fault::Duplicated),
            Self::Resumes => Some(Fault::Ghost),
            Self::PlansOn => Some(Fault::PlanCaused),
        }
    }

    /// What it does wrong, for readers.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AnswersEarly => "the caller is told before the commit is durable",
            Self::Replays => "recovery runs the calls without a result again",
            Self::Forgets => "nobody looks for lost turns",
            Self::Resumes => "a client resumes a Goal that its user stopped",
            Self::PlansOn => "a client sends a prompt because the plan is not finished",
        }
    }

    /// Whether it makes a difference in this situation, as far as can be told before. `before` is the state before the
    /// image's commit, if it has one.
    pub(crate) fn fits(
        self,
        (before, state): (Option<&SessionState>, &SessionState),
        image: &Image,
        log: &[Event],
    ) -> bool {
        let core = &state.core;
        let running = core.running_turns().next().map(|(_, turn)| turn);
        match self {
            Self::None => true,
            Self::AnswersEarly => {
                image.side == CommitSide::After && before.is_some_and(|before| before.core.head < core.head)
            }
            Self::Forgets => running.is_some(),
            Self::Replays => running.is_some_and(|turn| {
                let mut open = turn.open_calls().into_iter();
                // An edit that was done does not apply again.
                open.any(|open| open.tool != "edit_file" && has_happened(&open, &image.journal, log))
            }),
            Self::Resumes => {
                let held = [PauseReason::User, PauseReason::Interrupted].map(GoalStatus::Paused);
                core.goal.as_ref().is_some_and(|goal| held.contains(&goal.status))
            }
            Self::PlansOn => {
                let plan = state.current_plan(&LaneId::main());
                state.open_goal().is_none() && plan.is_some_and(|plan| plan.unfinished() > 0)
            }
        }
    }
}

/// What became of a crash.
pub(crate) struct Outcome {
    pub(crate) breaches: Vec<Breach>,
    /// Whether the control found something to do wrong; always, if there is none.
    pub(crate) applied: bool,
    /// The turns that were lost and the calls that were settled, for the statistics.
    pub(crate) settled: Vec<CallOutcome>,
    pub(crate) lost_turns: u64,
    /// A crash in what followed, with the log it is the beginning of.
    pub(crate) second: Option<(Image, Vec<Event>, Asked)>,
}

struct After {
    site: Site,
    session: SessionId,
    process: Process,
    person: Person,
    chance: Chance,
    shared: Arc<Mutex<Shared>>,
    asked: Asked,
    is_death_seen: bool,
    control: Control,
    outcome: Outcome,
}

/// Lets another process find the image, and checks what it makes of it. `crashes` is whether it is to be cut off, too.
pub(crate) async fn follow(
    known: &Known<'_>,
    image: &Image,
    control: Control,
    mut chance: Chance,
    (crashes, names): (bool, (&'static str, &'static str)),
) -> Outcome {
    let site = Site::after(image).await;
    // Whoever comes next tells that the owner is gone, or only that it gave no sign of life for too long. Of an owner that
    // was there before a first crash it stays as it was.
    let leases = site.head(known.session).await.leases;
    let owners = leases.turn.iter().map(|lease| &lease.owner);
    let mut owners = owners.chain(leases.commands.values().map(|lease| &lease.owner));
    let is_death_seen = owners.any(|owner| owner.pid != std::process::id()) || chance.one_in(2);
    if is_death_seen {
        site.store.bury(std::process::id()).await.unwrap();
    }
    let shared = Shared::new(names.0, Chance::of(&[chance.below(u64::MAX)]));
    let finisher = Finisher { shared: Arc::clone(&shared), name: "finisher".parse().unwrap() };
    let process = site.process(|_| Arc::new(finisher), &Manner::default(), true);
    let log = site.log(known.session).await;
    let second = crashes.then(|| record_one(&site, &mut chance));
    let mut after = After {
        session: known.session,
        process,
        person: Person::new(names.1, Chance::of(&[chance.below(u64::MAX)])),
        chance,
        shared,
        asked: Asked { since: head_of(&log), ..known.asked.clone() },
        is_death_seen,
        control,
        outcome: Outcome {
            breaches: Vec::new(),
            applied: matches!(control, Control::None | Control::AnswersEarly),
            settled: Vec::new(),
            lost_turns: 0,
            second: None,
        },
        site,
    };
    after.check_prefix(known, &log);
    after.ask_again(image, &log).await;
    after.recover(&log, &image.files).await;
    after.check_now().await;
    after.go_on().await;
    after.come_to_an_end().await;
    after.end(second).await
}

fn head_of(log: &[Event]) -> Seq {
    log.last().map_or(Seq(0), |event| event.seq)
}

impl After {
    fn breach(&mut self, fault: Fault, what: impl Into<String>) {
        self.outcome.breaches.push(Breach { fault, what: what.into() });
    }

    /// What was there stands: everything that anybody was told of, and nothing else.
    fn check_prefix(&mut self, known: &Known<'_>, log: &[Event]) {
        let (least, most) = known.durable;
        if log.len() < least {
            self.breach(Fault::Lost, format!("{} of {least} events are left", log.len()));
        }
        if log.len() > most {
            self.breach(Fault::Ghost, format!("{} events, and {most} were decided", log.len()));
        }
        if !known.log.starts_with(log) {
            self.breach(Fault::Broken, "the events are not those that were decided");
        }
    }

    /// A client that got no answer asks again, with the same key.
    async fn ask_again(&mut self, image: &Image, log: &[Event]) {
        for act in image.asking.iter().filter(|act| act.is_keyed()) {
            if self.chance.one_in(4) {
                continue;
            }
            let is_there = act.prompt().is_some_and(|prompt| {
                let says = |event: &Event| matches!(&event.body, EventBody::InputQueued { text, .. } if text.as_str() == prompt);
                log.iter().any(says)
            });
            let before = self.site.seq(self.session).await;
            self.act(act).await;
            if is_there && self.site.seq(self.session).await != before {
                self.breach(Fault::Duplicated, format!("{act:?} was accepted twice"));
            }
        }
    }

    /// The harness acts in the name of a person.
    async fn act(&mut self, act: &Act) {
        let before = self.site.seq(self.session).await;
        self.asked.texts.extend(act.prompt().map(str::to_owned));
        // A refusal is an answer like any other; a fault is none.
        if let Err(store::ExecuteError::Fault(error)) = act.perform(&self.process.user, self.session).await {
            self.breach(Fault::Broken, format!("{act:?} failed: {error}"));
        }
        let after = self.site.seq(self.session).await;
        self.asked.events.extend((before.0 + 1..=after.0).map(Seq));
    }

    async fn note(&mut self) -> Head {
        let head = self.site.head(self.session).await;
        self.shared.lock().unwrap().learn(&head.state);
        head
    }

    /// Recovers what ran, once its owner is seen dead or its time is over and not before, and once only.
    async fn recover(&mut self, log: &[Event], files: &Files) {
        let state = SessionState::fold(self.session, log);
        let expected = settlements(&state, files, self.is_death_seen);
        if self.control == Control::Replays {
            self.replay(&state, log).await;
        }
        if self.control == Control::Forgets {
            self.outcome.applied = state.core.running_turns().next().is_some();
            return;
        }
        if !self.is_death_seen {
            self.let_the_leases_end().await;
        }
        let mut recovered = Vec::new();
        loop {
            let head = self.note().await;
            let core = &head.state.core;
            if core.running_turns().next().is_none() && core.commands.is_empty() {
                break;
            }
            match self.process.engine.step(self.session, Scope::All).await {
                Ok(Step::Recovered { events }) => recovered.extend(events),
                other => {
                    self.breach(Fault::Broken, format!("what ran is not recovered: {other:?}"));
                    return;
                }
            }
        }
        self.check_recovery(&state, &expected, &recovered);
        self.check_that_a_second_recovery_finds_nothing().await;
    }

    async fn let_the_leases_end(&mut self) {
        if self.chance.one_in(2) {
            self.check_that_nobody_is_replaced_early().await;
        }
        let head = self.site.head(self.session).await;
        let leases = head.leases.turn.iter().map(|lease| lease.expires_at);
        let leases = leases.chain(head.leases.commands.values().map(|lease| lease.expires_at));
        if let Some(last) = leases.max() {
            self.site.forward_to(last);
        }
    }

    async fn check_that_nobody_is_replaced_early(&mut self) {
        let head = self.site.head(self.session).await;
        let Some(lease) = head.leases.turn.filter(|lease| lease.expires_at > self.process.sessions.now())
        else {
            return;
        };
        let before = self.site.seq(self.session).await;
        let found = self.process.sessions.recover(self.session, self.site.inspection()).await;
        let expected = Recovery::OwnerIsAlive { until: lease.expires_at };
        let after = self.site.seq(self.session).await;
        if !matches!(&found, Ok(found) if *found == expected) || before != after {
            self.breach(Fault::Broken, format!("an owner with time left was replaced: {found:?}"));
        }
    }

    fn check_recovery(
        &mut self,
        state: &SessionState,
        expected: &BTreeMap<CallRef, CallOutcome>,
        recovered: &[Event],
    ) {
        let mut settled = BTreeMap::new();
        for event in recovered {
            match &event.body {
                EventBody::CallFinished { call, outcome, .. } => {
                    settled.insert(*call, *outcome);
                }
                EventBody::TurnLost { .. } => self.outcome.lost_turns += 1,
                _ => {}
            }
        }
        if settled != *expected {
            let what = format!("calls are settled as {settled:?}, and what is there says {expected:?}");
            self.breach(Fault::Broken, what);
        }
        let ran = state.core.running_turns().count();
        let ended = recovered
            .iter()
            .filter(|event| matches!(event.body, EventBody::TurnLost { .. } | EventBody::TurnEnded { .. }));
        let ended = ended.count();
        if ran != ended {
            self.breach(Fault::Broken, format!("{ran} turns ran and {ended} were ended"));
        }
        self.outcome.settled.extend(settled.into_values());
    }

    async fn check_that_a_second_recovery_finds_nothing(&mut self) {
        let before = self.site.seq(self.session).await;
        let found = self.process.sessions.recover(self.session, self.site.inspection()).await;
        let after = self.site.seq(self.session).await;
        if !matches!(found, Ok(Recovery::NothingRuns)) || before != after {
            self.breach(Fault::Duplicated, format!("a second recovery found {found:?}"));
        }
    }

    /// The store is sound, and it wakes somebody exactly if something can go on.
    async fn check_now(&mut self) {
        for finding in self.site.doctor().await {
            self.breach(Fault::Broken, format!("doctor: {finding}"));
        }
        let head = self.note().await;
        let can_run = can_run(&head.state.core);
        if head.wake_at.is_some() != can_run {
            let fault = if can_run { Fault::Lost } else { Fault::Ghost };
            self.breach(fault, format!("wake_at is {:?}", head.wake_at));
        }
        if self.control == Control::Resumes
            && let Some(goal) = &head.state.core.goal
            && matches!(goal.status, GoalStatus::Paused(PauseReason::User | PauseReason::Interrupted))
        {
            self.outcome.applied = self.process.user.resume_goal(self.session).await.is_ok();
        }
    }

    /// Steps until nothing goes on, with a person who does what is needed for that.
    async fn go_on(&mut self) {
        let mut responses = 0;
        for _ in 0..STEPS {
            let head = self.note().await;
            if self.control == Control::Forgets && head.state.core.running_turns().next().is_some() {
                return;
            }
            let until = match self.process.engine.step(self.session, Scope::All).await {
                Ok(Step::Ran { .. } | Step::Recovered { .. }) => continue,
                Ok(Step::Busy { until } | Step::WaitUntil { at: until }) => Some(until),
                Ok(Step::WaitFor { until, .. }) => until,
                Ok(Step::Idle { .. } | Step::GoalHeldBack) => {
                    let head = self.note().await;
                    if let Some(at) = head.wake_at {
                        self.breach(Fault::Broken, format!("idle, and it wakes at {at:?}"));
                    }
                    self.plan_on(&head).await;
                    let act = self.person.response(&head).filter(|_| responses < RESPONSES);
                    let Some(act) = act else { return };
                    responses += 1;
                    self.act(&act).await;
                    continue;
                }
                Err(error) => {
                    self.breach(Fault::Broken, format!("a step failed: {error}"));
                    return;
                }
            };
            match until {
                Some(until) => self.site.forward_to(until.max(self.process.sessions.now().plus_ms(1))),
                None => {
                    self.breach(Fault::Lost, "it waits for something that nobody does");
                    return;
                }
            }
        }
        self.breach(Fault::Broken, "it never rests");
    }

    /// The user gives the Goal up and says a last thing: both work whatever went before, and then all is quiet.
    async fn come_to_an_end(&mut self) {
        self.shared.lock().unwrap().calm();
        let head = self.note().await;
        if head.state.core.goal.as_ref().is_some_and(domain::Goal::is_open) {
            self.act(&Act::Cancel).await;
        }
        let text = self.person.new_text();
        self.act(&Act::Say { text, delivery: Delivery::Queue, resume: false, key: None }).await;
        self.go_on().await;
        let before = self.site.seq(self.session).await;
        self.site.forward_to(Timestamp(self.process.sessions.now().0 + MONTH_MS));
        if self.control != Control::Forgets {
            let step = self.process.engine.step(self.session, Scope::All).await;
            let after = self.site.seq(self.session).await;
            if !matches!(step, Ok(Step::Idle { .. })) || before != after {
                self.breach(Fault::Ghost, format!("after the end: {step:?}"));
            }
        }
    }

    async fn end(mut self, second: Option<Rc<RefCell<Snapshot>>>) -> Outcome {
        at_each_commit(None);
        let log = self.site.log(self.session).await;
        for finding in self.site.doctor().await {
            self.breach(Fault::Broken, format!("doctor at the end: {finding}"));
        }
        let mut reading = read(self.session, &log, &self.asked);
        reading.check_effects(&self.site.effects());
        reading.check_rest();
        self.outcome.breaches.extend(reading.into_breaches());
        if let Some(second) = second.and_then(Rc::into_inner) {
            let image = second.into_inner().camera.develop().pop();
            self.outcome.second = image.map(|image| (image, log, self.asked.clone()));
        }
        drop(self.process);
        self.site.store.close().await;
        self.outcome
    }
}

/// What the controls do wrong.
impl After {
    /// Runs again what was admitted and has no result.
    async fn replay(&mut self, state: &SessionState, log: &[Event]) {
        let Some((_, running)) = state.core.running_turns().next() else { return };
        let effects = self.site.effects();
        let tools = self.site.tools(&self.process.park);
        let open = running.open_calls().into_iter();
        for open in open.filter(|open| has_happened(open, &effects, log)) {
            let arguments: Value = serde_json::from_str(&arguments_of(open.call, log).unwrap()).unwrap();
            let tool = tools.iter().find(|tool| tool.spec().name == open.tool).unwrap();
            let Ok(prepared) = tool.prepare(arguments).await else { continue };
            let stop = CancellationToken::new();
            stop.cancel();
            prepared.run(stop).await;
            self.outcome.applied = true;
        }
    }

    /// Says to go on with a plan.
    async fn plan_on(&mut self, head: &Head) {
        let plan = head.state.current_plan(&LaneId::main());
        let is_free = head.state.open_goal().is_none() && !head.state.core.inbox_held;
        if self.control == Control::PlansOn
            && !self.outcome.applied
            && is_free
            && plan.is_some_and(|plan| plan.unfinished() > 0)
        {
            let text = "Go on with the plan".to_owned();
            let act = Act::Say { text, delivery: Delivery::Queue, resume: false, key: None };
            self.outcome.applied = act.perform(&self.process.user, self.session).await.is_ok();
        }
    }
}

/// Whether a call without a result did what it was admitted for.
fn has_happened(open: &OpenCall<'_>, effects: &[String], log: &[Event]) -> bool {
    let token = arguments_of(open.call, log).and_then(|arguments| effects::token_of(&arguments));
    open.effect.is_some() && token.is_some_and(|token| effects.contains(&token))
}

/// The arguments of a call as its model wrote them.
fn arguments_of(call: CallRef, log: &[Event]) -> Option<String> {
    log.iter().find_map(|event| match &event.body {
        EventBody::ModelResponded { turn, request, calls, .. }
            if (*turn, *request) == (call.turn, call.request) =>
        {
            calls.get(usize::try_from(call.index).ok()?).map(|call| call.arguments.clone())
        }
        _ => None,
    })
}

/// How each call of the running turn without a result has to be settled, going by what is there.
fn settlements(state: &SessionState, files: &Files, is_death_seen: bool) -> BTreeMap<CallRef, CallOutcome> {
    let Some((_, running)) = state.core.running_turns().next() else { return BTreeMap::new() };
    let settled = |effect: Option<&Effect>| match effect {
        None => CallOutcome::NotRun,
        Some(Effect::Read | Effect::Job | Effect::Command { confined: true }) => CallOutcome::Lost,
        Some(Effect::Command { confined: false } | Effect::External | Effect::WorkState) => {
            CallOutcome::Uncertain
        }
        Some(Effect::FileWrite { path, before, after }) => {
            let found: Option<Digest> = files.get(path).map(|content| store::digest(content));
            match found {
                found if found == Some(*after) => CallOutcome::Succeeded,
                found if found == *before && is_death_seen => CallOutcome::NotRun,
                _ => CallOutcome::Uncertain,
            }
        }
    };
    running.open_calls().into_iter().map(|open| (open.call, settled(open.effect))).collect()
}

/// Takes one image of what follows a crash.
struct Snapshot {
    camera: Camera,
    commits: u64,
}

fn record_one(site: &Site, chance: &mut Chance) -> Rc<RefCell<Snapshot>> {
    let snapshot = Rc::new(RefCell::new(Snapshot { camera: Camera::new(&site.database()), commits: 0 }));
    let chosen = 1 + chance.below(SECOND_CRASHES);
    let chosen_side = if chance.one_in(2) { CommitSide::Before } else { CommitSide::After };
    let (kept, clock) = (Rc::clone(&snapshot), Arc::clone(&site.clock));
    let (journal, root) = (Arc::clone(&site.journal), site.root());
    at_each_commit(Some(Box::new(move |side| {
        let mut snapshot = kept.borrow_mut();
        snapshot.commits += u64::from(side == CommitSide::Before);
        if (snapshot.commits, side) == (chosen, chosen_side) {
            snapshot.camera.take(Image {
                commit: usize::try_from(chosen).unwrap(),
                side,
                database: Arc::default(),
                wal: Arc::default(),
                wal_bytes: 0,
                files: Arc::new(files_of(&root)),
                journal: Arc::new(journal.lock().unwrap().clone()),
                now: store::Clock::now(&*clock),
                asking: Vec::new(),
            });
        }
    })));
    snapshot
}
