//! Watches the raw frames of an answer for what the client library hides or drops.
//!
//! In the OpenAI protocol it loses a call without an index or with arguments that are no text, repeats one call when
//! an index is skipped, joins two calls under one index, and drops the text of a refusal. A lost or doubled call would
//! be acted upon as if it were the model's answer, so each is a failure.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;

use super::Protocol;

/// The longest answer accepted, in bytes of its frames: a hundred times the largest output limit of any model, and
/// little enough to hold in memory.
const ANSWER_BYTES: usize = 32 << 20;

/// The longest refusal kept: it is shown to a person.
const REFUSAL_BYTES: usize = 2_000;

const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(super) struct Witness {
    protocol: Protocol,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    bytes: usize,
    data: bool,
    half_an_end: bool,
    refusal: String,
    calls: Vec<SeenCall>,
    flaw: Option<&'static str>,
}

#[derive(Debug, Default)]
struct SeenCall {
    id: String,
    name: String,
}

impl Witness {
    pub(super) const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            seen: Mutex::new(Seen {
                bytes: 0,
                data: false,
                half_an_end: false,
                refusal: String::new(),
                calls: Vec::new(),
                flaw: None,
            }),
        }
    }

    /// Whether any part of an answer arrived. Keep-alives are none.
    pub(super) fn saw_data(&self) -> bool {
        self.seen().data
    }

    /// Whether the last frame was the beginning of the end mark: a cut in the middle of it.
    pub(super) fn saw_half_an_end(&self) -> bool {
        self.seen().half_an_end
    }

    /// What makes the answer unusable although the client library takes it.
    pub(super) fn flaw(&self) -> Option<String> {
        self.seen().flaw.map(|flaw| format!("the answer has {flaw}"))
    }

    pub(super) fn refusal(&self) -> Option<String> {
        let seen = self.seen();
        (!seen.refusal.is_empty()).then(|| seen.refusal.clone())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // What a panicked holder left is at worst one frame short.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for Witness {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut seen = self.seen();
        seen.bytes = seen.bytes.saturating_add(frame.data.len());
        if seen.bytes > ANSWER_BYTES {
            seen.flaw.get_or_insert("more than 32 MiB");
        }
        if frame.data.is_empty() {
            return;
        }
        seen.data = true;
        if self.protocol != Protocol::OpenaiChat {
            return;
        }
        seen.half_an_end = frame.data.len() < DONE.len() && DONE.starts_with(frame.data);
        // Most frames are a few characters of text: only those that matter are parsed a second time.
        if !frame.data.contains("\"tool_calls\"") && !frame.data.contains("\"refusal\"") {
            return;
        }
        let Some(chunk) = frame.json() else { return };
        let Some(delta) = chunk.pointer("/choices/0/delta") else { return };
        if let Some(refusal) = delta.get("refusal").and_then(Value::as_str)
            && seen.refusal.len() < REFUSAL_BYTES
        {
            seen.refusal.push_str(refusal);
        }
        for entry in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            if let Err(flaw) = seen.call(entry) {
                seen.flaw.get_or_insert(flaw);
            }
        }
    }
}

impl Seen {
    fn call(&mut self, entry: &Value) -> Result<(), &'static str> {
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
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let piece = SeenCall { id: text(entry.get("id")), name: text(function.get("name")) };
        if index > self.calls.len() {
            return Err("a gap in its tool call indexes");
        }
        let Some(call) = self.calls.get_mut(index) else {
            self.calls.push(piece);
            return Ok(());
        };
        if piece.name.is_empty() {
            return Ok(());
        }
        let differs = |old: &str, new: &str| !old.is_empty() && !new.is_empty() && old != new;
        if differs(&call.name, &piece.name) || differs(&call.id, &piece.id) {
            return Err("two tool calls under one index");
        }
        *call = piece;
        Ok(())
    }
}
