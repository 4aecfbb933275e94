//! The operating system's walls around a command: what it may write, read, reach and become.
//!
//! A [`Sandbox`] says how the commands of one workspace are confined. Whoever runs one starts the program that
//! [`Sandbox::launcher`] names, with one end of a socket as its standard input, and sends an [`Order`]. The program
//! ends up in [`launch`], which puts the walls around itself while it is single-threaded and then runs the shell: no
//! code runs between a fork and an exec, and nothing has to be undone. What became of it comes back as a [`Report`].
//!
//! The walls, from the outside in: namespaces and mounts ([`Level::Full`] only), limits, Landlock, no capabilities,
//! seccomp. Nothing degrades by itself: a wall that cannot be built is an answer that says so, and no shell is started.
//! [`probe`] tries each wall in a throw-away sandbox.

mod capabilities;
mod channel;
mod devices;
mod git;
mod launch;
mod limits;
mod mounts;
mod namespaces;
mod network;
mod order;
mod probe;
mod profile;
mod ruleset;
mod seccomp;
mod wall;

pub use launch::launch;
pub use limits::Limits;
pub use order::{ORDER_BYTES, Order, REPORT_BYTES, Report};
pub use probe::{Finding, probe};
pub use profile::{InvalidProfile, Launcher, Level, Places, Sandbox};
