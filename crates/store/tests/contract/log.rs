//! The log: appended without a gap, read behind a cursor.

use domain::{Seq, SessionState};
use store::StoreError;

use crate::site::{Site, admit_turn, on_each_engine, open_session, plan, run, send, session, submit};

#[tokio::test]
async fn e1_events_are_numbered_without_a_gap_and_fold_to_the_stored_state() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        send(&store, id, plan(0, None)).await.unwrap();
        send(&store, id, submit("export it")).await.unwrap();
        run(&store, id, admit_turn()).await.unwrap();
        let last = send(&store, id, plan(1, Some(1))).await.unwrap();
        let page = store.events_after(id, Seq(0), 100).await.unwrap();
        let numbers: Vec<_> = page.events.iter().map(|event| event.seq.0).collect();
        assert_eq!(numbers, (1..=page.head.0).collect::<Vec<_>>());
        let head = store.head(id).await.unwrap().unwrap();
        assert_eq!(*head.state, SessionState::fold(id, &page.events));
        assert_eq!(head.state, last.state);
        assert_eq!(head.leases, last.leases);
        assert_eq!(head.wake_at, last.wake_at);
        assert!(head.leases.turn.is_some() && head.wake_at.is_some());
    })
    .await;
}

#[tokio::test]
async fn e6_a_page_starts_strictly_after_its_cursor_and_never_ahead_of_the_log() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        for _ in 0..4 {
            send(&store, id, submit("more")).await.unwrap();
        }
        let page = store.events_after(id, Seq(1), 2).await.unwrap();
        assert_eq!(page.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((page.next, page.head, page.has_more), (Seq(3), Seq(5), true));
        let page = store.events_after(id, Seq(3), usize::MAX).await.unwrap();
        assert_eq!((page.events.len(), page.next, page.has_more), (2, Seq(5), false));
        let page = store.events_after(id, Seq(5), 0).await.unwrap();
        assert!(page.events.is_empty() && page.next == Seq(5));
        let ahead = store.events_after(id, Seq(6), 1).await;
        assert!(matches!(ahead, Err(StoreError::CursorAhead { head: Seq(5), .. })), "{ahead:?}");
        let unknown = store.events_after(session(2), Seq(0), 1).await;
        assert!(matches!(unknown, Err(StoreError::UnknownSession(_))), "{unknown:?}");
        assert!(store.head(session(2)).await.unwrap().is_none());
    })
    .await;
}
