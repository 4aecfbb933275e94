//! `zuno jobs`: work that an agent delegated to another.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use domain::{CallRef, EventBody, InputKind, Job, JobId, JobOutcome, Seq, SessionId, Timestamp};
use runtime::{JobView, SessionView};
use serde::Serialize;
use store::EVENTS_PER_PAGE;

use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit};
use crate::verbs::among::{self, Among, WhereItIs};
use crate::{output, render};

/// What to do about jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsVerb {
    /// List the jobs that are not over
    List(Among),
    /// Show a job by its number, also one that is over: what it was to do, how it ended, and its report
    Show(JobArgs),
    /// End a job by its number; who delegated it reads that you did
    Cancel(JobArgs),
}

/// Arguments of `jobs show` and `jobs cancel`.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    of: WhereItIs,
    /// The number of the job
    #[arg(value_name = "N", value_parser = parse_number)]
    job: JobId,
}

fn parse_number(text: &str) -> Result<JobId, &'static str> {
    text.parse().map(JobId).map_err(|_| "a job has a number from 1; `zuno jobs list` shows it")
}

/// A job as `--json` shows it.
#[derive(Serialize)]
struct Listed {
    session: SessionId,
    title: Option<String>,
    workspace: String,
    job: JobView,
}

#[derive(Serialize)]
struct List {
    jobs: Vec<Listed>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: JobsVerb) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    match verb {
        JobsVerb::List(among) => list(context, &opened, among).await,
        JobsVerb::Show(args) => show(context, &opened, args).await,
        JobsVerb::Cancel(args) => cancel(context, &opened, args).await,
    }
}

async fn list(context: &Context, opened: &Opened, among: Among) -> Result<Exit, CliError> {
    let views = among.views(context, opened).await?;
    let mut jobs = Vec::new();
    for view in &views {
        jobs.extend(view.jobs.iter().map(|job| Listed {
            session: view.session,
            title: view.title.clone(),
            workspace: view.workspace.clone(),
            job: job.clone(),
        }));
    }
    if jobs.is_empty() {
        let place = among.place();
        output::remark(&format!("no job runs {place}; `zuno jobs show N` shows one that is over"));
    }
    let (list, now) = (List { jobs }, opened.sessions.now());
    context
        .out
        .answer(&list, || list.jobs.iter().map(|listed| entry(context, &views, listed, now)).collect())?;
    Ok(Exit::Done)
}

fn entry(context: &Context, views: &[SessionView], listed: &Listed, now: Timestamp) -> String {
    let job = &listed.job.job;
    let age_ms = now.0.saturating_sub(job.since.0);
    let what = format!("job {} ({})", job.id, job.agent);
    let head = among::head(&what, age_ms, listed.session, listed.title.as_deref());
    let mut out = format!("{head}\n  {}\n", render::wrapped(4, job.title.as_str()));
    let Some(view) = views.iter().find(|view| view.session == listed.session) else { return out };
    let hints = among::hints(context, views, view, |view| has(view, job.id));
    let cancel = hints.command(&format!("jobs cancel {}", job.id));
    let what = match standing(&listed.job) {
        Some(standing) => format!("{standing}; {cancel} ends it"),
        None => format!("{cancel} ends it"),
    };
    let _ = writeln!(out, "  {}", render::wrapped(4, &what));
    out
}

/// What is to be said of a job that does not simply run.
fn standing(view: &JobView) -> Option<String> {
    match (&view.running, view.waits_for) {
        (_, Some(request)) => Some(format!("it waits for your answer to request {request}")),
        (Some(turn), None) if turn.worker.is_lost() => {
            Some("its worker is gone or hangs; the next worker records its end".to_owned())
        }
        (Some(turn), None) => turn.stop.map(|reason| format!("it was asked to stop: {reason}")),
        (None, None) => Some("its next turn waits for a worker".to_owned()),
    }
}

fn has(view: &SessionView, job: JobId) -> bool {
    view.jobs.iter().any(|running| running.job.id == job)
}

/// A job from its start to its end, as `jobs show --json` tells it.
#[derive(Serialize)]
struct Shown {
    session: SessionId,
    job: Job,
    /// What it was to do.
    task: Option<String>,
    ended_at: Option<Timestamp>,
    outcome: Option<JobOutcome>,
    report: Option<String>,
}

