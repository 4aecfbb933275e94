//! `zuno events`: the log, as JSON lines or as a timeline, to its end or as it grows (E6).

use std::fmt::Write as _;

use clap::Args;
use domain::{Actor, Event, Seq, SessionId};
use runtime::Sessions;
use serde::Serialize;
use store::EVENTS_PER_PAGE;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{OfSession, parse_limit};
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::output::{self, Output};
use crate::render;
use crate::signals::{Signals, Wish, unheard};

/// What `zuno events --help` says first.
pub(crate) const HELP: &str = "\
Prints the log of a session, oldest first, a line for each event. A terminal shows as much of a line as it is wide; \
files and pipes get the whole line.

With --follow it goes on with what is added, by whichever process, each event once and in order, until Ctrl-C \
(exit code 130), until --limit is reached or until nobody reads any more. With --json each line is an event with \
its session, and --after takes the \"seq\" of the last one that was read.";

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    of: OfSession,
    /// Only events after this place of the log
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    limit: Option<usize>,
    /// Go on with events as they are added
    #[arg(long, short)]
    follow: bool,
}

/// An event with its session: one line of JSON.
#[derive(Serialize)]
pub(crate) struct EventLine<'a> {
    /// The session.
    pub(crate) session: SessionId,
    /// The event.
    #[serde(flatten)]
    pub(crate) event: &'a Event,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: EventsArgs) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    let session = context.session(&opened, args.of).await?;
    let mut log = Log {
        out: context.out,
        sessions: opened.sessions,
        session,
        after: Seq(args.after),
        left: args.limit.unwrap_or(usize::MAX),
        day: String::new(),
        columns: output::columns(),
    };
    if !args.follow {
        log.print().await?;
        return Ok(Exit::Done);
    }
    let mut signals = Signals::listen()?;
    let resized = signal(SignalKind::window_change()).map_err(|error| unheard(&error))?;
    tokio::select! {
        followed = log.follow(resized) => followed.map(|()| Exit::Done),
        wish = signals.next() => Ok(match wish {
            Wish::Interrupt => Exit::Interrupted,
            Wish::End => Exit::Done,
        }),
        () = output::abandoned() => Ok(Exit::Done),
    }
}

/// A log that is printed, and how far it is.
struct Log {
    out: Output,
    sessions: Sessions,
    session: SessionId,
    /// The last event that was printed.
    after: Seq,
    /// How many more may be.
    left: usize,
    /// The date that was printed last.
    day: String,
    /// Where lines are cut.
    columns: Option<usize>,
}

impl Log {
    /// Prints what there is.
    async fn print(&mut self) -> Result<(), CliError> {
        while self.left > 0 {
            let limit = self.left.min(EVENTS_PER_PAGE);
            let page = self.sessions.events_after(self.session, self.after, limit).await?;
            let text = self.lines(&page.events)?;
            // A reader that stands still stops this task, not the one that hears signals.
            let written = tokio::task::spawn_blocking(move || output::text(&text)).await;
            written.map_err(|error| CliError::Environment(format!("the writer failed: {error}")))??;
            (self.after, self.left) = (page.next, self.left.saturating_sub(page.events.len()));
            if !page.has_more {
                break;
            }
        }
        Ok(())
    }

    /// Prints what there is and whatever comes, as far as it may.
    async fn follow(&mut self, mut resized: Signal) -> Result<(), CliError> {
        let mut watch = self.sessions.watch();
        loop {
            self.print().await?;
            if self.left == 0 {
                return Ok(());
            }
            watch.changed().await;
            tokio::select! {
                biased;
                _ = resized.recv() => self.columns = output::columns(),
                () = std::future::ready(()) => {}
            }
        }
    }

    /// Events as lines.
    fn lines(&mut self, events: &[Event]) -> Result<String, CliError> {
        let mut text = String::new();
        for event in events {
            if self.out.is_json() {
                text.push_str(&output::as_json_line(&EventLine { session: self.session, event })?);
            } else {
                self.line(event, &mut text);
            }
        }
        Ok(text)
    }

    /// A line of the timeline, after a line with the date whenever that changes.
    fn line(&mut self, event: &Event, text: &mut String) {
        let at = render::time(event.at);
        let (date, clock) = at.split_once(' ').unwrap_or(("", &at));
        if date != self.day {
            self.day.replace_range(.., date);
            let _ = writeln!(text, "{date}");
        }
        let actor = match &event.actor {
            Actor::User { .. } => "you",
            Actor::Agent { .. } => "agent",
            Actor::Runtime { .. } => "runtime",
        };
        let line = format!("{:>5}  {clock}  {actor:<7}  {}", event.seq.0, render::describe_event(event));
        text.push_str(&render::fitted(&line, self.columns));
        text.push('\n');
    }
}
