//! Small pieces of the texts that models read.

use std::borrow::Cow;

/// `1 line`, `2 lines`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 {
        ""
    } else if noun.ends_with('y') {
        return format!("{number} {}ies", noun.trim_end_matches('y'));
    } else if noun.ends_with("ch") {
        "es"
    } else {
        "s"
    };
    format!("{number} {noun}{plural}")
}

/// What is said of files that the permission rules keep from an answer.
pub(crate) fn left_out(files: u64) -> String {
    match files {
        0 => String::new(),
        files => format!("[{} left out by permission rules]\n", count(files, "file")),
    }
}

/// The text, cut after this many characters with a mark that says so.
pub(crate) fn clip(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// The first few of many numbers, and how many there are beyond them.
pub(crate) fn some_of(numbers: &[u64], shown: usize) -> String {
    let listed: Vec<_> = numbers.iter().take(shown).map(u64::to_string).collect();
    let mut text = listed.join(", ");
    if numbers.len() > shown {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_as_english() {
        let texts = [count(1, "line"), count(0, "line"), count(2, "entry"), count(3, "match")];
        assert_eq!(texts.join(", "), "1 line, 0 lines, 2 entries, 3 matches");
    }

    #[test]
    fn clipping_counts_characters_and_marks_the_cut() {
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äöü", 2), "äö…");
        assert_eq!(some_of(&[1, 2, 3], 2), "1, 2, …");
    }
}
