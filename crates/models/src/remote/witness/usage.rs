//! What the frames report of usage, and whether its counts can be counts.
//!
//! The client library adds and keeps them in 32 bits, so a sum may have wrapped before anybody else sees it.

use serde_json::Value;

use super::Protocol;

/// The most tokens one count may claim: ten times the largest context window of any model, and little enough that no
/// sum of a report leaves 32 bits.
const COUNT_TOKENS: u64 = 100_000_000;

/// The counts that were reported last; zero where none was. The client library hands its own on with a good end alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// All of the input.
    pub(super) prompt: u64,
    /// The part of it that came from a cache.
    pub(super) cached: u64,
    pub(super) output: u64,
}

impl Counts {
    pub(super) fn follow(&mut self, protocol: Protocol, frame: &Value) {
        let Some(report) = report(protocol, frame) else { return };
        let count = |path: &str| report.pointer(path).and_then(Value::as_u64);
        let sum = |paths: [&str; 3]| {
            let mut counts = paths.into_iter().filter_map(count);
            let first = counts.next()?;
            Some(counts.fold(first, u64::saturating_add))
        };
        let (prompt, cached, output) = match protocol {
            Protocol::OpenaiChat => (
                count("/prompt_tokens"),
                count("/prompt_tokens_details/cached_tokens"),
                count("/completion_tokens"),
            ),
            Protocol::OpenaiResponses => (
                count("/input_tokens"),
                count("/input_tokens_details/cached_tokens"),
                count("/output_tokens"),
            ),
            Protocol::Anthropic => (
                sum(["/input_tokens", "/cache_creation_input_tokens", "/cache_read_input_tokens"]),
                count("/cache_read_input_tokens"),
                // The beginning of a message only has a first guess of it.
                count("/output_tokens").filter(|_| frame.get("message").is_none()),
            ),
            Protocol::Gemini => (
                count("/promptTokenCount"),
                count("/cachedContentTokenCount"),
                sum(["/candidatesTokenCount", "/thoughtsTokenCount", ""]),
            ),
            Protocol::Ollama => {
                (count("/prompt_eval_count"), count("/prompt_eval_cached_count"), count("/eval_count"))
            }
        };
        self.prompt = prompt.unwrap_or(self.prompt);
        self.cached = cached.unwrap_or(self.cached);
        self.output = output.unwrap_or(self.output);
    }
}

/// Where a frame reports usage; Ollama's does so beside all else.
fn report(protocol: Protocol, frame: &Value) -> Option<&Value> {
    match protocol {
        Protocol::OpenaiChat => frame.get("usage"),
        Protocol::OpenaiResponses => frame.pointer("/response/usage"),
        Protocol::Anthropic => frame.pointer("/message/usage").or_else(|| frame.get("usage")),
        Protocol::Gemini => frame.get("usageMetadata"),
        Protocol::Ollama => Some(frame),
    }
}

pub(super) fn is_odd(protocol: Protocol, frame: &Value) -> bool {
    if protocol == Protocol::Ollama {
        let counts = ["prompt_eval_count", "prompt_eval_cached_count", "eval_count"];
        return counts.iter().filter_map(|count| frame.get(count)).any(|count| !is_count(count));
    }
    report(protocol, frame).is_some_and(holds_odd_count)
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
