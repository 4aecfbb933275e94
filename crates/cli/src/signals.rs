//! Ctrl-C and the signals that end a process in order.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::CliError;

/// What the outside wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The person interrupts (Ctrl-C).
    Interrupt,
    /// The process is to end (SIGTERM, or its terminal is gone).
    End,
}

/// The system does not let this process listen.
pub(crate) fn unheard(error: &std::io::Error) -> CliError {
    CliError::Environment(format!("signals cannot be heard: {error}"))
}

/// Listens from its creation on; from then on the signals do not kill the process any more.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Starts to listen.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let listen = |kind| signal(kind).map_err(|error| unheard(&error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Interrupt,
            _ = self.terminate.recv() => Wish::End,
            _ = self.hang_up.recv() => Wish::End,
        }
    }
}
