//! Models behind the [`runtime::Model`] port: providers over HTTP, and scenarios played from a file.
//!
//! An adapter makes exactly one attempt and says by type what went wrong (T9): retries, accounting and the transcript
//! belong to the turn loop. Nothing here calls a model for any other reason than a request that came through the port,
//! and nothing knows sessions, plans or Goals.
//!
//! [`build`] turns a `[models.NAME]` table into a model; [`from_environment`] finds one without any table.

mod error;
mod remote;
mod scripted;
mod settings;

pub use error::SettingsError;
pub use remote::{Protocol, RemoteModel, RemoteSettings};
pub use scripted::{ScenarioError, ScriptedModel};
pub use settings::{EXAMPLE_TOML, ModelProtocol, ModelSettings, build, from_environment};

/// Where an answer's text goes while it arrives; each piece lives only as long as the call.
type OnDelta<'f> = &'f (dyn for<'d> Fn(runtime::Delta<'d>) + Send + Sync);
