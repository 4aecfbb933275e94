//! A model at a provider, spoken to over HTTP in one of five protocols.
//!
//! The wire formats are genai's. What it leaves open is decided here: the end of an answer, the kind of a failure, and
//! what it would drop without a word (see `witness`).

mod answer;
mod failure;
mod http_date;
mod reads;
mod request;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;
mod witness;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, ModelName};
use futures_util::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{CacheControl, ChatOptions, ChatStreamEvent, ReasoningEffort};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget, WebConfig};
use reqwest::redirect::Policy;
use runtime::{Delta, Model, ModelRequest, ModelResponse};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::OnDelta;
use crate::error::SettingsError;
use failure::{Finding, Scene};
use reads::Most;
use witness::Witness;

/// The wire format a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// `POST …/chat/completions`, which most servers speak.
    OpenaiChat,
    /// `POST …/responses`.
    OpenaiResponses,
    /// `POST …/messages`.
    Anthropic,
    /// `POST …/models/MODEL:streamGenerateContent`.
    Gemini,
    /// `POST …/api/chat`.
    Ollama,
}

impl Protocol {
    /// The name used in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    const fn adapter(self) -> AdapterKind {
        match self {
            Self::OpenaiChat => AdapterKind::OpenAI,
            Self::OpenaiResponses => AdapterKind::OpenAIResp,
            Self::Anthropic => AdapterKind::Anthropic,
            Self::Gemini => AdapterKind::Gemini,
            Self::Ollama => AdapterKind::Ollama,
        }
    }

    /// Where the provider itself listens, for tables without a `base_url`.
    const fn home(self) -> &'static str {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }
}

/// Everything a [`RemoteModel`] is made of. The key is not shown by `Debug`.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// The key of its `[models.NAME]` table.
    pub name: ModelName,
    /// What the server speaks.
    pub protocol: Protocol,
    /// The provider's name of the model, sent as it is.
    pub model: String,
    /// Where the server listens, up to the protocol's own path; with or without a slash at its end. Without one, the
    /// provider itself.
    pub base_url: Option<String>,
    /// The key. Without one a server that asks for none is assumed.
    pub api_key: Option<SecretString>,
    /// The size of the context window in tokens.
    pub context_tokens: u64,
}

/// How long a silent or slow server is waited for, and how much one may send. Waiting shows as a failed turn at worst: nothing is lost by it.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// To connect. An unreachable host otherwise takes the system's two minutes.
    connect: Duration,
    /// For the first byte of the answer: servers that read the prompt before they send headers need minutes for a
    /// large prompt on a small machine.
    first_byte: Duration,
    /// Between two reads. Providers send keep-alives every 15 s or so, the slowest local model a token in seconds; a
    /// connection that died without a word is noticed by nothing else.
    idle: Duration,
    /// For the whole answer: keep-alives alone must not hold a turn for ever, and no answer takes an hour.
    answer: Duration,
    /// Reads from the network for one part of the answer, or for the body of an error. A read is a packet at least, so
    /// this lets half a megabyte through on the slowest line, twice the largest honest part, which is a whole answer
    /// repeated at its end. It is 400 KB at most, and some 20 KB in fact: what is kept of a part without end is small.
    ///
    /// The work on a part is timed besides: an honest one takes some milliseconds, and more than this is a processor
    /// lost to a server's whim.
    part: Most,
}

impl Patience {
    const USUAL: Self = Self {
        connect: Duration::from_secs(20),
        first_byte: Duration::from_mins(10),
        idle: Duration::from_mins(2),
        answer: Duration::from_hours(1),
        part: Most { reads: 512, work: Duration::from_secs(5) },
    };
}

/// What is sent where a key belongs when there is none: servers without keys ignore it, others answer 401.
const NO_KEY: &str = "none";

/// The shortest key that is kept out of messages. Real ones are several times as long; what people write where a server
/// asks for none, such as `x`, is no secret, and without it a message would lose its words.
const SECRET_BYTES: usize = 8;

