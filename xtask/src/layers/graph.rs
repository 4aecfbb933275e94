//! What the packages really depend on, and which of the workspace's crates their sources name.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::DependencyKind;

use crate::{
    error::Error,
    source::{Source, in_identifier},
    workspace::Workspace,
};

pub(super) type Graph = BTreeMap<String, Package>;

#[derive(Debug)]
pub(super) struct Package {
    pub(super) dependencies: Vec<(String, Kind)>,
    /// Crates of the workspace that a file under `src` names.
    pub(super) mentions: BTreeSet<String>,
}

/// A build script runs while the product is built, so its dependencies count as normal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Dev,
}

impl Package {
    pub(super) fn uses(&self, name: &str, kind: Kind) -> bool {
        self.dependencies.iter().any(|(to, of)| to == name && *of == kind)
    }
}

pub(super) fn read(workspace: &Workspace) -> Result<Graph, Error> {
    let metadata = workspace.metadata()?;
    let files = workspace.text_files()?;
    let members: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut graph = Graph::new();
    for package in &metadata.packages {
        let kind = |kind| if kind == DependencyKind::Development { Kind::Dev } else { Kind::Normal };
        let folder = package.manifest_path.parent().and_then(|it| it.strip_prefix(&workspace.root).ok());
        let src = folder.map(|folder| format!("{folder}/src/")).unwrap_or_default();
        let mentions = files
            .iter()
            .filter(|file| file.path.starts_with(&src) && file.is_kind("rs"))
            .map(|file| Source::parse(&file.text))
            .flat_map(|source| members.iter().filter(move |name| names_crate(&source, name)))
            .map(|name| (*name).to_owned())
            .collect();
        let dependencies = package.dependencies.iter().map(|it| (it.name.clone(), kind(it.kind))).collect();
        graph.insert(package.name.to_string(), Package { dependencies, mentions });
    }
    Ok(graph)
}

/// Whether a path in the source starts at this crate: `domain::Plan` does, `tokio::runtime::Builder` does not.
fn names_crate(source: &Source, name: &str) -> bool {
    source.words(name).any(|offset| {
        let (before, after) = (&source.code[..offset], &source.code[offset + name.len()..]);
        let starts_a_path = before.strip_suffix("::").is_none_or(|head| !head.ends_with(in_identifier));
        starts_a_path && (after.starts_with("::") || before.trim_end().ends_with("use"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_where_a_path_starts_at_it() {
        let named = |text| names_crate(&Source::parse(text), "runtime");
        for text in
            ["use runtime::X;", "use runtime as r;", "f(runtime::x())", "pub use runtime;", "::runtime::X"]
        {
            assert!(named(text), "{text}");
        }
        for text in
            ["use tokio::runtime::X;", "let runtime = 1;", "// runtime::X", "my_runtime::x()", "x.runtime"]
        {
            assert!(!named(text), "{text}");
        }
    }
}
