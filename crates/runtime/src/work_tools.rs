//! The tools by which a model reads and changes its session's own work state.
//!
//! They need no port: what they do is a command of this crate, decided in the transaction that admits the call.

use std::fmt::Write as _;
use std::sync::LazyLock;

use domain::{
    AnswerOption, Budgets, CallRef, Code, CommandId, Condition, Confinement, Fingerprint, InputText,
    JOB_TITLE_CHARS, JobId, JobTitle, LaneId, OPTIONS, Objective, Question, Remark, SessionState, Text,
    Timestamp, UnknownKeys, Violation, Wait, WaitedPath, decode_revision,
};
use policy::{AgentCommand, CallGrant, NewJob, NewRequest, Rejection};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::fresh;
use crate::plan_input;
use crate::ports::ToolSpec;
use crate::projection::{GoalView, PlanView};

/// One of the work-state tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkTool {
    PlanGet,
    PlanUpdate,
    PlanClose,
    GoalGet,
    GoalUpdate,
    GoalPropose,
    GoalWait,
    Task,
    CommandStop,
    AskUser,
}

/// What a call of a work-state tool turns into.
pub(crate) enum WorkCall {
    /// An answer read from the state.
    Read(String),
    /// A command that changes it.
    Change(Box<AgentCommand>),
    /// A question to a person (I4).
    Ask(NewRequest),
    /// Work for another agent (C5).
    Delegate(Box<NewJob>),
}

/// What a call is prepared in.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) state: &'a SessionState,
    pub(crate) lane: &'a LaneId,
    pub(crate) now: Timestamp,
    /// What a proposed Goal may spend.
    pub(crate) budgets: Budgets,
    /// How the commands of a job are confined (C6).
    pub(crate) confinement: Option<Confinement>,
}

/// The specs in the order in which they are offered.
pub(crate) fn specs() -> &'static [(WorkTool, ToolSpec)] {
    static SPECS: LazyLock<Vec<(WorkTool, ToolSpec)>> = LazyLock::new(|| {
        let specs = agents::WORK_TOOLS.iter().filter_map(|entry| {
            let (tool, input_schema) = match entry.name {
                "plan_get" => (WorkTool::PlanGet, schema::<schemas::Nothing>()),
                "plan_update" => (WorkTool::PlanUpdate, schema::<schemas::PlanUpdate>()),
                "plan_close" => (WorkTool::PlanClose, schema::<schemas::PlanClose>()),
                "goal_get" => (WorkTool::GoalGet, schema::<schemas::Nothing>()),
                "goal_update" => (WorkTool::GoalUpdate, schema::<schemas::GoalUpdate>()),
                "goal_propose" => (WorkTool::GoalPropose, schema::<schemas::GoalPropose>()),
                "goal_wait" => (WorkTool::GoalWait, schema::<schemas::GoalWait>()),
                "task" => (WorkTool::Task, schema::<schemas::Task>()),
                "command_stop" => (WorkTool::CommandStop, schema::<schemas::CommandStop>()),
                "ask_user" => (WorkTool::AskUser, schema::<schemas::AskUser>()),
                _ => return None,
            };
            let (name, description) = (entry.name.into(), entry.description.into());
            let requires = entry.requires;
            Some((tool, ToolSpec { name, description, input_schema, requires }))
        });
        specs.collect()
    });
    &SPECS
}

/// The shapes of the arguments, as the model is shown them. Decoding is done by hand, so that a mistake is answered
/// with a repair instead of a parser's complaint.
#[expect(dead_code, reason = "the types exist for their schemas")]
mod schemas {
    use super::JsonSchema;

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct Nothing {}

