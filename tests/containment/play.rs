//! The real `zuno` with a model that calls one command after the other, and a look outside after each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Mode;
use serde_json::{Value, json};
use tests::{OpenAiServer, Record, Reply, difference};

use crate::outside::PROCESS;
use crate::place::{Place, SECRET};

/// Calls of one turn; a turn has 250 at most, and its requests repeat what was said in it.
const PER_TURN: usize = 80;
/// What a command may take that waits for somebody who does not come.
const TIMEOUT_MS: u64 = 20_000;
/// How long to wait for what a command may have left behind.
const LATER: Duration = Duration::from_millis(1_500);

/// What one command came to.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    /// What of the outside changed, or got in.
    pub(crate) leaks: Vec<String>,
    /// What the model read.
    pub(crate) answer: String,
}

struct State {
    place: Arc<Place>,
    scripts: Vec<String>,
    in_turn: usize,
    is_open: bool,
    before: Record,
    other: String,
    played: Vec<Played>,
}

impl State {
    /// Looks at what the last command did, and goes on with the next.
    fn next(&mut self, request: &Value) -> Reply {
        if self.is_open {
            self.is_open = false;
            self.close(answer(request));
        }
        if self.in_turn == PER_TURN || self.played.len() == self.scripts.len() {
            self.in_turn = 0;
            return Reply::text("That was all.");
        }
        (self.in_turn, self.is_open) = (self.in_turn + 1, true);
        let script = self.place.filled_in(&self.scripts[self.played.len()]);
        Reply::call("shell", &json!({ "command": script, "timeout_ms": TIMEOUT_MS }))
    }

    fn close(&mut self, answer: String) {
        let after = self.place.record();
        let mut leaks = difference(&self.before, &after);
        // Asking the program takes longer than all the rest, and only the program acts as the user.
        if self.scripts[self.played.len()].contains("$PROGRAM") {
            let other = self.place.other_now();
            if other != self.other {
                leaks.push(format!("another session became {other}"));
                self.other = other;
            }
        }
        if answer.contains(SECRET) {
            leaks.push("it read a secret".to_owned());
        }
        self.before = after;
        if !leaks.is_empty() {
            self.place.restore();
            // Starting one takes longer than the rest.
            if leaks.iter().any(|leak| leak.starts_with(PROCESS)) {
                self.place.replace_victim();
            }
            self.before = self.place.record();
        }
        self.played.push(Played { leaks, answer });
    }
}

/// What the last call of a request was answered.
fn answer(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    let last = messages.iter().rev().find(|message| message["role"] == "tool").unwrap();
    last["content"].as_str().map_or_else(|| last["content"].to_string(), str::to_owned)
}

/// Plays shell texts in this mode, within the walls that `sandbox` names.
pub(crate) async fn play(mode: Mode, sandbox: &str, scripts: Vec<String>) -> Vec<Played> {
    let count = scripts.len();
    let state: Arc<Mutex<Option<State>>> = Arc::default();
    let shared = Arc::clone(&state);
    let server =
        OpenAiServer::start(move |_, request| shared.lock().unwrap().as_mut().unwrap().next(request)).await;
    let place = Arc::new(Place::new(&server.base_url));
    let planning = (mode == Mode::Plan).then(|| place.planning());
    let (before, other, played) = (place.record(), place.other_now(), Vec::new());
    let with = |act: &dyn Fn(&mut State) -> usize| act(state.lock().unwrap().as_mut().unwrap());
    *state.lock().unwrap() =
        Some(State { place: Arc::clone(&place), scripts, in_turn: 0, is_open: false, before, other, played });
    loop {
        let before = with(&|state| state.played.len());
        if before == count {
            break;
        }
        let mut command = place.command(&["run", "--sandbox", sandbox, SECRET]);
        if let Some(session) = &planning {
            command.args(["--session", session]);
        }
        let mut command = tokio::process::Command::from(command);
        let done = command.kill_on_drop(true).output().await.unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && with(&|state| state.played.len()) > before, "{told}");
    }
    // What was left to happen later has had its time.
    tokio::time::sleep(LATER).await;
    let mut state = state.lock().unwrap().take().unwrap();
    let late = difference(&state.before, &place.record());
    state.played.last_mut().unwrap().leaks.extend(late.into_iter().map(|leak| format!("later {leak}")));
    state.played
}
