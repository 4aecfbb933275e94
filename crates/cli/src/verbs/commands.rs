//! `zuno commands`: the background commands of agents.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use domain::{BackgroundCommand, CommandId, SessionId, Timestamp};
use runtime::SessionView;
use serde::Serialize;

use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit};
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
    command: BackgroundCommand,
    /// When its worker's lease ends, unless it is renewed.
    lease_end: Option<Timestamp>,
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
    for view in views.iter().filter(|view| !view.commands.is_empty()) {
        let leases = opened.store.head(view.session).await?.map(|head| head.leases).unwrap_or_default();
        commands.extend(view.commands.iter().map(|command| Listed {
            session: view.session,
            title: view.title.clone(),
            workspace: view.workspace.clone(),
            command: command.clone(),
            lease_end: leases.commands.get(&command.id).map(|lease| lease.expires_at),
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
    let command = &listed.command;
    let age_ms = now.0.saturating_sub(command.since.0);
    let head =
        among::head(&format!("command {}", command.id), age_ms, listed.session, listed.title.as_deref());
    let mut out = format!("{head}\n  {}\n", render::wrapped(4, command.title.as_str()));
    let is_silent = listed.lease_end.is_none_or(|end| end < now);
    if is_silent {
        out.push_str("  its worker is gone or hangs; the next one records its end\n");
    } else if command.is_stopping {
        out.push_str("  it was asked to stop\n");
    } else if let Some(view) = views.iter().find(|view| view.session == listed.session) {
        let hints = among::hints(context, views, view, |view| has(view, command.id));
        let _ = writeln!(out, "  {} stops it", hints.command(&format!("commands stop {}", command.id)));
    }
    out
}

fn has(view: &SessionView, command: CommandId) -> bool {
    view.commands.iter().any(|running| running.id == command)
}

async fn stop(context: &Context, opened: &Opened, args: StopArgs) -> Result<Exit, CliError> {
    let id = args.command;
    let what = format!("a background command {id}");
    let view = args.of.find(context, opened, &what, |view| has(view, id)).await?;
    let title = view.commands.iter().find(|running| running.id == id).map(|running| running.title.clone());
    let view = opened.door.stop_command(view.session, id).await?;
    context.out.answer(&view, || {
        let title = title.map(|title| format!(": {}", render::one_line(title.as_str())));
        format!("background command {id} was asked to stop{}", title.unwrap_or_default())
    })?;
    Ok(Exit::Done)
}