    /// Status of a step.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case", inline)]
    pub(super) enum Status {
        Pending,
        InProgress,
        Completed,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields, inline)]
    pub(super) struct Step {
        /// Short and stable: the same id in every later call.
        id: String,
        /// What the step is about.
        title: String,
        status: Status,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct PlanUpdate {
        /// The title of the plan.
        title: String,
        /// All steps in order.
        steps: Vec<Step>,
        /// The current revision. Leave it out on the first call, and to open a new plan after a complete one.
        #[schemars(default)]
        expected_revision: Option<i64>,
        /// The Goal the plan supports, if any.
        #[schemars(default)]
        goal_id: Option<String>,
        /// Why the plan changes, in a sentence.
        #[schemars(default)]
        explanation: Option<String>,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct PlanClose {
        /// The current revision of the plan.
        expected_revision: i64,
        /// Why the plan no longer applies.
        reason: String,
    }

    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case", inline)]
    pub(super) enum GoalStatus {
        Completed,
        Blocked,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct GoalUpdate {
        status: GoalStatus,
        /// With completed: what was reached and how it was checked. With blocked: what is in the way and what was tried.
        #[schemars(default)]
        summary: Option<String>,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct GoalPropose {
        /// What the Goal would be after, with all that a reader needs.
        objective: String,
        /// How to tell that it is reached.
        #[schemars(default)]
        criteria: Option<String>,
    }

    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case", inline)]
    pub(super) enum WaitUntil {
        Time,
        Command,
        Job,
        File,
        Inbox,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct GoalWait {
        until: WaitUntil,
        /// How long at most. With time: how long.
        seconds: i64,
        /// With command: the number of the background command.
        #[schemars(default)]
        command: Option<i64>,
        /// With job: its number.
        #[schemars(default)]
        job: Option<i64>,
        /// With file: its path from the workspace root.
        #[schemars(default)]
        path: Option<String>,
        /// What you wait for, for the user.
        #[schemars(default)]
        note: Option<String>,
    }

    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case", inline)]
    pub(super) enum Target {
        Deep,
        Explorer,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct Task {
        agent: Target,
        /// What is to be reached, in a sentence or two.
        objective: String,
        /// What the report has to contain, or what has to exist afterwards.
        deliverable: String,
        /// How to go about it, with every fact that the agent cannot know.
        instructions: String,
        /// By what evidence the work counts as done.
        success_evidence: String,
        /// Files, folders or questions that it must not go beyond.
        #[schemars(default)]
        scope: Option<String>,
        /// True: the call returns at once, and the report comes in a later request.
        #[schemars(default)]
        background: Option<bool>,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct CommandStop {
        /// The number of the background command.
        command: i64,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct AskUser {
        /// The question, with what the user needs to decide.
        question: String,
        /// Suggested answers, at most 10; the user may answer something else.
        #[schemars(default)]
        options: Option<Vec<String>>,
    }
}

fn schema<T: JsonSchema>() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default();
    tidy(&mut schema);
    schema
}

/// Drops what only costs tokens or makes clients warn: the dialect, the type's own name, integer formats.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for key in ["$schema", "title", "format"] {
                // A property may well be called "title"; then its value is a schema, not a text.
                if object.get(key).is_some_and(Value::is_string) {
                    object.remove(key);
                }
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Turns a call into an answer or a command, or refuses its arguments.
pub(crate) fn prepare(
    tool: WorkTool,
    call: CallRef,
    grant: CallGrant,
    arguments: &Value,
    context: Context<'_>,
) -> Result<WorkCall, Rejection> {
    let Context { state, lane, now, budgets, confinement } = context;
    let arguments = Arguments::of(arguments)?;
    let change = match tool {
        WorkTool::PlanGet => return Ok(WorkCall::Read(plan_text(state, lane))),
        WorkTool::GoalGet => return Ok(WorkCall::Read(goal_text(state))),
        WorkTool::AskUser => return ask(&arguments).map(WorkCall::Ask),
        WorkTool::Task => {
            return task(&arguments, confinement).map(|job| WorkCall::Delegate(Box::new(job)));
        }
        WorkTool::PlanUpdate => {
            let read = plan_input::read_update(arguments.value, UnknownKeys::Ignore);
            let (update, ignored) = read.map_err(|found| plan_input::refused(found, state, lane))?;
            AgentCommand::UpdatePlan { call, grant, update, ignored }
        }
        WorkTool::PlanClose => {
            let expected_revision = match arguments.get("expected_revision") {
                Some(value) => {
                    decode_revision("expected_revision", value).map_err(|found| Rejection::of(vec![found]))
                }
                None => {
                    Err(invalid("P17", "`expected_revision` is missing; send the plan's current revision"))
                }
            };
            let expected_revision = expected_revision.map_err(|refusal| refusal.with_plan(state, lane))?;
            let reason = arguments.text("reason")?;
            let reason = reason
                .ok_or_else(|| invalid("P17", "`reason` is missing; say why the plan no longer applies"))?;
            AgentCommand::ClosePlan { call, grant, expected_revision, reason }
        }
        WorkTool::GoalUpdate => goal_update(call, grant, &arguments)?,
        WorkTool::GoalPropose => {
            let objective: Option<Objective> = arguments.text("objective")?;
            let objective = objective.ok_or_else(|| invalid("G3", "`objective` is missing"))?;
            let criteria = arguments.text("criteria")?;
            let goal_id = fresh::goal();
            AgentCommand::ProposeGoal { call, grant, goal_id, objective, criteria, budgets }
        }
        WorkTool::GoalWait => {
            let (wait, ran) =
                (wait(&arguments, now)?, Fingerprint::of_call("goal_wait", &arguments.value.to_string()));
            AgentCommand::WaitGoal { call, grant, wait, ran }
        }
        WorkTool::CommandStop => {
            let command = arguments.number("command")?;
            let command = command.ok_or_else(|| invalid("G10", "`command` is missing; send its number"))?;
            AgentCommand::StopCommand { call, grant, command: CommandId(command) }
        }
    };
    Ok(WorkCall::Change(Box::new(change)))
}

fn goal_update(
    call: CallRef,
    grant: CallGrant,
    arguments: &Arguments<'_>,
) -> Result<AgentCommand, Rejection> {
    let summary: Option<Remark> = arguments.text("summary")?;
    match arguments.get("status").and_then(Value::as_str) {
        Some("completed") => Ok(AgentCommand::CompleteGoal { call, grant, summary }),
        Some("blocked") => {
            let reason = summary.ok_or_else(|| {
                invalid("G6", "`summary` is missing; say what is in the way and what you tried")
            })?;
            Ok(AgentCommand::StageBlock { call, grant, reason })
        }
        _ => Err(invalid(
            "G3",
            "`status` must be \"completed\" or \"blocked\", the only ones an agent can declare",
        )),
    }
}

fn wait(arguments: &Arguments<'_>, now: Timestamp) -> Result<Wait, Rejection> {
    let seconds = arguments.number("seconds")?;
    let seconds = seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| invalid("G10", "`seconds` must be a whole number from 1: how long to wait at most"))?;
    let condition = match arguments.get("until").and_then(Value::as_str) {
        Some("time") => Condition::Time,
        Some("inbox") => Condition::Inbox,
        Some("command") => {
            let command = arguments.number("command")?;
            let command = command.ok_or_else(|| invalid("G10", "`command` is missing; send its number"))?;
            Condition::Command { command: CommandId(command) }
        }
        Some("job") => {
            let job = arguments.number("job")?;
            let job = job.ok_or_else(|| invalid("G10", "`job` is missing; send its number"))?;
            Condition::Job { job: JobId(job) }
        }
        Some("file") => {
            let path: Option<WaitedPath> = arguments.text("path")?;
            let path = path.ok_or_else(|| invalid("G10", "`path` is missing; send the file's path"))?;
            Condition::File { path, baseline: None }
        }
        _ => {
            let message = "`until` must be \"time\", \"command\", \"job\", \"file\" or \"inbox\"";
            return Err(invalid("G10", message));
        }
    };
    let deadline = now.plus_ms(i64::from(seconds) * 1_000);
    Ok(Wait { condition, deadline, note: arguments.text("note")?, is_met: false })
}

/// The parts of a task in the order in which the other agent reads them, and whether each has to be there.
const PARTS: [(&str, &str, bool); 5] = [
    ("objective", "Objective", true),
    ("deliverable", "Deliverable", true),
    ("instructions", "Instructions", true),
    ("success_evidence", "It is done when", true),
    ("scope", "Scope", false),
];

fn task(arguments: &Arguments<'_>, confinement: Option<Confinement>) -> Result<NewJob, Rejection> {
    let wanted = arguments.get("agent").and_then(Value::as_str);
    let Some(role) = agents::targets().find(|role| Some(role.name) == wanted) else {
        let targets: Vec<_> = agents::targets().map(|role| format!("\"{}\"", role.name)).collect();
        return Err(invalid("C5", &format!("`agent` must be one of {}", targets.join(", "))));
    };
    let mut text = String::new();
    for (key, heading, is_required) in PARTS {
        let part: Option<InputText> = arguments.text(key)?;
        match part {
            Some(part) => {
                let _ = write!(text, "{}{heading}:\n{part}", if text.is_empty() { "" } else { "\n\n" });
            }
            None if is_required => {
                let message = format!("`{key}` is missing; the other agent knows nothing but what you send");
                return Err(invalid("C5", &message));
            }
            None => {}
        }
    }
    let is_background = match arguments.get("background") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_background)) => *is_background,
        Some(_) => return Err(invalid("P6", "`background` must be true or false")),
    };
    let text = InputText::parse(&text).map_err(|fault| invalid("P7", &format!("the task {fault}")))?;
    let objective = arguments.get("objective").and_then(Value::as_str).unwrap_or_default();
    let line: String =
        domain::trim(objective).chars().take_while(|c| *c != '\n').take(JOB_TITLE_CHARS).collect();
    let title = JobTitle::parse(&line).map_err(|fault| invalid("P7", &format!("`objective` {fault}")))?;
    let agent = role.name.parse().map_err(|_| invalid("C5", "`agent` names no agent"))?;
    let ran = Fingerprint::of_call("task", &arguments.value.to_string());
    Ok(NewJob { agent, role_grant: role.grant, title, text, is_background, confinement, ran })
}

fn ask(arguments: &Arguments<'_>) -> Result<NewRequest, Rejection> {
    let question: Option<Question> = arguments.text("question")?;
    let question = question.ok_or_else(|| invalid("I4", "`question` is missing"))?;
    let options = match arguments.get("options") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) if list.len() <= OPTIONS => {
            let option = |value: &Value| match value.as_str().map(AnswerOption::parse) {
                Some(Ok(option)) => Ok(option),
                Some(Err(fault)) => Err(invalid("I4", &format!("an entry of `options` {fault}"))),
                None => Err(invalid("I4", "each entry of `options` must be text")),
            };
            list.iter().map(option).collect::<Result<_, _>>()?
        }
        Some(_) => {
            return Err(invalid("I4", &format!("`options` must be a list of at most {OPTIONS} texts")));
        }
    };
    Ok(NewRequest::Input { question, options })
}

