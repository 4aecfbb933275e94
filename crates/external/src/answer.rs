//! What a model reads of a server's answer: its texts. What is no text is named, not shown.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};
use runtime::ToolOutput;

use crate::fault::clip;

pub(crate) fn answer(result: ServerResult) -> ToolOutput {
    match result {
        ServerResult::CallToolResult(result) => text_of(&result),
        ServerResult::EmptyResult(_) => ToolOutput::ok("done; the server said nothing"),
        ServerResult::InputRequiredResult(_) => ToolOutput::failed(
            "the server asks for more input, which it does not get; send all of it as arguments",
        ),
        ServerResult::CreateTaskResult(_) => ToolOutput::uncertain(
            "the server goes on with the call by itself, and its result cannot be read; inspect before repeating",
        ),
        _ => ToolOutput::uncertain(
            "the server answered with something that is no result; inspect before repeating",
        ),
    }
}

fn text_of(result: &CallToolResult) -> ToolOutput {
    let mut text = String::new();
    for block in &result.content {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = match block {
            ContentBlock::Text(block) => write!(text, "{}", block.text),
            ContentBlock::Image(block) => left_out(&mut text, "image", Some(&block.mime_type), &block.data),
            ContentBlock::Audio(block) => left_out(&mut text, "sound", Some(&block.mime_type), &block.data),
            ContentBlock::Resource(block) => match &block.resource {
                ResourceContents::TextResourceContents { uri, text: content, .. } => {
                    write!(text, "[{}]\n{content}", clip(uri))
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    left_out(&mut text, &format!("content of {}", clip(uri)), mime_type.as_deref(), blob)
                }
                _ => write!(text, "[a resource of an unknown kind]"),
            },
            ContentBlock::ResourceLink(link) => write!(text, "[{}: {}]", clip(&link.name), clip(&link.uri)),
            _ => write!(text, "[content of an unknown kind]"),
        };
    }
    // The same as the texts where there are any, by the protocol.
    if let (true, Some(value)) = (text.is_empty(), &result.structured_content) {
        text = value.to_string();
    }
    match (result.is_error, text.is_empty()) {
        (Some(true), true) => ToolOutput::failed("the call failed, and the server does not say why"),
        (Some(true), false) => ToolOutput::failed(text),
        (_, true) => ToolOutput::ok("done; the server said nothing"),
        (_, false) => ToolOutput::ok(text),
    }
}

/// Names what is left out, with about its size: base64 makes four characters of three bytes.
fn left_out(text: &mut String, what: &str, kind: Option<&str>, base64: &str) -> std::fmt::Result {
    let kind = kind.map(|kind| format!("{}, ", clip(kind))).unwrap_or_default();
    write!(text, "[{what}: {kind}about {} bytes, not shown]", base64.len() / 4 * 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(result: serde_json::Value) -> String {
        let output = text_of(&serde_json::from_value(result).unwrap());
        format!("{}: {}", if output.succeeded { "ok" } else { "failed" }, output.text)
    }

    #[test]
    fn texts_are_shown_and_everything_else_is_named() {
        let mixed = json!({ "content": [
            { "type": "text", "text": "one\ntwo" },
            { "type": "image", "mimeType": "image/png", "data": "A".repeat(4000) },
            { "type": "audio", "mimeType": "audio/wav", "data": "" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "content" } },
            { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "x/y", "blob": "AAAA" } },
            { "type": "resource_link", "uri": "file:///c", "name": "sea" },
        ] });
        insta::assert_snapshot!(said(mixed), @r"
        ok: one
        two
        [image: image/png, about 3000 bytes, not shown]
        [sound: audio/wav, about 0 bytes, not shown]
        [file:///a]
        content
        [content of file:///b: x/y, about 3 bytes, not shown]
        [sea: file:///c]
        ");
        let others = [
            said(json!({ "content": [], "structuredContent": { "a": [1] } })),
            said(json!({ "content": [{ "type": "text", "text": "shown" }], "structuredContent": 1 })),
            said(json!({ "content": [] })),
            said(json!({ "content": [], "isError": true })),
            said(json!({ "content": [{ "type": "text", "text": "no such row" }], "isError": true })),
        ];
        insta::assert_snapshot!(others.join("\n"), @r#"
        ok: {"a":[1]}
        ok: shown
        ok: done; the server said nothing
        failed: the call failed, and the server does not say why
        failed: no such row
        "#);
    }
}
