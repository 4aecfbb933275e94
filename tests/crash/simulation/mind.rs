//! Models that answer by chance: one of a history, which does everything, and one that wants to be done.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{CommandId, Failure, FailureKind, LaneId, ModelName, SessionState, TokenUsage};
use runtime::{Delta, Message, Model, ModelRequest, ModelResponse, RequestedCall};
use serde_json::{Value, json};
use tests::{call, text};

use super::chance::Chance;
use super::effects::{FORBIDDEN, Park, SEND};
use super::person::next_plan;
use super::site::text_of;

/// The context window: room for every history.
const CONTEXT_TOKENS: u64 = 2_000_000;
/// The files that models write.
const FILES: [&str; 3] = ["a.txt", "b.txt", "c.txt"];

/// What the models of one history share: their chance, and what they know of the session.
pub(crate) struct Shared {
    chance: Chance,
    /// How the tokens of this history begin.
    prefix: &'static str,
    tokens: u64,
    knows: Option<SessionState>,
    /// Whether requests may still fail.
    is_calm: bool,
}

impl Shared {
    pub(crate) fn new(prefix: &'static str, chance: Chance) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { chance, prefix, tokens: 0, knows: None, is_calm: false }))
    }

    /// Tells the models where the session stands.
    pub(crate) fn learn(&mut self, state: &SessionState) {
        self.knows = Some(state.clone());
    }

    /// From here on no request fails.
    pub(crate) const fn calm(&mut self) {
        self.is_calm = true;
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("{}{}", self.prefix, self.tokens)
    }

    fn has_active_goal(&self) -> bool {
        let core = self.knows.as_ref().map(|state| &state.core);
        core.and_then(|core| core.goal.as_ref()).is_some_and(domain::Goal::is_active)
    }

    fn usage(&mut self) -> Option<TokenUsage> {
        let of = |input, output| TokenUsage { input, output, cached_input: 70, estimated: false };
        match self.chance.below(12) {
            0 | 1 => None,
            2 => Some(of(0, 0)),
            3 => Some(of(100_000, 3_000)),
            _ => Some(of(400, 100)),
        }
    }
}

/// A model of a history.
pub(crate) struct Mind {
    pub(crate) shared: Arc<Mutex<Shared>>,
    pub(crate) park: Arc<Park>,
    pub(crate) root: PathBuf,
    pub(crate) name: ModelName,
}

enum Answers {
    At(Result<ModelResponse, Failure>),
    /// Nothing for a while, then this.
    Late(ModelResponse),
}

#[async_trait]
impl Model for Mind {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn context_tokens(&self) -> u64 {
        CONTEXT_TOKENS
    }

    async fn respond(
        &self,
        _: &ModelRequest,
        _: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure> {
        let answers = self.answers(&mut self.shared.lock().unwrap());
        match answers {
            Answers::At(answer) => answer,
            Answers::Late(answer) => {
                self.park.wait().await;
                Ok(answer)
            }
        }
    }
}

impl Mind {
    fn answers(&self, shared: &mut Shared) -> Answers {
        match shared.chance.below(40) {
            0..=3 => Answers::At(Err(failure(&mut shared.chance))),
            4 => Answers::At(Ok(ModelResponse::default())),
            5 => Answers::Late(text("It took a while.")),
            6..=13 => Answers::At(Ok(ModelResponse { usage: shared.usage(), ..text("So it stands.") })),
            _ => {
                let count = 1 + shared.chance.below(3);
                let mut calls: Vec<_> = (0..count).map(|_| self.call(shared)).collect();
                // A command that runs beside the turn is started last: what the turn does next is then a commit.
                calls.sort_by_key(|call| call.tool == "watch");
                let usage = shared.usage();
                Answers::At(Ok(ModelResponse { calls, usage, ..ModelResponse::default() }))
            }
        }
    }

