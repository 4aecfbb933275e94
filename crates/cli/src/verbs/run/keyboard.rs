//! What a person types in answer to a question.

use std::io::BufRead as _;
use std::sync::mpsc;
use std::thread;

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc as answers;

/// The keyboard, read in a thread of its own: a line that nobody types must not keep the program from going on.
pub(super) struct Keyboard {
    thread: Option<Reader>,
    /// A line was asked for and did not come; whoever asks next gets it.
    is_asked: bool,
}

struct Reader {
    ask: mpsc::Sender<()>,
    lines: answers::Receiver<Option<String>>,
}

impl Keyboard {
    pub(super) const fn new() -> Self {
        Self { thread: None, is_asked: false }
    }

    /// Forgets what was typed so far: an answer is given to a question that was seen.
    pub(super) fn forget(&self) {
        if !self.is_asked {
            // Where that cannot be done there is no terminal either.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        }
    }

    /// The next line, without its end; `None` at the end of the input (Ctrl-D). May be dropped and asked again.
    pub(super) async fn line(&mut self) -> Option<String> {
        let reader = self.thread.get_or_insert_with(Reader::start);
        if !self.is_asked {
            self.is_asked = true;
            reader.ask.send(()).ok()?;
        }
        let line = reader.lines.recv().await.flatten();
        self.is_asked = false;
        line
    }
}

impl Reader {
    fn start() -> Self {
        let (ask, asked) = mpsc::channel();
        let (told, lines) = answers::channel(1);
        // It ends with the program, at the latest.
        thread::spawn(move || {
            for () in asked {
                let mut line = String::new();
                let read = std::io::stdin().lock().read_line(&mut line);
                let line = read.ok().filter(|read| *read > 0).map(|_| line.trim_end().to_owned());
                if told.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self { ask, lines }
    }
}
