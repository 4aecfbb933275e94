//! `git_show`: a commit with what it changed, or a file as it was in one.

use std::fmt::Write as _;

use gix::bstr::ByteSlice as _;
use gix::date::time::format;
use gix::objs;
use schemars::JsonSchema;
use serde::Deserialize;

use super::changes::{Item, SUBMODULE, as_path};
use super::diff::context;
use super::log::entry;
use super::patch::{Content, Printer, Style};
use super::repository::explain;
use super::revision::split_path;
use super::text::{Page, date, lossy, shown};
use super::{Around, Question};
use crate::words::{count, left_out};

/// Bytes of an old version of a file that is shown in pages.
const MAX_SHOWN_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Show {
    /// A commit such as HEAD~1, a branch, tag or hash, for what it changed; or COMMIT:PATH for a file or directory as it was, the path from the workspace root. HEAD if left out.
    rev: Option<String>,
    /// Only what the commit changed in this file or directory, from the workspace root.
    path: Option<String>,
    /// Only how many lines changed in which files; false if left out.
    stat: Option<bool>,
    /// How many lines to show around each change; 3 if left out.
    context: Option<u64>,
    /// Number of the first line of the answer to show.
    offset: Option<u64>,
    /// How many lines to show at most; 500 if left out.
    limit: Option<u64>,
}

impl Question for Show {
    const NAME: &'static str = "git_show";
    const DESCRIPTION: &'static str = "Show a commit of the git repository with what it changed, as git show does, or with COMMIT:PATH a file or \
         directory as it was. Merges are shown against their first parent. Binary and very big files are described, \
         not shown.";

    fn path(&self) -> Option<&str> {
        let in_commit = self.rev.as_deref().and_then(|rev| split_path(rev).1);
        in_commit.map(|path| if path.is_empty() { "." } else { path }).or(self.path.as_deref())
    }

    fn answer(self, around: &Around<'_>) -> Result<String, String> {
        let sent = self.rev.as_deref().unwrap_or("HEAD");
        let page = Page::new(self.offset, self.limit);
        match split_path(sent) {
            ("", Some(_)) => {
                Err("git_show takes COMMIT:PATH; read_file shows a file as it is on disk".into())
            }
            (_, Some(_)) if self.path.is_some() => Err("give either COMMIT:PATH or path, not both".into()),
            (revision, Some(_)) => file(around, revision, page),
            (revision, None) => {
                let style = Style { context: context(self.context), stat: self.stat.unwrap_or(false) };
                commit(around, revision, &style).map(|text| page.of(&text))
            }
        }
    }
}

/// A tag, if it is one, and the commit with its changes.
fn commit(around: &Around<'_>, revision: &str, style: &Style) -> Result<String, String> {
    let Around { repository, sight, stop, .. } = *around;
    let mut text = String::new();
    if let Ok(tag) = repository.object(revision)?.try_into_tag() {
        let decoded = tag.decode().map_err(explain)?;
        let _ = writeln!(text, "tag {}", lossy(decoded.name));
        if let Ok(Some(tagger)) = decoded.tagger() {
            let _ = writeln!(text, "Tagger: {} <{}>", lossy(tagger.name), lossy(tagger.email));
            let _ = writeln!(text, "Date:   {}", date(&tagger, format::DEFAULT));
        }
        let _ = writeln!(text, "\n{}\n", lossy(decoded.message.trim()));
    }
    let commit = repository.gix.find_commit(repository.commit(revision)?).map_err(explain)?;
    text.push_str(&entry(&commit, "")?);
    let own = commit.tree_id().map_err(explain)?.detach();
    let parents: Vec<_> = commit.parent_ids().collect();
    let is_shallow = repository.gix.shallow_commits().ok().flatten();
    let is_shallow = is_shallow.is_some_and(|shallow| shallow.iter().any(|id| *id == commit.id));
    if is_shallow && !parents.is_empty() {
        text.push_str(
            "[shallow clone: the parent was not fetched, so what this commit changed is not known]\n",
        );
        return Ok(text);
    }
    let before = match parents.first() {
        Some(parent) => {
            let parent = repository.gix.find_commit(parent.detach()).map_err(explain)?;
            parent.tree_id().map_err(explain)?.detach()
        }
        None => gix::ObjectId::empty_tree(repository.gix.object_hash()),
    };
    if parents.len() > 1 {
        text.push_str("[merge: what it brought to its first parent]\n");
    }
    let within = repository.full(around.path);
    let changes = repository.between_trees(before, own, within.as_bstr(), stop)?;
    let is_empty = changes.is_empty();
    text.push_str(&Printer { repository, work_tree: None, sight, stop }.print(changes, style)?);
    if is_empty {
        text.push_str("[it changed no file here]\n");
    }
    Ok(text)
}

/// A file or directory as it was.
fn file(around: &Around<'_>, revision: &str, page: Page) -> Result<String, String> {
    let Around { repository, sight, path, .. } = *around;
    let commit = repository.gix.find_commit(repository.commit(revision)?).map_err(explain)?;
    let tree = commit.tree_id().map_err(explain)?.detach();
    let full = repository.full(path);
    let Some(item) = repository.entry(tree, full.as_bstr())? else {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.map_or_else(|| ".".to_owned(), |folder| folder.display().to_string());
        return Err(format!(
            "{} does not exist in {revision}; git_show {revision}:{folder} lists a directory, and git_log with path \
             tells when a file changed",
            path.display()
        ));
    };
    if item.mode == objs::tree::EntryKind::Tree as u32 {
        return folder(around, revision, item).map(|text| page.of(&text));
    }
    if !sight.shows_content(&path.to_string_lossy()) {
        return Err(format!("a permission rule is against showing what is in {}", path.display()));
    }
    match repository.content(item, MAX_SHOWN_BYTES)? {
        Content::Text(text) if text.is_empty() => Ok("[the file is empty]".into()),
        Content::Text(text) => Ok(page.of(&lossy(&text))),
        Content::Binary(bytes) => {
            Ok(format!("[binary file, {}, not shown]", count(bytes.unwrap_or_default(), "byte")))
        }
        Content::Big(bytes) => Ok(format!("[file of {}, too big to show]", count(bytes, "byte"))),
    }
}

fn folder(around: &Around<'_>, revision: &str, item: Item) -> Result<String, String> {
    let tree = around.repository.gix.find_tree(item.id).map_err(explain)?;
    let mut text = format!("tree {revision}:{}\n\n", around.path.display());
    let mut hidden = 0;
    for entry in tree.iter() {
        let entry = entry.map_err(explain)?;
        let below = around.path.join(as_path(entry.filename()));
        let below = below.strip_prefix(".").unwrap_or(&below);
        if !around.sight.shows_name(&below.to_string_lossy()) {
            hidden += 1;
            continue;
        }
        let mark = match u32::from(entry.mode().value()) {
            SUBMODULE => " (submodule)",
            _ if entry.mode().is_tree() => "/",
            _ => "",
        };
        let _ = writeln!(text, "{}{mark}", shown(entry.filename()));
    }
    text.push_str(&left_out(hidden));
    Ok(text)
}
