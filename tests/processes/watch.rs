//! A store in one process learns what another process commits.

use domain::Seq;
use store::{SystemClock, Watch};
use tests::World;

use crate::contestant::Contestant;

/// Commits one by one, each seen before the next, and then as many in a row.
const COMMITS: u64 = 20;

#[tokio::test]
async fn e6_a_watch_sees_the_commits_of_another_process_and_the_cursor_misses_none() {
    let world = World::in_real_time().await;
    let session = world.session().await;
    let mut watcher = Contestant::start("watch", &world, session);
    // The session's own first event is there when it begins to look.
    watcher.answers("1");
    for seq in 2..=COMMITS + 1 {
        world.say(session, "one at a time").await;
        watcher.answers(&seq.to_string());
    }
    for _ in 0..COMMITS {
        world.say(session, "many in a row").await;
    }
    for seq in COMMITS + 2..=2 * COMMITS + 1 {
        watcher.answers(&seq.to_string());
    }
}

#[tokio::test]
async fn e6_this_process_sees_the_commits_of_another_one() {
    let world = World::in_real_time().await;
    let session = world.session().await;
    let mut writer = Contestant::start("write", &world, session);
    writer.answers("ready");
    let mut watch = world.store.watch();
    for seq in 2..=COMMITS + 1 {
        writer.tell("from over there");
        wait_for(&mut watch, &world, session, Seq(seq)).await;
        writer.answers(&seq.to_string());
    }
}

/// Waits until the log has this event, looking only when the watch says so.
async fn wait_for(watch: &mut Watch, world: &World<SystemClock>, session: domain::SessionId, seq: Seq) {
    loop {
        watch.changed().await;
        let page = world.store.events_after(session, Seq(seq.0 - 1), 1).await;
        match page {
            Ok(page) if page.head >= seq => {
                assert_eq!(page.events[0].seq, seq);
                return;
            }
            // The cursor is at most one event ahead of what the other one committed.
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
