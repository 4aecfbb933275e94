//! Batches: what waits together is committed together, and what is at fault in one stays alone.

use std::num::NonZeroU32;

use domain::{
    Budgets, CallOutcome, CallRef, CapabilitySet, Effect, EventBody, Evidence, Fingerprint, GoalId,
    InputText, LaneId, ModelCall, Objective, SessionId, Timestamp, TokenUsage, TurnNumber,
};
use policy::{AgentCommand, CallGrant, Delivery, Owner, Permission, RuntimeCommand, UserActor, UserCommand};
use sqlx::Connection as _;

use super::*;
use crate::clock::ManualClock;
use crate::recorder::{Recorder, Statements};
use crate::sqlite::{IfMissing, Sqlite};

struct Bench {
    folder: tempfile::TempDir,
    engine: Arc<dyn Engine>,
    /// What the writers ran.
    statements: Statements,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(&folder.path().join("a.db"), IfMissing::Create).await.unwrap();
        Self { folder, engine: Arc::new(engine), statements: Statements::default() }
    }

    /// Lets a writer find all these commands waiting. Returns their answers and how many commits it made.
    async fn run(&self, commands: Vec<Command>) -> (Vec<Answer>, u64) {
        let (sender, messages) = mpsc::channel(QUEUE);
        let mut waiting = Vec::new();
        for command in commands {
            let (reply, answer) = oneshot::channel();
            assert!(sender.try_send(Message::Run(Job { command, reply })).is_ok());
            waiting.push(answer);
        }
        drop(sender);
        let commits = watch::Sender::new(0);
        let inner = self.engine.writer().await.unwrap();
        let recorder: Box<Recorder<dyn Writer>> =
            Box::new(Recorder { inner, statements: Statements::clone(&self.statements) });
        let task = WriterTask {
            engine: Arc::clone(&self.engine),
            clock: Arc::new(ManualClock::new(Timestamp(1))),
            messages,
            commits: commits.clone(),
            connection: Some(recorder),
        };
        task.run().await;
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.unwrap());
        }
        let count = *commits.borrow();
        (answers, count)
    }

    /// The statements since the last look, each up to its first value.
    fn ran(&self) -> String {
        let statements = std::mem::take(&mut *self.statements.lock().unwrap());
        let starts = statements.iter().map(|statement| {
            let end = statement.find(" VALUES").or(statement.find(" IN (")).unwrap_or(statement.len());
            statement[..end].split(" (").next().unwrap_or_default().to_owned()
        });
        starts.collect::<Vec<_>>().join("\n")
    }

    /// Makes the database refuse events whose payload holds "poison".
    async fn poison(&self) {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.folder.path().join("a.db"));
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let trigger = "CREATE TRIGGER poison BEFORE INSERT ON events WHEN NEW.payload LIKE '%poison%' \
                       BEGIN SELECT RAISE(ABORT, 'poisoned'); END";
        sqlx::raw_sql(trigger).execute(&mut connection).await.unwrap();
    }
}

fn command(session: u128, command: UserCommand) -> Command {
    let user = UserActor::for_client("test".parse().unwrap());
    Command {
        session: SessionId::from_u128(session),
        key: None,
        goal: None,
        evidence: None,
        blobs: Vec::new(),
        decide: Arc::new(move |state, facts| {
            policy::decide(state, policy::Command::User(&user, &command), facts)
        }),
    }
}

fn open(session: u128) -> Command {
    let agent = "build".parse().unwrap();
    command(session, UserCommand::OpenSession { workspace: "/w".to_owned(), agent })
}

fn submit(session: u128, text: &str) -> Command {
    let text = InputText::parse(text).unwrap();
    let (lane, delivery) = (LaneId::main(), Delivery::Queue);
    command(session, UserCommand::SubmitInput { lane, text, delivery, resume: false })
}

fn by_runtime(session: u128, command: RuntimeCommand) -> Command {
    let worker = "worker".parse().unwrap();
    Command {
        decide: Arc::new(move |state, facts| {
            policy::decide(state, policy::Command::Runtime(&worker, &command), facts)
        }),
        ..open(session)
    }
}

