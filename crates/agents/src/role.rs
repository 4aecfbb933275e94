//! The roles an agent can have, as one table (C3).

use domain::{AgentName, Capability, CapabilitySet};
use policy::PLAN_MODE;

/// What an agent of this name is for, and the most it may ever do. The table below is the only place that makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// The name of the agent.
    pub name: &'static str,
    /// What it is for, in one line for people who choose.
    pub description: &'static str,
    /// The most it may do; modes and configuration only take away (C2).
    pub grant: CapabilitySet,
    /// Whether a person can choose it for Work mode.
    pub is_selectable: bool,
    /// Whether work can be delegated to it (C5).
    pub is_target: bool,
    /// Its own part of the system prompt.
    pub(crate) text: &'static str,
    /// Whether it delivers changes and therefore carries the execution-plan policy (A1).
    pub(crate) delivers: bool,
}

/// Everything but delegation.
const DIRECT: CapabilitySet = CapabilitySet::of(&[
    Capability::ReadWorkspace,
    Capability::SearchWorkspace,
    Capability::WriteWorkspace,
    Capability::RunCommand,
    Capability::Network,
    Capability::AskHuman,
    Capability::LoadSkill,
    Capability::ReadWorkState,
    Capability::UpdatePlan,
    Capability::UpdateGoal,
    Capability::UpdateWorkItems,
]);

impl Role {
    /// The role with no more than this grant: what its agent keeps where less is given to it (C5).
    #[must_use]
    pub const fn within(self, grant: CapabilitySet) -> Self {
        Self { grant: self.grant.intersect(grant), ..self }
    }
}

/// The first is the default.
const ROLES: [Role; 5] = [
    Role {
        name: "orchestrator",
        description: "owns a request from the first look to the verified result",
        grant: CapabilitySet::of(&Capability::ALL),
        is_selectable: true,
        is_target: false,
        text: include_str!("prompts/orchestrator.md"),
        delivers: true,
    },
    Role {
        name: "build",
        description: "carries out one direct piece of work itself",
        grant: DIRECT,
        is_selectable: true,
        is_target: false,
        text: include_str!("prompts/build.md"),
        delivers: true,
    },
    Role {
        name: "deep",
        description: "takes on one difficult problem that cuts across the code",
        grant: DIRECT,
        is_selectable: true,
        is_target: true,
        text: include_str!("prompts/deep.md"),
        delivers: true,
    },
    Role {
        name: policy::PLAN_AGENT,
        description: "reads and prepares a plan; runs in Plan mode only and changes no file",
        grant: PLAN_MODE,
        is_selectable: false,
        is_target: false,
        text: include_str!("prompts/plan.md"),
        delivers: false,
    },
    Role {
        name: "explorer",
        description: "answers one question about the workspace by reading and searching; runs for other agents only",
        grant: CapabilitySet::of(&[Capability::ReadWorkspace, Capability::SearchWorkspace]),
        is_selectable: false,
        is_target: true,
        text: include_str!("prompts/explorer.md"),
        delivers: false,
    },
];

/// Every role, the default first.
pub fn roles() -> &'static [Role] {
    &ROLES
}

/// The role of an agent. `None` for a name that no role has: its turn fails as `no_such_agent`.
pub fn role(name: &AgentName) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.name == name.as_str())
}

/// The roles a person can choose for Work mode. `plan` is none of them: Plan mode alone runs it (M2).
pub fn selectable() -> impl Iterator<Item = &'static Role> {
    ROLES.iter().filter(|role| role.is_selectable)
}

/// The roles that work can be delegated to (C5).
pub fn targets() -> impl Iterator<Item = &'static Role> {
    ROLES.iter().filter(|role| role.is_target)
}

/// The agent of a session that names none.
#[expect(clippy::missing_panics_doc, reason = "a test reads every name of the table")]
pub fn default_agent() -> AgentName {
    ROLES[0].name.parse().expect("the names of the table are agent names")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant_of(name: &str) -> Vec<&'static str> {
        role(&name.parse().unwrap()).unwrap().grant.iter().map(Capability::name).collect()
    }

    #[test]
    fn every_name_is_an_agent_name_and_finds_its_role() {
        for expected in roles() {
            let name: AgentName = expected.name.parse().unwrap();
            assert_eq!(role(&name), Some(expected));
        }
        assert_eq!(role(&"nobody".parse().unwrap()), None);
        assert_eq!(default_agent().as_str(), "orchestrator");
    }

    #[test]
    fn c3_each_role_has_exactly_its_set() {
        let all: Vec<_> = Capability::ALL.iter().map(|capability| capability.name()).collect();
        let direct: Vec<_> = all.iter().copied().filter(|name| *name != "delegate").collect();
        assert_eq!(grant_of("orchestrator"), all);
        assert_eq!(grant_of("build"), direct);
        assert_eq!(grant_of("deep"), direct);
        assert_eq!(
            grant_of("plan").join(", "),
            "read_workspace, search_workspace, ask_human, load_skill, read_work_state, update_plan, update_goal, \
             update_work_items"
        );
        assert_eq!(grant_of("explorer"), ["read_workspace", "search_workspace"]);
        assert_eq!(roles().len(), 5);
    }

    #[test]
    fn c4_the_plan_role_and_the_plan_overlay_are_one_set() {
        assert_eq!(role(&"plan".parse().unwrap()).unwrap().grant, PLAN_MODE);
    }

    #[test]
    fn the_plan_agent_is_not_for_choosing() {
        let names: Vec<_> = selectable().map(|role| role.name).collect();
        assert_eq!(names, ["orchestrator", "build", "deep"]);
    }

    #[test]
    fn c5_work_goes_to_the_listed_targets_and_none_of_them_delegates_on() {
        let names: Vec<_> = targets().map(|role| role.name).collect();
        assert_eq!(names, ["deep", "explorer"]);
        assert!(targets().all(|role| !role.grant.holds(Capability::Delegate)));
    }
}
