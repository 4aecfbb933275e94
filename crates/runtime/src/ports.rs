//! The two ports to the outside world: a model that answers and tools that act.
//!
//! Adapters (`models`, `tools`) implement them and know nothing of sessions, plans or Goals. The turn loop calls
//! them; dropping the future of [`Model::respond`] cancels a request, a [`PreparedCall`] is stopped by its token.

use std::borrow::Cow;

use async_trait::async_trait;
use domain::{CapabilitySet, CommandTitle, Digest, Effect, Failure, ModelName, TokenUsage};
use tokio_util::sync::CancellationToken;

use crate::sight::Sight;

/// A language model behind one configured name.
#[async_trait]
pub trait Model: Send + Sync {
    /// The key of its `[models.NAME]` table.
    fn name(&self) -> &ModelName;

    /// The size of its context window in tokens, used to estimate and to refuse what cannot fit.
    fn context_tokens(&self) -> u64;

    /// Sends one request and returns the complete answer. Text is also handed to `on_delta` as it arrives.
    ///
    /// An answer that was cut off is a [`Failure`], never a shorter answer (T6). The adapter makes exactly one
    /// attempt: retries belong to the turn loop (T9).
    async fn respond(
        &self,
        request: &ModelRequest,
        on_delta: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure>;
}

/// A piece of a streaming answer. Not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// Text of the model's reasoning, shown and then forgotten.
    Reasoning(&'a str),
}

/// One request: tools, system text and history are a byte prefix of the next request's (V3).
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: String,
    /// The tools on offer, in a stable order.
    pub tools: Vec<ToolSpec>,
    /// The transcript so far.
    pub history: Vec<Message>,
    /// The work-state section, sent after the history as one user message and never stored (V1, V3). May be empty.
    pub work_state: String,
}

/// An entry of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What a person wrote, or the line that opens a Goal continuation.
    User {
        /// The text.
        text: String,
    },
    /// A complete answer of the model.
    Assistant {
        /// Its text; may be empty when there are calls.
        text: String,
        /// Its calls in order.
        calls: Vec<HistoryCall>,
    },
    /// The result of one call of the assistant message before it.
    ToolResult {
        /// The id of the call, as in [`HistoryCall::id`].
        call_id: String,
        /// The tool's name.
        tool: String,
        /// What the tool answered.
        text: String,
    },
}

/// A call as it stands in the history. Its id is made from the turn, request and index, because models repeat theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCall {
    /// Unique in the session: `call_TURN_REQUEST_INDEX`.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them: JSON text, possibly malformed.
    pub arguments: String,
}

/// A complete answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelResponse {
    /// The text.
    pub text: String,
    /// The calls in order.
    pub calls: Vec<RequestedCall>,
    /// What it cost, if the provider said so.
    pub usage: Option<TokenUsage>,
}

/// A call the model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedCall {
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them: JSON text, possibly malformed. An empty text stands for `{}`.
    pub arguments: String,
}

/// What the model is told about a tool, and what running it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name: lower case, digits, `_` and `-`.
    pub name: Cow<'static, str>,
    /// What it does and how to call it, for the model.
    pub description: Cow<'static, str>,
    /// JSON Schema of the arguments, with `additionalProperties: false`.
    pub input_schema: serde_json::Value,
    /// Every capability a call needs (C2).
    pub requires: CapabilitySet,
}

/// A tool that acts on the outside world.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Its description; the same value at every call.
    fn spec(&self) -> &ToolSpec;

    /// What people call the tool of another program, in rules and lists: `server/tool`. `None` for one of our own.
    ///
    /// Such a tool is denied unless a rule grants exactly this name, and is neither offered nor prepared before (C2).
    fn of_server(&self) -> Option<&str> {
        None
    }

    /// Decodes the arguments and looks at what the call is about to do, changing nothing.
    ///
    /// Runs before the call is admitted, so that the admission can record the [`Effect`].
    async fn prepare(&self, arguments: serde_json::Value) -> Result<Box<dyn PreparedCall>, ToolFault>;
}

/// A decoded call, ready to run once it is admitted.
#[async_trait]
pub trait PreparedCall: Send {
    /// What running it may change.
    fn effect(&self) -> Effect;

    /// What the permission rules look at (C2).
    fn subject(&self) -> CallSubject;

    /// The capabilities that this call needs besides those of its tool (C2).
    fn needs_also(&self) -> CapabilitySet {
        CapabilitySet::of(&[])
    }

    /// Says what of the workspace it may show besides the paths of its subject (C2). Comes before [`Self::run`]; a
    /// call that shows nothing else need not listen.
    fn narrow(&mut self, sight: Sight) {
        drop(sight);
    }

    /// How a call that goes on beside turns is shown; `None` for one whose turn waits for it.
    fn background(&self) -> Option<CommandTitle> {
        None
    }

    /// Runs to its end, or until `stop` is cancelled: then it undoes nothing, kills and reaps what it started and
    /// answers with [`ToolOutput::stopped`] set.
    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput;
}

/// What a call is about, for the permission rules and for the person who is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSubject {
    /// What it reads or writes, links followed: from the workspace root (`.` is the root), else absolute.
    pub paths: Vec<String>,
    /// The shell text it runs.
    pub command: Option<String>,
}

/// What a call answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// For the model. The tool bounds what it gathers; the turn loop shortens what the model sees of it.
    pub text: String,
    /// Whether it did what was asked. A command that exits with another code than 0 did not.
    pub succeeded: bool,
    /// Whether it was stopped by its token, with everything it started reaped.
    pub stopped: bool,
    /// Whether nobody can tell what it did: a call that cannot be looked at broke off from outside (T7).
    pub uncertain: bool,
    /// The exit status of a command that ran to its end.
    pub exit_status: Option<i32>,
}

impl ToolOutput {
    /// A success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { succeeded: true, ..Self::failed(text) }
    }

    /// A failure the model should read.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), succeeded: false, stopped: false, uncertain: false, exit_status: None }
    }

    /// Cut off by its token; everything it started is gone.
    pub fn stopped(text: impl Into<String>) -> Self {
        Self { stopped: true, ..Self::failed(text) }
    }

    /// Broken off from outside, with an effect that may or may not be there.
    pub fn uncertain(text: impl Into<String>) -> Self {
        Self { uncertain: true, ..Self::failed(text) }
    }
}

/// A call that could not be prepared; nothing happened. The text repairs the call in one try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFault {
    /// The arguments do not fit the schema.
    #[error("invalid arguments: {0}")]
    Arguments(String),
    /// The arguments are well-formed but cannot be done, such as a path outside the workspace.
    #[error("{0}")]
    Refused(String),
}

/// Looks at the workspace on behalf of recovery (T7) or of a wait (G10).
#[async_trait]
pub trait Inspection: Send + Sync {
    /// The digest of the file at this path beneath the workspace root; `None` if there is none. Also removes what
    /// a write cut off in the middle left beside it.
    async fn file_digest(&self, path: &str) -> std::io::Result<Option<Digest>>;

    /// What tells one content of the file at this path from another, changing nothing; `None` if there is none. Cheap
    /// enough to be asked every few seconds, whatever the size of the file (G10).
    async fn file_version(&self, path: &str) -> std::io::Result<Option<Digest>>;
}
