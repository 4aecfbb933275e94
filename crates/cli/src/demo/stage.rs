//! Where the demo plays: a temporary folder with a small project under git, a configuration and a store.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::Digest;

use crate::exit::CliError;

const SCENARIO: &str = include_str!("scenario.toml");
/// The one file of the project that changes.
pub(super) const PROGRAM: &str = "session.sh";
const PROJECT: [(&str, &str); 2] =
    [(PROGRAM, include_str!("project/session.sh")), ("test.sh", include_str!("project/test.sh"))];
const CONFIG: &str = r#"default_model = "demo"

[models.demo]
protocol = "scripted"
scenario = "scenario.toml"

[[permissions]]
verdict = "ask"
tool = "shell"
command = "git commit*"
"#;

/// The folder, removed when this is dropped unless it is to be kept.
pub(super) struct Stage {
    root: PathBuf,
    keep: bool,
}

impl Stage {
    /// Makes the folder and everything in it.
    pub(super) fn build(keep: bool) -> Result<Self, CliError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("zuno-demo-{}-{}", std::process::id(), since.as_nanos());
        // Two names of one folder would be two workspaces.
        let parent = std::env::temp_dir();
        let parent = fs::canonicalize(&parent).map_err(|error| at(&parent, &error))?;
        let root = parent.join(name);
        // A folder of that name belongs to somebody else; ours is nobody else's to read.
        DirBuilder::new().mode(0o700).create(&root).map_err(|error| at(&root, &error))?;
        let stage = Self { root, keep };
        let config = stage.config_home().join("zuno");
        for folder in [&stage.project(), &config] {
            fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
        }
        for (name, text) in PROJECT {
            write(&stage.project().join(name), text)?;
        }
        write(&config.join("zuno.toml"), CONFIG)?;
        write(&config.join("scenario.toml"), SCENARIO)?;
        stage.git()?;
        Ok(stage)
    }

    /// A repository with one commit. Its identity and settings are its own, whatever the user's are.
    fn git(&self) -> Result<(), CliError> {
        let lines: [&[&str]; 7] = [
            // No template: its hooks would run.
            &["init", "--quiet", "--template="],
            &["config", "user.name", "Zuno demo"],
            &["config", "user.email", "demo@example.com"],
            &["config", "commit.gpgsign", "false"],
            &["config", "core.hooksPath", "/dev/null"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "Start"],
        ];
        for arguments in lines {
            let output = match self.in_project("git").args(arguments).output() {
                Ok(output) => output,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let problem = "git is not installed, or not on PATH; the demo works in a git repository: \
                                   install git and run it again";
                    return Err(CliError::Environment(problem.to_owned()));
                }
                Err(error) => return Err(CliError::Environment(format!("git cannot be started: {error}"))),
            };
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(CliError::Environment(format!("git {} failed: {said}", arguments.join(" "))));
            }
        }
        Ok(())
    }

    /// A program in the project, away from the caller's own repository and git settings.
    fn in_project(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project());
        for variable in GIT_VARIABLES {
            command.env_remove(variable);
        }
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    /// Runs the project's tests: whether they pass, and their last line.
    pub(super) fn test(&self) -> Result<(bool, String), CliError> {
        let run = self.in_project("sh").arg("test.sh").output();
        let Output { status, stdout, .. } =
            run.map_err(|error| CliError::Environment(format!("sh cannot be started: {error}")))?;
        let said = String::from_utf8_lossy(&stdout);
        Ok((status.success(), said.lines().next_back().unwrap_or("no output").to_owned()))
    }

    /// The digest of the file that the model changes.
    pub(super) fn digest(&self) -> Result<Digest, CliError> {
        let path = self.project().join(PROGRAM);
        let bytes = fs::read(&path).map_err(|error| at(&path, &error))?;
        Ok(store::digest(&bytes))
    }

    /// The folder of all.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The workspace.
    pub(super) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// What stands for `XDG_CONFIG_HOME`.
    pub(super) fn config_home(&self) -> PathBuf {
        self.root.join("config")
    }

    /// The store's file.
    pub(super) fn store(&self) -> PathBuf {
        self.root.join("zuno.db")
    }
}

/// Variables that point git somewhere else, as set within hooks.
pub(super) const GIT_VARIABLES: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"];

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed lies in the temporary folder, which the system clears.
            fs::remove_dir_all(&self.root).ok();
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    fs::write(path, text).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &io::Error) -> CliError {
    CliError::Environment(format!("{}: {error}", path.display()))
}
