//! The file tools beneath the root: paths that lead out, and files that are no ordinary text.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::cases::{self, Call};

/// The content of every file outside: to be told by no tool.
const SECRET: &str = "nobody may read this";
/// Bytes of a file that no tool takes into memory. It is a hole and takes no room.
const HUGE_BYTES: u64 = 3 << 30;
/// Calls while a folder and a link to the outside keep changing places.
const CALLS_DURING_SWAPS: usize = 400;

/// A workspace full of links and odd files, and its neighbour.
struct House {
    home: TempDir,
    /// Open while the tools work.
    held: File,
    _socket: UnixListener,
}

impl House {
    fn new() -> Self {
        let home = tests::home();
        let at = |name: &str| home.path().join(name);
        for folder in ["root/dir", "outside/deep", "root-beside"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for name in ["outside/file", "outside/deep/file", "root-beside/file"] {
            fs::write(at(name), SECRET).unwrap();
        }
        fs::write(at("outside/linked"), "once linked\n").unwrap();
        furnish(&at("root"), &at("outside"));
        let held = File::options().append(true).read(true).open(at("outside/file")).unwrap();
        symlink(format!("/proc/self/fd/{}", held.as_raw_fd()), at("root/proc-fd")).unwrap();
        let socket = UnixListener::bind(at("root/socket")).unwrap();
        Self { home, held, _socket: socket }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    fn tools(&self) -> Vec<Arc<dyn runtime::Tool>> {
        let workspace = tools::Workspace::open(&self.at("root")).unwrap();
        tools::all(Arc::new(workspace), tools::Secrets::default(), None)
    }

    /// The arguments with the places of this house.
    fn filled_in(&self, arguments: &str) -> Value {
        let place = |name: &str| self.at(name).display().to_string();
        let filled = arguments
            .replace("$ROOT", &place("root"))
            .replace("$OUT", &place("outside"))
            .replace("$FD", &self.held.as_raw_fd().to_string())
            .replace("$LONG", &"a/".repeat(3_000));
        serde_json::from_str(&filled).unwrap()
    }

    /// Modes and contents of everything outside. A hard link that a tool replaces takes one away from the count of links
    /// there, which is no change of the file.
    fn outside(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut to_see = vec![self.at("outside"), self.at("root-beside")];
        while let Some(path) = to_see.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                to_see.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let content = fs::read(&path).unwrap_or_default();
            found.insert(path.display().to_string(), (metadata.permissions().mode(), content));
        }
        found
    }
}

fn furnish(root: &Path, outside: &Path) {
    let files: [(&str, &[u8]); 11] = [
        ("file", b"one\ntwo\n"),
        ("twice", b"one one\n"),
        ("new\nline", b"one\n"),
        ("~", b"one\n"),
        ("binary", &[0, 1, 2, b'a', 255]),
        ("latin", b"caf\xe9\none\n"),
        ("crlf", b"one\r\ntwo\r\n"),
        ("no-newline", b"one\ntwo"),
        ("empty", b""),
        ("script", b"#!/bin/sh\nexit 1\n"),
        ("read-only", b"one\n"),
    ];
    for (name, content) in files {
        fs::write(root.join(name), content).unwrap();
    }
    fs::write(root.join("many"), "line\n".repeat(100_000)).unwrap();
    fs::set_permissions(root.join("script"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(root.join("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
    File::create(root.join("huge")).unwrap().set_len(HUGE_BYTES).unwrap();
    fs::hard_link(outside.join("linked"), root.join("hard")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    let links = [
        (outside.join("file"), "out-file"),
        (outside.to_owned(), "out-dir"),
        (outside.join("none"), "out-dangling"),
        ("../outside".into(), "up"),
        ("out-file".into(), "chain"),
        ("loop".into(), "loop"),
        ("none".into(), "dangling"),
        ("file".into(), "inside-link"),
        ("/proc/self/root".into(), "proc-root"),
        ("/proc/self/cwd".into(), "proc-cwd"),
        ("/dev/zero".into(), "device"),
    ];
    for (target, link) in links {
        symlink(target, root.join(link)).unwrap();
    }
}

/// Runs a call straight at the tool. Gives whether it succeeded and what the model would read.
async fn answer(tools: &[Arc<dyn runtime::Tool>], tool: &str, arguments: Value) -> (bool, String) {
    let tool = tools.iter().find(|one| one.spec().name == tool).unwrap();
    match tool.prepare(arguments).await {
        Ok(call) => {
            let output = call.run(CancellationToken::new()).await;
            (output.succeeded && output.exit_status.unwrap_or(0) == 0, output.text)
        }
        Err(fault) => (false, fault.to_string()),
    }
}

/// What is wrong with how a case came out.
async fn problems(case: &Call) -> Vec<String> {
    let house = House::new();
    let before = house.outside();
    let mode = |name: &str| fs::metadata(house.at("root").join(name)).map(|found| found.permissions().mode());
    let written = case.expected.strip_prefix("ok ").and_then(|rest| rest.split_once('='));
    let mode_before = written.and_then(|(name, _)| mode(name).ok());
    let (succeeded, told) = answer(&house.tools(), &case.tool, house.filled_in(&case.arguments)).await;
    let mut problems = Vec::new();
    if succeeded != case.expected.starts_with("ok") {
        problems.push(format!("expected {} of {}: {told}", case.expected, case.what));
    }
    if house.outside() != before {
        problems.push("the outside changed".to_owned());
    }
    if told.contains(SECRET) {
        problems.push(format!("it tells what is outside: {told}"));
    }
    if let Some((name, text)) = written {
        let text: String = serde_json::from_str(text).unwrap();
        if fs::read(house.at("root").join(name)).unwrap() != text.as_bytes() {
            problems.push(format!("{name} does not hold {text:?}"));
        }
        if mode_before.is_some_and(|before| mode(name).unwrap() != before) {
            problems.push(format!("the mode of {name} changed"));
        }
    }
    problems
}

/// The cases that came out otherwise than their line says, and how many there are.
pub(crate) async fn play() -> (usize, Vec<(Call, Vec<String>)>) {
    let cases = cases::files();
    let count = cases.len();
    let mut wrong = Vec::new();
    for case in cases {
        let problems = problems(&case).await;
        if !problems.is_empty() {
            wrong.push((case, problems));
        }
    }
    (count, wrong)
}

#[tokio::test]
async fn c6_file_tools_stay_beneath_the_root() {
    let (count, wrong) = play().await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 80, "{count} cases were played");
}

#[tokio::test]
async fn c6_a_folder_that_changes_places_with_a_link_to_the_outside_leads_nobody_out() {
    let house = House::new();
    let before = house.outside();
    let (folder, aside) = (house.at("root/dir"), house.at("root/aside"));
    fs::write(folder.join("file"), "one\n").unwrap();
    let (over, outside) = (Arc::new(AtomicBool::new(false)), house.at("outside"));
    let is_over = Arc::clone(&over);
    let swaps = thread::spawn(move || {
        let mut swaps = 0_usize;
        while !is_over.load(Ordering::Relaxed) {
            // A tool that finds nothing there makes the folder, so each step may find what it does not expect.
            let _ = fs::rename(&folder, &aside);
            let is_link = symlink(&outside, &folder).is_ok();
            thread::yield_now();
            let _ = if is_link { fs::remove_file(&folder) } else { fs::remove_dir_all(&folder) };
            let _ = fs::rename(&aside, &folder);
            let _ = fs::create_dir_all(&folder);
            swaps += usize::from(is_link);
        }
        swaps
    });
    let tools = house.tools();
    for round in 0..CALLS_DURING_SWAPS {
        let (tool, arguments) = match round % 5 {
            0 => ("write_file", json!({ "path": "dir/file", "content": format!("one {round}\n") })),
            1 => ("write_file", json!({ "path": format!("dir/new/{round}"), "content": "x" })),
            2 => ("edit_file", json!({ "path": "dir/file", "old_string": "one", "new_string": "one" })),
            3 => ("grep", json!({ "pattern": "nobody", "path": "dir" })),
            _ => ("read_file", json!({ "path": "dir/file" })),
        };
        let (_, told) = answer(&tools, tool, arguments).await;
        assert!(!told.contains(SECRET), "{tool}: {told}");
    }
    over.store(true, Ordering::Relaxed);
    println!("{} swaps during {CALLS_DURING_SWAPS} calls", swaps.join().unwrap());
    assert_eq!(house.outside(), before);
}
