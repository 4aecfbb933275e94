//! What differs between two trees, a tree and the index, or the index and the files.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::diff::tree::recorder;
use gix::objs::TreeRefIter;
use tokio_util::sync::CancellationToken;

use super::patch::Content;
use super::repository::{Repository, explain};

/// Files that appear, times files that vanish, that are compared to find renames that also changed.
const MAX_COMPARED: usize = 10_000;

/// Bytes of a file that is compared to find renames.
const MAX_COMPARED_BYTES: usize = 512 * 1024;

/// How much of a file, in percent, has to be in another for the one to be the other renamed; git's own measure.
const MIN_SIMILARITY: usize = 50;

/// A version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// As git writes it: `100644`.
    pub(super) mode: u32,
    /// The hash of the content.
    pub(super) id: ObjectId,
    /// Whether the content is that of the file on disk, and so perhaps in no object.
    pub(super) is_on_disk: bool,
}

/// A mode that stands for a commit of a submodule.
pub(super) const SUBMODULE: u32 = 0o160_000;

/// Versions by path, in order.
pub(super) type Items = Vec<(BString, Item)>;

/// A file that differs.
#[derive(Debug)]
pub(super) struct Change {
    /// The path, of the new version if there is one.
    pub(super) path: BString,
    pub(super) old: Option<Item>,
    pub(super) new: Option<Item>,
    /// The old path if it was renamed, and how much is the same in percent.
    pub(super) from: Option<(BString, usize)>,
}

impl Change {
    fn plain(path: BString, old: Option<Item>, new: Option<Item>) -> Self {
        Self { path, old, new, from: None }
    }

    /// The path of the old version.
    pub(super) fn old_path(&self) -> &BStr {
        self.from.as_ref().map_or(self.path.as_bstr(), |(path, _)| path.as_bstr())
    }

    /// The letter that git gives it.
    pub(super) fn letter(&self) -> char {
        match (&self.old, &self.new) {
            _ if self.from.is_some() => 'R',
            (None, _) => 'A',
            (_, None) => 'D',
            (Some(old), Some(new)) if old.mode >> 12 != new.mode >> 12 => 'T',
            _ => 'M',
        }
    }
}

/// Whether a path is at or below another; everything is below the empty one.
pub(super) fn is_within(path: &BStr, within: &BStr) -> bool {
    within.is_empty()
        || path.strip_prefix(within.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The differences of two lists.
pub(super) fn compare(old: Items, new: Items) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return changes,
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let is_same = matches!((&before, &after), (Some((_, old)), Some((_, new)))
            if (old.mode, old.id) == (new.mode, new.id));
        if !is_same && let Some((path, _)) = before.as_ref().or(after.as_ref()) {
            let path = path.clone();
            changes.push(Change::plain(path, before.map(|(_, item)| item), after.map(|(_, item)| item)));
        }
    }
}

impl Repository {
    /// What is at a path in a tree; the tree itself for the empty path.
    pub(super) fn entry(&self, tree: ObjectId, path: &BStr) -> Result<Option<Item>, String> {
        if path.is_empty() {
            return Ok(Some(Item { mode: 0o040_000, id: tree, is_on_disk: false }));
        }
        let tree = self.gix.find_tree(tree).map_err(explain)?;
        let entry = tree.lookup_entry_by_path(as_path(path)).map_err(explain)?;
        Ok(entry.map(|entry| Item {
            mode: u32::from(entry.mode().value()),
            id: entry.object_id(),
            is_on_disk: false,
        }))
    }

    /// Every file of a tree at or below a path.
    pub(super) fn tree_items(
        &self,
        tree: ObjectId,
        within: &BStr,
        stop: &CancellationToken,
    ) -> Result<Items, String> {
        let empty = ObjectId::empty_tree(self.gix.object_hash());
        let changes = self.between_trees(empty, tree, within, stop)?;
        let mut items: Items =
            changes.into_iter().filter_map(|change| Some((change.path, change.new?))).collect();
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(items)
    }

