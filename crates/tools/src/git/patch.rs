//! Changes as git prints them: patches and statistics.

use std::fmt::Write as _;
use std::io;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::diff::blob::unified_diff::{ConsumeHunk, ContextSize, DiffLineKind, HunkHeader};
use gix::diff::blob::{Algorithm, InternedInput, UnifiedDiff, diff_with_slider_heuristics};
use gix::objs::FindHeader as _;
use runtime::Sight;
use tokio_util::sync::CancellationToken;

use super::changes::{Change, Item, SUBMODULE};
use super::repository::{Repository, explain};
use super::text::{MAX_RENDERED_BYTES, lossy, shown};
use super::work_tree::WorkTree;
use crate::words::{clip, count, left_out};

/// Bytes of a file that is compared line by line; bigger ones are data, and are described.
pub(super) const MAX_DIFFED_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes looked at to tell binary from text, as git does it.
const SNIFFED_BYTES: usize = 8000;

/// Columns of the bars of a statistic.
const BAR: usize = 40;

/// Characters of the line that a hunk is headed with, as git cuts it.
const HEADING_CHARS: usize = 80;

/// Lines that are searched upwards for it; a file without any in so many has none.
const MAX_HEADING_LINES: usize = 10_000;

/// What is in a version of a file.
pub(super) enum Content {
    Text(Vec<u8>),
    /// Not text, of this size if that is known.
    Binary(Option<u64>),
    /// Text or not, it is too big to look at.
    Big(u64),
}

/// The old and the new text of a file.
type Texts = (Vec<u8>, Vec<u8>);

/// How changes are to be printed.
pub(super) struct Style {
    /// Lines around a change.
    pub(super) context: u32,
    /// Only how many lines changed in each file.
    pub(super) stat: bool,
}

/// What changes are printed with.
pub(super) struct Printer<'a> {
    pub(super) repository: &'a Repository,
    /// For versions that are on disk.
    pub(super) work_tree: Option<WorkTree<'a>>,
    pub(super) sight: &'a Sight,
    pub(super) stop: &'a CancellationToken,
}

/// Whether content is text, as git judges it.
pub(super) fn sniffed(content: Vec<u8>) -> Content {
    if content.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0) {
        Content::Binary(Some(content.len() as u64))
    } else {
        Content::Text(content)
    }
}

impl Repository {
    /// The content of an object, if it is small enough.
    pub(super) fn content(&self, item: Item, max_bytes: u64) -> Result<Content, String> {
        if item.mode == SUBMODULE {
            return Ok(Content::Text(format!("Subproject commit {}\n", item.id).into_bytes()));
        }
        let header = self.gix.objects.try_header(&item.id).map_err(explain)?;
        let size = header.ok_or_else(|| self.missing(item.id))?.size;
        if size > max_bytes {
            return Ok(Content::Big(size));
        }
        let mut object = self.gix.find_object(item.id).map_err(explain)?;
        Ok(sniffed(std::mem::take(&mut object.data)))
    }

    fn missing(&self, id: gix::ObjectId) -> String {
        let is_shallow = self.gix.is_shallow().unwrap_or(false);
        let why =
            if is_shallow { "the clone is shallow" } else { "a partial clone fetches it when it is needed" };
        format!("object {id} is not in the repository; {why}, and nothing is fetched here")
    }
}

