//! A line at the bottom of a terminal that says what takes its time, and for how long.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::output::Output;
use crate::render;

/// What takes less is not worth a line.
const AFTER: Duration = Duration::from_secs(1);

/// The line. Without a terminal it does nothing.
#[derive(Debug)]
pub(super) struct Status {
    can_show: bool,
    /// What is said when nothing is under way.
    otherwise: Option<&'static str>,
    doing: Option<(String, Instant)>,
    is_shown: bool,
}

impl Status {
    pub(super) fn new(out: Output, otherwise: Option<&'static str>) -> Self {
        let can_show = !out.is_json() && std::io::stderr().is_terminal();
        Self { can_show, otherwise, doing: None, is_shown: false }
    }

    /// From here on this is under way.
    pub(super) fn show(&mut self, doing: Option<&str>) {
        self.doing = doing.map(|doing| (doing.to_owned(), Instant::now()));
    }

    /// Waits for the next second and draws the line.
    pub(super) async fn tick(&mut self) {
        if !self.can_show {
            return std::future::pending().await;
        }
        tokio::time::sleep(AFTER).await;
        let line = match (&self.doing, self.otherwise) {
            (Some((doing, since)), _) => format!("… {doing} ({} s)", since.elapsed().as_secs()),
            (None, Some(otherwise)) => format!("… {otherwise}"),
            (None, None) => return,
        };
        let line = render::cut(&line, render::COLUMNS - 1);
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K{line}");
        let _ = std::io::stderr().flush();
        self.is_shown = true;
    }

    /// Takes the line away, because something else is to be written.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K");
            let _ = std::io::stderr().flush();
        }
        self.doing = None;
    }
}
