//! One history: a person, two workers and time take turns, commit by commit, as a seed has it.
//!
//! Each worker's step is a future that is polled only when it is its turn, until its next commit is durable. What it
//! was told of that commit it reads when it is polled again, and others may have acted by then. So every interleaving of
//! commits can come up, and each comes from the seed alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use domain::{CommandId, Event, Seq, SessionId, Timestamp, TurnNumber, TurnPhase};
use policy::{LEASE_MS, Scope};
use runtime::{Asking, EngineError, Step, TurnLimits};
use store::{Clock, CommitSide, ExecuteError, Head, at_each_commit};

use super::chance::Chance;
use super::effects::AT_ONCE;
use super::image::{Camera, Files, Image};
use super::mind::{Mind, Shared};
use super::person::{Act, Person};
use super::promises::{Asked, Breach, Fault, read};
use super::site::{Manner, Process, Site};

/// How long a worker whose turn it is may take to its next commit before the history is called stuck. In real time, and
/// far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often something is looked at that happens on its own.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// When a lease is renewed, after this part of its life.
const RENEW_MS: i64 = LEASE_MS / 3;
/// Choices in one history at most: a history that does not end is a bug.
const CHOICES: usize = 3_000;

/// How long histories are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Acts of the person.
    pub(crate) acts: usize,
    /// Commits after which the history is over.
    pub(crate) commits: usize,
}

/// What came of a history.
pub(crate) struct History {
    pub(crate) seed: u64,
    pub(crate) session: SessionId,
    pub(crate) log: Vec<Event>,
    /// The end of the log after each commit, as it was read then; from the state before the first.
    pub(crate) heads: BTreeMap<usize, Seq>,
    pub(crate) images: Vec<Image>,
    pub(crate) asked: Asked,
    pub(crate) breaches: Vec<Breach>,
}

impl History {
    /// The events that were durable after so many commits: at least, and at most.
    pub(crate) fn durable_after(&self, commits: usize) -> (usize, usize) {
        let at = |seq: Option<(&usize, &Seq)>| usize::try_from(seq.unwrap().1.0).unwrap();
        let least = at(self.heads.range(..=commits).next_back());
        let most = self.heads.range(commits..).next().map_or(self.log.len(), |found| at(Some(found)));
        (least, most)
    }
}

/// Takes the images while the store is written.
struct Recorder {
    camera: Camera,
    commits: usize,
    asking: Vec<Act>,
    files: Arc<Files>,
}

/// A step that has not ended.
type UnderWay = Pin<Box<dyn Future<Output = Result<Step, EngineError>> + Send>>;

/// A worker and the step it is at.
struct Worker {
    process: Process,
    scope: Scope,
    step: Option<UnderWay>,
    turn: Option<TurnNumber>,
    /// The background commands that run here.
    commands: Vec<CommandId>,
    /// One that is durable and begins when this worker learns of it.
    begins: Option<CommandId>,
}

/// What a worker's turn came to.
enum Came {
    /// Its commit is durable.
    Committed,
    /// It waits at the park.
    Parked,
    Done(Result<Step, EngineError>),
}

#[derive(Debug, Clone, Copy)]
enum Choice {
    Go(usize),
    Release(usize),
    Die(usize),
    EndCommand(usize),
    Act,
    TwoActs,
    Jump,
}

/// What a worker can do at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Idle,
    Goes,
    /// It waits for time or at the park; a look around would make it move.
    Stirred,
    Held,
}

struct Teller {
    site: Site,
    session: SessionId,
    workers: [Worker; 2],
    person: Person,
    chance: Chance,
    recorder: Rc<RefCell<Recorder>>,
    shared: Arc<Mutex<Shared>>,
    heads: BTreeMap<usize, Seq>,
    asked: Asked,
    breaches: Vec<Breach>,
    acts_left: usize,
    manner: Manner,
}

/// Tells the history of a seed and takes an image before and after each of its commits.
pub(crate) async fn tell(seed: u64, size: Size) -> History {
    let mut teller = Teller::new(seed, size).await;
    let mut choices = 0;
    loop {
        let head = teller.note().await;
        if teller.recorder.borrow().commits >= size.commits {
            break;
        }
        let Some(choice) = teller.choose(&head) else { break };
        teller.carry_out(choice, &head).await;
        teller.settle().await;
        choices += 1;
        assert!(choices < CHOICES, "seed {seed} does not come to an end");
    }
    teller.end(seed).await
}

