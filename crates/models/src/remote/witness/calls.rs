//! Puts calls together from the pieces in which they arrive, wherever their arguments travel as text.

use runtime::RequestedCall;
use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Calls {
    pub(super) fn requested(&self) -> Vec<RequestedCall> {
        let requested =
            |call: &Call| RequestedCall { tool: call.name.clone(), arguments: call.arguments.clone() };
        self.0.iter().map(requested).collect()
    }

    /// The length of what was written.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|call| call.name.len() + call.arguments.len()).sum()
    }

    /// An entry of `delta.tool_calls` in the chat protocol; what makes it unusable, if it is.
    pub(super) fn add_piece(&mut self, entry: &Value) -> Result<(), &'static str> {
        let index = entry
            .get("index")
            .and_then(Value::as_u64)
            .and_then(|index| usize::try_from(index).ok())
            .ok_or("a tool call without an index")?;
        let function = entry
            .get("function")
            .filter(|function| function.is_object())
            .ok_or("a tool call without a function")?;
        if function.get("arguments").is_some_and(|arguments| !arguments.is_string() && !arguments.is_null()) {
            return Err("tool call arguments that are no text");
        }
        let piece = Call {
            id: text(entry, "id"),
            name: text(function, "name"),
            arguments: text(function, "arguments"),
        };
        if index > self.0.len() {
            return Err("a gap in its tool call indexes");
        }
        let Some(call) = self.0.get_mut(index) else {
            self.0.push(piece);
            return Ok(());
        };
        call.arguments.push_str(&piece.arguments);
        if piece.name.is_empty() {
            return Ok(());
        }
        let differs = |old: &str, new: &str| !old.is_empty() && !new.is_empty() && old != new;
        if differs(&call.name, &piece.name) || differs(&call.id, &piece.id) {
            return Err("two tool calls under one index");
        }
        call.id = piece.id;
        call.name = piece.name;
        Ok(())
    }

    /// The beginning or a piece of a content block in Anthropic's protocol, where blocks follow each other.
    pub(super) fn add_block(&mut self, frame: &Value) {
        let block = frame.get("content_block").filter(|block| text(block, "type") == "tool_use");
        if let Some(block) = block {
            self.0.push(Call { name: text(block, "name"), ..Call::default() });
        }
        let delta = frame.get("delta").filter(|delta| text(delta, "type") == "input_json_delta");
        if let (Some(delta), Some(call)) = (delta, self.0.last_mut()) {
            call.arguments.push_str(&text(delta, "partial_json"));
        }
    }

    /// A finished item in the Responses protocol.
    pub(super) fn add_item(&mut self, item: Option<&Value>) {
        if let Some(item) = item.filter(|item| text(item, "type") == "function_call") {
            let call =
                Call { name: text(item, "name"), arguments: text(item, "arguments"), ..Call::default() };
            self.0.push(call);
        }
    }

    /// The output of a finished response, from servers that do not report its items one by one.
    pub(super) fn add_output(&mut self, output: Option<&Value>) {
        if self.0.is_empty() {
            for item in output.and_then(Value::as_array).into_iter().flatten() {
                self.add_item(Some(item));
            }
        }
    }
}

fn text(object: &Value, field: &str) -> String {
    object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}
