//! `zuno`, the command line: the composition root, and a client like any other.
//!
//! It parses arguments and configuration, gives the user's door to the verbs and shows what comes back. It holds no
//! rule, no loop and no SQL: what may happen is decided below, and the loops are the runtime's.

mod actor;
mod allow;
mod args;
mod config;
mod context;
mod demo;
mod exit;
mod input;
mod narrator;
mod output;
mod render;
mod session_name;
mod signals;
mod trust;
mod verbs;
mod workshop;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Answers --help and --version, and ends on a wrong command line, before anything is touched.
    match args::Cli::try_parse() {
        Ok(cli) => verbs::run(cli).into(),
        Err(error) => verbs::refuse(&error).into(),
    }
}
