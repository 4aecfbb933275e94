//! Measures what things cost: `cargo xtask bench [NAME…] [--smoke | --report]`.
//!
//! A benchmark is a file in `benchmarks` and a line in its table. It hands over what is to be compared, and
//! [`measure`] runs that in turn, so that each figure is a ratio between things that were done at the same time on the
//! same machine. No test asserts a time; a test runs each benchmark a few times to show that it works.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing figures is what the program is for")]

mod benchmarks;
mod error;
mod measure;
mod page;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    // Becomes a command in its sandbox, which is only possible before there is a second thread.
    if arguments.next().is_some_and(|word| word == benchmarks::LAUNCHER_VERB) {
        return sandbox::launch(&[benchmarks::LAUNCHER_VERB], &arguments.collect::<Vec<_>>());
    }
    let words: Vec<_> = std::env::args().skip(1).collect();
    let Some(run) = run::Run::of(&words) else {
        eprintln!("{}", run::usage());
        return ExitCode::from(2);
    };
    match run.all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
