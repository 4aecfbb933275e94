//! Tools of other programs: MCP servers that the user configured, each tool of one as a [`runtime::Tool`].
//!
//! [`Servers`] starts what it is told to, once a process and workspace, and takes each server's list of tools once:
//! what models are offered never changes after that, whatever the server says. A tool that the server has changed is
//! refused until the next run. Nothing here decides whether a call is allowed: every tool says that it belongs to
//! another program, by the name `server/tool`, and that it needs what no mode but Work has; the rules do the rest.
//!
//! A server is a program of others. It may be silent, crash, flood us or lie, and no such thing may hold up a turn:
//! every wait has a bound, every text has one, and each failure is an answer that the model can read.

mod answer;
mod catalog;
mod connection;
mod fault;
mod messages;
mod name;
mod process;
mod server;
mod servers;
mod tool;

pub use fault::Fault;
pub use name::{InvalidServerName, ServerName};
pub use server::{Limits, Reach, Token};
pub use servers::{Found, Remark, Servers};
