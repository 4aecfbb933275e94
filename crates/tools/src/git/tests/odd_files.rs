//! Files of a repository that are none, or have no end: an error each time, and nobody waits.

use std::fmt::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::Workspace;

/// What is opened of a repository, by us or the library.
const NAMES: [&str; 22] = [
    "HEAD",
    "FETCH_HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "logs/HEAD",
    "logs/refs/heads/main",
    OBJECTS[0],
    "objects/info/alternates",
    "objects/info/commit-graph",
    OBJECTS[1],
    "refs/heads/main",
    "refs/heads/hooks/fix",
    "refs/remotes/origin/HEAD",
    "worktrees/side/HEAD",
];

/// These may be long: they are not read as a whole.
const OBJECTS: [&str; 2] = [
    "objects/00/00000000000000000000000000000000000000",
    "objects/pack/pack-0000000000000000000000000000000000000000.idx",
];

/// Trees beside an ordinary repository in `a`: `->` makes a link, `=` a file with one line, `|` a pipe.
const TREES: [&str; 15] = [
    // Found by chance.
    ".git -> . ; commondir -> /proc/kmsg ; HEAD = ref: refs/heads/main",
    ".git -> . ; commondir |",
    ".git |",
    ".git -> pipe ; pipe |",
    ".git -> a/pipe ; a/pipe |",
    ".git -> a/.git ; a/.git/commondir -> /proc/kmsg",
    ".git = gitdir: a/.git ; a/.git/commondir -> /dev/zero",
    ".git = gitdir: ../outside/x ; ../outside/x/gitdir |",
    ".git = gitdir: ../outside/modules/x ; ../outside/modules/x/config |",
    ".git = gitdir: own ; own/commondir = ../a/.git ; own/HEAD = ref: refs/heads/main ; own/index |",
    ".git = gitdir: own ; own/commondir = ../a/.git ; own/HEAD = ref: refs/heads/main ; a/.git/packed-refs |",
    ".git -> a/.git ; a/.git/refs/remotes -> ../../../b ; b/origin/main |",
    ".git -> a/.git ; a/.git/refs/tags/up -> ../.. ; a/.git/lfs/x |",
    ".git -> a/.git ; a/.git/objects/info/alternates = ../../../b ; b/pack/x.pack |",
    ".git -> a/.git ; a/.git/objects/info/alternates = \"../../../\\142\" ; b/info/alternates |",
];

