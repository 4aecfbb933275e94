//! Batches: what waits together is committed together, and what is at fault in one stays alone.

use domain::{InputText, LaneId, SessionId, Timestamp};
use policy::{UserActor, UserCommand};
use sqlx::Connection as _;

use super::*;
use crate::clock::ManualClock;
use crate::sqlite::{IfMissing, Sqlite};

struct Bench {
    folder: tempfile::TempDir,
    engine: Arc<dyn Engine>,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(&folder.path().join("a.db"), IfMissing::Create).await.unwrap();
        Self { folder, engine: Arc::new(engine) }
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
        let task = WriterTask {
            engine: Arc::clone(&self.engine),
            clock: Arc::new(ManualClock::new(Timestamp(1))),
            messages,
            commits: commits.clone(),
            connection: None,
        };
        task.run().await;
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.unwrap());
        }
        let count = *commits.borrow();
        (answers, count)
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
    command(session, UserCommand::SubmitInput { lane: LaneId::main(), text })
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
