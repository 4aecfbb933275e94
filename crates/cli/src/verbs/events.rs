//! `zuno events`: the log, as JSON lines or as a timeline (E6).

use std::fmt::Write as _;

use clap::Args;
use domain::{Actor, Event, Seq, SessionId};
use serde::Serialize;
use store::EVENTS_PER_PAGE;

use crate::args::OfSession;
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::{output, render};

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    of: OfSession,
    /// Only events after this place of the log
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
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
    let (mut after, mut left) = (Seq(args.after), args.limit.unwrap_or(usize::MAX));
    let mut day = String::new();
    while left > 0 {
        let page = opened.sessions.events_after(session, after, left.min(EVENTS_PER_PAGE)).await?;
        left -= page.events.len().min(left);
        let mut text = String::new();
        for event in &page.events {
            if context.out.is_json() {
                output::json_line(&EventLine { session, event })?;
            } else {
                text.push_str(&line(event, &mut day));
            }
        }
        output::text(&text)?;
        if !page.has_more {
            break;
        }
        after = page.next;
    }
    Ok(Exit::Done)
}

/// A line of the timeline, after a line with the date whenever that changes.
fn line(event: &Event, day: &mut String) -> String {
    let at = render::time(event.at);
    let (date, clock) = at.split_once(' ').unwrap_or(("", &at));
    let mut out = String::new();
    if date != day.as_str() {
        day.replace_range(.., date);
        let _ = writeln!(out, "{date}");
    }
    let actor = match &event.actor {
        Actor::User { .. } => "you",
        Actor::Agent { .. } => "agent",
        Actor::Runtime { .. } => "runtime",
    };
    let line = format!("{:>5}  {clock}  {actor:<7}  {}", event.seq.0, render::describe_event(event));
    out.push_str(&render::cut(&line, render::COLUMNS));
    out.push('\n');
    out
}