const CALLS: [(&str, &str); 6] = [
    ("git_status", "{}"),
    ("git_log", r#"{"rev":"--all"}"#),
    ("git_diff", "{}"),
    ("git_show", r#"{"rev":"HEAD@{1}"}"#),
    ("git_show", r#"{"rev":"worktrees/side/HEAD"}"#),
    ("git_blame", r#"{"path":"new.txt"}"#),
];

/// What a file can be instead.
enum Odd {
    Pipe,
    Socket,
    Link(PathBuf),
    /// Long, but without anything on the disk.
    Long(u64),
}

impl Odd {
    fn put(&self, at: &Path) {
        match self {
            Self::Pipe => assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
            // It stays when its listener goes. The name may be too long for a socket.
            Self::Socket => {
                let short = tempfile::Builder::new().tempdir_in(at.ancestors().nth(1).unwrap()).unwrap();
                let place = std::fs::File::open(short.path()).unwrap();
                drop(UnixListener::bind(format!("/proc/self/fd/{}/x", place.as_raw_fd())).unwrap());
                std::fs::rename(short.path().join("x"), at).unwrap();
            }
            Self::Link(target) => symlink(target, at).unwrap(),
            Self::Long(bytes) => std::fs::File::create(at).unwrap().set_len(*bytes).unwrap(),
        }
    }
}

fn make(fixture: &Fixture, tree: &str) {
    for entry in tree.split(" ; ") {
        let (path, what) = entry.split_once(' ').unwrap();
        let at = fixture.path(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        if at.is_dir() {
            std::fs::remove_dir_all(&at).unwrap();
        }
        match what.split_once(' ') {
            None => Odd::Pipe.put(&at),
            Some(("->", target)) => Odd::Link(target.into()).put(&at),
            Some((_, line)) => std::fs::write(at, format!("{line}\n")).unwrap(),
        }
    }
}

async fn all_refused(fixture: &Fixture, about: &str, why: &str) {
    for (tool, arguments) in CALLS {
        let text = fixture.refused(tool, serde_json::from_str(arguments).unwrap()).await;
        assert!(text.contains(why) && text.contains(" repository"), "{about}, {tool}: {text}");
    }
}

#[tokio::test]
async fn c6_a_file_of_a_repository_that_has_no_end_is_refused() {
    let fixture = project();
    let (reader, _writer) = std::io::pipe().unwrap();
    let held = std::fs::File::create(fixture.outside().join("held")).unwrap();
    std::fs::remove_file(fixture.outside().join("held")).unwrap();
    held.set_len(1).unwrap();
    let by_number = |number: i32| Odd::Link(format!("/proc/self/fd/{number}").into());
    Odd::Pipe.put(&fixture.path("pipe"));
    let neither = "neither file nor folder";
    let odd = [
        ("a pipe", Odd::Pipe, neither),
        ("a socket", Odd::Socket, neither),
        ("a link to a pipe", Odd::Link(fixture.path("pipe")), neither),
        ("a device", Odd::Link("/dev/zero".into()), ""),
        ("the kernel", Odd::Link("/proc/kmsg".into()), ""),
        ("a nameless pipe", by_number(reader.as_raw_fd()), ""),
        ("a nameless file", by_number(held.as_raw_fd()), ""),
        ("a long file", Odd::Long(1 << 40), "longer than "),
    ];
    for name in NAMES {
        let at = fixture.path(".git").join(name);
        let kept = fixture.path("kept");
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        let is_there = at.exists();
        for (kind, odd, why) in &odd {
            if matches!(odd, Odd::Long(_)) && OBJECTS.contains(&name) {
                continue;
            }
            if is_there {
                std::fs::rename(&at, &kept).unwrap();
            }
            odd.put(&at);
            all_refused(&fixture, &format!("{name} is {kind}"), why).await;
            std::fs::remove_file(&at).unwrap();
            if is_there {
                std::fs::rename(&kept, &at).unwrap();
            }
        }
    }
    fixture.ok("git_log", json!({ "rev": "--all" })).await;
}

#[tokio::test]
async fn c6_no_pointer_leads_to_a_file_without_end() {
    for tree in TREES {
        let fixture = Fixture::new();
        fixture.write("a/file", "x\n");
        git_in(&fixture.path("a"), &["init", "-q"]);
        git_in(&fixture.path("a"), &["add", "-A"]);
        git_in(&fixture.path("a"), &["commit", "-q", "-m", "one"]);
        make(&fixture, tree);
        all_refused(&fixture, tree, "").await;
    }
}

#[tokio::test]
async fn a_repository_around_the_workspace_or_beside_it_is_looked_at_too() {
    let fixture = project();
    git(&fixture, &["worktree", "add", "-q", "../side"]);
    let pipe = fixture.path(".git/refs/heads/pipe");
    Odd::Pipe.put(&pipe);
    let within = |mut fixture: Fixture, path: &str| {
        fixture.workspace = Arc::new(Workspace::open(&fixture.path(path)).unwrap());
        fixture
    };
    let fixture = within(fixture, "src");
    all_refused(&fixture, "around", "refs/heads/pipe is neither").await;
    let fixture = within(fixture, "../../side");
    all_refused(&fixture, "beside", "refs/heads/pipe is neither").await;
    std::fs::remove_file(pipe).unwrap();
    assert!(fixture.ok("git_log", json!({})).await.contains("Change two"));
}

#[tokio::test]
async fn what_is_not_read_may_be_anything() {
    let fixture = project();
    for name in ["hooks/pipe", "modules/pipe", "lfs/pipe"] {
        let at = fixture.path(".git").join(name);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        Odd::Pipe.put(&at);
    }
    Odd::Socket.put(&fixture.path(".git/fsmonitor--daemon.ipc"));
    Odd::Long(1 << 40).put(&fixture.path(".git/objects/pack/tmp_pack_1"));
    symlink("none", fixture.path(".git/refs/heads/dangling")).unwrap();
    symlink(".", fixture.path(".git/refs/heads/round")).unwrap();
    fixture.write(".git/objects/info/alternates", "# none\n../../none\n");
    // Nor is what the configuration names.
    Odd::Pipe.put(&fixture.outside().join("pipe"));
    let pipe = fixture.outside().join("pipe").display().to_string();
    let mut config = fixture.read(".git/config");
    for (section, key) in
        [("include", "path"), ("core", "attributesFile"), ("core", "excludesFile"), ("core", "worktree")]
    {
        let _ = writeln!(config, "[{section}]\n\t{key} = {pipe}");
    }
    fixture.write(".git/config", config);
    for name in [".gitattributes", ".gitmodules", ".mailmap", "image"] {
        let _ = std::fs::remove_file(fixture.path(name));
        Odd::Pipe.put(&fixture.path(name));
    }
    let status = fixture.ok("git_status", json!({})).await;
    assert!(status.contains(" D image"), "{status}");
    for (tool, arguments) in &CALLS[1..4] {
        fixture.ok(tool, serde_json::from_str(arguments).unwrap()).await;
    }
    fixture.ok("git_blame", json!({ "path": "new.txt" })).await;
}
