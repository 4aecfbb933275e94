//! `zuno demo`: the product at work for some seconds, with a scripted model and without a key or a network.
//!
//! Every step is this program started again, as a person would start it: a Goal is set and worked on, the worker is
//! killed while the model answers, a second worker recovers, waits for a command and asks for leave, a third finishes
//! once that is given, and in Plan mode a write is denied. What is printed afterwards is read back from the store, and
//! what has to hold is checked.

mod checks;
mod crew;
mod page;
mod stage;
mod timeline;

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use domain::{Event, EventBody, Seq, SessionId, TurnNumber, TurnTrigger};
use runtime::Sessions;
use serde_json::json;
use store::{EVENTS_PER_PAGE, Store, StoreUrl, SystemClock};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use crate::args::Global;
use crate::exit::{CliError, Exit};
use crate::output::{self, Output};
use crate::render;
use crate::signals::Signals;
use checks::{Check, Seen, checks};
use crew::{Crew, Heard};
use page::Ink;
use stage::Stage;
use timeline::{Entry, timeline};

const OBJECTIVE: &str = "Implement session export";
const PLAN_PROMPT: &str = "Compress the archives, too. Only plan it for now.";

/// How often the log is looked at while the first worker runs.
const LOOK: Duration = Duration::from_millis(25);
/// How much of an answer is heard before its worker is killed. The answer that is meant is five times as long and takes
/// seconds; the others of its turn are shorter than this.
const MID_ANSWER_BYTES: usize = 60;
/// How long the first worker may take to come to that answer.
const FIRST_WORKER: Duration = Duration::from_mins(1);
/// How often a worker looks after a killed one. One look is enough where the system tells that a process is gone;
/// elsewhere the lease has to end first.
const RECOVERY_LOOKS: u32 = 25;
/// The time between two of them.
const RECOVERY_PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `demo`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DemoArgs {
    /// Keep the temporary folder, and print where it is
    #[arg(long)]
    keep: bool,
}

/// The demo plays where nothing can be lost. Whoever names another place means something else.
pub(crate) fn refuse_places(global: &Global) -> Result<(), CliError> {
    if global.store.is_none() && global.workspace.is_none() {
        return Ok(());
    }
    let message = "the demo plays in a store and a workspace of its own, in a temporary folder; leave --store and \
                   --workspace out, and give --keep to look at them afterwards";
    Err(CliError::Usage(message.to_owned()))
}

/// Plays the demo.
pub(crate) async fn run(out: Output, args: DemoArgs) -> Result<Exit, CliError> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        // Dropping the play ends its processes and removes its folder.
        biased;
        _ = signals.next() => Ok(Exit::Interrupted),
        played = play(out, args) => played,
    }
}

async fn play(out: Output, args: DemoArgs) -> Result<Exit, CliError> {
    output::remark("zuno demo: a scripted model, no key, no network, a few seconds");
    output::remark("  a small shell project under git, with a test script that fails");
    let stage = Stage::build(args.keep)?;
    let mut play = Play::open(&stage).await?;
    let seen = play.all().await?;
    let events = play.log().await?;
    let entries = timeline(&events, Some(seen.killed));
    let checks = checks(&events, &entries, &seen);
    let held = checks.iter().all(|check| check.held);
    if out.is_json() {
        for entry in &entries {
            output::json_line(entry)?;
        }
        output::json_line(&json!({ "session": play.session, "held": held, "checks": checks }))?;
    } else {
        output::text(&page(play.session, &entries, &checks))?;
    }
    if args.keep {
        let (program, store) = (play.crew.program().display(), stage.store());
        output::remark(&format!("kept {}; look around with", stage.root().display()));
        output::remark(&format!(
            "  {program} --store {} session show --session {}",
            store.display(),
            play.session
        ));
    }
    Ok(if held { Exit::Done } else { Exit::TurnFailed })
}

