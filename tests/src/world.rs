//! A store, a workspace and everything between them, in a temporary folder.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use agents::{PermissionRule, PermissionRules, RuleEntry, ToolAllowList, Verdict};
use async_trait::async_trait;
use domain::{
    Budgets, CallOutcome, CallRef, Event, EventBody, GoalId, InputId, InputText, Mode, Objective, Seq,
    SessionId, Timestamp,
};
use runtime::{
    Asking, Engine, Inspection, Model, NewGoal, PlanAccepted, Prompt, Scope, SessionView, Sessions, Sight,
    Step, Tool, Toolbox, TurnLimits, UserDoor, Workplace, Workshop,
};
use serde_json::{Value, json};
use store::{Clock, ManualClock, Store, StoreUrl, SystemClock};
use tempfile::TempDir;
use tools::Guidance;

use crate::tape::Tape;

/// Where a manual clock starts: 2026-01-01, so that sums with it stay readable.
pub const START: Timestamp = Timestamp(1_767_225_600_000);
/// Model requests that a turn may make at most.
pub const MOST_REQUESTS: NonZeroU32 = NonZeroU32::new(domain::REQUESTS_PER_TURN).expect("not zero");
/// Events read at once.
const PAGE: usize = 1_000;
/// Steps in a row that [`World::run`] follows: a session that never rests is a bug.
const STEPS: usize = 200;

/// A store and a workspace of their own. Dropping it removes both.
pub struct World<C = ManualClock> {
    /// The clock of the store.
    pub clock: Arc<C>,
    /// The store.
    pub store: Store,
    /// The door for turns.
    pub sessions: Sessions,
    /// The door of the person at the keyboard.
    pub user: UserDoor,
    /// What the observer of every engine saw.
    pub tape: Arc<Tape>,
    home: TempDir,
}

impl World<ManualClock> {
    /// A world in which time stands still until it is moved.
    pub async fn new() -> Self {
        Self::with_clock(ManualClock::new(START), home()).await
    }

    /// From here on moves the clock to the end of each wait between two attempts at a request, as soon as one begins.
    pub fn skip_waits_in_place(&self) {
        let clock = Arc::clone(&self.clock);
        self.tape.at_each(move |event| {
            if let EventBody::ModelFailed { retry_at: Some(at), .. } = event.body {
                clock.set(at.max(clock.now()));
            }
        });
    }
}

impl World<SystemClock> {
    /// A world with the machine's clock.
    pub async fn in_real_time() -> Self {
        Self::with_clock(SystemClock, home()).await
    }

    /// The same on a disk that commands behind walls see: what lies beneath `/tmp` or `/dev/shm` is not there for them.
    pub async fn in_sight_of_commands() -> Self {
        Self::with_clock(SystemClock, tempfile::tempdir_in("/var/tmp").unwrap()).await
    }
}

