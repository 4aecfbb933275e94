//! A home, a git workspace and a store that belong to one test.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct World {
    folder: TempDir,
}

/// How a run of the program ended.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work/.git")).unwrap();
        fs::create_dir_all(folder.path().join("work/sub")).unwrap();
        Self { folder }
    }

    /// A world with one model, `play`, that plays a scenario.
    pub(crate) fn with_scenario(scenario: &str) -> Self {
        let world = Self::new();
        world.write("scenario.toml", scenario);
        world.configure("[models.play]\nprotocol = \"scripted\"\nscenario = \"../../../scenario.toml\"\n");
        world
    }

    pub(crate) fn path(&self, beneath: &str) -> PathBuf {
        self.folder.path().join(beneath)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("work").canonicalize().unwrap()
    }

    pub(crate) fn write(&self, beneath: &str, text: &str) {
        let path = self.path(beneath);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn configure(&self, text: &str) {
        self.write("home/.config/zuno/zuno.toml", text);
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zuno"));
        // Nothing of whoever runs the tests reaches the program, above all no key.
        command.env_clear().env("HOME", self.path("home")).env("TZ", "UTC");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin")));
        command.current_dir(self.path("work")).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let done = Done::of(child.wait_with_output().unwrap());
        // A program that refuses early need not read all of it.
        let _ = writer.join().unwrap();
        done
    }

    /// A new session; its id.
    pub(crate) fn session(&self) -> String {
        let done = self.run(&["session", "new", "--json"]).expect(0);
        done.json()["session"].as_str().unwrap().to_owned()
    }

    /// The kinds of a session's events.
    pub(crate) fn kinds(&self, session: &str) -> Vec<String> {
        let done = self.run(&["events", "--session", session, "--json"]).expect(0);
        done.json_lines().iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    }

    /// Everything that exists beneath the test's folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(self.folder.path(), self.folder.path(), &mut found);
        found.sort();
        found
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.strip_prefix(root).unwrap().display().to_string());
        if path.is_dir() {
            walk(root, &path, found);
        }
    }
}

impl Done {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A session's short form.
pub(crate) fn short(session: &str) -> &str {
    &session.rsplit('-').next().unwrap()[..8]
}

/// Text without what is another one each time: the session's id, its short form, and how long something is ago.
pub(crate) fn plain(text: &str, session: &str) -> String {
    let text = text.replace(session, "SESSION").replace(short(session), "SHORT");
    let ago = |line: &str| match line.split_once(" s ago") {
        Some((before, after)) => format!("{}N s ago{after}", before.trim_end_matches(char::is_numeric)),
        None => line.to_owned(),
    };
    text.lines().map(ago).collect::<Vec<_>>().join("\n")
}

/// Text without its line breaks: where a line was broken depends on what stands in it.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A terminal: what a person types into, and what a program reads and writes.
pub(crate) struct Terminal {
    pub(crate) person: fs::File,
    program: fs::File,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
        let program = fs::File::options().read(true).write(true).open(name).unwrap();
        Self { person: person.into(), program }
    }

    /// Gives the terminal a width.
    pub(crate) fn resize(&self, columns: u16) {
        let size = rustix::termios::Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.person, size).unwrap();
    }

    /// The terminal as a stream of a program.
    pub(crate) fn stream(&self) -> Stdio {
        self.program.try_clone().unwrap().into()
    }

    /// Reads what the program shows until a text is there.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        loop {
            let mut bytes = [0; 1024];
            let read = self.person.read(&mut bytes).unwrap();
            shown.extend_from_slice(&bytes[..read]);
            let shown = String::from_utf8_lossy(&shown);
            if shown.contains(text) {
                return shown.into_owned();
            }
        }
    }
}

/// Sends a signal by name, such as `INT`, to a program that a test started.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
}

/// Waits until a file exists; the runner ends a test that waits for ever.
pub(crate) fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
