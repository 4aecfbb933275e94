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
    use crate::permission::{CallSubject, PermissionRule, PermissionRules, RuleEntry, Verdict};
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
            assert_eq!(effective_grant(role, Mode::Plan), role.grant.intersect(plan.grant), "{}", role.name);
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

    fn sets() -> impl Strategy<Value = CapabilitySet> {
        let some = proptest::sample::subsequence(Capability::ALL.to_vec(), 0..=Capability::ALL.len());
        some.prop_map(|some| CapabilitySet::of(&some))
    }

    fn rule_sets() -> impl Strategy<Value = PermissionRules> {
        let verdict = prop_oneof![Just(Verdict::Allow), Just(Verdict::Ask), Just(Verdict::Deny)];
        let entry = (verdict, "[a-c*]", proptest::option::of("[a-c]{1,2}|\\*\\*"));
        let rule = entry.prop_map(|(verdict, tool, path)| {
            let entry = RuleEntry { verdict, tool: Some(tool), path, command: None };
            PermissionRule::new("a rule", &entry).unwrap()
        });
        proptest::collection::vec(rule, 0..6).prop_map(|rules| PermissionRules::new(rules).unwrap())
    }

    fn verdict(rules: &PermissionRules, tool: &str, requires: CapabilitySet, path: &str) -> Verdict {
        let paths = [path.to_owned()];
        let (workspace, command) = ("/w", None);
        let (is_external, is_confined) = (false, false);
        let subject =
            CallSubject { tool, requires, is_external, workspace, paths: &paths, command, is_confined };
        rules.judge(&subject).verdict
    }

    proptest! {
        /// Role, mode, parent, list of tools, and rules of the user, the project and one run: what is granted is never
        /// more than any of them lets through, and whatever a project adds without trust only takes away.
        #[test]
        fn c2_c9_the_effective_grant_is_never_larger_than_any_part(
            (at, in_plan_mode) in (0..roles().len(), any::<bool>()),
            (parent, requires) in (sets(), sets()),
            (own_list, project_list) in (lists(), lists()),
            (own, project, tool, path) in (rule_sets(), rule_sets(), "[a-c]", "[a-c]{1,2}"),
        ) {
            let role = &roles()[at];
            let mode = if in_plan_mode { Mode::Plan } else { Mode::Work };
            let effective = effective_grant(role, mode).intersect(parent);
            for capability in effective.iter() {
                prop_assert!(role.grant.holds(capability) && parent.holds(capability));
                prop_assert!(mode == Mode::Work || PLAN_MODE.holds(capability));
            }
            // A call that its admission lets through needs nothing that any part withholds.
            let list = own_list.clone().intersect(&project_list);
            let grant = call_grant(role, &list, &tool, requires);
            let of_child = CallGrant { grant: grant.grant.intersect(parent), ..grant.clone() };
            if policy::check_call(&tool, &of_child, mode).is_ok() {
                prop_assert!(requires.missing_from(effective).next().is_none());
                prop_assert!(own_list.allows(&tool) && project_list.allows(&tool));
                prop_assert!(policy::check_call(&tool, &grant, mode).is_ok(), "a parent only takes away");
                prop_assert!(is_offered(role, mode, &list, &tool, requires));
                prop_assert!(policy::check_call(&tool, &of_child, Mode::Work).is_ok(), "a mode only takes away");
            }
            // Rules: an untrusted project makes each verdict stricter or leaves it, and nobody lifts a denial.
            let alone = verdict(&own, &tool, requires, &path);
            prop_assert!(verdict(&own.clone().narrowed_by(&project), &tool, requires, &path) >= alone);
            let trusted = verdict(&own.clone().preceded_by(&project), &tool, requires, &path);
            prop_assert!(trusted == Verdict::Deny || alone != Verdict::Deny);
        }

        #[test]
        fn c2_an_allow_list_only_narrows(one in lists(), other in lists(), tool in "[a-e]") {
            let both = one.clone().intersect(&other);
            prop_assert_eq!(both.allows(&tool), one.allows(&tool) && other.allows(&tool));
        }
    }
}
