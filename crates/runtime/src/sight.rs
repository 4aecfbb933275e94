//! What of a workspace a call may show besides the paths it names (C2).
//!
//! The rules judge a call by the paths it names. A search from the root names the root alone and yet meets every file,
//! so the rules are asked again for each file that it is about to show.

use std::sync::Arc;

use agents::{PermissionRules, Verdict};
use domain::{Capability, CapabilitySet};

/// The tool whose rules speak of content: who may not read a file is not shown its lines by another tool either.
const READER: &str = "read_file";

/// What the rules leave to one call. The default leaves everything.
#[derive(Clone, Default)]
pub struct Sight(Option<Limits>);

#[derive(Clone)]
struct Limits {
    rules: Arc<PermissionRules>,
    workspace: Arc<str>,
    tool: Arc<str>,
    requires: CapabilitySet,
    strictest: Verdict,
}

impl Sight {
    /// What the rules leave to a call of this tool. Where they would ask, only a call that a person allowed sees.
    pub fn new(
        rules: Arc<PermissionRules>,
        workspace: &str,
        tool: (&str, CapabilitySet),
        is_allowed_by_person: bool,
    ) -> Self {
        let strictest = if is_allowed_by_person { Verdict::Ask } else { Verdict::Allow };
        let (tool, requires) = tool;
        Self(Some(Limits { rules, workspace: workspace.into(), tool: tool.into(), requires, strictest }))
    }

    /// Whether a path, from the workspace root, may be named: the tool could have been called with it.
    pub fn shows_name(&self, path: &str) -> bool {
        self.0.as_ref().is_none_or(|limits| limits.leave(&limits.tool, limits.requires, path))
    }

    /// Whether what is at a path, from the workspace root, may be shown: it may be named, and `read_file` could have
    /// been called with it.
    pub fn shows_content(&self, path: &str) -> bool {
        let reads = CapabilitySet::of(&[Capability::ReadWorkspace]);
        self.shows_name(path) && self.0.as_ref().is_none_or(|limits| limits.leave(READER, reads, path))
    }
}

impl Limits {
    fn leave(&self, tool: &str, requires: CapabilitySet, path: &str) -> bool {
        let judgement = self.rules.judge(&agents::CallSubject {
            tool,
            requires,
            is_external: false,
            workspace: &self.workspace,
            paths: &[path.to_owned()],
            command: None,
            is_confined: false,
        });
        judgement.verdict <= self.strictest
    }
}

#[cfg(test)]
mod tests {
    use agents::{PermissionRule, RuleEntry};

    use super::*;

    fn rule(verdict: Verdict, tool: Option<&str>, path: Option<&str>) -> PermissionRule {
        let entry = RuleEntry {
            verdict,
            tool: tool.map(str::to_owned),
            path: path.map(str::to_owned),
            command: None,
        };
        PermissionRule::new("rule", &entry).unwrap()
    }

    fn sight(rules: Vec<PermissionRule>, is_allowed_by_person: bool) -> Sight {
        let rules = Arc::new(PermissionRules::new(rules).unwrap());
        let requires = CapabilitySet::of(&[Capability::SearchWorkspace]);
        Sight::new(rules, "/w", ("grep", requires), is_allowed_by_person)
    }

    #[test]
    fn c2_what_may_not_be_read_is_not_shown_by_another_tool() {
        let sight = sight(
            vec![
                rule(Verdict::Deny, Some("read_file"), Some("secrets/**")),
                rule(Verdict::Deny, None, Some("/w/hidden")),
                rule(Verdict::Deny, Some("edit_file"), Some("src")),
            ],
            false,
        );
        let seen = |path: &str| (sight.shows_name(path), sight.shows_content(path));
        assert_eq!(seen("secrets/key"), (true, false));
        assert_eq!(seen("hidden/x"), (false, false));
        assert_eq!(seen("src/lib.rs"), (true, true));
    }

    #[test]
    fn c2_what_is_asked_about_is_shown_to_a_call_that_a_person_allowed() {
        let rules = || {
            vec![rule(Verdict::Ask, None, Some("private/**")), rule(Verdict::Deny, None, Some("private/key"))]
        };
        assert!(!sight(rules(), false).shows_content("private/x"));
        assert!(sight(rules(), true).shows_content("private/x"));
        assert!(!sight(rules(), true).shows_content("private/key"));
    }

    #[test]
    fn without_rules_everything_is_shown() {
        assert!(Sight::default().shows_content("a") && sight(Vec::new(), false).shows_content("a"));
    }
}
