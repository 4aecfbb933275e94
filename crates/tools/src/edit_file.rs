//! `edit_file`: one text in a file replaced by another.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet};
use runtime::{PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{decode, schema_of};
use crate::call::{BlockingCall, look};
use crate::replacement::{MAX_CONTENT_BYTES, Replacement, Target};
use crate::words::{clip, count, some_of};
use crate::workspace::{Workspace, digest_of, explain};

/// Overlapping occurrences counted for a refusal: each is searched for anew, which is slow where there are many.
const MAX_COUNTED: usize = 1000;

/// Bytes of a text that is looked at for whether it can overlap itself; a longer one is taken for one that can.
const OVERLAP_BYTES: usize = 4096;

/// Line numbers listed in an answer.
const LINES_LISTED: usize = 10;

/// Lines of `old_string` that are compared for a hint. A hint is not worth a comparison of everything with everything.
const HINT_MAX_LINES: usize = 100;

/// Size of a file that is searched for a hint, for the same reason.
const HINT_MAX_BYTES: usize = 1024 * 1024;

/// Characters quoted of a line that nearly matches.
const QUOTED_CHARS: usize = 120;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File to edit, from the workspace root.
    path: String,
    /// Text to replace, exactly as it is in the file, white space included. Must occur once, unless `replace_all` is set.
    old_string: String,
    /// Text to put in its place; may be empty.
    new_string: String,
    /// Replace every occurrence; false if left out.
    replace_all: Option<bool>,
}

pub(crate) struct EditFile {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

impl EditFile {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "edit_file".into(),
            description: "Replace text in a file. old_string must match exactly and occur once; add surrounding \
                          lines to make it unique, or set replace_all. Leave out read_file's line numbers. When the \
                          edit is refused nothing is written.".into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::WriteWorkspace]),
        };
        Self { workspace, spec }
    }
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        if arguments.old_string.is_empty() {
            return Err(ToolFault::Refused(
                "old_string is empty: use write_file to create a file or replace it as a whole".into(),
            ));
        }
        if arguments.old_string == arguments.new_string {
            return Err(ToolFault::Refused(
                "old_string and new_string are the same: nothing to change".into(),
            ));
        }
        let workspace = Arc::clone(&self.workspace);
        Ok(match look(move || plan(&workspace, &arguments)).await? {
            Plan::Replace(replacement, done) => {
                replacement.into_call(Arc::clone(&self.workspace), ignored, done)
            }
            Plan::Fail(path, problem) => {
                BlockingCall::read(path.into(), ignored, move |_, _| ToolOutput::failed(problem))
            }
        })
    }
}

/// What a call comes to.
enum Plan {
    /// A replacement to make, and what to say once it is made.
    Replace(Replacement, String),
    /// Nothing is changed in the file of this path. Why is only told by a call that is admitted, since it tells what
    /// the file contains.
    Fail(String, String),
}

fn plan(workspace: &Workspace, arguments: &Arguments) -> Result<Plan, ToolFault> {
    let path = workspace.relative(&arguments.path)?;
    let target = Target::find(workspace, &path)?;
    if target.found.is_none() {
        return Err(ToolFault::Refused(format!(
            "{} does not exist; write_file creates files, glob finds them",
            path.display()
        )));
    }
    let content = read_text(workspace, &target.path).map_err(ToolFault::Refused)?;
    let replace_all = arguments.replace_all.unwrap_or(false);
    let replaced = replace(&content, &arguments.old_string, &arguments.new_string, replace_all);
    let (edited, lines) = match replaced {
        Ok(replaced) => replaced,
        Err(problem) => {
            let problem = format!("{}: {problem}", target.path);
            return Ok(Plan::Fail(target.path, problem));
        }
    };
    if edited.len() as u64 > MAX_CONTENT_BYTES {
        return Err(ToolFault::Refused(format!(
            "{} would grow beyond {MAX_CONTENT_BYTES} bytes",
            target.path
        )));
    }
    let mut done = format!(
        "edited {}: {} in {} {}",
        target.path,
        count(lines.len() as u64, "replacement"),
        if lines.len() == 1 { "line" } else { "lines" },
        some_of(&lines, LINES_LISTED)
    );
    if content.contains("\r\n") && has_bare_line_feed(&arguments.new_string) {
        done.push_str("\n[the file's lines end in CRLF, those of new_string in LF]");
    }
    let before = digest_of(content.as_bytes());
    Ok(Plan::Replace(Replacement::new(target.path, Some(before), edited.into_bytes()), done))
}

