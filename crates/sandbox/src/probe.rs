//! Tries the walls of this machine, in throw-away sandboxes.
//!
//! A launcher runs a shell that runs the launcher's program again; that tries what must fail and what must work, and
//! prints what happened. So every finding is about a process that is confined as commands are.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::channel;
use crate::launch::TRY;
use crate::limits::{self, Limits};
use crate::mounts;
use crate::order::Report;
use crate::profile::{Launcher, Level, Places, Sandbox};
use crate::ruleset;

/// How long a connection outward may take to be refused. Without a way out it fails at once.
const CONNECT: Duration = Duration::from_millis(500);

/// Bytes of what the inner program prints at most.
const ANSWER_BYTES: u64 = 64 << 10;

/// What was found out about one wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The wall.
    pub wall: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was tried and what came of it.
    pub detail: String,
}

/// What the inner program has to try, and where.
#[derive(Debug, Serialize, Deserialize)]
struct Trial {
    level: Level,
    workspace: PathBuf,
    outside: PathBuf,
    hidden: PathBuf,
    listener: SocketAddr,
    socket: PathBuf,
    process: u32,
    namespaces: Vec<(String, PathBuf)>,
}

/// Tries the walls of a level beneath an empty directory.
///
/// Answers with one finding for each wall, or with why no sandbox could be built.
pub fn probe(launcher: &Launcher, level: Level, scratch: &Path) -> Result<Vec<Finding>, String> {
    let told = |error: io::Error| format!("{}: {error}", scratch.display());
    let scene = Scene::set(scratch, level).map_err(told)?;
    // `/tmp` is another one in there: a program that lies in it has to be given its place.
    let program = program(launcher);
    let place = program.parent().filter(|place| place.starts_with(mounts::TEMP));
    let places = Places {
        workspace: scene.trial.workspace.clone(),
        temp: scratch.join("temp"),
        writable: place.map(Path::to_owned).into_iter().collect(),
        hidden: vec![scene.trial.hidden.clone()],
    };
    let sandbox = Sandbox::new(launcher.clone(), level, &places, Limits::default())
        .map_err(|error| error.to_string())?;
    let answer = run(&sandbox, &scene.trial)?;
    let mut findings: Vec<Finding> = serde_json::from_str(&answer)
        .map_err(|error| format!("the answer is damaged ({error}): {answer}"))?;
    if let Some(fault) = scene.fault() {
        findings.push(Finding { wall: "outside".to_owned(), holds: false, detail: fault });
    }
    Ok(findings)
}

/// What lies around the sandbox.
struct Scene {
    trial: Trial,
    _listener: TcpListener,
    _socket: UnixListener,
}

