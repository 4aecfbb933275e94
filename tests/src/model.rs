//! Models that say what a test wants them to say, and one that listens in.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{Failure, ModelName};
use models::ScriptedModel;
use runtime::{Delta, Model, ModelRequest, ModelResponse, RequestedCall};
use serde_json::Value;

use crate::gate::Gate;

/// The context window of these models: room for every test.
const CONTEXT_TOKENS: u64 = 200_000;

fn name() -> ModelName {
    "scripted".parse().unwrap()
}

/// A model that plays a scenario.
pub fn scripted(toml: &str) -> Arc<dyn Model> {
    Arc::new(ScriptedModel::from_toml(name(), toml).unwrap())
}

/// A model whose answer is a function of the number of the request, from 1, and of the request itself.
pub fn answering(
    answer: impl Fn(usize, &ModelRequest) -> Result<ModelResponse, Failure> + Send + Sync + 'static,
) -> Arc<dyn Model> {
    Arc::new(Answering { name: name(), asked: Mutex::default(), answer: Box::new(answer) })
}

/// An answer that ends a turn.
pub fn text(text: &str) -> ModelResponse {
    ModelResponse { text: text.to_owned(), ..ModelResponse::default() }
}

/// An answer with one call.
pub fn call(tool: &str, arguments: &Value) -> ModelResponse {
    calls(&[(tool, arguments.to_string())])
}

/// An answer with calls; the arguments are sent as they are.
pub fn calls(calls: &[(&str, String)]) -> ModelResponse {
    let call = |(tool, arguments): &(&str, String)| RequestedCall {
        tool: (*tool).to_owned(),
        arguments: arguments.clone(),
    };
    ModelResponse { calls: calls.iter().map(call).collect(), ..ModelResponse::default() }
}

type Answer = dyn Fn(usize, &ModelRequest) -> Result<ModelResponse, Failure> + Send + Sync;

struct Answering {
    name: ModelName,
    asked: Mutex<usize>,
    answer: Box<Answer>,
}

#[async_trait]
impl Model for Answering {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn context_tokens(&self) -> u64 {
        CONTEXT_TOKENS
    }

    async fn respond(
        &self,
        request: &ModelRequest,
        on_delta: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure> {
        let number = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let response = (self.answer)(number, request)?;
        if !response.text.is_empty() {
            on_delta(Delta::Text(&response.text));
        }
        Ok(response)
    }
}

/// A model that keeps what it is asked, and may wait at a gate before it passes the question on.
pub struct Probe {
    inner: Arc<dyn Model>,
    gate: Option<Gate>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Probe {
    /// Listens in on a model.
    pub fn on(inner: Arc<dyn Model>) -> Arc<Self> {
        Arc::new(Self { inner, gate: None, requests: Mutex::default() })
    }

    /// Listens in, and holds every request at the gate.
    pub fn gated(inner: Arc<dyn Model>, gate: &Gate) -> Arc<Self> {
        Arc::new(Self { inner, gate: Some(gate.clone()), requests: Mutex::default() })
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

#[async_trait]
impl Model for Probe {
    fn name(&self) -> &ModelName {
        self.inner.name()
    }

    fn context_tokens(&self) -> u64 {
        self.inner.context_tokens()
    }

    async fn respond(
        &self,
        request: &ModelRequest,
        on_delta: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure> {
        self.requests.lock().unwrap().push(request.clone());
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        self.inner.respond(request, on_delta).await
    }
}

/// Hands a model requests without any prompt: no system text, no tools, no work state.
pub struct Unprompted {
    /// The model.
    pub inner: Arc<dyn Model>,
}

#[async_trait]
impl Model for Unprompted {
    fn name(&self) -> &ModelName {
        self.inner.name()
    }

    fn context_tokens(&self) -> u64 {
        self.inner.context_tokens()
    }

    async fn respond(
        &self,
        request: &ModelRequest,
        on_delta: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure> {
        let bare = ModelRequest {
            system: String::new(),
            tools: Vec::new(),
            work_state: String::new(),
            history: request.history.clone(),
        };
        self.inner.respond(&bare, on_delta).await
    }
}
