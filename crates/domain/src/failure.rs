//! What can go wrong with a model request, typed where it happens (T9).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::usage::TokenUsage;

/// The kind of a failure. Text is never parsed to find it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The provider asked to slow down (HTTP 429).
    RateLimited,
    /// The provider failed (HTTP 5xx).
    ServerError,
    /// No answer: connection refused, reset, timed out.
    Transport,
    /// The answer stopped before its end.
    StreamIncomplete,
    /// A complete answer with neither text nor calls.
    EmptyResponse,
    /// The store stayed busy past its patience.
    StoreBusy,
    /// The request exceeds the model's context.
    ContextLimit,
    /// The key is missing, wrong or without access (HTTP 401, 403).
    Authentication,
    /// The account has nothing left to spend (HTTP 402, or the provider's own code).
    QuotaExhausted,
    /// An answer that is not the protocol.
    ProviderProtocol,
    /// The provider declined to answer.
    Refused,
    /// The request uses what this model or adapter cannot do.
    Unsupported,
    /// No such model at this provider (HTTP 404).
    ModelUnavailable,
    /// The request is too large even without history.
    PromptTooLarge,
    /// What was read from the store contradicts itself.
    CorruptState,
    /// The turn reached its bound of model requests (T12).
    Stuck,
    /// The session names an agent that does not exist.
    NoSuchAgent,
}

/// What follows from a failure once the attempts in place are used up (T9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// Worth trying again later.
    Retry,
    /// Worth trying again with a shorter history.
    Compact,
    /// Needs the person: pause.
    Pause,
    /// Will not pass by waiting: block.
    Block,
    /// Ends the turn and nothing else.
    End,
}

impl FailureKind {
    /// Every kind, in the order of the table of T9.
    pub const ALL: [Self; 17] = [
        Self::RateLimited,
        Self::ServerError,
        Self::Transport,
        Self::StreamIncomplete,
        Self::EmptyResponse,
        Self::StoreBusy,
        Self::ContextLimit,
        Self::Authentication,
        Self::QuotaExhausted,
        Self::ProviderProtocol,
        Self::Refused,
        Self::Unsupported,
        Self::ModelUnavailable,
        Self::PromptTooLarge,
        Self::CorruptState,
        Self::Stuck,
        Self::NoSuchAgent,
    ];

    /// The row of T9 this kind stands in.
    pub const fn class(self) -> FailureClass {
        match self {
            Self::RateLimited
            | Self::ServerError
            | Self::Transport
            | Self::StreamIncomplete
            | Self::EmptyResponse
            | Self::StoreBusy => FailureClass::Retry,
            Self::ContextLimit => FailureClass::Compact,
            Self::Authentication | Self::QuotaExhausted => FailureClass::Pause,
            Self::ProviderProtocol
            | Self::Refused
            | Self::Unsupported
            | Self::ModelUnavailable
            | Self::PromptTooLarge
            | Self::CorruptState
            | Self::NoSuchAgent => FailureClass::Block,
            Self::Stuck => FailureClass::End,
        }
    }

    /// The name used in events and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::ServerError => "server_error",
            Self::Transport => "transport",
            Self::StreamIncomplete => "stream_incomplete",
            Self::EmptyResponse => "empty_response",
            Self::StoreBusy => "store_busy",
            Self::ContextLimit => "context_limit",
            Self::Authentication => "authentication",
            Self::QuotaExhausted => "quota_exhausted",
            Self::ProviderProtocol => "provider_protocol",
            Self::Refused => "refused",
            Self::Unsupported => "unsupported",
            Self::ModelUnavailable => "model_unavailable",
            Self::PromptTooLarge => "prompt_too_large",
            Self::CorruptState => "corrupt_state",
            Self::Stuck => "stuck",
            Self::NoSuchAgent => "no_such_agent",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure with what a person needs to act on it.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, thiserror::Error,
)]
#[error("{kind}: {detail}")]
pub struct Failure {
    /// The kind, which decides what follows.
    pub kind: FailureKind,
    /// For people: what happened and what to do. At most [`Failure::DETAIL_BYTES`] bytes.
    pub detail: String,
    /// The provider's `Retry-After`, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What the failed request cost, if the provider said so or delivered a part of the answer. Without input, that is
    /// still to be estimated (G5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
}

impl Failure {
    /// The bound of `detail`: a provider's error page can be a whole HTML document, its head says enough.
    pub const DETAIL_BYTES: usize = 2_000;

    /// A failure of this kind; an over-long detail is cut at a character boundary.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > Self::DETAIL_BYTES {
            let end = (0..=Self::DETAIL_BYTES).rev().find(|at| detail.is_char_boundary(*at)).unwrap_or(0);
            detail.truncate(end);
            detail.push('…');
        }
        Self { kind, detail, retry_after_ms: None, usage: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        for (detail, chars) in
            [("x".repeat(2_000), 2_000), ("x".repeat(2_001), 2_001), ("ü".repeat(1_001), 1_001)]
        {
            let failure = Failure::new(FailureKind::Transport, detail.clone());
            let is_cut = detail.len() > Failure::DETAIL_BYTES;
            assert_eq!(failure.detail.chars().count(), chars);
            assert_eq!(failure.detail.ends_with('…'), is_cut);
        }
    }

    #[test]
    fn t9_a_retry_after_is_stored_only_if_there_was_one() {
        let failure = Failure::new(FailureKind::RateLimited, "slow down");
        let json = serde_json::to_value(&failure).unwrap();
        assert_eq!(json, serde_json::json!({ "kind": "rate_limited", "detail": "slow down" }));
        let asked = Failure { retry_after_ms: Some(5), ..failure };
        let json = serde_json::to_string(&asked).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&json).unwrap(), asked);
    }
}