impl Printer<'_> {
    fn content(&mut self, path: &BStr, item: Item) -> Result<Content, String> {
        let work_tree = self.work_tree.as_mut().filter(|_| item.is_on_disk);
        let Some(work_tree) = work_tree else { return self.repository.content(item, MAX_DIFFED_BYTES) };
        if item.id.is_null() {
            return Ok(Content::Binary(None));
        }
        match work_tree.read(path)? {
            Some(content) if content.len() as u64 > MAX_DIFFED_BYTES => {
                Ok(Content::Big(content.len() as u64))
            }
            Some(content) => Ok(sniffed(content)),
            None => Ok(Content::Text(Vec::new())),
        }
    }

    /// Whether the rules let this call show a path of the repository; nothing outside the workspace is shown.
    fn sees(&self, path: &BStr, sees: impl Fn(&Sight, &str) -> bool) -> bool {
        self.repository.local(path).is_some_and(|local| sees(self.sight, &local.to_str_lossy()))
    }

    /// Whether both paths of a change may be named.
    pub(super) fn names(&self, change: &Change) -> bool {
        [change.path.as_bstr(), change.old_path()].into_iter().all(|path| self.sees(path, Sight::shows_name))
    }

    fn shows(&self, change: &Change) -> bool {
        [change.path.as_bstr(), change.old_path()]
            .into_iter()
            .all(|path| self.sees(path, Sight::shows_content))
    }

    /// Prints changes, renames found.
    pub(super) fn print(&mut self, changes: Vec<Change>, style: &Style) -> Result<String, String> {
        let all = changes.len();
        let changes: Vec<_> = changes.into_iter().filter(|change| self.names(change)).collect();
        let unnamed = all - changes.len();
        let stop = self.stop;
        let content = |path: &BStr, item| self.content(path, item).unwrap_or(Content::Binary(None));
        let changes = super::changes::find_renames(changes, content, stop);
        let mut text = if style.stat { self.statistic(&changes)? } else { self.patches(&changes, style)? };
        text.push_str(&left_out(unnamed as u64));
        if let Some(work_tree) = &self.work_tree {
            text.push_str(&work_tree.unsure());
        }
        Ok(text)
    }

    fn patches(&mut self, changes: &[Change], style: &Style) -> Result<String, String> {
        let mut text = String::new();
        for (at, change) in changes.iter().enumerate() {
            if self.stop.is_cancelled() {
                return Err("stopped".into());
            }
            if text.len() > MAX_RENDERED_BYTES {
                let more = count((changes.len() - at) as u64, "more file");
                let _ = writeln!(text, "[and {more}; use stat to see which, and give a path]");
                break;
            }
            self.patch(change, style, &mut text)?;
        }
        Ok(text)
    }

    /// A path as it is printed, with what stands before it.
    fn named(&self, before: &str, path: &BStr) -> String {
        let mut named = BString::from(before);
        named.extend_from_slice(self.repository.local(path).unwrap_or_default());
        shown(named.as_bstr())
    }

    fn patch(&mut self, change: &Change, style: &Style, text: &mut String) -> Result<(), String> {
        let (before, after) = (self.named("a/", change.old_path()), self.named("b/", change.path.as_bstr()));
        let _ = writeln!(text, "diff --git {before} {after}");
        let (old_mode, new_mode) = (change.old.map(|old| old.mode), change.new.map(|new| new.mode));
        let _ = match (old_mode, new_mode) {
            (None, Some(mode)) => writeln!(text, "new file mode {mode:o}"),
            (Some(mode), None) => writeln!(text, "deleted file mode {mode:o}"),
            (Some(old), Some(new)) if old != new => writeln!(text, "old mode {old:o}\nnew mode {new:o}"),
            _ => Ok(()),
        };
        if let Some((from, percent)) = &change.from {
            let (from, to) = (self.named("", from.as_bstr()), self.named("", change.path.as_bstr()));
            let _ = writeln!(text, "similarity index {percent}%\nrename from {from}\nrename to {to}");
        }
        if change.old.map(|old| old.id) == change.new.map(|new| new.id) {
            return Ok(());
        }
        let id = |item: Option<Item>| {
            item.map_or_else(|| "0000000".to_owned(), |item| item.id.to_hex_with_len(7).to_string())
        };
        let mode = old_mode
            .filter(|mode| Some(*mode) == new_mode)
            .map_or_else(String::new, |mode| format!(" {mode:o}"));
        let _ = writeln!(text, "index {}..{}{mode}", id(change.old), id(change.new));
        if !self.shows(change) {
            text.push_str("[content left out by permission rules]\n");
            return Ok(());
        }
        match self.both(change)? {
            Ok((old, new)) => {
                let name =
                    |item: Option<Item>, name: String| if item.is_some() { name } else { "/dev/null".into() };
                let hunks = hunks(&old, &new, style.context);
                if !hunks.is_empty() {
                    let (before, after) = (name(change.old, before), name(change.new, after));
                    let _ = write!(text, "--- {before}\n+++ {after}\n{hunks}");
                }
            }
            Err(why) => {
                let _ = writeln!(text, "{why}");
            }
        }
        Ok(())
    }

    /// Both texts of a change, or a line that says why there are none.
    fn both(&mut self, change: &Change) -> Result<Result<Texts, String>, String> {
        let mut read = |path: &BStr, item: Option<Item>| match item {
            Some(item) => self.content(path, item),
            None => Ok(Content::Text(Vec::new())),
        };
        let old = read(change.old_path(), change.old)?;
        let new = read(change.path.as_bstr(), change.new)?;
        let size = |content: &Content| match content {
            Content::Text(text) => count(text.len() as u64, "byte"),
            Content::Binary(Some(bytes)) | Content::Big(bytes) => count(*bytes, "byte"),
            Content::Binary(None) => "of unknown size".to_owned(),
        };
        let sizes = format!("{} to {}", size(&old), size(&new));
        Ok(match (old, new) {
            (Content::Text(old), Content::Text(new)) => Ok((old, new)),
            (Content::Big(_), _) | (_, Content::Big(_)) => {
                Err(format!("Big files differ ({sizes}), not compared"))
            }
            _ => Err(format!("Binary files differ ({sizes})")),
        })
    }

    fn statistic(&mut self, changes: &[Change]) -> Result<String, String> {
        let mut rows = Vec::new();
        let (mut all_added, mut all_removed) = (0, 0);
        for change in changes {
            if self.stop.is_cancelled() {
                return Err("stopped".into());
            }
            let name = self.named("", change.path.as_bstr());
            let name = match &change.from {
                Some((from, _)) => format!("{} => {name}", self.named("", from.as_bstr())),
                None => name,
            };
            let numbers = match self.both(change)? {
                Ok((old, new)) => {
                    let input = InternedInput::new(old.as_slice(), new.as_slice());
                    let diff = diff_with_slider_heuristics(Algorithm::Histogram, &input);
                    Some((diff.count_additions(), diff.count_removals()))
                }
                Err(_) => None,
            };
            let (added, removed) = numbers.unwrap_or((0, 0));
            all_added += u64::from(added);
            all_removed += u64::from(removed);
            rows.push((name, numbers));
        }
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let most =
            rows.iter().filter_map(|(_, numbers)| numbers.map(|(added, removed)| added + removed)).max();
        let scale = |lines: u32| {
            let most = most.unwrap_or(0) as usize;
            if most <= BAR { lines as usize } else { (lines as usize * BAR).div_ceil(most) }
        };
        let mut text = String::new();
        for (name, numbers) in &rows {
            let _ = match numbers {
                Some((added, removed)) => {
                    let bar = format!("{}{}", "+".repeat(scale(*added)), "-".repeat(scale(*removed)));
                    writeln!(text, " {name:width$} | {:>4} {bar}", added + removed)
                }
                None => writeln!(text, " {name:width$} |  Bin"),
            };
        }
        if !rows.is_empty() {
            let _ = writeln!(
                text,
                " {} changed, {all_added} insertions(+), {all_removed} deletions(-)",
                count(rows.len() as u64, "file")
            );
        }
        Ok(text)
    }
}