    fn call(&self, shared: &mut Shared) -> RequestedCall {
        let token = shared.token();
        let file = *shared.chance.pick(&FILES);
        let (tool, arguments) = match shared.chance.below(40) {
            0..=5 => ("write_file", json!({ "path": file, "content": token })),
            6..=8 => {
                let old = text_of(&self.root.join(file));
                ("edit_file", json!({ "path": file, "old_string": old, "new_string": token }))
            }
            9..=11 => ("read_file", json!({ "path": file })),
            12..=14 => ("append", json!({ "token": token })),
            15 | 16 => ("probe", json!({ "token": token })),
            17 | 18 => (SEND, json!({ "token": token })),
            19 => (FORBIDDEN, json!({ "token": token })),
            20 | 21 => ("watch", json!({ "token": token, "waits": shared.chance.one_in(3) })),
            22 => ("sleep", json!({ "token": token })),
            23..=26 => ("plan_update", plan(shared)),
            27 => ("plan_close", json!({ "expected_revision": 1, "reason": "It no longer applies" })),
            28 => ("goal_get", json!({})),
            29 | 30 => ("goal_update", json!({ "status": "completed", "summary": "It is reached" })),
            31 | 32 => ("goal_update", json!({ "status": "blocked", "summary": "Something is in the way" })),
            33 => ("goal_propose", json!({ "objective": "Reach more" })),
            34 | 35 => ("goal_wait", wait(shared, file)),
            36 | 37 => ("ask_user", json!({ "question": "Which one?", "options": ["this", "that"] })),
            38 => ("no_such_tool", json!({})),
            _ => {
                let arguments = "{ \"path\": ".to_owned();
                return RequestedCall { tool: "write_file".to_owned(), arguments };
            }
        };
        RequestedCall { tool: tool.to_owned(), arguments: arguments.to_string() }
    }
}

fn failure(chance: &mut Chance) -> Failure {
    let kind = *chance.pick(&FailureKind::ALL);
    let retry_after_ms = chance.one_in(3).then(|| *chance.pick(&[0, 700, 30_000, 900_000]));
    // Half of the failures are of a kind that passes, as outside.
    let kind = if chance.one_in(2) { FailureKind::ServerError } else { kind };
    Failure { retry_after_ms, ..Failure::new(kind, "by chance") }
}

fn plan(shared: &mut Shared) -> Value {
    let knows = shared.knows.clone();
    let current = knows.as_ref().and_then(|state| state.current_plan(&LaneId::main()));
    next_plan(current, &mut shared.chance)
}

fn wait(shared: &mut Shared, file: &str) -> Value {
    let command = shared.knows.as_ref().map_or(CommandId(0), |state| state.core.last_command);
    match shared.chance.below(4) {
        0 => json!({ "until": "time", "seconds": 600 }),
        1 => json!({ "until": "inbox", "seconds": 3_600 }),
        2 => json!({ "until": "file", "path": file, "seconds": 60 }),
        _ => json!({ "until": "command", "command": command.0, "seconds": 3_600 }),
    }
}

/// A model that does little and completes its Goal soon.
pub(crate) struct Finisher {
    pub(crate) shared: Arc<Mutex<Shared>>,
    pub(crate) name: ModelName,
}

#[async_trait]
impl Model for Finisher {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn context_tokens(&self) -> u64 {
        CONTEXT_TOKENS
    }

    async fn respond(
        &self,
        request: &ModelRequest,
        _: &(dyn for<'d> Fn(Delta<'d>) + Send + Sync),
    ) -> Result<ModelResponse, Failure> {
        let mut shared = self.shared.lock().unwrap();
        if !shared.is_calm && shared.chance.one_in(16) {
            return Err(Failure::new(FailureKind::ServerError, "by chance"));
        }
        let is_fresh = !matches!(request.history.last(), Some(Message::ToolResult { .. }));
        let completes = shared.has_active_goal() && !shared.chance.one_in(3);
        Ok(match request.history.last() {
            Some(Message::ToolResult { tool, .. }) if tool == "goal_update" => text("Reached."),
            _ if completes => call("goal_update", &json!({ "status": "completed" })),
            _ if is_fresh && shared.chance.one_in(2) => {
                let (token, tool) = (shared.token(), *shared.chance.pick(&["append", "probe"]));
                call(tool, &json!({ "token": token }))
            }
            _ => text("Done."),
        })
    }
}
