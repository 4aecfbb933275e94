//! Permission rules: what a person's configuration says about one call.
//!
//! A call is judged in parts: each path, each simple command of a shell text, or the call as a whole. For a part any
//! matching denial wins, else the last rule that matches, else the default. The call gets the strictest verdict of
//! its parts.
//!
//! Where a match is in doubt, `deny` and `ask` match and `allow` does not. So a shell text that is not understood
//! ([`shell`]) is never allowed by a rule about commands, and a denied command is found in it if it stands there in
//! plain letters. That is as far as reading a text can go: a rule is a statement of what a person wants, not a wall
//! around a program that means to evade it.

mod pattern;
mod shell;
#[cfg(test)]
mod tests;

use std::fmt;

use domain::{Capability, CapabilitySet};
use serde::Deserialize;

use crate::quote::quoted;
use pattern::{PathGlob, TextPattern, flat};
use shell::{SimpleCommand, UNNAMED, Unclear, simple_commands};

/// Rules of one file. Nobody oversees more, and each call is compared with each.
const RULES: usize = 200;

/// Bytes of a part of the call that an explanation repeats: enough to recognise it.
const SHOWN_BYTES: usize = 160;

/// What the rules say about a call, from the loosest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person is asked first.
    Ask,
    /// It is refused.
    Deny,
}

/// A verdict with the rule or default that led to it, in words for the model and for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, as a clause: "rule 2 of the user's zuno.toml denies …".
    pub because: String,
}

/// A rule as it is configured, unchecked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleEntry {
    /// What is said of the calls that match.
    pub verdict: Verdict,
    /// Names of tools; `*` stands for any text. Those of other programs are called `server/tool`.
    pub tool: Option<String>,
    /// A glob over paths: absolute ones if it begins with `/`, else paths from the workspace root.
    pub path: Option<String>,
    /// Simple commands of the shell; `*` stands for any text.
    pub command: Option<String>,
}

/// A rule that can be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// How a person finds it, and what it says.
    name: String,
    verdict: Verdict,
    tool: Option<TextPattern>,
    about: About,
    /// Given for one run on top of what is configured.
    is_extra: bool,
}

/// The parts of a call that a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    All,
    Paths(PathGlob),
    Commands(TextPattern),
}

/// Why an entry makes no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// It would match everything, most likely by mistake.
    #[error(
        "it says nothing about `tool`, `path` or `command`; add one of them (`tool = \"*\"` is every tool)"
    )]
    MatchesAll,
    /// No part of a call is both.
    #[error("it has both `path` and `command`, and nothing is both; make two entries of it")]
    PathAndCommand,
    /// A pattern without text.
    #[error("`{key}` is empty; leave it out or write what it is about")]
    Empty {
        /// The key.
        key: &'static str,
    },
    /// A pattern over its limit.
    #[error("`{key}` is longer than {limit} bytes; make several entries of it")]
    TooLong {
        /// The key.
        key: &'static str,
        /// Bytes allowed.
        limit: usize,
    },
    /// A path that no call can have.
    #[error("`path`: {problem}")]
    Path {
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// Not a glob.
    #[error("`path` is no glob: {problem}; put a backslash before a character that means itself")]
    Glob {
        /// What the parser says.
        problem: String,
    },
    /// More rules than the limit.
    #[error("there are {actual} rules, the limit is {RULES}; write fewer with `*`")]
    TooMany {
        /// Rules given.
        actual: usize,
    },
}

/// Permission rules in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionRules(Vec<PermissionRule>);

/// What is known about a call when it is judged.
#[derive(Debug, Clone, Copy)]
pub struct CallSubject<'a> {
    /// The tool's name; `server/tool` if another program offers it.
    pub tool: &'a str,
    /// The capabilities it needs.
    pub requires: CapabilitySet,
    /// Whether another program offers the tool.
    pub is_external: bool,
    /// The absolute path of the workspace root.
    pub workspace: &'a str,
    /// What it reads or writes, links followed: from the workspace root (`.` is the root), else absolute.
    pub paths: &'a [String],
    /// The shell text it runs.
    pub command: Option<&'a str>,
    /// Whether a sandbox keeps the command in the workspace and off the network.
    pub is_confined: bool,
}

