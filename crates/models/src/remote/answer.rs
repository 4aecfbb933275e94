//! Judges an answer that reached its end: whether it is whole, and what it says.

use domain::{FailureKind, TokenUsage};
use genai::chat::{StopReason, StreamEnd, ToolCall, Usage};
use runtime::{ModelResponse, RequestedCall};

use super::Protocol;
use super::failure::{Finding, Scene};

/// The share of the context window, in percent, from which an answer cut at its length is put down to the window
/// rather than to the model's output limit: the provider's count of its own overhead is not in the usage.
const FULL_CONTEXT_PERCENT: u64 = 90;

/// `text` is what was streamed; calls and usage come from the end, where they are complete.
pub(super) fn complete(
    text: String,
    end: &StreamEnd,
    scene: &Scene<'_>,
    protocol: Protocol,
    context_tokens: u64,
) -> Result<ModelResponse, Finding> {
    let witness = scene.witness;
    let usage = end.captured_usage.as_ref().filter(|_| !witness.saw_odd_usage()).and_then(token_usage);
    match witness.stop().or_else(|| end.captured_stop_reason.clone()) {
        Some(StopReason::ContentFilter(reason)) => {
            return Err(Finding::new(
                FailureKind::Refused,
                format!("the provider's filter stopped the answer ({reason})"),
            ));
        }
        Some(StopReason::MaxTokens(reason)) => return Err(cut_at_length(&reason, usage, context_tokens)),
        Some(StopReason::Other(reason)) if is_interruption(&reason) => {
            return Err(Finding::new(
                FailureKind::StreamIncomplete,
                format!("the provider broke the answer off ({reason})"),
            ));
        }
        // For these genai makes up an end when the body just stops; only a real one has a reason.
        None if matches!(protocol, Protocol::OpenaiResponses | Protocol::Gemini | Protocol::Ollama) => {
            return Err(scene.of_early_end());
        }
        None
        | Some(
            StopReason::Completed(_)
            | StopReason::ToolCall(_)
            | StopReason::StopSequence(_)
            | StopReason::Other(_),
        ) => {}
    }
    if let Some(refusal) = witness.refusal() {
        return Err(Finding::new(FailureKind::Refused, format!("the model refused: {refusal}")));
    }
    let text = if text.is_empty() { end.captured_texts().unwrap_or_default().concat() } else { text };
    let calls = match witness.calls() {
        calls if calls.is_empty() => {
            end.captured_tool_calls().unwrap_or_default().into_iter().map(requested_call).collect()
        }
        calls => calls,
    };
    if text.trim().is_empty() && calls.is_empty() {
        return Err(Finding::new(
            FailureKind::EmptyResponse,
            "the answer has neither text nor calls".to_owned(),
        ));
    }
    // Nor is this answer.
    let usage = usage.filter(|usage| usage.output > 0);
    Ok(ModelResponse { text, calls, usage })
}

/// An answer that stopped at a length limit is not an answer (T6). A full window needs a shorter history; the model's
/// own output limit would be met again by the same request, so a person has to act.
fn cut_at_length(reason: &str, usage: Option<TokenUsage>, context_tokens: u64) -> Finding {
    let used = usage.map_or(0, |usage| usage.charged().saturating_add(usage.cached_input));
    let full = used.saturating_mul(100) >= context_tokens.saturating_mul(FULL_CONTEXT_PERCENT);
    if reason == "model_context_window_exceeded" {
        Finding::new(FailureKind::ContextLimit, format!("the answer filled the context window ({reason})"))
    } else if full {
        Finding::new(
            FailureKind::ContextLimit,
            format!("the answer was cut off ({reason}) with {used} of {context_tokens} tokens in use"),
        )
    } else {
        Finding::new(
            FailureKind::Unsupported,
            format!(
                "the answer was cut off at the model's output limit ({reason}): ask for smaller steps, raise the \
                 limit at the server, or correct `context_tokens` if the window is smaller than it says"
            ),
        )
    }
}

/// Reasons that say the answer is not whole: `error` from gateways, `insufficient_system_resource` from `DeepSeek`,
/// `network_error` from Zhipu, `abort` from `SGLang`, the last two from Gemini.
fn is_interruption(reason: &str) -> bool {
    matches!(
        reason,
        "error"
            | "insufficient_system_resource"
            | "network_error"
            | "abort"
            | "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
    )
}

/// A call of a protocol that carries arguments as objects.
fn requested_call(call: &ToolCall) -> RequestedCall {
    let arguments = match &call.fn_arguments {
        serde_json::Value::String(raw) => raw.clone(),
        serde_json::Value::Null => String::new(),
        parsed => parsed.to_string(),
    };
    RequestedCall { tool: call.fn_name.clone(), arguments }
}

/// `None` unless both directions are reported: a guess of the missing half belongs to the accounting (G5). No request
/// is empty, so a server that read nothing does not count.
fn token_usage(usage: &Usage) -> Option<TokenUsage> {
    let prompt = u64::try_from(usage.prompt_tokens?).ok()?;
    let output = u64::try_from(usage.completion_tokens?).ok()?;
    if prompt == 0 {
        return None;
    }
    let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens).unwrap_or(0);
    let cached_input = u64::try_from(cached).unwrap_or(0).min(prompt);
    Some(TokenUsage { input: prompt - cached_input, cached_input, output, estimated: false })
}
