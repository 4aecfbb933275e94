//! Hostile trees: a workspace in which any name may be anything, and its neighbours outside.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tempfile::TempDir;
use tests::{Record, record_tree};

/// The content of every file outside: to be told by no tool.
pub(crate) const SECRET: &str = "nobody may read this";

/// A name outside that nothing in the workspace leads to: to be listed by no tool.
pub(crate) const HIDDEN: &str = "c27e51-unlisted";

/// A file outside with a second name in the workspace: that name may be read, and be given to another file.
pub(crate) const SHARED: &str = "shared";

/// Folders of the workspace, each of which may be there. Parents come first.
const FOLDERS: &[&str] = &[
    "a",
    "a/b",
    ".git",
    ".git/objects",
    ".git/refs",
    ".git/refs/heads",
    ".git/info",
    ".git/objects/info",
    ".git/objects/pack",
    ".git/hooks",
    ".git/logs",
    ".zuno",
    ".zuno/skills",
    ".zuno/skills/x",
    ".agents",
    ".agents/skills",
];

/// Names of entries: those that tools and their libraries look for, and those that are hard to write down.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"file",
    b"x",
    b".git",
    b".gitignore",
    b".ignore",
    b".rgignore",
    b"AGENTS.md",
    b"SKILL.md",
    b"HEAD",
    b"config",
    b"index",
    b"commondir",
    b"gitdir",
    b"packed-refs",
    b"shallow",
    b"main",
    b"exclude",
    b"alternates",
    b"objects",
    b"pack",
    b"refs",
    b"heads",
    b"logs",
    b"FETCH_HEAD",
    b"new\nline",
    b"\xff\xfe",
    b"-rf",
    b"~",
    b"*",
    b"caf\xc3\xa9",
    b".zuno",
    b"skills",
    b"a b",
];

/// What is read of a repository, and where.
const OF_GIT: &[(&str, &[u8])] = &[
    ("", b".git"),
    (".git", b"HEAD"),
    (".git", b"config"),
    (".git", b"index"),
    (".git", b"commondir"),
    (".git", b"gitdir"),
    (".git", b"packed-refs"),
    (".git", b"shallow"),
    (".git", b"refs"),
    (".git/info", b"exclude"),
    (".git/info", b"attributes"),
    (".git/objects/info", b"alternates"),
    (".git/objects/info", b"commit-graph"),
    (".git/objects", b"pack"),
    (".git/refs/heads", b"main"),
    (".git/refs/heads", b"b"),
    (".git/refs", b"heads"),
    (".git/refs", b"remotes"),
    (".git/logs", b"HEAD"),
];

/// Where links lead. `$OUT` and `$ROOT` are the places, `$FD` a file outside that this process holds open, `$DIRFD`
/// the folder outside, and `$PIPE` a pipe without a name.
const TARGETS: &[&str] = &[
    "$OUT",
    "$OUT/file",
    "$OUT/none",
    "$OUT/deep",
    "$OUT/pipe",
    "$OUT/repository",
    "$OUT/repository/.git",
    "$OUT/repository/.git/HEAD",
    "$OUT/repository/.git/config",
    "$OUT/repository/.git/objects",
    "../outside",
    "../outside/file",
    "../../outside/file",
    "..",
    "../..",
    ".",
    "/",
    "$ROOT",
    "$ROOT/../outside/file",
    "$ROOT/a",
    "a",
    "b",
    "a/b",
    "file",
    "x",
    "./x",
    "../x",
    "../../x",
    "$ROOT/x",
    "$ROOT/b",
    "/proc/self/fd/$PIPE",
    "a/../../outside/file",
    "/proc/self/fd/$FD",
    "/proc/self/fd/$DIRFD",
    "/proc/self/fd/$DIRFD/file",
    "/proc/self/cwd",
    "/proc/self/cwd/Cargo.toml",
    "/proc/self/root",
    "/proc/self/root$OUT/file",
    "/proc/thread-self/fd/$FD",
    "/dev/fd/$FD",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/proc/self/mem",
    "/proc/kmsg",
    "new\nline",
];