impl PermissionRule {
    /// Checks an entry. The place is how a person finds it: `rule 2 of the user's zuno.toml`.
    pub fn new(place: &str, entry: &RuleEntry) -> Result<Self, InvalidRule> {
        let about = match (&entry.path, &entry.command) {
            (Some(_), Some(_)) => return Err(InvalidRule::PathAndCommand),
            (Some(glob), None) => About::Paths(PathGlob::parse(glob)?),
            (None, Some(command)) => About::Commands(TextPattern::parse("command", command)?),
            (None, None) if entry.tool.is_none() => return Err(InvalidRule::MatchesAll),
            (None, None) => About::All,
        };
        let tool = entry.tool.as_deref().map(|tool| TextPattern::parse("tool", tool)).transpose()?;
        let keys = [("tool", &entry.tool), ("path", &entry.path), ("command", &entry.command)];
        let said = keys.iter().filter_map(|(key, value)| Some(format!("{key} = {}", shown(value.as_ref()?))));
        let name = format!("{place} ({})", said.collect::<Vec<_>>().join(", "));
        Ok(Self { name, verdict: entry.verdict, tool, about, is_extra: false })
    }

    fn is_for(&self, tool: &str) -> bool {
        self.tool.as_ref().is_none_or(|pattern| pattern.matches(tool))
    }

    fn names(&self, tool: &str) -> bool {
        self.tool.as_ref().is_some_and(|pattern| pattern.exactly() == Some(tool))
    }

    /// Whether it names this tool, and so lets a tool of another program through at all.
    fn grants(&self, tool: &str) -> bool {
        self.verdict != Verdict::Deny && matches!(self.about, About::All) && self.names(tool)
    }

    fn matches(&self, part: &Part<'_>, subject: &CallSubject<'_>) -> bool {
        let is_sure = self.verdict == Verdict::Allow;
        let names_it =
            if is_sure && subject.is_external { self.names(subject.tool) } else { self.is_for(subject.tool) };
        names_it
            && match (&self.about, part) {
                (About::All, _) => true,
                (About::Paths(glob), Part::Path(path)) if is_sure => allows_path(glob, path, subject),
                (About::Paths(glob), Part::Path(path)) => may_mean_path(glob, path, subject),
                (About::Commands(pattern), Part::Command(command)) if is_sure => {
                    pattern.matches(&command.raw) || (command.is_exact && pattern.matches(&command.plain))
                }
                (About::Commands(pattern), Part::Command(command)) => may_run(pattern, command),
                // Whatever such a text runs, a rule about every command is about that too.
                (About::Commands(pattern), Part::Unclear { .. }) if is_sure => pattern.is_any(),
                (About::Commands(pattern), Part::Unclear { flat, holds, .. }) => {
                    *holds == UNNAMED || pattern.occurs_in(flat)
                }
                (About::Paths(_), Part::Command(_) | Part::Unclear { .. } | Part::Whole)
                | (About::Commands(_), Part::Path(_) | Part::Whole) => false,
            }
    }
}

/// A path reaches the rule as it is meant only if it is plain: `..` may lead anywhere.
fn allows_path(glob: &PathGlob, path: &str, subject: &CallSubject<'_>) -> bool {
    if has_dots(path) {
        return false;
    }
    if glob.is_absolute() {
        return glob.matches(&absolute(path, subject.workspace));
    }
    !is_absolute(path) && glob.matches(path)
}

/// A glob without a folder in front, such as `**/.env`, is also about paths outside.
fn may_mean_path(glob: &PathGlob, path: &str, subject: &CallSubject<'_>) -> bool {
    if glob.is_absolute() { glob.covers(&absolute(path, subject.workspace)) } else { glob.covers(path) }
}

fn may_run(pattern: &TextPattern, command: &SimpleCommand) -> bool {
    runs(pattern, command) || may_become(pattern, command)
}

/// Whether words that the shell makes something else of leave open that it is this.
fn may_become(pattern: &TextPattern, command: &SimpleCommand) -> bool {
    // The name is plain, so it ends where it ends in the text without the words left open.
    command.shape.as_ref().is_some_and(|shape| {
        let name_end = shape.find(' ').unwrap_or(shape.len());
        let without_folder = shape[..name_end].rfind('/').map_or(0, |slash| slash + 1);
        pattern.could_match(shape) || pattern.could_match(&shape[without_folder..])
    })
}