/// The hunks between two texts.
fn hunks(old: &[u8], new: &[u8], context: u32) -> String {
    let input = InternedInput::new(old, new);
    let diff = diff_with_slider_heuristics(Algorithm::Histogram, &input);
    let hunks = Hunks { before: old.lines().collect(), text: String::new() };
    let context = ContextSize::symmetrical(context);
    // Nothing that writes into a string fails.
    UnifiedDiff::new(&diff, &input, hunks, context).consume().unwrap_or_default()
}

/// Takes hunks and prints them.
struct Hunks<'a> {
    before: Vec<&'a [u8]>,
    text: String,
}

impl Hunks<'_> {
    /// As git does by default: the last line before that begins with a letter, `_` or `$`.
    fn heading(&self, start: u32) -> Option<&[u8]> {
        let is_heading = |line: &&[u8]| {
            line.first().is_some_and(|first| first.is_ascii_alphabetic() || b"_$".contains(first))
        };
        let above = self.before.iter().take(start.saturating_sub(1) as usize).rev();
        above.take(MAX_HEADING_LINES).copied().find(is_heading)
    }
}

impl ConsumeHunk for Hunks<'_> {
    type Out = String;

    fn consume_hunk(&mut self, header: HunkHeader, lines: &[(DiffLineKind, &[u8])]) -> io::Result<()> {
        let range = |start: u32, length: u32| match length {
            0 => format!("{},0", start.saturating_sub(1)),
            1 => format!("{start}"),
            length => format!("{start},{length}"),
        };
        let heading = match self.heading(header.before_hunk_start) {
            Some(heading) => format!(" {}", clip(lossy(heading).trim_end(), HEADING_CHARS)),
            None => String::new(),
        };
        let _ = writeln!(
            self.text,
            "@@ -{} +{} @@{heading}",
            range(header.before_hunk_start, header.before_hunk_len),
            range(header.after_hunk_start, header.after_hunk_len)
        );
        for (kind, line) in lines {
            let mark = kind.to_prefix();
            let _ = match line.strip_suffix(b"\n") {
                Some(line) => writeln!(self.text, "{mark}{}", lossy(line)),
                None => writeln!(self.text, "{mark}{}\n\\ No newline at end of file", lossy(line)),
            };
        }
        Ok(())
    }

    fn finish(self) -> String {
        self.text
    }
}
