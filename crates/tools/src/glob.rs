//! `glob`: files by name.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet};
use runtime::{PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{decode, schema_of};
use crate::call::BlockingCall;
use crate::walk::{self, NamePattern};
use crate::words::{count, left_out};
use crate::workspace::Workspace;

/// Paths shown: more is not a search result but a listing, and the count tells to narrow the pattern.
const MAX_PATHS: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Glob such as *.rs, src/**/*.ts or {a,b}/*.md; without a / it matches file names at any depth.
    pattern: String,
    /// Directory to search, from the workspace root; the pattern is relative to it. The root if left out.
    path: Option<String>,
}

pub(crate) struct Glob {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

impl Glob {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "glob".into(),
            description: "Find files by name. Answers with sorted paths from the workspace root. Files that \
                          .gitignore excludes and the .git directory are left out."
                .into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::SearchWorkspace]),
        };
        Self { workspace, spec }
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        let pattern = NamePattern::new(&self.workspace, "pattern", &arguments.pattern)?;
        let path = walk::start(&self.workspace, arguments.path.as_deref()).await?;
        let workspace = Arc::clone(&self.workspace);
        Ok(BlockingCall::read_below(path, ignored, move |path, sight, stop| {
            let mut text = String::new();
            let mut found = 0;
            let mut hidden = 0;
            let walked = walk::files(&workspace, path, stop, |met| {
                // Asked beneath the root, so that a directory swapped for a link shows nothing from outside.
                if pattern.fits(met.within) && workspace.dir().symlink_metadata(met.path).is_ok() {
                    if !sight.shows_name(&met.path.to_string_lossy()) {
                        hidden += 1;
                        return ControlFlow::Continue(());
                    }
                    found += 1;
                    if found <= MAX_PATHS {
                        let _ = writeln!(text, "{}", met.path.display());
                    }
                }
                ControlFlow::Continue(())
            });
            let walked = match walked {
                Ok(walked) => walked,
                Err(error) => return ToolOutput::failed(error),
            };
            if found > MAX_PATHS {
                let more = count((found - MAX_PATHS) as u64, "more file");
                let _ = writeln!(text, "[and {more}; narrow the pattern or give a path]");
            }
            if found == 0 {
                let _ = writeln!(text, "[no file matches {}]", arguments.pattern);
            }
            text.push_str(&left_out(hidden));
            text.push_str(&walked.remarks());
            text.truncate(text.trim_end().len());
            ToolOutput::ok(text)
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use agents::Verdict;
    use serde_json::json;

    use crate::fixture::Fixture;

    fn project() -> Fixture {
        let fixture = Fixture::new();
        for path in [
            "src/lib.rs",
            "src/deep/mod.rs",
            "main.rs",
            "a.md",
            "target/out.rs",
            ".github/ci.yml",
            "b c/ü.rs",
        ] {
            fixture.write(path, "");
        }
        fixture.write(".gitignore", "target/\n");
        fixture.write(".git/hooks/hook.rs", "");
        fixture
    }

    #[tokio::test]
    async fn a_name_pattern_finds_at_any_depth_and_skips_what_git_ignores() {
        let fixture = project();
        insta::assert_snapshot!(fixture.ok("glob", json!({ "pattern": "*.rs" })).await, @r"
        b c/ü.rs
        main.rs
        src/deep/mod.rs
        src/lib.rs
        ");
        assert_eq!(fixture.ok("glob", json!({ "query": "*.yml" })).await, ".github/ci.yml");
    }

    #[tokio::test]
    async fn a_path_pattern_is_relative_to_the_path() {
        let fixture = project();
        let check = async |pattern: &str, path: &str, expected: &str| {
            let text = fixture.ok("glob", json!({ "pattern": pattern, "path": path })).await;
            assert_eq!(text, expected, "{pattern} in {path}");
        };
        check("src/*.rs", ".", "src/lib.rs").await;
        check("**/*.rs", "src", "src/deep/mod.rs\nsrc/lib.rs").await;
        check("./{src,target}/*.rs", ".", "src/lib.rs").await;
        check("deep/*.rs", "src", "src/deep/mod.rs").await;
        check(&format!("{}/src/*.rs", fixture.root().display()), ".", "src/lib.rs").await;
        check("*.rs", "src/lib.rs", "src/lib.rs").await;
        check("*.zig", ".", "[no file matches *.zig]").await;
        check("*.rs", "target", "target/out.rs").await;
    }

    #[tokio::test]
    async fn a_pipe_in_the_place_of_ignore_rules_keeps_nobody_waiting() {
        let fixture = Fixture::new();
        fixture.write("a/file", "x");
        fixture.write("b/deep/file", "x");
        let pipe = |name: &str| {
            assert!(std::process::Command::new("mkfifo").arg(fixture.path(name)).status().unwrap().success());
        };
        pipe("b/.ignore");
        let left_out = "[1 directory left out: .gitignore or .ignore there is no plain file]";
        let text = fixture.ok("glob", json!({ "pattern": "*" })).await;
        assert_eq!(text, format!("a/file\n{left_out}"));
        let text = fixture.ok("grep", json!({ "pattern": "x" })).await;
        assert_eq!(text, format!("a/file:1:x\n{left_out}"));
        let text = fixture.refused("grep", json!({ "pattern": "x", "path": "b" })).await;
        assert!(text.contains("b/.ignore is no plain file of ignore rules"), "{text}");
        fixture.write(".git/HEAD", "ref: refs/heads/main\n");
        let text = fixture.refused("grep", json!({ "pattern": "x", "path": "b/deep" })).await;
        assert!(text.contains("b/.ignore is no plain file of ignore rules"), "{text}");
        pipe(".git/info");
        assert_eq!(fixture.ok("glob", json!({ "pattern": "a/*" })).await, format!("a/file\n{left_out}"));
    }

    #[tokio::test]
    async fn rules_above_a_project_that_is_no_repository_do_not_hide_it() {
        let fixture = Fixture::new();
        fixture.write("../.gitignore", "*\n");
        fixture.write("a.rs", "");
        fixture.write("b.rs", "");
        fixture.write(".gitignore", "b.rs\n");
        assert_eq!(fixture.ok("glob", json!({ "pattern": "*.rs" })).await, "a.rs");
    }

    #[tokio::test]
    async fn rules_of_the_repository_hold_below_it() {
        let fixture = project();
        fixture.write("src/target/x.rs", "");
        let text = fixture.ok("glob", json!({ "pattern": "*.rs", "path": "src" })).await;
        assert_eq!(text, "src/deep/mod.rs\nsrc/lib.rs");
    }

    #[tokio::test]
    async fn links_are_not_walked_and_cannot_lead_out() {
        let fixture = project();
        std::fs::write(fixture.outside().join("secret.rs"), "").unwrap();
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        symlink("src", fixture.path("in")).unwrap();
        let text = fixture.ok("glob", json!({ "pattern": "secret.rs" })).await;
        assert_eq!(text, "[no file matches secret.rs]");
        let text = fixture.refused("glob", json!({ "pattern": "*", "path": "out" })).await;
        assert!(text.contains("leads outside the workspace"), "{text}");
        let text = fixture.ok("glob", json!({ "pattern": "*.rs", "path": "in" })).await;
        assert_eq!(text, "src/deep/mod.rs\nsrc/lib.rs");
        for pattern in ["../*", "/etc/*", "src/../../*", ""] {
            let text = fixture.refused("glob", json!({ "pattern": pattern })).await;
            assert!(text.contains("must be relative"), "{pattern}: {text}");
        }
    }

    #[tokio::test]
    async fn a_bad_pattern_is_explained() {
        let text = project().refused("glob", json!({ "pattern": "src/[a" })).await;
        insta::assert_snapshot!(text, @"invalid arguments: `pattern`: not a valid glob: unclosed character class; missing ']'. Patterns look like *.rs, src/**/*.ts or {a,b}/*.md");
    }

    #[tokio::test]
    async fn many_files_are_bounded_with_an_explicit_rest() {
        let fixture = Fixture::new();
        for number in 0..502 {
            fixture.write(&format!("f{number:03}"), "");
        }
        let text = fixture.ok("glob", json!({ "pattern": "f*" })).await;
        assert!(text.starts_with("f000\nf001\n"));
        assert!(text.ends_with("f499\n[and 2 more files; narrow the pattern or give a path]"), "{text}");
    }

    #[tokio::test]
    async fn c2_a_search_from_the_root_names_no_file_that_it_could_not_be_called_with() {
        let fixture = project();
        let call = async |rule: &str| {
            fixture.within(Verdict::Deny, &[rule], "glob", json!({ "pattern": "*.rs" })).await
        };
        let expected = "b c/ü.rs\nmain.rs\n[2 files left out by permission rules]";
        assert_eq!(call("* src/**").await, expected);
        assert_eq!(call("glob **/src").await, expected);
        // A name is no content.
        assert!(call("read_file src/**").await.contains("src/lib.rs"));
    }

    #[tokio::test]
    async fn a_stopped_search_says_so() {
        assert!(project().stopped("glob", json!({ "pattern": "*" })).await.stopped);
    }
}
