//! How the commands of one workspace are confined.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::git;
use crate::limits::Limits;
use crate::order::Order;

/// How much of the wall there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Everything: namespaces and mounts, with Landlock and seccomp on top.
    Full,
    /// Landlock and seccomp alone, where a container lets nobody have namespaces. There is no loopback then, nothing
    /// may change modes, owners or times of files, and nothing within the workspace can be protected.
    Landlock,
}

impl Level {
    /// Its name in `zuno.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Landlock => "landlock",
        }
    }
}

/// The program that becomes the shell: it has to end up in [`launch`](crate::launch) when it gets these arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// What comes before the stage, such as a verb.
    pub arguments: Vec<String>,
}

/// The places that a wall is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Commands write beneath it, except what git and Zuno would run or obey: see [`Sandbox::unprotected`].
    pub workspace: PathBuf,
    /// A directory of this workspace for temporary files; made if it is not there. It is `/tmp` to commands.
    pub temp: PathBuf,
    /// What else commands write: caches. What does not exist is left out.
    pub writable: Vec<PathBuf>,
    /// What commands cannot even read, with all beneath.
    pub hidden: Vec<PathBuf>,
}

/// What one launcher builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) level: Level,
    pub(crate) workspace: PathBuf,
    pub(crate) temp: PathBuf,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) limits: Limits,
}

impl Profile {
    /// The workspace and the declared places.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.workspace.as_path()).chain(self.writable.iter().map(PathBuf::as_path))
    }
}

/// Places that cannot be confined to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProfile {
    /// A place that is needed and not there.
    #[error("{}: {problem}", path.display())]
    Path {
        /// The place.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
    /// Everything would be writable.
    #[error(
        "commands cannot be confined to the root of the file system; choose another workspace, or take `/` out of `writable` in [sandbox] of zuno.toml"
    )]
    Root,
    /// A hidden place with a writable one beneath.
    #[error("{} must be hidden from commands, and {} beneath it must be writable; choose another workspace, or change `hide` in [sandbox] of zuno.toml", hidden.display(), writable.display())]
    HidesWritable {
        /// The hidden place.
        hidden: PathBuf,
        /// The writable one.
        writable: PathBuf,
    },
    /// Landlock lets through all that is beneath a directory.
    #[error("{} must be hidden from commands, and Landlock cannot hide what lies in the writable {}; choose another workspace or `level = \"full\"` in [sandbox] of zuno.toml", hidden.display(), writable.display())]
    CannotHide {
        /// The hidden place.
        hidden: PathBuf,
        /// The writable one.
        writable: PathBuf,
    },
}

/// The walls around the commands of one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    launcher: Launcher,
    profile: Profile,
}

impl Sandbox {
    /// Checks the places, and follows links in them once and for all.
    pub fn new(
        launcher: Launcher,
        level: Level,
        places: &Places,
        limits: Limits,
    ) -> Result<Self, InvalidProfile> {
        let workspace = places.workspace.canonicalize().map_err(|error| InvalidProfile::Path {
            path: places.workspace.clone(),
            problem: error.to_string(),
        })?;
        let writable = outermost(&workspace, &places.writable);
        let hidden: Vec<_> = places.hidden.iter().map(|path| followed(path)).collect();
        let profile = Profile { level, workspace, temp: followed(&places.temp), writable, hidden, limits };
        check(&profile)?;
        Ok(Self { launcher, profile })
    }

    /// What to start, with one end of a socket as its standard input.
    pub const fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// How much of the wall there is.
    pub const fn level(&self) -> Level {
        self.profile.level
    }

    /// The order to run a shell text in a directory, with the network of the machine or without.
    pub fn order(&self, script: String, workdir: PathBuf, network: bool) -> Order {
        Order { profile: self.profile.clone(), script, workdir, network }
    }

    /// Where commands write, for people.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.profile.roots()
    }

    /// What would be protected if it existed. A command can make it, and whoever uses it afterwards should know: git
    /// runs what hooks and settings say, and Zuno reads `.zuno`.
    pub fn unprotected(&self) -> Vec<PathBuf> {
        git::missing(&self.profile.workspace)
    }
}

/// Existing places with links followed, without those within another. A place within another one could have been
/// replaced by a link to anywhere by an earlier command, so it is told by its name and not by where it leads.
fn outermost(workspace: &Path, declared: &[PathBuf]) -> Vec<PathBuf> {
    let is_within = |path: &Path| {
        path.starts_with(workspace) || declared.iter().any(|other| path != other && path.starts_with(other))
    };
    let own = declared.iter().filter(|path| !is_within(path));
    let mut found: Vec<_> = own.filter_map(|path| path.canonicalize().ok()).collect();
    found.sort();
    found.dedup();
    found
}

/// A path with the links of its existing part followed.
fn followed(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(found), ..) => found,
        (Err(_), Some(parent), Some(name)) => followed(parent).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}

fn check(profile: &Profile) -> Result<(), InvalidProfile> {
    if profile.roots().any(|root| root == Path::new("/")) {
        return Err(InvalidProfile::Root);
    }
    for hidden in &profile.hidden {
        for writable in profile.roots() {
            let pair = || (hidden.clone(), writable.to_owned());
            if writable.starts_with(hidden) {
                let (hidden, writable) = pair();
                return Err(InvalidProfile::HidesWritable { hidden, writable });
            }
            if hidden.starts_with(writable) && profile.level == Level::Landlock {
                let (hidden, writable) = pair();
                return Err(InvalidProfile::CannotHide { hidden, writable });
            }
        }
    }
    Ok(())
}
