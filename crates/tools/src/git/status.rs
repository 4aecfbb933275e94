//! `git_status`: the branch, and what is staged, changed, in conflict or untracked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::ControlFlow;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::File;
use runtime::Sight;
use schemars::JsonSchema;
use serde::Deserialize;

use super::changes::{Change, compare, find_renames};
use super::patch::Content;
use super::repository::{Repository, explain};
use super::text::shown;
use super::work_tree::{WorkTree, conflicts, index_items, index_of};
use super::{Around, Question, patch};
use crate::walk;
use crate::words::{count, left_out};

/// Files named; more are generated or moved as a whole, and a path narrows them.
const MAX_ROWS: usize = 500;

/// Commits counted to tell how far a branch is ahead or behind.
const MAX_COUNTED: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Status {
    /// Only this file or directory, from the workspace root; everything if left out.
    path: Option<String>,
}

impl Question for Status {
    const NAME: &'static str = "git_status";
    const DESCRIPTION: &'static str = "Show the branch and the changed files of the git repository, as git status --short --branch does: the first \
         letter is what is staged, the second what is not (M modified, A added, D deleted, R renamed, U in conflict, ?? \
         untracked). Submodules are not looked into.";

    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    fn answer(self, around: &Around<'_>) -> Result<String, String> {
        let repository = around.repository;
        let index = index_of(repository)?;
        let within = repository.full(around.path);
        let within = within.as_bstr();
        let mut work_tree = WorkTree::new(repository, around.workspace, &index, around.stop)?;
        let conflicts = conflicts(&index, within);
        let is_clear = |change: &Change| conflicts.iter().all(|(path, _)| *path != change.path);

        let indexed = index_items(&index, within, false);
        let head = repository.tree_items(repository.head_tree()?, within, around.stop)?;
        let staged: Vec<_> = compare(head, indexed.clone()).into_iter().filter(is_clear).collect();
        let content = |_: &BStr, item| {
            repository.content(item, patch::MAX_DIFFED_BYTES).unwrap_or(Content::Binary(None))
        };
        let staged = find_renames(staged, content, around.stop);
        let on_disk = work_tree.items(within)?;
        let changed: Vec<_> = compare(indexed, on_disk).into_iter().filter(is_clear).collect();

        let mut hidden = BTreeSet::new();
        let mut rows =
            Rows { by_path: BTreeMap::new(), repository, sight: around.sight, hidden: &mut hidden };
        for change in &staged {
            rows.mark(change, 0);
        }
        for change in &changed {
            rows.mark(change, 1);
        }
        for (path, stages) in &conflicts {
            let letters = match stages {
                1 => ['D', 'D'],
                2 => ['A', 'U'],
                3 => ['U', 'D'],
                4 => ['U', 'A'],
                5 => ['D', 'U'],
                6 => ['A', 'A'],
                _ => ['U', 'U'],
            };
            rows.set(path.as_bstr(), letters);
        }
        let remarks = untracked(around, &index, &mut rows)?;
        let rows = rows.by_path;

        let mut text = branch(repository);
        for (name, letters) in rows.values().take(MAX_ROWS) {
            let _ = writeln!(text, "{}{} {name}", letters[0], letters[1]);
        }
        if rows.len() > MAX_ROWS {
            let more = count((rows.len() - MAX_ROWS) as u64, "more file");
            let _ = writeln!(text, "[and {more}; give a path to see them]");
        } else if rows.is_empty() {
            text.push_str("[nothing to commit, working tree clean]\n");
        }
        text.push_str(&left_out(hidden.len() as u64));
        text.push_str(&work_tree.unsure());
        text.push_str(&remarks);
        text.truncate(text.trim_end().len());
        Ok(text)
    }
}

/// The lines of an answer by path: how the file is named, and its two letters.
struct Rows<'a> {
    by_path: BTreeMap<BString, (String, [char; 2])>,
    repository: &'a Repository,
    sight: &'a Sight,
    hidden: &'a mut BTreeSet<BString>,
}

