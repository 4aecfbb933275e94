//! `zuno goal`: show, set, pause, resume, cancel, complete, run.

use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

use clap::{Args, Subcommand};
use domain::SessionId;
use runtime::{GoalView, NewGoal, SessionView};

use crate::args::OfSession;
use crate::context::{Context, limits_in};
use crate::exit::{CliError, Exit};
use crate::verbs::work::{self, WorkArgs};
use crate::{input, render};

/// What to do with the Goal.
#[derive(Debug, Subcommand)]
pub(crate) enum GoalVerb {
    /// Show the latest Goal: where it stands, what it spent
    Show(OfSession),
    /// Set a Goal; it is active at once
    Set(SetArgs),
    /// Hold the Goal; its turn stops
    Pause(OfSession),
    /// Let the Goal go on, whatever held it
    Resume(OfSession),
    /// Give the Goal up, for good
    Cancel(OfSession),
    /// Declare the Goal reached, for good
    Complete(CompleteArgs),
    /// Work on active Goals without a person
    #[command(long_about = work::HELP)]
    Run(WorkArgs),
}

/// Arguments of `goal set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    of: OfSession,
    /// What to reach
    #[arg(value_name = "OBJECTIVE")]
    objective: String,
    /// How to tell that it is reached
    #[arg(long, value_name = "TEXT")]
    criteria: Option<String>,
    /// Tokens it may spend, uncached input and output [default: from zuno.toml, else 2000000]
    #[arg(long, value_name = "N", value_parser = budget::<NonZeroU64>)]
    tokens: Option<NonZeroU64>,
    /// Turns it may take [default: from zuno.toml, else 200]
    #[arg(long, value_name = "N", value_parser = budget::<NonZeroU32>)]
    turns: Option<NonZeroU32>,
    /// Cancel the open Goal and take its place
    #[arg(long)]
    replace: bool,
}

fn budget<N: FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse().map_err(|_| "a budget is a whole number from 1")
}

/// Arguments of `goal complete`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    of: OfSession,
    /// What was reached
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
}

impl GoalVerb {
    pub(crate) const fn is_user_act(&self) -> bool {
        match self {
            Self::Show(_) => false,
            Self::Set(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Cancel(_)
            | Self::Complete(_)
            | Self::Run(_) => true,
        }
    }
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: GoalVerb) -> Result<Exit, CliError> {
    if let GoalVerb::Run(args) = verb {
        return work::run(context, args).await;
    }
    let opened = context.open().await?;
    let of = verb.of();
    let session = context.session(&opened, of).await?;
    let view = match verb {
        GoalVerb::Show(_) | GoalVerb::Run(_) => opened.sessions.view(session).await?,
        GoalVerb::Set(args) => {
            let workspace = opened.sessions.view(session).await?.workspace;
            let new = args.new_goal(&workspace)?;
            opened.door.set_goal(session, new).await?;
            opened.sessions.view(session).await?
        }
        GoalVerb::Pause(_) => opened.door.pause_goal(session).await?,
        GoalVerb::Resume(_) => opened.door.resume_goal(session).await?,
        GoalVerb::Cancel(_) => opened.door.cancel_goal(session).await?,
        GoalVerb::Complete(args) => {
            let summary = args.summary.map(|text| input::text("G2", "summary", &text)).transpose()?;
            opened.door.complete_goal(session, summary).await?
        }
    };
    let goal = goal_of(view)?;
    context.out.answer(&goal, || render::goal(&goal))?;
    Ok(Exit::Done)
}

impl GoalVerb {
    const fn of(&self) -> OfSession {
        match self {
            Self::Show(of) | Self::Pause(of) | Self::Resume(of) | Self::Cancel(of) => *of,
            Self::Set(args) => args.of,
            Self::Complete(args) => args.of,
            Self::Run(args) => args.of(),
        }
    }
}

impl SetArgs {
    fn new_goal(self, workspace: &str) -> Result<NewGoal, CliError> {
        let mut budgets = limits_in(workspace)?.budgets;
        budgets.tokens = self.tokens.unwrap_or(budgets.tokens);
        budgets.turns = self.turns.unwrap_or(budgets.turns);
        Ok(NewGoal {
            objective: input::text("G2", "objective", &self.objective)?,
            criteria: self.criteria.map(|text| input::text("G2", "criteria", &text)).transpose()?,
            budgets,
            replace: self.replace,
        })
    }
}

fn goal_of(view: SessionView) -> Result<GoalView, CliError> {
    let session = view.session;
    view.goal.ok_or_else(|| no_goal(session))
}

/// A session without a Goal.
pub(crate) fn no_goal(session: SessionId) -> CliError {
    CliError::NotFound(format!("session {session} has no Goal; `zuno goal set` sets one"))
}
