//! `zuno commands`: the background commands of agents.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use domain::{CommandId, SessionId, Timestamp};
use runtime::{CommandView, SessionView, WorkerState};
use serde::Serialize;

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
    /// Stop a background command, with everything it started, by its number
    Stop(StopArgs),
}

/// Arguments of `commands stop`.
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
        output::remark(&format!("no background command runs {}", among.place()));
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
