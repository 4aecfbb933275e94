//! One contestant of a contest between processes: it does what it is told on its input, a line at a time, and answers
//! each line with one of its own. Several of them, told the same thing at the same moment, race.
//!
//! `racer ROLE STORE SESSION`. The roles that race are told `look` and `go`, and those that admit turns `finish` too.
//! Most use the doors as every client does; the [`control`]s break a rule that the doors keep, and exist to be caught.

#![expect(clippy::unwrap_used, reason = "a contestant fails its contest by panicking")]
#![expect(clippy::print_stdout, reason = "its output is how it answers")]

mod control;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    CallOutcome, Capability, CapabilitySet, Digest, Effect, InputText, ModelCall, ModelName, Seq, SessionId,
    SessionState, TokenUsage, TurnNumber, TurnOutcome, TurnTrigger,
};
use policy::{CallGrant, Permission};
use runtime::{AdmittedTurn, CallResult, Inspection, Prompt, Recovery, Scope, Sessions, UserDoor};
use store::{ExecuteError, Store, StoreUrl, SystemClock};

/// Events read at once.
const PAGE: usize = 100;
/// The answer to `look`.
const LOOKED: &str = "looked";
/// The answer to `finish`.
const FINISHED: &str = "finished";
/// What a turn of a racer says.
const SAID: &str = "One step further.";

/// A process at a session.
struct Racer {
    store: Store,
    sessions: Sessions,
    user: UserDoor,
    session: SessionId,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [role, path, session] = arguments.as_slice() else { panic!("racer ROLE STORE SESSION") };
    let url: StoreUrl = path.parse().unwrap();
    let store = Store::open_existing(&url, Arc::new(SystemClock)).await.unwrap();
    let (sessions, user) = runtime::open(store.clone(), "racer".parse().unwrap());
    let racer = Racer { store, sessions, user, session: session.parse().unwrap() };
    match role.as_str() {
        "admit" => racer.admit().await,
        "admit-and-die" => racer.admit_and_die().await,
        "recover" => racer.recover().await,
        "write" => racer.write().await,
        "watch" => racer.watch().await,
        _ => racer.control(role).await,
    }
}

fn say(answer: &str) {
    println!("{answer}");
}

/// The next line of the input; `None` when whoever gave orders is gone.
fn told() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).unwrap();
    (read > 0).then(|| line.trim_end().to_owned())
}

impl Racer {
    async fn admitted(&self) -> Result<AdmittedTurn, ExecuteError> {
        let model: ModelName = "racer".parse().unwrap();
        self.sessions.admit(self.session, &model, Scope::All, tests::MOST_REQUESTS).await
    }

    /// As every client does it.
    async fn admit(&self) {
        let mut turn = None;
        say("ready");
        while let Some(order) = told() {
            match order.as_str() {
                "look" => {
                    self.sessions.next(self.session).await.unwrap();
                    say(LOOKED);
                }
                "go" => match self.admitted().await {
                    Ok(admitted) => {
                        say(&admission(admitted.state(), admitted.number()));
                        turn = Some(admitted);
                    }
                    Err(refused) => say(&refusal(&refused)),
                },
                "finish" => match turn.take() {
                    Some(turn) => say(&finish(turn)
                        .await
                        .map_or_else(|error| refusal(&error), |()| FINISHED.to_owned())),
                    None => say(FINISHED),
                },
                other => panic!("no order `{other}`"),
            }
        }
    }

    /// Admits a turn and ends without a word, as a worker does that is killed.
    async fn admit_and_die(&self) {
        self.admitted().await.unwrap();
        std::process::exit(0);
    }

    /// Recovers what runs.
    async fn recover(&self) {
        say("ready");
        while let Some(order) = told() {
            if order == "look" {
                self.sessions.next(self.session).await.unwrap();
                say(LOOKED);
                continue;
            }
            say(match self.sessions.recover(self.session, &NoFiles).await.unwrap() {
                Recovery::Recovered { .. } => "recovered",
                Recovery::OwnerIsAlive { .. } => "alive",
                Recovery::NothingRuns => "nothing runs",
            });
        }
    }

    /// Queues an input each time it is told to, and says its number once it is durable.
    async fn write(&self) {
        say("ready");
        while let Some(text) = told() {
            say(&self.submit(&text).await.to_string());
        }
    }

    async fn submit(&self, text: &str) -> Seq {
        let prompt = Prompt::queued(InputText::parse(text).unwrap());
        self.user.submit(self.session, prompt, None).await.unwrap().0
    }

    /// Follows the log by its cursor and says each event's number; the watch only tells it when to look.
    async fn watch(&self) {
        let mut watch = self.store.watch();
        let mut after = Seq(0);
        loop {
            watch.changed().await;
            loop {
                let page = self.store.events_after(self.session, after, PAGE).await.unwrap();
                page.events.iter().for_each(|event| say(&event.seq.to_string()));
                after = page.next;
                if !page.has_more {
                    break;
                }
            }
        }
    }
}

/// A turn as the racers run it: it changes a file, which is progress, and says so.
async fn finish(mut turn: AdmittedTurn) -> Result<(), ExecuteError> {
    turn.begin_request(1).await?;
    turn.record_response(SAID.to_owned(), vec![asked()], TokenUsage::default()).await?;
    let call = turn.call(0);
    turn.admit_call(call, grant(), effect(turn.number())).await?;
    turn.finish_call(call, CallResult::plain(CallOutcome::Succeeded, "written")).await?;
    turn.begin_request(1).await?;
    turn.record_response(SAID.to_owned(), Vec::new(), TokenUsage::default()).await?;
    assert_eq!(turn.finish(TurnOutcome::Completed).await?, TurnOutcome::Completed);
    Ok(())
}

fn asked() -> ModelCall {
    ModelCall { tool: "write_file".to_owned(), arguments: "{}".to_owned() }
}

fn grant() -> CallGrant {
    let grant = CapabilitySet::of(&[Capability::WriteWorkspace]);
    CallGrant { requires: grant, grant, tool_is_allowed: true, permission: Permission::Allow }
}

/// The file of a turn. It is told and not done: what is contested is the log.
fn effect(turn: TurnNumber) -> Effect {
    Effect::FileWrite {
        path: format!("turn-{turn}"),
        before: None,
        after: store::digest(turn.to_string().as_bytes()),
    }
}

/// What a racer says of a turn it was admitted for: its number and its continuation's.
fn admission(state: &SessionState, turn: TurnNumber) -> String {
    match &state.running(turn).unwrap().1.trigger {
        TurnTrigger::Goal { continuation, .. } => format!("admitted {turn} {continuation}"),
        TurnTrigger::Input { .. } => panic!("the contest is about a Goal"),
    }
}

fn refusal(error: &ExecuteError) -> String {
    match error {
        ExecuteError::Rejected(rejection) => format!("refused {}", rejection.code.name()),
        ExecuteError::Fault(fault) => panic!("{fault}"),
    }
}

/// Nobody wrote a file.
struct NoFiles;

#[async_trait]
impl Inspection for NoFiles {
    async fn file_digest(&self, path: &str) -> std::io::Result<Option<Digest>> {
        panic!("nobody wrote {path}")
    }

    async fn file_version(&self, path: &str) -> std::io::Result<Option<Digest>> {
        panic!("nobody waits for {path}")
    }
}
