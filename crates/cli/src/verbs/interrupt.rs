//! `zuno interrupt`: what Ctrl-C does, from another terminal (G11).

use clap::Args;

use crate::args::OfSession;
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::render;

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
    context.out.answer(&view, || {
        let turn = match &view.running {
            Some(turn) => format!("turn {} was asked to stop\n", turn.turn),
            None => "no turn runs\n".to_owned(),
        };
        let goal = view.goal.as_ref().filter(|goal| !goal.state().is_terminal());
        let goal = goal.map(|goal| format!("Goal: {}\n", render::goal_state(goal)));
        let queue = match view.queued_inputs {
            0 => String::new(),
            queued => format!("{} held until you act\n", render::count(queued, "queued input")),
        };
        format!("{turn}{}{queue}", goal.unwrap_or_default())
    })?;
    Ok(Exit::Done)
}
