//! `git_blame`: who changed each line of a file last, and when.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use gix::ObjectId;
use gix::blame::{BlameRanges, Options, Start};
use gix::bstr::{BString, ByteSlice as _};
use gix::date::time::format;
use gix::diff::blob::Algorithm;
use schemars::JsonSchema;
use serde::Deserialize;

use super::patch::{Content, MAX_DIFFED_BYTES, sniffed};
use super::repository::explain;
use super::text::{DEFAULT_LINES, Page, date, lossy, shown};
use super::work_tree::{WorkTree, index_of};
use super::{Around, Question};
use crate::words::count;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Blame {
    /// File to explain, from the workspace root.
    path: String,
    /// The commit in which to look at the file; the file on disk if left out.
    rev: Option<String>,
    /// First line; 1 if left out.
    start_line: Option<u64>,
    /// Last line; 500 lines are shown if left out.
    end_line: Option<u64>,
}

impl Question for Blame {
    const NAME: &'static str = "git_blame";
    const DESCRIPTION: &'static str = "Show for each line of a file the commit that changed it last, with author and time, as git blame does. Lines \
         that are not committed are marked with a hash of zeros. Renames are followed. Give a range of lines for long \
         files.";

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn answer(self, around: &Around<'_>) -> Result<String, String> {
        let Around { repository, path, stop, .. } = *around;
        if !around.sight.shows_content(&path.to_string_lossy()) {
            return Err(format!("a permission rule is against showing what is in {}", path.display()));
        }
        let full = repository.full(path);
        let (commit, committed) = self.committed(around)?;
        let on_disk = match &self.rev {
            Some(_) => None,
            None => on_disk(around)?.filter(|on_disk| *on_disk != committed),
        };
        let content = on_disk.as_deref().unwrap_or(&committed);
        let total = content.lines().count() as u64;
        let first = self.start_line.unwrap_or(1).max(1);
        let last = self.end_line.unwrap_or(first.saturating_add(DEFAULT_LINES - 1)).min(total);
        if first > last {
            return Err(format!(
                "there are no lines {first} to {}: {} has {}",
                self.end_line.unwrap_or(first),
                path.display(),
                count(total, "line")
            ));
        }
        let number = |line: u64| u32::try_from(line).map_err(|error| error.to_string());
        let ranges =
            BlameRanges::from_one_based_inclusive_range(number(first)?..=number(last)?).map_err(explain)?;
        let options = Options {
            diff_algorithm: Algorithm::Histogram,
            ranges,
            since: None,
            rewrites: Some(gix::diff::Rewrites::default()),
            debug_track_path: false,
        };
        let start = match &on_disk {
            Some(content) => {
                Start::Contents { first_suspect: commit, contents: Cow::Borrowed(content.as_slice()) }
            }
            None => Start::Commit(commit),
        };
        let graph = repository.gix.commit_graph_if_enabled().map_err(explain)?;
        let mut cache = repository.gix.diff_resource_cache_for_tree_diff().map_err(explain)?;
        let found =
            gix::blame::file(repository.objects(stop), start, graph, &mut cache, full.as_bstr(), options)
                .map_err(explain)?;
        let mut heads: HashMap<(ObjectId, Option<BString>), String> = HashMap::new();
        let mut text = String::new();
        for (entry, lines) in found.entries_with_lines() {
            let source = entry.source_file_name.clone();
            let head = match heads.get(&(entry.commit_id, source.clone())) {
                Some(head) => head.clone(),
                None => {
                    let head = head(around, entry.commit_id, source.as_ref())?;
                    heads.insert((entry.commit_id, source), head.clone());
                    head
                }
            };
            for (number, line) in (u64::from(entry.start_in_blamed_file) + 1..).zip(lines) {
                let line = lossy(line.trim_end_with(|end| matches!(end, '\n' | '\r')));
                let _ = writeln!(text, "{head} {number:>4}) {line}");
            }
        }
        let cut = Page::new(None, Some(DEFAULT_LINES)).cut(&text);
        let (shown, last) = (cut.page.trim_end(), first + cut.last - 1);
        if last < total {
            return Ok(format!(
                "{shown}\n[lines {first} to {last} of {total}; continue with start_line {}]",
                last + 1
            ));
        }
        Ok(shown.to_owned())
    }
}

impl Blame {
    /// The commit that the lines are looked for in, and the file in it.
    fn committed(&self, around: &Around<'_>) -> Result<(ObjectId, Vec<u8>), String> {
        let repository = around.repository;
        let path = around.path.display();
        let revision = self.rev.as_deref().unwrap_or("HEAD");
        let commit = repository.commit(revision)?;
        let tree = repository.gix.find_commit(commit).map_err(explain)?.tree_id().map_err(explain)?.detach();
        let item = repository.entry(tree, repository.full(around.path).as_bstr())?;
        let item = item.filter(|item| item.mode >> 12 == 0o10).ok_or_else(|| {
            format!("{path} is no file in {revision}; git_status tells whether it was ever committed, git_log with path when")
        })?;
        match repository.content(item, MAX_DIFFED_BYTES)? {
            Content::Text(text) => Ok((commit, text)),
            Content::Binary(_) => Err(format!("{path} is a binary file, which has no lines")),
            Content::Big(bytes) => Err(format!("{path} has {bytes} bytes, too many to compare line by line")),
        }
    }
}

/// The file on disk, if there is one to look at.
fn on_disk(around: &Around<'_>) -> Result<Option<Vec<u8>>, String> {
    if !around.repository.has_work_tree {
        return Ok(None);
    }
    let index = index_of(around.repository)?;
    let mut work_tree = WorkTree::new(around.repository, around.workspace, &index, around.stop)?;
    let full = around.repository.full(around.path);
    if work_tree.has_filter(full.as_bstr())? {
        return Ok(None);
    }
    match work_tree.read(full.as_bstr())?.map(sniffed) {
        Some(Content::Text(text)) if text.len() as u64 <= MAX_DIFFED_BYTES => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// What stands before a line.
fn head(around: &Around<'_>, id: ObjectId, source: Option<&BString>) -> Result<String, String> {
    if id.is_null() {
        return Ok("00000000 (Not Committed Yet".into());
    }
    let commit = around.repository.gix.find_commit(id).map_err(explain)?;
    let by = commit.author().map_err(explain)?;
    let local = source.and_then(|source| around.repository.local(source.as_bstr()));
    let source = local.filter(|local| around.sight.shows_name(&local.to_str_lossy()));
    let source = source.map_or_else(String::new, |source| format!(" {}", shown(source)));
    let mark = if commit.parent_ids().next().is_none() { "^" } else { "" };
    let hash = id.to_hex_with_len(8 - mark.len());
    Ok(format!("{mark}{hash}{source} ({} {}", lossy(by.name.trim()), date(&by, format::ISO8601)))
}
