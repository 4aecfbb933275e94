//! Who may ask and what a model reads: roles, grants, the catalogue of work-state tools, prompts and the work-state
//! section.
//!
//! Pure: text and tables in, text and sets out. Nothing here decides whether a command is allowed; that is `policy`,
//! which intersects what a [`TurnGrant`] says with the mode it reads when a call is admitted. No text here is a guard
//! either: with an empty system prompt every refusal is the same (C7).
//!
//! The tour: a [`Role`] is a row of one table. [`TurnGrant`] narrows it to what a turn is offered. [`WorkTool`] lists
//! the tools that act on the session itself. [`system_prompt`] is the stable head of every request and
//! [`work_state_section`] its changing tail.

#![warn(clippy::wildcard_enum_match_arm)]

mod catalog;
mod overlay;
mod prompt;
mod quote;
mod role;
mod work_state;

pub use catalog::WorkTool;
pub use overlay::{ToolAllowList, TurnGrant};
pub use prompt::{continuation_line, system_prompt};
pub use role::{Role, default_agent, role, roles, selectable};
pub use work_state::{WORK_STATE_BYTES, work_state_section};
