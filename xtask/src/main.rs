//! The project's own checks: `cargo xtask layers | tidy | rules | test | fuzz | prove | containment | bench | ci`.
//!
//! Each check is pure over data that `workspace` collected, so each is tested on small trees held in memory.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing the verdict is what a check is for")]

mod bench;
mod containment;
mod error;
mod fuzz;
mod layers;
mod prove;
mod rules;
mod source;
mod steps;
mod tidy;
mod workspace;

use std::process::ExitCode;

use error::Error;
use workspace::Workspace;

const HELP: &str = "\
The project's own checks and tests.

Usage: cargo xtask <VERB>

Verbs:
  layers            who may use whom: the crates against layers.toml
  tidy              the house rules over every tracked file
  rules [--json]    semantic rules, their status and the tests that prove them
  test              build, run every test, then the doctests, each part timed
  fuzz [--smoke] [--seconds N] [--seed S]
                    arguments and trees drawn from a seed, for 300 s (--smoke: the same ones each time, 20 s;
                    a seed alone: its case again)
  prove [--long]    run the proofs and write docs/reference/guarantees.md (--long: the full counts)
  containment       play what agents may try to get out, and write docs/reference/containment.md
  bench [NAME…] [--smoke | --report]
                    measure what things cost (--smoke: only run each a few times; --report: all of them, and write
                    docs/reference/performance.md)
  ci [--checks]     fmt, layers, tidy, rules, clippy, deny, then test and fuzz --smoke (--checks: neither)
  help              this text

Exit codes: 0 fine, 1 a check or test failed, 2 usage.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let verdict = match args.as_slice() {
        ["layers"] => Workspace::find().and_then(|workspace| layers::run(&workspace)),
        ["tidy"] => Workspace::find().and_then(|workspace| tidy::run(&workspace)),
        ["rules"] => Workspace::find().and_then(|workspace| rules::run(&workspace, rules::Format::Table)),
        ["rules", "--json"] => {
            Workspace::find().and_then(|workspace| rules::run(&workspace, rules::Format::Json))
        }
        ["test"] => Workspace::find().and_then(|workspace| steps::test(&workspace)),
        ["fuzz", words @ ..] if let Some(run) = fuzz::Run::of(words) => {
            Workspace::find().and_then(|workspace| fuzz::run(&workspace, &run))
        }
        ["prove"] => Workspace::find().and_then(|workspace| prove::run(&workspace, prove::Effort::Plain)),
        ["prove", "--long"] => {
            Workspace::find().and_then(|workspace| prove::run(&workspace, prove::Effort::Long))
        }
        ["containment"] => Workspace::find().and_then(|workspace| containment::run(&workspace)),
        ["bench", words @ ..] if let Some(run) = bench::Run::of(words) => {
            Workspace::find().and_then(|workspace| bench::run(&workspace, &run))
        }
        ["ci"] => Workspace::find().and_then(|workspace| steps::ci(&workspace, steps::Scope::Everything)),
        ["ci", "--checks"] => {
            Workspace::find().and_then(|workspace| steps::ci(&workspace, steps::Scope::Checks))
        }
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match verdict {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what a check found and turns it into the check's verdict.
fn report(check: &'static str, findings: &[String]) -> Result<(), Error> {
    for finding in findings {
        eprintln!("{check}: {finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(Error::Findings { check, count: findings.len() }) }
}