/// Texts of files: what git, its pointers, ignore rules and skills look like, well-formed and not.
const TEXTS: &[&[u8]] = &[
    b"",
    b"one\ntwo\n",
    b"one",
    b"caf\xe9\none\n",
    b"\0\x01",
    b"*\n",
    b"!*\n",
    b"[\n{a\n",
    b"gitdir: $OUT/repository/.git\n",
    b"gitdir: ../outside/repository/.git\n",
    b"gitdir: .git\n",
    b"gitdir: a\n",
    b"gitdir:",
    b"ref: refs/heads/main\n",
    b"ref: ../../outside/file\n",
    b"ref: refs/heads/../../../../outside/file\n",
    b"$OUT/repository/.git\n",
    b"$OUT/repository/.git/objects\n",
    b"../../b\n",
    b"# caf\xe9\n\"../../\\142\"\n",
    b"../outside/repository/.git\n",
    b"0000000000000000000000000000000000000000\n",
    b"[core]\n\tworktree = $OUT\n\tbare = false\n",
    b"[core]\n\tfsmonitor = touch $OUT/ran\n\texcludesFile = $OUT/file\n",
    b"[include]\n\tpath = $OUT/file\n",
    b"[core]\n\trepositoryformatversion = 0\n",
    b"[",
    b"---\nname: x\ndescription: An odd one.\n---\nSay it.\n",
    b"---\nname: [\n",
    b"DIRC\0\0\0\x02\0\0\0\x01",
];

#[derive(Debug, Clone)]
enum What {
    Text(Bytes),
    Link(&'static str),
    /// Another name of a file outside.
    Shared,
    Pipe,
    Socket,
    Folder,
}

/// What stands at a name of a folder, unless something else does or the folder is none.
#[derive(Debug, Clone)]
struct Entry {
    folder: &'static str,
    name: Bytes,
    what: What,
}

/// Bytes that are shown as text.
#[derive(Clone)]
struct Bytes(&'static [u8]);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", OsStr::from_bytes(self.0))
    }
}

/// A tree to be made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// Whether it starts as an ordinary repository.
    is_repository: bool,
    folders: Vec<&'static str>,
    entries: Vec<Entry>,
}

/// Trees of a few folders and entries.
pub(crate) fn trees() -> impl Strategy<Value = Plan> {
    let what = prop_oneof![
        5 => select(TEXTS).prop_map(|text| What::Text(Bytes(text))),
        6 => select(TARGETS).prop_map(What::Link),
        1 => Just(What::Shared),
        2 => Just(What::Pipe),
        1 => Just(What::Socket),
        1 => Just(What::Folder),
    ];
    let folder = prop_oneof![2 => Just(""), 3 => select(FOLDERS)];
    let place = prop_oneof![3 => (folder, select(NAMES)), 1 => select(OF_GIT)];
    let entry = (place, what).prop_map(|((folder, name), what)| Entry { folder, name: Bytes(name), what });
    let folders = subsequence(FOLDERS.to_vec(), 0..=FOLDERS.len());
    (any::<bool>(), folders, vec(entry, 0..24)).prop_map(|(is_repository, folders, entries)| Plan {
        is_repository,
        folders,
        entries,
    })
}

/// A workspace `root` made from a plan, and `outside` beside it.
pub(crate) struct Tree {
    home: TempDir,
    held: [File; 2],
    pipe: (PipeReader, PipeWriter),
}