fn page(session: SessionId, entries: &[Entry], checks: &[Check]) -> String {
    let ink = Ink {
        has_colour: std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    };
    let start = entries.first().map(|entry| entry.at).unwrap_or_default();
    let mut lines = vec![String::new(), format!("session {session}, read back from its log"), String::new()];
    lines.extend(entries.iter().map(|entry| page::line(entry, start, ink)));
    lines.push(String::new());
    lines.extend(checks.iter().map(|check| page::check(check, ink)));
    lines.join("\n")
}

/// The session that is played, and the processes that play it.
struct Play<'s> {
    stage: &'s Stage,
    crew: Crew,
    sessions: Sessions,
    session: SessionId,
    /// What went wrong on the way and was no reason to stop.
    faults: Vec<String>,
}

impl<'s> Play<'s> {
    async fn open(stage: &'s Stage) -> Result<Self, CliError> {
        let crew = Crew::of(stage)?;
        output::remark("  $ zuno session new");
        let done = crew.run(&["session", "new", "--json"]).await?;
        let answer: serde_json::Value = serde_json::from_str(&done.stdout).unwrap_or_default();
        let session = answer.get("session").and_then(|id| id.as_str()?.parse().ok());
        let session = session
            .ok_or_else(|| CliError::Environment(format!("no session was opened: {}", done.stderr.trim())))?;
        let store = Store::open_existing(&StoreUrl::Sqlite(stage.store()), Arc::new(SystemClock)).await?;
        let client = "demo".parse().map_err(|fault: domain::InvalidId| CliError::Usage(fault.to_string()))?;
        // Only to read: the person's commands are given on the command line.
        let (sessions, _) = runtime::open(store, client);
        Ok(Self { stage, crew, sessions, session, faults: Vec::new() })
    }

    /// Everything from the Goal to the last look, and what was seen.
    async fn all(&mut self) -> Result<Seen, CliError> {
        output::remark(&format!("  $ zuno goal set \"{OBJECTIVE}\""));
        self.command(&["goal", "set", OBJECTIVE]).await?;
        let killed = self.first_worker().await?;
        self.second_worker(killed).await?;
        output::remark("  $ zuno requests allow 1");
        self.command(&["requests", "allow", "1"]).await?;
        output::remark("  $ zuno goal run --once        a third worker");
        self.command(&["goal", "run", "--once"]).await?;
        let before = self.stage.digest()?;
        output::remark("  $ zuno mode plan");
        self.command(&["mode", "plan"]).await?;
        output::remark(&format!("  $ zuno run \"{PLAN_PROMPT}\""));
        self.command(&["run", PLAN_PROMPT]).await?;
        output::remark("  $ zuno mode work");
        self.command(&["mode", "work"]).await?;
        output::remark("  $ zuno goal run --once        nothing is due");
        self.command(&["goal", "run", "--once"]).await?;
        let (after, tests) = (self.stage.digest()?, self.stage.test()?);
        let view = self.sessions.view(self.session).await?;
        let faults = std::mem::take(&mut self.faults);
        Ok(Seen { view, killed, tests, file: (before, after), faults })
    }

    /// A command on the session that is to end well.
    async fn command(&mut self, arguments: &[&str]) -> Result<(), CliError> {
        self.command_ending(arguments, Exit::Done).await
    }

    /// A command on the session. One that ends otherwise is told at the end: the story up to there is worth reading.
    async fn command_ending(&mut self, arguments: &[&str], expected: Exit) -> Result<(), CliError> {
        let session = self.session.to_string();
        let mut all = arguments.to_vec();
        all.extend(["--session", &session]);
        let done = self.crew.run(&all).await?;
        if done.status.code() != Some(i32::from(expected as u8)) {
            let said = done.stderr.trim().lines().next_back().unwrap_or("it printed nothing").to_owned();
            self.faults.push(format!("zuno {}: {}: {said}", arguments.join(" "), done.status));
        }
        Ok(())
    }

