//! `zuno plan`: show, update, history, diff and close.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::{Code, CommandKey, PlanId, Revision, SessionId, Violation};
use runtime::{PlanAccepted, PlanRevisionView};
use serde::Serialize;
use serde_json::Value;

use crate::args::{OfSession, parse_limit};
use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit, rejected_line};
use crate::input::{self, CANDIDATE_BYTES, Lines, Piece};
use crate::{output, render};

/// Revisions shown unless asked for more.
const SHOWN_REVISIONS: usize = 50;

/// What to do with the plan.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanVerb {
    /// Show the latest plan; exit code 4 if there is none
    Show(OfSession),
    /// Replace the plan with a candidate in JSON
    #[command(long_about = UPDATE_HELP)]
    Update(UpdateArgs),
    /// List the revisions, the latest last: when, by whom, how far
    History(HistoryArgs),
    /// Show what changed between two revisions
    Diff(DiffArgs),
    /// Close an unfinished plan that no longer applies
    Close(CloseArgs),
}

const UPDATE_HELP: &str = r#"Replace the plan with a candidate in JSON, which is the whole plan:

  {"title": "Implement session export",
   "steps": [
     {"id": "inspect", "status": "in_progress",
      "title": "Inspect durable state"},
     {"id": "implement", "status": "pending",
      "title": "Implement archive writer"},
     {"id": "verify", "status": "pending",
      "title": "Run round-trip tests"}]}

A status is pending, in_progress or completed. The first candidate has no expected_revision; each later one names the revision that it is based on, as in "expected_revision": 1.

The answer is one line of JSON: {"accepted":{"plan_id","revision","completed","total","active"}}. A refusal is exit code 3 and, with --json or --stream, a line with "rejected" that carries the plan as it is."#;

/// Arguments of `plan update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    of: OfSession,
    /// The file with the candidate; `-` or nothing for stdin
    #[arg(value_name = "FILE", conflicts_with = "stream")]
    file: Option<PathBuf>,
    /// Read one candidate per line on stdin and answer each with one line
    #[arg(long)]
    stream: bool,
    /// Makes it safe to send the candidate twice: the same key with the same candidate answers as the first time
    #[arg(long, value_name = "KEY", value_parser = parse_key, conflicts_with = "stream")]
    key: Option<CommandKey>,
}

/// Arguments of `plan history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    of: OfSession,
    /// The last N only
    #[arg(long, value_name = "N", default_value_t = SHOWN_REVISIONS, value_parser = parse_limit)]
    limit: usize,
}

/// Arguments of `plan diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    of: OfSession,
    /// The earlier revision [default: the one before the later]
    #[arg(value_name = "FROM", value_parser = parse_revision)]
    from: Option<Revision>,
    /// The later revision [default: the latest]
    #[arg(value_name = "TO", value_parser = parse_revision)]
    to: Option<Revision>,
    /// An earlier plan of the session [default: the latest plan]
    #[arg(long, value_name = "ID")]
    plan: Option<PlanId>,
}

/// Arguments of `plan close`.
#[derive(Debug, Args)]
pub(crate) struct CloseArgs {
    #[command(flatten)]
    of: OfSession,
    /// Why it no longer applies; shown wherever the plan is
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Refuse if the plan is at another revision
    #[arg(long, value_name = "N", value_parser = parse_revision)]
    expected_revision: Option<Revision>,
}

fn parse_key(text: &str) -> Result<CommandKey, String> {
    CommandKey::parse(text).map_err(|fault| format!("the key {fault}"))
}

/// A revision on the command line.
pub(crate) fn parse_revision(text: &str) -> Result<Revision, String> {
    text.parse().map(Revision).map_err(|_| "a revision is a whole number from 0".to_owned())
}

#[derive(Serialize)]
struct Accepted {
    accepted: PlanAccepted,
}

#[derive(Serialize)]
struct History {
    revisions: Vec<PlanRevisionView>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: PlanVerb) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    match verb {
        PlanVerb::Show(of) => show(context, &opened, of).await,
        PlanVerb::Update(args) if args.stream => stream(context, &opened, args.of).await,
        PlanVerb::Update(args) => update(context, &opened, args).await,
        PlanVerb::History(args) => history(context, &opened, args).await,
        PlanVerb::Diff(args) => diff(context, &opened, args).await,
        PlanVerb::Close(args) => close(context, &opened, args).await,
    }
}

fn no_plan(session: SessionId) -> CliError {
    CliError::NotFound(format!("session {session} has no plan yet"))
}

