//! Who may use whom: the packages of the workspace against `layers.toml`.

mod graph;
mod table;

use std::collections::BTreeSet;

use crate::{error::Error, report, workspace::Workspace};
use graph::{Graph, Kind, Package};
use table::{Layer, Table};

pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    let table = read_table(workspace)?;
    let graph = graph::read(workspace)?;
    report("layers", &check(&table, &graph))?;
    let edges: usize = table.crates.values().map(|layer| layer.may_use.len()).sum();
    println!("layers: {} crates and {edges} edges as listed", table.crates.len());
    Ok(())
}

/// The crates that do no input or output, read no clock and use no chance.
pub(crate) fn pure_crates(workspace: &Workspace) -> Result<Vec<String>, Error> {
    let table = read_table(workspace)?;
    Ok(table.crates.into_iter().filter(|(_, layer)| layer.pure).map(|(name, _)| name).collect())
}

fn read_table(workspace: &Workspace) -> Result<Table, Error> {
    Ok(toml::from_str(&workspace.read("layers.toml")?)?)
}

fn check(table: &Table, graph: &Graph) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, package) in graph {
        match table.crates.get(name) {
            Some(layer) => {
                check_edges(table, graph, name, package, layer, &mut findings);
                check_outside(table, graph, name, package, layer, &mut findings);
            }
            None => findings.push(format!("{name} is not listed in layers.toml")),
        }
    }
    check_entries_are_needed(table, graph, &mut findings);
    findings
}

fn check_edges(
    table: &Table,
    graph: &Graph,
    name: &str,
    package: &Package,
    layer: &Layer,
    findings: &mut Vec<String>,
) {
    if layer.unrestricted {
        return;
    }
    for (to, kind) in package.dependencies.iter().filter(|(to, _)| graph.contains_key(to)) {
        let dev_only = table.crates.get(to).is_some_and(|layer| layer.dev_only);
        match kind {
            Kind::Normal if dev_only => {
                findings.push(format!("{name} → {to}: {to} may only be a dev-dependency"));
            }
            Kind::Normal if !layer.may_use.contains(to) => {
                findings.push(format!("{name} → {to}: this edge is not listed in layers.toml"));
            }
            Kind::Dev if !dev_only && !table.below(name).contains(to.as_str()) => {
                findings.push(format!("{name} → {to}: a dev-dependency must point downward"));
            }
            Kind::Normal | Kind::Dev => {}
        }
    }
    for to in &layer.may_use {
        if !package.uses(to, Kind::Normal) {
            findings.push(format!("{name} → {to}: listed, but the manifest does not have it"));
        } else if !package.mentions.contains(to) {
            findings.push(format!("{name} → {to}: listed, but no source file of {name} names {to}"));
        }
    }
}

fn check_outside(
    table: &Table,
    graph: &Graph,
    name: &str,
    package: &Package,
    layer: &Layer,
    findings: &mut Vec<String>,
) {
    if layer.unrestricted {
        return;
    }
    for (outside, kind) in package.dependencies.iter().filter(|(to, _)| !graph.contains_key(to)) {
        let common = &table.common;
        let is_common = common.everywhere.contains(outside)
            || (common.impure.contains(outside) && !layer.pure)
            || (common.tests.contains(outside) && layer.dev_only);
        let holders = table.holders(outside);
        if is_common || holders.contains(name) || (*kind == Kind::Dev && holders.is_empty()) {
            continue;
        }
        findings.push(if common.impure.contains(outside) {
            format!("{name} uses {outside}: {name} is pure")
        } else if holders.is_empty() {
            format!("{name} uses {outside}: it is neither common, owned nor shared in layers.toml")
        } else {
            let holders: Vec<_> = holders.into_iter().collect();
            format!("{name} uses {outside}: it belongs to {} alone", holders.join(", "))
        });
    }
}

