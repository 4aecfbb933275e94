//! `zuno goal`: show, set, accept, edit, pay for, hold, end and run.

use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

use clap::{Args, Subcommand};
use domain::{GoalStatus, HumanRequest, ModelCall, Objective, PauseReason, Revision, SessionId};
use policy::NextAction;
use runtime::{BudgetEdit, CommandView, CriteriaEdit, GoalView, NewGoal, Outlook, SessionView};
use serde::Serialize;

use crate::args::OfSession;
use crate::config::ActiveTime;
use crate::context::{Context, Opened, limits_in};
use crate::exit::{CliError, Exit};
use crate::verbs::plan::parse_revision;
use crate::verbs::work::{self, WorkArgs};
use crate::{input, output, render};

/// What to do with the Goal.
#[derive(Debug, Subcommand)]
pub(crate) enum GoalVerb {
    /// Show the latest Goal: where it stands, why it goes on or not, what it cost
    Show(OfSession),
    /// Set a Goal; it is active at once
    Set(SetArgs),
    /// Accept what an agent proposes: a Goal, or a change of it
    Accept(AcceptArgs),
    /// Decline what an agent proposes
    Decline(OfSession),
    /// Change what the Goal is after
    Edit(EditArgs),
    /// Change what the Goal may spend; one that ran out of it goes on
    Budget(BudgetArgs),
    /// Hold the Goal; its turn stops
    Pause(OfSession),
    /// Let the Goal go on, whatever held it; an active one waits no more
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
    /// Time its turns may run, such as 8h or 1h30m; waits and pauses cost none [default: from zuno.toml, else 8h]
    #[arg(long, value_name = "TIME")]
    time: Option<ActiveTime>,
    /// Cancel the open Goal and take its place
    #[arg(long)]
    replace: bool,
}

/// Digits may be grouped as in the file: `1_000_000`.
fn budget<N: FromStr>(text: &str) -> Result<N, &'static str> {
    let groups: Vec<_> = text.split('_').collect();
    let is_number = |group: &&str| !group.is_empty() && group.chars().all(|c| c.is_ascii_digit());
    let number = groups.iter().all(is_number).then(|| groups.concat().parse().ok()).flatten();
    number.ok_or("a budget is a whole number from 1, such as 500000 or 500_000")
}

/// Arguments of `goal accept`.
#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    #[command(flatten)]
    of: OfSession,
    /// Refuse if the Goal is at another revision than the one that was read
    #[arg(long, value_name = "N", value_parser = parse_revision)]
    expected_revision: Option<Revision>,
}

/// Arguments of `goal edit`.
#[derive(Debug, Args)]
#[group(id = "change", required = true, multiple = true, args = ["objective", "criteria", "no_criteria"])]
pub(crate) struct EditArgs {
    #[command(flatten)]
    of: OfSession,
    /// What to reach from here on
    #[arg(long, value_name = "TEXT")]
    objective: Option<String>,
    /// How to tell that it is reached
    #[arg(long, value_name = "TEXT", conflicts_with = "no_criteria")]
    criteria: Option<String>,
    /// Drop the criteria
    #[arg(long)]
    no_criteria: bool,
    /// Refuse if the Goal is at another revision than the one that was read
    #[arg(long, value_name = "N", value_parser = parse_revision)]
    expected_revision: Option<Revision>,
}

/// Arguments of `goal budget`.
#[derive(Debug, Args)]
#[group(id = "budget", required = true, multiple = true, args = ["tokens", "turns", "time"])]
pub(crate) struct BudgetArgs {
    #[command(flatten)]
    of: OfSession,
    /// Tokens it may spend in all, uncached input and output
    #[arg(long, value_name = "N", value_parser = budget::<NonZeroU64>)]
    tokens: Option<NonZeroU64>,
    /// Turns it may take in all
    #[arg(long, value_name = "N", value_parser = budget::<NonZeroU32>)]
    turns: Option<NonZeroU32>,
    /// Time its turns may run in all, such as 8h or 1h30m
    #[arg(long, value_name = "TIME")]
    time: Option<ActiveTime>,
}

/// Arguments of `goal complete`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    of: OfSession,
    /// What was reached
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// Also while work of it is open: stops its commands and waits for no answer
    #[arg(long)]
    force: bool,
}

/// A Goal with what it waits for, as `--json` shows it.
#[derive(Serialize)]
struct Shown<'v> {
    session: SessionId,
    #[serde(flatten)]
    goal: &'v GoalView,
    requests: Vec<&'v HumanRequest>,
    commands: Vec<&'v CommandView>,
    /// The call that may have happened, while the Goal is held for it.
    call: Option<&'v ModelCall>,
    next: &'v NextAction,
    outlook: &'v Outlook,
}

