//! The data files: one line a case, its columns separated by ` | `, the last of which may hold anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What may stop a command, as the file names it: for people, and the part of the kernel it takes.
pub(crate) const WALLS: [(&str, &str, &str); 9] = [
    (
        "read-only",
        "everything but the workspace is mounted read-only, and Landlock allows no write there",
        "user and mount namespaces, Landlock",
    ),
    ("tmp", "`/tmp` and `/dev/shm` are the command's own", "user and mount namespaces"),
    (
        "protected",
        "`.git/config`, `.git/hooks` and `.zuno` are mounted read-only",
        "user and mount namespaces",
    ),
    (
        "hidden",
        "store, configuration and data of Zuno are covered, and secrets are no part of the environment",
        "user and mount namespaces",
    ),
    ("network", "there is no way out of the command's own network", "network namespaces"),
    ("sockets", "no UNIX socket can be made", "seccomp"),
    ("calls", "the system call is refused", "seccomp"),
    ("processes", "other processes do not exist to it, and all of its own end with it", "process namespaces"),
    ("capabilities", "there is no privilege left that the call needs", "user namespaces"),
];

/// A shell text that must change nothing outside.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) kind: String,
    pub(crate) wall: String,
    /// What it does without any wall.
    pub(crate) control: Control,
    /// Programs that it cannot do without.
    pub(crate) programs: Vec<String>,
    pub(crate) script: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// It leaves the workspace: what the wall is for.
    Leaves,
    /// Not tried: it would harm the machine that runs the tests.
    Never,
    /// It may or may not get out, depending on the machine: another wall than ours may stand in its way.
    Maybe,
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) expected: String,
    pub(crate) what: String,
    pub(crate) arguments: String,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("containment")
}

/// The cases of a file, each as its columns.
fn lines<const N: usize>(name: &str) -> Vec<[String; N]> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let is_case = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let columns = |line: &str| -> [String; N] {
        let columns: Vec<_> = line.splitn(N, " | ").map(|column| column.trim().to_owned()).collect();
        columns.try_into().unwrap_or_else(|_| panic!("{name}: {N} columns are expected: {line}"))
    };
    text.lines().filter(is_case).map(columns).collect()
}

pub(crate) fn commands() -> Vec<Command> {
    let parse = |[kind, wall, control, programs, script]: [String; 5]| {
        let control = match control.as_str() {
            "leaves" => Control::Leaves,
            "never" => Control::Never,
            "maybe" => Control::Maybe,
            other => panic!("commands.txt: there is no control `{other}`: {script}"),
        };
        assert!(WALLS.iter().any(|(name, ..)| *name == wall), "commands.txt: there is no wall `{wall}`");
        let programs = programs.split(' ').filter(|program| *program != "-").map(str::to_owned).collect();
        Command { kind, wall, control, programs, script: script.replace('⏎', "\n") }
    };
    lines("commands.txt").into_iter().map(parse).collect()
}

/// What has to work inside: the programs it needs, and the shell text.
pub(crate) fn ordinary() -> Vec<(Vec<String>, String)> {
    let parse = |[programs, script]: [String; 2]| {
        (programs.split(' ').filter(|program| *program != "-").map(str::to_owned).collect(), script)
    };
    lines("ordinary.txt").into_iter().map(parse).collect()
}

/// Tool, what is expected, arguments.
pub(crate) fn forged() -> Vec<Call> {
    let parse =
        |[tool, expected, arguments]: [String; 3]| Call { tool, expected, what: String::new(), arguments };
    lines("forged.txt").into_iter().map(parse).collect()
}

/// Tool, what is expected, what it is about, arguments.
pub(crate) fn files() -> Vec<Call> {
    let parse = |[tool, expected, what, arguments]: [String; 4]| Call { tool, expected, what, arguments };
    lines("files.txt").into_iter().map(parse).collect()
}

/// Whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The programs of these that are not installed.
pub(crate) fn absent<'a>(programs: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a str> {
    programs.into_iter().map(String::as_str).filter(|program| !is_installed(program)).collect()
}

/// How many there are of each.
pub(crate) fn count<K: Ord>(keys: impl IntoIterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}
