//! `zuno run`: a prompt, and what follows from it.

use std::io::BufRead as _;
use std::sync::Arc;

use clap::Args;
use domain::{
    AgentName, GoalState, GoalStatus, InputCancelReason, InputId, ModelName, PauseReason, SessionId,
};
use domain::{Seq, Text, TurnNumber, TurnOutcome};
use runtime::{Engine, EngineError, GoalView, NewGoal, Rest, Scope, SessionView};
use serde::Serialize;

use crate::config::{Config, OnOpen, process_environment};
use crate::context::{Context, Opened, named};
use crate::exit::{CliError, Exit};
use crate::narrator::{Fate, Narrator, heard};
use crate::session_name::SessionName;
use crate::signals::{Signals, Wish};
use crate::workshop::LocalWorkshop;
use crate::{input, output, render};

/// What `zuno run --help` says first.
pub(crate) const HELP: &str = "\
Sends a prompt to an agent and streams what it does: the model's words on stdout, everything else on stderr.

Without --session it opens a new session. With --goal the session works on until the Goal is finished or held. \
Ctrl-C interrupts: the turn stops, an active Goal is paused. SIGTERM stops the turn in order, and the exit code says \
how the work stands: 0 or 7. With --json each line is an event of the log; the last \
line is {\"outcome\",\"session\",\"turn\",\"goal\",\"exit\"}.";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; `-` reads it from stdin
    #[arg(value_name = "PROMPT", required_unless_present = "goal")]
    prompt: Option<String>,
    /// The session to go on with, by its id or its short form [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<SessionName>,
    /// Set this Goal first, and go on until it is finished or held
    #[arg(long, value_name = "OBJECTIVE")]
    goal: Option<String>,
    /// The agent for Work mode: orchestrator, build or deep
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentName>,
    /// The model: NAME of a [models.NAME] table in zuno.toml
    #[arg(long, value_name = "NAME")]
    model: Option<ModelName>,
}

/// The last line of `run --json`.
#[derive(Serialize)]
struct Ended {
    outcome: Option<TurnOutcome>,
    session: SessionId,
    turn: Option<TurnNumber>,
    goal: Option<GoalView>,
    exit: u8,
}

/// What was asked for, checked before anything is written.
struct Order {
    prompt: Option<Text<{ domain::INPUT_CHARS }>>,
    goal: Option<Text<{ domain::OBJECTIVE_CHARS }>>,
    session: Option<SessionName>,
    agent: Option<AgentName>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<Exit, CliError> {
    let config = Config::of_process()?;
    let model = config.model(args.model.as_ref(), &process_environment)?;
    let prompt = match &args.prompt {
        Some(argument) => Some(input::text("I1", "prompt", &input::prompt(argument).await?)?),
        None => None,
    };
    let goal = args.goal.as_deref().map(|text| input::text("G2", "objective", text)).transpose()?;
    let order = Order { prompt, goal, session: args.session, agent: args.agent };
    let signals = Signals::listen()?;
    let (opened, view) = open(context, &order).await?;
    let (session, after) = (view.session, view.head);
    if order.session.is_none() && !context.out.is_json() {
        output::remark(&output::dim(&format!("session {session}")));
    }
    let (mut narrator, observer) = Narrator::new(context.out, opened.sessions.clone(), false);
    narrator.follow(session, if order.session.is_none() { Seq(0) } else { after });
    let workshop = Arc::new(LocalWorkshop::new(config.clone()));
    let engine = Engine::new(opened.sessions.clone(), model, workshop, observer);
    let has_goal = order.goal.is_some();
    let row = submit(&config, &opened, &view, order).await?;
    let mut run = Run {
        context,
        opened: &opened,
        engine,
        narrator,
        signals,
        session,
        interrupted: false,
        ending: false,
    };
    let scope = if has_goal { Scope::All } else { Scope::InputOnly };
    let mut rest = match run.until_rest(scope).await {
        Ok(rest) => rest,
        Err(error) => {
            run.say_what_is_left(row).await;
            return Err(error);
        }
    };
    let mut minds_goal = has_goal;
    if rest == Some(Rest::GoalHeldBack) && run.goal_goes_on(config.on_open()).await? {
        minds_goal = true;
        rest = run.until_rest(Scope::All).await?;
    }
    run.end(row, rest, minds_goal).await
}

/// The session to work in, opened if none was named, and the agent chosen if one was.
async fn open(context: &Context, order: &Order) -> Result<(Opened, SessionView), CliError> {
    let Some(name) = order.session else {
        let agent = context.agent(order.agent.clone())?;
        let opened = context.open_or_create().await?;
        let session = opened.door.open_session(context.workspace(), agent).await?;
        let view = opened.sessions.view(session).await?;
        return Ok((opened, view));
    };
    let opened = context.open().await?;
    let session = named(&opened, name).await?;
    let mut view = opened.sessions.view(session).await?;
    if let Some(agent) = order.agent.clone().filter(|agent| view.work_agent.as_ref() != Some(agent)) {
        view = opened.door.select_agent(session, agent).await?;
    }
    Ok((opened, view))
}

/// Sets the Goal and queues the prompt: from here on both are durable.
async fn submit(
    config: &Config,
    opened: &Opened,
    view: &SessionView,
    order: Order,
) -> Result<Option<InputId>, CliError> {
    if let Some(objective) = order.goal {
        let budgets = config.limits_in(std::path::Path::new(&view.workspace))?.budgets;
        let new = NewGoal { objective, criteria: None, budgets, replace: false };
        opened.door.set_goal(view.session, new).await?;
    }
    match order.prompt {
        Some(prompt) => Ok(Some(opened.door.submit(view.session, prompt, None).await?)),
        None => Ok(None),
    }
}

/// One `zuno run` under way.
struct Run<'a> {
    context: &'a Context,
    opened: &'a Opened,
    engine: Engine,
    narrator: Narrator,
    signals: Signals,
    session: SessionId,
    /// The person interrupted, which is on record.
    interrupted: bool,
    /// The process is to end.
    ending: bool,
}

