//! Files as crashes and faults leave them: an SQLite store is opened from any state a dead process can leave, and a
//! broken one is called broken, not foreign.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::Connection as _;
use store::{Store, StoreError, SystemClock};

use crate::site::{Site, open_session, send, session, submit};

/// Bytes of a page; the schema leaves SQLite's own choice.
const PAGE: usize = 4096;
/// Bytes before the first frame of a write-ahead log, and before the page of each frame.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// "ZUNO".
const MARK: &str = "PRAGMA application_id = 1515540047";

fn beside(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

fn number(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize
}

async fn open_existing(path: &Path) -> Result<Store, StoreError> {
    Store::open_existing(&path.to_owned().into(), Arc::new(SystemClock)).await
}

async fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(&path.to_owned().into(), Arc::new(SystemClock)).await
}

const INPUTS: u64 = 60;

/// The files of a dead process that wrote more pages to its log than its file has.
async fn left_by_a_dead_process() -> Site {
    let site = Site::sqlite();
    let store = site.open().await;
    send(&store, session(1), open_session()).await.unwrap();
    for _ in 0..INPUTS {
        send(&store, session(1), submit(&"kept ".repeat(400))).await.unwrap();
    }
    let after = Site::sqlite();
    for end in ["", "-wal"] {
        fs::copy(beside(&site.path(), end), beside(&after.path(), end)).unwrap();
    }
    after
}

/// Moves the last version of some pages from the log into the file, in their order, as a checkpoint does.
fn checkpoint(site: &Site, takes: impl Fn(usize) -> bool) {
    let log = fs::read(beside(&site.path(), "-wal")).unwrap();
    let mut file = fs::read(site.path()).unwrap();
    for frame in log[LOG_HEADER..].chunks_exact(FRAME_HEADER + PAGE) {
        let page = number(frame);
        if takes(page) {
            let at = (page - 1) * PAGE;
            file.resize(file.len().max(at + PAGE), 0);
            file[at..at + PAGE].copy_from_slice(&frame[FRAME_HEADER..]);
        }
    }
    fs::write(site.path(), file).unwrap();
}

#[tokio::test]
async fn e3_a_checkpoint_that_was_cut_short_at_any_page_hides_nothing() {
    for done in [1, 2, 5, 20] {
        let site = left_by_a_dead_process().await;
        checkpoint(&site, |page| page <= done);
        let file = fs::read(site.path()).unwrap();
        assert!(number(&file[28..]) * PAGE > file.len(), "the header counts pages that the file lacks");
        let store = if done % 2 == 0 { open(&site.path()).await } else { open_existing(&site.path()).await };
        let store = store.unwrap();
        let head = store.head(session(1)).await.unwrap().unwrap();
        assert_eq!(head.state.core.head.0, INPUTS + 1);
        send(&store, session(1), submit("and on")).await.unwrap();
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_database_of_others_in_the_middle_of_a_checkpoint_is_not_touched() {
    let site = left_by_a_dead_process().await;
    checkpoint(&site, |page| page == 1);
    let mut file = fs::read(site.path()).unwrap();
    file[68..72].copy_from_slice(&7_u32.to_be_bytes());
    fs::write(site.path(), file).unwrap();
    let contents = || ["", "-wal"].map(|end| fs::read(beside(&site.path(), end)).unwrap());
    let before = contents();
    for opened in [open(&site.path()).await, open_existing(&site.path()).await] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{error:?}");
    }
    assert!(contents() == before);
    assert_eq!(fs::read_dir(site.path().parent().unwrap()).unwrap().count(), 2);
}

#[tokio::test]
async fn a_store_that_lost_its_end_or_its_log_is_called_damaged_and_ours() {
    let torn = left_by_a_dead_process().await;
    checkpoint(&torn, |page| page == 1);
    fs::remove_file(beside(&torn.path(), "-wal")).unwrap();
    let cut = left_by_a_dead_process().await;
    checkpoint(&cut, |_| true);
    fs::remove_file(beside(&cut.path(), "-wal")).unwrap();
    let whole = fs::read(cut.path()).unwrap();
    for (site, bytes) in [(&torn, None), (&cut, Some(PAGE)), (&cut, Some(512)), (&cut, Some(PAGE * 3 + 5))] {
        if let Some(bytes) = bytes {
            fs::write(site.path(), &whole[..bytes]).unwrap();
        }
        for opened in [open(&site.path()).await, open_existing(&site.path()).await] {
            let error = opened.unwrap_err();
            let text = error.to_string().replace(&site.path().display().to_string(), "a.db");
            insta::allow_duplicates!(
                insta::assert_snapshot!(text, @"a.db is a Zuno store and is damaged: database disk image is malformed; copy it together with the files whose names begin with its name, then put a backup in its place, or save what is left with `sqlite3 a.db .recover`")
            );
        }
    }
}

#[tokio::test]
async fn a_log_without_its_file_is_kept() {
    let site = left_by_a_dead_process().await;
    let log = fs::read(beside(&site.path(), "-wal")).unwrap();
    for is_there in [true, false] {
        if is_there {
            fs::write(site.path(), "").unwrap();
        } else {
            fs::remove_file(site.path()).unwrap();
        }
        for opened in [open(&site.path()).await, open_existing(&site.path()).await] {
            let text = opened.unwrap_err().to_string();
            let text = text.replace(&site.path().display().to_string(), "a.db");
            insta::allow_duplicates!(
                insta::assert_snapshot!(text, @"a.db is empty or gone and its log a.db-wal is still there; put the file back beside it, or move the log away to start anew")
            );
        }
        assert!(fs::read(beside(&site.path(), "-wal")).unwrap() == log);
    }
}

#[tokio::test]
async fn a_store_whose_making_was_cut_short_is_made_by_the_next() {
    let (half, left) = (Site::sqlite(), Site::sqlite());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(half.path()).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(MARK).execute(&mut connection).await.unwrap();
    // A small cache makes SQLite write pages before the commit, which leaves a journal to undo them.
    let more = "PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(1000000))";
    sqlx::raw_sql(more).execute(&mut connection).await.unwrap();
    for end in ["", "-journal"] {
        fs::copy(beside(&half.path(), end), beside(&left.path(), end)).unwrap();
    }
    let store = open_existing(&left.path()).await.unwrap();
    send(&store, session(1), open_session()).await.unwrap();
    assert_eq!(store.check(|_| {}).await.unwrap(), []);
}
