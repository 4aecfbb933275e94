//! Makes a decision durable in one transaction, or refuses: the only SQL, and the owner of every commit.
//!
//! [`Store::execute`] is the one way to write. It reads a session's state, asks a function for a
//! [`Decision`](policy::Decision) on it and appends the decision's events, all in one transaction; nothing here
//! takes bare events or bare state. Everything else reads: the head of a session is two key reads, an event page
//! follows a cursor, a plan revision is one read. The log is the authority; [`Watch`] is a hint to look at it.
//!
//! Inside, a private engine trait hides the database. One body of SQL serves every engine; SQLite is built in.

mod batch;
mod check;
mod clock;
mod engine;
mod error;
mod head;
mod read;
mod record;
mod refold;
mod sql;
mod sqlite;
mod store;
mod url;
mod watch;
mod write;
mod writer;

#[cfg(feature = "crash-points")]
mod crash;
#[cfg(test)]
mod recorder;

pub use check::{CheckFinding, CheckProgress};
pub use clock::{Clock, ManualClock, SystemClock};
#[cfg(feature = "crash-points")]
pub use crash::{CommitSide, at_each_commit};
pub use error::{ExecuteError, StoreError};
pub use head::Head;
pub use read::{EVENTS_PER_PAGE, LISTED_SESSIONS, Page, PlanAt, PlanProgress, SessionFilter, SessionSummary};
pub use store::{Ask, BLOB_BYTES, CommandKeyed, Committed, Store, digest};
pub use url::{InvalidStoreUrl, StoreUrl};
pub use watch::Watch;
