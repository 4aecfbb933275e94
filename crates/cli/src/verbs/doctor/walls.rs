//! The walls around commands, tried on this machine in a throw-away sandbox.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox::{Finding, Level, probe};

use crate::walls::{Confinement, SandboxTable, launcher};

/// One line a wall, and what is wrong.
pub(super) fn check(table: &SandboxTable) -> (Vec<String>, Vec<String>) {
    let Some(level) = table.level.level() else {
        let line = "off: `level = \"off\"` in [sandbox] of zuno.toml; commands can do whatever you can";
        return (vec![line.to_owned()], Vec::new());
    };
    match try_level(level) {
        Ok(found) => {
            let mut lines = vec![format!("level {}, tried in a throw-away sandbox", level.name())];
            lines.extend(found.iter().map(line));
            let open = found.iter().filter(|finding| !finding.holds);
            let open =
                open.map(|finding| format!("sandbox: {} does not hold: {}", finding.wall, finding.detail));
            (lines, open.collect())
        }
        Err(problem) => {
            let mut lines =
                vec![format!("level {} cannot be built here; commands are refused", level.name())];
            if table.level == Confinement::Full && try_level(Level::Landlock).is_ok() {
                lines.push("level landlock can be built here".to_owned());
            }
            (lines, vec![format!("sandbox: {problem}")])
        }
    }
}

fn line(finding: &Finding) -> String {
    let mark = if finding.holds { "holds" } else { "OPEN " };
    format!("{mark} {}: {}", finding.wall, finding.detail)
}

fn try_level(level: Level) -> Result<Vec<Finding>, String> {
    let scratch = Scratch::make().map_err(|error| format!("no folder to try it in: {error}"))?;
    probe(&launcher(), level, &scratch.0)
}

/// A folder that is gone when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> io::Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("zuno-doctor-{}-{}", std::process::id(), since.as_nanos());
        // A folder of that name belongs to somebody else; ours is nobody else's to read.
        let make = |parent: &Path| {
            let path = parent.join(&name);
            DirBuilder::new().mode(0o700).create(&path).map(|()| Self(path))
        };
        // What lies beneath `/tmp` is not there for a command, and what is not there proves little.
        make(Path::new("/var/tmp")).or_else(|_| make(&std::env::temp_dir()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the temporary folder, which the system clears.
        fs::remove_dir_all(&self.0).ok();
    }
}
