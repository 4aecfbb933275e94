//! `write_file`: a file with exactly this content.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet};
use runtime::{PreparedCall, Tool, ToolFault, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{decode, schema_of};
use crate::call::look;
use crate::replacement::{MAX_CONTENT_BYTES, Replacement, Target};
use crate::words::count;
use crate::workspace::{Workspace, digest, explain};

/// Largest file that is overwritten: its digest is taken before and again while writing, a second or so each.
const MAX_OVERWRITTEN_BYTES: u64 = 512 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File to write, from the workspace root. Missing directories are created.
    path: String,
    /// The whole new content.
    content: String,
}

pub(crate) struct WriteFile {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

impl WriteFile {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "write_file".into(),
            description:
                "Create a file, or replace the whole content of an existing one. To change a part of a \
                          file use edit_file."
                    .into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::WriteWorkspace]),
        };
        Self { workspace, spec }
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        let workspace = Arc::clone(&self.workspace);
        let (replacement, done) = look(move || plan(&workspace, arguments)).await?;
        Ok(replacement.into_call(Arc::clone(&self.workspace), ignored, done))
    }
}

/// The replacement to make, and what to say once it is made.
fn plan(workspace: &Workspace, arguments: Arguments) -> Result<(Replacement, String), ToolFault> {
    let path = workspace.relative(&arguments.path)?;
    if arguments.content.len() as u64 > MAX_CONTENT_BYTES {
        return Err(ToolFault::Refused(format!("the content is bigger than {MAX_CONTENT_BYTES} bytes")));
    }
    let target = Target::find(workspace, &path)?;
    let size = count(arguments.content.len() as u64, "byte");
    let (before, done) = match target.found {
        None => (None, format!("created {} ({size})", target.path)),
        Some(found) if found.len() > MAX_OVERWRITTEN_BYTES => {
            return Err(ToolFault::Refused(format!(
                "{} is bigger than {MAX_OVERWRITTEN_BYTES} bytes; remove it first if it is to be replaced",
                target.path
            )));
        }
        Some(found) => {
            let file = workspace.open_file(Path::new(&target.path)).map_err(ToolFault::Refused)?;
            let before =
                digest(file).map_err(|error| ToolFault::Refused(explain(Path::new(&target.path), &error)))?;
            if workspace.seen().is_stale(Path::new(&target.path), before) {
                return Err(ToolFault::Refused(format!(
                    "{} was changed by something else since you saw it; nothing was written. Read it again",
                    target.path
                )));
            }
            (Some(before), format!("overwrote {} ({size}, was {})", target.path, count(found.len(), "byte")))
        }
    };
    Ok((Replacement::new(target.path, before, arguments.content.into_bytes()), done))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use domain::Effect;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::fixture::Fixture;
    use crate::workspace::digest_of;

    #[tokio::test]
    async fn files_are_created_with_their_directories_and_overwritten() {
        let fixture = Fixture::new();
        let texts = [
            fixture.ok("write_file", json!({ "path": "a/b/c.txt", "content": "ü\n" })).await,
            fixture.ok("write_file", json!({ "filePath": "a/b/c.txt", "contents": "" })).await,
            fixture.ok("write_file", json!({ "path": fixture.path("top"), "content": "x" })).await,
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        created a/b/c.txt (3 bytes)
        overwrote a/b/c.txt (0 bytes, was 3 bytes)
        created top (1 byte)
        ");
        assert_eq!((fixture.read("a/b/c.txt"), fixture.read("top")), (String::new(), "x".into()));
        assert_eq!(fixture.names("a/b"), ["c.txt"]);
    }

    #[tokio::test]
    async fn the_effect_names_the_file_that_links_lead_to() {
        let fixture = Fixture::new();
        fixture.write("real/file", "old");
        symlink("real", fixture.path("dir")).unwrap();
        let check = async |path: &str, expected: &str, before: Option<&[u8]>| {
            let call =
                fixture.prepare("write_file", json!({ "path": path, "content": "new" })).await.unwrap();
            let before = before.map(digest_of);
            let expected = Effect::FileWrite { path: expected.into(), before, after: digest_of(b"new") };
            assert_eq!(call.effect(), expected);
        };
        check("dir/file", "real/file", Some(b"old")).await;
        check("dir/new", "real/new", None).await;
        check("dir/deep/er/new", "real/deep/er/new", None).await;
        check("new/dir/file", "new/dir/file", None).await;
        assert_eq!(fixture.names("real"), ["file"], "preparing changes nothing");
    }

    #[tokio::test]
    async fn nothing_outside_is_written() {
        let fixture = Fixture::new();
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        symlink(fixture.outside().join("new"), fixture.path("dangling")).unwrap();
        let absolute = fixture.outside().join("new").display().to_string();
        for path in ["../outside/new", "out/new", "out/deep/new", "dangling", &absolute] {
            fixture.refused("write_file", json!({ "path": path, "content": "x" })).await;
        }
        assert_eq!(std::fs::read_dir(fixture.outside()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_parent_swapped_for_a_link_between_prepare_and_run_is_not_followed() {
        let fixture = Fixture::new();
        let call =
            fixture.prepare("write_file", json!({ "path": "dir/deep/new", "content": "x" })).await.unwrap();
        symlink(fixture.outside(), fixture.path("dir")).unwrap();
        let output = call.run(CancellationToken::new()).await;
        assert!(!output.succeeded, "{}", output.text);
        assert_eq!(std::fs::read_dir(fixture.outside()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_file_that_appeared_between_prepare_and_run_is_left_alone() {
        let fixture = Fixture::new();
        let call = fixture.prepare("write_file", json!({ "path": "a", "content": "x" })).await.unwrap();
        fixture.write("a", "mine");
        let output = call.run(CancellationToken::new()).await;
        assert!(!output.succeeded && output.text.contains("nothing was written"), "{}", output.text);
        assert_eq!(fixture.read("a"), "mine");
    }

    #[tokio::test]
    async fn c6_a_file_that_changed_since_it_was_read_is_not_overwritten() {
        let fixture = Fixture::new();
        fixture.write("a", "one\ntwo\n");
        fixture.ok("read_file", json!({ "path": "a", "limit": 1 })).await;
        fixture.write("a", "mine\n");
        let overwrite = json!({ "path": "a", "content": "x" });
        let text = fixture.refused("write_file", overwrite.clone()).await;
        insta::assert_snapshot!(text, @"a was changed by something else since you saw it; nothing was written. Read it again");
        // An edit that fits does not tell the model what else changed.
        fixture.ok("edit_file", json!({ "path": "a", "old_string": "mine", "new_string": "ours" })).await;
        fixture.refused("write_file", overwrite.clone()).await;
        assert_eq!(fixture.read("a"), "ours\n");
        fixture.ok("read_file", json!({ "path": "a" })).await;
        fixture.ok("write_file", overwrite.clone()).await;
        // What it wrote itself it knows.
        fixture.ok("write_file", overwrite.clone()).await;
        fixture.ok("edit_file", json!({ "path": "a", "old_string": "x", "new_string": "y" })).await;
        fixture.ok("write_file", overwrite.clone()).await;
        fixture.write("a", "theirs");
        fixture.refused("write_file", overwrite.clone()).await;
        // What is gone cannot be lost.
        std::fs::remove_file(fixture.path("a")).unwrap();
        fixture.ok("write_file", overwrite).await;
    }

    #[tokio::test]
    async fn a_content_beyond_the_bound_is_refused() {
        let fixture = Fixture::new();
        let content = "x".repeat(usize::try_from(MAX_CONTENT_BYTES).unwrap() + 1);
        let text = fixture.refused("write_file", json!({ "path": "a", "content": content })).await;
        assert_eq!(text, "the content is bigger than 16777216 bytes");
    }

    #[tokio::test]
    async fn a_stopped_write_changes_nothing() {
        let fixture = Fixture::new();
        assert!(fixture.stopped("write_file", json!({ "path": "d/a", "content": "x" })).await.stopped);
        assert_eq!(fixture.names("."), [""; 0]);
    }
}
