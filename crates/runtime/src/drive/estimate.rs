//! What a request costs, roughly: where a provider does not say, and before it can (G4, G5).

use domain::TokenUsage;

use crate::ports::{Message, ModelRequest, ModelResponse};

/// Bytes of a token, roughly, in English and code; used where a provider reports no usage (G5).
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens of a text of this length.
fn tokens_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

/// What the request's input costs, roughly.
pub(super) fn estimated_tokens(request: &ModelRequest, history: &[Message]) -> u64 {
    let of_message = |message: &Message| match message {
        Message::User { text } | Message::ToolResult { text, .. } => text.len(),
        Message::Assistant { text, calls } => {
            text.len() + calls.iter().map(|call| call.tool.len() + call.arguments.len()).sum::<usize>()
        }
    };
    let tools = request.tools.iter().map(|tool| tool.description.len() + tool.input_schema.to_string().len());
    let bytes = request.system.len()
        + request.work_state.len()
        + tools.sum::<usize>()
        + history.iter().map(of_message).sum::<usize>();
    tokens_of(bytes)
}

/// What an answer cost: as its provider says, else roughly (G5).
pub(super) fn usage_of(request: &ModelRequest, response: &ModelResponse) -> TokenUsage {
    response.usage.unwrap_or_else(|| TokenUsage {
        input: estimated_tokens(request, &request.history),
        output: tokens_of(bytes_of(response)),
        cached_input: 0,
        estimated: true,
    })
}

/// The length of an answer with its calls.
pub(super) fn bytes_of(response: &ModelResponse) -> usize {
    let calls = response.calls.iter().map(|call| call.tool.len() + call.arguments.len());
    response.text.len() + calls.sum::<usize>()
}