impl Teller {
    async fn new(seed: u64, size: Size) -> Self {
        let place = Site::new().await;
        let mut chance = Chance::of(&[seed]);
        let shared = Shared::new("t", Chance::of(&[seed, 1]));
        let person = Person::new("Ada", Chance::of(&[seed, 2]));
        let asking = match chance.below(8) {
            0 => Asking::Nobody { hint: "Allow it.".to_owned() },
            _ => Asking::Wait,
        };
        let max_requests = if chance.one_in(4) { 5.try_into().unwrap() } else { tests::MOST_REQUESTS };
        let limits = TurnLimits { max_requests, ..TurnLimits::default() };
        let manner = Manner { asking, limits };
        // One worker takes everything; the other may leave Goals to the person.
        let scopes = [Scope::All, if chance.one_in(6) { Scope::InputOnly } else { Scope::All }];
        let workers = scopes.map(|scope| Worker::new(&place, &shared, &manner, scope));
        let root = place.root().display().to_string();
        let user = &workers[0].process.user;
        let session = user.open_session(&root, "build".parse().unwrap()).await.unwrap();
        let recorder = Rc::new(RefCell::new(Recorder {
            camera: Camera::new(&place.database()),
            commits: 0,
            asking: Vec::new(),
            files: Arc::default(),
        }));
        record(&recorder, &place);
        Self {
            site: place,
            session,
            workers,
            person,
            chance,
            recorder,
            shared,
            heads: BTreeMap::new(),
            asked: Asked { since: Seq(u64::MAX), ..Asked::default() },
            breaches: Vec::new(),
            acts_left: size.acts,
            manner,
        }
    }

    fn now(&self) -> Timestamp {
        self.site.clock.now()
    }

    /// Reads where the session stands, and tells those who want to know.
    async fn note(&mut self) -> Head {
        let head = self.site.head(self.session).await;
        self.heads.insert(self.recorder.borrow().commits, head.state.core.head);
        self.shared.lock().unwrap().learn(&head.state);
        head
    }

    /// What is next; `None` once nothing is due and the person is done.
    fn choose(&mut self, head: &Head) -> Option<Choice> {
        let mut choices = Vec::new();
        let is_due = head.wake_at.is_some_and(|at| at <= self.now());
        let mut is_busy = false;
        for at in 0..self.workers.len() {
            let standing = self.standing(at, head);
            is_busy |= standing == Standing::Goes || standing == Standing::Stirred;
            let weight = match standing {
                Standing::Idle if is_due => 40,
                Standing::Idle => 2,
                Standing::Goes => 60,
                Standing::Stirred => 40,
                Standing::Held => 0,
            };
            choices.push((weight, Choice::Go(at)));
            let worker = &self.workers[at];
            choices.push((10 * u64::from(worker.process.park.is_taken()), Choice::Release(at)));
            choices.push((u64::from(worker.step.is_some()), Choice::Die(at)));
            let commands = worker.commands.iter().filter(|id| head.state.core.command(**id).is_some());
            choices.push((10 * u64::from(commands.count() > 0), Choice::EndCommand(at)));
        }
        let has_acts = self.acts_left > 0;
        if !is_busy && !is_due && !has_acts && self.workers.iter().all(|worker| worker.step.is_none()) {
            return None;
        }
        choices.push((12 * u64::from(has_acts), Choice::Act));
        choices.push((2 * u64::from(has_acts), Choice::TwoActs));
        choices.push((if is_busy || is_due { 4 } else { 12 }, Choice::Jump));
        Some(self.chance.weighted(&choices))
    }

    fn standing(&self, at: usize, head: &Head) -> Standing {
        let worker = &self.workers[at];
        if worker.step.is_none() {
            return Standing::Idle;
        }
        let Some((_, turn)) = worker.turn.and_then(|turn| head.state.running(turn)) else {
            return Standing::Goes;
        };
        let waits = matches!(turn.phase, TurnPhase::Failed { retry_at: Some(at), .. } if at > self.now());
        if !waits && !worker.process.park.is_taken() {
            return Standing::Goes;
        }
        let lease = head.leases.turn.as_ref();
        let renews = lease.is_some_and(|lease| self.now() >= renewal(lease.expires_at));
        if turn.stop.is_some() || renews { Standing::Stirred } else { Standing::Held }
    }

