//! From what a model calls a revision to a commit, and what to say when there is none of that name.

use std::fmt::Write as _;

use gix::bstr::{BStr, ByteSlice as _};
use gix::{ObjectId, objs};

use super::repository::{Repository, explain};

/// Longest revision; names of refs are shorter.
const MAX_BYTES: usize = 500;

/// Refs compared with a name that is none; more would take longer than it helps.
const MAX_REFS: usize = 20_000;

/// Refs offered instead.
const OFFERED: usize = 5;

/// What a revision or a range of them selects.
pub(super) struct Range {
    /// Reachable from one of these …
    pub(super) tips: Vec<ObjectId>,
    /// … and from none of these.
    pub(super) hidden: Vec<ObjectId>,
}

/// The two ends of a comparison.
pub(super) enum Ends {
    /// One revision, to be compared with something else.
    One(ObjectId),
    /// From the first to the second.
    Two(ObjectId, ObjectId),
}

impl Repository {
    /// The commit that a revision names.
    pub(super) fn commit(&self, revision: &str) -> Result<ObjectId, String> {
        let object = self.object(revision)?;
        let peeled = object.peel_to_kind(objs::Kind::Commit).map_err(|_| {
            format!(
                "{revision} is not a commit; name a commit, tag or branch, and a file in it as REVISION:PATH"
            )
        })?;
        Ok(peeled.id)
    }