/// The arguments of a call, read by hand so that a mistake is answered with a repair.
struct Arguments<'a> {
    value: &'a Value,
    object: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    fn of(value: &'a Value) -> Result<Self, Rejection> {
        let object = value.as_object().ok_or_else(|| invalid("P6", "the arguments must be a JSON object"))?;
        Ok(Self { value, object })
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key)
    }

    fn text<const MAX: usize>(&self, key: &str) -> Result<Option<Text<MAX>>, Rejection> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => match Text::parse(text) {
                Ok(text) => Ok(Some(text)),
                Err(fault) => Err(invalid("P7", &format!("`{key}` {fault}"))),
            },
            Some(_) => Err(invalid("P6", &format!("`{key}` must be text"))),
        }
    }

    /// A whole number; `2.0` means 2.
    fn number(&self, key: &str) -> Result<Option<u32>, Rejection> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match decode_revision(key, value).map(|number| u32::try_from(number.0)) {
                Ok(Ok(number)) => Ok(Some(number)),
                Ok(Err(_)) | Err(_) => Err(invalid("P6", &format!("`{key}` must be a whole number"))),
            },
        }
    }
}

fn invalid(rule: &'static str, message: &str) -> Rejection {
    Rejection::of(vec![Violation::new(rule, Code::InvalidInput, message)])
}

fn plan_text(state: &SessionState, lane: &LaneId) -> String {
    match state.latest_plan(lane) {
        Some(latest) => text_of(&PlanView::of(latest.plan, Some(latest.head))),
        None => json!({ "plan": null, "expected_revision": 0 }).to_string(),
    }
}

fn goal_text(state: &SessionState) -> String {
    match &state.core.goal {
        Some(goal) => text_of(&GoalView::of(goal)),
        None => json!({ "goal": null }).to_string(),
    }
}

/// JSON with the keys in the order of the struct, whatever JSON maps are built with.
fn text_of(view: &impl serde::Serialize) -> String {
    serde_json::to_string(view).unwrap_or_default()
}
