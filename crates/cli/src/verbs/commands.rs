//! `zuno commands`: the background commands of agents.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use domain::{BackgroundCommand, CallOutcome, CommandId, EventBody, InputKind, Seq, SessionId, Timestamp};
use runtime::{CommandView, SessionView, WorkerState};
use serde::Serialize;
use store::EVENTS_PER_PAGE;

use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit};
use crate::render::Hints;
use crate::verbs::among::{self, Among, WhereItIs};
use crate::{output, render};

/// What to do about background commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandsVerb {
    /// List the background commands that run
    List(Among),
    /// Show a background command by its number, also one that is over: how it ended, and what it wrote
    Show(StopArgs),
    /// Stop a background command, with everything it started, by its number
    Stop(StopArgs),
}

/// Arguments of `commands stop` and `commands show`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    of: WhereItIs,
    /// The number of the command
    #[arg(value_name = "N", value_parser = parse_number)]
    command: CommandId,
}

fn parse_number(text: &str) -> Result<CommandId, &'static str> {
    text.parse().map(CommandId).map_err(|_| "a command has a number from 1; `zuno commands list` shows it")
}

/// A running command as `--json` shows it.
#[derive(Serialize)]
struct Listed {
    session: SessionId,
    title: Option<String>,
    workspace: String,
    command: CommandView,
}

#[derive(Serialize)]
struct List {
    commands: Vec<Listed>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: CommandsVerb) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    match verb {
        CommandsVerb::List(among) => list(context, &opened, among).await,
        CommandsVerb::Show(args) => show(context, &opened, args).await,
        CommandsVerb::Stop(args) => stop(context, &opened, args).await,
    }
}

async fn list(context: &Context, opened: &Opened, among: Among) -> Result<Exit, CliError> {
    let views = among.views(context, opened).await?;
    let mut commands = Vec::new();
    for view in &views {
        commands.extend(view.commands.iter().map(|command| Listed {
            session: view.session,
            title: view.title.clone(),
            workspace: view.workspace.clone(),
            command: command.clone(),
        }));
    }
    if commands.is_empty() {
        let place = among.place();
        output::remark(&format!(
            "no background command runs {place}; `zuno commands show N` shows one that is over"
        ));
    }
    let (list, now) = (List { commands }, opened.sessions.now());
    context
        .out
        .answer(&list, || list.commands.iter().map(|listed| entry(context, &views, listed, now)).collect())?;
    Ok(Exit::Done)
}

fn entry(context: &Context, views: &[SessionView], listed: &Listed, now: Timestamp) -> String {
    let command = &listed.command.command;
    let age_ms = now.0.saturating_sub(command.since.0);
    let head =
        among::head(&format!("command {}", command.id), age_ms, listed.session, listed.title.as_deref());
    let mut out = format!("{head}\n  {}\n", render::wrapped(4, command.title.as_str()));
    let Some(view) = views.iter().find(|view| view.session == listed.session) else { return out };
    let hints = among::hints(context, views, view, |view| has(view, command.id));
    let what = match lost(&listed.command, hints) {
        Some(lost) => lost,
        None if command.is_stopping => "it was asked to stop".to_owned(),
        None => format!("{} stops it", hints.command(&format!("commands stop {}", command.id))),
    };
    let _ = writeln!(out, "  {}", render::wrapped(4, &what));
    out
}

/// What is to be said of a command that nobody looks after.
fn lost(view: &CommandView, hints: Hints) -> Option<String> {
    let gone = match view.worker {
        WorkerState::Works { .. } => return None,
        WorkerState::Silent { .. } => "its worker is gone or hangs",
        WorkerState::Gone => "its worker is gone",
    };
    let worker = hints.command("goal run");
    Some(format!("{gone}; the next worker records its end, {worker} is one"))
}

fn has(view: &SessionView, command: CommandId) -> bool {
    view.commands.iter().any(|running| running.command.id == command)
}

