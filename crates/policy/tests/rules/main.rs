//! The rules of `docs/reference/semantics.md` as far as pure code decides them, through [`policy::decide`] alone.

#![expect(clippy::unwrap_used, reason = "what fails here is the test")]

mod active_time;
mod background;
mod call;
mod commands;
mod completion;
mod continuation;
mod failure;
mod goal;
mod goal_properties;
mod history;
mod inbox;
mod invariants;
mod job;
mod matrix;
mod mode;
mod pause;
mod plan;
mod play;
mod progress;
mod properties;
mod proposal;
mod recovery;
mod request;
mod rows;
mod stuck;
mod turn;
mod types;
mod wait;
mod world;
