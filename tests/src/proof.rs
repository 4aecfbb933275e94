//! Figures of a proof, for the page that `cargo xtask prove` writes.
//!
//! A proof is a test named `prove_…` that ordinary runs leave out. It says how much it did by writing one JSON file into
//! the folder that `ZUNO_PROOF_DIR` names; without that it only passes or fails.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Map, Value, json};

/// How much a proof does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// What fits into a quarter of an hour for all proofs together.
    Plain,
    /// The full counts.
    Long,
}

impl Effort {
    /// What `ZUNO_PROOF` asks for; `long` or else plain.
    pub fn asked() -> Self {
        match std::env::var("ZUNO_PROOF").as_deref() {
            Ok("long") => Self::Long,
            _ => Self::Plain,
        }
    }

    /// One of two numbers.
    pub const fn pick(self, plain: u64, long: u64) -> u64 {
        match self {
            Self::Plain => plain,
            Self::Long => long,
        }
    }
}

/// What a proof did, in the making.
pub struct Proof {
    part: &'static str,
    began: Instant,
    paragraphs: Vec<String>,
    tables: Vec<Value>,
    faults: Map<String, Value>,
}

impl Proof {
    /// The part of the page, such as `simulation`; it names the file.
    pub fn new(part: &'static str) -> Self {
        let (paragraphs, tables, faults) = (Vec::new(), Vec::new(), Map::new());
        Self { part, began: Instant::now(), paragraphs, tables, faults }
    }

    /// A paragraph of Markdown: what was done, with seeds and counts.
    #[must_use]
    pub fn paragraph(mut self, text: impl Into<String>) -> Self {
        self.paragraphs.push(text.into());
        self
    }

    /// A table.
    #[must_use]
    pub fn table<const N: usize>(
        mut self,
        caption: &str,
        columns: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
        self.tables.push(json!({ "caption": caption, "columns": columns.to_vec(), "rows": rows }));
        self
    }

    /// How often a fault was seen, and how often in the control that lacks the protection. The faults of the page's
    /// first table: `duplicated`, `lost`, `ghost`, `plan_caused`.
    #[must_use]
    pub fn fault(mut self, name: &str, seen: u64, of: u64, in_control: u64, control_of: u64) -> Self {
        let figures = json!({ "seen": seen, "of": of, "in_control": in_control, "control_of": control_of });
        self.faults.insert(name.to_owned(), figures);
        self
    }

    /// Writes the file, if a folder is named.
    pub fn write(self) {
        let Some(folder) = std::env::var_os("ZUNO_PROOF_DIR").map(PathBuf::from) else { return };
        std::fs::create_dir_all(&folder).unwrap();
        let seconds = self.began.elapsed().as_secs_f64();
        let page = json!({
            "part": self.part,
            "seconds": seconds,
            "paragraphs": self.paragraphs,
            "tables": self.tables,
            "faults": self.faults,
        });
        let text = serde_json::to_string_pretty(&page).unwrap();
        std::fs::write(folder.join(format!("{}.json", self.part)), text).unwrap();
    }
}
