//! The collaboration mode: one per session, changed by the user alone (M1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the person and the agents work together.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Agents work within their roles.
    #[default]
    Work,
    /// Read-only: every turn runs the `plan` agent (M2).
    Plan,
}

impl Mode {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Plan => "plan",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
