//! Splits Rust source into code, comments and string literals.
//!
//! A check that looks for `todo!` must not trip over a comment or a message that merely mentions it. A full parser
//! would not help: much of what the checks look for sits inside macro bodies, which a parser leaves as tokens.

/// A comment or the content of a string literal, and the line (from 1) it starts on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) line: usize,
    /// Byte offset of the first byte of `text` in the file.
    pub(crate) offset: usize,
    pub(crate) text: String,
}

/// One Rust file. `code` has the length and line breaks of the file; comments and string contents are blanks in it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) comments: Vec<Piece>,
    pub(crate) strings: Vec<Piece>,
}

/// An attribute such as `test` or `expect(clippy::x, reason = "")`, white space squeezed out of its ends.
#[derive(Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) line: usize,
    pub(crate) content: &'a str,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let mut scan =
            Scan { text, bytes: text.as_bytes(), at: 0, blanked: text.as_bytes().to_vec(), line: 1 };
        let (mut comments, mut strings) = (Vec::new(), Vec::new());
        while let Some(&byte) = scan.bytes.get(scan.at) {
            match byte {
                b'/' if scan.looks_at("//") => comments.push(scan.take(scan.line_comment_end(), 0)),
                b'/' if scan.looks_at("/*") => comments.push(scan.take(scan.block_comment_end(), 0)),
                b'"' => {
                    scan.at += 1;
                    strings.push(scan.take(scan.string_end(), 1));
                }
                b'r' => match scan.raw_string_hashes() {
                    Some(hashes) => {
                        scan.at += hashes + 2;
                        strings.push(scan.take(scan.raw_string_end(hashes), hashes + 1));
                    }
                    None => scan.at += 1,
                },
                b'\'' => match scan.char_literal_end() {
                    Some(end) => {
                        scan.at += 1;
                        scan.take(end, 1);
                    }
                    None => scan.at += 1,
                },
                b'\n' => {
                    scan.line += 1;
                    scan.at += 1;
                }
                _ => scan.at += 1,
            }
        }
        // Only whole comments and literals are blanked, so the bytes stay UTF-8.
        let code = String::from_utf8_lossy(&scan.blanked).into_owned();
        Self { code, comments, strings }
    }

    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }

    /// Offsets of `word` in code where it is not part of a longer identifier.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
            let (before, after) = (&self.code[..*offset], &self.code[offset + word.len()..]);
            !before.ends_with(in_identifier) && !after.starts_with(in_identifier)
        })
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = Attribute<'_>> {
        self.code.match_indices('#').filter_map(|(offset, _)| {
            let open = attribute_open(&self.code, offset)?;
            let close = closing_bracket(&self.code, open)?;
            Some(Attribute { line: self.line_of(offset), content: self.code[open + 1..close].trim() })
        })
    }

    /// Names of the functions that a test runner runs, with their lines. An ignored test proves nothing and is left out.
    pub(crate) fn tests(&self) -> Vec<(usize, &str)> {
        let mut tests = Vec::new();
        let (mut is_test, mut is_ignored) = (false, false);
        let mut at = 0;
        while let Some(step) = self.code[at..].find(['#', '{', '}', ';', 'f']) {
            let here = at + step;
            at = here + 1;
            match self.code.as_bytes()[here] {
                b'#' => {
                    if let Some(open) = attribute_open(&self.code, here)
                        && let Some(close) = closing_bracket(&self.code, open)
                    {
                        let path = attribute_path(self.code[open + 1..close].trim());
                        is_test |= path == "test" || path.ends_with("::test");
                        is_ignored |= path == "ignore";
                        at = close + 1;
                    }
                }
                b'f' => {
                    let is_keyword = !self.code[..here].ends_with(in_identifier)
                        && self.code[here..]
                            .strip_prefix("fn")
                            .is_some_and(|rest| rest.starts_with(char::is_whitespace));
                    if is_keyword {
                        let rest = self.code[here + 2..].trim_start();
                        let name = &rest[..rest.find(|c| !in_identifier(c)).unwrap_or(rest.len())];
                        if is_test && !is_ignored && !name.is_empty() {
                            tests.push((self.line_of(here), name));
                        }
                        (is_test, is_ignored) = (false, false);
                    }
                }
                _ => (is_test, is_ignored) = (false, false),
            }
        }
        tests
    }

    /// The modules a file declares with `mod name;`, each with the path its `#[path]` attribute gives, if any.
    pub(crate) fn declared_modules(&self) -> Vec<(&str, Option<&str>)> {
        self.words("mod")
            .filter_map(|offset| {
                let rest = self.code[offset + 3..].trim_start();
                let name = &rest[..rest.find(|c| !in_identifier(c))?];
                let ends_here = rest[name.len()..].trim_start().starts_with(';');
                (ends_here && !name.is_empty()).then(|| (name, self.path_attribute_before(offset)))
            })
            .collect()
    }

    fn path_attribute_before(&self, offset: usize) -> Option<&str> {
        let item = self.code[..offset].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        let attribute = item + self.code[item..offset].find("#[path")?;
        let path = self.strings.iter().find(|piece| (attribute..offset).contains(&piece.offset))?;
        Some(&path.text)
    }
}

pub(crate) fn in_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `expect(clippy::x)` → `expect`, `tokio::test(flavor = "")` → `tokio::test`, `path = ""` → `path`.
pub(crate) fn attribute_path(content: &str) -> &str {
    content[..content.find(['(', '=']).unwrap_or(content.len())].trim_end()
}

