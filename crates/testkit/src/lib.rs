//! Builders and strategies that tests share. Only ever a dev-dependency.
//!
//! Start with [`snapshot`] for a plan in one line, with [`snapshots`] and [`successors`] for random ones, and with
//! [`texts`] for text as nobody wishes for it.

mod effort;
mod name;
mod plan;
mod text;

pub use effort::cases;
pub use name::{goal_id, plan_id, session_id};
pub use plan::{candidate, candidates, mended, plan, snapshot, snapshots, steps, successors};
pub use text::{ODD_CHARACTERS, objective, remark, texts};
