//! A store, a clock and a workspace, and the workers on them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agents::{PermissionRule, PermissionRules, RuleEntry, ToolAllowList, Verdict};
use async_trait::async_trait;
use domain::{Event, EventBody, Mode, Seq, SessionId, Timestamp};
use runtime::{
    Asking, Delta, Engine, Inspection, Model, Observer, Sessions, Tool, Toolbox, TurnLimits, UserDoor,
    Workplace, Workshop,
};
use store::{CheckFinding, Clock, Head, ManualClock, Store, StoreUrl};
use tempfile::TempDir;
use tests::START;

use super::effects::{self, Park};
use super::image::Image;

/// Events read at once.
const PAGE: usize = 1_000;

/// The tokens of the effects that happened, in their order.
pub(crate) type Journal = Arc<Mutex<Vec<String>>>;

/// A store and a workspace of their own. Dropping it removes both.
pub(crate) struct Site {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Store,
    pub(crate) journal: Journal,
    workspace: Arc<tools::Workspace>,
    home: TempDir,
}

/// A process as far as the store can tell: an owner of turns with an engine.
pub(crate) struct Process {
    pub(crate) sessions: Sessions,
    pub(crate) user: UserDoor,
    pub(crate) engine: Engine,
    pub(crate) park: Arc<Park>,
}

impl Site {
    /// An empty store and an empty workspace.
    pub(crate) async fn new() -> Self {
        Self::open(tests::home(), START, Vec::new()).await
    }

    /// What a crash left.
    pub(crate) async fn after(image: &Image) -> Self {
        let home = tests::home();
        let workspace = home.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        image.lay_out(&home.path().join("zuno.db"), &workspace);
        Self::open(home, image.now, image.journal.to_vec()).await
    }

    async fn open(home: TempDir, now: Timestamp, journal: Vec<String>) -> Self {
        let root = home.path().join("workspace");
        std::fs::create_dir_all(&root).unwrap();
        let workspace = Arc::new(tools::Workspace::open(&root).unwrap());
        let clock = Arc::new(ManualClock::new(now));
        let url = StoreUrl::Sqlite(home.path().join("zuno.db"));
        let store = Store::open(&url, Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
        Self { clock, store, journal: Arc::new(Mutex::new(journal)), workspace, home }
    }

    /// The file of the store.
    pub(crate) fn database(&self) -> PathBuf {
        self.home.path().join("zuno.db")
    }

    /// The root of the workspace.
    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    /// The effects so far.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.journal.lock().unwrap().clone()
    }

    /// Moves the clock forward to a moment; never back.
    pub(crate) fn forward_to(&self, at: Timestamp) {
        self.clock.set(self.clock.now().max(at));
    }

    /// Another process on this store. Its tools hold its calls at the park, and so may its model.
    pub(crate) fn process(
        &self,
        model: impl FnOnce(Arc<Park>) -> Arc<dyn Model>,
        manner: &Manner,
        skips_waits: bool,
    ) -> Process {
        let (sessions, user) = runtime::open(self.store.clone(), "test".parse().unwrap());
        let park = Arc::new(Park::default());
        let (root, all) = (self.root().display().to_string(), self.tools(&park));
        let toolbox = Toolbox::new(&root, all, ToolAllowList::All, rules());
        let inspection = Arc::clone(&self.workspace) as _;
        let shop = Arc::new(Shop(Workplace { toolbox, inspection, limits: manner.limits }));
        let observer = Arc::new(Onlooker { clock: skips_waits.then(|| Arc::clone(&self.clock)) });
        let engine =
            Engine::new(sessions.clone(), model(Arc::clone(&park)), shop, observer, manner.asking.clone());
        Process { sessions, user, engine, park }
    }

    /// The tools of a process.
    pub(crate) fn tools(&self, park: &Arc<Park>) -> Vec<Arc<dyn Tool>> {
        effects::all(&self.workspace, &self.root(), &self.journal, park)
    }

    /// A look at the files of the workspace, as recovery takes it.
    pub(crate) fn inspection(&self) -> &dyn Inspection {
        &*self.workspace
    }

    /// Where a session stands.
    pub(crate) async fn head(&self, session: SessionId) -> Head {
        self.store.head(session).await.unwrap().unwrap()
    }

    /// The end of the log.
    pub(crate) async fn seq(&self, session: SessionId) -> Seq {
        self.head(session).await.state.core.head
    }

    /// The whole log.
    pub(crate) async fn log(&self, session: SessionId) -> Vec<Event> {
        let (mut events, mut after) = (Vec::new(), Seq(0));
        loop {
            let page = self.store.events_after(session, after, PAGE).await.unwrap();
            events.extend(page.events);
            after = page.next;
            if !page.has_more {
                return events;
            }
        }
    }

    /// What the deep check finds.
    pub(crate) async fn doctor(&self) -> Vec<CheckFinding> {
        self.store.check(|_| {}).await.unwrap()
    }
}

/// Everything is allowed but what tests are about: one tool asks, one is forbidden.
fn rules() -> Arc<PermissionRules> {
    let rule = |verdict, tool: &str| {
        let entry = RuleEntry { verdict, tool: Some(tool.to_owned()), path: None, command: None };
        PermissionRule::new("the test's rule", &entry).unwrap()
    };
    let rules = [
        rule(Verdict::Allow, "*"),
        rule(Verdict::Ask, effects::SEND),
        rule(Verdict::Deny, effects::FORBIDDEN),
    ];
    Arc::new(PermissionRules::new(rules.to_vec()).unwrap())
}

/// How the processes of a history run turns.
pub(crate) struct Manner {
    pub(crate) asking: Asking,
    pub(crate) limits: TurnLimits,
}

impl Default for Manner {
    fn default() -> Self {
        Self { asking: Asking::Wait, limits: TurnLimits::default() }
    }
}

/// Gives every session the workspace of its site: a copy of a store names the folder that it was copied from.
struct Shop(Workplace);

#[async_trait]
impl Workshop for Shop {
    async fn open(&self, _: &str, _: Mode) -> std::io::Result<Workplace> {
        Ok(self.0.clone())
    }

    async fn inspect(&self, _: &str) -> std::io::Result<Arc<dyn Inspection>> {
        Ok(Arc::clone(&self.0.inspection))
    }
}

/// Moves the clock to the end of each wait between two attempts as soon as it begins, if it has one.
struct Onlooker {
    clock: Option<Arc<ManualClock>>,
}

impl Observer for Onlooker {
    fn event(&self, _: SessionId, event: &Event) {
        if let (Some(clock), EventBody::ModelFailed { retry_at: Some(at), .. }) = (&self.clock, &event.body) {
            clock.set(clock.now().max(*at));
        }
    }

    fn delta(&self, _: SessionId, _: Delta<'_>) {}
}

/// What a text file holds, or nothing.
pub(crate) fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
