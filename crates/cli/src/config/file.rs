//! The two files as they are written, and errors that say where they are wrong.
//!
//! An error shows a line's number and key, never the line: a secret may stand there by mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use agents::PermissionRules;
use domain::{AgentName, ModelName, REQUESTS_PER_TURN};
use external::ServerName;
use jiff::SignedDuration;
use models::ModelSettings;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::ConfigError;
use super::mcp::McpServer;
use super::permissions::{Entries, Owner, rules};
use crate::walls::SandboxTable;

/// Bytes of a configuration file: a thousand models fit.
const FILE_BYTES: u64 = 1 << 20;

/// The user's file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserFile {
    pub(super) default_model: Option<ModelName>,
    pub(super) default_agent: Option<AgentName>,
    pub(super) tools: Option<BTreeSet<String>>,
    #[serde(default)]
    pub(super) budgets: BudgetLimits,
    #[serde(default)]
    pub(super) turns: TurnLimits,
    #[serde(default)]
    pub(super) goal: GoalTable,
    #[serde(default)]
    pub(super) models: BTreeMap<ModelName, ModelSettings>,
    #[serde(default)]
    pub(super) sandbox: Option<SandboxTable>,
    #[serde(default)]
    pub(super) mcp: BTreeMap<ServerName, McpServer>,
    #[serde(default)]
    permissions: Entries,
    /// What `permissions` says.
    #[serde(skip)]
    pub(super) rules: PermissionRules,
}

/// The project's file: what narrows, and the names of what only the user's word makes count (C9).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectFile {
    pub(super) default_agent: Option<AgentName>,
    pub(super) tools: Option<BTreeSet<String>>,
    #[serde(default)]
    pub(super) budgets: BudgetLimits,
    #[serde(default)]
    pub(super) turns: TurnLimits,
    #[serde(default)]
    permissions: Entries,
    /// The denials that `permissions` holds.
    #[serde(skip)]
    pub(super) denials: PermissionRules,
    default_model: Option<IgnoredAny>,
    goal: Option<IgnoredAny>,
    #[serde(default)]
    models: toml::Table,
    #[serde(default)]
    mcp: toml::Table,
    sandbox: Option<IgnoredAny>,
    /// What counts only if the user trusts the file, for people.
    #[serde(skip)]
    pub(super) wide: Vec<String>,
}

/// What the decoder's names for budgets mean.
const FROM_1: &str = "a whole number from 1";

/// What the decoder means by a sequence.
const A_LIST: &str = "expected a list (`[[permissions]]` begins one entry of it)";

/// `[budgets]`. A budget of 0 is no budget (G4).
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetLimits {
    /// Uncached input and output tokens.
    pub(crate) tokens: Option<NonZeroU64>,
    /// Turns.
    pub(crate) turns: Option<NonZeroU32>,
    /// The time in which turns run.
    pub(crate) active_time: Option<ActiveTime>,
}

/// `[turns]`.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnLimits {
    /// Model requests in one turn (T12).
    pub(super) max_requests: Option<MaxRequests>,
}

/// Model requests that a turn may make: at most [`REQUESTS_PER_TURN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct MaxRequests(pub(super) NonZeroU32);

impl TryFrom<u32> for MaxRequests {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        let within = NonZeroU32::new(number).filter(|number| number.get() <= REQUESTS_PER_TURN);
        within.map(Self).ok_or_else(|| {
            format!("{number} is not from 1 to {REQUESTS_PER_TURN}, the most that a turn may make")
        })
    }
}

/// A time such as `8h` or `1h 30m`, in milliseconds; at least one, for a budget of none is no budget (G4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ActiveTime(pub(crate) NonZeroU64);

impl FromStr for ActiveTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time: Option<SignedDuration> = text.trim().parse().ok();
        let ms = time.and_then(|time| u64::try_from(time.as_millis()).ok()).and_then(NonZeroU64::new);
        ms.map(Self).ok_or_else(|| format!("`{text}` is not a time such as 8h, 90m or 1h 30m"))
    }
}

impl TryFrom<String> for ActiveTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// `[goal]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalTable {
    pub(super) on_open: Option<OnOpen>,
}

/// What `zuno run` does when the session it was used on has an active Goal (T11).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnOpen {
    /// Ask the person; say how to go on where nobody can be asked.
    #[default]
    Ask,
    /// Let the Goal go on.
    Continue,
}

