//! The file of an SQLite store: made, found, refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use sqlx::Connection as _;
use store::{ExecuteError, Store, StoreError, SystemClock};

use crate::site::{Site, on_each_engine, open_session, send, session, submit};

async fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(&path.to_owned().into(), Arc::new(SystemClock)).await
}

async fn open_existing(path: &Path) -> Result<Store, StoreError> {
    Store::open_existing(&path.to_owned().into(), Arc::new(SystemClock)).await
}

/// Names and contents of a folder's files.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn the_bundled_sqlite_has_no_known_way_to_corrupt_its_log() {
    let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let version: String =
        sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut connection).await.unwrap();
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    // Before 3.51.3 a reset of the write-ahead log could lose or mix committed pages.
    assert!(parts >= vec![3, 51, 3], "{version}");
}

#[tokio::test]
async fn a_new_store_and_its_folders_are_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/c.db");
    let missing = open_existing(&path).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    assert_eq!(files(folder.path()), []);
    let store = open(&path).await.unwrap();
    send(&store, session(1), open_session()).await.unwrap();
    let mode = |path: &str| fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("a"), mode("a/b")], [0o700; 2]);
    for file in ["a/b/c.db", "a/b/c.db-wal", "a/b/c.db-shm", "a/b/c.db.lock"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    store.close().await;
    let again = open_existing(&path).await.unwrap();
    assert!(again.head(session(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn an_empty_file_becomes_a_store_only_when_one_may_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    fs::write(&path, "").unwrap();
    assert!(matches!(open_existing(&path).await, Err(StoreError::NotFound { .. })));
    assert_eq!(files(folder.path()).len(), 1);
    open(&path).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_not_a_store_is_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(
        path("text"),
        "just a text, long enough to be looked at as the header of a database ".repeat(20),
    )
    .unwrap();
    fs::write(path("short"), "x").unwrap();
    fs::create_dir(path("folder")).unwrap();
    for (name, setup) in [
        ("other", "CREATE TABLE t (x)"),
        ("wal", "PRAGMA journal_mode = WAL; CREATE TABLE t (x)"),
        ("marked", "PRAGMA application_id = 7; CREATE TABLE sessions (id)"),
    ] {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path(name)).create_if_missing(true);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::raw_sql(setup).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
    let before = files(folder.path());
    let mut answers = Vec::new();
    for (name, _) in &before {
        for opened in [open(&path(name)).await, open_existing(&path(name)).await] {
            let error = opened.unwrap_err();
            assert!(matches!(error, StoreError::NotOurs { .. }), "{error:?}");
            let text = error.to_string().replace(&folder.path().display().to_string(), "");
            answers.push(text);
        }
    }
    answers.dedup();
    insta::assert_snapshot!(answers.join("\n"), @"
    /folder is not a Zuno store: it is a folder; choose another path
    /marked is not a Zuno store: it is the database of another program (application id 0x7); choose another path
    /other is not a Zuno store: it is the database of another program; choose another path
    /short is not a Zuno store: it is no database; choose another path
    /text is not a Zuno store: it is no database; choose another path
    /wal is not a Zuno store: it is the database of another program; choose another path
    ");
    assert_eq!(files(folder.path()), before);
}

#[tokio::test]
async fn a_store_of_a_newer_schema_is_refused_and_not_changed() {
    let site = Site::sqlite();
    let store = site.open().await;
    send(&store, session(1), open_session()).await.unwrap();
    store.close().await;
    site.tamper("PRAGMA user_version = 99").await;
    let before = site.dump().await;
    for opened in [open(&site.path()).await, open_existing(&site.path()).await] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
        let text = error.to_string().replace(&site.path().display().to_string(), "a.db");
        insta::allow_duplicates!(
            insta::assert_snapshot!(text, @"a.db has schema 99 and this build knows 3; use the newer zuno that made it")
        );
    }
    assert_eq!(site.dump().await, before);
}

#[tokio::test]
async fn a_store_that_was_taken_away_while_it_was_open_takes_nothing_more() {
    let site = Site::sqlite();
    let store = site.open().await;
    send(&store, session(1), open_session()).await.unwrap();
    let moved = site.path().with_extension("moved");
    for replaced in [false, true] {
        std::fs::rename(site.path(), &moved).unwrap();
        if replaced {
            std::fs::copy(&moved, site.path()).unwrap();
        }
        let error = send(&store, session(1), submit("lost")).await.unwrap_err();
        assert!(matches!(error, ExecuteError::Fault(StoreError::Gone { .. })), "{error:?}");
        std::fs::rename(&moved, site.path()).unwrap();
    }
    send(&store, session(1), submit("kept")).await.unwrap();
}

#[tokio::test]
async fn what_was_answered_is_there_after_the_process_died() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        send(&store, session(1), open_session()).await.unwrap();
        for _ in 0..10 {
            send(&store, session(1), submit("kept")).await.unwrap();
        }
        // The files as a dead process leaves them: nothing closed, nothing moved out of the write-ahead log.
        let after = Site::sqlite();
        for end in ["", "-wal"] {
            let name = |site: &Site| format!("{}{end}", site.path().display());
            fs::copy(name(&site), name(&after)).unwrap();
        }
        let reopened = open_existing(&after.path()).await.unwrap();
        let head = reopened.head(session(1)).await.unwrap().unwrap();
        assert_eq!(head.state.core.head.0, 11);
        send(&reopened, session(1), submit("and on")).await.unwrap();
        assert_eq!(reopened.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_program_that_keeps_the_database_locked_delays_a_command_and_breaks_nothing() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        send(&store, session(1), open_session()).await.unwrap();
        let mut other = site.raw().await;
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        let (sent, ()) = tokio::join!(send(&store, session(1), submit("x")), async {
            // Reading goes on meanwhile.
            assert!(store.head(session(1)).await.unwrap().is_some());
            sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        });
        sent.unwrap();
    })
    .await;
}
