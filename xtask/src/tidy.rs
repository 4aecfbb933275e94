//! The house rules as checks over every tracked text file, with a list of exceptions that may not outlive their need.

mod exceptions;
mod modules;
mod rust;
mod text;

use std::{collections::BTreeSet, fmt};

use crate::{
    error::Error,
    layers, report,
    source::Source,
    workspace::{TextFile, Workspace},
};
use exceptions::{EXCEPTIONS, Exception};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// `#[expect(…, reason = "…")]` tells when it is not needed; `#[allow]` stays for ever.
    Allow,
    /// An `#[expect]` says why.
    ExpectReason,
    /// No `todo!`, `unimplemented!` or `dbg!`.
    Unfinished,
    /// A file starts with what it is for.
    ModuleDocs,
    /// SQL lives in `store`.
    Sql,
    /// `domain`, `policy` and `agents` read no clock, file, environment or chance.
    Pure,
    /// A long file holds more than one idea.
    Length,
    /// Comments say why the code is as it is, not how it came to be.
    History,
    /// A file that no module names is never compiled.
    Unregistered,
    /// An open point says in parentheses what it waits for.
    Todo,
    /// Nothing names the machine it was written on, or the host that a registry happens to use.
    MachinePath,
    TrailingSpace,
    Tab,
}

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    rule: Rule,
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} ({:?})", self.path, self.line, self.message, self.rule)
    }
}

/// What the rules depend on besides the text itself.
struct Setting {
    pure_crates: Vec<String>,
    /// Root files of all cargo targets, relative to the workspace.
    target_roots: BTreeSet<String>,
    /// Where this checkout and its user live.
    machine_paths: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    let files = workspace.text_files()?;
    let findings = check(&files, &setting(workspace)?, EXCEPTIONS);
    report("tidy", &findings)?;
    println!("tidy: {} files, {} exceptions", files.len(), EXCEPTIONS.len());
    Ok(())
}

fn setting(workspace: &Workspace) -> Result<Setting, Error> {
    let metadata = workspace.metadata()?;
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let target_roots = targets
        .filter_map(|target| target.src_path.strip_prefix(&workspace.root).ok())
        .map(ToString::to_string)
        .collect();
    let home = std::env::var("HOME").unwrap_or_default();
    let machine_paths = [workspace.root.display().to_string(), home]
        .into_iter()
        // The root folder itself, or nothing, would be found everywhere.
        .filter(|path| path.len() > 1)
        .collect();
    Ok(Setting { pure_crates: layers::pure_crates(workspace)?, target_roots, machine_paths })
}

fn check(files: &[TextFile], setting: &Setting, exceptions: &[Exception]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for file in files {
        text::check(file, setting, &mut findings);
        if file.is_kind("rs") {
            let source = Source::parse(&file.text);
            rust::check(file, &source, setting, &mut findings);
            sources.push((file.path.as_str(), source));
        }
    }
    modules::check(&sources, setting, &mut findings);
    apply(&findings, exceptions)
}

fn apply(findings: &[Finding], exceptions: &[Exception]) -> Vec<String> {
    let excepts = |exception: &Exception, finding: &Finding| {
        finding.rule == exception.rule && finding.path == exception.path
    };
    let unneeded = exceptions
        .iter()
        .filter(|exception| !findings.iter().any(|finding| excepts(exception, finding)))
        .map(|Exception { rule, path, reason }| format!("{path}: {rule:?} needs no exception ({reason})"));
    let mut lines: Vec<String> = findings
        .iter()
        .filter(|finding| !exceptions.iter().any(|exception| excepts(exception, finding)))
        .map(ToString::to_string)
        .collect();
    lines.extend(unneeded);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rules say about a tree of these files, one line each, without exceptions.
    pub(super) fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let setting = Setting {
            pure_crates: vec!["domain".to_owned()],
            target_roots: ["crates/domain/src/lib.rs", "tests/crash/main.rs"].map(str::to_owned).into(),
            machine_paths: vec!["/srv/checkout".to_owned()],
        };
        let file =
            |(path, text): &(&str, &str)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() };
        check(&files.iter().map(file).collect::<Vec<_>>(), &setting, &[])
    }

    #[test]
    fn an_exception_covers_one_rule_in_one_file_and_must_be_needed() {
        let finding =
            |rule, path: &str| Finding { rule, path: path.to_owned(), line: 1, message: "m".to_owned() };
        let exception = |rule, path| Exception { rule, path, reason: "r" };
        let found = [finding(Rule::Tab, "a.rs"), finding(Rule::Sql, "a.rs"), finding(Rule::Tab, "b.rs")];
        assert_eq!(
            apply(&found, &[exception(Rule::Tab, "a.rs"), exception(Rule::Tab, "c.rs")]),
            ["a.rs:1: m (Sql)", "b.rs:1: m (Tab)", "c.rs: Tab needs no exception (r)"]
        );
    }

    #[test]
    fn every_exception_has_a_reason() {
        assert!(EXCEPTIONS.iter().all(|exception| !exception.reason.trim().is_empty()));
    }

    #[test]
    fn this_tree_is_tidy() {
        let workspace = Workspace::find().unwrap();
        let findings = check(&workspace.text_files().unwrap(), &setting(&workspace).unwrap(), EXCEPTIONS);
        assert_eq!(findings, [""; 0]);
    }
}
