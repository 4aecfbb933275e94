//! Opening a file: is it there, is it ours, is it of a schema we know? A file that is not ours is not touched.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use super::{DAMAGE_CODES, PATIENCE, fault, lock, migrate, result_code};
use crate::error::StoreError;

/// What to do where there is no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Fail,
}

/// "ZUNO": how a file says that it is a store.
const APPLICATION_ID: i64 = 0x5A55_4E4F;

/// What SQLite answers to a connection that may not write and finds a transaction to undo.
const READONLY_ROLLBACK: &str = "776";

/// Bytes of the header of an SQLite file.
const HEADER_BYTES: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing, or an empty file.
    Nothing,
    Ours,
}

/// Sees to it that there is a store of this build's schema at `path`.
pub(super) async fn prepare(
    path: &Path,
    options: &SqliteConnectOptions,
    if_missing: IfMissing,
) -> Result<(), StoreError> {
    match (look(path).await?, if_missing) {
        (Found::Nothing, IfMissing::Fail) => Err(StoreError::NotFound { path: path.to_owned() }),
        (Found::Nothing, IfMissing::Create) => {
            create_folders(path)?;
            under_lock(path, options).await
        }
        (Found::Ours, _) => {
            let schema = match read_schema(options).await {
                Ok(schema) => schema,
                Err(error) if is_hot(&error) => return under_lock(path, options).await,
                Err(error) => return Err(fault(path)(error)),
            };
            check_schema(path, schema)?;
            if schema == migrate::SCHEMA { Ok(()) } else { under_lock(path, options).await }
        }
    }
}

async fn read_schema(options: &SqliteConnectOptions) -> Result<i64, sqlx::Error> {
    let mut connection = options.clone().read_only(true).connect().await?;
    let schema = migrate::read_schema(&mut connection).await;
    connection.close().await?;
    schema
}

/// Whether a process died while it made the store: what it left is undone by whoever may write.
fn is_hot(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| Some(error.code()?.into_owned()));
    code.as_deref() == Some(READONLY_ROLLBACK)
}

fn check_schema(path: &Path, found: i64) -> Result<(), StoreError> {
    if found < 0 {
        return Err(impossible_schema(path, found, "versions count from 1"));
    }
    if found > migrate::SCHEMA {
        return Err(StoreError::NewerSchema { path: path.to_owned(), found, supported: migrate::SCHEMA });
    }
    Ok(())
}

fn impossible_schema(path: &Path, found: i64, why: &str) -> StoreError {
    let detail = format!("its schema version (user_version) is {found}, and {why}");
    StoreError::Damaged { path: path.to_owned(), detail }
}

/// Looks at a file without touching it, its folder or its locks. `immutable` makes SQLite itself do so; reading the
/// file by hand would drop the locks that other connections of this process hold on it.
///
/// That view leaves out the write-ahead log, and a checkpoint may be under way or cut short: the header may count
/// pages that the file lacks. Whose file it is stands in a part of the header that never changes, so only that part
/// is read; whether the rest is in order shows once the file is opened with its log.
async fn look(path: &Path) -> Result<Found, StoreError> {
    let not_ours = |detail: String| StoreError::NotOurs { path: path.to_owned(), detail };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return nothing(path),
        Err(error) => return Err(StoreError::io(path, error)),
        Ok(metadata) if metadata.is_dir() => return Err(not_ours("it is a folder".to_owned())),
        Ok(metadata) if !metadata.is_file() => return Err(not_ours("it is no regular file".to_owned())),
        Ok(metadata) if metadata.len() == 0 => return nothing(path),
        Ok(metadata) if metadata.len() < HEADER_BYTES => {
            return Err(not_ours("it is no database".to_owned()));
        }
        Ok(_) => {}
    }
    let no_database = |error: sqlx::Error| match result_code(&error) {
        Some(code) if DAMAGE_CODES.contains(&code) => not_ours("it is no database".to_owned()),
        _ => fault(path)(error),
    };
    // Settings of their own: what the other connections set makes SQLite read the whole schema.
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(true);
    // With it SQLite takes a header that counts more pages than there are. Nothing can be written here.
    let options = options.disable_statement_logging().pragma("writable_schema", "ON");
    let mut connection = options.connect().await.map_err(no_database)?;
    let id = application_id(&mut connection).await.map_err(no_database);
    connection.close().await.map_err(fault(path))?;
    match id? {
        APPLICATION_ID => Ok(Found::Ours),
        0 => Err(not_ours("it is the database of another program".to_owned())),
        id => Err(not_ours(format!("it is the database of another program (application id {id:#x})"))),
    }
}

/// There is no file, or an empty one. SQLite would delete a log beside it, and with it what a lost store held.
fn nothing(path: &Path) -> Result<Found, StoreError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    match fs::metadata(&log) {
        Ok(metadata) if metadata.len() > 0 => {
            Err(StoreError::LogWithoutFile { path: path.to_owned(), log: log.into() })
        }
        Ok(_) | Err(_) => Ok(Found::Nothing),
    }
}

async fn application_id(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA application_id").fetch_one(connection).await
}

/// What a path names, so that another file under the same name is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

/// The file that is there.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        Identity { device: found.dev(), inode: found.ino() }
    };
    #[cfg(not(unix))]
    let identity = {
        drop(found);
        Identity {}
    };
    Some(identity)
}

fn create_folders(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| StoreError::io(folder, error))
}

/// Makes or upgrades the store while no other process can.
async fn under_lock(path: &Path, options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let mut lock = lock::WriteLock::open(&lock::path_for(path))?;
    lock.acquire(PATIENCE).await?;
    let result = make_or_upgrade(path, options).await;
    lock.release();
    result
}

async fn make_or_upgrade(path: &Path, options: &SqliteConnectOptions) -> Result<(), StoreError> {
    create_file(path)?;
    let mut connection = options.connect().await.map_err(fault(path))?;
    let result = set_up(path, &mut connection).await;
    connection.close().await.map_err(fault(path))?;
    result
}

/// Makes an empty file that only its owner can read; the files that SQLite puts beside it follow its mode.
fn create_file(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::io(path, error)),
    }
}

async fn set_up(path: &Path, connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let not_ours = |detail: &str| StoreError::NotOurs { path: path.to_owned(), detail: detail.to_owned() };
    let pages: i64 =
        sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await.map_err(fault(path))?;
    match application_id(connection).await.map_err(fault(path))? {
        APPLICATION_ID => {}
        0 if pages == 0 => {
            // Before the journal moves to a file of its own, so that the mark is in the file from the start.
            let mark = format!("PRAGMA application_id = {APPLICATION_ID}");
            sqlx::raw_sql(AssertSqlSafe(mark)).execute(&mut *connection).await.map_err(fault(path))?;
        }
        _ => return Err(not_ours("it is the database of another program")),
    }
    let schema = migrate::schema(path, connection).await?;
    check_schema(path, schema)?;
    // A store that is being made has a mark and nothing else: each step of the schema is one transaction.
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema")
        .fetch_one(&mut *connection)
        .await
        .map_err(fault(path))?;
    if schema == 0 && tables > 0 {
        return Err(impossible_schema(path, schema, "its tables are there"));
    }
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode = WAL")
        .fetch_one(&mut *connection)
        .await
        .map_err(fault(path))?;
    if journal != "wal" {
        return Err(not_ours("its file system cannot share memory between processes, which a store needs"));
    }
    migrate::run(path, connection).await
}
