//! `zuno.toml`: the user's file says what there is, a project's file only narrows it unless the user trusts it (C9).
//!
//! Both are parsed once, into [`Config`] and what it hands out. Keys of providers stand in neither: a model's table
//! names the environment variable that holds its key.

mod file;
mod mcp;
mod permissions;
mod project;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agents::{InvalidRule, PermissionRule, PermissionRules, ToolAllowList};
use domain::{AgentName, Budgets, ModelName};
use external::{Reach, ServerName};
use models::ModelSettings;
use runtime::{Model, TurnLimits};
use tools::Secrets;

pub(crate) use file::{ActiveTime, OnOpen};
use file::{ProjectFile, UserFile};
use mcp::McpServer;
use permissions::Owner;
pub(crate) use project::{Project, named};

use crate::trust::TrustRecords;

use crate::walls::SandboxTable;

/// Why the configuration does not say what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A file that cannot be used.
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: Option<usize>,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A model that nobody configured.
    #[error("there is no [models.{name}] in {}; {known}", path.display())]
    NoSuchModel {
        /// What was asked for.
        name: ModelName,
        /// The user's file.
        path: PathBuf,
        /// What there is instead.
        known: String,
    },
    /// Several models and nothing that chooses.
    #[error("{} has several models and no default_model; choose with --model: {names}", path.display())]
    NoDefault {
        /// The user's file.
        path: PathBuf,
        /// The models.
        names: String,
    },
    /// No model at all.
    #[error(
        "no model is configured and none of OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY is set.\n\
         Put this into {} and change it:\n\n{}", path.display(), models::EXAMPLE_TOML
    )]
    NoModel {
        /// The user's file.
        path: PathBuf,
    },
    /// A table that makes no model.
    #[error("{problem}")]
    Model {
        /// What is wrong, and where.
        problem: String,
    },
}

/// The variables that models take their keys from when nothing names another.
const USUAL_KEYS: [&str; 3] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];

/// Where the program reads its environment: the process, or a map in tests.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The process's environment.
pub(crate) fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The user's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    path: PathBuf,
    found: bool,
    default_model: Option<ModelName>,
    models: BTreeMap<ModelName, ConfiguredModel>,
    mcp: BTreeMap<ServerName, McpServer>,
    on_open: OnOpen,
    sandbox: SandboxTable,
    limits: Limits,
    trust: TrustRecords,
}

/// A model's table, with the folder of its file: relative paths start there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfiguredModel {
    settings: ModelSettings,
    folder: PathBuf,
}

fn configured(
    models: BTreeMap<ModelName, ModelSettings>,
    file: &Path,
) -> impl Iterator<Item = (ModelName, ConfiguredModel)> {
    let folder = file.parent().unwrap_or(Path::new(".")).to_owned();
    let with_folder = move |settings| ConfiguredModel { settings, folder: folder.clone() };
    models.into_iter().map(move |(name, settings)| (name, with_folder(settings)))
}

/// What narrows a session's work: of the user's file, and again of its workspace's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The agent of a session that names none.
    pub(crate) agent: Option<AgentName>,
    /// The budgets of a Goal that names none.
    pub(crate) budgets: Budgets,
    /// The tools that are let through.
    pub(crate) tools: ToolAllowList,
    /// What is said of single calls.
    pub(crate) permissions: PermissionRules,
    /// Model requests that a turn may make (T12).
    pub(crate) max_requests: NonZeroU32,
}

impl Config {
    /// The configuration of whoever started this process.
    pub(crate) fn of_process() -> Result<Self, ConfigError> {
        Self::load(&process_environment)
    }

    /// Reads the user's file. Without one everything has its default.
    pub(crate) fn load(env: Environment<'_>) -> Result<Self, ConfigError> {
        let path = user_path(env);
        let read = file::read(&path)?;
        let found = read.is_some();
        let file =
            read.map_or_else(|| Ok(UserFile::default()), |text| UserFile::parse(&path, &text, Owner::User))?;
        let UserFile {
            default_model,
            default_agent,
            tools,
            budgets,
            turns,
            goal,
            models,
            mcp,
            sandbox,
            rules,
            ..
        } = file;
        let default = Budgets::default();
        let budgets = Budgets {
            tokens: budgets.tokens.unwrap_or(default.tokens),
            turns: budgets.turns.unwrap_or(default.turns),
            active_ms: budgets.active_time.map_or(default.active_ms, |time| time.0),
        };
        let max_requests = turns.max_requests.map_or(TurnLimits::default().max_requests, |most| most.0);
        let limits = Limits {
            agent: default_agent,
            budgets,
            tools: allow_list(tools),
            permissions: rules,
            max_requests,
        };
        let models = configured(models, &path).collect();
        let on_open = goal.on_open.unwrap_or_default();
        let trust = TrustRecords::beneath(xdg_folder("XDG_STATE_HOME", ".local/state", env));
        Ok(Self {
            path,
            found,
            default_model,
            models,
            mcp,
            on_open,
            sandbox: sandbox.unwrap_or_default(),
            limits,
            trust,
        })
    }

