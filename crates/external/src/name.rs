//! Names of servers, and what models call their tools.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Characters of a server's name: it stands before each of its tools, and models take 64 characters for both.
const NAME_CHARS: usize = 32;

/// Characters of a tool's name that every provider takes.
const MODEL_NAME_CHARS: usize = 64;

/// Between server and tool in a name for models. No name of a server holds it or ends in `_`, so that two servers never
/// share a name, and no tool of our own holds it, so that none can be taken for one.
const BETWEEN: &str = "__";

/// The name of a server: lower-case ASCII letters and digits, with single `-` and `_` within.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ServerName(String);

/// A text that is no name of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of an MCP server: 1 to {NAME_CHARS} lower-case ASCII letters and digits, with single `-` and `_` \
     between them"
)]
pub struct InvalidServerName(String);

impl ServerName {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What people call a tool of this server, in rules and lists.
    pub(crate) fn full(&self, tool: &str) -> String {
        format!("{self}/{tool}")
    }

    /// What models call it: every character that is not taken everywhere is `_`. `None` if that is too long.
    pub(crate) fn for_models(&self, tool: &str) -> Option<String> {
        let fold = |c: char| match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' => c,
            _ => '_',
        };
        let name = format!("{self}{BETWEEN}{}", tool.chars().map(fold).collect::<String>());
        (name.len() <= MODEL_NAME_CHARS).then_some(name)
    }
}

impl FromStr for ServerName {
    type Err = InvalidServerName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let words_fit = text.split(['-', '_']).all(|word| !word.is_empty() && word.chars().all(is_plain));
        if text.len() > NAME_CHARS || !words_fit {
            // A name that long is a mistake; its start says which.
            return Err(InvalidServerName(text.chars().take(2 * NAME_CHARS).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for ServerName {
    type Error = InvalidServerName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_servers() {
        for good in ["a", "git-hub", "my_server_2", &"x".repeat(32)] {
            assert_eq!(good.parse::<ServerName>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "a/b", "a__b", "a-_b", "_a", "a_", "a b", "ä", "a.b", "a*", &"x".repeat(33)] {
            assert!(bad.parse::<ServerName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_models_call_a_tool() {
        let name = |tool: &str| "git-hub".parse::<ServerName>().unwrap().for_models(tool);
        assert_eq!(name("create_issue").as_deref(), Some("git-hub__create_issue"));
        assert_eq!(name("Issues.list all/ä").as_deref(), Some("git-hub__issues_list_all__"));
        assert_eq!(name("plan_update").as_deref(), Some("git-hub__plan_update"));
        assert_eq!(name(&"x".repeat(55)).map(|name| name.len()), Some(64));
        assert_eq!(name(&"x".repeat(56)), None);
    }

    proptest! {
        #[test]
        fn tools_of_two_servers_never_share_a_name(
            one in "[ab]([_-][ab]){0,2}", other in "[ab]([_-][ab]){0,2}", tool in "[_ab]{1,5}", more in "[_ab]{1,5}",
        ) {
            prop_assume!(one != other);
            let (one, other): (ServerName, ServerName) = (one.parse().unwrap(), other.parse().unwrap());
            prop_assert_ne!(one.for_models(&tool), other.for_models(&more));
        }
    }
}
