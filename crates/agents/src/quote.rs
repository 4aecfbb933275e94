//! Texts of people and models inside text of ours, so that they can neither end it nor look like it (G14).

use std::fmt::Write as _;

use domain::is_invisible;

/// The tag around the work-state section, without its brackets.
pub(crate) const TAG: &str = "work_state";

/// A quoted text, and whether something of it was left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) text: String,
    pub(crate) is_shortened: bool,
}

/// Bytes that quotes and an ellipsis add.
const FRAME_BYTES: usize = 2 + '…'.len_utf8();

/// The text as a JSON string on one line, in which also `<` and everything invisible is escaped.
///
/// At most `max_bytes` long: what does not fit is replaced by an ellipsis, never cut within an escape.
pub(crate) fn quoted(text: &str, max_bytes: usize) -> Quoted {
    let whole: String = text.chars().map(escaped).collect();
    if whole.len().saturating_add(2) <= max_bytes {
        return Quoted { text: format!("\"{whole}\""), is_shortened: false };
    }
    let room = max_bytes.saturating_sub(FRAME_BYTES);
    let mut kept = String::new();
    for piece in text.chars().map(escaped) {
        if kept.len() + piece.len() > room {
            break;
        }
        kept.push_str(&piece);
    }
    Quoted { text: format!("\"{kept}…\""), is_shortened: true }
}

fn escaped(c: char) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        // The two line separators are neither control nor format characters.
        '<' | '\u{2028}' | '\u{2029}' => code_units(c),
        c if is_invisible(c) => code_units(c),
        c => c.to_string(),
    }
}

fn code_units(c: char) -> String {
    let mut text = String::new();
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
    text
}

/// A step id as it is, which is how the model has to send it back. Ids hold no line break and nothing invisible; only
/// one that imitates the tag of the section gets a backslash before its `<`.
pub(crate) fn bare_id(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for (at, c) in id.char_indices() {
        if c == '<' && imitates_tag(&id[at + 1..]) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn imitates_tag(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
    rest.get(..TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(TAG))
}