fn read_text(workspace: &Workspace, path: &str) -> Result<String, String> {
    let file = workspace.open_file(Path::new(path))?;
    let mut content = Vec::new();
    let read = file.take(MAX_CONTENT_BYTES + 1).read_to_end(&mut content);
    read.map_err(|error| explain(Path::new(path), &error))?;
    if content.len() as u64 > MAX_CONTENT_BYTES {
        return Err(format!("{path} is bigger than {MAX_CONTENT_BYTES} bytes; use shell to edit it"));
    }
    String::from_utf8(content).map_err(|_| format!("{path} is not UTF-8 text; use shell to edit it"))
}

/// The edited content and the lines where something was replaced.
fn replace(content: &str, old: &str, new: &str, all: bool) -> Result<(String, Vec<u64>), String> {
    let is_exact = all || !overlaps_itself(old);
    let places: Vec<_> = if is_exact {
        content.match_indices(old).map(|(at, _)| at).collect()
    } else {
        overlapping(content, old).take(MAX_COUNTED).collect()
    };
    let lines = lines_of(content, &places);
    match places.len() {
        0 => Err(explain_absence(content, old)),
        1 => Ok((content.replacen(old, new, 1), lines)),
        _ if all => Ok((content.replace(old, new), lines)),
        found => Err(format!(
            "old_string occurs {}{found} times, in lines {}; add surrounding text to make it unique, or set \
             replace_all",
            if !is_exact && found == MAX_COUNTED { "at least " } else { "" },
            some_of(&lines, LINES_LISTED)
        )),
    }
}

/// Whether an occurrence of the text can begin within another: it ends as it begins.
fn overlaps_itself(text: &str) -> bool {
    let text = text.as_bytes();
    text.len() > OVERLAP_BYTES || (1..text.len()).any(|from| text.starts_with(&text[from..]))
}

/// Every place where the text occurs. Overlapping ones count: either could be meant.
fn overlapping<'a>(content: &'a str, text: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = text.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + content.get(from..)?.find(text)?;
        from = at + step;
        Some(at)
    })
}

/// The line numbers of ascending places.
fn lines_of(content: &str, places: &[usize]) -> Vec<u64> {
    let mut line = 1;
    let mut from = 0;
    let number = |at: &usize| {
        line += content.as_bytes()[from..*at].iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        from = *at;
        line
    };
    places.iter().map(number).collect()
}

fn has_bare_line_feed(text: &str) -> bool {
    text.replace("\r\n", "").contains('\n')
}

/// Why a text is not found, as far as the usual reasons go.
fn explain_absence(content: &str, old: &str) -> String {
    let mut problem = "old_string was not found".to_owned();
    let unix = old.replace("\r\n", "\n");
    let _ = if content.is_empty() {
        write!(problem, ": the file is empty; use write_file")
    } else if content.contains(&unix.replace('\n', "\r\n")) {
        write!(problem, " because the file's lines end in CRLF: write line ends in both strings as \\r\\n")
    } else if content.contains(&unix) {
        write!(problem, " because the file's lines end in LF: write line ends in both strings as \\n")
    } else if let Some(plain) = without_line_numbers(old)
        && content.contains(&plain)
    {
        write!(problem, " because it carries read_file's line numbers: leave out the numbers and tabs")
    } else if let Some((line, theirs, sent)) = near_match(content, old) {
        let quote = |line: &str| Value::from(clip(line, QUOTED_CHARS)).to_string();
        write!(
            problem,
            " because white space differs: line {line} of the file is {}, old_string has {}",
            quote(theirs),
            quote(sent)
        )
    } else {
        write!(problem, ": read the file again and copy the text exactly")
    };
    problem
}

/// The text without `  12<tab>` before each line, if every line has it.
fn without_line_numbers(text: &str) -> Option<String> {
    let lines: Option<Vec<_>> = text
        .lines()
        .map(|line| {
            let (number, rest) = line.split_once('\t')?;
            number.trim_start().parse::<u64>().ok().map(|_| rest)
        })
        .collect();
    lines.map(|lines| lines.join("\n"))
}

