//! A workspace, its neighbours, and a short way to run a shell text behind the walls.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{Launcher, Level, Limits, Places, Report, Sandbox};
use tempfile::TempDir;

/// `root` is the workspace, `outside` its neighbour, `hidden` what nobody may read, `cache` declared to be writable.
pub(crate) struct House {
    parent: TempDir,
    sandbox: Sandbox,
    network: bool,
}

/// How a shell text ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) report: Option<Report>,
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
}

pub(crate) fn launcher() -> Launcher {
    Launcher { program: env!("CARGO_BIN_EXE_launcher").into(), arguments: Vec::new() }
}

/// A directory that commands see: what lies beneath `/tmp` is not there for them.
pub(crate) fn parent() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

impl House {
    pub(crate) fn new() -> Self {
        Self::at(Level::Full, |_| {})
    }

    /// A house that `furnish` fills before the walls are planned.
    pub(crate) fn at(level: Level, furnish: impl FnOnce(&Path)) -> Self {
        Self::build(parent(), level, Limits::default(), |places| furnish(&places.workspace))
    }

    /// A house in a directory that has something already, with other places.
    pub(crate) fn around(parent: TempDir, change: impl FnOnce(&mut Places)) -> Self {
        Self::build(parent, Level::Full, Limits::default(), change)
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self::build(parent(), Level::Full, limits, |_| {})
    }

    fn build(parent: TempDir, level: Level, limits: Limits, change: impl FnOnce(&mut Places)) -> Self {
        let place = |name: &str| parent.path().join(name);
        for name in ["root", "outside", "hidden", "cache"] {
            fs::create_dir_all(place(name)).unwrap();
        }
        fs::write(place("outside/file"), "untouched").unwrap();
        fs::write(place("hidden/file"), "secret").unwrap();
        fs::write(place("secret"), "secret").unwrap();
        let mut places = Places {
            workspace: place("root"),
            temp: place("temp"),
            writable: vec![place("cache"), place("absent")],
            hidden: vec![place("hidden"), place("secret")],
        };
        change(&mut places);
        let sandbox = Sandbox::new(launcher(), level, &places, limits).unwrap();
        Self { parent, sandbox, network: false }
    }

    pub(crate) fn with_network(mut self) -> Self {
        self.network = true;
        self
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.parent.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.place(name)).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.place(name)).is_ok()
    }

    /// Runs a shell text in the workspace. `$P` is the directory with all places.
    pub(crate) fn run(&self, script: &str) -> Outcome {
        let order = self.sandbox.order(script.to_owned(), self.place("root"), self.network);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let launcher = self.sandbox.launcher();
        let mut command = Command::new(&launcher.program);
        command
            .args(&launcher.arguments)
            .env("P", self.parent.path().canonicalize().unwrap())
            .env("OUTER", std::process::id().to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(writer.try_clone().unwrap())
            .stderr(writer);
        let mut child = command.spawn().unwrap();
        drop(command);
        ours.write_all(order.to_line().unwrap().as_bytes()).unwrap();
        let mut output = Vec::new();
        reader.read_to_end(&mut output).unwrap();
        let code = child.wait().unwrap().code();
        let mut line = String::new();
        BufReader::new(ours).read_line(&mut line).unwrap();
        let output = String::from_utf8_lossy(&output).into_owned();
        Outcome { report: Report::from_line(&line), code, output }
    }

    /// The output of a shell text that succeeds.
    pub(crate) fn ok(&self, script: &str) -> String {
        let outcome = self.run(script);
        assert_eq!(outcome.code, Some(0), "{script}: {outcome:?}");
        outcome.output
    }

    /// The output of a shell text that fails, and not because there was no sandbox.
    pub(crate) fn fails(&self, script: &str) -> String {
        let outcome = self.run(script);
        assert_ne!(outcome.code, Some(0), "{script}: {outcome:?}");
        assert!(!matches!(outcome.report, Some(Report::Refused { .. })), "{script}: {outcome:?}");
        outcome.output
    }
}