    async fn carry_out(&mut self, choice: Choice, head: &Head) {
        match choice {
            Choice::Go(at) => self.go(at, head).await,
            Choice::Release(at) => {
                self.workers[at].process.park.release();
                self.go(at, head).await;
            }
            Choice::Die(at) => {
                let scope = self.workers[at].scope;
                self.workers[at] = Worker::new(&self.site, &self.shared, &self.manner, scope);
            }
            Choice::EndCommand(at) => {
                let commits = self.recorder.borrow().commits;
                self.workers[at].process.park.end_command.notify_one();
                self.until("the end of a background command", |teller, _| {
                    teller.recorder.borrow().commits > commits
                })
                .await;
            }
            Choice::Act => self.act(1, head).await,
            Choice::TwoActs => self.act(2, head).await,
            Choice::Jump => self.jump(head),
        }
    }

    /// Lets a worker go on until its next commit.
    async fn go(&mut self, at: usize, head: &Head) {
        let (worker, session) = (&mut self.workers[at], self.session);
        if worker.step.is_none() {
            let (engine, scope) = (worker.process.engine.clone(), worker.scope);
            worker.step = Some(Box::pin(async move { engine.step(session, scope).await }));
        }
        let begins = worker.begins.take();
        worker.commands.extend(begins);
        match self.poll(at).await {
            Came::Done(result) => {
                self.workers[at].step = None;
                self.workers[at].turn = None;
                if let Err(error) = result {
                    let what = format!("a step failed: {error}");
                    self.breaches.push(Breach { fault: Fault::Broken, what });
                }
            }
            Came::Parked => {}
            Came::Committed => {
                let after = self.note().await;
                let (before, after) = (&head.state.core, &after.state.core);
                if after.last_turn > before.last_turn {
                    self.workers[at].turn = Some(after.last_turn);
                }
                if after.last_command > before.last_command {
                    self.workers[at].begins = Some(after.last_command);
                }
            }
        }
    }

    async fn poll(&mut self, at: usize) -> Came {
        let recorder = Rc::clone(&self.recorder);
        let commits = recorder.borrow().commits;
        let Worker { process, step, .. } = &mut self.workers[at];
        let (step, park) = (step.as_mut().unwrap(), &process.park);
        let was_parked = park.is_taken();
        let moves = poll_fn(|context| {
            if recorder.borrow().commits > commits {
                return Poll::Ready(Came::Committed);
            }
            match step.as_mut().poll(context) {
                Poll::Ready(result) => Poll::Ready(Came::Done(result)),
                Poll::Pending if !was_parked && park.is_taken() => Poll::Ready(Came::Parked),
                Poll::Pending => Poll::Pending,
            }
        });
        let Ok(came) = tokio::time::timeout(PATIENCE, moves).await else {
            let head = self.site.head(self.session).await;
            let (now, running) = (self.site.clock.now(), head.state.core.running_turns().next());
            panic!("worker {at} neither commits nor ends at {now:?}: {running:?}, {:?}", head.leases.turn);
        };
        came
    }

    /// The person acts: once, or twice in one transaction.
    async fn act(&mut self, acts: usize, head: &Head) {
        let acts: Vec<_> = (0..acts.min(self.acts_left)).map(|_| self.person.act(head)).collect();
        self.acts_left -= acts.len();
        self.asked.texts.extend(acts.iter().filter_map(Act::prompt).map(str::to_owned));
        self.recorder.borrow_mut().asking.clone_from(&acts);
        let (user, session) = (self.workers[0].process.user.clone(), self.session);
        let outcomes = match acts.as_slice() {
            [one, two] => {
                // Both are sent before the writer looks, so it finds both.
                let (one, two) = tokio::join!(one.perform(&user, session), two.perform(&user, session));
                vec![one, two]
            }
            acts => {
                let mut outcomes = Vec::new();
                for act in acts {
                    outcomes.push(act.perform(&user, session).await);
                }
                outcomes
            }
        };
        self.recorder.borrow_mut().asking.clear();
        for (act, outcome) in acts.iter().zip(outcomes) {
            if let Err(ExecuteError::Fault(error)) = outcome {
                let what = format!("{act:?} failed: {error}");
                self.breaches.push(Breach { fault: Fault::Broken, what });
            }
        }
    }

