//! A model that plays a scenario file: the same requests always get the same answers, with no network and no key.
//!
//! ```toml
//! [[response]]
//! text = "Looking around."
//! usage = { input = 900, cached = 400, output = 12 }
//!
//! [[response.call]]
//! tool = "read_file"
//! arguments = { path = "src/main.rs" }
//!
//! [[response]]
//! expect = "fn main"             # must stand in the last message or the work state
//! text = "A long answer, word by word."
//! delay_ms = 200
//! chunk_delay_ms = 20
//! failure = { kind = "rate_limited", retry_after_ms = 2000, times = 2 }
//! ```
//!
//! Which response is played follows from the request alone: it is the number of answers in its history. An answer that
//! never became durable is therefore played again after a crash, and each transcript plays the file from its start.

mod scenario;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, FailureKind, ModelName};
use runtime::{Delta, Message, Model, ModelRequest, ModelResponse};

use crate::OnDelta;
pub use scenario::ScenarioError;
use scenario::{Response, Scenario, ScriptedFailure};

/// The context window of a scripted model unless its settings say otherwise: that of current large models, so that a
/// scenario meets the same limits.
pub(crate) const CONTEXT_TOKENS: u64 = 200_000;

/// How much of a message is shown when it lacks what the scenario expects.
const SHOWN_CHARS: usize = 200;

/// A model that plays a scenario.
pub struct ScriptedModel {
    name: ModelName,
    context_tokens: u64,
    scenario: Scenario,
    /// How often each response has failed so far. Kept in memory: a restart makes a flaky response flaky again.
    failed: Mutex<HashMap<usize, u32>>,
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ScriptedModel {
    /// Reads a scenario from text. Errors call it by the model's name.
    pub fn from_toml(name: ModelName, text: &str) -> Result<Self, ScenarioError> {
        let origin = format!("of model {name}");
        Ok(Self::playing(name, Scenario::parse(&origin, text)?))
    }

    /// Reads a scenario file.
    pub fn from_file(name: ModelName, path: &Path) -> Result<Self, ScenarioError> {
        Ok(Self::playing(name, Scenario::read(path)?))
    }

    /// The same model with another context window.
    #[must_use]
    pub const fn with_context_tokens(mut self, context_tokens: u64) -> Self {
        self.context_tokens = context_tokens;
        self
    }

    fn playing(name: ModelName, scenario: Scenario) -> Self {
        Self { name, context_tokens: CONTEXT_TOKENS, scenario, failed: Mutex::default() }
    }

    fn failure(&self, kind: FailureKind, detail: &str) -> Failure {
        Failure::new(kind, format!("model `{}`: {detail}", self.name))
    }

    /// The answer to a request beyond the last response.
    fn exhausted(&self, position: usize) -> Result<ModelResponse, Failure> {
        match &self.scenario.exhausted {
            Some(text) => Ok(ModelResponse { text: text.clone(), ..ModelResponse::default() }),
            None => Err(self.failure(
                FailureKind::ProviderProtocol,
                &format!(
                    "the scenario has {} responses, request {} was made",
                    self.scenario.responses.len(),
                    position + 1
                ),
            )),
        }
    }

    fn check_expectation(
        &self,
        position: usize,
        expected: &str,
        request: &ModelRequest,
    ) -> Result<(), Failure> {
        let last = match request.history.last() {
            Some(
                Message::User { text } | Message::Assistant { text, .. } | Message::ToolResult { text, .. },
            ) => text.as_str(),
            None => "",
        };
        if last.contains(expected) || request.work_state.contains(expected) {
            return Ok(());
        }
        let head: String = last.chars().take(SHOWN_CHARS).collect();
        Err(self.failure(
            FailureKind::ProviderProtocol,
            &format!(
                "response {} of the scenario expects {expected:?} in the last message or the work state; the last \
                 message begins {head:?}",
                position + 1
            ),
        ))
    }

    /// The failure due at this attempt, if any.
    fn due_failure<'r>(&self, position: usize, response: &'r Response) -> Option<&'r ScriptedFailure> {
        let failure = response.failure.as_ref()?;
        let Some(times) = failure.times else { return Some(failure) };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failed.entry(position).or_default();
        if *count == times {
            return None;
        }
        *count += 1;
        Some(failure)
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    async fn respond(
        &self,
        request: &ModelRequest,
        on_delta: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure> {
        let position =
            request.history.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let Some(response) = self.scenario.responses.get(position) else {
            return self.exhausted(position);
        };
        pause(response.delay).await;
        if let Some(expected) = &response.expect {
            self.check_expectation(position, expected, request)?;
        }
        let words: Vec<&str> = response.answer.text.split_inclusive(char::is_whitespace).collect();
        if let Some(failure) = self.due_failure(position, response) {
            // An answer that breaks off had begun.
            if failure.kind == FailureKind::StreamIncomplete {
                stream(&words[..words.len() / 2], response.chunk_delay, on_delta).await;
            }
            let detail = failure.detail.as_deref().unwrap_or("the scenario says so");
            return Err(Failure {
                retry_after_ms: failure.retry_after_ms,
                ..self.failure(failure.kind, detail)
            });
        }
        stream(&words, response.chunk_delay, on_delta).await;
        Ok(response.answer.clone())
    }
}

async fn stream(words: &[&str], between: Duration, on_delta: OnDelta<'_>) {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            pause(between).await;
        }
        on_delta(Delta::Text(word));
    }
}

/// No timer is armed for no delay, so that scenarios run at full speed.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
