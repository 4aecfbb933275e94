//! The built `zuno`, run on stores and homes of its own: exit codes, shapes of answers, what is and is not touched.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod actor;
mod events;
mod goal;
mod plan;
mod requests;
mod run;
mod sandbox;
mod servers;
mod surroundings;
mod tour;
mod trust;
mod widening;
mod world;
