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

/// What the agent of one turn may do. Made once when the turn starts; it holds sets and can only be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnGrant {
    role: CapabilitySet,
    mode: Mode,
    tools: ToolAllowList,
}

impl TurnGrant {
    /// The grant of a role in a mode under the configured list.
    pub const fn new(role: &Role, mode: Mode, tools: ToolAllowList) -> Self {
        Self { role: role.grant, mode, tools }
    }

    /// The capabilities in effect: the role's, as far as the mode lets them through.
    pub const fn capabilities(&self) -> CapabilitySet {
        in_mode(self.role, self.mode)
    }

    /// Whether the model is told about a tool: everything it needs is granted, and the list lets it through.
    pub fn offers(&self, tool: &str, requires: CapabilitySet) -> bool {
        requires.missing_from(self.capabilities()).next().is_none() && self.tools.allows(tool)
    }

    /// The tools to tell the model about, sorted by name: equal grants give equal bytes, in whatever order the tools
    /// were registered (V3). `needs` says a tool's name and the capabilities it takes.
    pub fn offered<'a, T>(
        &self,
        tools: impl IntoIterator<Item = &'a T>,
        needs: impl Fn(&'a T) -> (&'a str, CapabilitySet),
    ) -> Vec<&'a T> {
        let passes = |tool: &&'a T| {
            let (name, requires) = needs(tool);
            self.offers(name, requires)
        };
        let mut offered: Vec<_> = tools.into_iter().filter(passes).collect();
        offered.sort_by_key(|tool| needs(tool).0);
        offered
    }

    /// What the admission of a call has to know. The mode is left out on purpose: `policy` reads the one in force in
    /// the transaction that admits the call (M6).
    pub fn for_call(&self, tool: &str, requires: CapabilitySet) -> CallGrant {
        CallGrant { requires, grant: self.role, tool_is_allowed: self.tools.allows(tool) }
    }
}
