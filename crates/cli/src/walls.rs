//! The walls around commands: what the configuration says of them, and which places of this user they are about.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use sandbox::{InvalidProfile, Launcher, Level, Limits, Places, Sandbox};
use serde::Deserialize;
use store::StoreUrl;

use crate::config::{Config, Environment, xdg_folder};

/// The verb that turns this program into a launcher. Nobody types it, and help does not show it.
pub(crate) const LAUNCHER_VERB: &str = "sandbox-exec";

/// How commands are confined.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confinement {
    /// Namespaces, Landlock and seccomp.
    #[default]
    Full,
    /// Landlock and seccomp alone, where a container allows no namespaces.
    Landlock,
    /// Not at all: commands can do what you can.
    Off,
}

impl Confinement {
    /// The level of the wall, if there is one.
    pub(crate) const fn level(self) -> Option<Level> {
        match self {
            Self::Full => Some(Level::Full),
            Self::Landlock => Some(Level::Landlock),
            Self::Off => None,
        }
    }
}

/// `[sandbox]` of the user's file.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxTable {
    /// How commands are confined.
    #[serde(default)]
    pub(crate) level: Confinement,
    /// What commands write besides the workspace; [`USUAL_CACHES`] if it says nothing.
    pub(crate) writable: Option<Vec<String>>,
    /// What commands cannot read, besides what is ours.
    #[serde(default)]
    pub(crate) hide: Vec<String>,
    /// Private memory in MiB of a command with all it starts; three quarters of the machine's if it says nothing, and no
    /// bound if it is 0.
    pub(crate) memory_mib: Option<u64>,
}

/// Caches beneath the home folder that compilers and package managers fill, as far as they exist. What they hold is
/// read by these programs again, also outside of any sandbox, so the list has no cache that holds programs.
const USUAL_CACHES: [&str; 8] = [
    "~/.cargo/registry",
    "~/.cargo/git",
    "~/.npm/_cacache",
    "~/.cache/go-build",
    "~/.cache/pip",
    "~/.cache/uv",
    "~/go/pkg/mod",
    "~/.m2/repository",
];

/// What else a database keeps beside its file.
const BESIDE_STORE: [&str; 5] = ["", "-wal", "-shm", "-journal", ".lock"];

/// What a workspace's walls are made of.
#[derive(Debug, Clone)]
pub(crate) struct Walls {
    level: Option<Level>,
    cache: PathBuf,
    writable: Vec<PathBuf>,
    own: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    limits: Limits,
}

impl Walls {
    /// The user's walls. `asked` stands on the command line and counts more than the file.
    pub(crate) fn new(
        config: &Config,
        asked: Option<Confinement>,
        store: &StoreUrl,
        env: Environment<'_>,
    ) -> Self {
        let table = config.sandbox();
        let cache = xdg_folder("XDG_CACHE_HOME", ".cache", env);
        // Without a home there is no place for a cache. What the system clears is one for temporary files.
        let cache = cache.unwrap_or_else(std::env::temp_dir).join("zuno");
        let writable = match &table.writable {
            Some(declared) => declared.iter().filter_map(|path| at_home(path, env)).collect(),
            None => usual_caches(env),
        };
        let mut own = vec![cache.clone()];
        own.extend(config.path().parent().map(Path::to_path_buf));
        own.extend(xdg_folder("XDG_DATA_HOME", ".local/share", env).map(|folder| folder.join("zuno")));
        own.extend(xdg_folder("XDG_STATE_HOME", ".local/state", env).map(|folder| folder.join("zuno")));
        own.extend(env("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("zuno")));
        let StoreUrl::Sqlite(store) = store;
        let mut hidden: Vec<_> = table.hide.iter().filter_map(|path| at_home(path, env)).collect();
        hidden.extend(BESIDE_STORE.map(|end| {
            let mut path = store.clone().into_os_string();
            path.push(end);
            PathBuf::from(path)
        }));
        let mut limits = Limits::default();
        if let Some(mib) = table.memory_mib {
            limits.memory_bytes = Some(mib.saturating_mul(1 << 20)).filter(|bytes| *bytes > 0);
        }
        let level = asked.unwrap_or(table.level).level();
        Self { level, cache, writable, own, hidden, limits }
    }

    /// The walls around one workspace; `None` if the user wants none.
    pub(crate) fn around(&self, workspace: &Path) -> Result<Option<Sandbox>, InvalidProfile> {
        let Some(level) = self.level else { return Ok(None) };
        for folder in self.own.iter().filter(|folder| folder.starts_with(workspace)) {
            // What is not there cannot be hidden, and whoever makes it would be obeyed. Where it cannot be made by us,
            // it cannot be made by a command.
            let _ = std::fs::create_dir_all(folder);
        }
        let name = store::digest(workspace.as_os_str().as_encoded_bytes()).to_string();
        let places = Places {
            workspace: workspace.to_owned(),
            temp: self.cache.join("workspaces").join(name).join("tmp"),
            writable: self.writable.clone(),
            hidden: self.own.iter().chain(&self.hidden).cloned().collect(),
        };
        Sandbox::new(launcher(), level, &places, self.limits).map(Some)
    }

    /// How commands are confined, as the log has it.
    pub(crate) const fn confinement(&self) -> domain::Confinement {
        match self.level {
            Some(Level::Full) => domain::Confinement::Full,
            Some(Level::Landlock) => domain::Confinement::Landlock,
            None => domain::Confinement::Off,
        }
    }
}

/// This very program, also when a newer one has taken its place on the disk.
pub(crate) fn launcher() -> Launcher {
    Launcher { program: "/proc/self/exe".into(), arguments: vec![LAUNCHER_VERB.to_owned()] }
}

fn usual_caches(env: Environment<'_>) -> Vec<PathBuf> {
    let cargo = env("CARGO_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let of_cargo = cargo.iter().flat_map(|home| [home.join("registry"), home.join("git")]);
    of_cargo.chain(USUAL_CACHES.iter().filter_map(|path| at_home(path, env))).collect()
}

/// An absolute path; `~/` is the home folder.
pub(crate) fn at_home(path: &str, env: Environment<'_>) -> Option<PathBuf> {
    let path = match path.strip_prefix("~/") {
        Some(rest) => PathBuf::from(env("HOME")?).join(rest),
        None => PathBuf::from(path),
    };
    path.is_absolute().then_some(path)
}
