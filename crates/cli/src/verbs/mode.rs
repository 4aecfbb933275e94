//! `zuno mode`: show it, enter Plan mode, start work.

use clap::{Args, Subcommand};
use domain::{Revision, Timestamp};
use runtime::{GoalView, ModeView, Outlook, PlanView, SessionView};
use serde::Serialize;

use crate::args::OfSession;
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::input;
use crate::render::{self, Hints};
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
    /// Queue this prompt together with the change, for the first turn in Work mode; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
}

/// The mode after a change, with what the change is about.
#[derive(Serialize)]
struct Changed {
    #[serde(flatten)]
    mode: ModeView,
    plan: Option<PlanView>,
    goal: Option<GoalView>,
    outlook: Outlook,
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
            let view = opened.door.enter_plan(session).await?;
            answer(context, view, opened.sessions.now(), false)?;
        }
        ModeVerb::Work(args) => {
            let session = context.session(&opened, args.of).await?;
            let prompt = match &args.prompt {
                Some(argument) => Some(input::text("I1", "prompt", &input::prompt(argument).await?)?),
                None => None,
            };
            let has_prompt = prompt.is_some();
            let view = opened.door.start_work(session, args.expected_plan_revision, prompt).await?;
            answer(context, view, opened.sessions.now(), has_prompt)?;
        }
    }
    Ok(Exit::Done)
}

/// Shows what changed, and after a prompt also who runs it: the command itself starts no turn.
fn answer(context: &Context, view: SessionView, now: Timestamp, has_prompt: bool) -> Result<(), CliError> {
    let next = render::next_lines(&view, Hints::of(view.session), now);
    let mode = view.mode_view();
    let goal = view.goal.filter(|goal| !goal.state().is_terminal());
    let changed = Changed { mode, plan: view.plan, goal, outlook: view.outlook };
    context.out.answer(&changed, || {
        let plan = match &changed.plan {
            None => "no plan".to_owned(),
            Some(plan) => format!("plan: {}, {}", render::cut(&plan.title, 40), render::progress(plan)),
        };
        let goal = changed.goal.as_ref();
        let goal = goal.map(|goal| format!("Goal: {}\n", render::status_words(&goal.status)));
        let next = has_prompt.then(|| format!("next: {}", render::paragraphs(6, &next)));
        let (goal, next) = (goal.unwrap_or_default(), next.unwrap_or_default());
        format!("{}\n{plan}\n{goal}{next}", render::mode(&changed.mode))
    })
}
