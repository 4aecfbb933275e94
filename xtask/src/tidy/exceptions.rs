//! Where a house rule does not hold, and why.

use super::Rule;

pub(super) struct Exception {
    pub(super) rule: Rule,
    pub(super) path: &'static str,
    pub(super) reason: &'static str,
}

/// An entry that suppresses nothing fails the check, so this list only ever holds what is needed.
pub(super) const EXCEPTIONS: &[Exception] = &[Exception {
    rule: Rule::Sql,
    path: "xtask/src/tidy/rust.rs",
    reason: "spells the phrases that the rule looks for",
}];
