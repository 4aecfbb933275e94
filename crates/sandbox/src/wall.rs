//! A wall that could not be built.

use std::fmt::Display;

/// Which wall is missing, why, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{wall}: {problem}")]
pub(crate) struct Missing {
    wall: &'static str,
    problem: String,
}

impl Missing {
    pub(crate) fn new(wall: &'static str, problem: impl Display) -> Self {
        Self { wall, problem: problem.to_string() }
    }
}

/// Names the wall that an error is about.
pub(crate) trait OfWall<T> {
    /// `doing` is what failed, as in `cannot mount /tmp`.
    fn of(self, wall: &'static str, doing: impl Display) -> Result<T, Missing>;
}

impl<T, E: Display> OfWall<T> for Result<T, E> {
    fn of(self, wall: &'static str, doing: impl Display) -> Result<T, Missing> {
        self.map_err(|error| Missing::new(wall, format!("{doing}: {error}")))
    }
}
