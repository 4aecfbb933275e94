//! Shows each commit to a test, or stops the process at a chosen one, so that it can be killed there. Behind the feature
//! `crash-points`.
//!
//! `ZUNO_CRASH_POINT=before:3` or `after:3` chooses the third commit of this process that writes something, and the
//! moment before or after it. There the file named by `ZUNO_CRASH_MARKER` is written, and nothing more happens.
//!
//! Within a process a test calls [`at_each_commit`].

use std::cell::RefCell;
use std::env;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before(u64),
    After(u64),
}

/// A side of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommitSide {
    /// Everything is written, and nothing of it is durable.
    Before,
    /// It is durable, and nobody was told.
    After,
}

/// What is called on both sides of a commit.
type Hook = Box<dyn FnMut(CommitSide)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Calls `hook` right before and right after each commit that writes something, from here on; `None` ends that. The
/// writer waits meanwhile.
///
/// Meant are the stores that were opened in a runtime of this thread alone: their writers run on it.
pub fn at_each_commit(hook: Option<Hook>) {
    HOOK.set(hook);
}

fn show(side: CommitSide) {
    HOOK.with_borrow_mut(|hook| {
        if let Some(hook) = hook {
            hook(side);
        }
    });
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
    show(CommitSide::Before);
    let number = COMMITS.fetch_add(1, Ordering::SeqCst) + 1;
    stop_if_chosen(Moment::Before(number));
}

/// Called right after it.
pub(crate) fn after_commit() {
    show(CommitSide::After);
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
