//! Whether the counts in a report of usage can be counts.
//!
//! The client library adds and keeps them in 32 bits, so a sum may have wrapped before anybody else sees it.

use serde_json::Value;

use super::Protocol;

/// The most tokens one count may claim: ten times the largest context window of any model, and little enough that no
/// sum of a report leaves 32 bits.
const COUNT_TOKENS: u64 = 100_000_000;

pub(super) fn is_odd(protocol: Protocol, frame: &Value) -> bool {
    let usage = match protocol {
        Protocol::OpenaiChat => frame.get("usage"),
        Protocol::OpenaiResponses => frame.pointer("/response/usage"),
        Protocol::Anthropic => frame.pointer("/message/usage").or_else(|| frame.get("usage")),
        Protocol::Gemini => frame.get("usageMetadata"),
        Protocol::Ollama => {
            let counts = ["prompt_eval_count", "prompt_eval_cached_count", "eval_count"];
            return counts.iter().filter_map(|count| frame.get(count)).any(|count| !is_count(count));
        }
    };
    usage.is_some_and(holds_odd_count)
}

/// Only what is named after tokens is a count: gateways report prices and times beside them.
fn holds_odd_count(usage: &Value) -> bool {
    match usage {
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::Object(_) | Value::Array(_) => holds_odd_count(value),
            scalar => name.to_ascii_lowercase().contains("token") && !is_count(scalar),
        }),
        Value::Array(entries) => entries.iter().any(holds_odd_count),
        _ => false,
    }
}

fn is_count(value: &Value) -> bool {
    value.is_null() || value.as_u64().is_some_and(|count| count <= COUNT_TOKENS)
}
