//! `git_log`: commits, newest first.

use std::collections::HashMap;
use std::fmt::Write as _;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice as _};
use gix::date::time::format;
use gix::revision::walk::Sorting;
use gix::traverse::commit::simple::CommitTimeOrder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::repository::{Repository, explain};
use super::revision::{short, title};
use super::text::{date, lossy};
use super::{Around, Question};
use crate::words::clip;

/// Commits shown unless asked otherwise.
const DEFAULT_COMMITS: u64 = 20;

/// Commits shown at most.
const MAX_COMMITS: u64 = 1000;

/// Commits looked at for those that were asked for, some ten seconds of it.
const MAX_VISITED: u64 = 200_000;

/// Bytes of one answer; what is longer the turn loop would cut in the middle.
const MAX_TEXT_BYTES: usize = 30 * 1024;

/// Lines of one message. Longer ones hold generated lists, and `git_show` has them as a whole.
const MAX_MESSAGE_LINES: usize = 60;

/// Characters of one line of a message; what is longer was generated.
const MAX_MESSAGE_CHARS: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    /// Where to start, or a range: main, v1..v2, main...topic, --all; HEAD if left out.
    rev: Option<String>,
    /// Only commits that changed this file or directory, from the workspace root.
    path: Option<String>,
    /// How many commits to show at most; 20 if left out, 1000 at most.
    max_count: Option<u64>,
    /// How many commits to leave out first.
    skip: Option<u64>,
    /// Only commits whose author's name or email holds this text; upper and lower case are the same.
    author: Option<String>,
    /// Only commits whose message holds this text, taken literally; upper and lower case are the same.
    grep: Option<String>,
    /// One line per commit: hash, date, title; false if left out.
    oneline: Option<bool>,
}

impl Question for Log {
    const NAME: &'static str = "git_log";
    const DESCRIPTION: &'static str = "Show commits of the git repository, newest first, as git log does. The last line of the answer says how to go \
         on when there are more. git_show shows what a commit changed.";

    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    fn answer(self, around: &Around<'_>) -> Result<String, String> {
        let repository = around.repository;
        let range = repository.range(self.rev.as_deref().unwrap_or_default())?;
        let within = repository.full(around.path);
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        let (author, grep) = (lower(&self.author), lower(&self.grep));
        let max = self.max_count.unwrap_or(DEFAULT_COMMITS).clamp(1, MAX_COMMITS);
        let skip = self.skip.unwrap_or(0);
        let is_oneline = self.oneline.unwrap_or(false);
        let names = names(repository);
        let walk = repository.gix.rev_walk(range.tips).with_hidden(range.hidden);
        let walk =
            walk.sorting(Sorting::ByCommitTime(CommitTimeOrder::NewestFirst)).all().map_err(explain)?;
        let mut text = String::new();
        let mut matching = 0;
        for (visited, info) in (1..).zip(walk) {
            if around.stop.is_cancelled() {
                return Err("stopped".into());
            }
            let info = info.map_err(explain)?;
            let commit = repository.gix.find_commit(info.id).map_err(explain)?;
            if visited > MAX_VISITED {
                let _ = writeln!(
                    text,
                    "[looked through {MAX_VISITED} commits; go on with rev {} and skip 0]",
                    short(repository, info.id)
                );
                break;
            }
            let is_wanted = author.as_ref().is_none_or(|author| is_by(&commit, author))
                && grep
                    .as_ref()
                    .is_none_or(|grep| lossy(commit.message_raw_sloppy()).to_lowercase().contains(grep))
                && (within.is_empty() || touches(repository, &commit, within.as_bstr())?);
            if !is_wanted {
                continue;
            }
            matching += 1;
            if matching <= skip {
                continue;
            }
            if matching > skip + max || text.len() > MAX_TEXT_BYTES {
                let _ = writeln!(text, "[there are more; go on with skip {}]", matching - 1);
                break;
            }
            let names = names.get(&info.id).map_or("", String::as_str);
            text.push_str(&if is_oneline { line(&commit, names)? } else { entry(&commit, names)? });
        }
        if text.is_empty() {
            text = match matching {
                0 => "[no commit matches]".to_owned(),
                _ => format!("[no more than {matching} commits match]"),
            };
        }
        text.truncate(text.trim_end().len());
        Ok(text)
    }
}

/// What points to a commit, by commit, as git decorates it.
fn names(repository: &Repository) -> HashMap<ObjectId, String> {
    let mut names: HashMap<ObjectId, String> = HashMap::new();
    let mut add = |id, name: &str| {
        let text = names.entry(id).or_default();
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{name}");
    };
    if let Ok(head) = repository.gix.head()
        && let Some(id) = head.id()
    {
        add(id.detach(), "HEAD");
    }
    for (name, id) in repository.refs() {
        add(id, &name);
    }
    names.into_iter().map(|(id, text)| (id, format!(" ({text})"))).collect()
}

fn is_by(commit: &gix::Commit<'_>, author: &str) -> bool {
    commit
        .author()
        .is_ok_and(|by| format!("{} <{}>", lossy(by.name), lossy(by.email)).to_lowercase().contains(author))
}

/// Whether a commit has another version at a path than each of its parents.
fn touches(repository: &Repository, commit: &gix::Commit<'_>, path: &BStr) -> Result<bool, String> {
    let at = |commit: &gix::Commit<'_>| repository.entry(commit.tree_id().map_err(explain)?.detach(), path);
    let own = at(commit)?;
    let mut is_first = true;
    // A parent that was not fetched tells nothing.
    for parent in commit.parent_ids().filter_map(|id| id.object().ok()?.try_into_commit().ok()) {
        is_first = false;
        if at(&parent)? == own {
            return Ok(false);
        }
    }
    Ok(!is_first || own.is_some())
}

fn line(commit: &gix::Commit<'_>, names: &str) -> Result<String, String> {
    let hash = commit.short_id().map_err(explain)?;
    let by = commit.author().map_err(explain)?;
    Ok(format!("{hash} {}{names} {}\n", date(&by, format::SHORT), title(commit.message_raw_sloppy())))
}

/// A commit's head and message.
pub(super) fn entry(commit: &gix::Commit<'_>, names: &str) -> Result<String, String> {
    let mut text = format!("commit {}{names}\n", commit.id);
    let parents: Vec<_> = commit.parent_ids().map(|id| id.shorten_or_id().to_string()).collect();
    if parents.len() > 1 {
        let _ = writeln!(text, "Merge: {}", parents.join(" "));
    }
    let by = commit.author().map_err(explain)?;
    let _ = writeln!(text, "Author: {} <{}>", lossy(by.name), lossy(by.email));
    let _ = writeln!(text, "Date:   {}\n", date(&by, format::DEFAULT));
    let message = lossy(commit.message_raw_sloppy().trim());
    for line in message.lines().take(MAX_MESSAGE_LINES) {
        let _ = writeln!(text, "{}", format!("    {}", clip(line, MAX_MESSAGE_CHARS)).trim_end());
    }
    if message.lines().count() > MAX_MESSAGE_LINES {
        text.push_str("    […]\n");
    }
    text.push('\n');
    Ok(text)
}
