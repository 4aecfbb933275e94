//! The benchmarks by name. A new one is a file here and a line in [`ALL`].

mod sandbox_cost;

use std::path::PathBuf;

use tokio::runtime::Runtime;

use crate::error::Error;
use crate::measure::{Comparison, Effort};

/// The word that makes this program a launcher, as it does with `zuno`.
pub(crate) const LAUNCHER_VERB: &str = "sandbox-exec";

/// What benchmarks have around them.
pub(crate) struct Setting {
    /// For what is asynchronous.
    pub(crate) tasks: Runtime,
    /// The program that puts up walls; this very one if it is not said.
    pub(crate) launcher: Option<PathBuf>,
    /// How often things are done.
    pub(crate) effort: Effort,
}

/// Something that is measured.
pub(crate) struct Benchmark {
    /// What it is called on the command line and on the page.
    pub(crate) name: &'static str,
    /// What is compared and how, in Markdown.
    pub(crate) about: &'static str,
    /// Measures it.
    pub(crate) run: fn(&Setting) -> Result<Comparison, Error>,
}

/// All of them, in the order of the page.
pub(crate) const ALL: &[Benchmark] = &[sandbox_cost::BENCHMARK];
