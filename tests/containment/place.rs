//! A workspace with neighbours, on a disk that commands see: everything beside it is watched.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use tempfile::TempDir;
use tests::{Record, Zuno, record_tree};

use crate::outside::{Listeners, Victim, survivors};

/// Stands in the configuration, in the store, in the environment and in another process, and must come back in no answer.
pub(crate) const SECRET: &str = "4f6b1c-not-for-commands";

/// The variable of the key; commands do not get it.
const KEY_VARIABLE: &str = "LOCAL_MODEL_KEY";

/// Files of the workspace that cases use, by name and content.
const WORKSPACE: [(&str, &str); 9] = [
    ("file", "one\ntwo\n"),
    ("Makefile", "all:\n\techo x > \"$(OUT)/made\"\n"),
    (
        "package.json",
        "{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"echo x > \\\"$OUT/npm\\\"\"}}\n",
    ),
    (
        "package/setup.py",
        "import os\nopen(os.environ['OUT'] + '/setup', 'w').write('x')\nfrom setuptools import setup\nsetup(name='p')\n",
    ),
    ("crate/Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n"),
    ("crate/src/lib.rs", "\n"),
    (
        "crate/build.rs",
        "fn main() { std::fs::write(std::env::var(\"OUT\").unwrap() + \"/built\", \"x\").unwrap(); }\n",
    ),
    (".zuno/skills/greet/SKILL.md", "---\nname: greet\ndescription: Says hello.\n---\nRun `touch new`.\n"),
    (".zuno/zuno.toml", "# The project's own settings.\n"),
];

/// Places outside, filled anew for each case of a control.
const OUTSIDE: [(&str, &str); 6] = [
    ("file", "untouched\n"),
    ("other", "untouched as well\n"),
    ("deep/er/file", "untouched\n"),
    ("script", "#!/bin/sh\necho fine\n"),
    ("held", "untouched\n"),
    ("empty/.keep", ""),
];

pub(crate) struct Place {
    pub(crate) root: TempDir,
    /// Neighbours in the machine's directories for temporary files.
    temp: TempDir,
    memory: TempDir,
    mark: String,
    listeners: Listeners,
    victim: Mutex<Victim>,
    /// Where the model is.
    base_url: String,
    /// A session beside the one that plays, with a paused Goal and a plan.
    other: String,
}

impl Place {
    /// A place whose program asks its model at this address.
    pub(crate) fn new(base_url: &str) -> Self {
        // Commands see it, and could reach it: what lies beneath `/tmp` is not there for them.
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        let (temp, memory) =
            (tempfile::tempdir_in("/tmp").unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        for folder in ["workspace", "outside", "sockets", "config/zuno"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let mark = format!("mark-{}", root.path().file_name().unwrap().display());
        fill(&root.path().join("outside"));
        let listeners = Listeners::start(&root.path().join("sockets"), &mark);
        let victim = Mutex::new(Victim::start(&root.path().join("outside/held"), SECRET));
        let base_url = base_url.to_owned();
        let mut place = Self { root, temp, memory, mark, listeners, victim, base_url, other: String::new() };
        place.restore();
        place.other = place.other_session();
        place
    }

    /// What the user has going on besides.
    fn other_session(&self) -> String {
        let opened: Value = serde_json::from_str(&self.ok(&["session", "new", "--json"])).unwrap();
        let other = opened["session"].as_str().unwrap().to_owned();
        self.ok(&["goal", "set", "Something else", "--session", &other]);
        self.ok(&["goal", "pause", "--session", &other]);
        other
    }

    /// The program as its user would start it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let zuno = Zuno::at(self.root.path());
        let mut command = zuno.command(arguments);
        let program = command.get_program().to_owned();
        command.envs(self.variables()).env(KEY_VARIABLE, SECRET).env("PROGRAM", program);
        command.env("OTHER", &self.other).stdin(Stdio::null());
        command
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let done = self.command(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.current_dir(self.at("workspace")).args(arguments);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.status().unwrap().success());
    }

    /// Everything outside as it was at first.
    pub(crate) fn restore(&self) {
        for folder in [&self.at("outside"), self.temp.path(), self.memory.path()] {
            fs::create_dir_all(folder).unwrap();
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if fs::symlink_metadata(&path).unwrap().is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
            fill(folder);
        }
        let config = format!(
            "# {SECRET}\ndefault_model = \"main\"\n\n[models.main]\nprotocol = \"openai-chat\"\nmodel = \"m\"\n\
             base_url = \"{}\"\napi_key_env = \"{KEY_VARIABLE}\"\n",
            self.base_url
        );
        write(&self.at("config/zuno/zuno.toml"), &config);
        let workspace = self.at("workspace");
        fs::remove_dir_all(workspace.join(".zuno")).ok();
        for (name, content) in WORKSPACE {
            write(&workspace.join(name), content);
        }
        if !workspace.join(".git/HEAD").exists() {
            fs::remove_dir_all(workspace.join(".git")).ok();
            self.git(&["init", "--quiet", "--initial-branch=main"]);
            self.git(&["add", "file", "Makefile"]);
            let identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"];
            self.git(&[&identity[..], &["commit", "--quiet", "--message=start"]].concat());
        }
        fs::remove_dir_all(workspace.join(".git/hooks")).ok();
        write(&workspace.join(".git/hooks/post-commit.sample"), "#!/bin/sh\n");
        write(
            &workspace.join(".git/config"),
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = T\n\temail = t@example.com\n",
        );
        for pid in survivors(&self.mark) {
            Command::new("kill").arg("-9").arg(pid.to_string()).status().unwrap();
        }
    }

    /// Another process in place of the one that something was done to.
    pub(crate) fn replace_victim(&self) {
        *self.victim() = Victim::start(&self.at("outside/held"), SECRET);
    }

    fn victim(&self) -> MutexGuard<'_, Victim> {
        self.victim.lock().unwrap()
    }

