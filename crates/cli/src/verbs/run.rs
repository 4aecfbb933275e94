//! `zuno run`: a prompt, and what follows from it.

mod along;
mod course;
mod ended;
mod keyboard;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use domain::{AgentName, InputId, ModelName, Seq, Text};
use runtime::{Asking, Delivery, Engine, NewGoal, Prompt, Rest, Scope, SessionView};

use crate::allow::AllowRule;
use crate::config::{Config, process_environment};
use crate::context::{Context, Opened, named};
use crate::exit::{CliError, Exit};
use crate::narrator::{Manner, Narrator};
use crate::session_name::SessionName;
use crate::signals::Signals;
use crate::walls::Confinement;
use crate::workshop::LocalWorkshop;
use crate::{input, output};
use along::Choice;
use course::{Course, Person};
pub(crate) use ended::{exit_of_goal, is_open};
use keyboard::Keyboard;

/// What `zuno run --help` says first.
pub(crate) const HELP: &str = "\
Sends a prompt to an agent and streams what it does: the model's words on stdout, everything else on stderr.

Without --session it opens a new session. With --goal the session works on until the Goal is finished or held. With \
--session and no prompt it goes on with what waits there.

What an agent asks you is asked right here, on a terminal. Without one, what needs your leave is denied at once unless \
--allow says otherwise; with --wait-for-person the request waits, and the exit code is 7.

Ctrl-C interrupts: the turn stops, an active Goal is paused. SIGTERM stops the turn in order, and the exit code says \
how the work stands: 0 or 7. With --json each line is an event of the log; the last line is \
{\"outcome\",\"session\",\"turn\",\"goal\",\"requests\",\"outlook\",\"exit\"}.";

/// What an agent reads where nobody can be asked, and what a person reads of that.
const NOBODY: &str = "The user can allow it beforehand: `zuno run --allow shell:COMMAND` allows a command, --allow \
                      TOOL:PATH a path, --allow TOOL a tool; --wait-for-person waits for an answer.";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; `-` reads it from stdin
    #[arg(value_name = "PROMPT", required_unless_present_any = ["goal", "session"])]
    prompt: Option<String>,
    /// The session to go on with, by its id or its short form [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<SessionName>,
    /// Set this Goal first, and go on until it is finished or held
    #[arg(long, value_name = "OBJECTIVE")]
    goal: Option<String>,
    /// Let the Goal of the session go on, too, whatever held it
    #[arg(long, requires = "session", conflicts_with = "goal")]
    resume: bool,
    /// Give the prompt to the running turn, if one runs, instead of queueing it
    #[arg(long, requires = "session", requires = "prompt")]
    steer: bool,
    /// Let calls run unasked in this run: TOOL, shell:COMMAND or TOOL:PATH; `*` stands for any text. May be repeated
    #[arg(long, value_name = "RULE")]
    allow: Vec<AllowRule>,
    /// End as waiting, with exit code 7, when an agent asks something; answer with `zuno requests`
    #[arg(long)]
    wait_for_person: bool,
    /// The agent for Work mode: orchestrator, build or deep
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentName>,
    /// The model: NAME of a [models.NAME] table in zuno.toml
    #[arg(long, value_name = "NAME")]
    model: Option<ModelName>,
    /// How commands are confined in this run [default: `level` in [sandbox] of zuno.toml, else full]
    #[arg(long, value_enum, value_name = "LEVEL")]
    sandbox: Option<Confinement>,
}

