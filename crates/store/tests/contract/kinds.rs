//! Logs that a newer build wrote to (E7).

use domain::{Seq, SessionId};
use store::{ExecuteError, Store, StoreError};

use crate::site::{Site, on_each_engine, open_session, send, session, submit};

/// A session whose second event this build does not know, as a newer build would have left it.
async fn from_a_newer_build(site: &Site, store: &Store, id: SessionId, kind: &str, version: u32) {
    send(store, id, open_session()).await.unwrap();
    send(store, id, submit("x")).await.unwrap();
    let entry = if version == 1 { kind.to_owned() } else { format!("{kind}/{version}") };
    site.tamper(&format!(
        "INSERT INTO events SELECT session_id, 3, at, actor, '{kind}', {version}, '{{}}', NULL FROM events \
         WHERE session_id = '{id}' AND seq = 1; \
         UPDATE sessions SET head_seq = 3, core = json_set(core, '$.head', 3), \
         kinds = json_insert(kinds, '$[#]', '{entry}') WHERE id = '{id}'"
    ))
    .await;
}

#[tokio::test]
async fn e7_a_kind_from_a_newer_build_makes_the_session_read_only_and_is_never_skipped() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for (id, kind, version) in [(session(1), "dreamt", 1), (session(2), "mode_changed", 2)] {
            from_a_newer_build(&site, &store, id, kind, version).await;
            let before = site.dump().await;
            let refused = send(&store, id, submit("y")).await;
            let Err(ExecuteError::Fault(StoreError::UnknownKind { .. })) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(site.dump().await, before);
            // What comes before it is readable; it and what follows is not.
            assert_eq!(store.events_after(id, Seq(0), 2).await.unwrap().events.len(), 2);
            let read = store.events_after(id, Seq(0), 3).await;
            let Err(StoreError::UnknownKind { seq: Some(Seq(3)), .. }) = read else { panic!("{read:?}") };
            assert!(store.head(id).await.unwrap().is_some());
        }
        let findings = store.check(|_| {}).await.unwrap();
        let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
        insta::allow_duplicates!(insta::assert_snapshot!(findings.join("\n"), @"
        session 00000000-0000-0000-0000-000000000001, event 3: `dreamt` was written by a newer zuno; this session is read-only here
        session 00000000-0000-0000-0000-000000000002, event 3: `mode_changed/2` was written by a newer zuno; this session is read-only here
        "));
        assert!(send(&store, session(3), open_session()).await.is_ok());
        assert_eq!(store.sessions(&store::SessionFilter::default()).await.unwrap().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn e7_a_newer_state_that_does_not_decode_is_called_newer_and_not_corrupt() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        from_a_newer_build(&site, &store, id, "dreamt", 1).await;
        site.tamper("UPDATE sessions SET core = json_set(core, '$.dreams', 1)").await;
        let read = store.head(id).await;
        let Err(error @ StoreError::UnknownKind { .. }) = read else { panic!("{read:?}") };
        insta::allow_duplicates!(insta::assert_snapshot!(error, @"session 00000000-0000-0000-0000-000000000001 is read-only for this build: its log holds `dreamt`, which a newer zuno wrote"));
    })
    .await;
}