    /// The same with rules that hold for this run of the program.
    pub(crate) fn with_rules(
        mut self,
        extra: impl IntoIterator<Item = PermissionRule>,
    ) -> Result<Self, InvalidRule> {
        self.limits.permissions = self.limits.permissions.extended_by(extra)?;
        Ok(self)
    }

    /// The user's file, whether it exists or not.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the user's file exists.
    pub(crate) const fn is_found(&self) -> bool {
        self.found
    }

    /// What an interactive client does with an active Goal (T11).
    pub(crate) const fn on_open(&self) -> OnOpen {
        self.on_open
    }

    /// How commands are confined. A project has a say in it only while the user trusts its file (C9).
    pub(crate) const fn sandbox(&self) -> &SandboxTable {
        &self.sandbox
    }

    /// What holds in a workspace: the user's limits, narrowed by the project's file (C9).
    pub(crate) fn limits_in(&self, workspace: &Path) -> Result<Limits, ConfigError> {
        Ok(self.in_workspace(workspace)?.0.limits)
    }

    /// What holds in a workspace, and what the user has to know about the project's file there. Without their trust it
    /// only narrows; with it the rest of the file counts, too (C9).
    pub(crate) fn in_workspace(&self, workspace: &Path) -> Result<(Self, Option<String>), ConfigError> {
        let project = self.project(workspace)?;
        let notice = project.notice();
        let mut config = self.clone();
        if let Some(file) = project.trusted_file()? {
            config.widen(file, project.path());
        }
        if let Some(file) = project.into_narrowing() {
            config.limits = config.limits.narrowed_by(file);
        }
        Ok((config, notice))
    }

    /// The project's file of a workspace, with what the user says of it.
    pub(crate) fn project(&self, workspace: &Path) -> Result<Project, ConfigError> {
        Project::read(workspace, &self.trust)
    }

    /// Where it is recorded what the user trusts.
    pub(crate) const fn trust(&self) -> &TrustRecords {
        &self.trust
    }

    /// Takes over what a file says that the user trusts. Of models and servers of one name the project's is meant. Its
    /// rules stand before the user's, of which the last that fits wins.
    fn widen(&mut self, file: UserFile, path: &Path) {
        let UserFile { default_model, goal, models, mcp, sandbox, rules, .. } = file;
        self.default_model = default_model.or(self.default_model.take());
        self.on_open = goal.on_open.unwrap_or(self.on_open);
        self.models.extend(configured(models, path));
        self.mcp.extend(mcp);
        if let Some(sandbox) = sandbox {
            let hide = std::mem::take(&mut self.sandbox.hide);
            self.sandbox = sandbox;
            self.sandbox.hide.extend(hide);
        }
        self.limits.permissions = std::mem::take(&mut self.limits.permissions).preceded_by(&rules);
    }

    /// The MCP servers, each in a line for people.
    pub(crate) fn mcp_servers(&self) -> impl Iterator<Item = String> {
        self.mcp.iter().map(|(name, server)| format!("{name}: {server}"))
    }

    /// Whether a tool, as `server/tool`, is one of a server that is configured.
    pub(crate) fn has_server_of(&self, tool: &str) -> bool {
        tool.split_once('/').is_some_and(|(server, _)| self.mcp.keys().any(|name| name.as_str() == server))
    }

    /// How each MCP server is reached from this process; else what is missing.
    pub(crate) fn reaches(&self) -> impl Iterator<Item = (&ServerName, Result<Reach, String>)> {
        let secrets = self.secrets();
        let reach =
            move |server: &McpServer| server.reach(&secrets, &process_environment, std::env::vars_os());
        self.mcp.iter().map(move |(name, server)| (name, reach(server)))
    }

