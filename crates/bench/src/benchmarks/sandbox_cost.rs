//! What the walls cost a command that itself costs next to nothing.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use runtime::{Tool, ToolOutput};
use sandbox::{Launcher, Level, Limits, Places, Sandbox};
use serde_json::json;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tools::{Secrets, Workspace};

use super::{Benchmark, LAUNCHER_VERB, Setting};
use crate::error::Error;
use crate::measure::{Candidate, Comparison, in_turn};

pub(super) const BENCHMARK: Benchmark = Benchmark {
    name: "sandbox-cost",
    about: "The tool `shell` runs the command `true`: behind all walls, with Landlock and seccomp alone, and without a \
            sandbox, from the decoding of its arguments to its answer. Beside them `sh -c true` is started and waited \
            for, its output read, and nothing else. The places are those of a new workspace: one to write in, temporary files, and the \
            store and the four folders of Zuno's own hidden. Each cache that commands may write is one more mount.",
    run,
};

/// The word that is run: it is part of every shell, so that no second program is started.
const COMMAND: &str = "true";

/// Without walls and without the tool, and then without walls: what the others are held against.
const BASELINES: &[usize] = &[0, 1];

fn run(setting: &Setting) -> Result<Comparison, Error> {
    // Commands behind walls see another `/tmp` than ours, so a workspace there is mounted in another way.
    let home = tempfile::tempdir_in("/var/tmp").map_err(Error::of("making a folder in /var/tmp"))?;
    let places = places(home.path()).map_err(Error::of("making a workspace"))?;
    let workspace = places.workspace.as_path();
    let launcher = setting.launcher.clone().unwrap_or_else(|| "/proc/self/exe".into());
    let note = started_by(&launcher)?;
    let launcher = Launcher { program: launcher, arguments: vec![LAUNCHER_VERB.to_owned()] };
    let walls = |level| Sandbox::new(launcher.clone(), level, &places, Limits::default());
    let shells = [
        ("shell, no sandbox", shell(workspace, None)?),
        ("shell, Landlock and seccomp", shell(workspace, Some(walls(Level::Landlock)?))?),
        ("shell, all walls", shell(workspace, Some(walls(Level::Full)?))?),
    ];
    let tasks = &setting.tasks;
    let mut candidates = vec![Candidate { name: BARE, once: Box::new(|| tasks.block_on(bare(workspace))) }];
    candidates.extend(shells.iter().map(|(name, shell)| Candidate {
        name,
        once: Box::new(|| tasks.block_on(call(name, shell.as_ref()))),
    }));
    let measured = in_turn(setting.effort, candidates)?;
    Ok(Comparison { measured, baselines: BASELINES, note })
}

/// Which program puts up the walls. Each command starts it twice, and a larger one takes longer to start.
fn started_by(launcher: &Path) -> Result<String, Error> {
    let file = |source| Error::File { path: launcher.to_owned(), source };
    let program = launcher.canonicalize().map_err(file)?;
    let bytes = program.metadata().map_err(file)?.len();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!(
        "The walls are put up by `{name}`, a program of {} MiB that each command starts twice.",
        bytes >> 20
    ))
}

/// What `zuno` has around a workspace by default, on a machine without caches of compilers.
fn places(home: &Path) -> std::io::Result<Places> {
    let folder = |name: &str| {
        let path = home.join(name);
        std::fs::create_dir_all(&path).map(|()| path)
    };
    let own = ["cache/zuno", "config/zuno", "data/zuno", "state/zuno"];
    let mut hidden = own.iter().map(|name| folder(name)).collect::<Result<Vec<_>, _>>()?;
    let store = home.join("zuno.db");
    std::fs::write(&store, "")?;
    hidden.push(store);
    Ok(Places {
        workspace: folder("workspace")?,
        temp: folder("cache/zuno/tmp")?,
        writable: Vec::new(),
        hidden,
    })
}

fn shell(workspace: &Path, walls: Option<Sandbox>) -> Result<Arc<dyn Tool>, Error> {
    let missing = |problem: String| Error::Candidate { candidate: "shell", problem };
    let workspace = Workspace::open(workspace).map_err(|error| missing(error.to_string()))?;
    let all = tools::all(Arc::new(workspace), Secrets::default(), walls);
    all.into_iter()
        .find(|tool| tool.spec().name == "shell")
        .ok_or_else(|| missing("there is no such tool".to_owned()))
}

async fn call(name: &'static str, shell: &dyn Tool) -> Result<(), Error> {
    let prepared = shell.prepare(json!({ "command": COMMAND })).await;
    let wrong = |problem: String| Error::Candidate { candidate: name, problem };
    let ToolOutput { exit_status, text, .. } =
        prepared.map_err(|fault| wrong(fault.to_string()))?.run(CancellationToken::new()).await;
    if exit_status == Some(0) { Ok(()) } else { Err(wrong(text)) }
}

/// The name of the candidate without tool and walls.
const BARE: &str = "bare sh -c true";

async fn bare(workspace: &Path) -> Result<(), Error> {
    let mut command = Command::new("sh");
    command.args(["-c", COMMAND]).current_dir(workspace).stdin(Stdio::null());
    let output = command.output().await.map_err(Error::of("starting sh"))?;
    let wrong = || Error::Candidate { candidate: BARE, problem: output.status.to_string() };
    if output.status.success() { Ok(()) } else { Err(wrong()) }
}
