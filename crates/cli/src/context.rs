//! What verbs share: the store, the workspace, the session they are about.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use domain::{AgentName, ClientName, SessionId};
use runtime::{Sessions, UserDoor};
use store::{LISTED_SESSIONS, SessionFilter, SessionSummary, Store, StoreUrl, SystemClock};

use crate::args::{Global, OfSession};
use crate::config::{self, Config, ConfigError, Limits, process_environment, xdg_folder};
use crate::exit::CliError;
use crate::output::{self, Output};
use crate::render;
use crate::session_name::SessionName;

/// Sessions that an ambiguous name lists: enough to find the one that is meant, on less than a screen.
const CANDIDATES: usize = 10;
/// Columns of their titles, which stand beside whole ids within 80 columns.
const CANDIDATE_TITLE: usize = 40;

/// The surroundings of one run of the program.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where answers go.
    pub(crate) out: Output,
    store: StoreUrl,
    workspace: String,
    opened: OnceLock<Store>,
}

/// An open store with both doors. This is the composition root: the program speaks for a person (M1).
pub(crate) struct Opened {
    /// The store itself, for the deep check.
    pub(crate) store: Store,
    /// The door for reading and running turns.
    pub(crate) sessions: Sessions,
    /// The person's door.
    pub(crate) door: UserDoor,
}

impl Context {
    /// Finds store and workspace. Touches nothing.
    pub(crate) fn new(global: &Global) -> Result<Self, CliError> {
        let store = match global.store.clone().map_or_else(store_of_environment, |url| Ok(Some(url)))? {
            Some(url) => absolute(&url)?,
            None => default_store()?,
        };
        let workspace = find_workspace(global.workspace.as_deref())?;
        let workspace = workspace.into_os_string().into_string().map_err(|path| {
            CliError::Usage(format!("the workspace {} is not UTF-8; choose another", path.display()))
        })?;
        Ok(Self { out: Output::new(global.json), store, workspace, opened: OnceLock::new() })
    }

    /// The address of the store.
    pub(crate) const fn store_url(&self) -> &StoreUrl {
        &self.store
    }

    /// The absolute path of the workspace root.
    pub(crate) fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Opens the store that is there. Makes none.
    pub(crate) async fn open(&self) -> Result<Opened, CliError> {
        self.opened(Store::open_existing(&self.store, Arc::new(SystemClock)).await?)
    }

    /// Opens the store, and makes it if there is none: for opening a session, the first thing a store holds.
    pub(crate) async fn open_or_create(&self) -> Result<Opened, CliError> {
        self.opened(Store::open(&self.store, Arc::new(SystemClock)).await?)
    }

    fn opened(&self, store: Store) -> Result<Opened, CliError> {
        let store = self.opened.get_or_init(|| store).clone();
        let client: ClientName =
            "cli".parse().map_err(|error| CliError::Environment(format!("the client's name: {error}")))?;
        let (sessions, door) = runtime::open(store.clone(), client);
        Ok(Opened { store, sessions, door })
    }

    /// Closes the store, so that nothing of it stays behind but its file.
    pub(crate) async fn close(&self) {
        if let Some(store) = self.opened.get() {
            store.close().await;
        }
    }

    /// The session that was named, else the one of this workspace that changed last.
    pub(crate) async fn session(&self, opened: &Opened, of: OfSession) -> Result<SessionId, CliError> {
        if let Some(name) = of.session {
            return named(opened, name).await;
        }
        // A second one tells that there was a choice.
        let filter = SessionFilter { workspace: Some(self.workspace.clone()), limit: 2 };
        let found = opened.sessions.list(&filter).await?;
        let latest = found.first().ok_or_else(|| {
            CliError::NotFound(format!(
                "there is no session of {} yet; `zuno session new` opens one, --session names another",
                self.workspace
            ))
        })?;
        if found.len() > 1 {
            output::remark(&format!("session {} (the latest of this workspace)", latest.id));
        }
        Ok(latest.id)
    }

    /// The agent of a new session: the one that was named, the configured one, the default.
    pub(crate) fn agent(&self, named: Option<AgentName>) -> Result<AgentName, CliError> {
        match named {
            Some(agent) => Ok(agent),
            None => match limits_in(&self.workspace)?.agent {
                None => Ok(agents::default_agent()),
                Some(agent) => match config::unselectable(&agent) {
                    None => Ok(agent),
                    Some(problem) => Err(CliError::Environment(problem)),
                },
            },
        }
    }
}

