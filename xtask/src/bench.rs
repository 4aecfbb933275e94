//! `bench`: measures what things cost with the program of `crates/bench`, and has it write `docs/reference/performance.md`.

use std::process::Command;

use crate::error::Error;
use crate::prove::cargo;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Where the page is, from the root.
const PAGE: &str = "docs/reference/performance.md";

/// What to measure, from the words after the verb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// All of them if there is none.
    names: Vec<String>,
    is_smoke: bool,
    writes_page: bool,
}

impl Run {
    /// Reads names of benchmarks, `--smoke` and `--report`; nothing if there is another word, or if a page is wanted of a
    /// part: it is of all benchmarks.
    pub(crate) fn of(words: &[&str]) -> Option<Self> {
        let mut run = Self { names: Vec::new(), is_smoke: false, writes_page: false };
        for word in words {
            match *word {
                "--smoke" => run.is_smoke = true,
                "--report" => run.writes_page = true,
                name if name.starts_with('-') => return None,
                name => run.names.push(name.to_owned()),
            }
        }
        let is_partial = run.is_smoke || !run.names.is_empty();
        (!run.writes_page || !is_partial).then_some(run)
    }

    /// The words of cargo that build. Figures are of what people use, which is optimised; to see that it runs, any build
    /// will do.
    fn build(&self) -> String {
        let release = if self.is_smoke { "" } else { " --release" };
        format!("build --package bench --package cli{release}")
    }

    /// Where the programs are, beneath the folder of cargo's results.
    const fn folder(&self) -> &'static str {
        if self.is_smoke { "debug" } else { "release" }
    }

    /// The words of the program that measures. The walls are put up by the program that people use.
    fn measure(&self, zuno: &str) -> Vec<String> {
        let mut words = vec!["--launcher".to_owned(), zuno.to_owned()];
        words.extend(self.names.iter().cloned());
        if self.is_smoke {
            words.push("--smoke".to_owned());
        }
        if self.writes_page {
            words.extend(["--report".to_owned(), PAGE.to_owned()]);
        }
        words
    }
}

pub(crate) fn run(workspace: &Workspace, run: &Run) -> Result<(), Error> {
    let folder = workspace.metadata()?.target_directory.join(run.folder());
    let mut steps = Steps::default();
    let verdict = cargo(&mut steps, workspace, "build", &run.build(), &[]).and_then(|()| {
        // Started here and not by cargo, which would build it anew: alone it has other features.
        steps.run("bench", || {
            measure(workspace, folder.join("bench").as_str(), &run.measure(folder.join("zuno").as_str()))
        })
    });
    steps.print();
    verdict
}

fn measure(workspace: &Workspace, program: &str, words: &[String]) -> Result<(), Error> {
    let command = format!("{program} {}", words.join(" "));
    println!("   {command}");
    let status = Command::new(program).args(words).current_dir(&workspace.root).status();
    let status = status.map_err(|source| Error::Start { command: command.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Command { command, status: status.to_string() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(words: &[&str]) -> Option<String> {
        let run = Run::of(words)?;
        Some(format!("{}\n{} {}", run.build(), run.folder(), run.measure("zuno").join(" ")))
    }

    #[test]
    fn the_words_say_what_is_measured_and_how_it_is_built() {
        assert_eq!(
            lines(&["--report"]).unwrap(),
            "build --package bench --package cli --release\n\
             release --launcher zuno --report docs/reference/performance.md"
        );
        assert_eq!(
            lines(&["sandbox-cost", "--smoke"]).unwrap(),
            "build --package bench --package cli\n\
             debug --launcher zuno sandbox-cost --smoke"
        );
        for wrong in [&["--long"][..], &["--report", "sandbox-cost"], &["--report", "--smoke"]] {
            assert_eq!(lines(wrong), None);
        }
    }
}