/// An entry that nobody needs is a permission that nobody reviewed for its next use.
fn check_entries_are_needed(table: &Table, graph: &Graph, findings: &mut Vec<String>) {
    let used_by = |name: &str, outside: &str| {
        graph.get(name).is_some_and(|package| package.dependencies.iter().any(|(to, _)| to == outside))
    };
    for (name, layer) in &table.crates {
        if !graph.contains_key(name) {
            findings.push(format!("{name} is listed, but is no crate of this workspace"));
            continue;
        }
        for outside in layer.owns.iter().filter(|outside| !used_by(name, outside)) {
            findings.push(format!("{name} owns {outside}, but does not use it"));
        }
    }
    for shared in &table.shared {
        if shared.reason.trim().is_empty() {
            findings.push(format!("{} is shared without a reason", shared.outside));
        }
        for name in shared.by.iter().filter(|name| !used_by(name, &shared.outside)) {
            findings.push(format!("{} is shared with {name}, which does not use it", shared.outside));
        }
    }
    for outside in table.common.all().filter(|outside| !graph.keys().any(|name| used_by(name, outside))) {
        findings.push(format!("{outside} is common, but no crate uses it"));
    }
    for (outside, owners) in table.all_holders() {
        if owners.len() != owners.iter().collect::<BTreeSet<_>>().len() {
            findings.push(format!("{outside} is listed twice for the same crate"));
        } else if owners.len() > 1 && !table.shared.iter().any(|shared| shared.outside == outside) {
            findings.push(format!("{outside} is owned by {}: list it as shared", owners.join(" and ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [common]
        everywhere = ["serde"]
        impure = ["tokio"]
        tests = ["proptest"]
        [crates.domain]
        pure = true
        owns = ["icu"]
        [crates.store]
        may_use = ["domain"]
        owns = ["sqlx"]
        [crates.cli]
        may_use = ["domain", "store"]
        [crates.testkit]
        dev_only = true
        may_use = ["domain"]
        [crates.tests]
        dev_only = true
        unrestricted = true
        [[shared]]
        crate = "sha2"
        by = ["store", "cli"]
        reason = "digests"
    "#;

    const GRAPH: &[(&str, &str, &str)] = &[
        ("domain", "serde icu", "proptest testkit"),
        ("store", "domain sqlx sha2 tokio", "tempfile testkit"),
        ("cli", "domain store sha2 serde", ""),
        ("testkit", "domain proptest", ""),
        ("tests", "", "cli store testkit sqlx"),
    ];

    /// A graph in which every dependency on a crate of the workspace is also named in source.
    fn graph(rows: &[(&str, &str, &str)]) -> Graph {
        let package = |normal: &str, dev: &str| {
            let of = |names: &str, kind| {
                names.split_whitespace().map(move |name| (name.to_owned(), kind)).collect::<Vec<_>>()
            };
            Package {
                dependencies: [of(normal, Kind::Normal), of(dev, Kind::Dev)].concat(),
                mentions: normal.split_whitespace().map(str::to_owned).collect(),
            }
        };
        rows.iter().map(|(name, normal, dev)| ((*name).to_owned(), package(normal, dev))).collect()
    }

    /// Checks `GRAPH` with the row of `name` replaced (an unknown name is added).
    fn with(name: &'static str, normal: &'static str, dev: &'static str) -> Vec<String> {
        let mut rows: Vec<_> = GRAPH.iter().copied().filter(|row| row.0 != name).collect();
        rows.push((name, normal, dev));
        check(&toml::from_str(TABLE).unwrap(), &graph(&rows))
    }

    #[test]
    fn the_listed_graph_passes() {
        assert_eq!(check(&toml::from_str(TABLE).unwrap(), &graph(GRAPH)), [""; 0]);
    }

    #[test]
    fn an_unlisted_crate_and_a_missing_one_fail() {
        assert_eq!(with("tui", "", ""), ["tui is not listed in layers.toml"]);
        let rows: Vec<_> = GRAPH.iter().copied().filter(|row| row.0 != "tests").collect();
        assert_eq!(
            check(&toml::from_str(TABLE).unwrap(), &graph(&rows)),
            ["tests is listed, but is no crate of this workspace"]
        );
    }

    #[test]
    fn an_unlisted_edge_fails() {
        assert_eq!(
            with("domain", "serde icu store", ""),
            ["domain → store: this edge is not listed in layers.toml"]
        );
    }

    #[test]
    fn a_listed_edge_that_nobody_uses_fails() {
        assert_eq!(
            with("cli", "store sha2", ""),
            ["cli → domain: listed, but the manifest does not have it"]
        );
        let mut graph = graph(GRAPH);
        graph.get_mut("cli").unwrap().mentions.remove("domain");
        assert_eq!(
            check(&toml::from_str(TABLE).unwrap(), &graph),
            ["cli → domain: listed, but no source file of cli names domain"]
        );
    }

    #[test]
    fn an_outside_crate_stays_with_its_owner_in_tests_too() {
        let expected = ["cli uses sqlx: it belongs to store alone"];
        assert_eq!(with("cli", "domain store sha2 sqlx", ""), expected);
        assert_eq!(with("cli", "domain store sha2", "sqlx"), expected);
    }

    #[test]
    fn an_outside_crate_without_a_place_fails() {
        assert_eq!(
            with("cli", "domain store sha2 rand", ""),
            ["cli uses rand: it is neither common, owned nor shared in layers.toml"]
        );
        assert_eq!(with("cli", "domain store sha2", "rand"), [""; 0]);
    }

    #[test]
    fn a_pure_crate_uses_nothing_impure() {
        assert_eq!(with("domain", "serde icu tokio", ""), ["domain uses tokio: domain is pure"]);
    }

    #[test]
    fn testkit_is_a_dev_dependency() {
        assert_eq!(
            with("cli", "domain store sha2 testkit", ""),
            ["cli → testkit: testkit may only be a dev-dependency"]
        );
    }

    #[test]
    fn a_dev_dependency_points_downward() {
        assert_eq!(
            with("store", "domain sqlx sha2 tokio", "cli"),
            ["store → cli: a dev-dependency must point downward"]
        );
    }

    #[test]
    fn an_entry_that_nobody_needs_fails() {
        assert_eq!(with("domain", "serde", ""), ["domain owns icu, but does not use it"]);
        assert_eq!(with("cli", "domain store", ""), ["sha2 is shared with cli, which does not use it"]);
        assert_eq!(with("store", "domain sqlx sha2", ""), ["tokio is common, but no crate uses it"]);
    }

    #[test]
    fn two_owners_must_say_why() {
        let table = TABLE.replace(r#"owns = ["icu"]"#, r#"owns = ["icu", "sqlx"]"#);
        let rows = [&[("domain", "serde icu sqlx", "")], &GRAPH[1..]].concat();
        assert_eq!(
            check(&toml::from_str(&table).unwrap(), &graph(&rows)),
            ["sqlx is owned by domain and store: list it as shared"]
        );
        let table = TABLE.replace("\"digests\"", "\" \"");
        assert_eq!(
            check(&toml::from_str(&table).unwrap(), &graph(GRAPH)),
            ["sha2 is shared without a reason"]
        );
    }

    #[test]
    fn this_workspace_keeps_its_layers() {
        let workspace = Workspace::find().unwrap();
        let findings = check(&read_table(&workspace).unwrap(), &graph::read(&workspace).unwrap());
        assert_eq!(findings, [""; 0]);
    }
}