impl Tree {
    /// Makes the tree from its templates.
    pub(crate) fn new(plan: &Plan, templates: &Templates) -> Self {
        let home = tests::home();
        for folder in ["root", "outside"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let out = home.path().join("outside");
        crate::arguments::copy_into(templates.outside.path(), &out);
        let held = [File::open(out.join("file")).unwrap(), File::open(&out).unwrap()];
        let tree = Self { home, held, pipe: pipe().unwrap() };
        let mut pipes = vec![out.join("pipe")];
        if plan.is_repository {
            crate::arguments::copy_into(templates.repository.path(), &tree.root());
        }
        tree.fill(plan, &mut pipes);
        assert!(Command::new("mkfifo").arg("--").args(pipes).status().unwrap().success());
        tree
    }

    /// Only in folders that were made here: a link that was made before is not followed.
    fn fill(&self, plan: &Plan, pipes: &mut Vec<PathBuf>) {
        let mut folders = BTreeSet::from([PathBuf::new()]);
        folders.extend(FOLDERS.iter().map(PathBuf::from).filter(|folder| self.root().join(folder).is_dir()));
        let mut taken = BTreeSet::new();
        for folder in plan.folders.iter().map(Path::new) {
            if folder.parent().is_some_and(|parent| folders.contains(parent)) {
                fs::create_dir_all(self.root().join(folder)).unwrap();
                folders.insert(folder.to_owned());
                taken.insert(folder.to_owned());
            }
        }
        for Entry { folder, name: Bytes(name), what } in &plan.entries {
            let path = Path::new(folder).join(OsStr::from_bytes(name));
            if !folders.contains(Path::new(folder)) || !taken.insert(path.clone()) {
                continue;
            }
            let at = self.root().join(&path);
            // Something of the repository, perhaps.
            if fs::remove_file(&at).is_err() && fs::remove_dir_all(&at).is_ok() {
                folders.retain(|folder| !folder.starts_with(&path));
                pipes.retain(|pipe| !pipe.starts_with(&at));
            }
            match what {
                What::Text(Bytes(text)) => fs::write(at, self.filled_in(text).as_bytes()).unwrap(),
                What::Link(target) => symlink(self.filled_in(target.as_bytes()), at).unwrap(),
                What::Shared => fs::hard_link(self.outside().join(SHARED), at).unwrap(),
                What::Pipe => pipes.push(at),
                // It stays when its listener goes.
                What::Socket => drop(UnixListener::bind(at)),
                What::Folder => fs::create_dir(at).unwrap(),
            }
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.home.path().join("outside")
    }

    /// A text with the places of this tree.
    pub(crate) fn filled_in(&self, text: &[u8]) -> OsString {
        let Ok(text) = str::from_utf8(text) else { return OsStr::from_bytes(text).to_owned() };
        let [file, folder] = self.held.each_ref().map(|held| held.as_raw_fd().to_string());
        let pipe = self.pipe.0.as_raw_fd().to_string();
        text.replace("$OUT", &self.outside().display().to_string())
            .replace("$ROOT", &self.root().display().to_string())
            .replace("$FD", &file)
            .replace("$DIRFD", &folder)
            .replace("$PIPE", &pipe)
            .into()
    }

    /// Everything beside the workspace, by name: contents, modes, owners, sizes and times. A shared file that gets
    /// another content under its name in the workspace has a link less, and the time of that change, but is the same.
    pub(crate) fn neighbours(&self) -> Record {
        let mut record = Record::new();
        record_tree(&self.outside(), &mut record);
        let shared = self.outside().join(SHARED);
        if let Some(line) = record.get_mut(&shared.display().to_string()) {
            let is_kept = |part: &&str| !part.ends_with(" links") && !part.starts_with("changed ");
            *line = line.split(", ").filter(is_kept).collect::<Vec<_>>().join(", ");
        }
        let beside = fs::read_dir(self.home.path()).unwrap();
        record.extend(
            beside
                .map(|entry| (entry.unwrap().path().display().to_string(), String::new()))
                .filter(|(name, _)| !name.ends_with("/outside")),
        );
        // Where `/proc/self/cwd` leads.
        let here = fs::read_dir(".").unwrap().map(|entry| entry.unwrap().file_name());
        record.insert("here".to_owned(), format!("{:?}", here.collect::<BTreeSet<_>>()));
        record
    }
}

/// What is copied for each tree.
pub(crate) struct Templates {
    outside: TempDir,
    repository: TempDir,
}

impl Templates {
    pub(crate) fn new() -> Self {
        Self { outside: outside(), repository: repository() }
    }
}

fn outside() -> TempDir {
    let home = tests::home();
    let at = |name: &str| home.path().join(name);
    for folder in ["deep", "repository"] {
        fs::create_dir(at(folder)).unwrap();
    }
    for name in ["file", "deep/file", "repository/file"] {
        fs::write(at(name), format!("{SECRET}\n")).unwrap();
    }
    fs::write(at("deep").join(HIDDEN), SECRET).unwrap();
    fs::write(at(SHARED), "one of two names\n").unwrap();
    commit(&at("repository"), SECRET);
    home
}

fn repository() -> TempDir {
    let home = tests::home();
    for folder in ["a", "a/b"] {
        fs::create_dir(home.path().join(folder)).unwrap();
    }
    for name in ["file", "a/x", "a/b/file"] {
        fs::write(home.path().join(name), "one\ntwo\n").unwrap();
    }
    commit(home.path(), "an ordinary one");
    home
}

fn commit(folder: &Path, message: &str) {
    let git = |arguments: &[&str]| crate::arguments::git(folder, arguments);
    git(&["init", "--quiet", "--initial-branch=main", "--template="]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", message]);
}
