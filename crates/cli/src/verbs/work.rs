//! `zuno goal run`: the worker without a person (T11).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use domain::{GoalState, ModelName, SessionId};
use runtime::{Asking, Charge, Engine, EngineError, SessionView, Worked};
use serde::Serialize;
use store::SessionFilter;

use crate::args::OfSession;
use crate::config::{Config, process_environment};
use crate::context::{Context, Opened, named};
use crate::exit::{CliError, Exit};
use crate::narrator::{Manner, Narrator, heard};
use crate::render::Hints;
use crate::session_name::SessionName;
use crate::signals::{Signals, Wish};
use crate::verbs::run::{exit_of_goal, is_open};
use crate::walls::Confinement;
use crate::workshop::LocalWorkshop;
use crate::{output, render};

/// What `zuno goal run --help` says first.
pub(crate) const HELP: &str = "\
Works on active Goals without a person: runs the turns that are due and recovers turns whose worker died. Takes the \
sessions of the workspace, or one, or all.

Waits for more work until Ctrl-C or SIGTERM; waiting costs no model call. What an agent asks waits for `zuno requests`. \
Ctrl-C interrupts, as in `zuno run`: turns here stop, and the active Goals of its sessions are paused, also those that \
wait; what another worker runs stays. SIGTERM stops the turn in order and leaves the Goal active for the next worker; as \
in `zuno run` the exit code then says how the work stands: 0 or 7. Background commands end with the worker that started them. With --json each line is an event of the log; the last \
line is {\"worked\",\"failed\",\"exit\"}.";

/// Arguments of `goal run`.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Only this session, by its id or its short form [default: every session of the workspace]
    #[arg(long = "session", value_name = "ID", conflicts_with = "all")]
    session: Option<SessionName>,
    /// The sessions of every workspace
    #[arg(long)]
    all: bool,
    /// End once nothing is due and no background command runs here
    #[arg(long)]
    once: bool,
    /// The model: NAME of a [models.NAME] table in zuno.toml
    #[arg(long, value_name = "NAME")]
    model: Option<ModelName>,
    /// How commands are confined in this run [default: `level` in [sandbox] of zuno.toml, else full]
    #[arg(long, value_enum, value_name = "LEVEL")]
    sandbox: Option<Confinement>,
}

impl WorkArgs {
    pub(crate) const fn of(&self) -> OfSession {
        OfSession { session: self.session }
    }

    fn charge(&self, context: &Context, session: Option<SessionId>) -> Charge {
        match session {
            Some(session) => Charge::Session(session),
            None if self.all => Charge::All,
            None => Charge::Workspace(context.workspace().to_owned()),
        }
    }
}

/// The last line of `goal run --json`.
#[derive(Serialize)]
struct Ended {
    worked: Vec<SessionId>,
    failed: BTreeMap<SessionId, String>,
    exit: u8,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: WorkArgs) -> Result<Exit, CliError> {
    let workshop = Arc::new(LocalWorkshop::new(context, Config::of_process()?, args.sandbox));
    let mut signals = Signals::listen()?;
    let opened = context.open().await?;
    let session = match args.session {
        Some(name) => Some(named(&opened, name).await?),
        None => None,
    };
    let config = match session {
        Some(session) => workshop.config_in(Path::new(&opened.sessions.view(session).await?.workspace))?,
        // One worker has one model for all; no single project may choose it.
        None if args.all => Config::of_process()?,
        None => workshop.config_in(Path::new(context.workspace()))?,
    };
    let model = config.model(args.model.as_ref(), &process_environment)?;
    let charge = args.charge(context, session);
    if !context.out.is_json() {
        let of = match &charge {
            Charge::Session(session) => format!("session {session}"),
            Charge::Workspace(workspace) => format!("the sessions of {}", render::one_line(workspace)),
            Charge::All => "all sessions".to_owned(),
        };
        let until = if args.once { "until nothing is due" } else { "until Ctrl-C" };
        output::remark(&format!("working on {of} {until}"));
    }
    let manner =
        Manner { names_sessions: session.is_none(), explains_rest: !args.once, shows_requests: false };
    let (mut narrator, observer) = Narrator::new(context.out, opened.sessions.clone(), manner);
    let engine = Engine::new(opened.sessions.clone(), model, workshop, observer, Asking::Wait);
    let (mut wish, mut interrupted) = (None, BTreeSet::new());
    let worked = {
        let mut working = std::pin::pin!(engine.work(&charge, args.once));
        loop {
            tokio::select! {
                worked = &mut working => break worked?,
                told = narrator.tell_next() => heard(told)?,
                heard = signals.next() => {
                    if wish.replace(heard).is_some() {
                        return Ok(Exit::Interrupted);
                    }
                    match heard {
                        Wish::End => narrator.remark("stopping in order; once more leaves at once"),
                        Wish::Interrupt => {
                            narrator.remark("interrupting; Ctrl-C again leaves at once");
                            interrupted = interrupt(&opened, &charge, &engine.at_work()).await?;
                        }
                    }
                    engine.shut_down();
                }
            }
        }
    };
    tokio::select! {
        () = engine.close() => {}
        _ = signals.next() => return Ok(Exit::Interrupted),
    }
    heard(narrator.catch_up().await)?;
    let exit = match wish {
        Some(Wish::Interrupt) => {
            tell_all(context, &opened, &interrupted).await?;
            Exit::Interrupted
        }
        Some(Wish::End) | None => finish(context, &opened, &charge, &worked).await?,
    };
    if context.out.is_json() {
        let failed = worked.failed.iter().map(|(session, error)| (*session, error.to_string())).collect();
        let worked = worked.sessions.into_iter().collect();
        heard(output::json_line(&Ended { worked, failed, exit: exit as u8 }))?;
    }
    Ok(exit)
}

