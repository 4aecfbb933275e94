//! What rules match texts and paths with: `*` for any text, and globs.

use globset::{GlobBuilder, GlobMatcher};

use super::InvalidRule;

/// Bytes of one pattern: nobody oversees a longer one, and each call is compared with each pattern.
const PATTERN_BYTES: usize = 1_000;

/// Stands in a text for a part that may be any text, also none. No text of a command can hold it.
pub(super) const ANY: &str = "\0";

/// Characters of a text with such parts that are compared one by one; what follows may be anything. Nobody reads a
/// longer command, and each is compared with each pattern.
const SHAPE_CHARS: usize = 4_000;

/// A text in which `*` stands for any text, also none. Everything else stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextPattern {
    /// What stands between the asterisks; at least one.
    pieces: Vec<String>,
}

impl TextPattern {
    /// Runs of blanks are one space, as they are in the commands that are compared.
    pub(super) fn parse(key: &'static str, text: &str) -> Result<Self, InvalidRule> {
        check_length(key, text)?;
        let text = one_space(text);
        if text.is_empty() {
            return Err(InvalidRule::Empty { key });
        }
        Ok(Self { pieces: text.split('*').map(str::to_owned).collect() })
    }

    /// The only text that matches, if there is no more than one.
    pub(super) fn exactly(&self) -> Option<&str> {
        if let [only] = self.pieces.as_slice() { Some(only) } else { None }
    }

    /// Whether every text matches.
    pub(super) fn is_any(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(String::is_empty)
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, rest @ ..] = self.pieces.as_slice() else { return false };
        let [middle @ .., last] = rest else { return text == first };
        let inner = text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()));
        inner.is_some_and(|inner| after(inner, middle).is_some())
    }

    /// Whether the whole text matches if each [`ANY`] in it is the right text.
    pub(super) fn could_match(&self, text: &str) -> bool {
        // The pattern as characters and gaps, and the places in it that what was read of the text can lead to.
        let mut pattern: Vec<Option<char>> = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            pattern.extend((at > 0).then_some(None));
            pattern.extend(piece.chars().map(Some));
        }
        let over_gaps = |mut places: Vec<bool>| {
            for at in 0..pattern.len() {
                places[at + 1] |= places[at] && pattern[at].is_none();
            }
            places
        };
        let mut places = vec![false; pattern.len() + 1];
        places[0] = true;
        places = over_gaps(places);
        let is_cut = text.chars().nth(SHAPE_CHARS).is_some();
        for c in text.chars().take(SHAPE_CHARS).chain(is_cut.then_some('\0')) {
            let mut next = vec![false; places.len()];
            for at in (0..places.len()).filter(|at| places[*at]) {
                match pattern.get(at) {
                    _ if c == '\0' => next[at..].fill(true),
                    Some(None) => next[at] = true,
                    Some(Some(wanted)) if *wanted == c => next[at + 1] = true,
                    Some(Some(_)) | None => {}
                }
            }
            places = over_gaps(next);
        }
        places.last().copied().unwrap_or_default()
    }

    /// Whether some part of the text matches that begins and ends between words. Quotes and backslashes count on
    /// neither side: the text has to be [`flat`].
    pub(super) fn occurs_in(&self, text: &str) -> bool {
        let pieces: Vec<_> = self.pieces.iter().map(|piece| flat(piece)).collect();
        let [first, rest @ ..] = pieces.as_slice() else { return false };
        let starts = |at: usize| !(ends_in_word(&text[..at]) && starts_in_word(first));
        let ends = |at: usize, piece: &str| !(ends_in_word(piece) && starts_in_word(&text[at..]));
        let [middle @ .., last] = rest else {
            return places(text, first).any(|at| starts(at) && ends(at + first.len(), first));
        };
        // The earliest start leaves the most text for the other pieces.
        let Some(start) = places(text, first).find(|at| starts(*at)) else { return false };
        let Some(rest) = after(&text[start + first.len()..], middle) else { return false };
        let offset = text.len() - rest.len();
        places(rest, last).any(|at| ends(offset + at + last.len(), last))
    }
}

/// What follows the pieces, found one after the other.
fn after<'t>(text: &'t str, pieces: &[String]) -> Option<&'t str> {
    pieces.iter().try_fold(text, |rest, piece| Some(&rest[rest.find(piece.as_str())? + piece.len()..]))
}

fn places<'t>(text: &'t str, piece: &'t str) -> impl Iterator<Item = usize> {
    text.match_indices(piece).map(|(at, _)| at)
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(is_in_word)
}

fn starts_in_word(text: &str) -> bool {
    text.starts_with(is_in_word)
}

/// A shell text without what joins and hides letters: quotes, backslashes, line continuations, runs of blanks.
pub(super) fn flat(text: &str) -> String {
    let joined = text.replace("\\\n", "");
    let mut flat = String::with_capacity(joined.len());
    for c in joined.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')) {
        let c = if c.is_whitespace() { ' ' } else { c };
        if !(c == ' ' && flat.ends_with(' ')) {
            flat.push(c);
        }
    }
    flat
}

fn one_space(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn check_length(key: &'static str, text: &str) -> Result<(), InvalidRule> {
    if text.len() > PATTERN_BYTES {
        return Err(InvalidRule::TooLong { key, limit: PATTERN_BYTES });
    }
    Ok(())
}

/// A glob over paths: `*` stays within a name, `**` does not.
#[derive(Debug, Clone)]
pub(super) struct PathGlob(GlobMatcher);

impl PartialEq for PathGlob {
    fn eq(&self, other: &Self) -> bool {
        self.0.glob() == other.0.glob()
    }
}

impl Eq for PathGlob {}

impl PathGlob {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidRule> {
        check_length("path", text)?;
        let glob = text.strip_prefix("./").unwrap_or(text);
        if glob.is_empty() {
            return Err(InvalidRule::Empty { key: "path" });
        }
        // Neither would ever match, and a denial that never matches is worse than none.
        if glob.starts_with('~') {
            return Err(InvalidRule::Path { problem: "`~` is not expanded here; write the absolute path" });
        }
        if glob.split('/').any(|part| part == "..") {
            return Err(InvalidRule::Path {
                problem: "`..` leads nowhere here; write the path from the workspace root, or an absolute one",
            });
        }
        if glob.ends_with('/') {
            return Err(InvalidRule::Path {
                problem: "no path ends in `/`; `folder/**` is what a folder holds",
            });
        }
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        let built = built.map_err(|error| InvalidRule::Glob { problem: error.kind().to_string() })?;
        Ok(Self(built.compile_matcher()))
    }

    /// Whether it is about absolute paths.
    pub(super) fn is_absolute(&self) -> bool {
        self.0.glob().glob().starts_with('/')
    }

    /// Whether exactly this path matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// Whether this path, what it holds as a folder, or a folder around it matches.
    pub(super) fn covers(&self, path: &str) -> bool {
        let mut folders =
            path.match_indices('/').map(|(at, _)| &path[..at]).filter(|folder| !folder.is_empty());
        self.matches(path) || self.matches(&format!("{path}/")) || folders.any(|folder| self.matches(folder))
    }
}
