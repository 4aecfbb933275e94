//! Stops the process at a chosen commit, so that a test can kill it there. Behind the feature `crash-points`.
//!
//! `ZUNO_CRASH_POINT=before:3` or `after:3` chooses the third commit of this process that writes something, and the
//! moment before or after it. There the file named by `ZUNO_CRASH_MARKER` is written, and nothing more happens.

use std::env;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before(u64),
    After(u64),
}

static CHOSEN: LazyLock<Option<Moment>> =
    LazyLock::new(|| env::var("ZUNO_CRASH_POINT").ok().and_then(|text| parse(&text)));
static COMMITS: AtomicU64 = AtomicU64::new(0);

fn parse(text: &str) -> Option<Moment> {
    let (moment, number) = text.split_once(':')?;
    let number = number.parse().ok()?;
    match moment {
        "before" => Some(Moment::Before(number)),
        "after" => Some(Moment::After(number)),
        _ => None,
    }
}

/// Called right before each commit that writes.
pub(crate) fn before_commit() {
    let number = COMMITS.fetch_add(1, Ordering::SeqCst) + 1;
    stop_if_chosen(Moment::Before(number));
}

/// Called right after it.
pub(crate) fn after_commit() {
    stop_if_chosen(Moment::After(COMMITS.load(Ordering::SeqCst)));
}

fn stop_if_chosen(here: Moment) {
    if *CHOSEN != Some(here) {
        return;
    }
    if let Ok(marker) = env::var("ZUNO_CRASH_MARKER") {
        fs::write(marker, format!("{here:?}\n")).ok();
    }
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_point_is_a_moment_and_a_number() {
        assert_eq!(parse("before:3"), Some(Moment::Before(3)));
        assert_eq!(parse("after:1"), Some(Moment::After(1)));
        assert_eq!(parse("during:1"), None);
        assert_eq!(parse("after:x"), None);
    }
}
