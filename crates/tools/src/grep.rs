//! `grep`: lines by regular expression.

use std::fmt::Write as _;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use runtime::{PreparedCall, Sight, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{decode, schema_of};
use crate::call::{BlockingCall, Stoppable};
use crate::walk::{self, NamePattern};
use crate::words::{clip, count, left_out};
use crate::workspace::Workspace;

/// Matching lines shown unless asked otherwise.
const DEFAULT_RESULTS: u64 = 100;

/// Matching lines shown at most; who needs more is better served by a narrower search.
const MAX_RESULTS: u64 = 1000;

/// Lines shown around a match at most; more is reading, not searching.
const MAX_CONTEXT: u64 = 20;

/// Characters shown of one line: minified code matches everything on one line.
const MAX_LINE_CHARS: usize = 500;

/// Bytes of one answer, about 30,000 tokens.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// Longest pattern. A list of words to look for can be long; more is a program.
const MAX_PATTERN_BYTES: usize = 10_000;

/// Memory for one line. A file with longer lines is data, and is skipped.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression (Rust syntax, no look-around), matched within single lines.
    pattern: String,
    /// File or directory to search, from the workspace root; the root if left out.
    path: Option<String>,
    /// Only files whose name or path fits this glob, such as *.rs or src/**/*.ts.
    glob: Option<String>,
    /// Whether upper and lower case are the same; false if left out.
    case_insensitive: Option<bool>,
    /// How many lines to show before and after each match; none if left out.
    context: Option<u64>,
    /// How many matching lines to show at most; 100 if left out, 1000 at most.
    max_results: Option<u64>,
}

pub(crate) struct Grep {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

impl Grep {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "grep".into(),
            description: "Search the lines of text files by regular expression. Answers with path:line:text, and \
                          path-line-text for context lines. Files that .gitignore excludes, binary files and the \
                          .git directory are left out.".into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::SearchWorkspace]),
        };
        Self { workspace, spec }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        let matcher = compile(&arguments.pattern, arguments.case_insensitive.unwrap_or(false))?;
        let glob = arguments.glob.as_deref().map(|glob| NamePattern::new(&self.workspace, "glob", glob));
        let path = walk::start(&self.workspace, arguments.path.as_deref()).await?;
        let max_results = arguments.max_results.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
        let context = arguments.context.unwrap_or(0).min(MAX_CONTEXT);
        let mut search = Search {
            workspace: Arc::clone(&self.workspace),
            matcher,
            glob: glob.transpose()?,
            searcher: searcher(usize::try_from(context).unwrap_or(0)),
            found: Found { text: String::new(), matches: 0, max_results, more: false },
        };
        Ok(BlockingCall::read_below(path, ignored, move |path, sight, stop| {
            match search.run(path, sight, stop) {
                Ok(text) => ToolOutput::ok(text),
                Err(text) => ToolOutput::failed(text),
            }
        }))
    }
}

fn compile(pattern: &str, case_insensitive: bool) -> Result<RegexMatcher, ToolFault> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(ToolFault::Arguments(format!("`pattern` is longer than {MAX_PATTERN_BYTES} bytes")));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(case_insensitive)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| {
            let error = error.to_string();
            // The library first quotes the pattern as it wraps it, which would only confuse.
            let reason = error.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(&error);
            ToolFault::Arguments(format!(
                "`pattern` is not a regular expression that works here: {reason}. It is matched within single \
                 lines; put a backslash before ( ) [ ] {{ }} . * + ? | ^ $ \\ to search for them as they are"
            ))
        })
}

fn searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .heap_limit(Some(MAX_LINE_BYTES))
        .binary_detection(BinaryDetection::quit(0))
        .build()
}

struct Search {
    workspace: Arc<Workspace>,
    matcher: RegexMatcher,
    glob: Option<NamePattern>,
    searcher: Searcher,
    found: Found,
}

