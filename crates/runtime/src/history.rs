//! The transcript a model reads, made from the log alone.
//!
//! The same function follows events that were just committed and events read back after a crash, so a request of
//! the next turn begins with the very bytes of the last one (V3).

use std::collections::BTreeMap;

use domain::{
    CallRef, Event, EventBody, InputId, InputText, ModelCall, StopReason, TurnNumber, TurnOutcome,
    TurnTrigger,
};

use crate::ports::{HistoryCall, Message};

/// The transcript of one lane.
#[derive(Debug, Default)]
pub(crate) struct History {
    messages: Vec<Message>,
    /// Texts of inputs that were queued and not consumed.
    queued: BTreeMap<InputId, InputText>,
    /// The Goal continuation that opened the running turn, until the model is asked.
    opening: Option<u64>,
    /// Whether the last entry opens a continuation that the model has not answered; a retry does not repeat it.
    opens_continuation: bool,
    /// Whether the running turn has an answer of the model; one without leaves nothing to explain.
    has_answer: bool,
}

impl History {
    /// The entries so far.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Follows one event.
    pub(crate) fn follow(&mut self, event: &Event) {
        match &event.body {
            EventBody::InputQueued { text, .. } => {
                self.queued.insert(InputId(event.seq), text.clone());
            }
            EventBody::InputCancelled { row, .. } => {
                self.queued.remove(row);
            }
            EventBody::InputConsumed { rows, .. } => {
                for row in rows {
                    if let Some(text) = self.queued.remove(row) {
                        self.push(Message::User { text: text.into() });
                    }
                }
            }
            EventBody::TurnStarted { trigger, .. } => {
                self.has_answer = false;
                self.opening = match trigger {
                    TurnTrigger::Goal { continuation, .. } => Some(*continuation),
                    TurnTrigger::Input { .. } => None,
                };
            }
            EventBody::ModelRequested { .. } => {
                if let Some(continuation) = self.opening.take().filter(|_| !self.opens_continuation) {
                    self.push(Message::User { text: agents::continuation_line(continuation) });
                    self.opens_continuation = true;
                }
            }
            EventBody::ModelResponded { turn, request, text, calls, .. } => {
                self.has_answer = true;
                let calls = named_calls(*turn, *request, calls);
                self.push(Message::Assistant { text: text.clone(), calls });
            }
            EventBody::CallFinished { call, tool, result, .. } => {
                let (call_id, tool, text) = (call_id(*call), tool.clone(), result.clone());
                self.push(Message::ToolResult { call_id, tool, text });
            }
            EventBody::TurnEnded { outcome, .. } => {
                if let Some(text) = ending(outcome) {
                    self.note(text);
                }
            }
            EventBody::TurnLost { .. } => {
                self.note(
                    "[This turn was cut off by a crash. What it had recorded stands above.]".to_owned(),
                );
            }
            // The rest is state, which the work-state section shows, or bookkeeping.
            _ => {}
        }
    }

    fn push(&mut self, message: Message) {
        self.opens_continuation = false;
        self.messages.push(message);
    }

    /// Says that a turn did not end by itself.
    fn note(&mut self, text: String) {
        if self.has_answer {
            self.push(Message::User { text });
        }
    }
}

fn ending(outcome: &TurnOutcome) -> Option<String> {
    match outcome {
        TurnOutcome::Completed => None,
        TurnOutcome::Interrupted => Some("[The user interrupted this turn.]".to_owned()),
        TurnOutcome::Stopped { reason: StopReason::PlanMode } => {
            Some("[This turn was stopped: the user entered Plan mode.]".to_owned())
        }
        TurnOutcome::Stopped { reason } => Some(format!("[This turn was stopped: {reason}.]")),
        TurnOutcome::Failed { failure } => Some(format!("[This turn failed: {}.]", failure.kind)),
    }
}

fn named_calls(turn: TurnNumber, request: u32, calls: &[ModelCall]) -> Vec<HistoryCall> {
    let named = (0..).zip(calls).map(|(index, call)| HistoryCall {
        id: call_id(CallRef { turn, request, index }),
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
    });
    named.collect()
}

fn call_id(call: CallRef) -> String {
    format!("call_{}_{}_{}", call.turn, call.request, call.index)
}
