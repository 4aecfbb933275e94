//! Who may ask and what a model reads: roles, grants, the catalogue of work-state tools, prompts and the work-state
//! section.
//!
//! Pure: text and tables in, text and sets out. Nothing here decides whether a command is allowed; that is `policy`,
//! which intersects the grant that comes with a call with the mode it reads when it admits the call. No text here is
//! a guard either: with an empty system prompt every refusal is the same (C7).
//!
//! The tour: a [`Role`] is a row of one table. [`is_offered`] and [`call_grant`] narrow it to one tool. [`WORK_TOOLS`]
//! lists the tools that act on the session itself. [`PermissionRules`] say of one call what a person's configuration
//! wants. [`system_prompt`] is the stable head of every request, with the [`Instructions`] that people wrote at its end, and
//! [`work_state_section`] its changing tail.

#![warn(clippy::wildcard_enum_match_arm)]

mod catalog;
mod instructions;
mod overlay;
mod permission;
mod prompt;
mod quote;
mod role;
mod work_state;

pub use catalog::{WORK_TOOLS, WorkTool};
pub use instructions::{
    InstructionFile, InstructionOwner, Instructions, PROJECT_INSTRUCTION_BYTES, SkillSummary,
    USER_INSTRUCTION_BYTES,
};
pub use overlay::{ToolAllowList, call_grant, effective_grant, is_offered};
pub use permission::{
    CallSubject, InvalidRule, Judgement, PermissionRule, PermissionRules, RuleEntry, Verdict,
};
pub use prompt::{Situation, continuation_line, system_prompt};
pub use role::{Role, default_agent, role, roles, selectable, targets};
pub use work_state::{WORK_STATE_BYTES, work_state_section};