/// The first line that differs, in the file and as sent, where all lines are the same but for white space.
fn near_match<'a>(content: &'a str, old: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    let theirs: Vec<_> = content.lines().collect();
    let sent: Vec<_> = old.trim_matches(['\n', '\r']).lines().collect();
    let first = sent.first().filter(|_| !old.trim().is_empty())?;
    if sent.len() > HINT_MAX_LINES || content.len() > HINT_MAX_BYTES {
        return None;
    }
    let at = (0..theirs.len().saturating_sub(sent.len() - 1))
        .find(|at| same(theirs[*at], first) && theirs[*at..].iter().zip(&sent).all(|(a, b)| same(a, b)))?;
    let differing = (0..sent.len()).find(|line| theirs[at + line] != sent[*line]).unwrap_or(0);
    Some((at + differing + 1, theirs[at + differing], sent[differing]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use domain::Effect;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test]
    async fn one_occurrence_is_replaced() {
        let fixture = Fixture::new();
        fixture.write("src/a.rs", "one\ntwo 世界\nthree\n");
        let arguments = json!({ "file_path": "src/a.rs", "old_str": "世界\n", "new_str": "🌍\n" });
        assert_eq!(fixture.ok("edit_file", arguments).await, "edited src/a.rs: 1 replacement in line 2");
        assert_eq!(fixture.read("src/a.rs"), "one\ntwo 🌍\nthree\n");
        assert_eq!(fixture.names("src"), ["a.rs"]);
    }

    #[tokio::test]
    async fn the_effect_tells_the_file_before_and_after() {
        let fixture = Fixture::new();
        fixture.write("a", "old");
        symlink("a", fixture.path("link")).unwrap();
        let arguments = json!({ "path": "link", "old_string": "old", "new_string": "new" });
        let call = fixture.prepare("edit_file", arguments).await.unwrap();
        let expected =
            Effect::FileWrite { path: "a".into(), before: Some(digest_of(b"old")), after: digest_of(b"new") };
        assert_eq!(call.effect(), expected);
        assert_eq!(fixture.read("a"), "old", "preparing changes nothing");
        assert!(call.run(CancellationToken::new()).await.succeeded);
        assert_eq!(fixture.read("a"), "new");
        assert!(fixture.path("link").is_symlink(), "the link is kept and its target edited");
    }

    #[tokio::test]
    async fn an_ambiguous_text_is_counted_with_its_lines() {
        let fixture = Fixture::new();
        fixture.write("a", "x = 1;\ny = 1;\nx = 1;\nx = 1;\n");
        let arguments = json!({ "path": "a", "old_string": "x = 1;", "new_string": "x = 2;" });
        insta::assert_snapshot!(
            fixture.refused("edit_file", arguments).await,
            @"a: old_string occurs 3 times, in lines 1, 3, 4; add surrounding text to make it unique, or set replace_all"
        );
        assert_eq!(fixture.read("a"), "x = 1;\ny = 1;\nx = 1;\nx = 1;\n");
        let arguments =
            json!({ "path": "a", "old_string": "x = 1;", "new_string": "x = 2;", "replace_all": true });
        assert_eq!(fixture.ok("edit_file", arguments).await, "edited a: 3 replacements in lines 1, 3, 4");
        assert_eq!(fixture.read("a"), "x = 2;\ny = 1;\nx = 2;\nx = 2;\n");
    }

    #[test]
    fn overlapping_occurrences_are_ambiguous_and_counting_them_is_bounded() {
        let check = |content: &str, old: &str, expected: &str| {
            let problem = replace(content, old, "b", false).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        };
        check("aaa", "aa", "occurs 2 times, in lines 1, 1;");
        check("ééé", "éé", "occurs 2 times");
        check(&"a\n".repeat(5000), "a", "occurs 5000 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;");
        check(&"ab".repeat(1000), "ab", "occurs 1000 times");
        check(&"ab".repeat(5000), "aba", "occurs at least 1000 times");
        assert_eq!(replace("aaa", "aa", "b", true).unwrap().0, "ba");
    }

    #[test]
    fn a_text_that_is_not_there_is_explained() {
        let check = |content: &str, old: &str| replace(content, old, "new", false).unwrap_err();
        let texts = [
            check("fn a() {\r\n}\r\n", "a() {\n}"),
            check("fn a() {\n}\n", "a() {\r\n}"),
            check("if x {\n\ty();\n}\n", "if x {\n    y();\n}\n"),
            check("a  b\n", "a b"),
            check("one\ntwo\n", "     1\tone\n     2\ttwo"),
            check("one\n", "two"),
            check("one\n", "one\ntwo\nthree"),
            check("one\n", "  \n  "),
            check("", "one"),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r#"
        old_string was not found because the file's lines end in CRLF: write line ends in both strings as \r\n
        old_string was not found because the file's lines end in LF: write line ends in both strings as \n
        old_string was not found because white space differs: line 2 of the file is "\ty();", old_string has "    y();"
        old_string was not found because white space differs: line 1 of the file is "a  b", old_string has "a b"
        old_string was not found because it carries read_file's line numbers: leave out the numbers and tabs
        old_string was not found: read the file again and copy the text exactly
        old_string was not found: read the file again and copy the text exactly
        old_string was not found: read the file again and copy the text exactly
        old_string was not found: the file is empty; use write_file
        "#);
    }

    #[tokio::test]
    async fn line_ends_are_written_as_sent() {
        let fixture = Fixture::new();
        fixture.write("a", "one\r\ntwo\r\n");
        let arguments = json!({ "path": "a", "old_string": "one\r\n", "new_string": "1\r\n1\r\n" });
        assert_eq!(fixture.ok("edit_file", arguments).await, "edited a: 1 replacement in line 1");
        assert_eq!(fixture.read("a"), "1\r\n1\r\ntwo\r\n");
        let arguments = json!({ "path": "a", "old_string": "two", "new_string": "2\n2" });
        insta::assert_snapshot!(fixture.ok("edit_file", arguments).await, @r"
        edited a: 1 replacement in line 3
        [the file's lines end in CRLF, those of new_string in LF]
        ");
    }

    #[tokio::test]
    async fn what_the_file_contains_is_told_only_by_a_call_that_runs() {
        let fixture = Fixture::new();
        fixture.write("a", "secret = 1\n");
        let arguments = json!({ "path": "a", "old_string": "secret  = 1", "new_string": "x" });
        let call = fixture.prepare("edit_file", arguments).await.unwrap();
        assert_eq!((call.effect(), call.subject().paths), (Effect::Read, vec!["a".to_owned()]));
        let output = call.run(CancellationToken::new()).await;
        assert!(!output.succeeded && output.text.contains("secret = 1"), "{}", output.text);
    }

    #[tokio::test]
    async fn edits_that_make_no_sense_are_refused() {
        let fixture = Fixture::new();
        fixture.write("a", "text");
        fixture.write("binary", b"\xff\xfe");
        let edit = |path: &str, old: &str, new: &str| json!({ "path": path, "old": old, "new": new });
        let texts = [
            fixture.refused("edit_file", edit("a", "", "new")).await,
            fixture.refused("edit_file", edit("a", "text", "text")).await,
            fixture.refused("edit_file", edit("none", "a", "b")).await,
            fixture.refused("edit_file", edit("binary", "a", "b")).await,
            fixture.refused("edit_file", edit(".", "a", "b")).await,
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        old_string is empty: use write_file to create a file or replace it as a whole
        old_string and new_string are the same: nothing to change
        none does not exist; write_file creates files, glob finds them
        binary is not UTF-8 text; use shell to edit it
        . is a directory, not a file
        ");
    }

    #[tokio::test]
    async fn a_file_beyond_the_bound_is_refused() {
        let fixture = Fixture::new();
        let file = std::fs::File::create(fixture.path("a")).unwrap();
        file.set_len(MAX_CONTENT_BYTES + 1).unwrap();
        let text =
            fixture.refused("edit_file", json!({ "path": "a", "old_string": "a", "new_string": "b" })).await;
        assert_eq!(text, "a is bigger than 16777216 bytes; use shell to edit it");
    }

    #[tokio::test]
    async fn a_file_changed_between_prepare_and_run_is_left_alone() {
        let fixture = Fixture::new();
        fixture.write("a", "old");
        let arguments = json!({ "path": "a", "old_string": "old", "new_string": "new" });
        let call = fixture.prepare("edit_file", arguments).await.unwrap();
        fixture.write("a", "older");
        let output = call.run(CancellationToken::new()).await;
        assert!(!output.succeeded && output.text.contains("Read it again"), "{}", output.text);
        assert_eq!((fixture.read("a"), fixture.names(".")), ("older".into(), vec!["a".into()]));
    }

    #[tokio::test]
    async fn a_stopped_edit_changes_nothing() {
        let fixture = Fixture::new();
        fixture.write("a", "old");
        let arguments = json!({ "path": "a", "old_string": "old", "new_string": "new" });
        assert!(fixture.stopped("edit_file", arguments).await.stopped);
        assert_eq!(fixture.read("a"), "old");
    }
}