fn runs(pattern: &TextPattern, command: &SimpleCommand) -> bool {
    let name_end = command.plain.find(' ').unwrap_or(command.plain.len());
    let without_folder = command.plain[..name_end].rfind('/').map_or(0, |slash| slash + 1);
    pattern.matches(&command.raw)
        || pattern.matches(&command.plain)
        || pattern.matches(&command.plain[without_folder..])
        || command.may_run.as_ref().is_some_and(|text| pattern.occurs_in(text))
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/')
}

fn has_dots(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

fn absolute(path: &str, workspace: &str) -> String {
    match path {
        "." => workspace.to_owned(),
        path if is_absolute(path) => path.to_owned(),
        path => format!("{}/{path}", workspace.trim_end_matches('/')),
    }
}

/// What is judged by itself.
enum Part<'a> {
    Path(&'a str),
    Command(SimpleCommand),
    /// A shell text that holds something which may run any command.
    Unclear {
        text: &'a str,
        flat: String,
        holds: Unclear,
    },
    /// The call without its paths and commands.
    Whole,
}

impl Part<'_> {
    /// Why a rule about commands took a text that does not plainly hold its command.
    fn doubt(&self, rule: &PermissionRule) -> String {
        match (self, &rule.about) {
            (Self::Unclear { holds, .. }, About::Commands(_)) => {
                format!(", which may run that: it holds {holds}")
            }
            (Self::Command(command), About::Commands(pattern)) if !runs(pattern, command) => {
                ", which may run that: it holds a word that the shell expands".to_owned()
            }
            (Self::Path(_) | Self::Command(_) | Self::Unclear { .. } | Self::Whole, _) => String::new(),
        }
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(&shown(path)),
            Self::Command(command) => f.write_str(&shown(&command.raw)),
            Self::Unclear { text, .. } => f.write_str(&shown(text)),
            Self::Whole => f.write_str("the call"),
        }
    }
}

fn shown(text: &str) -> String {
    quoted(text, SHOWN_BYTES).text
}

impl CallSubject<'_> {
    fn parts(&self) -> Vec<Part<'_>> {
        let mut parts: Vec<_> = self.paths.iter().map(|path| Part::Path(path)).collect();
        if let Some(text) = self.command {
            match simple_commands(text) {
                Ok(commands) => parts.extend(commands.into_iter().map(Part::Command)),
                Err(holds) => parts.push(Part::Unclear { text, flat: flat(text), holds }),
            }
        }
        // A rule that allows a path allows neither a program of others nor the network. With a command it is the
        // command that goes there.
        let reaches_out = self.is_external || (self.needs_network() && self.command.is_none());
        if reaches_out || parts.is_empty() {
            parts.push(Part::Whole);
        }
        parts
    }

    fn needs_network(&self) -> bool {
        self.requires.holds(Capability::Network)
    }
}

impl PermissionRules {
    /// Rules in the order in which they are configured.
    pub fn new(rules: Vec<PermissionRule>) -> Result<Self, InvalidRule> {
        if rules.len() > RULES {
            return Err(InvalidRule::TooMany { actual: rules.len() });
        }
        Ok(Self(rules))
    }

    /// With the denials of a project. Nothing else of it is taken (C9).
    #[must_use]
    pub fn narrowed_by(mut self, project: &Self) -> Self {
        self.0.extend(project.0.iter().filter(|rule| rule.verdict == Verdict::Deny).cloned());
        self
    }

    /// With the rules of a project that the user trusts (C9). They come first: of the rules that match, the user's last
    /// one counts before any of them.
    #[must_use]
    pub fn preceded_by(self, project: &Self) -> Self {
        Self(project.0.iter().cloned().chain(self.0).collect())
    }

    /// With rules for one run, such as those of a command line. They come last. To allow a command so is no choice of
    /// the commands that are allowed: the others stay as they are.
    pub fn extended_by(
        mut self,
        extra: impl IntoIterator<Item = PermissionRule>,
    ) -> Result<Self, InvalidRule> {
        self.0.extend(extra.into_iter().map(|rule| PermissionRule { is_extra: true, ..rule }));
        Self::new(self.0)
    }

