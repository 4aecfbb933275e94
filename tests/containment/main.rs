//! Does anything get out? Forged calls, shell commands and paths, one line of a data file a case.
//!
//! `commands.txt`, `ordinary.txt`, `forged.txt` and `files.txt` say in their heads what their columns mean; a case is
//! added there without any code. `cargo xtask containment` then writes the page anew.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::print_stdout,
    reason = "the corpus says which cases it could not play, and how long it took"
)]

mod cases;
mod commands;
mod files;
mod forged;
mod outside;
mod place;
mod play;
mod prove;
