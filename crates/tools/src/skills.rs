//! Skills: folders with a `SKILL.md`, found by the name and the description at its head.
//!
//! A skill is text. What its head says of tools is not read, and nothing of a skill is ever run from here (C7).

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use runtime::{Sight, SkillSummary};
use serde::Deserialize;

use crate::workspace::{Workspace, explain, open_regular};

/// The file that makes a folder a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";

/// Where a project keeps skills, the first before the second. The user's own come before both: what a project names
/// alike does not take the place of what the user knows by that name.
const PROJECT_FOLDERS: [&str; 2] = [".zuno/skills", ".agents/skills"];

/// Where the user's own are, in their configuration folder.
const USER_FOLDER: &str = "skills";

/// Skills of one place. Each costs a look at its head at the start of every turn.
const SKILLS: usize = 100;

/// Bytes of a file in which its head must end: name and description at their longest, with room for what others keep
/// there.
const HEAD_BYTES: u64 = 16 * 1024;

/// Bytes of a name, as in the format that other agents share.
const NAME_BYTES: usize = 64;

/// Characters of a description, likewise.
const DESCRIPTION_CHARS: usize = 1024;

/// A skill that can be loaded.
#[derive(Debug)]
pub(crate) struct Skill {
    /// What it is for.
    description: String,
    /// Its folder, for whoever looks for it.
    pub(crate) place: String,
    /// The folder that nothing is opened outside of.
    dir: Arc<Dir>,
    /// The skill's folder, from there and free of links.
    folder: PathBuf,
    /// Whether permission rules about paths are about it: it lies in the workspace.
    pub(crate) is_in_workspace: bool,
}

/// The skills of one workspace and user.
#[derive(Debug, Default)]
pub(crate) struct Skills {
    found: BTreeMap<String, Skill>,
    /// Folders that are no skill, by the name that they would have had.
    broken: BTreeMap<String, String>,
    /// What the user may want to know, but is no fault.
    remarks: Vec<String>,
    problems: Vec<String>,
}

/// The head of a `SKILL.md`, as far as it counts here.
#[derive(Deserialize)]
struct Head {
    name: String,
    description: String,
}

