//! What goes wrong with a server, in words for the user and for the model.

use std::time::Duration;

use rmcp::service::ServiceError;

/// Bytes of a message of others that an error repeats: enough to find it in their log.
const SHOWN_BYTES: usize = 500;

/// Why a server is of no use, or did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its program does not start.
    #[error("its program cannot be started: {0}")]
    NotStarted(String),
    /// It says nothing.
    #[error("it gave no answer within {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// It is gone, or a message was no message.
    #[error("its connection broke off: {0}")]
    BrokenOff(String),
    /// It sent a message that is longer than any that is read.
    #[error("it sent a message of more than {} MiB, and its connection was closed", .0 >> 20)]
    TooLong(usize),
    /// It answered that it will not.
    #[error("it answered with an error: {0}")]
    Refused(String),
    /// It offers more tools than a model can be told about.
    #[error("it offers more than {0} tools")]
    TooMany(usize),
    /// It has no such tool any more, or another one.
    #[error("it has {how} since this run took the list of its tools")]
    Changed {
        /// What it has done.
        how: &'static str,
    },
}

impl Fault {
    pub(crate) fn of(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Refused(clip(&error.message)),
            error => Self::BrokenOff(clip(&error.to_string())),
        }
    }
}

/// A text of others, short and in one line.
pub(crate) fn clip(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let flat = flat.trim();
    let end = flat.floor_char_boundary(SHOWN_BYTES);
    if end < flat.len() { format!("{}…", &flat[..end]) } else { flat.to_owned() }
}
