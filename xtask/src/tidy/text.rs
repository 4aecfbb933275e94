//! Rules for text of any kind.

use super::{Finding, Rule, Setting};
use crate::workspace::TextFile;

/// Spelt in two halves, so that this file does not contain what it looks for.
const FORBIDDEN: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("registry.npm", "js.org"),
    ("files.python", "hosted.org"),
    ("static.rust", "-lang.org"),
    ("deb.deb", "ian.org"),
    ("index.crates", ".io"),
];

pub(super) fn check(file: &TextFile, setting: &Setting, findings: &mut Vec<Finding>) {
    // Tools write lock files and the expectations of snapshots; nobody edits them by hand.
    let is_generated = ["lock", "snap", "stderr"].iter().any(|kind| file.is_kind(kind));
    if is_generated {
        return;
    }
    let is_rust = file.is_kind("rs");
    let forbidden: Vec<String> = FORBIDDEN.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    for (index, line) in file.text.lines().enumerate() {
        let mut found = |rule, message: String| {
            findings.push(Finding { rule, path: file.path.clone(), line: index + 1, message });
        };
        if line.ends_with(char::is_whitespace) {
            found(Rule::TrailingSpace, "white space at the end of the line".to_owned());
        }
        if is_rust && line.contains('\t') {
            found(Rule::Tab, "a tab".to_owned());
        }
        for text in &forbidden {
            if line.contains(text) {
                found(Rule::MachinePath, format!("`{text}` belongs to one machine or host"));
            }
        }
        for path in &setting.machine_paths {
            if names_path(line, path) {
                found(Rule::MachinePath, format!("`{path}` is a path of this machine"));
            }
        }
    }
}

/// Whether the line holds this path or one beneath it, as whole components.
fn names_path(line: &str, path: &str) -> bool {
    let in_component = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    line.match_indices(path).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + path.len()..]);
        !before.ends_with(in_component) && !before.ends_with('/') && !after.starts_with(in_component)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;

    #[test]
    fn white_space_is_kept_clean() {
        assert_eq!(
            findings(&[("docs/a.md", "x \ny"), ("docs/b.rs", "//! x\n\ty"), ("a.snap", "x ")]),
            ["docs/a.md:1: white space at the end of the line (TrailingSpace)", "docs/b.rs:2: a tab (Tab)",]
        );
    }

    #[test]
    fn no_text_names_its_machine() {
        let work = concat!("cd /wo", "rk/main");
        let found = findings(&[
            ("README.md", work),
            ("a.toml", "/srv/checkout/x"),
            ("b.toml", "/srv/checkout2 a/srv/checkout"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("README.md:1: "));
        assert!(found[1].starts_with("a.toml:1: "));
    }
}