    /// The model to use: the one that was asked for, the default, the only one, or one from the environment.
    pub(crate) fn model(
        &self,
        asked: Option<&ModelName>,
        env: Environment<'_>,
    ) -> Result<Arc<dyn Model>, ConfigError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let from_environment = || {
            let (name, settings) = models::from_environment(env)?;
            Some((name, ConfiguredModel { settings, folder: folder.to_owned() }))
        };
        let chosen = match asked.or(self.default_model.as_ref()) {
            Some(name) => {
                let configured = self.models.get(name).map(|model| (name.clone(), model.clone()));
                configured.or_else(|| from_environment().filter(|(found, _)| found == name)).ok_or_else(
                    || ConfigError::NoSuchModel {
                        name: name.clone(),
                        path: self.path.clone(),
                        known: self.known_models(),
                    },
                )?
            }
            None => match self.models.iter().next() {
                None => from_environment().ok_or_else(|| ConfigError::NoModel { path: self.path.clone() })?,
                Some((name, model)) if self.models.len() == 1 => (name.clone(), model.clone()),
                Some(_) => {
                    let names = self.model_names().join(", ");
                    return Err(ConfigError::NoDefault { path: self.path.clone(), names });
                }
            },
        };
        let (name, ConfiguredModel { settings, folder }) = chosen;
        models::build(&name, &settings, env, &folder)
            .map_err(|error| ConfigError::Model { problem: error.to_string() })
    }

    /// The variables that hold the keys of all models, whichever is used, and those meant for servers: commands do not
    /// get them.
    pub(crate) fn secrets(&self) -> Secrets {
        let configured = self.models.values().filter_map(|model| model.settings.api_key_env.as_deref());
        let of_servers = self.mcp.values().flat_map(McpServer::variables);
        Secrets::named(configured.chain(USUAL_KEYS)).and_of_servers(of_servers)
    }

    /// The names of the configured models.
    pub(crate) fn model_names(&self) -> Vec<&str> {
        self.models.keys().map(ModelName::as_str).collect()
    }

    /// The limits of the user's file alone.
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    fn known_models(&self) -> String {
        match self.model_names() {
            names if names.is_empty() => "it has no models".to_owned(),
            names => format!("it has {}", names.join(", ")),
        }
    }
}

impl Limits {
    /// Only less: the smaller budgets, the tools of both lists, the denials of both files. Choosing an agent grants
    /// nothing, for what an agent may do is fixed.
    fn narrowed_by(self, project: ProjectFile) -> Self {
        let ProjectFile { default_agent, tools, budgets, turns, denials, .. } = project;
        let Self { agent, budgets: own, tools: allowed, permissions, max_requests } = self;
        Self {
            agent: default_agent.or(agent),
            budgets: Budgets {
                tokens: budgets.tokens.map_or(own.tokens, |tokens| tokens.min(own.tokens)),
                turns: budgets.turns.map_or(own.turns, |turns| turns.min(own.turns)),
                active_ms: budgets.active_time.map_or(own.active_ms, |time| time.0.min(own.active_ms)),
            },
            tools: allowed.intersect(&allow_list(tools)),
            permissions: permissions.narrowed_by(&denials),
            max_requests: turns.max_requests.map_or(max_requests, |most| most.0.min(max_requests)),
        }
    }
}

fn allow_list(tools: Option<std::collections::BTreeSet<String>>) -> ToolAllowList {
    tools.map_or(ToolAllowList::All, ToolAllowList::Only)
}

/// What is wrong with a `default_agent`, if no session can have it.
pub(crate) fn unselectable(agent: &AgentName) -> Option<String> {
    if agents::role(agent).is_some_and(|role| role.is_selectable) {
        return None;
    }
    let known: Vec<_> = agents::selectable().map(|role| role.name).collect();
    Some(format!(
        "default_agent in zuno.toml: no agent `{agent}` can be selected; there are {}",
        known.join(", ")
    ))
}

/// The project's file of a workspace.
pub(crate) fn project_path(workspace: &Path) -> PathBuf {
    workspace.join(".zuno").join("zuno.toml")
}

/// `$XDG_CONFIG_HOME/zuno/zuno.toml`, by default beneath `~/.config`. Without a home it is a path that messages can
/// show and that no file has.
fn user_path(env: Environment<'_>) -> PathBuf {
    let folder = xdg_folder("XDG_CONFIG_HOME", ".config", env).unwrap_or_else(|| "$XDG_CONFIG_HOME".into());
    folder.join("zuno").join("zuno.toml")
}

/// A folder of the XDG base directory specification, which ignores relative paths.
pub(crate) fn xdg_folder(variable: &str, beneath_home: &str, env: Environment<'_>) -> Option<PathBuf> {
    let set = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set(variable).or_else(|| Some(set("HOME")?.join(beneath_home)))
}
