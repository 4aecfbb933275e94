//! The real `zuno` as people start it, in real git repositories and with a real server at the other end of the wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod desk;
mod greeter;

mod asked;
mod delegation;
mod demo;
mod interrupt;
mod job;
mod looking;
mod planning;
mod provider;
mod queue;
