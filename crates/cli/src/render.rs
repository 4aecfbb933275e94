//! What people see: 80 columns, words beside every symbol, and no control character from data.

mod event;
mod goal;
mod next;
mod plan;
mod request;
mod session;

use std::borrow::Cow;
use std::fmt::Write as _;

use domain::{Actor, Timestamp};

pub(crate) use event::{call_subject, call_told, describe as describe_event};
pub(crate) use goal::{active_time, goal, goal_state, status_words, wait_words};
pub(crate) use next::{Hints, joined, next_lines};
pub(crate) use plan::{diff, history, plan, progress, steps};
pub(crate) use request::{asked, in_full, settled, ways_to_answer};
pub(crate) use session::{list, mode, session};

/// Columns that lines are made for: the narrowest terminal in common use.
pub(crate) const COLUMNS: usize = 80;

/// Whether a character could do something to a terminal, or to the order in which it shows the others.
pub(crate) fn acts_on_terminals(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Data on its way to a terminal, in one line: what could act there is shown as an escape.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !acts_on_terminals(c))
}

/// The same for text that keeps its lines.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t') || !acts_on_terminals(c))
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&stays) {
        return Cow::Borrowed(text);
    }
    let escape = |mut out: String, c: char| {
        match c {
            c if stays(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
        out
    };
    Cow::Owned(text.chars().fold(String::with_capacity(text.len()), escape))
}

/// Text for a line of a list: escaped, and cut at `columns` with a sign that it goes on.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = one_line(text);
    if text.chars().count() <= columns {
        return text.into_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// Text for a line of a list, cut where the reader is so narrow.
pub(crate) fn fitted(text: &str, columns: Option<usize>) -> String {
    columns.map_or_else(|| one_line(text).into_owned(), |columns| cut(text, columns))
}

/// Breaks text into lines of at most [`COLUMNS`] with everything but the first indented. Words longer than a line
/// stay whole: a path that is broken cannot be copied. So do command lines in back ticks, if they fit a line.
pub(crate) fn wrapped(indent: usize, text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let mut column = indent;
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let (word, after) = rest.split_at(word_end(rest, COLUMNS.saturating_sub(indent)));
        rest = after.trim_start_matches(' ');
        let width = word.chars().count();
        if column > indent && column + 1 + width > COLUMNS {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// Several texts, each broken into lines, with everything but the very first line indented.
pub(crate) fn paragraphs(indent: usize, texts: &[String]) -> String {
    let texts = texts.iter().map(|text| wrapped(indent, text));
    texts.collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(indent)))
}

/// Where the first word ends: at a blank that stands in no command line of at most so many columns.
fn word_end(text: &str, columns: usize) -> usize {
    let end = text.find(' ').unwrap_or(text.len());
    let Some(opening) = text[..end].find('`') else { return end };
    if text[opening + 1..end].contains('`') {
        return end;
    }
    let Some(closing) = text[end..].find('`').map(|at| end + at) else { return end };
    let whole = text[closing..].find(' ').map_or(text.len(), |at| closing + at);
    if text[..whole].chars().count() <= columns { whole } else { end }
}

/// Who did something, in a word.
pub(crate) fn actor(actor: &Actor) -> String {
    match actor {
        Actor::User { client } => format!("you ({client})"),
        Actor::Agent { turn, .. } => format!("agent (turn {turn})"),
        Actor::Runtime { .. } => "runtime".to_owned(),
    }
}

/// A moment in the local time zone, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    let format = |at: jiff::Timestamp| {
        at.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%F %T").to_string()
    };
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| format!("{} ms", at.0), format)
}

/// A whole number with separators: 2,000,000.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// How long until a moment, roughly: `4 min`, `12 s`.
pub(crate) fn duration_ms(ms: i64) -> String {
    let seconds = ms.max(0).unsigned_abs().div_ceil(1_000);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=86_399 if !seconds.is_multiple_of(3_600) => {
            format!("{} h {} min", seconds / 3_600, seconds / 60 % 60)
        }
        7_200.. => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_data_reaches_a_terminal_as_a_command() {
        assert_eq!(one_line("red \u{1b}[31m\u{7}\r\n\tend"), "red \\u{1b}[31m\\u{7}\\r\\n\\tend");
        assert_eq!(one_line("abc\u{202e}cba\u{9b}1m"), "abc\\u{202e}cba\\u{9b}1m");
        assert_eq!(lines("a\n\tb\u{1b}c"), "a\n\tb\\u{1b}c");
        assert!(matches!(one_line("schön 👩‍💻 ok"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_text_is_cut_or_wrapped_at_80_columns() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        let text = "word ".repeat(30);
        let wrapped = format!("    {}", wrapped(4, &text));
        assert!(wrapped.lines().count() > 1);
        assert!(wrapped.lines().all(|line| line.chars().count() <= COLUMNS && line.starts_with("    w")));
    }

    #[test]
    fn a_command_line_is_not_broken_unless_it_is_longer_than_a_line() {
        let text = format!("{} then `zuno goal resume` goes on, and `x", "word ".repeat(13).trim_end());
        let lines: Vec<_> = wrapped(0, &text).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1], "`zuno goal resume` goes on, and `x");
        let long = format!("a `{}` b", "word ".repeat(20));
        assert!(wrapped(0, &long).lines().all(|line| line.chars().count() <= COLUMNS), "{long}");
        assert_eq!(wrapped(0, "  two   blanks  "), "two blanks");
    }

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(2_000_000), "2,000,000");
        assert_eq!(count(1, "step"), "1 step");
        assert_eq!(duration_ms(-5), "0 s");
        assert_eq!(duration_ms(1_500), "2 s");
        assert_eq!(duration_ms(300_000), "5 min");
        assert_eq!(duration_ms(9_000_000), "2 h 30 min");
        assert_eq!(duration_ms(28_800_000), "8 h");
        assert_eq!(duration_ms(100_000_000), "27 h");
    }
}
