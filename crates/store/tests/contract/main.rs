//! What every engine of the store has to keep. Each test runs on each engine there is.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

mod check;
mod commands;
#[cfg(feature = "crash-points")]
mod crash;
mod crowd;
mod damage;
mod evidence;
mod files;
mod kinds;
mod lists;
mod log;
mod random;
mod repeats;
mod site;
mod steps;
mod turns;
mod views;
mod waits;
