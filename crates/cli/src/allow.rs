//! `--allow RULE`: a permission rule for one run, from the command line.

use std::str::FromStr;

use agents::{PermissionRule, RuleEntry, Verdict};

/// The tool whose rules are about commands; those of others are about paths.
const SHELL: &str = "shell";

/// A rule as it was typed, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowRule(pub(crate) PermissionRule);

impl FromStr for AllowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tool, about) = text.split_once(':').map_or((text, None), |(tool, about)| (tool, Some(about)));
        let about = about.map(|about| about.trim().to_owned());
        let (path, command) = if tool.trim() == SHELL { (None, about) } else { (about, None) };
        let tool = Some(tool.trim().to_owned());
        let entry = RuleEntry { verdict: Verdict::Allow, tool, path, command };
        PermissionRule::new("--allow", &entry).map(Self).map_err(|fault| fault.to_string())
    }
}
