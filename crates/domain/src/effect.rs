//! What a tool call may do to the world, recorded before it does it, so that a crash can be settled (T7).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::InvalidId;

/// A SHA-256 digest; prints and reads as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid =
            || InvalidId { what: "a SHA-256 digest in hexadecimal", text: text.chars().take(80).collect() };
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl schemars::JsonSchema for Digest {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

/// What an admitted call may change outside the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it looks.
    Read,
    /// This session's own state, in the very transaction that admits the call.
    WorkState,
    /// One file, replaced as a whole. The digests tell afterwards whether it happened.
    FileWrite {
        /// The path beneath the workspace root, with `/`.
        path: String,
        /// The content found at admission; absent for a file that does not exist.
        before: Option<Digest>,
        /// The content to be written.
        after: Digest,
    },
    /// A command.
    Command {
        /// Whether a sandbox keeps it without network and off everything but the workspace, so that looking
        /// again tells what it did.
        confined: bool,
    },
    /// Something outside this machine that cannot be looked at afterwards.
    External,
    /// A job: what its lane does stands in the log, call by call.
    Job,
}

/// How the commands of a turn are confined by the operating system (C6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// To the workspace, without network, by every wall there is.
    Full,
    /// To the workspace, without network, where a container allows no namespaces.
    Landlock,
    /// Not at all: they can do what the user can.
    Off,
}

/// How an admitted call whose result was lost turned out, as found afterwards (T7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// The effect is there.
    Done,
    /// Nothing happened.
    NotRun,
    /// Cut off; harmless, or visible by looking.
    Lost,
    /// It may have happened and nothing here can tell.
    Uncertain,
}

impl Effect {
    /// Settles a call without a result. `found` is the digest of the written file as it is at this moment, if
    /// the effect is a file write.
    pub fn settle(&self, found: Option<Digest>) -> Settlement {
        match self {
            Self::Read | Self::Job | Self::Command { confined: true } => Settlement::Lost,
            // It commits with its admission: without a result there was no admission.
            Self::WorkState => Settlement::NotRun,
            Self::FileWrite { after, .. } if found == Some(*after) => Settlement::Done,
            Self::FileWrite { before, .. } if found == *before => Settlement::NotRun,
            Self::FileWrite { .. } | Self::Command { confined: false } | Self::External => {
                Settlement::Uncertain
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t7_a_digest_reads_back_and_nothing_else_does() {
        let digest = Digest(std::array::from_fn(|at| u8::try_from(at * 7 % 256).unwrap()));
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let text = digest.to_string();
        for wrong in [
            "",
            "00",
            &text[1..],
            &format!("{text}0"),
            &text.replace('0', "g"),
            &"é".repeat(32),
            &"+1".repeat(32),
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