/// A person's interrupt is about all that this worker takes care of (G11): the session that was named, what runs here,
/// and the active Goals in its charge unless another worker runs their turn. Says which these are.
async fn interrupt(
    opened: &Opened,
    charge: &Charge,
    at_work: &[SessionId],
) -> Result<BTreeSet<SessionId>, CliError> {
    let mut sessions: BTreeSet<_> = at_work.iter().copied().collect();
    for session in unfinished(opened, charge).await? {
        let view = opened.sessions.view(session).await?;
        let is_active = view.goal.as_ref().is_some_and(|goal| goal.state() == GoalState::Active);
        let is_elsewhere = view.running.as_ref().is_some_and(|turn| !turn.worker.is_lost());
        if matches!(charge, Charge::Session(_)) || (is_active && !is_elsewhere) {
            sessions.insert(session);
        }
    }
    for session in &sessions {
        opened.door.interrupt(*session).await?;
    }
    Ok(sessions)
}

/// The sessions in the worker's charge whose Goal is open: what is left to do, also where nothing is due.
async fn unfinished(opened: &Opened, charge: &Charge) -> Result<Vec<SessionId>, CliError> {
    let workspace = match charge {
        Charge::Session(session) => return Ok(vec![*session]),
        Charge::Workspace(workspace) => Some(workspace.clone()),
        Charge::All => None,
    };
    let filter = SessionFilter { workspace, ..SessionFilter::default() };
    let is_over =
        |status: &str| [GoalState::Completed, GoalState::Cancelled].iter().any(|over| over.name() == status);
    let listed = opened.sessions.list(&filter).await?.into_iter();
    let open = listed.filter(|session| session.goal_status.as_deref().is_some_and(|status| !is_over(status)));
    Ok(open.map(|session| session.id).collect())
}

/// What is left when nothing is due: says where each session stands that was worked on or has an open Goal.
async fn finish(
    context: &Context,
    opened: &Opened,
    charge: &Charge,
    worked: &Worked,
) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    for (session, error) in &worked.failed {
        output::remark(&format!("session {session}: {}", render::lines(&error.to_string())));
        exit = match error {
            EngineError::Command(_) | EngineError::Workspace { .. } => Exit::Environment,
        };
    }
    let of_interest = worked.sessions.iter().copied().chain(unfinished(opened, charge).await?);
    for view in tell_all(context, opened, &of_interest.collect()).await? {
        if exit == Exit::Done {
            exit = exit_of(&view);
        }
    }
    Ok(exit)
}

/// Says where sessions stand.
async fn tell_all(
    context: &Context,
    opened: &Opened,
    sessions: &BTreeSet<SessionId>,
) -> Result<Vec<SessionView>, CliError> {
    let mut views = Vec::new();
    for session in sessions {
        let view = opened.sessions.view(*session).await?;
        if !context.out.is_json() {
            let mut next = render::next_lines(&view, Hints::of(*session), opened.sessions.now());
            if let Some(first) = next.first_mut() {
                first.insert_str(0, &format!("session {session}: "));
            }
            output::remark(&output::lines_for_stderr(2, &next));
        }
        views.push(view);
    }
    Ok(views)
}

fn exit_of(view: &SessionView) -> Exit {
    match view.goal.as_ref().filter(|goal| is_open(goal)) {
        Some(goal) => exit_of_goal(goal),
        None => Exit::Done,
    }
}
