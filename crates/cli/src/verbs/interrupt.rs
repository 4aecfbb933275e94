//! `zuno interrupt`: what Ctrl-C does, from another terminal (G11).

use std::fmt::Write as _;

use clap::Args;
use domain::GoalState;
use runtime::SessionView;

use crate::args::OfSession;
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::render::{self, Hints};

/// Arguments of `interrupt`.
#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
    #[command(flatten)]
    of: OfSession,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: InterruptArgs) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    let session = context.session(&opened, args.of).await?;
    let view = opened.door.interrupt(session).await?;
    context.out.answer(&view, || text(&view, args.of.hints(session)))?;
    Ok(Exit::Done)
}

fn text(view: &SessionView, hints: Hints) -> String {
    let mut text = match &view.running {
        Some(turn) => format!("turn {} was asked to stop\n", turn.turn),
        None => "no turn runs\n".to_owned(),
    };
    if let Some(goal) = view.goal.as_ref().filter(|goal| !goal.state().is_terminal()) {
        let way = match goal.state() {
            GoalState::Paused => format!("; {} goes on", hints.command("goal resume")),
            _ => String::new(),
        };
        let _ = writeln!(text, "Goal {}{way}", render::status_words(&goal.status));
    }
    if view.queued_inputs > 0 {
        let _ = writeln!(text, "{} held until you act", render::count(view.queued_inputs, "queued input"));
    }
    for command in view.commands.iter().map(|view| &view.command).filter(|command| !command.is_stopping) {
        let stop = hints.command(&format!("commands stop {}", command.id));
        let _ = writeln!(text, "background command {} goes on; {stop} stops it", command.id);
    }
    text
}
