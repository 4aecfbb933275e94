//! Text as people, models and attackers write it.

use domain::{Objective, Remark};
use proptest::prelude::*;

/// Characters that break naive handling: white space of every kind, invisible ones, combining marks, right-to-left
/// marks, characters of two UTF-16 units, and those that mean something to shells, JSON, Markdown and XML.
pub const ODD_CHARACTERS: &[char] = &[
    ' ',
    '\t',
    '\n',
    '\r',
    '\0',
    '\u{7f}',
    '\u{85}',
    '\u{a0}',
    '\u{ad}',
    '\u{300}',
    '\u{34f}',
    '\u{115f}',
    '\u{1680}',
    '\u{180e}',
    '\u{200b}',
    '\u{200d}',
    '\u{202e}',
    '\u{2028}',
    '\u{2029}',
    '\u{2060}',
    '\u{3000}',
    '\u{3164}',
    '\u{e000}',
    '\u{fe0f}',
    '\u{feff}',
    '\u{fffd}',
    '\u{1f468}',
    '\u{e0001}',
    '\u{10ffff}',
    'ß',
    'İ',
    'é',
    '"',
    '\\',
    '`',
    '<',
    '&',
    '$',
    '\'',
    '/',
];

/// Short text, about half of it odd characters; often blank.
pub fn texts() -> impl Strategy<Value = String> {
    let odd = proptest::sample::select(ODD_CHARACTERS);
    let character = prop_oneof![3 => odd, 2 => proptest::char::range('a', 'z'), 1 => any::<char>()];
    proptest::collection::vec(character, 0..12).prop_map(String::from_iter)
}

/// An objective from text that is known to be one.
///
/// # Panics
///
/// When the text is blank or too long.
pub fn objective(text: &str) -> Objective {
    Objective::parse(text).expect("a test's objective is valid")
}

/// A remark from text that is known to be one.
///
/// # Panics
///
/// When the text is blank or too long.
pub fn remark(text: &str) -> Remark {
    Remark::parse(text).expect("a test's remark is valid")
}
