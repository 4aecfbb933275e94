//! What every engine of the store has to keep. Each test runs on each engine there is.

mod site;

mod log;
