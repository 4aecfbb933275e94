//! The real `zuno` as a process: started, stopped at a chosen commit, paused, killed, and started again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use store::Clock;
use tokio::time::sleep;

use crate::binary;
use crate::world::World;

/// How long a test waits for a process to do what it must, before it says that it never did.
const PATIENCE: Duration = Duration::from_mins(1);
/// Pause between two looks at a process.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// `zuno` on the store and workspace of a [`World`], with a configuration and an environment of its own.
pub struct Zuno {
    home: PathBuf,
    store: PathBuf,
    workspace: PathBuf,
    sandbox: &'static str,
    started: AtomicU32,
}

/// A moment in the life of a process, in terms of the commits in which it writes to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Right before this one, counted from 1.
    Before(u32),
    /// Right after it: it is durable, and the process does not know yet.
    After(u32),
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(commit) => write!(f, "before:{commit}"),
            Self::After(commit) => write!(f, "after:{commit}"),
        }
    }
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it printed.
    pub out: String,
    /// What it complained about.
    pub err: String,
}

impl Zuno {
    /// For the store and workspace of a world.
    pub fn of<C: Clock + 'static>(world: &World<C>) -> Self {
        Self::at(world.store_path().parent().unwrap())
    }

    /// For the store `zuno.db` and the folder `workspace` of a home of its own.
    pub fn at(home: &Path) -> Self {
        let (store, workspace) = (home.join("zuno.db"), home.join("workspace"));
        Self { home: home.to_owned(), store, workspace, sandbox: "off", started: AtomicU32::new(0) }
    }

    /// Puts every wall around commands. The configuration is written by what is called after it.
    #[must_use]
    pub fn within_walls(self) -> Self {
        Self { sandbox: "full", ..self }
    }

    /// Makes `main` the default model, reached at this address by the protocol `openai-chat`.
    #[must_use]
    pub fn with_model_at(self, base_url: &str) -> Self {
        self.with_config(&format!(
            "default_model = \"main\"\n\n[models.main]\nprotocol = \"openai-chat\"\nmodel = \"m\"\n\
             base_url = \"{base_url}\"\n"
        ))
    }

    /// Makes `main` the default model, which plays this scenario.
    #[must_use]
    pub fn with_scenario(self, toml: &str) -> Self {
        fs::create_dir_all(self.config_folder()).unwrap();
        fs::write(self.config_folder().join("scenario.toml"), toml).unwrap();
        self.with_config(
            "default_model = \"main\"\n\n[models.main]\nprotocol = \"scripted\"\nscenario = \"scenario.toml\"\n",
        )
    }

    /// Commands run without a sandbox unless a test asks for one: what one did whose worker was killed is then uncertain
    /// (T7), and the processes of it have numbers that a test can look for.
    fn with_config(self, toml: &str) -> Self {
        fs::create_dir_all(self.config_folder()).unwrap();
        let toml = format!("{toml}\n[sandbox]\nlevel = \"{}\"\n", self.sandbox);
        fs::write(self.config_folder().join("zuno.toml"), toml).unwrap();
        self
    }

    fn config_folder(&self) -> PathBuf {
        self.home.join("config").join("zuno")
    }

    /// The program with its arguments, in an environment that has nothing of the person who runs the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::zuno());
        command.args(arguments).current_dir(&self.workspace).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", self.home.join("config"))
            .env("XDG_DATA_HOME", self.home.join("data"))
            .env("ZUNO_STORE", &self.store);
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = tokio::process::Command::from(self.command(arguments));
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
        Finished {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs the deep check of the store, which must find nothing.
    pub async fn assert_sound(&self) {
        let found = self.run(&["doctor"]).await;
        assert_eq!(found.code, Some(0), "zuno doctor: {}{}", found.out, found.err);
    }

    /// Starts a command.
    pub fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(arguments, &[])
    }

    /// Starts a command that comes to a stop at this point, if it gets there.
    pub fn start_until(&self, point: CrashPoint, arguments: &[&str]) -> Running {
        self.start_with(arguments, &[("ZUNO_CRASH_POINT", point.to_string())])
    }

    fn start_with(&self, arguments: &[&str], environment: &[(&str, String)]) -> Running {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.home.join(format!("process-{number}.{kind}"));
        let (printed, marker) = (file("out"), file("marker"));
        let out = File::create(&printed).unwrap();
        let mut command = self.command(arguments);
        command.env("ZUNO_CRASH_MARKER", &marker);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        Running { child: command.spawn().unwrap(), printed, marker }
    }
}

/// A process that runs. Killed when dropped.
pub struct Running {
    child: Child,
    printed: PathBuf,
    marker: PathBuf,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far, complaints included.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.printed).unwrap()).into_owned()
    }

    /// Waits until it stands at its crash point; `false` if it came to its end without getting there.
    pub async fn reaches_its_point(&mut self) -> bool {
        let start = Instant::now();
        loop {
            // In this order: a process that wrote the marker does not end.
            let ended = self.child.try_wait().unwrap().is_some();
            if self.marker.exists() {
                return true;
            }
            if ended {
                return false;
            }
            assert!(start.elapsed() < PATIENCE, "neither its point nor its end:\n{}", self.printed());
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until a condition holds while it runs.
    pub async fn runs_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "it ended before {what}:\n{}", self.printed());
            assert!(start.elapsed() < PATIENCE, "it never came to {what}:\n{}", self.printed());
            sleep(LOOK_EVERY).await;
        }
    }

    /// Whether it came to its end.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills it with SIGKILL and reaps it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        let killed = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(killed, Some(9), "it was gone before it was killed:\n{}", self.printed());
    }

    /// Kills it with SIGKILL, unless it came to its end before. Says whether it still ran.
    pub fn kill_if_it_runs(&mut self) -> bool {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
    }

    /// The events it told its reader by `--json`, as number and kind. A line that was cut off is none.
    pub fn told(&self) -> Vec<(u64, String)> {
        let told = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some((line["seq"].as_u64()?, line["kind"].as_str()?.to_owned()))
        };
        self.printed().lines().filter_map(told).collect()
    }

    /// Waits for its end.
    pub async fn ends(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.printed());
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Stops a process with SIGSTOP, so that nothing of it runs, and waits until it stands.
pub async fn pause(pid: u32) {
    signal(pid, "STOP");
    wait_until("the process is stopped", || state_of(pid) == Some('T')).await;
}

/// Lets a process go on with SIGCONT.
pub fn go_on(pid: u32) {
    signal(pid, "CONT");
}

/// Asks a process with SIGTERM to end in order.
pub fn terminate(pid: u32) {
    signal(pid, "TERM");
}

fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    let status = Command::new("sh").arg("-c").arg(&kill).status().unwrap();
    assert!(status.success(), "{kill}: {status}");
}

/// Waits for something outside this process.
pub async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(LOOK_EVERY).await;
    }
}

/// Whether this process still does anything: it exists and is no zombie that nobody reaped.
pub fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The state of a process as `/proc` names it.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}