/// The offset of the bracket that opens the attribute whose `#` stands at `offset`.
fn attribute_open(code: &str, offset: usize) -> Option<usize> {
    let open = if code[offset..].starts_with("#![") { offset + 2 } else { offset + 1 };
    code[open..].starts_with('[').then_some(open)
}

fn closing_bracket(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (step, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return Some(open + step),
            b']' => depth -= 1,
            _ => {}
        }
    }
    None
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    blanked: Vec<u8>,
    line: usize,
}

impl Scan<'_> {
    fn looks_at(&self, wanted: &str) -> bool {
        self.text[self.at..].starts_with(wanted)
    }

    /// Takes everything up to `end` as one piece, blanks it in the code and steps over `closing` more bytes.
    fn take(&mut self, end: usize, closing: usize) -> Piece {
        let piece = Piece { line: self.line, offset: self.at, text: self.text[self.at..end].to_owned() };
        for byte in &mut self.blanked[self.at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        self.line += piece.text.matches('\n').count();
        self.at = (end + closing).min(self.bytes.len());
        piece
    }

    fn line_comment_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.bytes.len(), |step| self.at + step)
    }

    fn block_comment_end(&self) -> usize {
        let (mut depth, mut at) = (0_usize, self.at);
        while at < self.bytes.len() {
            if self.bytes[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else if self.bytes[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        self.bytes.len()
    }

    fn string_end(&self) -> usize {
        let mut at = self.at;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 2,
                b'"' => return at,
                _ => at += 1,
            }
        }
        self.bytes.len()
    }

    /// How many hashes open the raw string whose `r` is here; nothing when this `r` is part of a name.
    fn raw_string_hashes(&self) -> Option<usize> {
        let before = &self.text[..self.at];
        let prefix = before.strip_suffix(['b', 'c']).unwrap_or(before);
        if prefix.ends_with(in_identifier) {
            return None;
        }
        let hashes = self.bytes[self.at + 1..].iter().take_while(|byte| **byte == b'#').count();
        (self.bytes.get(self.at + 1 + hashes) == Some(&b'"')).then_some(hashes)
    }

    fn raw_string_end(&self, hashes: usize) -> usize {
        let close = format!("\"{}", "#".repeat(hashes));
        self.text[self.at..].find(&close).map_or(self.bytes.len(), |step| self.at + step)
    }

    /// The closing quote of a character literal; nothing when the quote here opens a lifetime or a label.
    fn char_literal_end(&self) -> Option<usize> {
        let rest = &self.text[self.at + 1..];
        let mut chars = rest.char_indices();
        let (_, first) = chars.next()?;
        let (second_at, _) = chars.next()?;
        if first == '\\' {
            // The escaped character itself may be a quote, so the search starts behind it.
            let after = chars.next()?.0;
            return Some(self.at + 1 + after + rest[after..].find('\'')?);
        }
        rest[second_at..].starts_with('\'').then_some(self.at + 1 + second_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::parse(text).code
    }

    #[test]
    fn comments_and_literals_are_blank_in_code() {
        assert_eq!(code("a // todo!\nb"), "a         \nb");
        assert_eq!(code("a /* x /* y */ z */ b"), "a                   b");
        assert_eq!(code(r#"f("to\"do", 1)"#), r#"f("      ", 1)"#);
        assert_eq!(code(r##"r#"a "q" b"# + r"x""##), r##"r#"       "# + r" ""##);
        assert_eq!(code(r"'\'' 'é' '\u{1F600}' &'a str"), r"'  ' '  ' '         ' &'a str");
        assert_eq!(code("for r in b {}"), "for r in b {}");
    }

    #[test]
    fn unterminated_pieces_end_with_the_file() {
        for text in ["\"abc", "/* abc", "r#\"abc\"", "'", "'\\", "\"\\"] {
            assert_eq!(code(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn pieces_know_their_lines() {
        let source = Source::parse("\n\"a\nb\"\n// c\n\"d\"");
        assert_eq!(source.strings.iter().map(|piece| piece.line).collect::<Vec<_>>(), [2, 5]);
        assert_eq!(source.comments[0].line, 4);
    }

    #[test]
    fn tests_are_found_in_plain_async_and_macro_form() {
        let source = Source::parse(
            r#"
            #[test]
            #[should_panic(expected = "fn x() [")]
            fn p1_plain() {}
            /// Documented.
            #[tokio::test(flavor = "multi_thread")]
            async fn p2_async() {}
            proptest! {
                #![proptest_config(Config::default())]
                #[test]
                fn p3_random(x in 0..3) { helper(x); }
            }
            #[test]
            #[ignore = "slow"]
            fn p4_ignored() {}
            fn helper(_: u8) {}
            // #[test] fn p5_commented() {}
            #[cfg(test)]
            mod tests { fn p6_helper() {} }
            macro_rules! m { ($n:ident) => { #[test] fn $n() {} } }
            "#,
        );
        let names: Vec<_> = source.tests().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["p1_plain", "p2_async", "p3_random"]);
    }

    #[test]
    fn declared_modules_carry_their_path_attribute() {
        let source =
            Source::parse("mod a;\n#[path = \"x/y.rs\"]\npub(crate) mod b;\nmod inline { }\n// mod c;");
        assert_eq!(source.declared_modules(), [("a", None), ("b", Some("x/y.rs"))]);
    }
}
