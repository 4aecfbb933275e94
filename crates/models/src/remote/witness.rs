//! Watches the raw frames of an answer for what the client library hides, drops or changes.
//!
//! In the OpenAI protocol it loses a call without an index or with arguments that are no text, repeats one call when
//! an index is skipped, joins two calls under one index, and drops the text of a refusal. It skips a frame of the
//! Responses protocol that it cannot read, and an error of Ollama's. It parses arguments, so that a text which is JSON
//! by chance is not what the model wrote. A call lost, doubled or changed would be acted upon as if it were the
//! model's answer.

mod calls;
mod usage;

use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::TokenUsage;
use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef, StopReason};
use runtime::RequestedCall;
use serde_json::{Value, json};

use super::Protocol;
use calls::Calls;
use usage::Counts;

/// The longest answer accepted, in bytes of its frames: a hundred times the largest output limit of any model, and
/// little enough to hold in memory.
const ANSWER_BYTES: usize = 32 << 20;

/// The longest refusal kept: it is shown to a person.
const REFUSAL_BYTES: usize = 2_000;

/// Bytes of a token, roughly, in English and code.
const BYTES_PER_TOKEN: usize = 4;

const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(super) struct Witness {
    protocol: Protocol,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    frames: u64,
    bytes: usize,
    data: bool,
    half_an_end: bool,
    refusal: String,
    calls: Calls,
    odd_usage: bool,
    counts: Counts,
    /// Bytes of text and reasoning.
    shown: usize,
    too_long: bool,
    stop: Option<StopReason>,
    error: Option<Value>,
    flaw: Option<&'static str>,
}

impl Witness {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { protocol, seen: Mutex::new(Seen::default()) }
    }

    /// How many frames arrived, keep-alives among them.
    pub(super) fn frames(&self) -> u64 {
        self.seen().frames
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

    /// The provider's report of an error that the client library does not hand on.
    pub(super) fn error(&self) -> Option<Value> {
        self.seen().error.clone()
    }

    pub(super) fn refusal(&self) -> Option<String> {
        let seen = self.seen();
        (!seen.refusal.is_empty()).then(|| seen.refusal.clone())
    }

    /// Why the answer ended, where the client library does not say it exactly.
    pub(super) fn stop(&self) -> Option<StopReason> {
        self.seen().stop.clone()
    }

    /// The calls with their arguments as the model wrote them. None of a protocol that carries arguments as objects.
    pub(super) fn calls(&self) -> Vec<RequestedCall> {
        self.seen().calls.requested()
    }

    /// Whether a count of tokens was none: such usage is worth nothing (G5).
    pub(super) fn saw_odd_usage(&self) -> bool {
        self.seen().odd_usage
    }

    /// Whether there was more than any answer has.
    pub(super) fn saw_too_much(&self) -> bool {
        self.seen().too_long
    }

    /// Counts a piece of text that was shown.
    pub(super) fn show(&self, piece: &str) {
        self.seen().shown += piece.len();
    }

    /// What the answer cost up to here, if there was one: as reported, the output else by its length (G5).
    pub(super) fn spent(&self) -> Option<TokenUsage> {
        let seen = self.seen();
        let counts = if seen.odd_usage { Counts::default() } else { seen.counts };
        let delivered = seen.shown + seen.calls.bytes();
        let delivered = u64::try_from(delivered.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
        let cached_input = counts.cached.min(counts.prompt);
        let usage = TokenUsage {
            input: counts.prompt - cached_input,
            cached_input,
            output: if counts.output == 0 { delivered } else { counts.output },
            estimated: counts.prompt == 0 || counts.output == 0,
        };
        (usage.charged() + usage.cached_input > 0).then_some(usage)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // What a panicked holder left is at worst one frame short.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for Witness {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut seen = self.seen();
        seen.frames += 1;
        seen.bytes = seen.bytes.saturating_add(frame.data.len());
        if seen.bytes > ANSWER_BYTES {
            seen.too_long = true;
        }
        if frame.data.is_empty() {
            return;
        }
        seen.data = true;
        seen.half_an_end = self.protocol == Protocol::OpenaiChat
            && frame.data.len() < DONE.len()
            && DONE.starts_with(frame.data);
        match serde_json::from_str(frame.data) {
            Ok(frame) => seen.look(self.protocol, &frame),
            // The other protocols' readers fail by themselves. A frame that just stops is a cut.
            Err(error)
                if self.protocol == Protocol::OpenaiResponses && frame.data != DONE && !error.is_eof() =>
            {
                seen.flaw.get_or_insert("a chunk that is no JSON");
            }
            Err(_) => {}
        }
    }
}

impl Seen {
    fn look(&mut self, protocol: Protocol, frame: &Value) {
        self.odd_usage |= usage::is_odd(protocol, frame);
        self.counts.follow(protocol, frame);
        match protocol {
            Protocol::OpenaiChat => self.look_at_chat(frame),
            Protocol::OpenaiResponses => self.look_at_response(frame),
            Protocol::Anthropic => self.calls.add_block(frame),
            Protocol::Gemini => {
                if let Some(reason) = frame.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
                    let message = format!("the prompt was blocked ({reason})");
                    self.error = Some(json!({"code": "content_filter", "message": message}));
                }
            }
            Protocol::Ollama => self.error = frame.get("error").cloned().or(self.error.take()),
        }
    }

    fn look_at_chat(&mut self, frame: &Value) {
        let Some(delta) = frame.pointer("/choices/0/delta") else { return };
        self.refuse(delta.get("refusal"));
        for entry in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            if let Err(flaw) = self.calls.add_piece(entry) {
                self.flaw.get_or_insert(flaw);
            }
        }
    }

    fn look_at_response(&mut self, frame: &Value) {
        let response = |path: &str| frame.pointer(path).cloned();
        match frame.get("type").and_then(Value::as_str).unwrap_or_default() {
            "response.output_item.done" => self.calls.add_item(frame.get("item")),
            "response.refusal.delta" => self.refuse(frame.get("delta")),
            "response.completed" => {
                self.stop = Some(StopReason::Completed("completed".to_owned()));
                self.calls.add_output(frame.pointer("/response/output"));
            }
            "response.incomplete" => {
                let reason = response("/response/incomplete_details/reason");
                self.stop = Some(match reason.as_ref().and_then(Value::as_str) {
                    Some(reason @ "content_filter") => StopReason::ContentFilter(reason.to_owned()),
                    reason => StopReason::MaxTokens(reason.unwrap_or("incomplete").to_owned()),
                });
            }
            "response.failed" => self.error = Some(response("/response/error").unwrap_or_default()),
            _ => {}
        }
    }

    fn refuse(&mut self, piece: Option<&Value>) {
        if let Some(piece) = piece.and_then(Value::as_str)
            && self.refusal.len() < REFUSAL_BYTES
        {
            self.refusal.push_str(piece);
        }
    }
}
