//! Tokens a model request spent.

use serde::{Deserialize, Serialize};

/// Tokens of one request or a sum of them. Budgets count uncached input and output (G4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenUsage {
    /// Input tokens the provider had to read.
    pub input: u64,
    /// Input tokens served from the provider's prompt cache; shown, not charged.
    pub cached_input: u64,
    /// Output tokens.
    pub output: u64,
    /// Whether any part was estimated because the provider did not report it (G5).
    pub estimated: bool,
}

impl TokenUsage {
    /// Tokens that count against a budget (G4).
    pub const fn charged(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// The sum of both, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached_input: self.cached_input.saturating_add(other.cached_input),
            output: self.output.saturating_add(other.output),
            estimated: self.estimated || other.estimated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g4_sums_saturate_and_remember_that_a_part_was_estimated() {
        let most = TokenUsage { input: u64::MAX, cached_input: u64::MAX, output: 1, estimated: false };
        let sum = most.plus(TokenUsage { input: 1, cached_input: 1, output: u64::MAX, estimated: true });
        let all = u64::MAX;
        assert_eq!(sum, TokenUsage { input: all, cached_input: all, output: all, estimated: true });
        assert_eq!(sum.charged(), u64::MAX);
    }

    #[test]
    fn g4_cached_input_is_shown_and_not_charged() {
        let usage = TokenUsage { input: 3, cached_input: 1_000, output: 4, estimated: false };
        assert_eq!(usage.charged(), 7);
    }
}
