//! The tools of a turn: what is offered, and what a call of the model is about.

use std::sync::Arc;

use agents::{Instructions, PermissionRules, Role, ToolAllowList, Verdict};
use domain::{Capability, CapabilitySet, Effect, Mode};
use policy::{CallGrant, Permission};
use serde_json::{Map, Value};

use crate::ports::{CallSubject, Tool, ToolSpec};
use crate::sight::Sight;
use crate::work_tools::{self, WorkTool};

/// All tools that exist here, and what the configuration says of them.
#[derive(Clone)]
pub struct Toolbox {
    workspace: String,
    tools: Vec<Arc<dyn Tool>>,
    allowed: ToolAllowList,
    rules: Arc<PermissionRules>,
    instructions: Arc<Instructions>,
}

/// The tool that gives the text of a skill.
const LOAD_SKILL: &str = "load_skill";

/// What answers to a tool's name.
pub(crate) enum Found<'a> {
    /// A tool that acts on the outside world.
    Outside(&'a Arc<dyn Tool>),
    /// A tool that acts on the session itself.
    WorkState(WorkTool),
}

impl Toolbox {
    /// Takes the outside tools of a workspace in the order in which they are offered, the allow-list and the rules.
    pub fn new(
        workspace: &str,
        tools: Vec<Arc<dyn Tool>>,
        allowed: ToolAllowList,
        rules: Arc<PermissionRules>,
    ) -> Self {
        Self { workspace: workspace.to_owned(), tools, allowed, rules, instructions: Arc::default() }
    }

    /// With what people wrote for agents here. It becomes part of the prompt, and of nothing else (C7).
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Self {
        Self { instructions: Arc::new(instructions), ..self }
    }

    /// The system prompt of this agent in a mode: the same for as long as this toolbox is used, which is a turn (V3).
    pub(crate) fn system_prompt(
        &self,
        role: &Role,
        (mode, is_job): (Mode, bool),
        offered: &[ToolSpec],
    ) -> String {
        let loads_skills = offered.iter().any(|spec| spec.name == LOAD_SKILL);
        let situation = agents::Situation { mode, is_job, workspace: &self.workspace, loads_skills };
        agents::system_prompt(role, situation, &self.instructions)
    }

    /// The names of all tools, offered or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.specs().map(|spec| self.called(spec))
    }

    fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| tool.spec()).chain(work_tools::specs().iter().map(|(_, spec)| spec))
    }

    /// The name of a tool of another program in rules and lists.
    fn of_server(&self, spec: &ToolSpec) -> Option<&str> {
        self.tools.iter().find(|tool| tool.spec().name == spec.name)?.of_server()
    }

    /// What rules and lists call a tool.
    fn called<'a>(&'a self, spec: &'a ToolSpec) -> &'a str {
        self.of_server(spec).unwrap_or(&spec.name)
    }

    /// The tools that a turn of this agent is offered in a mode, in a stable order (C2, V3).
    pub(crate) fn offered(&self, role: &Role, mode: Mode) -> Vec<ToolSpec> {
        let is_offered = |spec: &&ToolSpec| {
            agents::is_offered(role, mode, &self.allowed, self.called(spec), spec.requires)
                && self.not_granted(spec).is_none()
        };
        self.specs().filter(is_offered).cloned().collect()
    }

    /// What a call of this tool by this agent takes and has (C2).
    pub(crate) fn grant(&self, role: &Role, spec: &ToolSpec) -> CallGrant {
        agents::call_grant(role, &self.allowed, self.called(spec), spec.requires)
    }

    /// Why every call of this tool is denied, if it is another program's and no rule grants it (C2).
    pub(crate) fn not_granted(&self, spec: &ToolSpec) -> Option<String> {
        self.of_server(spec)?;
        match self.permission((spec, spec.requires), &CallSubject::default(), Some(&Effect::External)) {
            Permission::Allow | Permission::Ask { .. } => None,
            Permission::Deny { because } => Some(because),
        }
    }

    /// What the permission rules say of one call (C2). Without an effect it acts on the session itself.
    pub(crate) fn permission(
        &self,
        (spec, requires): (&ToolSpec, CapabilitySet),
        subject: &CallSubject,
        effect: Option<&Effect>,
    ) -> Permission {
        let reaches_out = matches!(effect, Some(Effect::External)).then_some(Capability::Network);
        let requires: Vec<_> = requires.iter().chain(reaches_out).collect();
        let judgement = self.rules.judge(&agents::CallSubject {
            tool: self.called(spec),
            requires: CapabilitySet::of(&requires),
            is_external: self.of_server(spec).is_some(),
            workspace: &self.workspace,
            paths: &subject.paths,
            command: subject.command.as_deref(),
            is_confined: matches!(effect, Some(Effect::Command { confined: true })),
        });
        match judgement.verdict {
            Verdict::Allow => Permission::Allow,
            Verdict::Ask => Permission::Ask { because: judgement.because },
            Verdict::Deny => Permission::Deny { because: judgement.because },
        }
    }

    /// What of the workspace a call with this permission may show, once it runs (C2).
    pub(crate) fn sight(&self, spec: &ToolSpec, permission: &Permission) -> Sight {
        let is_allowed_by_person = matches!(permission, Permission::Ask { .. });
        let tool = (self.called(spec), spec.requires);
        Sight::new(Arc::clone(&self.rules), &self.workspace, tool, is_allowed_by_person)
    }

    /// The tool of this name, whether it is offered or not: a refusal says why (C2).
    pub(crate) fn find(&self, name: &str) -> Option<(Found<'_>, &ToolSpec)> {
        // First, so that no other tool of such a name takes its place.
        if let Some((tool, spec)) = work_tools::specs().iter().find(|(_, spec)| spec.name == name) {
            return Some((Found::WorkState(*tool), spec));
        }
        let tool = self.tools.iter().find(|tool| tool.spec().name == name)?;
        Some((Found::Outside(tool), tool.spec()))
    }
}

/// The arguments of a call as JSON. Models write nothing at all for an empty object.
pub(crate) fn parse_arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|fault| format!("the arguments are not valid JSON ({fault}); send one JSON object"))?;
    if value.is_object() { Ok(value) } else { Err("the arguments must be one JSON object".to_owned()) }
}

/// Bytes of a result that the model reads: about 8,000 tokens, several screens of output (V2).
const RESULT_BYTES: usize = 32 * 1024;
/// Bytes of an output that are kept beside the log; what is longer was cut by its tool.
const FULL_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

/// Shortens an output to head and tail for the model, and returns the whole to be kept if anything was left out.
pub(crate) fn shorten(text: String) -> (String, Option<Vec<u8>>) {
    if text.len() <= RESULT_BYTES {
        return (text, None);
    }
    let head_end = text.floor_char_boundary(RESULT_BYTES / 2);
    let tail_start = text.ceil_char_boundary(text.len() - RESULT_BYTES / 2);
    let left_out = tail_start - head_end;
    let short = format!(
        "{}\n[… {left_out} bytes left out; ask for a narrower part to see them …]\n{}",
        &text[..head_end],
        &text[tail_start..]
    );
    let mut full = text.into_bytes();
    full.truncate(FULL_OUTPUT_BYTES);
    (short, Some(full))
}
