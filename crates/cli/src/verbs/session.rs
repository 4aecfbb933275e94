//! `zuno session`: open, list and show.

use clap::{Args, Subcommand};
use domain::{AgentName, SessionId};
use serde::Serialize;
use store::{LISTED_SESSIONS, SessionFilter};

use crate::args::{OfSession, parse_limit};
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::{output, render};

/// Sessions shown unless asked for more: two screens.
const LISTED: usize = 20;

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
    /// Open a session in the workspace and print its id
    New(NewArgs),
    /// List the sessions of the workspace, the one that changed last first
    #[command(long_about = LIST_HELP)]
    List(ListArgs),
    /// Show a session at a glance: mode, Goal, turn, plan and what happens next
    Show(OfSession),
}

const LIST_HELP: &str = "\
Lists the sessions of the workspace, the one that changed last first.

Each is named by its short form, the first 8 digits of the last group of its id. --session takes that, the id, and as \
few as 4 digits that the id or its last group begins with, as long as only one session is meant. With --json ids are \
whole.";

/// Arguments of `session new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The agent for Work mode: orchestrator, build or deep
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentName>,
}

/// Arguments of `session list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The sessions of every workspace
    #[arg(long)]
    all: bool,
    /// At most this many, up to 1000
    #[arg(long, value_name = "N", default_value_t = LISTED, value_parser = parse_listed)]
    limit: usize,
}

fn parse_listed(text: &str) -> Result<usize, String> {
    let limit = parse_limit(text)?;
    if limit > LISTED_SESSIONS {
        return Err(format!("a list holds at most {LISTED_SESSIONS} sessions"));
    }
    Ok(limit)
}

#[derive(Serialize)]
struct NewSession {
    session: SessionId,
}

/// A session as `session list --json` shows it.
#[derive(Serialize)]
struct ListedSession {
    session: SessionId,
    title: Option<String>,
    workspace: String,
    mode: String,
    agent: String,
    goal_status: Option<String>,
    plan: Option<ListedPlan>,
    head: domain::Seq,
    updated_at: domain::Timestamp,
    wake_at: Option<domain::Timestamp>,
}

#[derive(Serialize)]
struct ListedPlan {
    plan_id: domain::PlanId,
    revision: domain::Revision,
    title: String,
    completed: u64,
    total: u64,
    active: Option<String>,
    closed: bool,
}

#[derive(Serialize)]
struct SessionList {
    sessions: Vec<ListedSession>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: SessionVerb) -> Result<Exit, CliError> {
    match verb {
        SessionVerb::New(args) => new(context, args).await,
        SessionVerb::List(args) => list(context, args).await,
        SessionVerb::Show(of) => show(context, of).await,
    }
}

async fn new(context: &Context, args: NewArgs) -> Result<Exit, CliError> {
    let agent = context.agent(args.agent)?;
    let opened = context.open_or_create().await?;
    let session = opened.door.open_session(context.workspace(), agent).await?;
    context.out.answer(&NewSession { session }, || session.to_string())?;
    Ok(Exit::Done)
}

async fn list(context: &Context, args: ListArgs) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    let workspace = (!args.all).then(|| context.workspace().to_owned());
    let filter = SessionFilter { workspace, limit: args.limit };
    let found = opened.sessions.list(&filter).await?;
    if found.is_empty() {
        let place = if args.all { "in this store" } else { "of this workspace; --all lists the others" };
        output::remark(&format!("there is no session {place}"));
    }
    let text = render::list(&found, args.all, output::columns());
    let sessions = found.into_iter().map(listed).collect();
    context.out.answer(&SessionList { sessions }, || text)?;
    Ok(Exit::Done)
}

fn listed(found: store::SessionSummary) -> ListedSession {
    let plan = found.plan.map(|plan| ListedPlan {
        plan_id: plan.plan_id,
        revision: plan.revision,
        title: plan.title,
        completed: plan.completed,
        total: plan.total,
        active: plan.active,
        closed: plan.closed,
    });
    ListedSession {
        session: found.id,
        title: found.title,
        workspace: found.workspace,
        mode: found.mode,
        agent: found.agent,
        goal_status: found.goal_status,
        plan,
        head: found.head,
        updated_at: found.updated_at,
        wake_at: found.wake_at,
    }
}

async fn show(context: &Context, of: OfSession) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    let session = context.session(&opened, of).await?;
    let view = opened.sessions.view(session).await?;
    let (hints, now) = (of.hints(session), opened.sessions.now());
    context.out.answer(&view, || render::session(&view, hints, now))?;
    Ok(Exit::Done)
}
