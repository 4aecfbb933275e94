//! Crash points: a process that is killed right before or right after a commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use store::{Store, SystemClock};

use crate::site::{open_session, send, session, submit};

const STORE: &str = "ZUNO_TEST_STORE";

#[tokio::test]
#[ignore = "the other end of the tests below, which start it as a process of its own"]
async fn child() {
    let path = PathBuf::from(std::env::var(STORE).unwrap());
    let store = Store::open(&path.into(), Arc::new(SystemClock)).await.unwrap();
    send(&store, session(1), open_session()).await.unwrap();
    for _ in 0..5 {
        send(&store, session(1), submit("x")).await.unwrap();
    }
}

/// Events that are there after the child was killed at a crash point.
async fn killed_at(point: &str, folder: &Path) -> u64 {
    let (store, marker) = (folder.join("a.db"), folder.join("marker"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--ignored", "--quiet"])
        .env(STORE, &store)
        .env("ZUNO_CRASH_POINT", point)
        .env("ZUNO_CRASH_MARKER", &marker)
        .spawn()
        .unwrap();
    while !marker.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the child ended before its crash point");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let store = Store::open_existing(&store.into(), Arc::new(SystemClock)).await.unwrap();
    assert_eq!(store.check(|_| {}).await.unwrap(), []);
    let head = store.head(session(1)).await.unwrap();
    // The lock of the dead process is free again.
    send(&store, session(2), open_session()).await.unwrap();
    head.map_or(0, |head| head.state.core.head.0)
}

#[tokio::test]
async fn e3_a_commit_that_was_not_reached_left_nothing_and_one_that_was_left_all() {
    for (point, events) in [("before:1", 0), ("after:1", 1), ("before:4", 3), ("after:4", 4)] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(killed_at(point, folder.path()).await, events, "{point}");
    }
}
