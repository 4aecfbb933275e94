//! The standard streams: stdout is data, stderr is talk.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use serde::Serialize;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

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
    write_data(as_json_line(value)?.as_bytes())
}

/// A value as one line of JSON.
pub(crate) fn as_json_line<T: Serialize>(value: &T) -> Result<String, CliError> {
    let line = serde_json::to_string(value)
        .map_err(|error| CliError::Environment(format!("the answer cannot be written as JSON: {error}")))?;
    Ok(format!("{}\n", escaped_json(&line)))
}

/// The same JSON with an escape for each character that some readers take for the end of a line, or that acts on a
/// terminal. Such a character can only stand in a string.
fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.contains(render::acts_on_terminals) {
        return json.into();
    }
    let escape = |mut out: String, c: char| {
        if render::acts_on_terminals(c) {
            // All of them are in the first plane.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    };
    json.chars().fold(String::with_capacity(json.len()), escape).into()
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

/// Columns of the terminal that shows the data. `None` where a file or a pipe takes it: lines stay whole there.
pub(crate) fn columns() -> Option<usize> {
    std::io::stdout().is_terminal().then(|| width_of_terminal().unwrap_or(render::COLUMNS))
}

/// What stdout's terminal says of its width. `stty` puts the question, since the standard library has no way to.
fn width_of_terminal() -> Option<usize> {
    let terminal = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    let asked = Command::new("stty").arg("size").stdin(terminal).stderr(Stdio::null()).output().ok()?;
    let rows_and_columns = String::from_utf8(asked.stdout).ok()?;
    // A terminal that was told no size says 0.
    rows_and_columns.split_whitespace().nth(1)?.parse().ok().filter(|columns| *columns > 0)
}

/// Returns once the reader of stdout's pipe has gone, which otherwise shows only when something is written. A file can
/// always be read.
pub(crate) async fn abandoned() {
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    // Unchecked, since the check would make stdout non-blocking for everybody who has it; nothing is written here.
    let watched = stdout.and_then(Sender::from_owned_fd_unchecked);
    match watched {
        Ok(pipe) if pipe.ready(Interest::ERROR).await.is_ok() => {}
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// One line of text, cut where a terminal shows it, and whole in a file or a pipe.
pub(crate) fn cut_for_stderr(text: &str, columns: usize) -> String {
    render::fitted(text, std::io::stderr().is_terminal().then_some(columns))
}

/// One line of text, broken into lines where a terminal shows it. In a file or a pipe it stays whole, to be searched.
pub(crate) fn for_stderr(indent: usize, text: &str) -> Cow<'_, str> {
    if std::io::stderr().is_terminal() {
        render::wrapped(indent, text).into()
    } else {
        render::one_line(text)
    }
}

/// A sentence and what follows from it: lines where a terminal shows them, and one line in a file or a pipe.
pub(crate) fn lines_for_stderr(indent: usize, lines: &[String]) -> String {
    if std::io::stderr().is_terminal() {
        render::paragraphs(indent, lines)
    } else {
        render::one_line(&render::joined(lines)).into_owned()
    }
}

/// Whether a person reads the data as it comes.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Leaves a line of data that is not at its end, where one screen shows data and remarks.
pub(crate) fn break_line() {
    if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
        remark("");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_is_one_line_for_every_reader_and_means_the_same() {
        let text = "a\u{2028}b\u{2029}c\u{85}d\u{9b}1m\u{202e}e\u{2066}f\u{7f}g\nschön 👩‍💻";
        let json = serde_json::to_string(text).unwrap();
        let escaped = escaped_json(&json);
        assert!(!escaped.contains(render::acts_on_terminals), "{escaped}");
        assert!(escaped.contains("\\u2028b\\u2029c\\u0085d"), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        assert!(matches!(escaped_json("\"schön 👩‍💻\""), Cow::Borrowed(_)));
    }
}