    /// The tools of other programs that are let through at all: `server/tool`, each named by a rule of its own.
    pub fn of_servers(&self) -> impl Iterator<Item = &str> {
        let lets_through =
            |rule: &&PermissionRule| rule.verdict != Verdict::Deny && matches!(rule.about, About::All);
        let names = self.0.iter().filter(lets_through).filter_map(|rule| rule.tool.as_ref()?.exactly());
        names.filter(|name| name.contains('/'))
    }

    /// What they say about a call.
    pub fn judge(&self, subject: &CallSubject<'_>) -> Judgement {
        let mut parts = subject.parts().into_iter().map(|part| self.judge_part(&part, subject));
        let first = parts.next().unwrap_or_else(|| self.judge_part(&Part::Whole, subject));
        // Of equally strict ones the first is told.
        parts.fold(first, |strictest, next| if next.verdict > strictest.verdict { next } else { strictest })
    }

    fn judge_part(&self, part: &Part<'_>, subject: &CallSubject<'_>) -> Judgement {
        let mut matching = self.0.iter().filter(|rule| rule.matches(part, subject));
        let denial = matching.clone().find(|rule| rule.verdict == Verdict::Deny);
        // Not even `ask` lets through what nobody named: asking about all is no choice of a program to trust.
        let is_unnamed = subject.is_external && !self.0.iter().any(|rule| rule.grants(subject.tool));
        let last = if is_unnamed { None } else { matching.next_back() };
        let Some(rule) = denial.or(last) else {
            return self.default_for(part, subject);
        };
        let because = match rule.verdict {
            Verdict::Allow => format!("{} allows {part}", rule.name),
            Verdict::Ask => format!("{} asks a person about {part}{}", rule.name, part.doubt(rule)),
            Verdict::Deny => format!("{} denies {part}{}", rule.name, part.doubt(rule)),
        };
        Judgement { verdict: rule.verdict, because }
    }

    /// What holds in Work mode where no rule matches.
    fn default_for(&self, part: &Part<'_>, subject: &CallSubject<'_>) -> Judgement {
        let ask = |why: String| Judgement { verdict: Verdict::Ask, because: format!("no rule allows {why}") };
        match part {
            Part::Path(_) | Part::Command(_) | Part::Unclear { .. } | Part::Whole if subject.is_external => {
                let because = format!(
                    "no rule names `{0}`, and a tool of another program needs one: `tool = {0:?}` in [[permissions]], \
                     without `*`",
                    subject.tool
                );
                Judgement { verdict: Verdict::Deny, because }
            }
            Part::Path(path) if is_absolute(path) || has_dots(path) => {
                ask(format!("{part}, which is outside the workspace"))
            }
            Part::Command(_) | Part::Unclear { .. } | Part::Whole if subject.needs_network() => {
                ask(format!("{part}, and it needs the network"))
            }
            Part::Command(_) if self.asks_about_other_commands(subject) => {
                ask(format!("{part}, and commands are allowed by name"))
            }
            Part::Unclear { holds, .. } if self.asks_about_other_commands(subject) => {
                ask(format!("{part}: it holds {holds}, and only plain commands are allowed by name"))
            }
            Part::Path(_) | Part::Command(_) | Part::Unclear { .. } | Part::Whole => {
                Judgement { verdict: Verdict::Allow, because: format!("no rule is against {part}") }
            }
        }
    }

    /// The default of commands that nothing confines: they are allowed, since without a sandbox to put them in the
    /// other choice is to ask about each. A person who allows some commands by name has made a choice, and is asked
    /// about the rest. Confined commands never ask.
    fn asks_about_other_commands(&self, subject: &CallSubject<'_>) -> bool {
        let allows_commands = |rule: &PermissionRule| {
            rule.verdict == Verdict::Allow
                && !rule.is_extra
                && matches!(rule.about, About::Commands(_))
                && rule.is_for(subject.tool)
        };
        !subject.is_confined && self.0.iter().any(allows_commands)
    }
}
