//! Workspaces for turns: this machine's tools, narrowed by the configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use runtime::{Toolbox, TurnLimits, Workplace, Workshop};
use store::StoreUrl;
use tools::Workspace;

use crate::config::{Config, ConfigError, Limits, process_environment};
use crate::context::Context;
use crate::output;
use crate::walls::{Confinement, Walls};

/// Opens folders of this machine.
pub(crate) struct LocalWorkshop {
    config: Config,
    asked: Option<Confinement>,
    store: StoreUrl,
    /// What was said last of what the user has to know, by workspace.
    said: Mutex<BTreeMap<PathBuf, String>>,
}

/// What a person must not overlook.
const NO_WALLS: &str = "NO SANDBOX: commands of agents can read, change and send whatever you can";

impl LocalWorkshop {
    /// With the user's configuration, which each workspace's own narrows, and the walls that they ask for in this run.
    pub(crate) fn new(context: &Context, config: Config, asked: Option<Confinement>) -> Self {
        let store = context.store_url().clone();
        Self { config, asked, store, said: Mutex::new(BTreeMap::new()) }
    }

    fn walls(&self, config: &Config) -> Walls {
        Walls::new(config, self.asked, &self.store, &process_environment)
    }

    /// What holds in a workspace at this moment. Tells once what the user has to know about the project's file and the
    /// walls there, and again when that changes.
    pub(crate) fn config_in(&self, workspace: &Path) -> Result<Config, ConfigError> {
        let (config, notice) = self.config.in_workspace(workspace)?;
        let no_walls =
            (self.walls(&config).confinement() == domain::Confinement::Off).then(|| NO_WALLS.to_owned());
        let notice = notice.map(|notice| format!("zuno: {}", output::for_stderr(2, &notice)));
        let to_say = no_walls.into_iter().chain(notice).collect::<Vec<_>>().join("\n");
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(workspace).map_or("", String::as_str) != to_say {
            if !to_say.is_empty() {
                output::remark(&to_say);
            }
            said.insert(workspace.to_owned(), to_say);
        }
        Ok(config)
    }
}

#[async_trait]
impl Workshop for LocalWorkshop {
    async fn open(&self, workspace: &str) -> io::Result<Workplace> {
        let path = Path::new(workspace);
        let config = self.config_in(path).map_err(io::Error::other)?;
        let files = Arc::new(Workspace::open(path).map_err(io::Error::other)?);
        let walls = self.walls(&config);
        let confinement = walls.confinement();
        let walls = walls.around(files.root()).map_err(io::Error::other)?;
        let tools = tools::all(Arc::clone(&files), config.secrets(), walls);
        let Limits { tools: allowed, permissions, max_requests, budgets, .. } = config.limits().clone();
        Ok(Workplace {
            toolbox: Toolbox::new(workspace, tools, allowed, Arc::new(permissions)),
            inspection: files,
            limits: TurnLimits { max_requests, proposed_budgets: budgets, confinement: Some(confinement) },
        })
    }
}
