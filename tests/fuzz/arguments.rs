//! The arguments of the tools that act on a workspace: decoded, answered, and run if they can be.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use runtime::{Sight, Tool, ToolFault};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::json::{anything, fields, near};
use crate::run::{self, Extent, Verdict, ends};

/// Bytes of a fault or of the text of a failure: a path of 4096 bytes as it was sent and what is wrong with it, or a
/// quoted piece of each argument with the shape that is expected.
pub(crate) const FAULT_BYTES: usize = 6 * 1024;

/// Bytes of any answer: the most that a tool gathers, with room for its last line.
pub(crate) const ANSWER_BYTES: usize = 512 * 1024;

/// What a tool says instead of an answer when its work panicked.
pub(crate) const PANICKED: &str = "the tool failed:";

/// A call of the tool at this place of the list.
type Call = (usize, Value);

/// A workspace as it is before each case: copied, since making a repository takes longer.
struct Template(TempDir);

impl Template {
    fn new() -> Self {
        let home = tests::home();
        let at = |name: &str| home.path().join(name);
        for folder in ["src", ".zuno/skills/greet"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("src/lib.rs"), "fn one() {}\n\nfn two() {}\n").unwrap();
        fs::write(at("a"), "pending\n\u{feff}completed\n").unwrap();
        fs::write(at(".gitignore"), "*.log\n").unwrap();
        let skill = "---\nname: greet\ndescription: Says hello.\n---\nSay hello.\n";
        fs::write(at(".zuno/skills/greet/SKILL.md"), skill).unwrap();
        git(home.path(), &["init", "--quiet", "--initial-branch=main", "--template="]);
        for title in ["start", "fix: more"] {
            git(home.path(), &["add", "--all"]);
            git(home.path(), &["commit", "--quiet", "--message", title]);
            fs::write(at("src/lib.rs"), "fn one() {}\n\nfn three() {}\n").unwrap();
        }
        git(home.path(), &["tag", "v1.0"]);
        std::os::unix::fs::symlink("src", at("link")).unwrap();
        Self(home)
    }

    fn copy(&self) -> TempDir {
        let copy = tests::home();
        copy_into(self.0.path(), copy.path());
        copy
    }
}

/// Runs git in a folder, with nothing of the user's configuration.
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]);
    command.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(command.status().unwrap().success(), "git {arguments:?}");
}

/// Copies what is in a folder: folders, files and links.
pub(crate) fn copy_into(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_into(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every tool of a workspace, with the one that loads skills if there are any.
pub(crate) fn tools_of(root: &Path) -> Vec<Arc<dyn Tool>> {
    let workspace = Arc::new(tools::Workspace::open(root).unwrap());
    let mut all = tools::all(Arc::clone(&workspace), tools::Secrets::default(), None);
    all.extend(tools::Guidance::read(&workspace, root, None, &Sight::default()).tool());
    all
}

pub(crate) fn fuzz(extent: Extent) -> Verdict {
    let template = Template::new();
    let schemas: Vec<_> =
        tools_of(template.0.path()).iter().map(|tool| tool.spec().input_schema.clone()).collect();
    let calls: Vec<_> = schemas
        .iter()
        .enumerate()
        .map(|(at, schema)| (Just(at), prop_oneof![9 => near(schema), 1 => anything()]).boxed())
        .collect();
    let cases = vec(proptest::strategy::Union::new(calls), 1..8);
    run::run("arguments", extent, &cases, async |calls: Vec<Call>| {
        let workspace = template.copy();
        let tools = tools_of(workspace.path());
        let made = calls.len() as u64;
        for (at, arguments) in calls {
            check(&tools[at], arguments).await?;
        }
        Ok(made)
    })
}

/// One call: prepared, and run unless it is a command.
async fn check(tool: &Arc<dyn Tool>, arguments: Value) -> Verdict {
    let name = tool.spec().name.clone();
    let preparing = Arc::clone(tool);
    match ends(&name, async move { preparing.prepare(arguments).await }).await? {
        Err(fault) => check_fault(tool, &fault),
        Ok(call) => {
            let _ = (call.effect(), call.subject(), call.needs_also(), call.background());
            if name == "shell" {
                return Ok(());
            }
            let output = ends(&name, call.run(CancellationToken::new())).await?;
            let most = if output.succeeded { ANSWER_BYTES } else { FAULT_BYTES };
            check_text(&name, &output.text, most)
        }
    }
}

fn check_fault(tool: &Arc<dyn Tool>, fault: &ToolFault) -> Verdict {
    let name = &tool.spec().name;
    let told = fault.to_string();
    check_text(name, &told, FAULT_BYTES)?;
    let mut known = Vec::new();
    fields(&tool.spec().input_schema, &mut known);
    // The shape at the end names every field, and so does not count.
    let problem = told.split(&format!(". {name} expects ")).next().unwrap();
    let is_named = known.iter().any(|field| problem.contains(&format!("`{field}`")));
    let is_about_all = problem.contains("expected an object");
    if matches!(fault, ToolFault::Arguments(_)) && !is_named && !is_about_all {
        return Err(format!("{name} does not say which argument is wrong: {told}"));
    }
    Ok(())
}

/// What holds of every text that a tool gives.
pub(crate) fn check_text(tool: &str, text: &str, most: usize) -> Verdict {
    if text.len() > most {
        return Err(format!("{tool} answers with {} bytes: {text}", text.len()));
    }
    if text.contains(PANICKED) {
        return Err(format!("{tool} panicked: {text}"));
    }
    Ok(())
}

#[test]
fn a_fault_that_names_no_field_or_says_too_much_is_seen() {
    let home = tests::home();
    let tools = tools_of(home.path());
    let fault = |text: &str| check_fault(&tools[0], &ToolFault::Arguments(text.to_owned()));
    assert!(fault("`path` is missing").is_ok());
    assert!(fault("invalid type: integer. read_file expects {`path`}").is_err());
    assert!(fault(&format!("`path`: {}", "x".repeat(FAULT_BYTES))).is_err());
    assert!(check_text("glob", "the tool failed: task 7 panicked", FAULT_BYTES).is_err());
}
