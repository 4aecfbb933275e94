//! The walls, tried from within by real shells.

mod house;
mod ordinary;
mod probing;
