//! The rules of `docs/reference/semantics.md` as far as pure code decides them, through [`policy::decide`] alone.

#![expect(clippy::unwrap_used, reason = "what fails here is the test")]

mod call;
mod continuation;
mod failure;
mod goal;
mod history;
mod inbox;
mod matrix;
mod mode;
mod plan;
mod properties;
mod recovery;
mod turn;
mod types;
mod world;
