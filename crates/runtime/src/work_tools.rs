//! The tools by which a model reads and changes its session's own work state.
//!
//! They need no port: what they do is a command of this crate, decided in the transaction that admits the call.

use std::sync::LazyLock;

use domain::{CallRef, Code, LaneId, Remark, SessionState, UnknownKeys, Violation, decode_revision};
use policy::{AgentCommand, CallGrant, Rejection};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

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
}

/// What a call of a work-state tool turns into.
pub(crate) enum WorkCall {
    /// An answer read from the state.
    Read(String),
    /// A command that changes it.
    Change(AgentCommand),
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
                _ => return None,
            };
            let (name, description, requires) = (entry.name, entry.description, entry.requires);
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
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub(super) struct GoalUpdate {
        status: GoalStatus,
        /// What was reached and how it was checked.
        #[schemars(default)]
        summary: Option<String>,
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
    state: &SessionState,
    lane: &LaneId,
) -> Result<WorkCall, Rejection> {
    let change = |command| Ok(WorkCall::Change(command));
    match tool {
        WorkTool::PlanGet => Ok(WorkCall::Read(plan_text(state, lane))),
        WorkTool::GoalGet => Ok(WorkCall::Read(goal_text(state))),
        WorkTool::PlanUpdate => {
            let read = plan_input::read_update(arguments, UnknownKeys::Ignore);
            let (update, ignored) = read.map_err(|found| plan_input::refused(found, state, lane))?;
            change(AgentCommand::UpdatePlan { call, grant, update, ignored })
        }
        WorkTool::PlanClose => {
            let object = object(arguments)?;
            let expected_revision = match object.get("expected_revision") {
                Some(value) => {
                    decode_revision("expected_revision", value).map_err(|found| Rejection::of(vec![found]))
                }
                None => {
                    Err(invalid("P17", "`expected_revision` is missing; send the plan's current revision"))
                }
            };
            let expected_revision = expected_revision.map_err(|refusal| refusal.with_plan(state, lane))?;
            let reason = remark(object, "reason")?;
            let reason = reason
                .ok_or_else(|| invalid("P17", "`reason` is missing; say why the plan no longer applies"))?;
            change(AgentCommand::ClosePlan { call, grant, expected_revision, reason })
        }
        WorkTool::GoalUpdate => {
            let object = object(arguments)?;
            match object.get("status").and_then(Value::as_str) {
                Some("completed") => {}
                Some("blocked") => {
                    let message = "a Goal cannot be blocked by this tool; tell the user what is in the way";
                    return Err(invalid("G3", message));
                }
                _ => {
                    return Err(invalid(
                        "G3",
                        "`status` must be \"completed\", the only status an agent can set",
                    ));
                }
            }
            change(AgentCommand::CompleteGoal { call, grant, summary: remark(object, "summary")? })
        }
    }
}

fn object(arguments: &Value) -> Result<&Map<String, Value>, Rejection> {
    arguments.as_object().ok_or_else(|| invalid("P6", "the arguments must be a JSON object"))
}

fn remark(object: &Map<String, Value>, key: &str) -> Result<Option<Remark>, Rejection> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => match Remark::parse(text) {
            Ok(remark) => Ok(Some(remark)),
            Err(fault) => Err(invalid("P7", &format!("`{key}` {fault}"))),
        },
        Some(_) => Err(invalid("P6", &format!("`{key}` must be text"))),
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