    /// The object that a revision names.
    pub(super) fn object(&self, revision: &str) -> Result<gix::Object<'_>, String> {
        let sent = revision;
        let revision = sent.trim();
        if sent.len() > MAX_BYTES {
            return Err(format!("the revision is longer than {MAX_BYTES} bytes"));
        }
        if revision.starts_with('-') {
            return Err(format!(
                "{revision} is an option; only revisions such as HEAD~3, a branch or a hash are taken"
            ));
        }
        if revision.is_empty() || revision.contains(char::is_whitespace) {
            return Err(format!("\"{sent}\" is not one revision such as HEAD~3, a branch, a tag or a hash"));
        }
        if revision.contains("{/") || revision.contains(':') {
            return Err(format!(
                "{revision} searches messages or names a path, which is not taken here; git_log finds commits by \
                 message with grep"
            ));
        }
        let found = self.gix.rev_parse_single(revision.as_bytes().as_bstr()).and_then(|id| id.object());
        found.map_err(|_| self.unknown(revision))
    }

    /// Whatever `REV`, `A..B`, `A...B` and `^REV` select, several of them apart by blanks.
    pub(super) fn range(&self, text: &str) -> Result<Range, String> {
        let mut range = Range { tips: Vec::new(), hidden: Vec::new() };
        for part in text.split_whitespace() {
            if part == "--all" {
                range.tips.extend(self.all_tips()?);
            } else if let Some((one, other)) = part.split_once("...") {
                let (one, other) = (self.commit(or_head(one))?, self.commit(or_head(other))?);
                range.hidden.extend(self.base(one, other)?);
                range.tips.extend([one, other]);
            } else if let Some((from, to)) = part.split_once("..") {
                range.hidden.push(self.commit(or_head(from))?);
                range.tips.push(self.commit(or_head(to))?);
            } else if let Some(hidden) = part.strip_prefix('^') {
                range.hidden.push(self.commit(hidden)?);
            } else {
                range.tips.push(self.commit(part)?);
            }
        }
        if range.tips.is_empty() {
            range.tips.push(self.commit("HEAD")?);
        }
        Ok(range)
    }

    /// The ends of `A..B`, `A...B` (from where they parted to B), `A B` or `A`.
    pub(super) fn ends(&self, text: &str) -> Result<Ends, String> {
        if let Some((one, other)) = text.split_once("...") {
            let (one, other) = (self.commit(or_head(one))?, self.commit(or_head(other))?);
            let base = self.base(one, other)?;
            return base
                .map(|base| Ends::Two(base, other))
                .ok_or_else(|| format!("{text}: no common ancestor"));
        }
        if let Some((from, to)) = text.split_once("..") {
            return Ok(Ends::Two(self.commit(or_head(from))?, self.commit(or_head(to))?));
        }
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [from, to] => Ok(Ends::Two(self.commit(from)?, self.commit(to)?)),
            _ => self.commit(text).map(Ends::One),
        }
    }

    fn base(&self, one: ObjectId, other: ObjectId) -> Result<Option<ObjectId>, String> {
        Ok(self.gix.merge_base(one, other).map_err(explain)?.map(gix::Id::detach))
    }

    fn all_tips(&self) -> Result<Vec<ObjectId>, String> {
        let references = self.gix.references().map_err(explain)?;
        let all = references.all().map_err(explain)?;
        let commits = all.filter_map(Result::ok).take(MAX_REFS).filter_map(|mut reference| {
            let object = reference.peel_to_id().ok()?.object().ok()?;
            Some(object.peel_to_kind(objs::Kind::Commit).ok()?.id)
        });
        Ok(commits.collect())
    }

    /// Every ref, shortened, with what it points to; pseudo refs left out.
    pub(super) fn refs(&self) -> Vec<(String, ObjectId)> {
        let Ok(references) = self.gix.references() else { return Vec::new() };
        let Ok(all) = references.all() else { return Vec::new() };
        let named = all.filter_map(Result::ok).take(MAX_REFS).filter_map(|mut reference| {
            let name = reference.name().shorten().to_str_lossy().into_owned();
            Some((name, reference.peel_to_id().ok()?.detach()))
        });
        named.collect()
    }

    /// What to say of a revision that cannot be found.
    fn unknown(&self, revision: &str) -> String {
        let is_unborn = self.gix.head().is_ok_and(|head| head.is_unborn());
        if is_unborn && self.refs().is_empty() {
            return "there is no commit yet; git_status shows the files".into();
        }
        let base = revision.split(['~', '^', '@']).next().unwrap_or(revision);
        let mut names: Vec<_> = self.refs().into_iter().map(|(name, _)| name).collect();
        if names.iter().any(|name| name == base) || matches!(base, "HEAD" | "") {
            let shallow = if self.gix.is_shallow().unwrap_or(false) {
                "; the clone is shallow, and what is older was not fetched"
            } else {
                ""
            };
            let known = if base.is_empty() { "HEAD" } else { base };
            return format!(
                "{revision} does not exist although {known} does; git_log with rev {known} shows the commits before it\
                 {shallow}"
            );
        }
        names.sort_by_cached_key(|name| {
            let last = name.rsplit('/').next().unwrap_or(name);
            (distance(base, name).min(distance(base, last)), name.clone())
        });
        names.truncate(OFFERED);
        let mut text = format!("unknown revision {revision}");
        if base.len() >= 4 && base.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            text.push_str(" (no commit, or more than one, begins with that hash)");
        }
        let _ = write!(
            text,
            "; the nearest refs are: {}; HEAD~N counts back from the latest commit",
            names.join(", ")
        );
        text
    }
}

fn or_head(text: &str) -> &str {
    if text.is_empty() { "HEAD" } else { text }
}

/// How many letters have to be changed to make one name of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in (1..).zip(one.chars()) {
        let mut diagonal = std::mem::replace(&mut row[0], at);
        for (column, beside) in other.iter().enumerate() {
            let change = diagonal + usize::from(!letter.eq_ignore_ascii_case(beside));
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// `REVISION:PATH` in its two parts.
pub(super) fn split_path(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(revision, path)| (revision, Some(path)))
}

/// The first letters of a hash, as git shows them.
pub(super) fn short(repository: &Repository, id: ObjectId) -> String {
    use gix::prelude::ObjectIdExt as _;
    id.attach(&repository.gix).shorten_or_id().to_string()
}

/// A line of a message.
pub(super) fn title(message: &BStr) -> String {
    super::text::lossy(message.trim_start().lines().next().unwrap_or_default())
}
