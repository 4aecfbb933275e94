//! Several real processes on one store, at the same time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "contests say how far they came and how long they waited")]

mod account;
mod contestant;

mod background;
mod busy;
mod crowd;
mod hand_over;
mod killed;
mod plan_updates;
mod prove;
mod race;
mod sleeper;
mod stale;
mod watch;