impl Run<'_> {
    /// Lets the engine work until the session rests, telling what happens. `None` if the person would not wait for that.
    async fn until_rest(&mut self, scope: Scope) -> Result<Option<Rest>, CliError> {
        let engine = self.engine.clone();
        let mut working = std::pin::pin!(engine.run_session(self.session, scope));
        let rest = loop {
            tokio::select! {
                rest = &mut working => break rest,
                told = self.narrator.tell_next() => heard(told)?,
                wish = self.signals.next() => match wish {
                    Wish::Interrupt if self.interrupted || self.ending => return Ok(None),
                    Wish::Interrupt => {
                        output::remark("interrupting; Ctrl-C again leaves at once");
                        self.interrupt().await?;
                    }
                    Wish::End => {
                        self.ending = true;
                        self.engine.shut_down();
                    }
                },
            }
        };
        let told = self.narrator.catch_up().await;
        heard(told)?;
        Ok(Some(rest?))
    }

    /// Stops the turn, pauses the Goal and holds the queue, durably (G11).
    async fn interrupt(&mut self) -> Result<(), CliError> {
        self.opened.door.interrupt(self.session).await?;
        self.interrupted = true;
        Ok(())
    }

    /// Whether the Goal that is active goes on here (T11).
    async fn goal_goes_on(&mut self, on_open: OnOpen) -> Result<bool, CliError> {
        if self.interrupted {
            return Ok(false);
        }
        if on_open == OnOpen::Continue && !self.ending {
            return Ok(true);
        }
        let can_ask = !self.ending && !self.context.out.is_json() && output::has_person();
        let goes_on = can_ask && self.ask().await?;
        if !goes_on && !self.interrupted {
            let way = format!("zuno goal run --session {}", self.session);
            output::remark(&format!("the Goal of this session is active and waits; go on with\n  {way}"));
        }
        Ok(goes_on)
    }

    async fn ask(&mut self) -> Result<bool, CliError> {
        let view = self.opened.sessions.view(self.session).await?;
        let objective =
            view.goal.map(|goal| render::cut(&goal.objective, render::COLUMNS)).unwrap_or_default();
        output::remark(&format!("The Goal of this session is active:\n  {objective}\nGo on with it? [y/N]"));
        let answer = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        tokio::select! {
            answer = answer => {
                let line = answer.ok().and_then(Result::ok).unwrap_or_default();
                Ok(matches!(line.trim(), "y" | "Y" | "yes"))
            }
            wish = self.signals.next() => {
                match wish {
                    Wish::Interrupt => self.interrupt().await?,
                    Wish::End => self.ending = true,
                }
                // The catch-up tells what the interrupt did.
                heard(self.narrator.catch_up().await)?;
                Ok(false)
            }
        }
    }

    /// Says what stays behind of a run that something around it broke off. What was submitted is durable.
    async fn say_what_is_left(&self, row: Option<InputId>) {
        let session = self.session;
        if let Some(row) = row.filter(|row| self.narrator.fate(session, *row) == Fate::default()) {
            let way = format!("zuno run --session {session} PROMPT");
            output::remark(&format!(
                "the prompt stays queued as {row}; once the problem below is solved it runs before the next one, with\n  {way}"
            ));
        }
        // What cannot be read here is what the error itself is about.
        let goal = self.opened.sessions.view(session).await.ok().and_then(|view| view.goal);
        if goal.is_some_and(|goal| goal.status == GoalStatus::Active) {
            output::remark(&format!(
                "the Goal stays active; then it goes on with\n  zuno goal run --session {session}"
            ));
        }
    }

    /// Says how it ended.
    async fn end(self, row: Option<InputId>, rest: Option<Rest>, minds_goal: bool) -> Result<Exit, CliError> {
        let view = self.opened.sessions.view(self.session).await?;
        let fate = row.map(|row| self.narrator.fate(self.session, row)).unwrap_or_default();
        let exit = match (self.interrupted, minds_goal, &view.goal) {
            (true, ..) => Exit::Interrupted,
            (false, true, Some(goal)) => exit_of_goal(goal),
            (false, ..) => exit_of_input(row, &fate, &view),
        };
        if self.context.out.is_json() {
            let goal = view.goal;
            let Fate { turn, outcome, .. } = fate;
            let ended = Ended { outcome, session: self.session, turn, goal, exit: exit as u8 };
            heard(output::json_line(&ended))?;
        } else if exit != Exit::Done {
            let now = self.opened.sessions.now();
            let next = match rest {
                Some(_) => render::next(&view.next, now),
                None => "left while the turn was stopping; `zuno events` shows how it ended".to_owned(),
            };
            output::remark(&output::for_stderr(2, &next));
        }
        Ok(exit)
    }
}

