//! Workspaces for turns: this machine's tools, narrowed by the configuration.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use runtime::{Toolbox, TurnLimits, Workplace, Workshop};
use tools::Workspace;

use crate::config::Config;

/// Opens folders of this machine.
pub(crate) struct LocalWorkshop {
    config: Config,
}

impl LocalWorkshop {
    /// With the user's configuration; each workspace's own narrows it.
    pub(crate) const fn new(config: Config) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Workshop for LocalWorkshop {
    async fn open(&self, workspace: &str) -> io::Result<Workplace> {
        let path = Path::new(workspace);
        let limits = self.config.limits_in(path).map_err(io::Error::other)?;
        let files = Arc::new(Workspace::open(path).map_err(io::Error::other)?);
        let tools = tools::all(Arc::clone(&files), self.config.secrets());
        Ok(Workplace {
            toolbox: Toolbox::new(workspace, tools, limits.tools, Arc::new(limits.permissions)),
            inspection: files,
            limits: TurnLimits { max_requests: limits.max_requests, proposed_budgets: limits.budgets },
        })
    }
}
