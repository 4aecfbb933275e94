//! `[[permissions]]`: entries of either file, made into rules one by one, so that an error tells which is wrong.

use std::path::Path;

use agents::{PermissionRule, PermissionRules, RuleEntry, Verdict};
use toml::Spanned;

use super::ConfigError;
use super::file::line_at;

/// The entries as they are decoded with their file.
pub(super) type Entries = Vec<Spanned<toml::Table>>;

/// Whose file the entries stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user's, which may say anything.
    User,
    /// A project's, of which only denials are taken (C9).
    Project,
    /// A project's that the user trusts like their own.
    TrustedProject,
}

/// What the entries of a file come to.
pub(super) struct Found {
    /// The rules that are taken.
    pub(super) rules: PermissionRules,
    /// Entries that are not, since they allow or ask.
    pub(super) loose: usize,
}

/// The rules that the entries make.
pub(super) fn rules(path: &Path, text: &str, owner: Owner, entries: Entries) -> Result<Found, ConfigError> {
    let fault = |line, problem| ConfigError::File { path: path.to_owned(), line, problem };
    let mut rules = Vec::with_capacity(entries.len());
    let mut loose = 0;
    for (number, entry) in (1_usize..).zip(entries) {
        let line = line_at(text, &entry.span());
        let rule = rule(number, owner, entry.into_inner())
            .map_err(|problem| fault(Some(line), format!("entry {number} of `permissions`: {problem}")))?;
        match rule {
            Some(rule) => rules.push(rule),
            None => loose += 1,
        }
    }
    let rules =
        PermissionRules::new(rules).map_err(|error| fault(None, format!("`permissions`: {error}")))?;
    Ok(Found { rules, loose })
}

fn rule(number: usize, owner: Owner, entry: toml::Table) -> Result<Option<PermissionRule>, String> {
    let entry: RuleEntry = entry.try_into().map_err(|error| said(&error))?;
    if owner == Owner::Project && entry.verdict != Verdict::Deny {
        return Ok(None);
    }
    let whose = match owner {
        Owner::User => "user's",
        Owner::Project | Owner::TrustedProject => "project's",
    };
    PermissionRule::new(&format!("rule {number} of the {whose} zuno.toml"), &entry)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// The decoder's message behind the key that it names last.
fn said(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    text.split_once("\nin ").map_or_else(|| text.to_owned(), |(message, key)| format!("{key}: {message}"))
}