/// What the end of an input's turn means.
fn exit_of_input(row: Option<InputId>, fate: &Fate, view: &SessionView) -> Exit {
    match (&fate.outcome, fate.cancelled) {
        (Some(TurnOutcome::Interrupted), _) | (None, Some(InputCancelReason::Interrupted)) => {
            Exit::Interrupted
        }
        (Some(TurnOutcome::Failed { .. }), _)
        | (None, Some(InputCancelReason::TurnFailed | InputCancelReason::ReturnedTooOften)) => {
            Exit::TurnFailed
        }
        (Some(TurnOutcome::Stopped { .. }), _) => Exit::NotFinished,
        // Its turn was lost with its worker after it had begun, or the row is held.
        (None, None) if row.is_some() || view.queued_inputs > 0 => Exit::NotFinished,
        (Some(TurnOutcome::Completed), _) | (None, None) => Exit::Done,
    }
}

/// What a Goal's standing means for whoever wanted it finished.
pub(crate) const fn exit_of_goal(goal: &GoalView) -> Exit {
    match &goal.status {
        GoalStatus::Completed => Exit::Done,
        GoalStatus::Paused(PauseReason::Interrupted) => Exit::Interrupted,
        GoalStatus::Proposed
        | GoalStatus::Active
        | GoalStatus::Paused(_)
        | GoalStatus::Blocked { .. }
        | GoalStatus::BudgetLimited
        | GoalStatus::Cancelled => Exit::NotFinished,
    }
}

/// Whether somebody still waits for this Goal.
pub(crate) fn is_open(goal: &GoalView) -> bool {
    !GoalState::is_terminal(goal.state())
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Command(error) => error.into(),
            EngineError::Workspace { .. } => Self::Environment(error.to_string()),
        }
    }
}
