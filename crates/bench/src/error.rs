//! Why there are no figures.

use std::io;
use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The system did not do what it was asked for.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A candidate that did something else than what is measured: its time would be that of something else.
    #[error("{candidate} did not do what is measured: {problem}")]
    Candidate {
        /// Its name.
        candidate: &'static str,
        /// What it did.
        problem: String,
    },
    /// A place that no walls can be put around.
    #[error(transparent)]
    Walls(#[from] sandbox::InvalidProfile),
}

impl Error {
    /// For `map_err` on what the system does.
    pub(crate) fn of(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
