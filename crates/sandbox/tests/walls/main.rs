//! The walls, tried from within by real shells.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod contained;
mod house;
mod ordinary;
mod probing;