/// A session with a Goal whose turn has this many calls, all admitted.
fn looking(session: u128, calls: u32) -> Vec<Command> {
    let objective = Objective::parse("o").unwrap();
    let (goal_id, budgets) = (GoalId::from_u128(5), Budgets::default());
    let set = UserCommand::SetGoal { goal_id, objective, criteria: None, budgets, replace: false };
    let owner = Owner { worker: "worker".parse().unwrap(), place: String::new(), pid: 1, started: 1 };
    let admit = RuntimeCommand::AdmitTurn {
        lane: LaneId::main(),
        owner,
        model: "scripted".parse().unwrap(),
        scope: policy::Scope::All,
        max_requests: NonZeroU32::MIN,
        confinement: None,
    };
    let turn = TurnNumber(1);
    let call = |_| ModelCall { tool: "look".to_owned(), arguments: "{}".to_owned() };
    let response = RuntimeCommand::RecordResponse {
        turn,
        text: String::new(),
        calls: (0..calls).map(call).collect(),
        usage: TokenUsage::default(),
    };
    let mut commands = vec![
        open(session),
        command(session, set),
        by_runtime(session, admit),
        by_runtime(session, RuntimeCommand::BeginRequest { turn, estimated_input: 1 }),
        by_runtime(session, response),
    ];
    commands.extend((0..calls).map(|index| {
        let nothing = CapabilitySet::of(&[]);
        let permission = Permission::Allow;
        let grant = CallGrant { requires: nothing, grant: nothing, tool_is_allowed: true, permission };
        let call = CallRef { turn, request: 1, index };
        let admit = AgentCommand::AdmitCall { call, grant, effect: Effect::Read };
        Command {
            decide: Arc::new(move |state, facts| {
                policy::decide(state, policy::Command::Agent(&admit), facts)
            }),
            ..open(session)
        }
    }));
    commands
}

/// The end of a call that ran as `ran`.
fn finish(session: u128, index: u32, ran: &str) -> Command {
    let ran = Fingerprint::of([ran]);
    let finish = RuntimeCommand::FinishCall {
        call: CallRef { turn: TurnNumber(1), request: 1, index },
        outcome: CallOutcome::Succeeded,
        result: String::new(),
        full_output: None,
        ran: Some(ran),
    };
    Command { evidence: Some((GoalId::from_u128(5), ran)), ..by_runtime(session, finish) }
}

/// Whether each finished call was new.
fn new_calls(answers: &[Answer]) -> Vec<bool> {
    let events = answers.iter().filter_map(|answer| answer.as_ref().ok()).flat_map(|done| &done.events);
    events
        .filter_map(|event| match &event.body {
            EventBody::CallFinished { evidence, .. } => {
                Some(matches!(evidence, Some(Evidence::NewCall { .. })))
            }
            _ => None,
        })
        .collect()
}

/// The head after each accepted command; the message of each other.
fn told(answers: &[Answer]) -> Vec<String> {
    let tell = |answer: &Answer| match answer {
        Ok(committed) => committed.state.core.head.to_string(),
        Err(error) => error.to_string(),
    };
    answers.iter().map(tell).collect()
}

#[tokio::test]
async fn commands_that_wait_together_share_a_commit_and_see_each_other() {
    let bench = Bench::new().await;
    let (answers, commits) =
        bench.run(vec![open(1), submit(1, "a"), open(2), submit(2, "b"), submit(1, "c")]).await;
    assert_eq!(told(&answers), ["1", "2", "1", "2", "3"]);
    assert_eq!(commits, 1);
    let (_, commits) = bench.run(vec![]).await;
    assert_eq!(commits, 0);
}

#[tokio::test]
async fn e3_a_rejection_in_a_batch_leaves_the_others_alone() {
    let bench = Bench::new().await;
    let (answers, commits) = bench.run(vec![open(1), open(1), submit(2, "x"), submit(1, "y")]).await;
    assert_eq!(told(&answers)[0], "1");
    assert!(told(&answers)[1].starts_with("session_exists"));
    assert!(told(&answers)[2].starts_with("unknown_session"));
    assert_eq!(told(&answers)[3], "2");
    assert_eq!(commits, 1);
    let (answers, commits) = bench.run(vec![open(1), submit(2, "x")]).await;
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(commits, 0);
}

