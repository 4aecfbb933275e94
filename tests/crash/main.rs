//! Workers killed with SIGKILL at every point of a turn, and what the next worker makes of what they left.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "long tests say how far they are")]

mod agent;
mod parts;
mod points;
mod simulation;
mod wreck;

mod at_each_commit;
mod background;
mod behind_walls;
mod between_commits;
mod endurance;
mod input;
