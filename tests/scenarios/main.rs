//! Whole sessions in one process: the real store, the real tools and the turn loop, under models that say what a test
//! wants them to say.

#![expect(clippy::unwrap_used, reason = "what a test shares fails the test by panicking")]

mod admission;
mod calls;
mod capability;
mod continuation;
mod delegation;
mod external;
mod goal;
mod guidance;
mod human;
mod inbox;
mod incidents;
mod mode;
mod plan;
mod request;
mod retry;
mod stop;
mod turn;
mod wait;