    /// Runs a worker until the model is in the middle of an answer in the second turn of the Goal, and kills it there.
    async fn first_worker(&mut self) -> Result<TurnNumber, CliError> {
        let session = self.session.to_string();
        let (mut worker, heard) = self.crew.start(&["goal", "run", "--once", "--session", &session])?;
        let pid = worker.id().unwrap_or_default();
        output::remark(&format!("  $ zuno goal run --once        process {pid}"));
        let (turn, asked, before) = self.until_mid_answer(&mut worker, &heard).await?;
        worker.start_kill().map_err(|error| unwatched(&error))?;
        let status = worker.wait().await.map_err(|error| unwatched(&error))?;
        if status.signal() != Some(SIGKILL) {
            self.faults.push(format!("the first worker was to be killed and ended with {status}"));
        }
        if self.log().await?.last().map(|event| event.seq) != Some(asked) {
            self.faults.push("the model's answer was complete before the worker was killed".to_owned());
        }
        let half = render::cut(&heard.after(before), MID_ANSWER_BYTES);
        output::remark(&format!(
            "    killed process {pid} (SIGKILL) in turn {turn}, while the model was saying"
        ));
        output::remark(&format!("    \"{half}\""));
        Ok(turn)
    }

    /// Waits until an answer of a later turn than the first is well under way: the turn, its request, and how much was
    /// heard before that.
    async fn until_mid_answer(
        &self,
        worker: &mut Child,
        heard: &Heard,
    ) -> Result<(TurnNumber, Seq, usize), CliError> {
        let began = Instant::now();
        let mut under_way = None;
        while began.elapsed() < FIRST_WORKER {
            if let Some(status) = worker.try_wait().map_err(|error| unwatched(&error))? {
                return Err(CliError::Environment(format!("the first worker ended too early: {status}")));
            }
            under_way = match (answering(&self.log().await?), under_way) {
                (Some((turn, asked)), Some((same, before))) if asked == same => {
                    if heard.len() >= before + MID_ANSWER_BYTES {
                        return Ok((turn, asked, before));
                    }
                    under_way
                }
                (Some((_, asked)), _) => Some((asked, heard.len())),
                (None, _) => None,
            };
            sleep(LOOK).await;
        }
        Err(CliError::Environment("the first worker came to no second turn".to_owned()))
    }

    /// Runs a worker that finds the killed one's turn, ends it and goes on until it has to ask the person.
    async fn second_worker(&mut self, killed: TurnNumber) -> Result<(), CliError> {
        output::remark("  $ zuno goal run --once        a second worker");
        for _ in 0..RECOVERY_LOOKS {
            let before = self.faults.len();
            self.command_ending(&["goal", "run", "--once"], Exit::NotFinished).await?;
            let log = self.log().await?;
            if log.iter().any(|event| matches!(event.body, EventBody::TurnLost { turn } if turn == killed)) {
                break;
            }
            // The worker could not know yet that the other one is gone: that is no fault.
            self.faults.truncate(before);
            sleep(RECOVERY_PAUSE).await;
        }
        Ok(())
    }

    /// The whole log.
    async fn log(&self) -> Result<Vec<Event>, CliError> {
        let (mut events, mut after) = (Vec::new(), Seq(0));
        loop {
            let page = self.sessions.events_after(self.session, after, EVENTS_PER_PAGE).await?;
            events.extend(page.events);
            after = page.next;
            if !page.has_more {
                return Ok(events);
            }
        }
    }
}

/// What `kill -9` sends, on every system that has signals.
const SIGKILL: i32 = 9;

fn unwatched(error: &std::io::Error) -> CliError {
    CliError::Environment(format!("the first worker cannot be watched: {error}"))
}

/// The turn whose model is answering, and the request: the last thing in the log, in a later continuation of the Goal
/// than the first.
fn answering(events: &[Event]) -> Option<(TurnNumber, Seq)> {
    let last = events.last()?;
    let EventBody::ModelRequested { turn, .. } = last.body else { return None };
    let is_later = events.iter().any(|event| {
        matches!(
            event.body,
            EventBody::TurnStarted { turn: started, trigger: TurnTrigger::Goal { continuation: 2.., .. }, .. }
                if started == turn
        )
    });
    is_later.then_some((turn, last.seq))
}
