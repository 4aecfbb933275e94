//! Commands that only look: they make no file, and they read no more than they need.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::Arc;

use domain::{LaneId, SessionId};
use serde_json::{Value, json};
use store::{Store, StoreUrl, SystemClock};
use tests::{World, Zuno, plan};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::desk::{assert_no_file, finished};

/// Events of the large log.
const EVENTS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn version_and_help_need_no_home_and_make_no_file() {
    let world = World::in_real_time().await;
    let zuno = Zuno::of(&world);
    let home = tempfile::tempdir().unwrap();
    // Not even a folder could be made here.
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o500)).unwrap();
    for arguments in [&["--version"][..], &["--help"], &["plan", "update", "--help"]] {
        for has_home in [true, false] {
            let mut command = Command::from(zuno.command(arguments));
            command.env_clear().current_dir(home.path()).stdin(Stdio::null());
            if has_home {
                command.env("HOME", home.path());
            }
            let done = finished(command).await;
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{arguments:?}");
            assert!(done.out.contains("zuno"), "{}", done.out);
        }
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_no_file(home.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_for_what_is_not_there_makes_no_store() {
    let world = World::in_real_time().await;
    let zuno = Zuno::of(&world);
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["session", "list"][..], &["plan", "show"], &["goal", "run", "--once"], &["doctor"]] {
        let mut command = Command::from(zuno.command(arguments));
        command.env_remove("ZUNO_STORE").env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        command.env("HOME", home.path()).stdin(Stdio::null());
        finished(command).await;
        assert_no_file(home.path());
    }
}

/// A session whose log is long: one plan after the other, each complete, and an unfinished one at the end.
async fn long_session(world: &World<SystemClock>) -> SessionId {
    let session = world.session().await;
    let mut updates = JoinSet::new();
    for number in 0..EVENTS - 2 {
        let (user, mut old) = (world.user.clone(), plan("only:completed"));
        old["title"] = json!(format!("old {number}"));
        updates.spawn(async move { user.update_plan(session, &old, None).await.map(drop) });
    }
    while let Some(updated) = updates.join_next().await {
        updated.unwrap().unwrap();
    }
    world.plan(session, "inspect:completed implement:in_progress verify").await;
    session
}

/// Makes every old plan of the log unreadable, in the file itself: each loses its title.
fn poison(world: &World<SystemClock>) -> usize {
    let (from, to) = (br#""title":"old "#, br#""titel":"old "#);
    let path = world.store_path();
    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<_> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| window == from)
        .map(|(at, _)| at)
        .collect();
    for at in &places {
        bytes[*at..at + to.len()].copy_from_slice(to);
    }
    fs::write(&path, bytes).unwrap();
    places.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn showing_a_plan_reads_the_head_of_a_long_log_and_not_the_log() {
    let world = World::in_real_time().await;
    let zuno = Zuno::of(&world);
    let session = long_session(&world).await;
    let id = session.to_string();
    let last = world.log(session).await.last().unwrap().seq.0;
    assert_eq!(last, EVENTS as u64);
    // With the last connection closed, the file holds everything.
    world.store.close().await;
    assert!(poison(&world) >= EVENTS - 2);

    let show = async |arguments: &[&str]| {
        let done = zuno.run(&[arguments, &["--session", &id, "--json"]].concat()).await;
        let answer = done.out.lines().next_back().map(|line| serde_json::from_str::<Value>(line).unwrap());
        (done.code, answer.unwrap_or_default())
    };
    let (code, shown) = show(&["plan", "show"]).await;
    assert_eq!((code, shown["steps"].as_array().unwrap().len()), (Some(0), 3), "{shown}");
    let (code, shown) = show(&["session", "show"]).await;
    assert_eq!((code, &shown["head"], &shown["plan"]["completed"]), (Some(0), &json!(EVENTS), &json!(1)));
    let (code, shown) = show(&["mode", "show"]).await;
    assert_eq!((code, &shown["mode"]), (Some(0), &json!("work")));

    // Whoever does read the log finds out.
    let (code, fault) = show(&["events"]).await;
    assert_eq!(code, Some(5), "{fault}");
    assert!(fault["error"]["message"].as_str().unwrap().contains("corrupt"), "{fault}");
    let url = StoreUrl::Sqlite(world.store_path());
    let store = Store::open_existing(&url, Arc::new(SystemClock)).await.unwrap();
    assert!(store.plan_history(session, &LaneId::main(), domain::Seq(0), 10).await.is_err());
}
