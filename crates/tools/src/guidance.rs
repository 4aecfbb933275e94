//! What people wrote for agents: `AGENTS.md` files and skills, as they are at the start of a turn.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use runtime::{
    InstructionFile, InstructionOwner, Instructions, PROJECT_INSTRUCTION_BYTES, Sight, Tool,
    USER_INSTRUCTION_BYTES,
};

use crate::load_skill::LoadSkill;
use crate::skills::Skills;
use crate::workspace::{Workspace, explain, open_regular};

/// The file that holds instructions for agents.
const FILE: &str = "AGENTS.md";

/// Folders that are looked into from the one worked in upwards: more than any project is deep.
const FOLDERS: usize = 32;

/// The texts for agents that hold in one workspace for one user. They are read once a turn, so that the prompt stays the
/// same within it.
#[derive(Debug, Default)]
pub struct Guidance {
    files: Vec<InstructionFile>,
    skills: Arc<Skills>,
    problems: Vec<String>,
}

impl Guidance {
    /// Reads them. `here` is the folder worked in; it counts if it is beneath the root. `user` is the user's own
    /// configuration folder. What the permission rules keep from `read_file` is not read either.
    pub fn read(workspace: &Workspace, here: &Path, user: Option<&Path>, sight: &Sight) -> Self {
        let mut guidance = Self { skills: Arc::new(Skills::find(workspace, user, sight)), ..Self::default() };
        let mut seen = BTreeSet::new();
        for path in files_above(workspace, here) {
            match of_project(workspace, &path, sight, &mut seen) {
                Ok(found) => guidance.files.extend(found),
                Err(problem) => guidance.problems.push(problem),
            }
        }
        match user.map(|user| user.join(FILE)).map_or(Ok(None), |path| of_user(&path)) {
            Ok(found) => guidance.files.extend(found),
            Err(problem) => guidance.problems.push(problem),
        }
        guidance
    }

    /// As they stand in the system prompt.
    pub fn instructions(&self) -> Instructions {
        Instructions::new(&self.files, &self.skills.summaries())
    }

    /// The tool that loads a skill, if there is any.
    pub fn tool(&self) -> Option<Arc<dyn Tool>> {
        (!self.skills.is_empty()).then(|| Arc::new(LoadSkill::new(Arc::clone(&self.skills))) as Arc<dyn Tool>)
    }

    /// Where the instructions are that hold, the nearest first.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.place.as_str())
    }

    /// The names of the skills.
    pub fn skills(&self) -> impl Iterator<Item = String> {
        self.skills.summaries().into_iter().map(|skill| skill.name)
    }

    /// What is as it is on purpose, most likely, and still good to know.
    pub fn remarks(&self) -> &[String] {
        self.skills.remarks()
    }

    /// What cannot be used, and why.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().chain(self.skills.problems()).map(String::as_str)
    }
}

/// Where instructions may be, from the folder worked in up to the root.
fn files_above(workspace: &Workspace, here: &Path) -> Vec<PathBuf> {
    let here = here.canonicalize().unwrap_or_default();
    let beneath = here.strip_prefix(workspace.root()).unwrap_or(Path::new(""));
    beneath.ancestors().take(FOLDERS).map(|folder| folder.join(FILE)).collect()
}

fn of_project(
    workspace: &Workspace,
    path: &Path,
    sight: &Sight,
    seen: &mut BTreeSet<PathBuf>,
) -> Result<Option<InstructionFile>, String> {
    let real = match workspace.dir().canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(explain(path, &error)),
    };
    // A link in a folder to the file of another one brings no second copy.
    if !seen.insert(real.clone()) {
        return Ok(None);
    }
    if !sight.shows_content(&real.to_string_lossy()) {
        return Err(format!("{} is not read: the permission rules keep it from agents", path.display()));
    }
    let place = path.display().to_string();
    start_of(workspace.dir(), &real, InstructionOwner::Project, place).map_err(|error| explain(path, &error))
}

/// The user's own file, which may be a link to wherever they keep it.
fn of_user(path: &Path) -> Result<Option<InstructionFile>, String> {
    let opened = path.canonicalize().and_then(|real| {
        let (folder, name) = real.parent().zip(real.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let dir = Dir::open_ambient_dir(folder, cap_std::ambient_authority())?;
        start_of(&dir, Path::new(name), InstructionOwner::User, path.display().to_string())
    });
    match opened {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        opened => opened.map_err(|error| format!("{}: {error}", path.display())),
    }
}

/// The start of a file as far as it can stand in a prompt; nothing of one that is empty.
fn start_of(
    dir: &Dir,
    path: &Path,
    owner: InstructionOwner,
    place: String,
) -> io::Result<Option<InstructionFile>> {
    let most = match owner {
        InstructionOwner::Project => PROJECT_INSTRUCTION_BYTES,
        InstructionOwner::User => USER_INSTRUCTION_BYTES,
    };
    let file = open_regular(dir, path)?;
    let bytes = file.metadata()?.len();
    let mut start = Vec::new();
    // One more character, so that the cut does not go through the last that is shown.
    file.take(most as u64 + 4).read_to_end(&mut start)?;
    let text = String::from_utf8_lossy(&start).into_owned();
    let rest_bytes = bytes.saturating_sub(start.len() as u64);
    let is_blank = domain::is_blank(&text) && rest_bytes == 0;
    Ok((!is_blank).then_some(InstructionFile { owner, place, text, rest_bytes }))
}

#[cfg(test)]
mod tests;
