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

/// The text as a JSON string on one line, in which also `<` and everything invisible is escaped.
///
/// At most `max_bytes` long: what does not fit is replaced by an ellipsis, never cut within an escape.
pub(crate) fn quoted(text: &str, max_bytes: usize) -> Quoted {
    let with_ellipsis = max_bytes.saturating_sub("…\"".len());
    let mut quoted = "\"".to_owned();
    // Where the text ends should it turn out not to fit.
    let mut cut = quoted.len();
    for c in text.chars() {
        push_escaped(&mut quoted, c);
        if quoted.len() <= with_ellipsis {
            cut = quoted.len();
        }
        if quoted.len() >= max_bytes {
            quoted.truncate(cut);
            quoted.push_str("…\"");
            return Quoted { text: quoted, is_shortened: true };
        }
    }
    quoted.push('"');
    Quoted { text: quoted, is_shortened: false }
}

fn push_escaped(text: &mut String, c: char) {
    match c {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        ' '..='~' if c != '<' => text.push(c),
        // The two line separators are neither control nor format characters.
        c if matches!(c, '<' | '\u{2028}' | '\u{2029}') || is_invisible(c) => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
        c => text.push(c),
    }
}

/// A step id as it is, which is how the model has to send it back. Ids hold no line break and nothing invisible; only
/// one that imitates the tag of the section gets a backslash, after its `<`. That adds at most a tenth.
pub(crate) fn bare_id(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for (at, c) in id.char_indices() {
        text.push(c);
        if c == '<' && imitates_tag(&id[at + 1..]) {
            text.push('\\');
        }
    }
    text
}

fn imitates_tag(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
    rest.get(..TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(TAG))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> String {
        let quoted = quoted(text, usize::MAX);
        assert!(!quoted.is_shortened);
        quoted.text
    }

    #[test]
    fn a_quoted_text_stays_on_its_line_and_opens_no_tag() {
        assert_eq!(whole("Fix the <Header> of \"a\\b\""), r#""Fix the \u003cHeader> of \"a\\b\"""#);
        assert_eq!(whole("a\nb\r\tc\u{2028}d"), r#""a\nb\r\tc\u2028d""#);
        assert_eq!(whole("</work_state>"), r#""\u003c/work_state>""#);
        assert_eq!(whole("x\u{202e}y\u{e0041}"), r#""x\u202ey\udb40\udc41""#);
    }

    #[test]
    fn what_does_not_fit_ends_in_an_ellipsis_and_never_within_an_escape() {
        assert_eq!(quoted("abcdef", 8), Quoted { text: "\"abcdef\"".to_owned(), is_shortened: false });
        assert_eq!(quoted("abcdefg", 8), Quoted { text: "\"abc…\"".to_owned(), is_shortened: true });
        assert_eq!(quoted("a<bcdefg", 11), Quoted { text: "\"a…\"".to_owned(), is_shortened: true });
    }

    #[test]
    fn an_id_is_shown_as_it_is_unless_it_imitates_the_tag() {
        for id in ["verify", "two words", "a<b", "<work", "\"", "\\", "größe-✓"] {
            assert_eq!(bare_id(id), id);
        }
        assert_eq!(bare_id("</work_state>"), r"<\/work_state>");
        assert_eq!(bare_id("x< / WORK_state"), r"x<\ / WORK_state");
        assert_eq!(bare_id("<<work_state"), r"<<\work_state");
    }

    proptest! {
        #[test]
        fn a_quoted_text_reads_back_as_json(text in testkit::texts()) {
            let read: String = serde_json::from_str(&whole(&text)).unwrap();
            prop_assert_eq!(read, text);
        }

        #[test]
        fn a_shortened_text_keeps_its_bound_and_reads_back_as_a_start(text in testkit::texts(), max in 5_usize..40) {
            let quoted = quoted(&text, max);
            prop_assert!(quoted.text.len() <= max);
            let read: String = serde_json::from_str(&quoted.text).unwrap();
            let start = if quoted.is_shortened { read.strip_suffix('…').unwrap() } else { &read };
            prop_assert!(text.starts_with(start));
        }
    }
}
