//! Several real processes on one store, at the same time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contestant;

mod plan_updates;
mod race;
mod stale;
mod watch;
