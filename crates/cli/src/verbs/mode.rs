//! `zuno mode`: show it, enter Plan mode, start work.

use clap::{Args, Subcommand};
use domain::Revision;
use runtime::{GoalView, ModeView, PlanView, SessionView};
use serde::Serialize;

use crate::args::OfSession;
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::render;
use crate::verbs::plan::parse_revision;

/// What to do with the mode.
#[derive(Debug, Subcommand)]
pub(crate) enum ModeVerb {
    /// Show the mode and its agent
    Show(OfSession),
    /// Enter Plan mode: read-only; stops running turns and pauses the Goal
    Plan(OfSession),
    /// Go back to Work mode; the Goal goes on if Plan mode had paused it
    Work(WorkArgs),
}

/// Arguments of `mode work`.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    of: OfSession,
    /// Refuse if the plan is at another revision than the one that was read
    #[arg(long, value_name = "N", value_parser = parse_revision)]
    expected_plan_revision: Option<Revision>,
}

/// The mode after a change, with what the change is about.
#[derive(Serialize)]
struct Changed {
    #[serde(flatten)]
    mode: ModeView,
    plan: Option<PlanView>,
    goal: Option<GoalView>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: ModeVerb) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    match verb {
        ModeVerb::Show(of) => {
            let session = context.session(&opened, of).await?;
            let mode = opened.sessions.view(session).await?.mode_view();
            context.out.answer(&mode, || render::mode(&mode))?;
        }
        ModeVerb::Plan(of) => {
            let session = context.session(&opened, of).await?;
            answer(context, opened.door.enter_plan(session).await?)?;
        }
        ModeVerb::Work(args) => {
            let session = context.session(&opened, args.of).await?;
            answer(context, opened.door.start_work(session, args.expected_plan_revision, None).await?)?;
        }
    }
    Ok(Exit::Done)
}

fn answer(context: &Context, view: SessionView) -> Result<(), CliError> {
    let mode = view.mode_view();
    let changed =
        Changed { mode, plan: view.plan, goal: view.goal.filter(|goal| !goal.state().is_terminal()) };
    context.out.answer(&changed, || {
        let plan = match &changed.plan {
            None => "no plan".to_owned(),
            Some(plan) => format!("plan: {}, {}", render::cut(&plan.title, 40), render::progress(plan)),
        };
        let goal = changed.goal.as_ref();
        let goal = goal.map(|goal| format!("Goal: {}\n", render::status_words(&goal.status)));
        format!("{}\n{plan}\n{}", render::mode(&changed.mode), goal.unwrap_or_default())
    })
}