/// What was asked for, checked before anything is written.
struct Order {
    prompt: Option<Text<{ domain::INPUT_CHARS }>>,
    goal: Option<Text<{ domain::OBJECTIVE_CHARS }>>,
    session: Option<SessionName>,
    agent: Option<AgentName>,
    delivery: Delivery,
    resume: bool,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<Exit, CliError> {
    let extra = args.allow.iter().map(|rule| rule.0.clone());
    let config = Config::of_process()?.with_rules(extra);
    let config = config.map_err(|fault| CliError::Usage(format!("--allow: {fault}")))?;
    let workshop = Arc::new(LocalWorkshop::new(context, config, args.sandbox));
    let found = match args.session {
        Some(name) => Some(find(context, name).await?),
        None => None,
    };
    let workspace = found.as_ref().map_or(context.workspace(), |(_, view)| &view.workspace);
    let config = workshop.config_in(Path::new(workspace))?;
    let model = config.model(args.model.as_ref(), &process_environment)?;
    let mut order = Order::of(&args).await?;
    let mut signals = Signals::listen()?;
    let (opened, view) = open(context, &order, found).await?;
    if order.session.is_none() && !context.out.is_json() {
        output::remark(&output::dim(&format!("session {}", view.session)));
    }
    let has_person = !args.wait_for_person && !context.out.is_json() && output::has_person();
    let mut keyboard = Keyboard::new();
    if order.prompt.is_some()
        && !order.resume
        && let Some(held) = along::held(&view)
    {
        match along::comes_along(held, &view, has_person, &mut keyboard, &mut signals).await {
            Choice::Along => order.resume = true,
            Choice::Alone => {}
            Choice::Unsent(exit) => return Ok(exit),
        }
    }
    let view = with_agent(&opened, view, order.agent.as_ref()).await?;
    let (session, after) = (view.session, view.head);
    let (mut narrator, observer) = Narrator::new(context.out, opened.sessions.clone(), Manner::OF_A_RUN);
    narrator.follow(session, if order.session.is_none() { Seq(0) } else { after });
    let asking = if has_person || args.wait_for_person {
        Asking::Wait
    } else {
        Asking::Nobody { hint: NOBODY.to_owned() }
    };
    let engine = Engine::new(opened.sessions.clone(), model, workshop, observer, asking);
    let mut minds_goal = order.goal.is_some() || order.resume;
    let row = submit(&config, &opened, &view, order).await?;
    let mut course = Course::new(
        context,
        &opened,
        engine,
        narrator,
        Person { signals, keyboard, is_here: has_person },
        session,
    );
    let mut rest = course.until_rest(scope(minds_goal), row).await?;
    loop {
        let goes_on = match &rest {
            Some(Rest::GoalHeldBack) => {
                minds_goal = course.goal_goes_on(config.on_open()).await?;
                minds_goal
            }
            Some(Rest::Idle { why }) => course.is_answered(why).await?,
            Some(Rest::ShutDown) | None => false,
        };
        if !goes_on {
            break;
        }
        rest = course.until_rest(scope(minds_goal), row).await?;
    }
    course.end(row, rest, minds_goal).await
}

/// A Goal that the person did not ask for goes on only after a question (T11).
const fn scope(minds_goal: bool) -> Scope {
    if minds_goal { Scope::All } else { Scope::InputOnly }
}

impl Order {
    async fn of(args: &RunArgs) -> Result<Self, CliError> {
        let prompt = match &args.prompt {
            Some(argument) => Some(input::text("I1", "prompt", &input::prompt(argument).await?)?),
            None => None,
        };
        let goal = args.goal.as_deref().map(|text| input::text("G2", "objective", text)).transpose()?;
        Ok(Self {
            prompt,
            goal,
            session: args.session,
            agent: args.agent.clone(),
            delivery: if args.steer { Delivery::Steer } else { Delivery::Queue },
            resume: args.resume,
        })
    }
}

/// The session that was named.
async fn find(context: &Context, name: SessionName) -> Result<(Opened, SessionView), CliError> {
    let opened = context.open().await?;
    let view = opened.sessions.view(named(&opened, name).await?).await?;
    Ok((opened, view))
}

/// The session to work in, opened if none was named.
async fn open(
    context: &Context,
    order: &Order,
    found: Option<(Opened, SessionView)>,
) -> Result<(Opened, SessionView), CliError> {
    if let Some(found) = found {
        return Ok(found);
    }
    let agent = context.agent(order.agent.clone())?;
    let opened = context.open_or_create().await?;
    let session = opened.door.open_session(context.workspace(), agent).await?;
    let view = opened.sessions.view(session).await?;
    Ok((opened, view))
}

/// The session with the agent that was named, if one was.
async fn with_agent(
    opened: &Opened,
    view: SessionView,
    named: Option<&AgentName>,
) -> Result<SessionView, CliError> {
    match named.filter(|agent| view.work_agent.as_ref() != Some(*agent)) {
        None => Ok(view),
        Some(agent) => Ok(opened.door.select_agent(view.session, agent.clone()).await?),
    }
}

/// Sets or resumes the Goal and queues the prompt: from here on all of it is durable.
async fn submit(
    config: &Config,
    opened: &Opened,
    view: &SessionView,
    order: Order,
) -> Result<Option<InputId>, CliError> {
    let Order { prompt, goal, delivery, resume, .. } = order;
    if let Some(objective) = goal {
        let budgets = config.limits().budgets;
        let new = NewGoal { objective, criteria: None, budgets, replace: false };
        opened.door.set_goal(view.session, new).await?;
    }
    match prompt {
        Some(text) => {
            let prompt = Prompt { text, delivery, resume };
            Ok(Some(opened.door.submit(view.session, prompt, None).await?))
        }
        None if resume => {
            opened.door.resume_goal(view.session).await?;
            Ok(None)
        }
        None => Ok(None),
    }
}
