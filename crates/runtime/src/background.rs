//! Background commands and jobs: they run beside the main lane's turns, under the worker that started them, and end with a
//! report (G10, I5, W2).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{CallOutcome, Code, CommandId, Digest, SessionId, Timestamp};
use policy::RuntimeCommand;
use store::Committed;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::drive::{Around, Observer, drive};
use crate::ports::{PreparedCall, ToolOutput};
use crate::sessions::{CommandError, Extra, Order, Sessions};
use crate::toolbox;
use crate::turn::{AdmittedTurn, RENEW_MS};

/// How often the owner of a command looks whether it is to stop. A person who stops one waits this long at most.
const LOOK: Duration = Duration::from_millis(250);
/// How long a stopped command may take to reap what it started.
const REAP: Duration = Duration::from_secs(5);
/// Attempts to record an end while the store is busy; after that the lease runs out and recovery tells.
const ATTEMPTS: u32 = 10;
/// Pause between two of them.
const AGAIN: Duration = Duration::from_millis(500);

/// The background commands and jobs of one process.
pub(crate) struct Background {
    sessions: Sessions,
    observer: Arc<dyn Observer>,
    shutdown: CancellationToken,
    /// Cancelled once the last engine is dropped. Turns hold what is here, so that alone would not end them.
    dropped: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

impl Background {
    pub(crate) fn new(sessions: Sessions, observer: Arc<dyn Observer>, shutdown: CancellationToken) -> Self {
        Self { sessions, observer, shutdown, dropped: CancellationToken::new(), tasks: Mutex::default() }
    }

    /// Whoever holds this is an engine: with the last one the turns here are dropped, and left to recovery.
    pub(crate) fn alive(&self) -> DropGuard {
        self.dropped.clone().drop_guard()
    }

    /// Runs a command that was recorded as started, with a lease from then on.
    pub(crate) fn start(
        &self,
        session: SessionId,
        (command, taken_at): (CommandId, Timestamp),
        prepared: Box<dyn PreparedCall>,
    ) {
        let run = Run {
            sessions: self.sessions.clone(),
            observer: Arc::clone(&self.observer),
            shutdown: self.shutdown.clone(),
            session,
            command,
            renewed_at: taken_at,
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(run.until_over(prepared));
    }

    /// Drives a turn in the lane of a job. The lease is kept by whatever turn of this process runs, so one whose task
    /// broke off is ended here: nobody else would notice.
    /// Gives what hears when nobody drives it any more.
    pub(crate) fn start_turn(&self, turn: AdmittedTurn, around: Around) -> oneshot::Receiver<()> {
        let (leaves, left) = oneshot::channel();
        let (sessions, observer) = (self.sessions.clone(), Arc::clone(&self.observer));
        let dropped = self.dropped.clone();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let _leaves = leaves;
            let (session, number) = (turn.session(), turn.number());
            let mut task = tokio::spawn(drive(turn, around));
            let driven = tokio::select! {
                driven = &mut task => driven,
                () = dropped.cancelled() => return task.abort(),
            };
            let error = match driven {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::error!(error, %session, %number, "the turn of a job broke off");
            match sessions.break_off(session, number).await {
                Ok(events) => events.iter().for_each(|event| observer.event(session, event)),
                // It had ended, or the store is at fault and the lease will tell.
                Err(error) => tracing::warn!(%error, "the turn could not be ended"),
            }
        });
        left
    }

    /// Whether a command or a job runs here.
    pub(crate) fn is_busy(&self) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        !tasks.is_empty()
    }

