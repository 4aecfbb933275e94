//! Why a verb could not finish, or finished with findings.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cargo metadata: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    #[error("layers.toml: {0}")]
    Table(#[from] toml::de::Error),
    #[error("json: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot start `{command}`: {source}")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed ({status})")]
    Command { command: String, status: String },
    #[error("{check}: {count} finding(s)")]
    Findings { check: &'static str, count: usize },
    #[error("run this through `cargo xtask`: CARGO_MANIFEST_DIR is not set")]
    NotUnderCargo,
}
