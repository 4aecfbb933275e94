//! Our request in the client library's terms.
//!
//! Each part depends on that part alone, and the order never changes: so a history that only grew gives a body of
//! which the former one, up to its work state, is a prefix (V3).

use genai::chat::{
    ChatMessage, ChatRequest, ContentPart, MessageContent, Tool, ToolCall, ToolName, ToolResponse,
};
use runtime::{HistoryCall, Message, ModelRequest, ToolSpec};
use serde_json::{Map, Value, json};

/// The key under which arguments that are no JSON object are shown to the model: every protocol demands an object.
const MALFORMED: &str = "malformed_arguments";

/// Characters of a tool's name that every provider takes.
const NAME_CHARS: usize = 64;

pub(super) fn chat_request(request: &ModelRequest) -> ChatRequest {
    let mut chat = ChatRequest::new(history(&request.history));
    if !request.system.is_empty() {
        chat = chat.with_system(&request.system);
    }
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.iter().map(tool));
    }
    if !request.work_state.is_empty() {
        chat = chat.append_message(ChatMessage::user(request.work_state.as_str()));
    }
    chat
}

fn tool(spec: &ToolSpec) -> Tool {
    // Named as a custom tool, because a bare text could name one of the provider's own.
    Tool::new(ToolName::Custom(spec.name.clone().into_owned()))
        .with_description(spec.description.as_ref())
        .with_schema(spec.input_schema.clone())
}

fn history(messages: &[Message]) -> Vec<ChatMessage> {
    let mut chat = Vec::with_capacity(messages.len());
    // The results of one answer travel together, as some protocols demand. They are all there before the next
    // request is made, so a group never changes.
    let mut results: Vec<ToolResponse> = Vec::new();
    for message in messages {
        if let Message::ToolResult { call_id, tool, text } = message {
            results.push(ToolResponse::new(call_id, text).with_fn_name(readable_name(tool)));
            continue;
        }
        if !results.is_empty() {
            chat.push(ChatMessage::from(std::mem::take(&mut results)));
        }
        match message {
            Message::User { text } => chat.push(ChatMessage::user(text.as_str())),
            Message::Assistant { text, calls } => chat.push(assistant(text, calls)),
            Message::ToolResult { .. } => {}
        }
    }
    if !results.is_empty() {
        chat.push(ChatMessage::from(results));
    }
    chat
}

fn assistant(text: &str, calls: &[HistoryCall]) -> ChatMessage {
    let mut parts = Vec::with_capacity(calls.len() + 1);
    // Some providers refuse a text of nothing but white space, which models write before their calls.
    if !text.trim().is_empty() {
        parts.push(ContentPart::Text(text.to_owned()));
    }
    parts.extend(calls.iter().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: readable_name(&call.tool),
            fn_arguments: arguments(&call.arguments),
            thought_signatures: None,
        })
    }));
    ChatMessage::assistant(MessageContent::from_parts(parts))
}

/// A tool's name as providers read it back. Models also call tools that do not exist, by names such as
/// `functions.shell`, and a provider that is sent one in a history refuses that request and every later one.
fn readable_name(tool: &str) -> String {
    let readable = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = tool.chars().take(NAME_CHARS).map(readable).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(_) | Err(_) => json!({ MALFORMED: text }),
    }
}
