//! What a turn may do: its role, narrowed by the mode and by configuration (C2).

use std::collections::BTreeSet;

use domain::{CapabilitySet, Mode};
use policy::{CallGrant, Permission, in_mode};

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

/// Whether the model is told about a tool: exactly if a call of it would be allowed in this mode (C2).
pub fn is_offered(
    role: &Role,
    mode: Mode,
    allowed: &ToolAllowList,
    tool: &str,
    requires: CapabilitySet,
) -> bool {
    policy::check_call(tool, &call_grant(role, allowed, tool, requires), mode).is_ok()
}

/// What the admission of a call has to know before the permission rules have looked at its arguments. The mode is no
/// part of it on purpose: `policy` reads the one in force in the transaction that admits the call (M6).
pub fn call_grant(role: &Role, allowed: &ToolAllowList, tool: &str, requires: CapabilitySet) -> CallGrant {
    let tool_is_allowed = allowed.allows(tool);
    CallGrant { requires, grant: role.grant, tool_is_allowed, permission: Permission::Allow }
}

#[cfg(test)]
mod tests {
    use domain::Capability;
    use policy::PLAN_MODE;
    use proptest::prelude::*;

    use super::*;
    use crate::role::{role, roles};

    fn only(names: &[&str]) -> ToolAllowList {
        ToolAllowList::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn c2_a_tool_is_offered_only_if_role_mode_and_list_all_let_it_through() {
        let pairs = Capability::ALL.into_iter().flat_map(|one| Capability::ALL.map(|other| [one, other]));
        for needs in pairs {
            let requires = CapabilitySet::of(&needs);
            for role in roles() {
                let has_all = needs.iter().all(|need| role.grant.holds(*need));
                let mode_lets = needs.iter().all(|need| PLAN_MODE.holds(*need));
                let offers = |mode, list: &ToolAllowList| is_offered(role, mode, list, "t", requires);
                assert_eq!(offers(Mode::Work, &ToolAllowList::All), has_all, "{} {needs:?}", role.name);
                assert_eq!(offers(Mode::Plan, &ToolAllowList::All), has_all && mode_lets);
                assert_eq!(offers(Mode::Work, &only(&["s", "t"])), has_all);
                assert!(!offers(Mode::Work, &only(&["s"])));
            }
        }
    }

    #[test]
    fn c4_in_plan_mode_no_role_has_more_than_the_plan_role() {
        let plan = role(&"plan".parse().unwrap()).unwrap();
        for role in roles() {
            assert_eq!(effective_grant(role, Mode::Plan), plan.grant, "{}", role.name);
        }
    }

    #[test]
    fn a_call_brings_its_role_and_leaves_the_mode_to_its_admission() {
        let build = role(&"build".parse().unwrap()).unwrap();
        let requires = CapabilitySet::of(&[Capability::WriteWorkspace]);
        let grant = call_grant(build, &only(&["edit_file"]), "write_file", requires);
        let permission = Permission::Allow;
        assert_eq!(grant, CallGrant { requires, grant: build.grant, tool_is_allowed: false, permission });
    }

    fn lists() -> impl Strategy<Value = ToolAllowList> {
        let names = proptest::collection::btree_set("[a-d]", 0..4);
        prop_oneof![1 => Just(ToolAllowList::All), 4 => names.prop_map(ToolAllowList::Only)]
    }

    proptest! {
        #[test]
        fn c2_an_allow_list_only_narrows(one in lists(), other in lists(), tool in "[a-e]") {
            let both = one.clone().intersect(&other);
            prop_assert_eq!(both.allows(&tool), one.allows(&tool) && other.allows(&tool));
        }
    }
}
