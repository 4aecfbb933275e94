//! How paths, times and people are written, and how long answers are cut into pages.

use std::fmt::Write as _;

use gix::bstr::{BStr, ByteSlice as _};

use crate::words::clip;

/// Lines of one answer unless asked otherwise: several screens.
pub(super) const DEFAULT_LINES: u64 = 500;

/// Bytes of one answer, about 8,000 tokens. What is longer the turn loop would cut in the middle.
const PAGE_BYTES: usize = 30 * 1024;

/// Characters shown of one line; longer ones are generated, and their start tells what they are.
const LINE_CHARS: usize = 1000;

/// Bytes that are written at all before they are cut into pages. Beyond, a narrower call is the way.
pub(super) const MAX_RENDERED_BYTES: usize = 4 * 1024 * 1024;

/// A path as git writes it: plain, or between quotes with escapes when it holds anything odd.
pub(super) fn shown(path: &BStr) -> String {
    let is_odd = |character: char| character.is_control() || matches!(character, '"' | '\\');
    if let Ok(plain) = path.to_str()
        && !plain.contains(is_odd)
    {
        return plain.to_owned();
    }
    let mut text = String::from("\"");
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                odd if odd.is_control() => {
                    let mut bytes = [0; 4];
                    escape(&mut text, odd.encode_utf8(&mut bytes).as_bytes());
                }
                '"' | '\\' => {
                    text.push('\\');
                    text.push(character);
                }
                plain => text.push(plain),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text.push('"');
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\{byte:03o}");
    }
}

/// Text of a repository as text that JSON and databases can hold.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// When something was signed, as it stood on the signer's clock.
pub(super) fn date(
    signature: &gix::actor::SignatureRef<'_>,
    format: gix::date::time::CustomFormat,
) -> String {
    signature.time().map_or_else(|_| "an unreadable date".into(), |time| time.format_or_unix(format))
}

/// A part of a long answer.
#[derive(Clone, Copy)]
pub(super) struct Page {
    /// Number of the first line, from 1.
    pub(super) offset: u64,
    /// Lines at most.
    pub(super) limit: u64,
}

impl Page {
    pub(super) fn new(offset: Option<u64>, limit: Option<u64>) -> Self {
        Self { offset: offset.unwrap_or(1).max(1), limit: limit.unwrap_or(DEFAULT_LINES).max(1) }
    }

    /// Cuts the page out of a text, and says how to go on.
    pub(super) fn of(self, text: &str) -> String {
        let Cut { mut page, last, total } = self.cut(text);
        if last == 0 {
            return format!("[offset {} is past the end: there are {total} lines]", self.offset);
        }
        let _ = if last < total {
            write!(
                page,
                "[lines {} to {last} of {total}; continue with offset {}, or narrow by path]",
                self.offset,
                last + 1
            )
        } else if self.offset > 1 {
            write!(page, "[lines {} to {last} of {total}; end]", self.offset)
        } else {
            Ok(())
        };
        page.truncate(page.trim_end_matches('\n').len());
        page
    }

    /// Cuts the page out of a text.
    pub(super) fn cut(self, text: &str) -> Cut {
        let mut cut = Cut { page: String::new(), last: 0, total: 0 };
        let mut is_open = true;
        for (number, line) in (1..).zip(text.lines()) {
            cut.total = number;
            if number < self.offset || number - self.offset >= self.limit {
                continue;
            }
            let line = clip(line, LINE_CHARS);
            is_open &= cut.last == 0 || cut.page.len() + line.len() < PAGE_BYTES;
            if is_open {
                let _ = writeln!(cut.page, "{line}");
                cut.last = number;
            }
        }
        cut
    }
}

/// A page with the numbers of its last line and of the text's.
pub(super) struct Cut {
    pub(super) page: String,
    pub(super) last: u64,
    pub(super) total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_are_quoted_as_git_does() {
        let texts =
            [shown("a b/ü.rs".into()), shown("a\nb\t\"c\"\\".into()), shown(b"x\xff\x1b[0m".as_bstr())];
        assert_eq!(texts, ["a b/ü.rs", r#""a\nb\t\"c\"\\""#, r#""x\377\033[0m""#]);
    }

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        let page = |offset, limit| Page::new(Some(offset), Some(limit)).of(text);
        assert_eq!(page(1, 3), "1\n2\n3\n[lines 1 to 3 of 10; continue with offset 4, or narrow by path]");
        assert_eq!(page(9, 3), "9\n10\n[lines 9 to 10 of 10; end]");
        assert_eq!(page(1, 10), text.trim_end());
        assert_eq!(page(11, 1), "[offset 11 is past the end: there are 10 lines]");
        let long = format!("{}\n", "x".repeat(900)).repeat(100);
        let first = Page::new(None, None).of(&long);
        assert!(first.len() < PAGE_BYTES + 200 && first.ends_with("or narrow by path]"));
    }
}
