//! Rules for Rust source.

use super::{Finding, Rule, Setting};
use crate::{
    source::{Source, attribute_path},
    workspace::TextFile,
};

/// About 400 lines is the aim; this is where it stops.
const LINES_MAX: usize = 600;

const SQL_PHRASES: &[&str] =
    &["SELECT ", "INSERT INTO", "DELETE FROM", "CREATE TABLE", "CREATE INDEX", "BEGIN IMMEDIATE", "PRAGMA "];

/// Names that bring time or chance with them, wherever they stand.
const IMPURE_NAMES: &[&str] = &["SystemTime", "Instant", "tokio", "rand"];

/// Modules of `std` that touch the outside world.
const IMPURE_MODULES: &[&str] = &["env", "fs", "net", "process", "thread"];

const HISTORY: &[&str] =
    &["previously", "formerly", "used to be", "has been fixed", "issue #", "pull request #"];

pub(super) fn check(file: &TextFile, source: &Source, setting: &Setting, findings: &mut Vec<Finding>) {
    let mut found = |rule, line, message: String| {
        findings.push(Finding { rule, path: file.path.clone(), line, message });
    };
    attributes(source, &mut found);
    unfinished(source, &mut found);
    comments(source, &mut found);
    if is_product(&file.path) && !file.text.lines().next().is_some_and(|line| line.starts_with("//! ")) {
        found(Rule::ModuleDocs, 1, "line 1 must say what the file is for (`//! …`)".to_owned());
    }
    if !file.path.starts_with("crates/store/") && !is_test(&file.path) {
        sql(source, &mut found);
    }
    let is_pure = |name: &String| {
        file.path.strip_prefix("crates/").is_some_and(|rest| rest.starts_with(&format!("{name}/src/")))
    };
    if setting.pure_crates.iter().any(is_pure) {
        impure(source, &mut found);
    }
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        found(Rule::Length, lines, format!("{lines} lines, more than {LINES_MAX}: split it by idea"));
    }
}

/// Source of the product and of this tool, as against tests and their data.
fn is_product(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "src", ..] | ["xtask", "src", ..])
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests")
}

fn attributes(source: &Source, found: &mut impl FnMut(Rule, usize, String)) {
    for attribute in source.attributes() {
        let content = attribute.content;
        let names = |path: &str| {
            attribute_path(content) == path
                || (attribute_path(content) == "cfg_attr" && content.contains(&format!(" {path}(")))
        };
        if names("allow") {
            let message = "use `#[expect(…, reason = \"…\")]` in place of `#[allow]`";
            found(Rule::Allow, attribute.line, message.to_owned());
        }
        if names("expect") && !content.contains("reason") {
            found(Rule::ExpectReason, attribute.line, "an `#[expect]` needs a `reason`".to_owned());
        }
    }
}

fn unfinished(source: &Source, found: &mut impl FnMut(Rule, usize, String)) {
    for name in ["todo", "unimplemented", "dbg"] {
        for offset in source.words(name) {
            if source.code[offset + name.len()..].starts_with('!') {
                found(Rule::Unfinished, source.line_of(offset), format!("`{name}!` is not finished code"));
            }
        }
    }
}

fn comments(source: &Source, found: &mut impl FnMut(Rule, usize, String)) {
    for comment in &source.comments {
        for mark in ["TODO", "FIXME", "XXX"] {
            let is_bare = |(at, _): (usize, &str)| {
                let has_reason = comment.text[at + mark.len()..].strip_prefix('(').is_some_and(|rest| {
                    rest.split_once(')').is_some_and(|(reason, _)| !reason.trim().is_empty())
                });
                mark != "TODO" || !has_reason
            };
            if comment.text.match_indices(mark).any(is_bare) {
                found(Rule::Todo, comment.line, format!("`{mark}`: write `TODO(what it waits for)`"));
            }
        }
        let lower = comment.text.to_lowercase();
        for phrase in HISTORY.iter().filter(|phrase| lower.contains(**phrase)) {
            found(Rule::History, comment.line, format!("`{phrase}`: a comment says why, history is in git"));
        }
    }
}

fn sql(source: &Source, found: &mut impl FnMut(Rule, usize, String)) {
    for string in &source.strings {
        for phrase in SQL_PHRASES.iter().filter(|phrase| string.text.contains(**phrase)) {
            found(Rule::Sql, string.line, format!("`{}` outside crates/store", phrase.trim_end()));
        }
    }
}