#[tokio::test]
async fn a_fault_of_the_database_for_one_command_does_not_sink_the_others() {
    let bench = Bench::new().await;
    bench.poison().await;
    let commands = vec![open(1), submit(1, "a"), submit(1, "poison"), open(2), submit(1, "b")];
    let (answers, commits) = bench.run(commands).await;
    let told = told(&answers);
    assert_eq!([&told[0], &told[1], &told[3], &told[4]], ["1", "2", "1", "3"]);
    assert!(told[2].contains("poisoned"), "{}", told[2]);
    // The batch failed as a whole; then each that could be committed was, alone.
    assert_eq!(commits, 4);
}

#[tokio::test]
async fn a_caller_that_is_gone_does_not_stop_its_command() {
    let bench = Bench::new().await;
    let (sender, messages) = mpsc::channel(QUEUE);
    let (reply, answer) = oneshot::channel();
    drop(answer);
    assert!(sender.try_send(Message::Run(Job { command: open(1), reply })).is_ok());
    drop(sender);
    let task = WriterTask {
        engine: Arc::clone(&bench.engine),
        clock: Arc::new(ManualClock::new(Timestamp(1))),
        messages,
        commits: watch::Sender::new(0),
        connection: None,
    };
    task.run().await;
    let (answers, _) = bench.run(vec![submit(1, "x")]).await;
    assert_eq!(told(&answers), ["2"]);
}

#[tokio::test]
async fn g7_calls_that_wait_together_are_new_once() {
    let bench = Bench::new().await;
    let mut commands = looking(1, 3);
    commands.extend(looking(2, 1));
    commands.extend([finish(1, 0, "a"), finish(1, 1, "a"), finish(2, 0, "a"), finish(1, 2, "b")]);
    let (answers, commits) = bench.run(commands).await;
    assert_eq!((new_calls(&answers), commits), (vec![true, false, true, true], 1));
    bench.run(looking(3, 2)).await;
    let (answers, _) = bench.run(vec![finish(3, 0, "a")]).await;
    assert_eq!(new_calls(&answers), [true]);
    let (answers, _) = bench.run(vec![finish(3, 1, "a")]).await;
    assert_eq!(new_calls(&answers), [false]);
}

#[tokio::test]
async fn g7_a_call_that_was_not_recorded_is_new_the_next_time() {
    let bench = Bench::new().await;
    let mut commands = looking(1, 3);
    // Refused: the call has its result. What it asked about is not noted.
    commands.extend([finish(1, 0, "a"), finish(1, 0, "b"), finish(1, 1, "b")]);
    let (answers, commits) = bench.run(commands).await;
    assert_eq!((new_calls(&answers), commits), (vec![true, true], 1));
    // At fault: nothing of the commit it shares is there, until each is run alone.
    bench.poison().await;
    let (answers, commits) = bench.run(vec![finish(1, 2, "c"), submit(1, "poison")]).await;
    assert_eq!((new_calls(&answers), commits), (vec![true], 1));
    assert!(told(&answers)[1].contains("poisoned"));
}

#[tokio::test]
async fn only_a_batch_that_asks_for_evidence_spends_statements_on_it() {
    let bench = Bench::new().await;
    bench.run(looking(1, 3)).await;
    bench.ran();
    bench.run(vec![submit(1, "a"), submit(1, "b")]).await;
    let plain = bench.ran();
    bench.run(vec![finish(1, 0, "a"), finish(1, 1, "b")]).await;
    let asking = bench.ran();
    bench.run(vec![finish(1, 2, "a")]).await;
    let seen = bench.ran();
    insta::assert_snapshot!(format!("{plain}\n\n{asking}\n\n{seen}"), @"
    SELECT id, head_seq, kinds, core, leases, wake_at FROM sessions WHERE id
    INSERT INTO sessions
    INSERT INTO events
    INSERT INTO events

    SELECT id, head_seq, kinds, core, leases, wake_at FROM sessions WHERE id
    SELECT session_id, goal_id, call FROM evidence_rows WHERE
    SELECT session_id, goal_id, call FROM evidence_rows WHERE
    INSERT INTO sessions
    INSERT INTO events
    INSERT INTO events
    INSERT INTO evidence_rows
    INSERT INTO evidence_rows

    SELECT id, head_seq, kinds, core, leases, wake_at FROM sessions WHERE id
    SELECT session_id, goal_id, call FROM evidence_rows WHERE
    INSERT INTO sessions
    INSERT INTO events
    ");
}
