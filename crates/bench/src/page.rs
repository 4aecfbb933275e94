//! Figures for people: as text, and as the page that `--report` writes.

use std::fmt::Write as _;

use crate::benchmarks::Benchmark;
use crate::measure::{Comparison, Effort, Measured};

/// What one benchmark came to.
pub(crate) struct Section<'b> {
    pub(crate) benchmark: &'b Benchmark,
    pub(crate) comparison: Comparison,
    pub(crate) effort: Effort,
}

/// What was measured with what.
pub(crate) fn versions() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // What a distribution or a host adds to the number says nothing to others.
    let number: String = kernel.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    // Of the last minute: a machine that has other things to do gives other times.
    let load = load.split(' ').next().unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "zuno {}, rustc {} (opt-level {}), Linux {number}, {processors} processors under a load of {load}",
        env!("CARGO_PKG_VERSION"),
        env!("BENCH_RUSTC"),
        env!("BENCH_OPT_LEVEL"),
    )
}

/// The page of all benchmarks.
pub(crate) fn page(versions: &str, sections: &[Section<'_>]) -> String {
    let mut page = String::from("# What things cost\n\n");
    let _ = write!(
        page,
        "`cargo xtask bench --report` wrote this page; changes by hand are lost.\n\n\
         Measured with: {versions}.\n\n\
         The candidates of a benchmark are run in turn by one process: each once in a round, and each round begins with \
         another. A ratio or a difference is the median of those within the rounds. What slows the machine for a while \
         slows a whole round and changes its ratios little; times and differences, in milliseconds, are of the machine \
         that wrote this page.\n",
    );
    for section in sections {
        let Section { benchmark, comparison, effort } = section;
        let _ = write!(
            page,
            "\n## {}\n\n{} {}\n\n{} rounds, after {} that do not count.\n\n",
            benchmark.name, benchmark.about, comparison.note, effort.rounds, effort.warm_ups
        );
        let rows = section.rows();
        for (at, row) in rows.iter().enumerate() {
            let _ = writeln!(page, "| {} |", row.join(" | "));
            if at == 0 {
                let _ = writeln!(page, "|---|{}", "---:|".repeat(row.len() - 1));
            }
        }
    }
    page
}

impl Section<'_> {
    /// The table with its head: a row for each candidate.
    fn rows(&self) -> Vec<Vec<String>> {
        let Comparison { measured, baselines, .. } = &self.comparison;
        let baselines: Vec<_> = baselines.iter().filter_map(|at| measured.get(*at)).collect();
        let mut head = ["", "median, ms", "quartiles, ms"].map(str::to_owned).to_vec();
        head.extend(baselines.iter().map(|base| format!("against {}", base.name)));
        let row = |one| {
            let [lower, median, upper] = Measured::quartiles(one).map(in_ms);
            let mut row = vec![one.name.to_owned(), median, format!("{lower} to {upper}")];
            row.extend(baselines.iter().map(|base| {
                let (ratio, difference) = one.against(base);
                let sign = if difference < 0.0 { "−" } else { "+" };
                format!("× {ratio:.2}, {sign}{} ms", in_ms(difference.abs()))
            }));
            row
        };
        std::iter::once(head).chain(measured.iter().map(row)).collect()
    }

    /// The table in columns.
    pub(crate) fn as_text(&self) -> String {
        let rows = self.rows();
        let columns = rows.first().map_or(0, Vec::len);
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cell = |(at, cell): (usize, &String)| match at {
                0 => format!("{cell:<width$}", width = widths[at]),
                _ => format!("{cell:>width$}", width = widths[at]),
            };
            row.iter().enumerate().map(cell).collect::<Vec<_>>().join("   ") + "\n"
        };
        rows.iter().map(line).collect()
    }
}

fn in_ms(seconds: f64) -> String {
    format!("{:.2}", seconds * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::ALL;

    #[test]
    fn a_section_has_a_row_for_each_candidate_and_a_column_for_each_baseline() {
        let measured = |name, seconds: [f64; 2]| Measured { name, seconds: seconds.to_vec() };
        let comparison = Comparison {
            measured: vec![measured("bare", [0.001, 0.001]), measured("walls", [0.004, 0.005])],
            baselines: &[0],
            note: "Today.".to_owned(),
        };
        let run = |_: &_| unreachable!("it was measured already");
        let benchmark = Benchmark { name: "cost", about: "What it costs.", run };
        let effort = Effort { warm_ups: 1, rounds: 2 };
        let page = page("this", &[Section { benchmark: &benchmark, comparison, effort }]);
        let table = page
            .split_once("## cost\n\nWhat it costs. Today.\n\n2 rounds, after 1 that do not count.\n\n")
            .unwrap()
            .1;
        assert_eq!(
            table,
            "|  | median, ms | quartiles, ms | against bare |\n|---|---:|---:|---:|\n\
             | bare | 1.00 | 1.00 to 1.00 | × 1.00, +0.00 ms |\n\
             | walls | 4.50 | 4.25 to 4.75 | × 4.50, +3.50 ms |\n"
        );
    }

    #[test]
    fn the_page_in_the_documentation_is_of_these_benchmarks() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/performance.md");
        let page = std::fs::read_to_string(path).unwrap();
        let found: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let names: Vec<_> = ALL.iter().map(|benchmark| benchmark.name).collect();
        assert_eq!(found, names, "run `cargo xtask bench --report`");
        for benchmark in ALL {
            assert!(page.contains(benchmark.about), "{}: run `cargo xtask bench --report`", benchmark.name);
        }
    }
}
