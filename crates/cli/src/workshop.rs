//! Workspaces for turns: this machine's tools, narrowed by the configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use runtime::{Toolbox, TurnLimits, Workplace, Workshop};
use tools::Workspace;

use crate::config::{Config, ConfigError, Limits};
use crate::output;

/// Opens folders of this machine.
pub(crate) struct LocalWorkshop {
    config: Config,
    /// What was said of the project's files last, by workspace.
    said: Mutex<BTreeMap<PathBuf, String>>,
}

impl LocalWorkshop {
    /// With the user's configuration; each workspace's own narrows it.
    pub(crate) const fn new(config: Config) -> Self {
        Self { config, said: Mutex::new(BTreeMap::new()) }
    }

    /// What holds in a workspace at this moment. Tells once what the user has to know about the project's file there, and
    /// again when that changes.
    pub(crate) fn config_in(&self, workspace: &Path) -> Result<Config, ConfigError> {
        let (config, notice) = self.config.in_workspace(workspace)?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Some(notice) if said.get(workspace) == Some(&notice) => {}
            Some(notice) => {
                output::remark(&format!("zuno: {}", output::for_stderr(2, &notice)));
                said.insert(workspace.to_owned(), notice);
            }
            None => drop(said.remove(workspace)),
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
        let tools = tools::all(Arc::clone(&files), config.secrets());
        let Limits { tools: allowed, permissions, max_requests, budgets, .. } = config.limits().clone();
        Ok(Workplace {
            toolbox: Toolbox::new(workspace, tools, allowed, Arc::new(permissions)),
            inspection: files,
            limits: TurnLimits { max_requests, proposed_budgets: budgets },
        })
    }
}