impl<C: Clock + 'static> World<C> {
    async fn with_clock(clock: C, home: TempDir) -> Self {
        let clock = Arc::new(clock);
        std::fs::create_dir(home.path().join("workspace")).unwrap();
        let url = StoreUrl::Sqlite(home.path().join("zuno.db"));
        let store = Store::open(&url, Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
        let (sessions, user) = runtime::open(store.clone(), "test".parse().unwrap());
        Self { clock, store, sessions, user, tape: Arc::default(), home }
    }

    /// The same store and workspace as another process finds them: nothing that was held in memory is left.
    #[must_use]
    pub async fn restarted(self) -> Self {
        self.store.close().await;
        let url = StoreUrl::Sqlite(self.home.path().join("zuno.db"));
        let store = Store::open(&url, Arc::clone(&self.clock) as Arc<dyn Clock>).await.unwrap();
        let (sessions, user) = runtime::open(store.clone(), "test".parse().unwrap());
        Self { store, sessions, user, tape: Arc::default(), clock: self.clock, home: self.home }
    }

    /// The time by the store's clock.
    pub fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The file of the store.
    pub fn store_path(&self) -> PathBuf {
        self.home.path().join("zuno.db")
    }

    /// The root of the workspace.
    pub fn workspace(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    /// A file of the workspace.
    pub fn path(&self, path: &str) -> PathBuf {
        self.workspace().join(path)
    }

    /// Writes a file of the workspace, with its folders.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Reads a file of the workspace.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// Makes the workspace a git repository with one commit of what is in it.
    pub fn git(&self) {
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
            let mut command = Command::new("git");
            command.current_dir(self.workspace()).args(identity).args(arguments);
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        git(&["init", "--quiet", "--initial-branch=main"]);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--allow-empty", "--message=start"]);
    }

    /// Opens a session of the `build` agent.
    pub async fn session(&self) -> SessionId {
        let workspace = self.workspace().display().to_string();
        self.user.open_session(&workspace, "build".parse().unwrap()).await.unwrap()
    }

    /// The person says something.
    pub async fn say(&self, session: SessionId, text: &str) -> InputId {
        self.user.submit(session, Prompt::queued(InputText::parse(text).unwrap()), None).await.unwrap()
    }

    /// The person sets a Goal with the usual budgets.
    pub async fn goal(&self, session: SessionId, objective: &str) -> GoalId {
        self.goal_within(session, objective, Budgets::default()).await
    }

    /// The person sets a Goal.
    pub async fn goal_within(&self, session: SessionId, objective: &str, budgets: Budgets) -> GoalId {
        let objective = Objective::parse(objective).unwrap();
        let new = NewGoal { objective, criteria: None, budgets, replace: false };
        self.user.set_goal(session, new).await.unwrap()
    }

    /// The person writes a plan, from a line such as `inspect:completed implement:in_progress verify`.
    pub async fn plan(&self, session: SessionId, line: &str) -> PlanAccepted {
        self.user.update_plan(session, &plan(line), None).await.unwrap()
    }

    /// The session at a glance.
    pub async fn view(&self, session: SessionId) -> SessionView {
        self.sessions.view(session).await.unwrap()
    }

    /// The whole log.
    pub async fn log(&self, session: SessionId) -> Vec<Event> {
        let (mut events, mut after) = (Vec::new(), Seq(0));
        loop {
            let page = self.sessions.events_after(session, after, PAGE).await.unwrap();
            events.extend(page.events);
            after = page.next;
            if !page.has_more {
                return events;
            }
        }
    }

    /// How the calls of a session ended, in the order of their results: call, outcome and what the model read.
    pub async fn results(&self, session: SessionId) -> Vec<(CallRef, CallOutcome, String)> {
        let log = self.log(session).await;
        let result = |event: Event| match event.body {
            EventBody::CallFinished { call, outcome, result, .. } => Some((call, outcome, result)),
            _ => None,
        };
        log.into_iter().filter_map(result).collect()
    }

    /// An engine with every real tool.
    pub fn engine(&self, model: Arc<dyn Model>) -> Engine {
        self.engine_in(model, Shop::default())
    }

    /// An engine with these tools.
    pub fn engine_in(&self, model: Arc<dyn Model>, shop: Shop) -> Engine {
        self.engine_of(&self.sessions, model, shop)
    }

    /// An engine of another worker on the same store; see [`other_worker`](Self::other_worker).
    pub fn engine_of(&self, sessions: &Sessions, model: Arc<dyn Model>, shop: Shop) -> Engine {
        let asking = shop.asking.clone();
        Engine::new(sessions.clone(), model, Arc::new(shop), self.tape.clone(), asking)
    }

    /// Another worker on the same store, as another process would be one.
    pub fn other_worker(&self) -> Sessions {
        runtime::open(self.store.clone(), "test".parse().unwrap()).0
    }

    /// Steps until nothing is due at this moment; gives all steps, of which the last says why.
    pub async fn run(&self, session: SessionId, model: Arc<dyn Model>) -> Vec<Step> {
        self.run_engine(session, &self.engine(model)).await
    }

    /// The same with an engine that is there already.
    pub async fn run_engine(&self, session: SessionId, engine: &Engine) -> Vec<Step> {
        let mut steps = Vec::new();
        while steps.len() < STEPS {
            let step = engine.step(session, Scope::All).await.unwrap();
            let goes_on = matches!(step, Step::Ran { .. } | Step::Recovered { .. });
            steps.push(step);
            if !goes_on {
                return steps;
            }
        }
        panic!("{STEPS} steps and still going: {:?}", steps.last());
    }
}

/// A temporary folder, in memory where the system has such a place: what a test commits need not outlive the machine,
/// and waiting for the disk is most of the time that these tests take.
pub fn home() -> TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = if memory.is_dir() { tempfile::tempdir_in(memory).ok() } else { None };
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// Opens workspaces with the real tools, more of them if a test has its own, and the configured list and rules.
pub struct Shop {
    /// Tools of the test, offered after the real ones.
    pub more: Vec<Arc<dyn Tool>>,
    /// The list of allowed tools.
    pub allowed: ToolAllowList,
    /// The permission rules.
    pub rules: Arc<PermissionRules>,
    /// Whether a person can be asked.
    pub asking: Asking,
    /// What turns may take.
    pub limits: TurnLimits,
}

impl Default for Shop {
    fn default() -> Self {
        Self {
            more: Vec::new(),
            allowed: ToolAllowList::All,
            rules: Arc::default(),
            asking: Asking::Wait,
            limits: TurnLimits::default(),
        }
    }
}

impl Shop {
    /// With tools of the test, and a rule that lets them all run unasked.
    pub fn of(more: Vec<Arc<dyn Tool>>) -> Self {
        let entry =
            RuleEntry { verdict: Verdict::Allow, tool: Some("*".to_owned()), path: None, command: None };
        let rule = PermissionRule::new("the test's rule", &entry).unwrap();
        Self { more, rules: Arc::new(PermissionRules::new(vec![rule]).unwrap()), ..Self::default() }
    }
}

#[async_trait]
impl Workshop for Shop {
    async fn open(&self, root: &str, _: Mode) -> std::io::Result<Workplace> {
        let workspace = tools::Workspace::open(Path::new(root)).map_err(std::io::Error::other)?;
        let workspace = Arc::new(workspace);
        let mut all = tools::all(Arc::clone(&workspace), tools::Secrets::default(), None);
        all.extend(self.more.iter().cloned());
        let guidance = Guidance::read(&workspace, Path::new(root), None, &Sight::default());
        all.extend(guidance.tool());
        let toolbox = Toolbox::new(root, all, self.allowed.clone(), Arc::clone(&self.rules));
        let toolbox = toolbox.with_instructions(guidance.instructions());
        Ok(Workplace { toolbox, inspection: workspace, limits: self.limits })
    }

    async fn inspect(&self, root: &str) -> std::io::Result<Arc<dyn Inspection>> {
        Ok(Arc::new(tools::Workspace::open(Path::new(root)).map_err(std::io::Error::other)?))
    }
}

/// The JSON of a plan from a line such as `inspect:completed implement:in_progress verify`; a step without a status is
/// pending.
pub fn plan(line: &str) -> Value {
    let step = |word: &str| {
        let (id, status) = word.split_once(':').unwrap_or((word, "pending"));
        json!({ "id": id, "title": format!("Do {id}"), "status": status })
    };
    json!({ "title": "A plan", "steps": line.split_whitespace().map(step).collect::<Vec<_>>() })
}

/// The same as an update of a revision.
pub fn revised(revision: u64, line: &str) -> Value {
    let mut plan = plan(line);
    plan["expected_revision"] = json!(revision);
    plan
}
