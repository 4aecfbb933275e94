//! `test` and `ci`: a row of timed steps that stops at the first failure and always ends with its table.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{error::Error, fuzz, layers, rules, tidy, workspace::Workspace};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Checks,
    Everything,
}

pub(crate) fn ci(workspace: &Workspace, scope: Scope) -> Result<(), Error> {
    let mut steps = Steps::default();
    let verdict = run_ci(workspace, scope, &mut steps);
    steps.print();
    verdict
}

pub(crate) fn test(workspace: &Workspace) -> Result<(), Error> {
    let mut steps = Steps::default();
    let verdict = run_tests(workspace, &mut steps);
    steps.print();
    verdict
}

fn run_ci(workspace: &Workspace, scope: Scope, steps: &mut Steps) -> Result<(), Error> {
    // What answers at once goes first.
    steps.cargo(workspace, "fmt", &["fmt", "--all", "--check"])?;
    steps.run("layers", || layers::run(workspace))?;
    steps.run("tidy", || tidy::run(workspace))?;
    steps.run("rules", || rules::run(workspace, rules::Format::Problems))?;
    steps.cargo(workspace, "clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    steps.cargo(
        workspace,
        "deny",
        &["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    )?;
    match scope {
        Scope::Checks => Ok(()),
        Scope::Everything => {
            run_tests(workspace, steps)?;
            fuzz::steps(workspace, &fuzz::SMOKE, steps)
        }
    }
}

fn run_tests(workspace: &Workspace, steps: &mut Steps) -> Result<(), Error> {
    // All targets at once: the tests start the real binary, and one build unifies features once.
    steps.cargo(workspace, "build", &["build", "--workspace", "--all-targets"])?;
    if has_nextest() {
        steps.cargo(workspace, "tests", &["nextest", "run", "--workspace"])?;
    } else {
        println!(
            "cargo-nextest is not installed: cargo's own runner is used, one test binary after the other"
        );
        steps.cargo(workspace, "tests", &["test", "--workspace", "--all-targets", "--no-fail-fast"])?;
    }
    steps.cargo(workspace, "doctests", &["test", "--workspace", "--doc"])
}

fn has_nextest() -> bool {
    Command::new(cargo())
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that started this process, so that every step uses one toolchain.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// What was done so far, and how long each part took.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Steps {
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        println!("── {name}");
        let start = Instant::now();
        let verdict = work();
        self.done.push(Step { name, took: start.elapsed(), passed: verdict.is_ok() });
        verdict
    }

    pub(crate) fn cargo(
        &mut self,
        workspace: &Workspace,
        name: &'static str,
        args: &[&str],
    ) -> Result<(), Error> {
        self.cargo_with(workspace, name, args, &[])
    }

    /// The same with more variables in the environment.
    pub(crate) fn cargo_with(
        &mut self,
        workspace: &Workspace,
        name: &'static str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<(), Error> {
        let command = format!("cargo {}", args.join(" "));
        self.run(name, || {
            println!("   {command}");
            let status = Command::new(cargo())
                .args(args)
                .envs(variables.iter().copied())
                .current_dir(&workspace.root)
                .status();
            let status = status.map_err(|source| Error::Start { command: command.clone(), source })?;
            if status.success() {
                return Ok(());
            }
            Err(Error::Command { command, status: status.to_string() })
        })
    }

    pub(crate) fn print(&self) {
        println!("\n{}", self.table());
    }

    fn table(&self) -> String {
        let mut rows: Vec<String> = self
            .done
            .iter()
            .map(|step| {
                let verdict = if step.passed { "ok" } else { "FAILED" };
                format!("{:<10} {:>8.1} s  {verdict}", step.name, step.took.as_secs_f64())
            })
            .collect();
        let total: Duration = self.done.iter().map(|step| step.took).sum();
        rows.push(format!("{:<10} {:>8.1} s", "total", total.as_secs_f64()));
        rows.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_step_and_the_total() {
        let step = |name, seconds, passed| Step { name, took: Duration::from_secs(seconds), passed };
        let steps = Steps { done: vec![step("fmt", 1, true), step("clippy", 61, false)] };
        assert_eq!(
            steps.table(),
            "fmt             1.0 s  ok\nclippy         61.0 s  FAILED\ntotal          62.0 s"
        );
    }
}
