//! What one run of the program does, from its words.

use std::path::PathBuf;

use tokio::runtime::Runtime;

use crate::benchmarks::{self, Benchmark, Setting};
use crate::error::Error;
use crate::measure::Effort;
use crate::page::{self, Section};

/// Enough for quartiles that the next run finds again.
const FULL: Effort = Effort { warm_ups: 5, rounds: 100 };

/// Enough to see that everything runs.
const SMOKE: Effort = Effort { warm_ups: 1, rounds: 2 };

/// The benchmarks to run, and what becomes of their figures.
pub(crate) struct Run {
    benchmarks: Vec<&'static Benchmark>,
    effort: Effort,
    launcher: Option<PathBuf>,
    page: Option<PathBuf>,
}

/// How the program is called.
pub(crate) fn usage() -> String {
    let names: Vec<_> = benchmarks::ALL.iter().map(|benchmark| benchmark.name).collect();
    format!(
        "Usage: bench [--launcher PROGRAM] [NAME…] [--smoke]\n       bench [--launcher PROGRAM] --report FILE\n\n\
         Benchmarks: {}",
        names.join(", ")
    )
}

impl Run {
    /// Reads the words; nothing if there is one that means nothing. A page is of all benchmarks at their full effort.
    pub(crate) fn of(words: &[String]) -> Option<Self> {
        let mut run = Self { benchmarks: Vec::new(), effort: FULL, launcher: None, page: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--smoke" => run.effort = SMOKE,
                "--launcher" => run.launcher = Some(words.next()?.into()),
                "--report" => run.page = Some(words.next()?.into()),
                name => run.benchmarks.push(benchmarks::ALL.iter().find(|known| known.name == name)?),
            }
        }
        let is_partial = !run.benchmarks.is_empty() || run.effort == SMOKE;
        if run.page.is_some() && is_partial {
            return None;
        }
        if run.benchmarks.is_empty() {
            run.benchmarks = benchmarks::ALL.iter().collect();
        }
        Some(run)
    }

    /// Runs them one after the other, prints what each came to, and writes the page if one is wanted.
    pub(crate) fn all(self) -> Result<(), Error> {
        let tasks = Runtime::new().map_err(Error::of("starting threads"))?;
        let setting = Setting { tasks, launcher: self.launcher, effort: self.effort };
        let versions = page::versions();
        println!("{versions}\n");
        let mut sections = Vec::new();
        for benchmark in self.benchmarks {
            let comparison = (benchmark.run)(&setting)?;
            let section = Section { benchmark, comparison, effort: self.effort };
            println!("{}\n{}\n\n{}", benchmark.name, section.comparison.note, section.as_text());
            sections.push(section);
        }
        if let Some(path) = self.page {
            std::fs::write(&path, page::page(&versions, &sections))
                .map_err(|source| Error::File { path, source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<Run> {
        Run::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_say_what_to_run_and_a_page_is_of_everything() {
        let all = benchmarks::ALL.len();
        let run = of(&[]).unwrap();
        assert_eq!((run.benchmarks.len(), run.effort, run.page), (all, FULL, None));
        let run = of(&["--smoke", "sandbox-cost"]).unwrap();
        assert_eq!((run.benchmarks.len(), run.effort), (1, SMOKE));
        assert_eq!(of(&["--launcher", "zuno"]).unwrap().launcher, Some("zuno".into()));
        assert_eq!(of(&["--report", "page.md"]).unwrap().page, Some("page.md".into()));
        for wrong in [
            &["sandbox-costs"][..],
            &["--report"],
            &["--report", "page.md", "sandbox-cost"],
            &["--report", "page.md", "--smoke"],
        ] {
            assert!(of(wrong).is_none(), "{wrong:?}");
        }
    }
}