    /// The differences between two trees at or below a path.
    pub(super) fn between_trees(
        &self,
        old: ObjectId,
        new: ObjectId,
        within: &BStr,
        stop: &CancellationToken,
    ) -> Result<Vec<Change>, String> {
        let (old, new) = (self.entry(old, within)?, self.entry(new, within)?);
        if old == new {
            return Ok(Vec::new());
        }
        let is_tree = |item: &Option<Item>| item.is_some_and(|item| item.mode == 0o040_000);
        let file = |item: Option<Item>| item.filter(|item| item.mode != 0o040_000);
        let mut changes = Vec::new();
        if is_tree(&old) || is_tree(&new) {
            let data = |item: Option<Item>| match item {
                Some(item) if item.mode == 0o040_000 => {
                    self.gix.find_tree(item.id).map(|tree| tree.data.clone()).map_err(explain)
                }
                _ => Ok(Vec::new()),
            };
            let (old, new) = (data(old)?, data(new)?);
            let mut recorder = gix::diff::tree::Recorder::default();
            let kind = self.gix.object_hash();
            let (old, new) = (TreeRefIter::from_bytes(&old, kind), TreeRefIter::from_bytes(&new, kind));
            let mut state = gix::diff::tree::State::default();
            gix::diff::tree(old, new, &mut state, self.objects(stop), &mut recorder)
                .map_err(|error| error.to_string())?;
            changes.extend(recorder.records.into_iter().filter_map(|record| recorded(record, within)));
        }
        let (old, new) = (file(old), file(new));
        if old.is_some() || new.is_some() {
            changes.push(Change::plain(within.to_owned(), old, new));
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }
}

/// A difference that the library found, unless it is of a whole folder.
fn recorded(record: recorder::Change, within: &BStr) -> Option<Change> {
    let item = |mode: gix::objs::tree::EntryMode, id| {
        (!mode.is_tree()).then(|| Item { mode: u32::from(mode.value()), id, is_on_disk: false })
    };
    let (path, old, new) = match record {
        recorder::Change::Addition { entry_mode, oid, path, .. } => (path, None, item(entry_mode, oid)),
        recorder::Change::Deletion { entry_mode, oid, path, .. } => (path, item(entry_mode, oid), None),
        recorder::Change::Modification { previous_entry_mode, previous_oid, entry_mode, oid, path } => {
            (path, item(previous_entry_mode, previous_oid), item(entry_mode, oid))
        }
    };
    let mut full = within.to_owned();
    if !full.is_empty() {
        full.push(b'/');
    }
    full.extend_from_slice(&path);
    (old.is_some() || new.is_some()).then(|| Change::plain(full, old, new))
}

/// Makes one change of a file that vanished and one that appeared with about the same content.
pub(super) fn find_renames(
    changes: Vec<Change>,
    mut content: impl FnMut(&BStr, Item) -> Content,
    stop: &CancellationToken,
) -> Vec<Change> {
    let (mut gone, mut all): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.new.is_none() && is_regular(change.old));
    let is_new = |change: &Change| change.old.is_none() && is_regular(change.new);
    for change in all.iter_mut().filter(|change| is_new(change)) {
        let is_same = |gone: &Change| gone.old.map(|old| old.id) == change.new.map(|new| new.id);
        if let Some(at) = gone.iter().position(is_same) {
            pair(change, gone.remove(at), 100);
        }
    }
    if gone.len() * all.iter().filter(|change| is_new(change)).count() <= MAX_COMPARED {
        let mut text = |path: &BStr, item: Option<Item>| match content(path, item?) {
            Content::Text(text) if text.len() <= MAX_COMPARED_BYTES && !text.is_empty() => Some(text),
            _ => None,
        };
        let mut texts: Vec<_> = gone.iter().map(|gone| text(gone.path.as_bstr(), gone.old)).collect();
        for change in all.iter_mut().filter(|change| is_new(change)) {
            if gone.is_empty() || stop.is_cancelled() {
                break;
            }
            let Some(new) = text(change.path.as_bstr(), change.new) else { continue };
            let alike = texts.iter().map(|old| old.as_ref().map_or(0, |old| similarity(old, &new)));
            let best = alike.zip(0..).max_by_key(|(percent, at)| (*percent, std::cmp::Reverse(*at)));
            if let Some((percent, at)) = best.filter(|(percent, _)| *percent >= MIN_SIMILARITY) {
                texts.remove(at);
                pair(change, gone.remove(at), percent);
            }
        }
    }
    all.append(&mut gone);
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

fn pair(new: &mut Change, gone: Change, percent: usize) {
    new.old = gone.old;
    new.from = Some((gone.path, percent));
}

fn is_regular(item: Option<Item>) -> bool {
    item.is_some_and(|item| item.mode >> 12 == 0o10)
}

/// How much of the longer of two texts, in percent, is lines of the other.
fn similarity(old: &[u8], new: &[u8]) -> usize {
    if old.len().min(new.len()) * 100 < old.len().max(new.len()) * MIN_SIMILARITY {
        return 0;
    }
    let mut lines: HashMap<&[u8], usize> = HashMap::new();
    for line in old.lines_with_terminator() {
        *lines.entry(line).or_default() += 1;
    }
    let mut same = 0;
    for line in new.lines_with_terminator() {
        if let Some(left) = lines.get_mut(line).filter(|left| **left > 0) {
            *left -= 1;
            same += line.len();
        }
    }
    same * 100 / old.len().max(new.len()).max(1)
}

/// A path of the repository as one of the system.
pub(super) fn as_path(path: &BStr) -> &Path {
    Path::new(OsStr::from_bytes(path))
}