impl Scene {
    fn set(scratch: &Path, level: Level) -> io::Result<Self> {
        let scratch = scratch.canonicalize()?;
        let (workspace, outside, hidden) =
            (scratch.join("workspace"), scratch.join("outside"), scratch.join("hidden"));
        for directory in [&workspace, &hidden, &workspace.join(".git/hooks"), &workspace.join(".zuno")] {
            fs::create_dir_all(directory)?;
        }
        for file in [outside.as_path(), &hidden.join("secret"), &workspace.join(".git/config")] {
            fs::write(file, CONTENT)?;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let socket = scratch.join("socket");
        let trial = Trial {
            level,
            workspace,
            outside,
            hidden,
            listener: listener.local_addr()?,
            socket: socket.clone(),
            process: std::process::id(),
            namespaces: NAMESPACES.iter().map(|(name, ..)| ((*name).to_owned(), namespace(name))).collect(),
        };
        Ok(Self { trial, _listener: listener, _socket: UnixListener::bind(socket)? })
    }

    /// Whether anything outside changed.
    fn fault(&self) -> Option<String> {
        let kept = fs::read_to_string(&self.trial.outside).is_ok_and(|content| content == CONTENT);
        (!kept).then(|| "a file outside the workspace was changed".to_owned())
    }
}

const CONTENT: &str = "untouched\n";

/// Namespaces by their names beneath `/proc/self/ns`, and what they are called.
const NAMESPACES: [(&str, &str); 5] = [
    ("user", "user namespace"),
    ("mnt", "mount namespace"),
    ("pid", "process namespace"),
    ("net", "network namespace"),
    ("ipc", "ipc namespace"),
];

fn namespace(name: &str) -> PathBuf {
    fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default()
}

/// The launcher's program by its own path.
fn program(launcher: &Launcher) -> PathBuf {
    fs::read_link(&launcher.program).unwrap_or_else(|_| launcher.program.clone())
}

/// Runs the trial behind the walls and answers with what it printed.
fn run(sandbox: &Sandbox, trial: &Trial) -> Result<String, String> {
    let launcher = sandbox.launcher();
    let program = program(launcher);
    let trial_text = serde_json::to_string(trial).map_err(|error| error.to_string())?;
    let words =
        [program.to_string_lossy().into_owned()].into_iter().chain(launcher.arguments.iter().cloned());
    let words: Vec<_> = words.chain([TRY.to_owned(), trial_text]).map(|word| quoted(&word)).collect();
    let order = sandbox.order(format!("exec {}", words.join(" ")), trial.workspace.clone(), false);
    let told = |error: io::Error| format!("the launcher cannot be run: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(told)?;
    let mut child = Command::new(&launcher.program)
        .args(&launcher.arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(told)?;
    channel::send(&ours, &order).map_err(told)?;
    let mut answer = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER_BYTES).read_to_string(&mut answer).map_err(told)?;
    }
    let status = child.wait().map_err(told)?;
    match channel::heard(&ours).map_err(told)? {
        Some(Report::Refused { problem }) => Err(problem),
        Some(Report::Ended { .. }) | None if status.success() => Ok(answer),
        Some(Report::Ended { .. }) | None => Err(format!("the trial ended with {status}")),
    }
}

/// A word of a shell text.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Within the sandbox: tries everything and prints the findings.
pub(crate) fn try_walls(trial: &str) -> ExitCode {
    let Ok(trial) = serde_json::from_str::<Trial>(trial) else { return ExitCode::FAILURE };
    match serde_json::to_writer(io::stdout(), &findings(&trial)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Everything that is tried, one finding a wall. What a level does not promise is not tried.
fn findings(trial: &Trial) -> Vec<Finding> {
    let mut found = Findings::default();
    found.works("workspace", "a write", fs::write(trial.workspace.join("file"), CONTENT));
    let temporary = std::env::temp_dir().join("zuno-probe");
    found.works(
        "temporary files",
        "a write",
        fs::write(&temporary, CONTENT).and(fs::remove_file(&temporary)),
    );
    found.fails("outside", "a write", File::options().append(true).open(&trial.outside));
    let mode = fs::Permissions::from_mode(0o777);
    found.fails("outside", "a change of mode", fs::set_permissions(&trial.outside, mode));
    found.fails("hidden", "reading", fs::read(trial.hidden.join("secret")));
    if trial.level == Level::Full {
        let git = trial.workspace.join(".git");
        found.fails("protected", "a write to .git/config", fs::write(git.join("config"), "x"));
        found.fails("protected", "a git hook", fs::write(git.join("hooks/pre-commit"), "x"));
        found.fails("protected", "another name for .git", fs::rename(&git, trial.workspace.join("moved")));
        found.fails("protected", "a write to .zuno", fs::write(trial.workspace.join(".zuno/zuno.toml"), "x"));
        for (name, outside) in &trial.namespaces {
            let called =
                NAMESPACES.iter().find(|(known, _)| known == name).map_or("namespace", |known| known.1);
            found.add(called, namespace(name) != *outside, "of its own");
        }
        found.works("loopback", "a connection on 127.0.0.1", loopback());
        found.fails("network", "a datagram outward", datagram());
    }
    let connected = TcpStream::connect_timeout(&trial.listener, CONNECT);
    found.fails("network", "a connection to a server of this machine", connected);
    found.fails(
        "landlock",
        "looking into a process outside",
        fs::read(format!("/proc/{}/mem", trial.process)),
    );
    let (holds, version) = ruleset::version();
    found.add("landlock", holds, &version);
    found.fails("seccomp", "a UNIX socket", UnixStream::connect(&trial.socket));
    let nested = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER);
    found.fails("seccomp", "a namespace within", nested);
    let (holds, detail) = capabilities();
    found.add("capabilities", holds, detail);
    let (holds, detail) = limits::in_force();
    found.add("limits", holds, &detail);
    found.0
}

/// Binds, connects, and passes a byte.
fn loopback() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _client = TcpStream::connect(listener.local_addr()?)?;
    listener.accept().map(drop)
}

/// To an address that is reserved for documentation.
fn datagram() -> io::Result<usize> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.send_to(b"x", (Ipv4Addr::new(192, 0, 2, 1), 9))
}

fn capabilities() -> (bool, &'static str) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_empty = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.is_some_and(|set| set.trim().chars().all(|digit| digit == '0'))
    };
    let holds = ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"].into_iter().all(is_empty)
        && status.lines().any(|line| line == "NoNewPrivs:\t1");
    (holds, if holds { "none, and none to be gained" } else { "there are some" })
}

/// Findings in the order of their walls' first mention.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn works<T, E: Display>(&mut self, wall: &str, tried: &str, outcome: Result<T, E>) {
        match outcome {
            Ok(_) => self.add(wall, true, &format!("{tried} works")),
            Err(error) => self.add(wall, false, &format!("{tried} does not work ({error})")),
        }
    }

    fn fails<T, E: Display>(&mut self, wall: &str, tried: &str, outcome: Result<T, E>) {
        match outcome {
            Ok(_) => self.add(wall, false, &format!("{tried} WORKS")),
            Err(error) => self.add(wall, true, &format!("{tried} is refused ({error})")),
        }
    }

    /// A wall holds if it does in every way that was tried.
    fn add(&mut self, wall: &str, holds: bool, detail: &str) {
        match self.0.iter_mut().find(|finding| finding.wall == wall) {
            Some(finding) => {
                finding.holds &= holds;
                finding.detail.push_str("; ");
                finding.detail.push_str(detail);
            }
            None => self.0.push(Finding { wall: wall.to_owned(), holds, detail: detail.to_owned() }),
        }
    }
}
