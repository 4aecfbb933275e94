//! What a turn may do: its role, narrowed by the mode and by configuration (C2).

use std::collections::BTreeSet;

use domain::{CapabilitySet, Mode};
use policy::{CallGrant, in_mode};

use crate::role::Role;

/// The tools that configuration lets through, by name. Lists can only be narrowed (C2, C9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolAllowList {
    /// No list: every tool.
    All,
    /// These and no others.
    Only(BTreeSet<String>),
}

impl ToolAllowList {
    /// Whether a tool of this name passes.
    pub fn allows(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(tool),
        }
    }

    /// What both lists let through.
    #[must_use]
    pub fn intersect(self, other: &Self) -> Self {
        match (self, other) {
            (list, Self::All) => list,
            (Self::All, Self::Only(names)) => Self::Only(names.clone()),
            (Self::Only(mut names), Self::Only(others)) => {
                names.retain(|name| others.contains(name));
                Self::Only(names)
            }
        }
    }
}

/// The capabilities of a role that a mode lets through. Plan mode is the allow list
/// [`PLAN_MODE`](policy::PLAN_MODE): what is not named there is gone, whoever asks (C4).
pub const fn effective_grant(role: &Role, mode: Mode) -> CapabilitySet {
    in_mode(role.grant, mode)
}

/// Whether the model is told about a tool: everything it needs is granted, and the list lets it through (C2).
pub fn is_offered(
    role: &Role,
    mode: Mode,
    allowed: &ToolAllowList,
    tool: &str,
    requires: CapabilitySet,
) -> bool {
    requires.missing_from(effective_grant(role, mode)).next().is_none() && allowed.allows(tool)
}

/// What the admission of a call has to know. The mode is no part of it on purpose: `policy` reads the one in force
/// in the transaction that admits the call (M6).
pub fn call_grant(role: &Role, allowed: &ToolAllowList, tool: &str, requires: CapabilitySet) -> CallGrant {
    CallGrant { requires, grant: role.grant, tool_is_allowed: allowed.allows(tool) }
}
