//! The tools that look at and change files, in hostile trees: nothing outside changes or is told, and no call hangs.

use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use runtime::{Inspection as _, Sight, Tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::{Guidance, Workspace};

use crate::arguments::{ANSWER_BYTES, FAULT_BYTES, check_text, tools_of};
use crate::run::{self, Extent, Verdict, ends};
use crate::tree::{HIDDEN, Plan, SECRET, Templates, Tree, trees};

/// Parts of paths, with the places of a tree as in its links.
const PARTS: &[&str] = &[
    "a",
    "b",
    "file",
    "x",
    "deep",
    "none",
    ".git",
    ".gitignore",
    "HEAD",
    "SKILL.md",
    ".zuno",
    "AGENTS.md",
    ".",
    "..",
    "",
    "new\nline",
    "\u{fffd}\u{fffd}",
    "-rf",
    "~",
    "*",
    "a\0b",
    "\0",
    "outside",
    "pipe",
    "caf\u{e9}",
];

const STARTS: &[&str] = &[
    "",
    "",
    "",
    "",
    "./",
    "$ROOT/",
    "$ROOT",
    "$OUT/",
    "$ROOT/../outside/",
    "/",
    "//",
    "/proc/self/fd/$FD",
    "/proc/self/fd/$DIRFD/",
    "/proc/self/cwd/",
    "/proc/self/root/",
    "/dev/",
    "/dev/fd/$FD",
    "../outside/",
];

/// What is done with a path.
#[derive(Debug, Clone)]
enum Act {
    /// A call of a tool; the path goes to the argument of this name.
    Call(&'static str, &'static str, Value),
    /// What recovery and waits look at.
    Inspect,
    /// What a turn reads before its first request.
    Guidance,
}

fn acts() -> impl Strategy<Value = Act> {
    let call = |tool, key, rest| Act::Call(tool, key, rest);
    let of_paths = vec![
        call("read_file", "path", json!({})),
        call("list_dir", "path", json!({})),
        call("glob", "path", json!({ "pattern": "**/*" })),
        call("grep", "path", json!({ "pattern": "." })),
        call("edit_file", "path", json!({ "old_string": "one", "new_string": "another" })),
        call("edit_file", "path", json!({ "old_string": "o", "new_string": "", "replace_all": true })),
        call("write_file", "path", json!({ "content": "written\n" })),
        Act::Inspect,
        call("git_status", "path", json!({})),
        call("git_log", "path", json!({})),
        call("git_diff", "path", json!({})),
        call("git_diff", "path", json!({ "rev": "HEAD" })),
        call("git_show", "path", json!({})),
        call("git_blame", "path", json!({})),
        call("load_skill", "file", json!({ "name": "x" })),
        call("shell", "workdir", json!({ "command": "pwd -P" })),
        Act::Guidance,
    ];
    let weights = [4, 3, 3, 3, 3, 2, 4, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    proptest::strategy::Union::new_weighted(
        weights.into_iter().zip(of_paths).map(|(w, a)| (w, Just(a))).collect(),
    )
}

fn paths() -> impl Strategy<Value = String> {
    let joined = (select(STARTS), vec(select(PARTS), 0..4))
        .prop_map(|(start, parts)| format!("{start}{}", parts.join("/")));
    let long = select(&["x", "a/", "../", "a/../", "\u{e9}"][..]).prop_map(|part| part.repeat(255));
    let longer = select(&["x", "a/", "./"][..]).prop_map(|part| part.repeat(3_000));
    prop_oneof![20 => joined, 1 => long, 1 => longer]
}

pub(crate) fn fuzz(extent: Extent) -> Verdict {
    let templates = Templates::new();
    let cases = (trees(), vec((acts(), paths()), 1..12));
    run::run("trees", extent, &cases, async |(plan, calls): (Plan, Vec<(Act, String)>)| {
        let tree = Tree::new(&plan, &templates);
        let before = tree.neighbours();
        let made = calls.len() as u64;
        let tools = tools_of_tree(&tree).await?;
        for (act, path) in calls {
            let path = tree.filled_in(path.as_bytes()).into_string().unwrap();
            let told = play(&tree, &tools, &act, &path).await?;
            let name = format!("{act:?} of {path:?}");
            // What was sent may be repeated.
            if told.contains(SECRET) || told.contains(HIDDEN) {
                return Err(format!("{name} tells what is outside: {told}"));
            }
            let changed = tests::difference(&before, &tree.neighbours());
            if !changed.is_empty() {
                return Err(format!("{name} changed what is outside: {changed:#?}"));
            }
        }
        Ok(made)
    })
}

/// Reading the skills looks at the tree, too.
async fn tools_of_tree(tree: &Tree) -> Result<Vec<Arc<dyn Tool>>, String> {
    let root = tree.root();
    ends("finding skills", async move { tools_of(&root) }).await
}

/// Does one thing with a path. Gives all that a model could read of it.
async fn play(tree: &Tree, tools: &[Arc<dyn Tool>], act: &Act, path: &str) -> Result<String, String> {
    match act {
        Act::Call(name, key, rest) => {
            let Some(tool) = tools.iter().find(|tool| tool.spec().name == *name) else {
                return Ok(String::new());
            };
            let mut arguments = rest.clone();
            arguments[*key] = json!(path);
            let told = answer(tool, arguments).await?;
            if *name == "shell" { check_folder(tree, told) } else { Ok(told) }
        }
        Act::Inspect => inspect(tree, path).await,
        Act::Guidance => {
            let root = tree.root();
            let workspace = Workspace::open(&root).unwrap();
            let read = async move {
                let guidance = Guidance::read(&workspace, &root, None, &Sight::default());
                format!("{:?} {:?}", guidance.instructions(), guidance)
            };
            ends("guidance", read).await
        }
    }
}

async fn answer(tool: &Arc<dyn Tool>, arguments: Value) -> Result<String, String> {
    let name = tool.spec().name.clone();
    let preparing = Arc::clone(tool);
    let call = match ends(&name, async move { preparing.prepare(arguments).await }).await? {
        Ok(call) => call,
        Err(fault) => {
            check_text(&name, &fault.to_string(), FAULT_BYTES)?;
            return Ok(fault.to_string());
        }
    };
    let about = format!("{:?}", call.subject());
    let output = ends(&name, call.run(CancellationToken::new())).await?;
    check_text(&name, &output.text, if output.succeeded { ANSWER_BYTES } else { FAULT_BYTES })?;
    Ok(format!("{about}\n{}", output.text))
}

/// The folder in which a command ran is the root or beneath it.
fn check_folder(tree: &Tree, told: String) -> Result<String, String> {
    let root = tree.root().canonicalize().unwrap();
    let is_out = |line: &&str| line.starts_with('/') && !Path::new(line).starts_with(&root);
    match told.lines().skip(1).find(is_out) {
        Some(line) => Err(format!("a command ran in {line}")),
        None => Ok(told),
    }
}

/// The digests that an inspection gives are of files beneath the root.
async fn inspect(tree: &Tree, path: &str) -> Result<String, String> {
    let digest = async |root: &Path, path: &str| {
        let (workspace, path) = (Workspace::open(root).unwrap(), path.to_owned());
        let looked = async move { (workspace.file_digest(&path).await, workspace.file_version(&path).await) };
        ends("an inspection", looked).await
    };
    let (outside, _) = digest(&tree.outside(), "file").await?;
    let (found, version) = digest(&tree.root(), path).await?;
    if found.as_ref().is_ok_and(|found| *found == outside.unwrap()) {
        return Err(format!("an inspection of {path:?} tells the digest of a file outside"));
    }
    let told = format!("{found:?} {version:?}");
    check_text("an inspection", &told, FAULT_BYTES)?;
    Ok(told)
}

#[test]
fn a_change_outside_is_seen_unless_a_shared_file_loses_a_name() {
    let tree = Tree::new(&Plan::default(), &Templates::new());
    let shared = tree.root().join("name");
    std::fs::hard_link(tree.outside().join(crate::tree::SHARED), &shared).unwrap();
    let before = tree.neighbours();
    std::fs::remove_file(&shared).unwrap();
    assert!(tests::difference(&before, &tree.neighbours()).is_empty());
    std::fs::write(tree.outside().join(crate::tree::SHARED), "one of two namez\n").unwrap();
    assert_eq!(tests::difference(&before, &tree.neighbours()).len(), 1);
    std::fs::write(tree.outside().join("deep/new"), "").unwrap();
    std::fs::write(tree.root().with_file_name("beside"), "").unwrap();
    // The folder, what is new in it, and what is new beside.
    assert_eq!(tests::difference(&before, &tree.neighbours()).len(), 4);
}
