//! Opening a file: is it there, is it ours, is it of a schema we know? A file that is not ours is not touched.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use super::{PATIENCE, fault, lock, migrate, result_code};
use crate::error::StoreError;

/// What to do where there is no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Fail,
}

/// "ZUNO": how a file says that it is a store.
const APPLICATION_ID: i64 = 0x5A55_4E4F;

/// Primary result codes of SQLite for a file that is no database at all.
const NO_DATABASE_CODES: [i32; 2] = [11, 26];

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
    match (look(path, options).await?, if_missing) {
        (Found::Nothing, IfMissing::Fail) => Err(StoreError::NotFound { path: path.to_owned() }),
        (Found::Nothing, IfMissing::Create) => {
            create_folders(path)?;
            under_lock(path, options).await
        }
        (Found::Ours, _) => {
            let mut connection = options.clone().read_only(true).connect().await.map_err(fault)?;
            let schema = migrate::schema(&mut connection).await;
            connection.close().await.map_err(fault)?;
            let schema = schema?;
            check_schema(path, schema)?;
            if schema == migrate::SCHEMA { Ok(()) } else { under_lock(path, options).await }
        }
    }
}

fn check_schema(path: &Path, found: i64) -> Result<(), StoreError> {
    if found > migrate::SCHEMA {
        return Err(StoreError::NewerSchema { path: path.to_owned(), found, supported: migrate::SCHEMA });
    }
    Ok(())
}

/// Looks at a file without touching it, its folder or its locks. `immutable` makes SQLite itself do so; reading the
/// file by hand would drop the locks that other connections of this process hold on it.
async fn look(path: &Path, options: &SqliteConnectOptions) -> Result<Found, StoreError> {
    let not_ours = |detail: String| StoreError::NotOurs { path: path.to_owned(), detail };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(StoreError::io(path, error)),
        Ok(metadata) if metadata.is_dir() => return Err(not_ours("it is a folder".to_owned())),
        Ok(metadata) if metadata.len() == 0 => return Ok(Found::Nothing),
        Ok(metadata) if metadata.len() < HEADER_BYTES => {
            return Err(not_ours("it is no database".to_owned()));
        }
        Ok(_) => {}
    }
    let no_database = |error: sqlx::Error| match result_code(&error) {
        Some(code) if NO_DATABASE_CODES.contains(&code) => not_ours("it is no database".to_owned()),
        _ => fault(error),
    };
    let mut connection =
        options.clone().read_only(true).immutable(true).connect().await.map_err(no_database)?;
    let id = application_id(&mut connection).await.map_err(no_database);
    connection.close().await.map_err(fault)?;
    match id? {
        APPLICATION_ID => Ok(Found::Ours),
        0 => Err(not_ours("it is the database of another program".to_owned())),
        id => Err(not_ours(format!("it is the database of another program (application id {id:#x})"))),
    }
}

async fn application_id(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA application_id").fetch_one(connection).await
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
    let mut connection = options.connect().await.map_err(fault)?;
    let result = set_up(path, &mut connection).await;
    connection.close().await.map_err(fault)?;
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
        sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await.map_err(fault)?;
    match application_id(connection).await.map_err(fault)? {
        APPLICATION_ID => {}
        0 if pages == 0 => {
            // Before the journal moves to a file of its own, so that the mark is in the file from the start.
            let mark = format!("PRAGMA application_id = {APPLICATION_ID}");
            sqlx::raw_sql(AssertSqlSafe(mark)).execute(&mut *connection).await.map_err(fault)?;
        }
        _ => return Err(not_ours("it is the database of another program")),
    }
    check_schema(path, migrate::schema(connection).await?)?;
    let journal: String =
        sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await.map_err(fault)?;
    if journal != "wal" {
        return Err(not_ours("its file system cannot share memory between processes, which a store needs"));
    }
    migrate::run(connection).await
}