impl UserFile {
    /// Parses the user's own file, or one that they trust like it.
    pub(super) fn parse(path: &Path, text: &str, owner: Owner) -> Result<Self, ConfigError> {
        let mut file: Self = parse(path, text)?;
        file.rules = rules(path, text, owner, std::mem::take(&mut file.permissions))?.rules;
        let places = file.sandbox.iter().flat_map(|table| table.writable.iter().flatten().chain(&table.hide));
        if let Some(place) = { places }.find(|place| !place.starts_with('/') && !place.starts_with("~/")) {
            let problem = format!("`sandbox`: {place:?} is no absolute path; begin it with / or ~/");
            return Err(ConfigError::File { path: path.to_owned(), line: None, problem });
        }
        for (name, settings) in &file.models {
            if settings.api_key_env.as_deref().is_some_and(|variable| !is_variable(variable)) {
                let problem = format!(
                    "`models.{name}.api_key_env` is the name of an environment variable, never the key itself"
                );
                return Err(ConfigError::File { path: path.to_owned(), line: None, problem });
            }
        }
        Ok(file)
    }
}

/// Whether a text looks like the name of an environment variable, in which nobody mixes upper and lower case. What does
/// not may be a key, and must not be shown.
pub(super) fn is_variable(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (upper, lower) = (|c: char| c.is_ascii_uppercase(), |c: char| c.is_ascii_lowercase());
    !text.is_empty() && text.chars().all(fits) && !(text.contains(upper) && text.contains(lower))
}

impl ProjectFile {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut file: Self = parse(path, text)?;
        let found = rules(path, text, Owner::Project, std::mem::take(&mut file.permissions))?;
        file.denials = found.rules;
        let tables = |table: &str, names: &toml::Table| {
            names.keys().map(|name| format!("[{table}.{name}]")).collect::<Vec<_>>()
        };
        file.wide = [
            file.default_model.map(|_| "default_model".to_owned()),
            file.goal.map(|_| "[goal]".to_owned()),
            file.sandbox.map(|_| "[sandbox]".to_owned()),
            (found.loose == 1).then(|| "1 permission that allows or asks".to_owned()),
            (found.loose > 1).then(|| format!("{} permissions that allow or ask", found.loose)),
        ]
        .into_iter()
        .flatten()
        .chain(tables("models", &file.models))
        .chain(tables("mcp", &file.mcp))
        .collect();
        Ok(file)
    }
}

/// A file's text; `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let fault = |problem: String| ConfigError::File { path: path.to_owned(), line: None, problem };
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(fault(format!("cannot be read: {error}"))),
    };
    let mut text = String::new();
    file.take(FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| fault(format!("cannot be read: {error}")))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(fault(format!("is larger than {} KiB", FILE_BYTES >> 10)));
    }
    Ok(Some(text))
}

/// Opens a file that has an end. A project brings its own file, and to open a pipe or a device can block for ever.
fn open_regular(path: &Path) -> io::Result<File> {
    let refuse_others = |found: Metadata| {
        if found.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
    };
    refuse_others(std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    // It may have been swapped in between.
    refuse_others(file.metadata()?)?;
    Ok(file)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text, &span));
        let place = error.span().and_then(|span| key_at(text, &span));
        let message = error.message().trim_end().replace('\n', ", ");
        let message = message.replace("a nonzero u64", FROM_1).replace("a nonzero u32", FROM_1);
        let message = message.replace("expected a sequence", A_LIST);
        let problem = match place {
            // The message names the key itself.
            Some(_) if message.starts_with("unknown field") || message.starts_with("missing field") => {
                format!("{message}{}", hint(&message))
            }
            Some(key) => format!("`{key}`: {message}"),
            None => message,
        };
        ConfigError::File { path: path.to_owned(), line, problem }
    })
}

/// The line on which a place begins.
pub(super) fn line_at(text: &str, span: &Range<usize>) -> usize {
    1 + text[..start_of(span, text)].matches('\n').count()
}

fn start_of(span: &Range<usize>, text: &str) -> usize {
    text.floor_char_boundary(span.start.min(text.len()))
}

/// What most people mean by the key they wrote.
fn hint(message: &str) -> &'static str {
    if message.contains("`api_key`") {
        return ". Keys do not belong into this file: export one and name its variable in api_key_env";
    }
    ""
}

/// The key of the entry at a place, with the table it stands in: `budgets.tokens`.
fn key_at(text: &str, span: &Range<usize>) -> Option<String> {
    let start = start_of(span, text);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].lines().next()?;
    let (key, _) = line.split_once('=')?;
    let table = text[..line_start].lines().rev().find_map(|line| {
        let line = line.trim_start();
        line.strip_prefix('[').filter(|rest| !rest.starts_with('['))?.split_once(']').map(|(name, _)| name)
    });
    let key = key.trim();
    Some(table.map_or_else(|| key.to_owned(), |table| format!("{}.{key}", table.trim())))
}
