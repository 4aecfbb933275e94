//! Zuno in a test: a store, a workspace and the real tools in a temporary folder, models that say what a test wants
//! them to say, and what came of it read back from the log.
//!
//! Start with [`World`]. [`scripted`] and [`answering`] make models, [`Probe`] keeps what a model was asked and can
//! hold it at a [`Gate`], [`OpenAiServer`] is one behind real HTTP, and [`story`] tells a log in lines that do not
//! depend on ids or times.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a harness fails its test by panicking")]

mod binary;
mod gate;
mod model;
mod openai;
mod process;
mod proof;
mod record;
mod story;
mod tape;
mod world;

pub use gate::Gate;
pub use model::{Probe, Unprompted, answering, call, calls, scripted, text};
pub use openai::{OpenAiServer, Reply};
pub use process::{CrashPoint, Finished, Running, Zuno, go_on, is_alive, pause, terminate, wait_until};
pub use proof::{Effort, Proof};
pub use record::{Record, difference, record_tree};
pub use story::story;
pub use tape::Tape;
pub use world::{MOST_REQUESTS, START, Shop, World, home, plan, revised};
