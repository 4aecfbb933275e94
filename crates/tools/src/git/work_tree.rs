//! The files on disk as git would take them, read through the workspace and past no link.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cap_std::fs::{Metadata, MetadataExt as _};
use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::filter::plumbing::pipeline::convert::ToGitOutcome;
use gix::index::entry::{Flags, Stage};
use gix::index::{Entry, File};
use gix::objs::Kind;
use gix::worktree::stack::state::attributes::Source;
use tokio_util::sync::CancellationToken;

use super::changes::{Item, Items, SUBMODULE, as_path, is_within};
use super::repository::{Repository, explain};
use crate::call::Stoppable;
use crate::workspace::Workspace;

/// Bytes of a file that is read to see whether it changed. A bigger one counts as changed when its time did.
const MAX_HASHED_BYTES: u64 = 256 * 1024 * 1024;

/// Entries of an index that are looked at; one of the size would take a minute.
const MAX_ENTRIES: usize = 2_000_000;

/// The working tree beside its index.
pub(super) struct WorkTree<'a> {
    repository: &'a Repository,
    workspace: &'a Workspace,
    pub(super) index: &'a File,
    filters: gix::filter::Pipeline<'a>,
    attributes: gix::AttributeStack<'a>,
    /// Folders that were looked at, and whether no link leads to them.
    folders: HashMap<PathBuf, bool>,
    minds_executable: bool,
    stop: &'a CancellationToken,
    /// Files that only a program could compare.
    pub(super) filtered: Vec<BString>,
}

/// The index of a repository; an empty one if there is none.
pub(super) fn index_of(repository: &Repository) -> Result<File, String> {
    if !repository.has_work_tree {
        return Err(
            "the repository is bare: it has no working tree and no index; git_log, git_show and git_diff \
                    between two revisions work"
                .into(),
        );
    }
    let path = repository.gix.index_path();
    if !path.exists() {
        return Ok(File::from_state(gix::index::State::new(repository.gix.object_hash()), path));
    }
    let index = repository.gix.open_index().map_err(explain)?;
    if index.entries().len() > MAX_ENTRIES {
        return Err(format!("the index has more than {MAX_ENTRIES} entries"));
    }
    Ok(index)
}

/// The versions that the index holds at or below a path. Of those in conflict perhaps our own.
pub(super) fn index_items(index: &File, within: &BStr, with_ours: bool) -> Items {
    let entries = index.entries().iter().filter(|entry| {
        (entry.stage() == Stage::Unconflicted || (with_ours && entry.stage() == Stage::Ours))
            && !entry.flags.contains(Flags::INTENT_TO_ADD)
            && is_within(entry.path(index), within)
    });
    entries.map(|entry| (entry.path(index).to_owned(), staged(entry))).collect()
}

/// The paths in conflict at or below a path, with their stages as bits: 1 base, 2 ours, 4 theirs.
pub(super) fn conflicts(index: &File, within: &BStr) -> Vec<(BString, u8)> {
    let mut found: Vec<(BString, u8)> = Vec::new();
    for entry in index.entries().iter().filter(|entry| entry.stage() != Stage::Unconflicted) {
        let path = entry.path(index);
        let bit = 1 << (entry.stage_raw() - 1);
        match found.last_mut() {
            Some((last, stages)) if *last == path => *stages |= bit,
            _ if is_within(path, within) => found.push((path.to_owned(), bit)),
            _ => {}
        }
    }
    found
}

fn staged(entry: &Entry) -> Item {
    Item { mode: entry.mode.bits(), id: entry.id, is_on_disk: false }
}

impl<'a> WorkTree<'a> {
    pub(super) fn new(
        repository: &'a Repository,
        workspace: &'a Workspace,
        index: &'a File,
        stop: &'a CancellationToken,
    ) -> Result<Self, String> {
        // The attributes of the index, so that no file of the working tree is read for them.
        let attributes = || repository.gix.attributes_only(index, Source::IdMapping).map_err(explain);
        let filters = gix::filter::Pipeline::new(&repository.gix, attributes()?.detach()).map_err(explain)?;
        let minds_executable = repository.gix.config_snapshot().boolean("core.fileMode").unwrap_or(true);
        Ok(Self {
            repository,
            workspace,
            index,
            filters,
            attributes: attributes()?,
            folders: HashMap::new(),
            minds_executable,
            stop,
            filtered: Vec::new(),
        })
    }

    /// The versions on disk of the tracked files at or below a path of the workspace, and of those in conflict that
    /// are ours too.
    pub(super) fn items(&mut self, within: &BStr) -> Result<Items, String> {
        let index = self.index;
        let mut items = Items::new();
        for entry in index.entries() {
            let path = entry.path(index);
            let is_one = matches!(entry.stage(), Stage::Unconflicted | Stage::Ours);
            if !is_one || !is_within(path, within) {
                continue;
            }
            if self.stop.is_cancelled() {
                return Err("stopped".into());
            }
            if let Some(item) = self.item(entry, path)? {
                items.push((path.to_owned(), item));
            }
        }
        Ok(items)
    }

