//! `[[permissions]]`: entries of either file, made into rules one by one, so that an error tells which is wrong.

use std::path::Path;

use agents::{PermissionRule, PermissionRules, RuleEntry, Verdict};
use toml::Spanned;

use super::ConfigError;
use super::file::line_at;

/// The entries as they are decoded with their file.
pub(super) type Entries = Vec<Spanned<toml::Table>>;

/// Whose file the entries stand in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner<'a> {
    /// The user's, which may say anything.
    User,
    /// A project's, which may only deny (C9).
    Project {
        /// The file where the other verdicts belong.
        user_file: &'a Path,
    },
}

/// The rules that the entries make.
pub(super) fn rules(
    path: &Path,
    text: &str,
    owner: Owner<'_>,
    entries: Entries,
) -> Result<PermissionRules, ConfigError> {
    let fault = |line, problem| ConfigError::File { path: path.to_owned(), line, problem };
    let rules = (1..).zip(entries).map(|(number, entry)| {
        let line = line_at(text, &entry.span());
        rule(number, owner, entry.into_inner())
            .map_err(|problem| fault(Some(line), format!("entry {number} of `permissions`: {problem}")))
    });
    PermissionRules::new(rules.collect::<Result<_, _>>()?)
        .map_err(|error| fault(None, format!("`permissions`: {error}")))
}

fn rule(number: usize, owner: Owner<'_>, entry: toml::Table) -> Result<PermissionRule, String> {
    let entry: RuleEntry = entry.try_into().map_err(|error| said(&error))?;
    let place = match owner {
        Owner::User => format!("rule {number} of the user's zuno.toml"),
        Owner::Project { user_file } => {
            if entry.verdict != Verdict::Deny {
                return Err(format!(
                    "a project only narrows: write `verdict = \"deny\"`, or put the entry into {}",
                    user_file.display()
                ));
            }
            format!("rule {number} of the project's zuno.toml")
        }
    };
    PermissionRule::new(&place, &entry).map_err(|error| error.to_string())
}

/// The decoder's message behind the key that it names last.
fn said(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    text.split_once("\nin ").map_or_else(|| text.to_owned(), |(message, key)| format!("{key}: {message}"))
}