impl Skills {
    /// Looks for skills. What may not be shown to an agent is none.
    pub(crate) fn find(workspace: &Workspace, user: Option<&Path>, sight: &Sight) -> Self {
        let mut skills = Self::default();
        if let Some(user) = user {
            // The folder itself may be reached by a link; what leads out of it is refused.
            match user
                .canonicalize()
                .and_then(|user| Dir::open_ambient_dir(user, cap_std::ambient_authority()))
            {
                Ok(dir) => {
                    skills.look_in(&Arc::new(dir), Path::new(USER_FOLDER), &user.join(USER_FOLDER), None);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => skills.problems.push(format!("{}: {error}", user.display())),
            }
        }
        match workspace.dir().try_clone().map(Arc::new) {
            Ok(dir) => {
                for folder in PROJECT_FOLDERS.map(Path::new) {
                    skills.look_in(&dir, folder, folder, Some(sight));
                }
            }
            Err(error) => skills.problems.push(format!("the workspace: {error}")),
        }
        skills
    }

    fn look_in(&mut self, dir: &Arc<Dir>, folder: &Path, shown: &Path, sight: Option<&Sight>) {
        let names = match names_in(dir, folder) {
            Ok(names) => names,
            Err(error) => return self.problems.push(explain(shown, &error)),
        };
        if names.len() > SKILLS {
            self.problems.push(format!(
                "{} has {} folders; the first {SKILLS} by name are looked at",
                shown.display(),
                names.len()
            ));
        }
        for name in names.into_iter().take(SKILLS) {
            let place = shown.join(&name).display().to_string();
            let skill = open(dir, &folder.join(&name), &name, sight)
                .map(|(description, folder)| Skill {
                    description,
                    place: place.clone(),
                    dir: Arc::clone(dir),
                    folder,
                    is_in_workspace: sight.is_some(),
                })
                .map_err(|problem| format!("{place}: {problem}"));
            match skill {
                Ok(skill) => self.add(name, skill),
                Err(problem) => {
                    self.broken.entry(name).or_insert_with(|| problem.clone());
                    self.problems.push(problem);
                }
            }
        }
    }

    fn add(&mut self, name: String, skill: Skill) {
        if let Some(first) = self.found.get(&name) {
            self.remarks
                .push(format!("the skill {} is not used: {} comes before it", skill.place, first.place));
        } else {
            self.found.insert(name, skill);
        }
    }

    /// The skills in the order of their names.
    pub(crate) fn summaries(&self) -> Vec<SkillSummary> {
        let summary = |(name, skill): (&String, &Skill)| SkillSummary {
            name: name.clone(),
            description: skill.description.clone(),
        };
        self.found.iter().map(summary).collect()
    }

    /// The skill of a name, or why there is none, with those that there are.
    pub(crate) fn get(&self, name: &str) -> Result<&Skill, String> {
        self.found.get(name).ok_or_else(|| {
            let names = self.found.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let why = match self.broken.get(name) {
                Some(problem) => format!("the skill `{name}` cannot be loaded: {problem}"),
                None => format!("there is no skill `{}`", crate::words::clip(name, NAME_BYTES)),
            };
            format!("{why}; there are: {names}")
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl Skill {
    /// A file of the skill's folder, from the folder that the skill's lies in: free of links, and beneath it.
    pub(crate) fn resolve(&self, file: &str) -> Result<PathBuf, String> {
        let asked = Path::new(file);
        if !asked.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(format!("`{file}` is no path within the skill's folder"));
        }
        let shown = Path::new(&self.place).join(asked);
        let path = self.dir.canonicalize(self.folder.join(asked)).map_err(|error| explain(&shown, &error))?;
        if !path.starts_with(&self.folder) {
            return Err(format!(
                "{} leads out of the skill's folder through a symbolic link, which is refused",
                shown.display()
            ));
        }
        Ok(path)
    }

    /// The first bytes of a file that [`resolve`](Self::resolve) gave, and how many there are in all.
    pub(crate) fn read(&self, path: &Path, most: u64) -> io::Result<(Vec<u8>, u64)> {
        start_of(&self.dir, path, most)
    }
}

/// The sorted names of the folders in a folder; none if there is no such folder.
fn names_in(dir: &Dir, folder: &Path) -> io::Result<Vec<String>> {
    let entries = match dir.read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A link may lead to a folder; where it leads is looked at when it is followed.
        let may_be_folder = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
        let name = entry.file_name().to_string_lossy().into_owned();
        if may_be_folder && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The description of the skill in a folder, and the folder free of links.
fn open(dir: &Dir, folder: &Path, name: &str, sight: Option<&Sight>) -> Result<(String, PathBuf), String> {
    check_name(name)?;
    let folder = dir.canonicalize(folder).map_err(|error| explain(folder, &error))?;
    let file =
        dir.canonicalize(folder.join(SKILL_FILE)).map_err(|error| explain(Path::new(SKILL_FILE), &error))?;
    if !file.starts_with(&folder) {
        return Err(format!(
            "{SKILL_FILE} leads out of its folder through a symbolic link, which is refused"
        ));
    }
    if sight.is_some_and(|sight| !sight.shows_content(&file.to_string_lossy())) {
        return Err("the permission rules keep it from agents".to_owned());
    }
    let (start, _) =
        start_of(dir, &file, HEAD_BYTES).map_err(|error| explain(Path::new(SKILL_FILE), &error))?;
    let head = head_of(&String::from_utf8_lossy(&start))?;
    if head.name != name {
        return Err(format!(
            "{SKILL_FILE} is called `{}`; name it as its folder",
            crate::words::clip(&head.name, NAME_BYTES)
        ));
    }
    if head.description.chars().count() > DESCRIPTION_CHARS {
        return Err(format!(
            "the `description` of {SKILL_FILE} has more than {DESCRIPTION_CHARS} characters"
        ));
    }
    if head.description.trim().is_empty() {
        return Err(format!("the `description` of {SKILL_FILE} is blank"));
    }
    Ok((head.description.trim().to_owned(), folder))
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > NAME_BYTES || !name.chars().all(fits) || name.starts_with('-') || name.ends_with('-') {
        return Err(format!(
            "a skill's name has lower-case letters, digits and `-` within, {NAME_BYTES} at most; rename the folder"
        ));
    }
    Ok(())
}

fn start_of(dir: &Dir, path: &Path, most: u64) -> io::Result<(Vec<u8>, u64)> {
    let file = open_regular(dir, path)?;
    let bytes = file.metadata()?.len();
    let mut start = Vec::new();
    file.take(most).read_to_end(&mut start)?;
    Ok((start, bytes))
}

/// The lines between the `---` on the first line and the next, and what follows.
fn split_head(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text).strip_prefix("---")?;
    let start = rest.find('\n').filter(|end| rest[..*end].trim().is_empty())? + 1;
    let mut at = start;
    for line in rest[start..].split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[start..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn head_of(text: &str) -> Result<Head, String> {
    let (head, _) = split_head(text).ok_or_else(|| {
        format!(
            "{SKILL_FILE} does not begin with `---`, `name`, `description` and `---` on lines of their own"
        )
    })?;
    serde_saphyr::from_str(head).map_err(|error| {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        format!("the head of {SKILL_FILE} cannot be read: {first}")
    })
}

/// The text of a skill without its head.
pub(crate) fn body_of(text: &str) -> &str {
    split_head(text).map_or(text, |(_, body)| body).trim_start_matches(['\r', '\n'])
}
