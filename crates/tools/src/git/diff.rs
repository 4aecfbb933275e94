//! `git_diff`: what differs between files, index and commits.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use schemars::JsonSchema;
use serde::Deserialize;

use super::changes::compare;
use super::patch::{Printer, Style};
use super::repository::explain;
use super::revision::Ends;
use super::text::{Page, shown};
use super::work_tree::{WorkTree, conflicts, index_items, index_of};
use super::{Around, Question};

/// Lines around a change unless asked otherwise, as git has it.
pub(super) const DEFAULT_CONTEXT: u32 = 3;

/// Lines around a change at most; who needs more reads the file.
const MAX_CONTEXT: u32 = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    /// A commit to compare the files with, or two: HEAD~2, v1..v2, main...topic. The index if left out.
    rev: Option<String>,
    /// Instead of rev: the commit to compare from.
    from: Option<String>,
    /// Instead of rev: the commit to compare to; the files on disk if left out.
    to: Option<String>,
    /// Compare the index, which is what would be committed, with HEAD; false if left out.
    staged: Option<bool>,
    /// Only this file or directory, from the workspace root.
    path: Option<String>,
    /// How many lines to show around each change; 3 if left out.
    context: Option<u64>,
    /// Only how many lines changed in which files; false if left out.
    stat: Option<bool>,
    /// Number of the first line of the answer to show.
    offset: Option<u64>,
    /// How many lines to show at most; 500 if left out.
    limit: Option<u64>,
}

/// What is compared.
enum Sides {
    Commits(ObjectId, ObjectId),
    CommitAndIndex(ObjectId),
    CommitAndFiles(ObjectId),
    IndexAndFiles,
}

pub(super) fn context(sent: Option<u64>) -> u32 {
    sent.and_then(|lines| u32::try_from(lines).ok()).map_or(DEFAULT_CONTEXT, |lines| lines.min(MAX_CONTEXT))
}

impl Diff {
    fn sides(&self, around: &Around<'_>) -> Result<Sides, String> {
        let repository = around.repository;
        let is_staged = self.staged.unwrap_or(false);
        let ends = match (self.rev.as_deref().filter(|rev| !rev.trim().is_empty()), &self.from, &self.to) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                return Err("give either rev or from and to, not both".into());
            }
            (Some(rev), None, None) => Some(repository.ends(rev)?),
            (None, Some(from), Some(to)) => Some(Ends::Two(repository.commit(from)?, repository.commit(to)?)),
            (None, Some(from), None) => Some(Ends::One(repository.commit(from)?)),
            (None, None, Some(to)) => Some(Ends::Two(repository.commit("HEAD")?, repository.commit(to)?)),
            (None, None, None) => None,
        };
        let tree = |commit: ObjectId| {
            let commit = repository.gix.find_commit(commit).map_err(explain)?;
            commit.tree_id().map(gix::Id::detach).map_err(explain)
        };
        match (ends, is_staged) {
            (Some(Ends::Two(..)), true) => Err("staged compares with one commit, not between two".into()),
            (Some(Ends::Two(from, to)), false) => Ok(Sides::Commits(tree(from)?, tree(to)?)),
            (Some(Ends::One(commit)), true) => Ok(Sides::CommitAndIndex(tree(commit)?)),
            (Some(Ends::One(commit)), false) => Ok(Sides::CommitAndFiles(tree(commit)?)),
            (None, true) => Ok(Sides::CommitAndIndex(repository.head_tree()?)),
            (None, false) => Ok(Sides::IndexAndFiles),
        }
    }
}

impl Question for Diff {
    const NAME: &'static str = "git_diff";
    const DESCRIPTION: &'static str = "Show differences as git diff does: of the files to the index, with staged of the index to HEAD, with rev of \
         the files to a commit or between two commits. Untracked files are not part of it; git_status names them. \
         Binary and very big files are described, not shown.";

    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    fn answer(self, around: &Around<'_>) -> Result<String, String> {
        let Around { repository, workspace, sight, stop, .. } = *around;
        let within = repository.full(around.path);
        let within = within.as_bstr();
        let style = Style { context: context(self.context), stat: self.stat.unwrap_or(false) };
        let sides = self.sides(around)?;
        let mut unmerged = String::new();
        let text = if let Sides::Commits(from, to) = sides {
            let changes = repository.between_trees(from, to, within, stop)?;
            Printer { repository, work_tree: None, sight, stop }.print(changes, &style)?
        } else {
            let index = index_of(repository)?;
            let mut work_tree = WorkTree::new(repository, workspace, &index, stop)?;
            for (path, _) in conflicts(&index, within) {
                if let Some(local) =
                    repository.local(path.as_bstr()).filter(|path| sight.shows_name(&path.to_str_lossy()))
                {
                    unmerged = format!("{unmerged}* Unmerged path {}\n", shown(local));
                }
            }
            let changes = match sides {
                Sides::CommitAndIndex(tree) => {
                    compare(repository.tree_items(tree, within, stop)?, index_items(&index, within, true))
                }
                Sides::CommitAndFiles(tree) => {
                    compare(repository.tree_items(tree, within, stop)?, work_tree.items(within)?)
                }
                Sides::IndexAndFiles | Sides::Commits(..) => {
                    compare(index_items(&index, within, true), work_tree.items(within)?)
                }
            };
            Printer { repository, work_tree: Some(work_tree), sight, stop }.print(changes, &style)?
        };
        if text.is_empty() && unmerged.is_empty() {
            return Ok("[no differences]".into());
        }
        Ok(Page::new(self.offset, self.limit).of(&format!("{unmerged}{text}")))
    }
}
