//! A `racer` process and the line to it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use domain::SessionId;
use store::SystemClock;
use tests::World;

/// A process that takes part in a contest. Killed when dropped.
pub(crate) struct Contestant {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Contestant {
    /// Starts one in a role of `racer` and does not wait until it is there.
    pub(crate) fn start(role: &str, world: &World<SystemClock>, session: SessionId) -> Self {
        let mut command = command(role, world, session);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, orders, answers }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something and does not wait for the answer.
    pub(crate) fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// Its next answer.
    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        assert!(self.answers.read_line(&mut line).unwrap() > 0, "the contestant ended without an answer");
        line.trim_end().to_owned()
    }

    /// Checks its next answer.
    #[track_caller]
    pub(crate) fn answers(&mut self, expected: &str) {
        assert_eq!(self.answer(), expected);
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Tells all of them something, one right after the other.
pub(crate) fn tell_all(contestants: &mut [Contestant], order: &str) {
    for contestant in contestants {
        contestant.tell(order);
    }
}

/// Checks the next answer of each.
#[track_caller]
pub(crate) fn all_answer(contestants: &mut [Contestant], expected: &str) {
    for contestant in contestants {
        contestant.answers(expected);
    }
}

/// Runs one to its end.
pub(crate) fn run(role: &str, world: &World<SystemClock>, session: SessionId) {
    let status = command(role, world, session).stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "{role}: {status}");
}

fn command(role: &str, world: &World<SystemClock>, session: SessionId) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_racer"));
    command.arg(role).arg(world.store_path()).arg(session.to_string());
    command
}
