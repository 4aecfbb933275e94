//! What an agent may do, as sets that can only shrink.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing an agent may be allowed to do (C1).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the documentation; C1 lists them")]
pub enum Capability {
    ReadWorkspace,
    SearchWorkspace,
    WriteWorkspace,
    RunCommand,
    Network,
    AskHuman,
    LoadSkill,
    ReadWorkState,
    UpdatePlan,
    UpdateGoal,
    UpdateWorkItems,
    Delegate,
}

impl Capability {
    /// Every capability, in the order of C1.
    pub const ALL: [Self; 12] = [
        Self::ReadWorkspace,
        Self::SearchWorkspace,
        Self::WriteWorkspace,
        Self::RunCommand,
        Self::Network,
        Self::AskHuman,
        Self::LoadSkill,
        Self::ReadWorkState,
        Self::UpdatePlan,
        Self::UpdateGoal,
        Self::UpdateWorkItems,
        Self::Delegate,
    ];

    /// The name used in configuration, events and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadWorkspace => "read_workspace",
            Self::SearchWorkspace => "search_workspace",
            Self::WriteWorkspace => "write_workspace",
            Self::RunCommand => "run_command",
            Self::Network => "network",
            Self::AskHuman => "ask_human",
            Self::LoadSkill => "load_skill",
            Self::ReadWorkState => "read_work_state",
            Self::UpdatePlan => "update_plan",
            Self::UpdateGoal => "update_goal",
            Self::UpdateWorkItems => "update_work_items",
            Self::Delegate => "delegate",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of capabilities. Sets are written down once, as tables; after that only [`intersect`](Self::intersect)
/// exists, so no sequence of operations can add one (C2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CapabilitySet(u16);

impl CapabilitySet {
    /// The set of exactly these capabilities.
    pub const fn of(capabilities: &[Capability]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < capabilities.len() {
            bits |= 1 << capabilities[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// What both sets hold.
    #[must_use]
    pub const fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set holds this capability.
    pub const fn holds(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u16) != 0
    }

    /// The capabilities of this set that `grant` lacks.
    pub fn missing_from(self, grant: Self) -> impl Iterator<Item = Capability> {
        self.iter().filter(move |c| !grant.holds(*c))
    }

    /// The capabilities in the order of C1.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |c| self.holds(*c))
    }
}

impl fmt::Debug for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_the_capabilities_are_these() {
        let names: Vec<_> = Capability::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(
            names.join(", "),
            "read_workspace, search_workspace, write_workspace, run_command, network, ask_human, load_skill, \
             read_work_state, update_plan, update_goal, update_work_items, delegate"
        );
        for capability in Capability::ALL {
            assert_eq!(serde_json::to_value(capability).unwrap(), capability.name());
        }
    }

    #[test]
    fn c2_an_intersection_never_adds() {
        for left in 0..1 << 12 {
            for right in [0, 1, 0b1010_1010_1010, 0xfff] {
                let both = CapabilitySet(left).intersect(CapabilitySet(right));
                assert!(both.iter().all(|c| CapabilitySet(left).holds(c) && CapabilitySet(right).holds(c)));
            }
        }
    }
}