    /// Waits until every command here is over and its end recorded. They are stopped by the shutdown.
    pub(crate) async fn finish(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}

/// When the lease of a command was taken or renewed, by the transaction that did (T5).
pub(crate) fn renewed_at(committed: &Committed, command: CommandId) -> Option<Timestamp> {
    let lease = committed.leases.commands.get(&command);
    lease.map(|lease| lease.expires_at.plus_ms(-policy::LEASE_MS))
}

struct Run {
    sessions: Sessions,
    observer: Arc<dyn Observer>,
    shutdown: CancellationToken,
    session: SessionId,
    command: CommandId,
    renewed_at: Timestamp,
}

impl Run {
    async fn until_over(mut self, prepared: Box<dyn PreparedCall>) {
        // A worker that slept since it was recorded may have lost the command to recovery: it renews first (T5).
        if self.renewal_is_due() && self.goes_on().await.is_err() {
            return;
        }
        let stop = CancellationToken::new();
        let mut work = prepared.run(stop.clone());
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let output = loop {
            tokio::select! {
                biased;
                output = &mut work => break Some(output),
                () = self.shutdown.cancelled() => {}
                _ = look.tick() => match self.goes_on().await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    // Another worker declared it lost: it is stopped, and what it came to is not ours to record.
                    Err(Gone) => {
                        stop.cancel();
                        tokio::time::timeout(REAP, &mut work).await.ok();
                        return;
                    }
                },
            }
            stop.cancel();
            break tokio::time::timeout(REAP, &mut work).await.ok();
        };
        drop(work);
        self.record(output).await;
    }

    fn renewal_is_due(&self) -> bool {
        self.sessions.now() >= self.renewed_at.plus_ms(RENEW_MS)
    }

    /// Whether the command is not asked to stop. Keeps its lease.
    async fn goes_on(&mut self) -> Result<bool, Gone> {
        let now = self.sessions.now();
        if self.renewal_is_due() {
            let owner = self.sessions.owner().clone();
            let renew = RuntimeCommand::RenewCommand { command: self.command, owner };
            match self.execute(renew, None).await {
                Ok(committed) => self.renewed_at = renewed_at(&committed, self.command).unwrap_or(now),
                Err(CommandError::Rejected(_)) => return Err(Gone),
                Err(error) if now >= self.renewed_at.plus_ms(policy::LEASE_MS) => {
                    tracing::warn!(%error, "the lease of a background command ran out");
                    return Err(Gone);
                }
                Err(error) => tracing::warn!(%error, "a command's lease could not be renewed, trying again"),
            }
        }
        match self.sessions.head(self.session).await {
            Ok(head) => match head.state.core.command(self.command) {
                Some(command) => Ok(!command.is_stopping),
                None => Err(Gone),
            },
            Err(error) => {
                tracing::warn!(%error, "the session could not be read, trying again");
                Ok(true)
            }
        }
    }

    async fn record(&mut self, output: Option<ToolOutput>) {
        let (outcome, text) = match output {
            Some(output) if output.stopped => (CallOutcome::Stopped, output.text),
            Some(output) if output.succeeded => (CallOutcome::Succeeded, output.text),
            Some(output) => (CallOutcome::Failed, output.text),
            None => {
                let text = "stopped, but it did not end in time; inspect before repeating";
                (CallOutcome::Uncertain, text.to_owned())
            }
        };
        let (result, full) = toolbox::shorten(text);
        let full_output: Option<Digest> = full.as_deref().map(store::digest);
        for _ in 0..ATTEMPTS {
            let (command, result) = (self.command, result.clone());
            let end = RuntimeCommand::EndCommand { command, outcome, result, full_output };
            match self.execute(end, full.clone()).await {
                Ok(_) => return,
                // Recovery was faster.
                Err(CommandError::Rejected(refused)) if refused.code == Code::UnknownCommand => return,
                Err(error) => tracing::warn!(%error, "the end of a background command is not recorded yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn execute(
        &self,
        command: RuntimeCommand,
        blob: Option<Vec<u8>>,
    ) -> Result<Committed, CommandError> {
        let extra = Extra { blob, ..Extra::default() };
        let committed = self.sessions.execute(self.session, Order::Runtime(command), extra).await?;
        for event in &committed.events {
            self.observer.event(self.session, event);
        }
        Ok(committed)
    }
}

/// The command is over for everybody else.
struct Gone;