impl Rows<'_> {
    fn mark(&mut self, change: &Change, column: usize) {
        let from = change.from.as_ref().map(|(from, _)| from.as_bstr());
        if let Some((_, letters)) = self.row(change.path.as_bstr(), from) {
            letters[column] = change.letter();
        }
    }

    fn set(&mut self, path: &BStr, letters: [char; 2]) {
        if let Some((_, row)) = self.row(path, None) {
            *row = letters;
        }
    }

    /// The row of a path, unless the path may not be named or is outside the workspace.
    fn row(&mut self, path: &BStr, from: Option<&BStr>) -> Option<&mut (String, [char; 2])> {
        let mut name = String::new();
        for path in from.into_iter().chain([path]) {
            let local = self.repository.local(path)?;
            if !self.sight.shows_name(&local.to_str_lossy()) {
                self.hidden.insert(path.to_owned());
                return None;
            }
            let arrow = if name.is_empty() { "" } else { " -> " };
            name = format!("{name}{arrow}{}", shown(local));
        }
        Some(self.by_path.entry(path.to_owned()).or_insert((name, [' ', ' '])))
    }
}

/// Files that git neither tracks nor ignores; a folder without any tracked one is named as a whole. Gives what
/// is to be said of the search.
fn untracked(around: &Around<'_>, index: &File, rows: &mut Rows<'_>) -> Result<String, String> {
    let exists = around.workspace.dir().symlink_metadata(around.path).is_ok();
    // A path that goes through a link is not a path of the repository.
    if !exists || around.workspace.resolve(around.path).is_ok_and(|real| real != around.path) {
        return Ok(String::new());
    }
    let walked = walk::files(around.workspace, around.path, around.stop, |met| {
        let full = around.repository.full(met.path);
        let path = full.as_bstr();
        if index.entry_index_by_path(path).is_ok() || index.entry_range(path).is_some() {
            return ControlFlow::Continue(());
        }
        let ends = path.find_iter("/").filter(|end| *end >= around.repository.prefix.len());
        let folders = ends.map(|end| path[..end].as_bstr());
        let mut whole =
            folders.filter(|folder| !index.path_is_directory(folder) && *folder != around.repository.prefix);
        match whole.next() {
            Some(folder) if rows.sight.shows_name(&met.path.to_string_lossy()) => {
                let mut folder = folder.to_owned();
                folder.push(b'/');
                rows.set(folder.as_bstr(), ['?', '?']);
            }
            _ => rows.set(path, ['?', '?']),
        }
        ControlFlow::Continue(())
    })?;
    Ok(walked.remarks())
}

/// The line about the branch, and one about what is going on.
fn branch(repository: &Repository) -> String {
    let Ok(head) = repository.gix.head() else { return "## HEAD (unreadable)\n".into() };
    let name = head.referent_name().map(|name| name.shorten().to_str_lossy().into_owned());
    let mut text = match (&name, head.id()) {
        (Some(name), None) => format!("## No commits yet on {name}"),
        (Some(name), Some(id)) => format!("## {name}{}", tracking(repository, name, id.detach())),
        (None, Some(id)) => {
            format!("## HEAD (no branch, at {})", super::revision::short(repository, id.detach()))
        }
        (None, None) => "## HEAD (no branch)".to_owned(),
    };
    text.push('\n');
    if let Some(state) = repository.gix.state() {
        let _ = writeln!(text, "[in progress: {}]", format!("{state:?}").to_lowercase());
    }
    if repository.gix.is_shallow().unwrap_or(false) {
        text.push_str("[shallow clone: older history was not fetched]\n");
    }
    text
}

/// The branch that one follows, and how far they are apart.
fn tracking(repository: &Repository, name: &str, id: ObjectId) -> String {
    let snapshot = repository.gix.config_snapshot();
    let value = |key: &str| {
        let found = snapshot.plumbing().string(format!("branch.{name}.{key}").as_str());
        found.map(|value| value.to_str_lossy().into_owned())
    };
    let (Some(remote), Some(merge)) = (value("remote"), value("merge")) else { return String::new() };
    let Some(followed) = merge.strip_prefix("refs/heads/") else { return String::new() };
    let upstream = if remote == "." { followed.to_owned() } else { format!("{remote}/{followed}") };
    let Ok(other) = repository.commit(&upstream) else { return format!("...{upstream} [gone]") };
    let apart = |tip: ObjectId, hidden: ObjectId| {
        let walk = repository.gix.rev_walk([tip]).with_hidden([hidden]).all().map_err(explain);
        walk.map_or(0, |walk| walk.take(MAX_COUNTED).flatten().count())
    };
    match (apart(id, other), apart(other, id)) {
        (0, 0) => format!("...{upstream}"),
        (ahead, 0) => format!("...{upstream} [ahead {ahead}]"),
        (0, behind) => format!("...{upstream} [behind {behind}]"),
        (ahead, behind) => format!("...{upstream} [ahead {ahead}, behind {behind}]"),
    }
}