async fn show(context: &Context, opened: &Opened, of: OfSession) -> Result<Exit, CliError> {
    let session = context.session(opened, of).await?;
    let plan = opened.sessions.view(session).await?.plan.ok_or_else(|| no_plan(session))?;
    context.out.answer(&plan, || render::plan(&plan))?;
    Ok(Exit::Done)
}

async fn update(context: &Context, opened: &Opened, args: UpdateArgs) -> Result<Exit, CliError> {
    let session = context.session(opened, args.of).await?;
    if args.file.is_none() && output::has_person() {
        output::remark("reading a plan in JSON from stdin; Ctrl-D ends it");
    }
    let candidate = input::candidate(args.file.as_deref()).await?;
    let accepted = submit(opened, session, candidate, args.key).await?;
    output::json_line(&Accepted { accepted })?;
    Ok(Exit::Done)
}

async fn stream(context: &Context, opened: &Opened, of: OfSession) -> Result<Exit, CliError> {
    let session = context.session(opened, of).await?;
    // A session that does not exist is said once, not for every line.
    opened.sessions.view(session).await?;
    let mut lines = Lines::new(tokio::io::BufReader::new(tokio::io::stdin()));
    loop {
        let line = lines.next().await;
        let line = line.map_err(|error| CliError::Environment(format!("stdin cannot be read: {error}")))?;
        let Some(candidate) = line else { return Ok(Exit::Done) };
        match submit(opened, session, candidate, None).await {
            Ok(accepted) => output::json_line(&Accepted { accepted })?,
            Err(CliError::Rejected(rejection)) => output::json_line(&rejected_line(&rejection))?,
            Err(error) => return Err(error),
        }
    }
}

/// Decodes and submits one candidate. What cannot be decoded is refused like what breaks a rule, with the plan as it is.
async fn submit(
    opened: &Opened,
    session: SessionId,
    candidate: Piece,
    key: Option<CommandKey>,
) -> Result<PlanAccepted, CliError> {
    let fault = match candidate {
        Piece::Whole(bytes) => match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => return Ok(opened.door.update_plan(session, &value, key).await?),
            Err(_) if bytes.trim_ascii().is_empty() => {
                Violation::new("P6", Code::InvalidInput, "there is no candidate: send a plan in JSON")
            }
            Err(error) => {
                Violation::new("P6", Code::InvalidInput, format!("the candidate is not JSON: {error}"))
            }
        },
        Piece::TooLong => {
            let message = format!("the candidate has more than {} MiB", CANDIDATE_BYTES >> 20);
            Violation::new("P7", Code::LimitExceeded, message)
        }
    };
    Err(opened.door.refuse_plan(session, vec![fault]).await?.into())
}

async fn history(context: &Context, opened: &Opened, args: HistoryArgs) -> Result<Exit, CliError> {
    let session = context.session(opened, args.of).await?;
    let revisions = opened.sessions.plan_history(session, args.limit).await?;
    if revisions.is_empty() {
        return Err(no_plan(session));
    }
    let text = render::history(&revisions, output::columns());
    context.out.answer(&History { revisions }, || text)?;
    Ok(Exit::Done)
}

async fn diff(context: &Context, opened: &Opened, args: DiffArgs) -> Result<Exit, CliError> {
    let session = context.session(opened, args.of).await?;
    let diff = opened.sessions.plan_diff(session, args.plan, args.from, args.to).await?;
    let Some(diff) = diff else {
        let latest = opened.sessions.view(session).await?.plan.ok_or_else(|| no_plan(session))?;
        let message = match (args.plan, args.from.or(args.to)) {
            (None, None) => "the plan has one revision, so nothing changed yet".to_owned(),
            (None, Some(_)) => format!("the plan has the revisions 1 to {}", latest.revision),
            (Some(plan), _) => format!("plan {plan} has no such revisions; `zuno plan history` lists them"),
        };
        return Err(CliError::NotFound(message));
    };
    context.out.answer(&diff, || render::diff(&diff))?;
    Ok(Exit::Done)
}

async fn close(context: &Context, opened: &Opened, args: CloseArgs) -> Result<Exit, CliError> {
    let reason = input::text("P17", "reason", &args.reason)?;
    let session = context.session(opened, args.of).await?;
    let plan = opened.door.close_plan(session, args.expected_revision, reason).await?;
    context.out.answer(&plan, || render::plan(&plan))?;
    Ok(Exit::Done)
}