/// A model at a provider.
#[derive(Clone)]
pub struct RemoteModel {
    name: ModelName,
    protocol: Protocol,
    model: String,
    endpoint: Endpoint,
    api_key: Option<SecretString>,
    context_tokens: u64,
    client: Client,
    reader: &'static Handle,
    patience: Patience,
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteModel")
            .field("name", &self.name)
            .field("protocol", &self.protocol)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl RemoteModel {
    /// Checks the settings and sets up the HTTP client. Sends nothing.
    pub fn new(settings: RemoteSettings) -> Result<Self, SettingsError> {
        Self::with_patience(settings, Patience::USUAL)
    }

    /// The same model with a server that may send nothing for this long: otherwise ten minutes until its answer
    /// begins, and two within it.
    #[must_use]
    pub const fn with_idle(mut self, idle: Duration) -> Self {
        self.patience.first_byte = idle;
        self.patience.idle = idle;
        self
    }

    fn with_patience(settings: RemoteSettings, patience: Patience) -> Result<Self, SettingsError> {
        let RemoteSettings { name, protocol, model, base_url, api_key, context_tokens } = settings;
        if model.trim().is_empty() {
            return Err(SettingsError::Missing { name, field: "model", protocol: protocol.name() });
        }
        if context_tokens == 0 {
            return Err(SettingsError::NoContext { name });
        }
        let endpoint = match base_url {
            None => Endpoint::from_static(protocol.home()),
            Some(url) => match with_trailing_slash(url.trim()) {
                Ok(url) => Endpoint::from_owned(url),
                Err(problem) => return Err(SettingsError::BaseUrl { name, problem }),
            },
        };
        let api_key = match api_key.map(|key| header_safe(&key)) {
            Some(None) => return Err(SettingsError::UnusableKey { name }),
            Some(key) => key,
            None => None,
        };
        // Unpacked, a few packets could fill the memory; answers come uncompressed anyway.
        let web = WebConfig { gzip: false, ..WebConfig::default() }.with_connect_timeout(patience.connect);
        let http = web.apply_to_builder(reqwest::Client::builder()).no_gzip().redirect(Policy::none());
        let (http, reader) = match (http.build(), reads::thread()) {
            (Ok(http), Ok(reader)) => (http, reader),
            (Err(cause), _) => return Err(SettingsError::Client { name, cause: cause.to_string() }),
            (_, Err(cause)) => return Err(SettingsError::Client { name, cause }),
        };
        let client = match Client::builder().with_reqwest(http).build() {
            Ok(client) => client,
            Err(cause) => return Err(SettingsError::Client { name, cause: cause.to_string() }),
        };
        Ok(Self { name, protocol, model, endpoint, api_key, context_tokens, client, reader, patience })
    }

    /// Endpoint, key and model are always given, so genai neither guesses a provider from the model's name nor looks
    /// for a key in the environment.
    fn target(&self) -> ServiceTarget {
        let key = self.api_key.as_ref().map_or(NO_KEY, ExposeSecret::expose_secret);
        // genai takes what stands before `::` for a provider and cuts it off; one more prefix is what it cuts off then.
        let model =
            if self.model.contains("::") { format!("zuno::{}", self.model) } else { self.model.clone() };
        ServiceTarget {
            endpoint: self.endpoint.clone(),
            auth: AuthData::from_single(key),
            model: ModelIden::new(self.protocol.adapter(), model),
        }
    }

    fn options(&self, witness: &Arc<Witness>) -> ChatOptions {
        let options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_content(true)
            // In the chat protocol genai makes room for as many calls as an index says; they are the witness's there.
            .with_capture_tool_calls(self.protocol != Protocol::OpenaiChat)
            .with_stream_header_timeout(self.patience.first_byte)
            .with_stream_read_timeout(self.patience.idle)
            .with_raw_frame_sink_arc(Arc::<Witness>::clone(witness));
        match self.protocol {
            // Both options put nothing into the request. A token budget for reasoning does not exist here, so giving
            // one keeps genai from taking a model name's `-high` or `-max` for an effort and cutting it off. Five
            // minutes are the provider's own lifetime of a cache; left out, genai turns caching off for newer models.
            Protocol::OpenaiChat | Protocol::OpenaiResponses => options
                .with_reasoning_effort(ReasoningEffort::Budget(0))
                .with_cache_control(CacheControl::Ephemeral5m),
            Protocol::Anthropic | Protocol::Gemini | Protocol::Ollama => options,
        }
    }

    /// Has the answer read on the thread of the readers, and shows the pieces as they come. Dropped, it ends the request.
    async fn read(
        &self,
        request: &ModelRequest,
        on_delta: OnDelta<'_>,
        witness: &Arc<Witness>,
    ) -> Result<ModelResponse, Finding> {
        let (pieces, mut arriving) = mpsc::unbounded_channel();
        let (model, request, seen) = (self.clone(), request.clone(), Arc::clone(witness));
        let mut reading = JoinSet::new();
        reading.spawn_on(
            async move {
                // Nobody listens to a request that was given up.
                let show = move |delta: Delta<'_>| drop(pieces.send(Piece::from(delta)));
                model.exchange(&request, &show, &seen).await
            },
            self.reader,
        );
        while let Some(piece) = arriving.recv().await {
            on_delta(piece.as_delta());
        }
        match reading.join_next().await {
            Some(Ok(outcome)) => outcome,
            Some(Err(fault)) if fault.is_panic() => std::panic::resume_unwind(fault.into_panic()),
            // The thread ends with the process.
            Some(Err(_)) | None => Err(self.scene(witness).of_early_end()),
        }
    }

    /// One request and its whole answer. genai logs error bodies, which may quote the key: it runs without a
    /// subscriber.
    async fn exchange(
        &self,
        request: &ModelRequest,
        on_delta: OnDelta<'_>,
        witness: &Arc<Witness>,
    ) -> Result<ModelResponse, Finding> {
        let scene = self.scene(witness);
        let options = self.options(witness);
        let stream = self
            .client
            .exec_chat_stream(self.target(), request::chat_request(request), Some(&options))
            .with_subscriber(NoSubscriber::default())
            .await
            .map_err(|error| scene.of_error(&error))?
            .stream;
        let mut stream = reads::counted(stream, witness, self.patience.part);
        let mut text = String::new();
        loop {
            let event = stream.next().with_subscriber(NoSubscriber::default()).await;
            if let Some(finding) = scene.of_frames() {
                return Err(finding);
            }
            match event {
                Some(Ok(Ok(ChatStreamEvent::Chunk(chunk)))) => {
                    witness.show(&chunk.content);
                    on_delta(Delta::Text(&chunk.content));
                    text.push_str(&chunk.content);
                }
                Some(Ok(Ok(ChatStreamEvent::ReasoningChunk(chunk)))) => {
                    witness.show(&chunk.content);
                    on_delta(Delta::Reasoning(&chunk.content));
                }
                Some(Ok(Ok(ChatStreamEvent::End(end)))) => {
                    return answer::complete(text, &end, &scene, self.protocol, self.context_tokens);
                }
                Some(Ok(Ok(
                    ChatStreamEvent::Start
                    | ChatStreamEvent::ToolCallChunk(_)
                    | ChatStreamEvent::ThoughtSignatureChunk(_)
                    | ChatStreamEvent::Heartbeat,
                ))) => {}
                Some(Ok(Err(error))) => return Err(scene.of_error(&error)),
                Some(Err(reads::Endless)) => return Err(scene.of_endless_part()),
                None => return Err(scene.of_early_end()),
            }
        }
    }

    fn scene<'a>(&'a self, witness: &'a Witness) -> Scene<'a> {
        let url = self.endpoint.base_url();
        let server = url.split_once("://").map_or(url, |(_, rest)| rest);
        let server = server.split(['/', '?', '#']).next().unwrap_or_default();
        Scene { witness, patience: &self.patience, server }
    }

    /// Makes a finding a failure, with the model's name and what was spent, and without the key.
    fn failure(&self, finding: &Finding, witness: &Witness) -> Failure {
        let mut detail = format!("model `{}`: {}", self.name, finding.detail);
        let key = self.api_key.as_ref().filter(|key| key.expose_secret().len() >= SECRET_BYTES);
        if let Some(key) = key {
            detail = detail.replace(key.expose_secret(), "[key]");
        }
        let (retry_after_ms, usage) = (finding.retry_after_ms, witness.spent());
        Failure { retry_after_ms, usage, ..Failure::new(finding.kind, detail) }
    }
}

/// A [`Delta`] on its way between threads.
enum Piece {
    Text(String),
    Reasoning(String),
}

impl From<Delta<'_>> for Piece {
    fn from(delta: Delta<'_>) -> Self {
        match delta {
            Delta::Text(text) => Self::Text(text.to_owned()),
            Delta::Reasoning(text) => Self::Reasoning(text.to_owned()),
        }
    }
}