    /// Time passes: a little, or up to something that is waited for; sometimes the clock is set back.
    fn jump(&mut self, head: &Head) {
        let now = self.now();
        let core = &head.state.core;
        let goal = core.goal.as_ref();
        let phase = core.running_turns().next().map(|(_, turn)| &turn.phase);
        let in_place = match phase {
            Some(TurnPhase::Failed { retry_at, .. }) => *retry_at,
            _ => None,
        };
        let moments = [
            head.wake_at,
            in_place,
            goal.and_then(|goal| goal.retry).map(|retry| retry.at),
            goal.and_then(|goal| goal.wait.as_ref()).map(|wait| wait.deadline),
        ];
        let mut moments: Vec<_> = moments.into_iter().flatten().filter(|at| *at > now).collect();
        moments.extend([now.plus_ms(1_500), now.plus_ms(6_000), now.plus_ms(LEASE_MS + 1)]);
        if self.chance.one_in(12) {
            moments = vec![now.plus_ms(-1_800_000)];
        }
        self.site.clock.set(*self.chance.pick(&moments));
    }

    /// Waits for what background commands do on their own, so that it happens here and nowhere else.
    async fn settle(&mut self) {
        self.until("the background commands to settle", |teller, head| {
            let is_ours = |id: &CommandId| teller.workers.iter().any(|worker| worker.commands.contains(id));
            let mut commands = head.state.core.commands.iter().filter(|command| is_ours(&command.id));
            !commands.any(|command| {
                let lease = &head.leases.commands[&command.id];
                let ends = command.is_stopping || command.title.as_str().starts_with(AT_ONCE);
                ends || teller.now() >= renewal(lease.expires_at)
            })
        })
        .await;
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Self, &Head) -> bool) {
        let waits = async {
            loop {
                let head = self.note().await;
                if holds(self, &head) {
                    return;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, waits).await;
        came.unwrap_or_else(|_| panic!("waited in vain for {what}"));
    }

    async fn end(mut self, seed: u64) -> History {
        self.note().await;
        at_each_commit(None);
        let log = self.site.log(self.session).await;
        let mut reading = read(self.session, &log, &self.asked);
        reading.check_effects(&self.site.effects());
        self.breaches.extend(reading.into_breaches());
        let findings = self.site.doctor().await;
        let broken = |what| Breach { fault: Fault::Broken, what };
        self.breaches.extend(findings.iter().map(|finding| broken(finding.to_string())));
        // Nothing of a worker outlives it, and the files go last.
        drop(self.workers);
        self.site.store.close().await;
        let recorder = Rc::try_unwrap(self.recorder).ok().unwrap().into_inner();
        History {
            seed,
            session: self.session,
            log,
            heads: self.heads,
            images: recorder.camera.develop(),
            asked: self.asked,
            breaches: self.breaches,
        }
    }
}

const fn renewal(expires_at: Timestamp) -> Timestamp {
    expires_at.plus_ms(RENEW_MS - LEASE_MS)
}

impl Worker {
    fn new(site: &Site, shared: &Arc<Mutex<Shared>>, manner: &Manner, scope: Scope) -> Self {
        let (shared, root) = (Arc::clone(shared), site.root());
        let mind = |park| Arc::new(Mind { shared, park, root, name: "chance".parse().unwrap() }) as _;
        let process = site.process(mind, manner, false);
        Self { process, scope, step: None, turn: None, commands: Vec::new(), begins: None }
    }
}

/// Takes an image at each side of each commit from here on.
fn record(recorder: &Rc<RefCell<Recorder>>, site: &Site) {
    let recorder = Rc::clone(recorder);
    let (clock, journal, root) = (Arc::clone(&site.clock), Arc::clone(&site.journal), site.root());
    at_each_commit(Some(Box::new(move |side| {
        let mut recorder = recorder.borrow_mut();
        recorder.commits += usize::from(side == CommitSide::Before);
        let files = super::image::files_of(&root);
        if *recorder.files != files {
            recorder.files = Arc::new(files);
        }
        let image = Image {
            commit: recorder.commits,
            side,
            database: Arc::default(),
            wal: Arc::default(),
            wal_bytes: 0,
            files: Arc::clone(&recorder.files),
            journal: Arc::new(journal.lock().unwrap().clone()),
            now: clock.now(),
            asking: recorder.asking.clone(),
        };
        recorder.camera.take(image);
    })));
}
