//! The one task that writes: it drains a queue, and commands that wait together share a transaction.
//!
//! A batch is phased: read all heads, decide in memory, write everything in few statements, commit once, then
//! answer each caller. A caller that stops waiting does not stop its command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::Event;
use tokio::sync::{mpsc, oneshot, watch};

use crate::batch::{Appends, Batch, Command, KeyRecord, Outcome};
use crate::clock::Clock;
use crate::engine::{Connection, Engine, Value, Writer};
use crate::error::{ExecuteError, StoreError};
use crate::record::{event_columns, read_event};
use crate::store::Committed;
use crate::{head, write};

/// Commands that may wait. A full queue makes callers wait at its door, which is the only pressure they feel.
pub(crate) const QUEUE: usize = 1_024;
/// Commands in one transaction: enough to hide the cost of the commit, few enough that other processes get their
/// turn within tens of milliseconds.
const BATCH: usize = 256;

/// A command and who waits for its outcome.
pub(crate) struct Job {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// What a caller gets.
pub(crate) type Answer = Result<Committed, ExecuteError>;

/// What the task is told.
pub(crate) enum Message {
    Run(Job),
    /// Finish what came before, close the connection and say so.
    Close(oneshot::Sender<()>),
}

pub(crate) struct WriterTask {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) messages: mpsc::Receiver<Message>,
    /// Counts this store's commits, for those who wait for one.
    pub(crate) commits: watch::Sender<u64>,
    /// Made by the first batch: a store that is only read never opens it.
    pub(crate) connection: Option<Box<dyn Writer>>,
}

impl WriterTask {
    pub(crate) async fn run(mut self) {
        let mut closing = None;
        while closing.is_none()
            && let Some(message) = self.messages.recv().await
        {
            let mut jobs = Vec::new();
            let mut next = Some(message);
            while let Some(message) = next.take() {
                match message {
                    Message::Run(job) => jobs.push(job),
                    Message::Close(done) => closing = Some(done),
                }
                if jobs.len() < BATCH && closing.is_none() {
                    next = self.messages.try_recv().ok();
                }
            }
            self.process(jobs).await;
        }
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
        // What came after the wish to close is dropped with the queue, and its callers read `Closed`.
        drop(self.messages);
        if let Some(done) = closing {
            done.send(()).ok();
        }
    }

    async fn process(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let commands: Vec<_> = jobs.iter().map(|job| &job.command).collect();
        let answers = match self.commit(&commands).await {
            Ok(answers) => answers,
            // One of them may be at fault: each alone, so that it sinks nobody else.
            Err(error) if jobs.len() > 1 && !matches!(error, StoreError::Busy(_)) => {
                tracing::warn!(%error, commands = jobs.len(), "a batch failed; running its commands one by one");
                let mut answers = Vec::with_capacity(jobs.len());
                for command in commands {
                    answers.push(match self.commit(&[command]).await {
                        Ok(answer) => answer.into_iter().next().unwrap_or(Err(StoreError::Closed.into())),
                        Err(error) => Err(error.into()),
                    });
                }
                answers
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone().into())).collect(),
        };
        for (job, answer) in jobs.into_iter().zip(answers) {
            // The caller may be gone; the commit stands.
            job.reply.send(answer).ok();
        }
    }

    /// One transaction. An error means that nothing of it was written.
    async fn commit(&mut self, commands: &[&Command]) -> Result<Vec<Answer>, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.engine.writer().await?,
        };
        match attempt(&mut *connection, &*self.clock, commands).await {
            Ok((answers, wrote)) => {
                self.connection = Some(connection);
                if wrote {
                    self.commits.send_modify(|count| *count += 1);
                }
                Ok(answers)
            }
            Err(error) => {
                // A connection that cannot roll back is not used again.
                if connection.rollback().await.is_ok() {
                    self.connection = Some(connection);
                }
                Err(error)
            }
        }
    }
}

async fn attempt(
    writer: &mut dyn Writer,
    clock: &dyn Clock,
    commands: &[&Command],
) -> Result<(Vec<Answer>, bool), StoreError> {
    writer.begin().await?;
    let mut batch = read(writer, clock, commands).await?;
    let outcomes: Vec<_> = commands.iter().map(|command| batch.run(command)).collect();
    let has_writes = batch.has_writes();
    if has_writes {
        write::write(writer, &mut batch).await?;
    }
    let mut answers = Vec::with_capacity(outcomes.len());
    for (command, outcome) in commands.iter().zip(outcomes) {
        answers.push(match outcome {
            Outcome::Accepted(committed) => Ok(committed),
            Outcome::Replayed(record, committed) => read_back(writer, command, record, committed).await,
            Outcome::Failed(error) => Err(error),
        });
    }
    if has_writes {
        #[cfg(feature = "crash-points")]
        crate::crash::before_commit();
        writer.commit().await?;
        #[cfg(feature = "crash-points")]
        crate::crash::after_commit();
    } else {
        writer.rollback().await?;
    }
    Ok((answers, has_writes))
}

async fn read(
    connection: &mut dyn Connection,
    clock: &dyn Clock,
    commands: &[&Command],
) -> Result<Batch, StoreError> {
    let sessions: BTreeSet<_> = commands.iter().map(|command| command.session).collect();
    let mut batch = Batch {
        // After the transaction began: no event of another process can be later than this.
        now: clock.now(),
        sessions: head::load(connection, &sessions).await?,
        keys: BTreeMap::new(),
        goals: BTreeSet::new(),
        evidence: BTreeSet::new(),
        touched: BTreeSet::new(),
        appends: Appends::default(),
    };
    write::read_facts(connection, commands, &mut batch).await?;
    Ok(batch)
}

/// The first outcome of a command that was sent again (E5).
async fn read_back(
    connection: &mut dyn Connection,
    command: &Command,
    record: KeyRecord,
    mut committed: Committed,
) -> Answer {
    let select = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events WHERE session_id = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq"
    );
    let session = command.session;
    let values = vec![Value::text(&session), Value::from(record.first.0), Value::from(record.last.0)];
    let rows = connection.rows(select.into(), values).await?;
    let events: Result<Vec<Event>, _> =
        rows.into_iter().map(|mut row| read_event(session, &mut row)).collect();
    committed.events = events?;
    let expected = (record.last.0 + 1).saturating_sub(record.first.0);
    if committed.events.len() as u64 != expected {
        let detail = format!(
            "a command key stands for events {} to {}, of which {} exist",
            record.first,
            record.last,
            committed.events.len()
        );
        return Err(StoreError::corrupt(session, detail).into());
    }
    Ok(committed)
}

#[cfg(test)]
mod tests;