    /// The version on disk of one tracked file.
    fn item(&mut self, entry: &Entry, path: &BStr) -> Result<Option<Item>, String> {
        let staged = staged(entry);
        if staged.mode == SUBMODULE || entry.flags.contains(Flags::SKIP_WORKTREE) || entry.mode.is_sparse() {
            return Ok(Some(staged));
        }
        let Some(found) = self.on_disk(path) else { return Ok(None) };
        let mode = match &found {
            found if found.is_symlink() => 0o120_000,
            found if !found.is_file() => return Ok(None),
            _ if !self.minds_executable && staged.mode >> 12 == 0o10 => staged.mode,
            found if found.mode() & 0o100 != 0 => 0o100_755,
            _ => 0o100_644,
        };
        if self.is_unchanged(entry, &found) {
            return Ok(Some(Item { mode, ..staged }));
        }
        if mode != 0o120_000 && self.has_filter(path)? {
            self.filtered.push(path.to_owned());
            return Ok(Some(Item { mode, ..staged }));
        }
        if found.len() > MAX_HASHED_BYTES {
            // Not equal to any content; it is not shown either.
            let id = ObjectId::null(self.repository.gix.object_hash());
            return Ok(Some(Item { mode, id, is_on_disk: true }));
        }
        let Some(content) = self.read(path)? else { return Ok(None) };
        let hash = self.repository.gix.object_hash();
        let id = gix::objs::compute_hash(hash, Kind::Blob, &content).map_err(explain)?;
        Ok(Some(Item { mode, id, is_on_disk: true }))
    }

    /// What git remembers of a file's times and size, against what they are.
    fn is_unchanged(&self, entry: &Entry, found: &Metadata) -> bool {
        let stat = &entry.stat;
        // As git does, which keeps 32 bits of each.
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
        let seconds = |seconds: i64| u32::try_from(seconds).unwrap_or(0);
        let is_time = |secs: u32, nsecs: u32, at: i64, nanos: i64| {
            secs == seconds(at) && (nsecs == 0 || i64::from(nsecs) == nanos)
        };
        // A file written in the moment of the index could have been written once more since.
        let written = self.index.timestamp();
        let is_old =
            (i64::from(stat.mtime.secs), stat.mtime.nsecs) < (written.unix_seconds(), written.nanoseconds());
        is_old
            && stat.size == low(found.size())
            && is_time(stat.mtime.secs, stat.mtime.nsecs, found.mtime(), found.mtime_nsec())
            && is_time(stat.ctime.secs, stat.ctime.nsecs, found.ctime(), found.ctime_nsec())
            && (stat.ino == 0 || stat.ino == low(found.ino()))
    }

    pub(super) fn has_filter(&mut self, path: &BStr) -> Result<bool, String> {
        let mut matches = self.attributes.selected_attribute_matches(["filter"]);
        self.attributes.at_entry(path, None).map_err(explain)?.matching_attributes(&mut matches);
        let is_named = |found: gix::attrs::search::Match<'_>| {
            matches!(found.assignment.state, gix::attrs::StateRef::Value(_))
        };
        Ok(matches.iter_selected().any(is_named))
    }

    /// What lies at a path of the repository, if the path goes through no link.
    fn on_disk(&mut self, path: &BStr) -> Option<Metadata> {
        let local = as_path(self.repository.local(path)?);
        let parent = local.parent().filter(|parent| !parent.as_os_str().is_empty());
        let is_plain = match parent {
            None => true,
            Some(parent) => match self.folders.get(parent) {
                Some(is_plain) => *is_plain,
                None => {
                    let is_plain = self.workspace.resolve(parent).is_ok_and(|real| real == parent);
                    self.folders.insert(parent.to_owned(), is_plain);
                    is_plain
                }
            },
        };
        is_plain.then(|| self.workspace.dir().symlink_metadata(local).ok()).flatten()
    }

    /// The content of a file on disk as git would store it; for a link, where it points. Nothing if there is none.
    pub(super) fn read(&mut self, path: &BStr) -> Result<Option<Vec<u8>>, String> {
        let (Some(found), Some(local)) = (self.on_disk(path), self.repository.local(path)) else {
            return Ok(None);
        };
        let local = as_path(local);
        if found.is_symlink() {
            let target = self.workspace.dir().read_link_contents(local);
            return Ok(target.ok().map(|target| target.into_os_string().into_encoded_bytes()));
        }
        if !found.is_file() {
            return Ok(None);
        }
        let content = self.raw(local)?;
        let converted =
            self.filters.convert_to_git(content.as_slice(), as_path(path), self.index).map_err(explain)?;
        match converted {
            ToGitOutcome::Buffer(converted) => Ok(Some(converted.to_vec())),
            ToGitOutcome::Unchanged(_) => Ok(Some(content)),
            // No filter program is ever configured, see the repository's options.
            ToGitOutcome::Process(_) => Err(format!("{} has a filter that is a program", local.display())),
        }
    }

    fn raw(&self, local: &Path) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        let file = self.workspace.open_file(local)?.take(MAX_HASHED_BYTES);
        let mut file = Stoppable { inner: file, stop: self.stop };
        file.read_to_end(&mut content).map_err(|error| format!("{}: {error}", local.display()))?;
        Ok(content)
    }

    /// What is said of files that only a program could compare.
    pub(super) fn unsure(&self) -> String {
        if self.filtered.is_empty() {
            return String::new();
        }
        let named: Vec<_> =
            self.filtered.iter().take(10).map(|path| super::text::shown(path.as_bstr())).collect();
        format!(
            "[touched since git last looked, and stored through a filter program, which is not run, so whether they \
             changed is not known: {}{}]\n",
            named.join(", "),
            if self.filtered.len() > 10 { ", …" } else { "" }
        )
    }
}
