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
mod servers;
mod session_name;
mod signals;
mod trust;
mod verbs;
mod walls;
mod workshop;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Becomes a command in its sandbox, which is only possible before there is a second thread.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == walls::LAUNCHER_VERB) {
        return sandbox::launch(
            &[walls::LAUNCHER_VERB],
            &arguments.filter_map(|argument| argument.into_string().ok()).collect::<Vec<_>>(),
        );
    }
    // Answers --help and --version, and ends on a wrong command line, before anything is touched.
    match args::Cli::try_parse() {
        Ok(cli) => verbs::run(cli).into(),
        Err(error) => verbs::refuse(&error).into(),
    }
}
