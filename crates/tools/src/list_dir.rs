//! `list_dir`: the names in a directory.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use cap_std::fs::{Dir, DirEntry};
use domain::{Capability, CapabilitySet};
use runtime::{PreparedCall, Sight, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{decode, schema_of};
use crate::call::BlockingCall;
use crate::words::count;
use crate::workspace::{Workspace, explain};

/// Names shown: a directory with more is generated, and `glob` finds what is wanted in it.
const MAX_ENTRIES: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Directory to list, from the workspace root; the root if left out.
    path: Option<String>,
}

pub(crate) struct ListDir {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

impl ListDir {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "list_dir".into(),
            description:
                "List a directory, one name per line, sorted. Directories end in /, symbolic links show \
                          where they point. Hidden and ignored files are included."
                    .into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::ReadWorkspace]),
        };
        Self { workspace, spec }
    }
}

#[async_trait]
impl Tool for ListDir {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        let path = self.workspace.relative(arguments.path.as_deref().unwrap_or("."))?;
        let path = self.workspace.followed(path).await?;
        let workspace = Arc::clone(&self.workspace);
        Ok(BlockingCall::read_below(path, ignored, move |path, sight, stop| {
            if workspace.metadata(path).is_ok_and(|found| !found.is_dir()) {
                let text = format!("{} is not a directory; read_file shows a file", path.display());
                return ToolOutput::failed(text);
            }
            match list(workspace.dir(), path, sight, stop) {
                Ok(text) => ToolOutput::ok(text),
                Err(error) => ToolOutput::failed(explain(path, &error)),
            }
        }))
    }
}

fn list(root: &Dir, path: &Path, sight: &Sight, stop: &CancellationToken) -> io::Result<String> {
    let dir = root.open_dir(path)?;
    let mut first = BTreeSet::new();
    let mut more = 0;
    let mut hidden = 0;
    for entry in dir.entries()? {
        if stop.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        let entry = entry?;
        let below =
            if path == Path::new(".") { entry.file_name().into() } else { path.join(entry.file_name()) };
        if !sight.shows_name(&below.to_string_lossy()) {
            hidden += 1;
            continue;
        }
        first.insert(describe(&dir, &entry));
        if first.len() > MAX_ENTRIES {
            first.pop_last();
            more += 1;
        }
    }
    if first.is_empty() && hidden == 0 {
        return Ok("[the directory is empty]".into());
    }
    let mut text = Vec::from_iter(first).join("\n");
    if more > 0 {
        let _ = write!(text, "\n[and {}; glob finds names among them]", count(more, "more entry"));
    }
    if hidden > 0 {
        let separator = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{separator}[{} left out by permission rules]", count(hidden, "entry"));
    }
    Ok(text)
}

fn describe(dir: &Dir, entry: &DirEntry) -> String {
    let name = entry.file_name();
    let shown = name.to_string_lossy();
    match entry.file_type() {
        Ok(kind) if kind.is_dir() => format!("{shown}/"),
        Ok(kind) if kind.is_symlink() => match dir.read_link_contents(&name) {
            Ok(target) => format!("{shown} -> {}", target.display()),
            Err(_) => shown.into_owned(),
        },
        _ => shown.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use agents::Verdict;
    use serde_json::json;

    use crate::fixture::Fixture;

    #[tokio::test]
    async fn names_are_sorted_and_told_apart() {
        let fixture = Fixture::new();
        fixture.write("src/lib.rs", "");
        fixture.write("b", "");
        fixture.write(".hidden", "");
        symlink("src/lib.rs", fixture.path("link")).unwrap();
        symlink(fixture.path("src"), fixture.path("a")).unwrap();
        std::fs::create_dir(fixture.path("empty")).unwrap();
        let text = fixture.ok("list_dir", json!({})).await;
        let text = text.replace(&fixture.root().display().to_string(), "ROOT");
        insta::assert_snapshot!(text, @r"
        .hidden
        a -> ROOT/src
        b
        empty/
        link -> src/lib.rs
        src/
        ");
        assert_eq!(fixture.ok("list_dir", json!({ "dir": "src/" })).await, "lib.rs");
        assert_eq!(fixture.ok("list_dir", json!({ "path": "empty" })).await, "[the directory is empty]");
    }

    #[tokio::test]
    async fn what_is_not_a_directory_inside_is_refused() {
        let fixture = Fixture::new();
        fixture.write("file", "");
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        let texts = [
            fixture.refused("list_dir", json!({ "path": "file" })).await,
            fixture.refused("list_dir", json!({ "path": "none" })).await,
            fixture.refused("list_dir", json!({ "path": "out" })).await,
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        file is not a directory; read_file shows a file
        none does not exist; list_dir and glob show what does
        out leads outside the workspace through a symbolic link, which is refused
        ");
        let text = fixture.refused("list_dir", json!({ "path": ".." })).await;
        assert!(text.contains("contains `..`"), "{text}");
    }

    #[tokio::test]
    async fn a_big_directory_is_bounded_with_an_explicit_rest() {
        let fixture = Fixture::new();
        for number in 0..1003 {
            fixture.write(&format!("f{number:04}"), "");
        }
        let text = fixture.ok("list_dir", json!({ "path": "." })).await;
        assert!(text.starts_with("f0000\nf0001\n"));
        assert!(text.ends_with("f0999\n[and 3 more entries; glob finds names among them]"), "{text}");
    }

    #[tokio::test]
    async fn c2_names_that_it_could_not_be_called_with_are_left_out() {
        let fixture = Fixture::new();
        fixture.write("src/secrets/key", "");
        fixture.write("src/lib.rs", "");
        let call = async |rule: &str, path: &str| {
            fixture.within(Verdict::Deny, &[rule], "list_dir", json!({ "path": path })).await
        };
        assert_eq!(call("* src/secrets", "src").await, "lib.rs\n[1 entry left out by permission rules]");
        assert_eq!(call("list_dir src", ".").await, "[1 entry left out by permission rules]");
        assert_eq!(call("read_file src/secrets", "src").await, "lib.rs\nsecrets/");
    }

    #[tokio::test]
    async fn a_stopped_list_says_so() {
        assert!(Fixture::new().stopped("list_dir", json!({})).await.stopped);
    }
}
