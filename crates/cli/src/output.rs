//! The standard streams: stdout is data, stderr is talk.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

use crate::exit::CliError;
use crate::render;

/// Where a verb's answer goes, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// Data as JSON, or as text.
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether programs read the data.
    pub(crate) const fn is_json(self) -> bool {
        self.json
    }

    /// The answer in the form that was asked for.
    pub(crate) fn answer<T: Serialize>(
        self,
        value: &T,
        as_text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        if self.json { json_line(value) } else { text(&as_text()) }
    }
}

/// One line of JSON, at once.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Result<(), CliError> {
    let mut line = serde_json::to_vec(value)
        .map_err(|error| CliError::Environment(format!("the answer cannot be written as JSON: {error}")))?;
    line.push(b'\n');
    write_data(&line)
}

/// Text for people, ended by a line break.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let line_break = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    write_data(format!("{text}{line_break}").as_bytes())
}

/// A remark. Never data; lost remarks are no fault.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes to stdout and flushes, so that a reader of a pipe has it at once.
pub(crate) fn write_data(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// One line of text, broken into lines where a terminal shows it. In a file or a pipe it stays whole, to be searched.
pub(crate) fn for_stderr(indent: usize, text: &str) -> Cow<'_, str> {
    if std::io::stderr().is_terminal() {
        render::wrapped(indent, text).into()
    } else {
        render::one_line(text)
    }
}

/// Whether a person can be asked: both their keyboard and what they read are a terminal.
pub(crate) fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Text on stderr that stands back, where the terminal can show that and nobody asked for plain text.
pub(crate) fn dim(text: &str) -> String {
    if stderr_has_colour() { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Whether stderr is a terminal that shows colours, and nobody asked for plain text.
pub(crate) fn stderr_has_colour() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    unset("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        && std::io::stderr().is_terminal()
}
