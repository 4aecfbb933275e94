//! Workspaces for turns: this machine's tools, narrowed by the configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use domain::{Capability, CapabilitySet, Mode};
use external::Servers;
use runtime::{Inspection, Sight, Toolbox, TurnLimits, Workplace, Workshop};
use store::StoreUrl;
use tools::{Guidance, Workspace};

use crate::config::{Config, ConfigError, Limits, process_environment};
use crate::context::Context;
use crate::output;
use crate::servers::granted_tools;
use crate::walls::{Confinement, Walls};

/// Opens folders of this machine.
pub(crate) struct LocalWorkshop {
    config: Config,
    asked: Option<Confinement>,
    store: StoreUrl,
    /// Servers that offer tools, for as long as this process opens workspaces.
    servers: Servers,
    /// What was said last of what the user has to know, by workspace and subject.
    said: Mutex<BTreeMap<(PathBuf, &'static str), String>>,
}

/// What a person must not overlook.
const NO_WALLS: &str = "NO SANDBOX: commands of agents can read, change and send whatever you can";

impl LocalWorkshop {
    /// With the user's configuration, which each workspace's own narrows, and the walls that they ask for in this run.
    pub(crate) fn new(context: &Context, config: Config, asked: Option<Confinement>) -> Self {
        let store = context.store_url().clone();
        Self { config, asked, store, servers: Servers::default(), said: Mutex::new(BTreeMap::new()) }
    }

    fn walls(&self, config: &Config) -> Walls {
        Walls::new(config, self.asked, &self.store, &process_environment)
    }

    /// What holds in a workspace at this moment. Tells once what the user has to know about the project's file and the
    /// walls there, and again when that changes.
    pub(crate) fn config_in(&self, workspace: &Path) -> Result<Config, ConfigError> {
        let (config, notice) = self.config.in_workspace(workspace)?;
        let no_walls =
            if self.walls(&config).confinement() == domain::Confinement::Off { NO_WALLS } else { "" };
        self.say_once((workspace.to_owned(), "walls"), no_walls);
        self.say_once((workspace.to_owned(), "trust"), notice.as_deref().unwrap_or_default());
        Ok(config)
    }

    /// Says what is not what was said of it last.
    fn say_once(&self, about: (PathBuf, &'static str), text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(&about).map_or("", String::as_str) != text {
            for line in text.lines() {
                output::remark(&format!("zuno: {}", output::for_stderr(2, line)));
            }
            said.insert(about, text.to_owned());
        }
    }
}

/// The texts for agents that hold in a workspace, as they are at this moment.
pub(crate) fn guidance(config: &Config, files: &Workspace, workspace: &str) -> Guidance {
    let rules = Arc::new(config.limits().permissions.clone());
    let reads = CapabilitySet::of(&[Capability::ReadWorkspace]);
    let sight = Sight::new(rules, workspace, ("read_file", reads), false);
    let here = std::env::current_dir().unwrap_or_default();
    Guidance::read(files, &here, config.path().parent(), &sight)
}

#[async_trait]
impl Workshop for LocalWorkshop {
    async fn open(&self, workspace: &str, mode: Mode) -> io::Result<Workplace> {
        let path = Path::new(workspace);
        let config = self.config_in(path).map_err(io::Error::other)?;
        let files = Arc::new(Workspace::open(path).map_err(io::Error::other)?);
        let walls = self.walls(&config);
        let confinement = walls.confinement();
        let walls = walls.around(files.root()).map_err(io::Error::other)?;
        let mut tools = tools::all(Arc::clone(&files), config.secrets(), walls);
        let guidance = guidance(&config, &files, workspace);
        self.say_once((path.to_owned(), "texts"), &guidance.problems().collect::<Vec<_>>().join("\n"));
        tools.extend(guidance.tool());
        // Nothing of a server may run in Plan mode, and its program is outside of the sandbox from its start on.
        if mode == Mode::Work {
            let (of_servers, lines) = granted_tools(&self.servers, &config, path).await;
            self.say_once((path.to_owned(), "servers"), &lines.join("\n"));
            tools.extend(of_servers);
        }
        let Limits { tools: allowed, permissions, max_requests, budgets, .. } = config.limits().clone();
        let toolbox = Toolbox::new(workspace, tools, allowed, Arc::new(permissions));
        Ok(Workplace {
            toolbox: toolbox.with_instructions(guidance.instructions()),
            inspection: files,
            limits: TurnLimits { max_requests, proposed_budgets: budgets, confinement: Some(confinement) },
        })
    }

    async fn inspect(&self, workspace: &str) -> io::Result<Arc<dyn Inspection>> {
        Ok(Arc::new(Workspace::open(Path::new(workspace)).map_err(io::Error::other)?))
    }
}