async fn show(context: &Context, opened: &Opened, args: JobArgs) -> Result<Exit, CliError> {
    let id = args.job;
    let view = args.of.find(context, opened, &format!("a job {id}"), |view| has(view, id)).await?;
    let session = view.session;
    let shown = read(opened, session, id).await?.ok_or_else(|| {
        CliError::NotFound(format!("session {session} has no job {id}; --session names another"))
    })?;
    let now = opened.sessions.now();
    context.out.answer(&shown, || {
        let age_ms = now.0.saturating_sub(shown.job.since.0);
        let what = format!("job {id} ({})", shown.job.agent);
        let mut text = among::head(&what, age_ms, session, view.title.as_deref());
        let task = shown.task.as_deref().unwrap_or(shown.job.title.as_str());
        let _ = write!(text, "\n\n{}\n", render::lines(task).trim_end());
        match shown.outcome {
            None => {
                let running = view.jobs.iter().find(|running| running.job.id == id);
                let standing = running.and_then(standing).unwrap_or_else(|| "it runs".to_owned());
                let _ = write!(text, "\n{standing}\n");
            }
            Some(outcome) => {
                let report =
                    shown.report.as_deref().unwrap_or("its Goal was over, so its report was not kept");
                let _ = write!(text, "\n{}:\n{}\n", outcome.name(), render::lines(report).trim_end());
            }
        }
        text
    })?;
    Ok(Exit::Done)
}

/// Reads the log for a job: the state forgets those that are over.
async fn read(opened: &Opened, session: SessionId, id: JobId) -> Result<Option<Shown>, CliError> {
    let (mut shown, mut after) = (None::<Shown>, Seq(0));
    loop {
        let page = opened.sessions.events_after(session, after, EVENTS_PER_PAGE).await?;
        for event in page.events {
            match (event.body, &mut shown) {
                (EventBody::JobStarted { job }, _) if job.id == id => {
                    shown =
                        Some(Shown { session, job, task: None, ended_at: None, outcome: None, report: None });
                }
                (EventBody::InputQueued { input: InputKind::Task, lane, text, .. }, Some(shown))
                    if lane == shown.job.child =>
                {
                    shown.task = Some(text.as_str().to_owned());
                }
                (EventBody::JobEnded { job, outcome }, Some(shown)) if job == id => {
                    (shown.ended_at, shown.outcome) = (Some(event.at), Some(outcome));
                }
                (EventBody::CallFinished { call, result, .. }, Some(shown)) => {
                    shown.take_report(Some(call), &result);
                }
                (EventBody::InputQueued { input: InputKind::Report, text, .. }, Some(shown)) => {
                    shown.take_report(None, text.as_str());
                }
                _ => {}
            }
        }
        if !page.has_more {
            return Ok(shown);
        }
        after = page.next;
    }
}

impl Shown {
    /// Takes the first report after the end: the answer of the call that delegated the job, or a row of its own.
    fn take_report(&mut self, call: Option<CallRef>, text: &str) {
        let is_its_call = call.is_none_or(|call| call == self.job.call);
        let is_its_own = text.starts_with(&format!("[Job {} ", self.job.id));
        if self.outcome.is_some() && self.report.is_none() && is_its_call && is_its_own {
            self.report = text.split_once('\n').map(|(_, report)| report.to_owned());
        }
    }
}

async fn cancel(context: &Context, opened: &Opened, args: JobArgs) -> Result<Exit, CliError> {
    let id = args.job;
    let view = args.of.find(context, opened, &format!("a job {id}"), |view| has(view, id)).await?;
    let before = view.jobs.iter().find(|running| running.job.id == id).cloned();
    let view = opened.door.cancel_job(view.session, id).await?;
    context.out.answer(&view, || {
        let title = before.map(|before| format!(": {}", render::one_line(before.job.title.as_str())));
        let what = if has(&view, id) { "was asked to stop" } else { "is cancelled" };
        format!("job {id} {what}{}\n", title.unwrap_or_default())
    })?;
    Ok(Exit::Done)
}