/// The session that is named so, of whichever workspace. A whole id is taken as it is.
pub(crate) async fn named(opened: &Opened, name: SessionName) -> Result<SessionId, CliError> {
    if let Some(id) = name.whole() {
        return Ok(id);
    }
    let all = opened.sessions.list(&SessionFilter::default()).await?;
    let is_all = all.len() < LISTED_SESSIONS;
    let found: Vec<_> = all.iter().filter(|session| name.fits(session.id)).collect();
    match found[..] {
        // Among the sessions that are not listed there may be another one that so few digits name.
        [session] if is_all || name.is_specific() => Ok(session.id),
        [session] => Err(CliError::Usage(format!(
            "this store has so many sessions that `{}` may name several; give more digits than that, or {}",
            name.part(),
            session.id
        ))),
        [] => {
            let among = if is_all { String::new() } else { format!(" among the latest {LISTED_SESSIONS}") };
            let part = name.part();
            Err(CliError::NotFound(format!(
                "there is no session `{part}`{among}; `zuno session list --all` shows them"
            )))
        }
        _ => Err(ambiguous(name, &found)),
    }
}

fn ambiguous(name: SessionName, found: &[&SessionSummary]) -> CliError {
    let mut text = format!("`{}` names {}; say which:", name.part(), render::count(found.len(), "session"));
    for session in found.iter().take(CANDIDATES) {
        let title = render::cut(session.title.as_deref().unwrap_or_default(), CANDIDATE_TITLE);
        text.push_str(format!("\n  {}  {title}", session.id).trim_end());
    }
    if found.len() > CANDIDATES {
        text.push_str("\n  …");
    }
    CliError::Usage(text)
}

/// What the configuration says for a workspace.
pub(crate) fn limits_in(workspace: &str) -> Result<Limits, CliError> {
    Ok(Config::of_process()?.limits_in(Path::new(workspace))?)
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Environment(error.to_string())
    }
}

/// A relative path means the folder the program was started in, for as long as it runs.
fn absolute(url: &StoreUrl) -> Result<StoreUrl, CliError> {
    let StoreUrl::Sqlite(path) = url;
    let path = std::path::absolute(path)
        .map_err(|error| CliError::Environment(format!("the store {}: {error}", path.display())))?;
    Ok(StoreUrl::Sqlite(path))
}

/// `ZUNO_STORE`; empty it counts as unset, as variables do that a script clears.
fn store_of_environment() -> Result<Option<StoreUrl>, CliError> {
    let Some(value) = std::env::var_os("ZUNO_STORE").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let fault = |problem: String| CliError::Usage(format!("ZUNO_STORE: {problem}"));
    let url = value.to_str().ok_or_else(|| fault("it is not UTF-8".to_owned()))?;
    url.parse().map(Some).map_err(|error: store::InvalidStoreUrl| fault(error.to_string()))
}

fn default_store() -> Result<StoreUrl, CliError> {
    let folder = xdg_folder("XDG_DATA_HOME", ".local/share", &process_environment).ok_or_else(|| {
        let problem =
            "neither HOME nor XDG_DATA_HOME is set, so there is no place for the store; give --store";
        CliError::Environment(problem.to_owned())
    })?;
    Ok(StoreUrl::Sqlite(folder.join("zuno").join("zuno.db")))
}

/// The folder that was named, else the root of the git repository around here, else here.
fn find_workspace(given: Option<&Path>) -> Result<PathBuf, CliError> {
    let canonical = |path: &Path| {
        path.canonicalize()
            .map_err(|error| CliError::Usage(format!("the workspace {}: {error}", path.display())))
    };
    match given {
        Some(path) => {
            let path = canonical(path)?;
            if !path.is_dir() {
                return Err(CliError::Usage(format!("the workspace {} is no folder", path.display())));
            }
            Ok(path)
        }
        None => {
            let here = canonical(Path::new("."))?;
            let root = here.ancestors().find(|folder| folder.join(".git").exists());
            Ok(root.map_or_else(|| here.clone(), Path::to_path_buf))
        }
    }
}
