//! The system prompt, put together from reviewed Markdown, and the line that opens a Goal turn.

use domain::{Condition, Mode, WaitOver, is_invisible};

use crate::instructions::Instructions;
use crate::role::Role;

const BASE: &str = include_str!("prompts/base.md");
const DELIVERY: &str = include_str!("prompts/delivery.md");
const EXECUTION_PLAN: &str = include_str!("prompts/execution-plan.md");
const JOB: &str = include_str!("prompts/job.md");
const PLAN_MODE: &str = include_str!("prompts/plan-mode.md");

/// What a turn is told about itself besides its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation<'a> {
    /// The mode.
    pub mode: Mode,
    /// Whether another agent delegated the work (C5).
    pub is_job: bool,
    /// The workspace root.
    pub workspace: &'a str,
    /// Whether it has the tool to load skills.
    pub loads_skills: bool,
}

/// The system prompt of a turn. Equal arguments give equal bytes, so that prompt caches hold (V3). Skills are named to
/// whom has the tool to load them.
pub fn system_prompt(role: &Role, situation: Situation<'_>, instructions: &Instructions) -> String {
    let Situation { mode, is_job, workspace, loads_skills } = situation;
    // A folder's name may hold a line break; it is no place for further instructions.
    let shown = |c: char| if is_invisible(c) { char::REPLACEMENT_CHARACTER } else { c };
    let workspace: String = workspace.chars().map(shown).collect();
    let mut parts = vec![BASE, role.text];
    if role.delivers {
        parts.extend([DELIVERY, EXECUTION_PLAN]);
    }
    if is_job {
        parts.push(JOB);
    }
    match mode {
        Mode::Work => {}
        Mode::Plan => parts.push(PLAN_MODE),
    }
    let mut prompt = String::new();
    for part in parts {
        prompt.push_str(part.trim_end());
        prompt.push_str("\n\n");
    }
    prompt.push_str("# Workspace\n\nThe workspace root is `");
    prompt.push_str(&workspace);
    prompt.push_str("`.\n");
    instructions.push_to(&mut prompt, loads_skills);
    prompt
}

/// The message that opens a turn of a Goal. It stays in the history, so the objective is not in it: that stands in the
/// work-state section, once (G14). It says which wait is over, if the turn starts because one is (G10).
pub fn continuation_line(continuation: u64, wait_over: Option<&WaitOver>) -> String {
    let waited = match wait_over {
        None => String::new(),
        Some(WaitOver { condition, is_met: true }) => {
            format!("You waited for {condition}, and it is there. ")
        }
        Some(WaitOver { condition: Condition::Time, .. }) => "The time you waited for has come. ".to_owned(),
        Some(WaitOver { condition, is_met: false }) => {
            format!("You waited for {condition}; the deadline passed without it. ")
        }
    };
    format!(
        "{waited}Continuation {continuation} of the active Goal. Its objective, criteria and budget stand in the work-state \
         section. Do the next useful piece of work towards it. When the objective and the criteria are met and you \
         have verified that, call `goal_update`; otherwise end with a short report of what is done and what is left."
    )
}

#[cfg(test)]
mod tests;
