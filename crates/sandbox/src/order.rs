//! What a launcher is told, and what it tells: a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::profile::Profile;

/// Bytes of an order at most. The kernel takes no argument of more than 128 KiB, so no longer shell text can run; in
/// JSON each of its bytes can become six.
pub const ORDER_BYTES: usize = 1 << 20;

/// Bytes of a report at most: an error names a path or two.
pub const REPORT_BYTES: usize = 64 << 10;

/// Bytes of an error in a report, which has to fit whatever JSON makes of it.
const PROBLEM_BYTES: usize = 8 << 10;

/// One command to run behind walls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub(crate) profile: Profile,
    /// For `sh -c`.
    pub(crate) script: String,
    /// Where it begins.
    pub(crate) workdir: PathBuf,
    /// Whether it has the network of the machine.
    pub(crate) network: bool,
}

impl Order {
    /// The line to send. It fails for a path that is no text, and for more than [`ORDER_BYTES`].
    pub fn to_line(&self) -> Result<String, String> {
        let mut line = serde_json::to_string(self).map_err(|error| error.to_string())?;
        line.push('\n');
        if line.len() > ORDER_BYTES {
            return Err(format!(
                "the command and its paths take {} bytes, the limit is {ORDER_BYTES}",
                line.len()
            ));
        }
        Ok(line)
    }
}

/// What became of an order. A launcher that became the shell itself sends none, and its exit status is the shell's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A wall could not be built, or the shell not be started; nothing ran.
    Refused {
        /// What is missing, and how to choose otherwise.
        problem: String,
    },
    /// The shell ended.
    Ended {
        /// Its exit status, if it came to its end.
        code: Option<i32>,
        /// The signal that killed it otherwise.
        signal: Option<i32>,
        /// Whether it left something running. That is dead too.
        left_running: bool,
        /// Whether it and all it started were killed for using too much memory.
        over_memory: bool,
    },
}

impl Report {
    pub(crate) fn refused(problem: &impl ToString) -> Self {
        let mut problem = problem.to_string();
        problem.truncate(problem.floor_char_boundary(PROBLEM_BYTES));
        Self::Refused { problem }
    }

    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(self).map(|line| line + "\n").unwrap_or_default()
    }

    /// Reads the line that a launcher sent.
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}
