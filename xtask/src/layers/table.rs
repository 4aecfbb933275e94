//! `layers.toml` as data.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) common: Common,
    pub(super) crates: BTreeMap<String, Layer>,
    #[serde(default)]
    pub(super) shared: Vec<Shared>,
}

/// Outside crates that need no owner.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Common {
    pub(super) everywhere: BTreeSet<String>,
    pub(super) impure: BTreeSet<String>,
    /// For `dev_only` crates; everyone else has them as dev-dependencies, which are free.
    pub(super) tests: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layer {
    #[serde(default)]
    pub(super) may_use: BTreeSet<String>,
    /// Outside crates that no other crate may use.
    #[serde(default)]
    pub(super) owns: BTreeSet<String>,
    #[serde(default)]
    pub(super) pure: bool,
    /// Only ever a dev-dependency of others.
    #[serde(default)]
    pub(super) dev_only: bool,
    /// May use every crate, inside and outside.
    #[serde(default)]
    pub(super) unrestricted: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shared {
    #[serde(rename = "crate")]
    pub(super) outside: String,
    pub(super) by: Vec<String>,
    pub(super) reason: String,
}

impl Common {
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        [&self.everywhere, &self.impure, &self.tests].into_iter().flatten().map(String::as_str)
    }
}

impl Table {
    /// The crates that own or share an outside crate.
    pub(super) fn holders(&self, outside: &str) -> BTreeSet<&str> {
        self.all_holders().remove(outside).into_iter().flatten().collect()
    }

    pub(super) fn all_holders(&self) -> BTreeMap<&str, Vec<&str>> {
        let owned = self.crates.iter().flat_map(|(name, layer)| layer.owns.iter().map(move |it| (it, name)));
        let shared =
            self.shared.iter().flat_map(|shared| shared.by.iter().map(move |name| (&shared.outside, name)));
        let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (outside, name) in owned.chain(shared) {
            holders.entry(outside).or_default().push(name);
        }
        holders
    }

    /// Every crate that can be reached from `name` along listed edges.
    pub(super) fn below(&self, name: &str) -> BTreeSet<&str> {
        let mut below = BTreeSet::new();
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            for next in self.crates.get(name).into_iter().flat_map(|layer| &layer.may_use) {
                if below.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        below
    }
}
