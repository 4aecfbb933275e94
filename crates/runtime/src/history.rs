//! The transcript a model reads, made from the log alone.
//!
//! The same function follows events that were just committed and events read back after a crash, so a request of
//! the next turn begins with the very bytes of the last one (V3).

use std::collections::BTreeMap;

use domain::{
    CallRef, Event, EventBody, InputId, InputText, LaneId, ModelCall, StopReason, TurnNumber, TurnOutcome,
    TurnTrigger,
};

use crate::ports::{HistoryCall, Message};

/// The transcript of one lane.
#[derive(Debug)]
pub(crate) struct History {
    lane: LaneId,
    /// The lane's running turn.
    running: Option<TurnNumber>,
    messages: Vec<Message>,
    /// Texts of inputs that were queued and not consumed.
    queued: BTreeMap<InputId, InputText>,
    /// The line that opens the running turn of the Goal, until the model is asked.
    opening: Option<String>,
    /// Whether the last entry opens a continuation that the model has not answered; a retry does not repeat it.
    opens_continuation: bool,
    /// Whether the running turn has an answer of the model; one without leaves nothing to explain.
    has_answer: bool,
}

impl History {
    /// The empty transcript of a lane.
    pub(crate) const fn of(lane: LaneId) -> Self {
        Self {
            lane,
            running: None,
            messages: Vec::new(),
            queued: BTreeMap::new(),
            opening: None,
            opens_continuation: false,
            has_answer: false,
        }
    }

    /// The entries so far.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Follows one event.
    pub(crate) fn follow(&mut self, event: &Event) {
        if let EventBody::TurnStarted { turn, lane, .. } = &event.body
            && *lane == self.lane
        {
            self.running = Some(*turn);
        }
        // What turns of other lanes do is none of this transcript.
        if event.body.turn().is_some_and(|turn| Some(turn) != self.running) {
            return;
        }
        match &event.body {
            EventBody::InputQueued { lane, .. } if *lane != self.lane => {}
            // What the user allowed stands with its result, which comes before the row is consumed.
            EventBody::InputQueued { runs: Some(_), .. } => {}
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
            EventBody::TurnStarted { trigger, wait_over, .. } => {
                self.has_answer = false;
                self.opening = match trigger {
                    TurnTrigger::Goal { continuation, .. } => {
                        Some(agents::continuation_line(*continuation, wait_over.as_ref()))
                    }
                    TurnTrigger::Input { .. } => None,
                };
            }
            EventBody::ModelRequested { .. } => {
                if let Some(text) = self.opening.take().filter(|_| !self.opens_continuation) {
                    self.push(Message::User { text });
                    self.opens_continuation = true;
                }
            }
            EventBody::ModelResponded { turn, request, text, calls, .. } => {
                self.has_answer = true;
                let calls = named_calls(*turn, *request, calls);
                self.push(Message::Assistant { text: text.clone(), calls });
            }
            // A call that the user allowed stands before the first request of its turn: no response asked for it there.
            EventBody::CallFinished { call, tool, outcome, result, .. } if call.request == 0 => {
                let outcome = outcome.name();
                let text = format!("[The user allowed the call of `{tool}`, once. It {outcome}:]\n{result}");
                self.push(Message::User { text });
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

    /// The arguments of a call as the model wrote them.
    pub(crate) fn arguments_of(&self, call: CallRef) -> Option<&str> {
        let id = call_id(call);
        let calls = self.messages.iter().rev().filter_map(|message| match message {
            Message::Assistant { calls, .. } => Some(calls),
            Message::User { .. } | Message::ToolResult { .. } => None,
        });
        calls.flatten().find(|asked| asked.id == id).map(|asked| asked.arguments.as_str())
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
        // The result of the call that asks says that the user was asked.
        TurnOutcome::Completed | TurnOutcome::Waiting { .. } => None,
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
