//! A program that is nothing but a launcher, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    sandbox::launch(&[], &arguments)
}