impl Search {
    fn run(&mut self, path: &Path, sight: &Sight, stop: &CancellationToken) -> Result<String, String> {
        let Self { workspace, matcher, glob, searcher, found } = self;
        let mut searched = 0;
        let mut skipped = 0;
        let mut hidden = 0;
        let walked = walk::files(workspace, path, stop, |met| {
            if glob.as_ref().is_some_and(|glob| !glob.fits(met.within)) {
                return ControlFlow::Continue(());
            }
            // Links and special files met on the way are no files of their own.
            let regular = workspace.dir().symlink_metadata(met.path).is_ok_and(|found| found.is_file());
            let Some(file) = regular.then(|| workspace.open_file(met.path).ok()).flatten() else {
                return ControlFlow::Continue(());
            };
            if !sight.shows_content(&met.path.to_string_lossy()) {
                hidden += 1;
                return ControlFlow::Continue(());
            }
            let sink = FileSink { path: &met.path.display().to_string(), found, separate: false };
            match searcher.search_reader(&*matcher, Stoppable { inner: file, stop }, sink) {
                Ok(()) => searched += 1,
                Err(_) => skipped += 1,
            }
            if found.more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if stop.is_cancelled() {
            return Err("stopped".into());
        }
        let mut text = std::mem::take(&mut found.text);
        if found.more {
            let _ = writeln!(
                text,
                "[first {}; there are more: narrow pattern, path or glob]",
                count(found.matches, "matching line")
            );
        } else if found.matches == 0 {
            let _ = writeln!(text, "[no match in {}]", count(searched, "file"));
        }
        if skipped > 0 {
            let _ = writeln!(text, "[{} could not be searched]", count(skipped, "file"));
        }
        text.push_str(&left_out(hidden));
        text.push_str(&walked.remarks());
        text.truncate(text.trim_end().len());
        Ok(text)
    }
}

/// The answer as it grows.
struct Found {
    text: String,
    matches: u64,
    max_results: u64,
    /// Whether there is a match that is not shown.
    more: bool,
}

/// Takes the lines of one file.
struct FileSink<'a> {
    path: &'a str,
    found: &'a mut Found,
    /// Whether something of this file was shown, so that a gap after it is worth a separator.
    separate: bool,
}

impl FileSink<'_> {
    fn show(&mut self, mark: char, line: Option<u64>, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = clip(text.trim_end_matches(['\n', '\r']), MAX_LINE_CHARS);
        let _ = writeln!(self.found.text, "{}{mark}{}{mark}{text}", self.path, line.unwrap_or(0));
        self.separate = true;
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.matches == self.found.max_results || self.found.text.len() > MAX_TEXT_BYTES {
            self.found.more = true;
            return Ok(false);
        }
        self.found.matches += 1;
        self.show(':', found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.show('-', context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.separate {
            self.found.text.push_str("--\n");
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use agents::Verdict;
    use serde_json::json;

    use super::*;
    use crate::fixture::Fixture;

    fn project() -> Fixture {
        let fixture = Fixture::new();
        fixture.write("src/a.rs", "fn one() {}\n// two\nfn Three() {}\r\nlast\n");
        fixture.write("src/b.txt", "fn four\n");
        fixture.write("binary", b"fn \0 five\n");
        fixture.write("latin", b"fn caf\xe9\n");
        fixture.write("ignored/x.rs", "fn ignored\n");
        fixture.write(".gitignore", "ignored\n");
        fixture.write(".git/x", "fn git\n");
        fixture
    }

    #[tokio::test]
    async fn matching_lines_come_with_path_and_number() {
        let fixture = project();
        insta::assert_snapshot!(fixture.ok("grep", json!({ "pattern": r"fn \w+" })).await, @r"
        latin:1:fn caf�
        src/a.rs:1:fn one() {}
        src/a.rs:3:fn Three() {}
        src/b.txt:1:fn four
        ");
    }

    #[tokio::test]
    async fn the_search_narrows_by_path_glob_and_case() {
        let fixture = project();
        let check = async |arguments: Value, expected: &str| {
            assert_eq!(fixture.ok("grep", arguments.clone()).await, expected, "{arguments}");
        };
        check(json!({ "pattern": "three" }), "[no match in 5 files]").await;
        check(json!({ "regex": "three", "-i": true }), "src/a.rs:3:fn Three() {}").await;
        check(json!({ "pattern": "fn", "glob": "*.txt" }), "src/b.txt:1:fn four").await;
        check(json!({ "pattern": "fn", "path": "src", "glob": "b.*" }), "src/b.txt:1:fn four").await;
        check(json!({ "pattern": "two", "path": "src/a.rs" }), "src/a.rs:2:// two").await;
        check(json!({ "pattern": "git|ignored", "path": "ignored" }), "ignored/x.rs:1:fn ignored").await;
    }

    #[tokio::test]
    async fn context_lines_are_marked_and_gaps_shown() {
        let fixture = Fixture::new();
        fixture.write("a", "1\nx\n3\n4\n5\n6\nx\n8\n");
        insta::assert_snapshot!(fixture.ok("grep", json!({ "pattern": "x", "context": 1 })).await, @r"
        a-1-1
        a:2:x
        a-3-3
        --
        a-6-6
        a:7:x
        a-8-8
        ");
    }

    #[tokio::test]
    async fn results_are_bounded_and_the_rest_is_told() {
        let fixture = Fixture::new();
        fixture.write("a", "x\n".repeat(3));
        fixture.write("b", "x\n".repeat(2000));
        insta::assert_snapshot!(fixture.ok("grep", json!({ "pattern": "x", "max_results": 4 })).await, @r"
        a:1:x
        a:2:x
        a:3:x
        b:1:x
        [first 4 matching lines; there are more: narrow pattern, path or glob]
        ");
        let text = fixture.ok("grep", json!({ "pattern": "x", "limit": 3, "path": "a" })).await;
        assert_eq!(text, "a:1:x\na:2:x\na:3:x");
        let text = fixture.ok("grep", json!({ "pattern": "x", "max_results": 1_000_000 })).await;
        assert!(text.contains("[first 1000 matching lines"), "{}", &text[text.len() - 100..]);
        fixture.write("b", format!("{}\n", "x".repeat(5000)).repeat(1000));
        let text = fixture.ok("grep", json!({ "pattern": "x", "max_results": 1000 })).await;
        assert!(text.len() < MAX_TEXT_BYTES + 2000 && text.contains("there are more"), "{}", text.len());
    }

    #[tokio::test]
    async fn a_bad_pattern_is_explained() {
        let fixture = project();
        let texts = [
            fixture.refused("grep", json!({ "pattern": "foo(" })).await,
            fixture.refused("grep", json!({ "pattern": "a\nb" })).await,
            fixture.refused("grep", json!({ "pattern": "(?=a)" })).await,
        ];
        insta::assert_snapshot!(texts.join("\n"), @r#"
        invalid arguments: `pattern` is not a regular expression that works here: unclosed group. It is matched within single lines; put a backslash before ( ) [ ] { } . * + ? | ^ $ \ to search for them as they are
        invalid arguments: `pattern` is not a regular expression that works here: the literal "\n" is not allowed in a regex. It is matched within single lines; put a backslash before ( ) [ ] { } . * + ? | ^ $ \ to search for them as they are
        invalid arguments: `pattern` is not a regular expression that works here: look-around, including look-ahead and look-behind, is not supported. It is matched within single lines; put a backslash before ( ) [ ] { } . * + ? | ^ $ \ to search for them as they are
        "#);
    }

    #[tokio::test]
    async fn links_lead_nowhere() {
        let fixture = project();
        std::fs::write(fixture.outside().join("secret"), "fn secret\n").unwrap();
        symlink(fixture.outside().join("secret"), fixture.path("link")).unwrap();
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        let text = fixture.ok("grep", json!({ "pattern": "secret" })).await;
        assert_eq!(text, "[no match in 5 files]");
        for path in ["link", "out", "out/secret"] {
            let text = fixture.refused("grep", json!({ "pattern": "secret", "path": path })).await;
            assert!(text.contains("leads outside the workspace"), "{path}: {text}");
        }
    }

    #[tokio::test]
    async fn c2_a_search_from_the_root_shows_no_line_of_a_file_that_may_not_be_read() {
        let fixture = project();
        fixture.write("src/secrets/key", "fn key\n");
        let arguments = || json!({ "pattern": "fn (key|four|one)", "context": 1 });
        for verdict in [Verdict::Deny, Verdict::Ask] {
            for rule in ["read_file src/secrets/**", "grep **/key", "* **/secrets"] {
                let text = fixture.within(verdict, &[rule], "grep", arguments()).await;
                let expected = "src/a.rs:1:fn one() {}\nsrc/a.rs-2-// two\nsrc/b.txt:1:fn four\n\
                                [1 file left out by permission rules]";
                assert_eq!(text, expected, "{rule}");
            }
        }
        let text = fixture.within(Verdict::Allow, &["read_file src/secrets/**"], "grep", arguments()).await;
        assert!(text.contains("fn key"), "{text}");
    }

    #[tokio::test]
    async fn a_stopped_search_says_so() {
        assert!(project().stopped("grep", json!({ "pattern": "x" })).await.stopped);
    }
}