/// A command from its start to its end, as `commands show --json` tells it.
#[derive(Serialize)]
struct Shown {
    session: SessionId,
    command: BackgroundCommand,
    ended_at: Option<Timestamp>,
    outcome: Option<CallOutcome>,
    /// Exit code and output, as far as they were kept.
    output: Option<String>,
}

async fn show(context: &Context, opened: &Opened, args: StopArgs) -> Result<Exit, CliError> {
    let id = args.command;
    let what = format!("a background command {id}");
    let view = args.of.find(context, opened, &what, |view| has(view, id)).await?;
    let session = view.session;
    let shown = read(opened, session, id).await?.ok_or_else(|| {
        CliError::NotFound(format!(
            "session {session} has no background command {id}; --session names another"
        ))
    })?;
    let now = opened.sessions.now();
    context.out.answer(&shown, || {
        let age_ms = now.0.saturating_sub(shown.command.since.0);
        let mut text = among::head(&format!("command {id}"), age_ms, session, view.title.as_deref());
        let _ = write!(text, "\n  {}", render::wrapped(4, shown.command.title.as_str()));
        match (&shown.outcome, &shown.output) {
            (None, _) => text.push_str("\n  it runs"),
            (Some(outcome), None) => {
                let _ = write!(
                    text,
                    "\n  ended: {}; its Goal was over, so what it wrote was not kept",
                    outcome.name()
                );
            }
            (Some(outcome), Some(output)) => {
                let _ = write!(text, "\n  ended: {}\n{}", outcome.name(), render::lines(output));
            }
        }
        text
    })?;
    Ok(Exit::Done)
}

/// Reads the log for a command: the state forgets those that are over.
async fn read(opened: &Opened, session: SessionId, id: CommandId) -> Result<Option<Shown>, CliError> {
    let (mut shown, mut after, mut report_at) = (None::<Shown>, Seq(0), None);
    loop {
        let page = opened.sessions.events_after(session, after, EVENTS_PER_PAGE).await?;
        for event in page.events {
            match (event.body, &mut shown) {
                (EventBody::CommandStarted { command }, _) if command.id == id => {
                    shown = Some(Shown { session, command, ended_at: None, outcome: None, output: None });
                }
                (EventBody::CommandEnded { command, outcome, full_output }, Some(shown)) if command == id => {
                    (shown.ended_at, shown.outcome) = (Some(event.at), Some(outcome));
                    report_at = Some(event.seq.next());
                    if let Some(digest) = full_output {
                        let full = opened.store.blob(digest).await?;
                        shown.output = full.map(|full| String::from_utf8_lossy(&full).into_owned());
                    }
                }
                // The report of an end is the event after it.
                (EventBody::InputQueued { input: InputKind::Report, text, .. }, Some(shown))
                    if report_at == Some(event.seq) && shown.output.is_none() =>
                {
                    shown.output = text.as_str().split_once('\n').map(|(_, output)| output.to_owned());
                }
                _ => {}
            }
        }
        if !page.has_more {
            return Ok(shown);
        }
        after = page.next;
    }
}

async fn stop(context: &Context, opened: &Opened, args: StopArgs) -> Result<Exit, CliError> {
    let id = args.command;
    let what = format!("a background command {id}");
    let view = args.of.find(context, opened, &what, |view| has(view, id)).await?;
    let before = view.commands.iter().find(|running| running.command.id == id).cloned();
    let view = opened.door.stop_command(view.session, id).await?;
    context.out.answer(&view, || {
        let title =
            before.as_ref().map(|before| format!(": {}", render::one_line(before.command.title.as_str())));
        let mut text = format!("background command {id} was asked to stop{}\n", title.unwrap_or_default());
        if let Some(lost) = before.and_then(|before| lost(&before, Hints::of(view.session))) {
            let _ = writeln!(text, "{}", render::wrapped(0, &lost));
        }
        text
    })?;
    Ok(Exit::Done)
}
