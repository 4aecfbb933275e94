//! Why a configured model cannot be built.

use domain::ModelName;

use crate::scripted::ScenarioError;

/// A `[models.NAME]` table that does not make a model. Nothing was sent anywhere.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A field the protocol cannot do without.
    #[error("[models.{name}] needs `{field}` with protocol `{protocol}`")]
    Missing {
        /// The table.
        name: ModelName,
        /// The field.
        field: &'static str,
        /// The protocol as it is written in the file.
        protocol: &'static str,
    },
    /// A field the protocol has no use for: most likely meant for another table.
    #[error("[models.{name}] has `{field}`, which means nothing with protocol `{protocol}`: remove it")]
    Unused {
        /// The table.
        name: ModelName,
        /// The field.
        field: &'static str,
        /// The protocol as it is written in the file.
        protocol: &'static str,
    },
    /// The environment variable that should hold the key is unset or blank.
    #[error("[models.{name}] takes its key from {variable}, which is not set: export {variable}=…")]
    NoKey {
        /// The table.
        name: ModelName,
        /// The variable.
        variable: String,
    },
    /// The key cannot be sent in an HTTP header.
    #[error(
        "the key of [models.{name}] has characters that no key has: look for a broken line or a stray quote"
    )]
    UnusableKey {
        /// The table.
        name: ModelName,
    },
    /// The address cannot be used.
    #[error("base_url of [models.{name}]: {problem}")]
    BaseUrl {
        /// The table.
        name: ModelName,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A context window of no tokens.
    #[error("context_tokens of [models.{name}] must be at least 1")]
    NoContext {
        /// The table.
        name: ModelName,
    },
    /// A silence that is none, or longer than any answer may take.
    #[error("idle_seconds of [models.{name}] must be from 1 to {most}")]
    Idle {
        /// The table.
        name: ModelName,
        /// The longest, in seconds.
        most: u64,
    },
    /// The scenario of a scripted model cannot be played.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The HTTP client could not be set up, for example because the system has no root certificates.
    #[error("the HTTP client for [models.{name}] could not be set up: {cause}")]
    Client {
        /// The table.
        name: ModelName,
        /// What the client library said.
        cause: String,
    },
}
