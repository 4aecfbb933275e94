//! What counts as blank, and texts with a bound.

use std::fmt;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, WhiteSpace};
use icu_properties::{CodePointMapData, CodePointSetData};
use serde::{Deserialize, Serialize};

fn is_white_space(c: char) -> bool {
    CodePointSetData::new::<WhiteSpace>().contains(c)
}

/// Whether a character shows nothing: default-ignorable, format (Cf) or control (Cc).
pub fn is_invisible(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
        || matches!(
            CodePointMapData::<GeneralCategory>::new().get(c),
            GeneralCategory::Format | GeneralCategory::Control
        )
}

/// Whether nothing is left after removing white space and invisible characters (P1, P2).
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| is_white_space(c) || is_invisible(c))
}

/// The text without Unicode white space at its ends. Invisible characters stay (P2).
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_white_space)
}

/// Whether a character may stand inside a step id: visible, and of the white space only category Zs (P7).
pub(crate) fn fits_step_id(c: char) -> bool {
    let is_space = CodePointMapData::<GeneralCategory>::new().get(c) == GeneralCategory::SpaceSeparator;
    !is_invisible(c) && (is_space || !is_white_space(c))
}

/// The text as a message quotes it: what would be invisible or break the line is written as `\u{200b}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if fits_step_id(c) { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    shown
}

/// Why a text was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TextFault {
    /// Nothing visible in it.
    #[error("is blank")]
    Blank,
    /// More characters than the limit.
    #[error("has {actual} characters, the limit is {limit}")]
    TooLong {
        /// Characters (Unicode scalar values) given.
        actual: usize,
        /// Characters allowed.
        limit: usize,
    },
}

/// A text that is not blank, trimmed of white space, of at most `MAX` characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// Trims and checks a text.
    pub fn parse(text: &str) -> Result<Self, TextFault> {
        if is_blank(text) {
            return Err(TextFault::Blank);
        }
        let text = trim(text);
        let actual = text.chars().count();
        if actual > MAX {
            return Err(TextFault::TooLong { actual, limit: MAX });
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<String> for Text<MAX> {
    type Error = TextFault;

    fn try_from(text: String) -> Result<Self, TextFault> {
        Self::parse(&text)
    }
}

impl<const MAX: usize> From<Text<MAX>> for String {
    fn from(text: Text<MAX>) -> Self {
        text.0
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MAX: usize> schemars::JsonSchema for Text<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Text{MAX}").into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_invisible_characters_are_blank_but_are_not_trimmed() {
        for blank in ["", " ", "\t\n", "\u{200b}", "\u{3000}\u{feff}", "\u{3164}", "\u{0}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        assert!(!is_blank("\u{200b}x"));
        assert_eq!(trim("\u{3000} x\u{200b} \n"), "x\u{200b}");
    }

    #[test]
    fn p7_a_limit_counts_characters_and_never_cuts() {
        assert!(Text::<3>::parse(" äöü ").is_ok());
        assert_eq!(Text::<3>::parse("äöüß"), Err(TextFault::TooLong { actual: 4, limit: 3 }));
        assert_eq!(Text::<3>::parse("\u{2029}"), Err(TextFault::Blank));
    }
}