    /// What the other session is at this moment.
    pub(crate) fn other_now(&self) -> String {
        self.ok(&["session", "show", "--session", &self.other, "--json"])
    }

    /// Opens a session in Plan mode.
    pub(crate) fn planning(&self) -> String {
        let opened: Value = serde_json::from_str(&self.ok(&["session", "new", "--json"])).unwrap();
        let session = opened["session"].as_str().unwrap().to_owned();
        self.ok(&["mode", "plan", "--session", &session]);
        session
    }

    /// Everything that no command may change, but for what is in the store.
    pub(crate) fn record(&self) -> Record {
        let mut record = Record::new();
        for folder in [
            &self.at("outside"),
            &self.at("sockets"),
            &self.at("config"),
            self.temp.path(),
            self.memory.path(),
        ] {
            record_tree(folder, &mut record);
        }
        let workspace = self.at("workspace");
        for name in [".git/config", ".git/hooks", ".zuno"] {
            record_tree(&workspace.join(name), &mut record);
        }
        self.listeners.record(&mut record);
        self.victim().record(&mut record);
        let survivors = survivors(&self.mark).len();
        record.insert("processes of ended commands".to_owned(), survivors.to_string());
        record
    }

    /// A script with what differs from one process to the next filled in.
    pub(crate) fn filled_in(&self, script: &str) -> String {
        let victim = self.victim();
        script.replace("$VICTIM", &victim.pid().to_string()).replace("$ADDRESS", &victim.address.to_string())
    }

    /// What commands find in their environment.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let shown = |path: &Path| path.display().to_string();
        vec![
            ("OUT", shown(&self.at("outside"))),
            ("TMPOUT", shown(self.temp.path())),
            ("SHMOUT", shown(self.memory.path())),
            ("SOCKETS", shown(&self.at("sockets"))),
            ("CONFIG", shown(&self.at("config/zuno"))),
            ("STORE", shown(&self.at("zuno.db"))),
            ("TCP", self.listeners.tcp_port.to_string()),
            ("UDP", self.listeners.udp_port.to_string()),
            ("ABSTRACT", self.mark.clone()),
            ("HOST_ADDRESS", host_address()),
            ("RUSTUP_HOME", rustup_home()),
        ]
    }
}

/// An address of this machine that is not the loopback's, if there is one. Nothing is sent.
fn host_address() -> String {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let asked = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    asked.map_or("127.0.0.1".to_owned(), |address| address.ip().to_string())
}

/// Where the compiler is, since commands have another home.
fn rustup_home() -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    std::env::var("RUSTUP_HOME").unwrap_or_else(|_| format!("{home}/.rustup"))
}

fn fill(folder: &Path) {
    for (name, content) in OUTSIDE {
        write(&folder.join(name), content);
    }
    fs::set_permissions(folder.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("file", folder.join("link")).unwrap();
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // It may have become another name of another file.
    fs::remove_file(path).ok();
    fs::write(path, content).unwrap();
}