impl Piece {
    fn as_delta(&self) -> Delta<'_> {
        match self {
            Self::Text(text) => Delta::Text(text),
            Self::Reasoning(text) => Delta::Reasoning(text),
        }
    }
}

#[async_trait]
impl Model for RemoteModel {
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
        let witness = Arc::new(Witness::new(self.protocol));
        let outcome = tokio::time::timeout(self.patience.answer, self.read(request, on_delta, &witness))
            .await
            .unwrap_or_else(|_| Err(self.scene(&witness).of_long_answer()));
        let outcome = outcome.map_err(|finding| self.failure(&finding, &witness));
        if let Err(failure) = &outcome {
            tracing::debug!(model = %self.name, %failure, "model request failed");
        }
        outcome
    }
}

/// Joining a path to an address drops what stands after its last slash, so there must be nothing.
fn with_trailing_slash(url: &str) -> Result<String, &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("must start with http:// or https://");
    };
    if !matches!(scheme, "http" | "https") {
        return Err("must start with http:// or https://");
    }
    if rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("has white space in it");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err("names no host");
    }
    // An address is shown in messages; a key in it would be, too.
    if authority.contains('@') {
        return Err("must not carry a user or password: use api_key_env");
    }
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let slash = if path.ends_with('/') { "" } else { "/" };
    Ok(match query {
        Some(query) => format!("{path}{slash}?{query}"),
        None => format!("{path}{slash}"),
    })
}

/// The key without the line break that files and shells leave around it; `None` if it still is no key.
fn header_safe(key: &SecretString) -> Option<SecretString> {
    let key = key.expose_secret().trim();
    (!key.is_empty() && key.chars().all(|c| c.is_ascii_graphic())).then(|| SecretString::from(key))
}
