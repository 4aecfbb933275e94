//! Names of things: 128-bit ids for what outlives a session's log, small numbers for what the log counts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that should have been an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct InvalidId {
    /// What was expected, with its article: "a session id".
    pub what: &'static str,
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl InvalidId {
    fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(80).collect() }
    }
}

/// Reads the hyphenated form `8-4-4-4-12` of a UUID, hexadecimal digits of either case.
fn parse_uuid(text: &str) -> Option<u128> {
    let hyphens = [8, 13, 18, 23];
    if text.len() != 36 {
        return None;
    }
    let mut bits: u128 = 0;
    for (at, byte) in text.bytes().enumerate() {
        if hyphens.contains(&at) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        bits = bits << 4 | u128::from(char::from(byte).to_digit(16)?);
    }
    Some(bits)
}

fn write_uuid(bits: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let hex = format!("{bits:032x}");
    write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u128);

        impl $name {
            /// Takes the bits of a UUID made elsewhere: this crate has no source of randomness.
            pub const fn from_u128(bits: u128) -> Self {
                Self(bits)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_uuid(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_uuid(text).map(Self).ok_or_else(|| InvalidId::new($what, text))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "format": "uuid" })
            }
        }
    };
}

uuid_id!(
    /// A session: one log, one mode, one lease, at most one open Goal.
    SessionId,
    "a session id"
);
uuid_id!(
    /// An execution plan; its revisions share the id.
    PlanId,
    "a plan id"
);
uuid_id!(
    /// A Goal; never used again after it ended (G13).
    GoalId,
    "a Goal id"
);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($bits:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub $bits);

        impl $name {
            /// The number after this one; stays at the maximum instead of wrapping.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// The place of an event in its session's log: 1, 2, 3 … without a gap; 0 stands before the first (E1).
    Seq(u64)
);
number!(
    /// The revision of a plan or of a Goal; 0 means none yet.
    Revision(u64)
);
number!(
    /// The number of a turn in its session, from 1. The turn that takes the lease gives it its epoch (T5).
    TurnNumber(u64)
);
number!(
    /// A request to a person, numbered in its session from 1 (I4).
    RequestId(u32)
);
number!(
    /// A background command, numbered in its session from 1.
    CommandId(u32)
);
number!(
    /// A job, numbered in its session from 1 (W2).
    JobId(u32)
);

/// A row of the inbox, named by the event that queued it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct InputId(pub Seq);

impl fmt::Display for InputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One tool call: the turn, the model request in it (from 1) and the call's place in that response (from 0).
///
/// Models repeat their own call ids, so this triple is the call's name and its idempotency key (E5).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CallRef {
    /// The turn that made the call.
    pub turn: TurnNumber,
    /// The ordinal of the model request whose response holds the call.
    pub request: u32,
    /// The index of the call in that response.
    pub index: u32,
}

impl fmt::Display for CallRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.turn, self.request, self.index)
    }
}

/// A moment in milliseconds since the Unix epoch, UTC.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment moved by `ms` milliseconds, saturating.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
                // 64: long enough for `vendor/model-name:tag`, short enough for a table column.
                if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
                    return Err(InvalidId::new($what, &text));
                }
                Ok(Self(text))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

name!(
    /// A lane of a session (E8): an agent with its own plan and transcript. The root lane is [`LaneId::main`].
    LaneId,
    "a lane name (1–64 ASCII letters, digits, `-_.:/`)"
);
name!(
    /// An agent role, such as `build`.
    AgentName,
    "an agent name (1–64 ASCII letters, digits, `-_.:/`)"
);
name!(
    /// A client through which a person or a program speaks, such as `cli`.
    ClientName,
    "a client name (1–64 ASCII letters, digits, `-_.:/`)"
);
name!(
    /// A configured model: the key of its `[models.NAME]` table.
    ModelName,
    "a model name (1–64 ASCII letters, digits, `-_.:/`)"
);
name!(
    /// A worker: one process that may own turns, named afresh at each start.
    WorkerName,
    "a worker name (1–64 ASCII letters, digits, `-_.:/`)"
);

impl LaneId {
    /// The root lane, which every session has.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The lane of a job.
    pub fn of_job(job: JobId) -> Self {
        Self(format!("job-{job}"))
    }

    /// The job whose lane it is.
    pub fn job(&self) -> Option<JobId> {
        self.0.strip_prefix("job-")?.parse().ok().map(JobId)
    }

    /// Whether it is the root lane.
    pub fn is_main(&self) -> bool {
        self.0 == "main"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print() {
        for bits in [0, 1, u128::MAX, 0x0190_a1b2_c3d4_7e5f_8a9b_0c1d_2e3f_4a5b] {
            let id = SessionId::from_u128(bits);
            assert_eq!(id.to_string().parse::<SessionId>(), Ok(id));
        }
    }

    #[test]
    fn a_text_of_another_shape_is_no_id() {
        for text in [
            "",
            "x",
            "0190a1b2c3d47e5f8a9b0c1d2e3f4a5b",
            "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5g",
            "０190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a",
        ] {
            assert!(text.parse::<GoalId>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_hold_no_space_and_have_an_end() {
        assert!("build".parse::<AgentName>().is_ok());
        assert!("two words".parse::<AgentName>().is_err());
        assert!("x".repeat(65).parse::<AgentName>().is_err());
        assert!("".parse::<AgentName>().is_err());
    }
}