impl GoalVerb {
    const fn of(&self) -> OfSession {
        match self {
            Self::Show(of) | Self::Decline(of) | Self::Pause(of) | Self::Resume(of) | Self::Cancel(of) => *of,
            Self::Set(args) => args.of,
            Self::Accept(args) => args.of,
            Self::Edit(args) => args.of,
            Self::Budget(args) => args.of,
            Self::Complete(args) => args.of,
            Self::Run(args) => args.of(),
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
    let before = opened.sessions.view(session).await?;
    let view = act(&opened, session, verb).await?;
    for gone in given_up(&before, &view) {
        output::remark(&output::for_stderr(2, &gone));
    }
    let call = match view.goal.as_ref().map(|goal| &goal.status) {
        Some(GoalStatus::Paused(PauseReason::UncertainSideEffect { call })) => {
            opened.sessions.call(session, *call).await?
        }
        _ => None,
    };
    let goal = view.goal.as_ref().ok_or_else(|| no_goal(session))?;
    let shown = Shown {
        session,
        goal,
        requests: view.requests.iter().filter(|open| open.goal_id == Some(goal.goal_id)).collect(),
        commands: view.commands.iter().filter(|view| view.command.goal_id == Some(goal.goal_id)).collect(),
        call: call.as_ref(),
        next: &view.next,
        outlook: &view.outlook,
    };
    let now = opened.sessions.now();
    context.out.answer(&shown, || render::goal(goal, &view, call.as_ref(), of.hints(session), now))?;
    Ok(Exit::Done)
}

/// What an act took along without naming it: a Goal whose place another one took, and requests that nobody waits for
/// any more.
fn given_up(before: &SessionView, after: &SessionView) -> Vec<String> {
    let open = before.goal.as_ref().filter(|goal| !goal.state().is_terminal());
    let replaced = open.filter(|goal| after.goal.as_ref().is_some_and(|next| next.goal_id != goal.goal_id));
    let replaced = replaced.map(|goal| {
        let state = goal.state();
        format!("the {state} Goal was cancelled, another one has its place: {}", goal.objective)
    });
    let is_open = |request: &&HumanRequest| after.requests.iter().any(|open| open.id == request.id);
    let dropped = before.requests.iter().filter(|request| !is_open(request)).map(|request| {
        format!("request {} is not waited for any more: {}", request.id, render::asked(request))
    });
    replaced.into_iter().chain(dropped).collect()
}

async fn act(opened: &Opened, session: SessionId, verb: GoalVerb) -> Result<SessionView, CliError> {
    let door = &opened.door;
    Ok(match verb {
        GoalVerb::Show(_) | GoalVerb::Run(_) => opened.sessions.view(session).await?,
        GoalVerb::Set(args) => {
            let workspace = opened.sessions.view(session).await?.workspace;
            let new = args.new_goal(&workspace)?;
            door.set_goal(session, new).await?;
            opened.sessions.view(session).await?
        }
        GoalVerb::Accept(args) => door.accept_goal(session, args.expected_revision).await?,
        GoalVerb::Decline(_) => door.decline_goal(session).await?,
        GoalVerb::Edit(args) => {
            let objective = args.objective.as_deref().map(objective).transpose()?;
            let criteria = match args.criteria.as_deref() {
                Some(text) => CriteriaEdit::Set(criteria(text)?),
                None if args.no_criteria => CriteriaEdit::Remove,
                None => CriteriaEdit::Keep,
            };
            door.edit_goal(session, objective, criteria, args.expected_revision).await?
        }
        GoalVerb::Budget(BudgetArgs { tokens, turns, time, .. }) => {
            let budgets = BudgetEdit { tokens, turns, active_ms: time.map(|time| time.0) };
            door.set_budgets(session, budgets).await?
        }
        GoalVerb::Pause(_) => door.pause_goal(session).await?,
        GoalVerb::Resume(_) => door.resume_goal(session).await?,
        GoalVerb::Cancel(_) => door.cancel_goal(session).await?,
        GoalVerb::Complete(args) => {
            let summary = args.summary.map(|text| input::text("G2", "summary", &text)).transpose()?;
            door.complete_goal(session, summary, args.force).await?
        }
    })
}

fn objective(text: &str) -> Result<Objective, CliError> {
    Ok(input::text("G2", "objective", text)?)
}

fn criteria(text: &str) -> Result<Objective, CliError> {
    Ok(input::text("G2", "criteria", text)?)
}

impl SetArgs {
    fn new_goal(self, workspace: &str) -> Result<NewGoal, CliError> {
        let changed =
            BudgetEdit { tokens: self.tokens, turns: self.turns, active_ms: self.time.map(|time| time.0) };
        Ok(NewGoal {
            objective: objective(&self.objective)?,
            criteria: self.criteria.as_deref().map(criteria).transpose()?,
            budgets: changed.apply_to(limits_in(workspace)?.budgets),
            replace: self.replace,
        })
    }
}

/// A session without a Goal.
pub(crate) fn no_goal(session: SessionId) -> CliError {
    CliError::NotFound(format!("session {session} has no Goal; `zuno goal set` sets one"))
}