fn impure(source: &Source, found: &mut impl FnMut(Rule, usize, String)) {
    for name in IMPURE_NAMES {
        for offset in source.words(name) {
            found(Rule::Pure, source.line_of(offset), format!("`{name}` in a pure crate"));
        }
    }
    for offset in source.words("std") {
        let Some(rest) = source.code[offset..].strip_prefix("std::") else { continue };
        // `use std::{collections::BTreeMap, fs}` names its modules in a group.
        let group = match rest.strip_prefix('{') {
            Some(group) => group.split(';').next().unwrap_or_default(),
            None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default(),
        };
        for module in group.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if IMPURE_MODULES.contains(&module) {
                found(Rule::Pure, source.line_of(offset), format!("`std::{module}` in a pure crate"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;

    /// The rules that a file at this path breaks, with their lines; line 1 is a module comment.
    #[track_caller]
    fn check(path: &str, body: &str, expected: &[&str]) {
        let found = findings(&[(path, &format!("//! Docs.\n{body}\n"))]);
        let short: Vec<_> = found
            .iter()
            .map(|line| {
                let line_number = line.split(':').nth(1).unwrap();
                let rule = line.rsplit('(').next().unwrap().trim_end_matches(')');
                format!("{line_number} {rule}")
            })
            .filter(|short| !short.ends_with("Unregistered"))
            .collect();
        assert_eq!(short, expected, "{found:?}");
    }

    #[test]
    fn lints_are_expected_with_a_reason() {
        let path = "crates/cli/src/a.rs";
        check(path, "#[allow(dead_code)]", &["2 Allow"]);
        check(path, "#![allow(\n    dead_code)]", &["2 Allow"]);
        check(path, "#[cfg_attr(test, allow(dead_code))]", &["2 Allow"]);
        check(path, "#[expect(dead_code)]", &["2 ExpectReason"]);
        check(path, "#[expect(dead_code, reason = \"x\")]", &[]);
        check(path, "// #[allow(dead_code)]\nfn allow() {}", &[]);
    }

    #[test]
    fn nothing_is_left_unfinished() {
        let path = "tests/crash/main.rs";
        check(path, "fn f() {\n    todo!()\n}", &["3 Unfinished"]);
        check(path, "fn f() { unimplemented!(); dbg!(1); }", &["2 Unfinished", "2 Unfinished"]);
        check(path, "fn todo() -> &str { \"todo!()\" } // dbg!(x)", &[]);
        check(path, "// TODO: more", &["2 Todo"]);
        check(path, "// TODO(): more", &["2 Todo"]);
        check(path, "// FIXME(x)", &["2 Todo"]);
        check(path, "// TODO(the second engine): more", &[]);
    }

    #[test]
    fn comments_tell_no_history() {
        check("crates/cli/src/a.rs", "// This was formerly a loop.", &["2 History"]);
        check("crates/cli/src/a.rs", "let x = \"formerly\";", &[]);
    }

    #[test]
    fn files_start_with_their_purpose() {
        let bare = |path| {
            findings(&[(path, "fn f() {}\n")]).iter().filter(|line| line.contains("ModuleDocs")).count()
        };
        assert_eq!(bare("crates/domain/src/plan/diff.rs"), 1);
        assert_eq!(bare("xtask/src/main.rs"), 1);
        assert_eq!(bare("crates/domain/tests/ui/forged.rs"), 0);
    }

    #[test]
    fn sql_stays_in_store() {
        let body = "const Q: &str = \"SELECT 1\";";
        check("crates/cli/src/a.rs", body, &["2 Sql"]);
        check("crates/store/src/a.rs", body, &[]);
        check("crates/runtime/tests/a.rs", body, &[]);
        check("crates/cli/src/a.rs", "// SELECT 1", &[]);
    }

    #[test]
    fn pure_crates_stay_pure() {
        let path = "crates/domain/src/lib.rs";
        check(path, "use std::time::Instant;", &["2 Pure"]);
        check(path, "use std::{collections::BTreeMap, fs};", &["2 Pure"]);
        check(path, "fn f() { std::env::var(\"X\"); }", &["2 Pure"]);
        check(path, "use std::fmt; // tokio, std::fs", &[]);
        check("crates/store/src/lib.rs", "use std::fs; use tokio::time::Instant;", &[]);
    }

    #[test]
    fn long_files_are_split() {
        check("crates/cli/src/a.rs", &"\n".repeat(598), &[]);
        check("crates/cli/src/a.rs", &"\n".repeat(599), &["601 Length"]);
    }
}
