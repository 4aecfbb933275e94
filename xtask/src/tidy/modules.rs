//! No Rust file is forgotten: each is the root of a cargo target or a module of one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Rule, Setting};
use crate::source::Source;

/// Folders whose Rust files are data: a test compiles or reads them.
const DATA_FOLDERS: &[&str] = &["ui", "cases", "fixtures"];

pub(super) fn check(sources: &[(&str, Source)], setting: &Setting, findings: &mut Vec<Finding>) {
    let by_path: BTreeMap<&str, &Source> = sources.iter().map(|(path, source)| (*path, source)).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<(String, bool)> =
        setting.target_roots.iter().map(|path| (path.clone(), true)).collect();
    while let Some((path, is_root)) = open.pop() {
        let Some(source) = by_path.get(path.as_str()) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        for (name, given) in source.declared_modules() {
            open.extend(module_paths(&path, is_root, name, given).into_iter().map(|path| (path, false)));
        }
    }
    for path in by_path.keys().filter(|path| is_checked(path) && !reached.contains(**path)) {
        let message = "no target and no module names this file, so nothing compiles it".to_owned();
        findings.push(Finding { rule: Rule::Unregistered, path: (*path).to_owned(), line: 1, message });
    }
}

fn is_checked(path: &str) -> bool {
    let in_workspace = ["crates/", "tests/", "xtask/"].iter().any(|root| path.starts_with(root));
    in_workspace && !path.split('/').any(|part| DATA_FOLDERS.contains(&part))
}

/// Where the module may live: `#[path]` counts from the file's folder, a plain name from the folder of its children.
fn module_paths(file: &str, is_root: bool, name: &str, given: Option<&str>) -> Vec<String> {
    let (folder, file_name) = file.rsplit_once('/').unwrap_or(("", file));
    if let Some(given) = given {
        return vec![resolve(folder, given)];
    }
    let children = if is_root || file_name == "mod.rs" {
        folder.to_owned()
    } else {
        format!("{folder}/{}", file_name.trim_end_matches(".rs"))
    };
    vec![format!("{children}/{name}.rs"), format!("{children}/{name}/mod.rs")]
}

fn resolve(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in relative.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;

    fn forgotten(files: &[(&str, &str)]) -> Vec<String> {
        let found = findings(files);
        let unregistered = found.iter().filter(|line| line.ends_with("(Unregistered)"));
        unregistered.map(|line| line.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_file_is_a_target_or_a_module_of_one() {
        let files = [
            ("crates/domain/src/lib.rs", "//! Docs.\nmod plan;\n#[path = \"odd/name.rs\"]\nmod odd;"),
            ("crates/domain/src/plan.rs", "//! Docs.\nmod diff;"),
            ("crates/domain/src/plan/diff.rs", "//! Docs."),
            ("crates/domain/src/odd/name.rs", "//! Docs."),
            ("crates/domain/tests/ui/forged.rs", ""),
            ("tests/crash/main.rs", "mod kill;"),
            ("tests/crash/kill/mod.rs", "mod points;"),
            ("tests/crash/kill/points.rs", ""),
        ];
        assert_eq!(forgotten(&files), [""; 0]);
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let files = [
            ("crates/domain/src/lib.rs", "//! Docs.\n// mod plan;"),
            ("crates/domain/src/plan.rs", "//! Docs."),
            ("tests/race.rs", ""),
        ];
        assert_eq!(forgotten(&files), ["crates/domain/src/plan.rs", "tests/race.rs"]);
    }
}
