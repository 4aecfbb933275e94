//! One contestant of a contest between processes: it does what it is told on its input, a line at a time, and answers
//! each line with one of its own. Two of them, told the same thing at the same moment, race.
//!
//! `racer ROLE STORE SESSION`. The roles that admit turns are told `look`, `go` and `finish`; one of them uses the door
//! as every client does, and two are controls: they break a rule that the door keeps, and exist to be caught.

#![expect(clippy::unwrap_used, reason = "a contestant fails its contest by panicking")]
#![expect(clippy::print_stdout, reason = "its output is how it answers")]

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Digest, InputText, LaneId, Seq, SessionId, SessionState, TokenUsage, TurnNumber, TurnOutcome, TurnTrigger,
};
use policy::{Command, Facts, Jitter, Leases, Owner, RuntimeCommand};
use runtime::{AdmittedTurn, Evidence, Recovery, Sessions, UserDoor};
use store::{Ask, Committed, ExecuteError, Store, StoreUrl, SystemClock};

/// Events read at once.
const PAGE: usize = 100;

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
        "admit-on-what-it-saw-before" => racer.admit_without_lease(Sight::Before).await,
        "admit-without-the-lease" => racer.admit_without_lease(Sight::Blind).await,
        "admit-and-die" => racer.admit_and_die().await,
        "recover" => racer.recover().await,
        "write" => racer.write().await,
        "watch" => racer.watch().await,
        other => panic!("no role `{other}`"),
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

/// The answer to `finish`.
const FINISHED: &str = "finished";
/// What a turn of the racer says.
const SAID: &str = "One step further.";

impl Racer {
    /// As every client does it.
    async fn admit(&self) {
        let model = "racer".parse().unwrap();
        let mut turn = None;
        say("ready");
        while let Some(order) = told() {
            match order.as_str() {
                "look" => {
                    self.sessions.next(self.session).await.unwrap();
                    say("looked");
                }
                "go" => match self
                    .sessions
                    .admit(self.session, &model, runtime::Scope::All, tests::MOST_REQUESTS)
                    .await
                {
                    Ok(admitted) => {
                        let continuation = continuation(admitted.state(), admitted.number());
                        say(&format!("admitted {} {continuation}", admitted.number()));
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
        self.sessions
            .admit(self.session, &"racer".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
            .await
            .unwrap();
        std::process::exit(0);
    }

    /// Recovers what runs.
    async fn recover(&self) {
        say("ready");
        while told().is_some() {
            say(match self.sessions.recover(self.session, &NoFiles).await.unwrap() {
                Recovery::Recovered { .. } => "recovered",
                Recovery::OwnerIsAlive { .. } => "alive",
                Recovery::NothingRuns => "nothing runs",
            });
        }
    }

    /// Queues an input each time it is told to.
    async fn write(&self) {
        say("ready");
        while let Some(text) = told() {
            let text = InputText::parse(&text).unwrap();
            say(&self
                .user
                .submit(self.session, runtime::Prompt::queued(text), None)
                .await
                .unwrap()
                .0
                .to_string());
        }
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

/// What a control looks at before it admits a turn.
#[derive(Clone, Copy, PartialEq)]
enum Sight {
    /// At the state it read in an earlier transaction.
    Before,
    /// At the state of this transaction, but neither at the running turn nor at the lease.
    Blind,
}

impl Racer {
    /// A control. The rules are asked, but about a session in which nothing runs and nobody holds the lease.
    async fn admit_without_lease(&self, sight: Sight) {
        let mut seen = None;
        let mut turn = None;
        say("ready");
        while let Some(order) = told() {
            match order.as_str() {
                "look" => {
                    let head = self.store.head(self.session).await.unwrap().unwrap();
                    seen = Some(head.state).filter(|_| sight == Sight::Before);
                    say("looked");
                }
                "go" => match self.admit_as_if_alone(seen.clone()).await {
                    Ok(committed) => {
                        let number = committed.state.core.last_turn;
                        let continuation = continuation(&committed.state, number);
                        say(&format!("admitted {number} {continuation}"));
                        turn = Some(number);
                    }
                    Err(refused) => say(&refusal(&refused)),
                },
                "finish" => {
                    if let Some(turn) = turn.take() {
                        self.finish_if_it_runs(turn).await;
                    }
                    say(FINISHED);
                }
                other => panic!("no order `{other}`"),
            }
        }
    }

    async fn admit_as_if_alone(&self, seen: Option<Arc<SessionState>>) -> Result<Committed, ExecuteError> {
        let worker = "racer".parse().unwrap();
        let owner = Owner { worker, place: String::new(), pid: std::process::id(), started: 0 };
        let (lane, model) = (LaneId::main(), "racer".parse().unwrap());
        let (scope, max_requests) = (runtime::Scope::All, tests::MOST_REQUESTS);
        let admit = RuntimeCommand::AdmitTurn { lane, owner: owner.clone(), model, scope, max_requests };
        let decide = move |state: &SessionState, facts: &Facts| {
            let mut believed = seen.as_deref().unwrap_or(state).clone();
            // The store takes a decision for the head it stands at and for no other, so even this one has to name it.
            (believed.core.head, believed.core.last_at) = (state.core.head, state.core.last_at);
            believed.core.lanes.values_mut().for_each(|lane| lane.running = None);
            let facts = Facts { leases: Leases::default(), ..facts.clone() };
            policy::decide(&believed, Command::Runtime(&owner.worker, &admit), &facts)
        };
        self.store.execute(self.session, Ask::default(), decide).await
    }

    /// Ends a turn without the door. Of two turns in one lane only the last is known, so a refusal is no surprise.
    async fn finish_if_it_runs(&self, turn: TurnNumber) {
        let usage = TokenUsage::default();
        let commands = [
            RuntimeCommand::BeginRequest { turn, estimated_input: 1 },
            RuntimeCommand::RecordResponse { turn, text: SAID.to_owned(), calls: Vec::new(), usage },
            RuntimeCommand::EndTurn { turn, outcome: TurnOutcome::Completed, jitter: Jitter::default() },
        ];
        for command in commands {
            let worker = "racer".parse().unwrap();
            let decide = move |state: &SessionState, facts: &Facts| {
                policy::decide(state, Command::Runtime(&worker, &command), facts)
            };
            match self.store.execute(self.session, Ask::default(), decide).await {
                Ok(_) | Err(ExecuteError::Rejected(_)) => {}
                Err(ExecuteError::Fault(fault)) => panic!("{fault}"),
            }
        }
    }
}

async fn finish(mut turn: AdmittedTurn) -> Result<(), ExecuteError> {
    turn.begin_request(1).await?;
    turn.record_response(SAID.to_owned(), Vec::new(), TokenUsage::default()).await?;
    assert_eq!(turn.finish(TurnOutcome::Completed).await?, TurnOutcome::Completed);
    Ok(())
}

/// The continuation that a running turn is.
fn continuation(state: &SessionState, turn: TurnNumber) -> u64 {
    match &state.running(turn).unwrap().1.trigger {
        TurnTrigger::Goal { continuation, .. } => *continuation,
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
impl Evidence for NoFiles {
    async fn file_digest(&self, path: &str) -> std::io::Result<Option<Digest>> {
        panic!("nobody wrote {path}")
    }

    async fn file_version(&self, path: &str) -> std::io::Result<Option<Digest>> {
        panic!("nobody waits for {path}")
    }
}
