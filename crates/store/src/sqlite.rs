//! The SQLite engine: one file, one writer per process, several processes on it at a time.

mod lock;
mod migrate;
mod open;

use std::borrow::Cow;
use std::ops::DerefMut;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow, SqliteSynchronous};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqlSafeStr as _, Sqlite as Driver,
    SqliteConnection, SqlitePool, TypeInfo as _, ValueRef as _,
};
use tokio::sync::Mutex;

use crate::engine::{Cell, Connection, Engine, Row, Sql, Value, Writer};
use crate::error::StoreError;
use lock::WriteLock;
pub(crate) use open::IfMissing;

/// How long to wait for others before giving up. A batch takes milliseconds; whoever holds the store for this long
/// is stopped or broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections for reading. Reads are short, and each connection is a thread and a page cache.
const READERS: u32 = 4;
/// Where the write-ahead log is cut back to once it was checkpointed; a burst may make it longer for a while.
const WAL_BYTES: i64 = 64 * 1024 * 1024;

/// An open SQLite store.
pub(crate) struct Sqlite {
    path: Arc<Path>,
    options: SqliteConnectOptions,
    lock_path: std::path::PathBuf,
    readers: SqlitePool,
    /// Its own connection, since the number it reads counts the commits of all others.
    onlooker: Mutex<Option<SqliteConnection>>,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path, if_missing: IfMissing) -> Result<Self, StoreError> {
        let options = options(path);
        open::prepare(path, &options, if_missing).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(PATIENCE)
            // A connection to a file does not go stale, and the test costs a thread hop per read.
            .test_before_acquire(false)
            .connect_lazy_with(options.clone().read_only(true));
        let lock_path = lock::path_for(path);
        Ok(Self { path: path.into(), options, lock_path, readers, onlooker: Mutex::new(None) })
    }
}

/// What all connections share.
fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(PATIENCE)
        .disable_statement_logging()
}

#[async_trait]
impl Engine for Sqlite {
    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        let connection = self.readers.acquire().await.map_err(fault(&self.path))?;
        Ok(Box::new(Plain { path: Arc::clone(&self.path), connection }))
    }

    async fn writer(&self) -> Result<Box<dyn Writer>, StoreError> {
        let lock = WriteLock::open(&self.lock_path)?;
        let options = self.options.clone().pragma("journal_size_limit", WAL_BYTES.to_string());
        // What undoes a failed statement within its transaction; a file for it would only cost time.
        let options = options.pragma("temp_store", "MEMORY");
        let file = open::identity(&self.path);
        let connection = options.connect().await.map_err(fault(&self.path))?;
        Ok(Box::new(SqliteWriter {
            path: Arc::clone(&self.path),
            file,
            connection,
            lock,
            is_locked: false,
            in_transaction: false,
        }))
    }

    async fn change_mark(&self) -> Result<i64, StoreError> {
        let mut slot = self.onlooker.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.options.clone().read_only(true).connect().await.map_err(fault(&self.path))?,
        };
        let mark = sqlx::query_scalar("PRAGMA data_version")
            .fetch_one(&mut connection)
            .await
            .map_err(fault(&self.path));
        *slot = Some(connection);
        mark
    }

    async fn version(&self) -> Result<String, StoreError> {
        let mut connection = self.readers.acquire().await.map_err(fault(&self.path))?;
        let version: String = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(&mut *connection)
            .await
            .map_err(fault(&self.path))?;
        Ok(format!("SQLite {version}"))
    }

    async fn self_check(&self) -> Result<Vec<String>, StoreError> {
        let mut connection = self.readers.acquire().await.map_err(fault(&self.path))?;
        let mut found: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check")
            .fetch_all(&mut *connection)
            .await
            .map_err(fault(&self.path))?;
        found.retain(|line| line != "ok");
        let orphans = sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut *connection).await;
        let orphans = orphans.map_err(fault(&self.path))?;
        for row in orphans {
            let table: String = row.try_get(0).map_err(fault(&self.path))?;
            found.push(format!("a row of table {table} refers to one that does not exist"));
        }
        found.extend(migrate::differences(&self.path, &mut connection).await?);
        Ok(found)
    }

    async fn close(&self) {
        self.readers.close().await;
        if let Some(connection) = self.onlooker.lock().await.take() {
            connection.close().await.ok();
        }
    }
}

/// A connection, held in one way or another, that only runs statements.
struct Plain<C> {
    path: Arc<Path>,
    connection: C,
}

#[async_trait]
impl<C: DerefMut<Target = SqliteConnection> + Send> Connection for Plain<C> {
    async fn rows(&mut self, sql: Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        rows(&self.path, &mut self.connection, sql, values).await
    }

    async fn run(&mut self, sql: Sql, values: Vec<Value>) -> Result<(), StoreError> {
        run(&self.path, &mut self.connection, sql, values).await
    }
}

/// The writing connection. It is owned, not pooled, so plain `BEGIN` and `COMMIT` cannot reach another user of it.
struct SqliteWriter {
    path: Arc<Path>,
    /// What the path named when the connection was made.
    file: Option<open::Identity>,
    connection: SqliteConnection,
    lock: WriteLock,
    is_locked: bool,
    in_transaction: bool,
}

impl SqliteWriter {
    async fn end(&mut self, statement: &'static str) -> Result<(), StoreError> {
        run(&self.path, &mut self.connection, Cow::Borrowed(statement), Vec::new()).await?;
        self.in_transaction = false;
        self.unlock();
        Ok(())
    }

    fn unlock(&mut self) {
        if std::mem::take(&mut self.is_locked) {
            self.lock.release();
        }
    }
}

#[async_trait]
impl Connection for SqliteWriter {
    async fn rows(&mut self, sql: Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        rows(&self.path, &mut self.connection, sql, values).await
    }

    async fn run(&mut self, sql: Sql, values: Vec<Value>) -> Result<(), StoreError> {
        run(&self.path, &mut self.connection, sql, values).await
    }
}

#[async_trait]
impl Writer for SqliteWriter {
    async fn begin(&mut self) -> Result<(), StoreError> {
        // The lock queues processes in order, where SQLite's own waiting sleeps and guesses. `BEGIN IMMEDIATE`
        // still takes the database's lock, for those who do not know ours.
        self.lock.acquire(PATIENCE).await?;
        self.is_locked = true;
        // An open file outlives its name, and so would a worker that nobody can see or stop any more.
        if open::identity(&self.path) != self.file {
            return Err(StoreError::Gone { path: self.path.to_path_buf() });
        }
        run(&self.path, &mut self.connection, Cow::Borrowed("BEGIN IMMEDIATE"), Vec::new()).await?;
        self.in_transaction = true;
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.end("COMMIT").await
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction {
            self.unlock();
            return Ok(());
        }
        match self.end("ROLLBACK").await {
            Ok(()) => Ok(()),
            Err(error) => {
                // Some faults end the transaction on their own; whatever is left of it ends with the connection,
                // which is not used again.
                self.unlock();
                Err(error)
            }
        }
    }

    async fn close(self: Box<Self>) {
        self.connection.close().await.ok();
    }
}

fn query(sql: Sql, values: Vec<Value>) -> sqlx::query::Query<'static, Driver, sqlx::sqlite::SqliteArguments> {
    let sql = match sql {
        Cow::Borrowed(sql) => sql.into_sql_str(),
        // Built from constants of this crate and counted places; values are always bound.
        Cow::Owned(sql) => AssertSqlSafe(sql).into_sql_str(),
    };
    let mut query = sqlx::query(sql);
    for value in values {
        query = match value {
            Value::Int(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) => query.bind(bytes),
        };
    }
    query
}

async fn rows(
    path: &Path,
    connection: &mut SqliteConnection,
    sql: Sql,
    values: Vec<Value>,
) -> Result<Vec<Row>, StoreError> {
    let rows = query(sql, values).fetch_all(connection).await.map_err(fault(path))?;
    rows.iter().map(|row| read_row(path, row)).collect()
}

async fn run(
    path: &Path,
    connection: &mut SqliteConnection,
    sql: Sql,
    values: Vec<Value>,
) -> Result<(), StoreError> {
    query(sql, values).execute(connection).await.map_err(fault(path))?;
    Ok(())
}

fn read_row(path: &Path, row: &SqliteRow) -> Result<Row, StoreError> {
    let mut cells = Vec::with_capacity(row.len());
    for at in 0..row.len() {
        let raw = row.try_get_raw(at).map_err(fault(path))?;
        let cell = match raw.type_info().name() {
            _ if raw.is_null() => Cell::Null,
            "INTEGER" => Cell::Int(row.try_get_unchecked(at).map_err(fault(path))?),
            "TEXT" => Cell::Text(row.try_get_unchecked(at).map_err(fault(path))?),
            "BLOB" => Cell::Bytes(row.try_get_unchecked(at).map_err(fault(path))?),
            _ => return Err(StoreError::UnexpectedValue { column: "any", found: "a value of another type" }),
        };
        cells.push(cell);
    }
    Ok(Row::new(cells))
}

/// The primary result codes of SQLite for "somebody else holds a lock".
const BUSY_CODES: [i32; 2] = [5, 6];
/// Those for a file that is broken, or is no database at all.
const DAMAGE_CODES: [i32; 2] = [11, 26];
/// Those for a file, or a folder around it, that this user may not write.
const NOT_WRITABLE_CODES: [i32; 2] = [3, 8];
/// That for a disk, or a database, without room.
const FULL_CODES: [i32; 1] = [13];

fn result_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

/// What a failure of the database in this file means.
fn fault(path: &Path) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| {
        let is_one_of = |codes: &[i32]| result_code(&error).is_some_and(|code| codes.contains(&code));
        let path = path.to_owned();
        match &error {
            sqlx::Error::PoolTimedOut => StoreError::Busy(PATIENCE.as_secs()),
            sqlx::Error::PoolClosed => StoreError::Closed,
            _ if is_one_of(&BUSY_CODES) => StoreError::Busy(PATIENCE.as_secs()),
            _ if is_one_of(&DAMAGE_CODES) => StoreError::Damaged { path, detail: message(&error) },
            _ if is_one_of(&NOT_WRITABLE_CODES) => StoreError::NotWritable { path, detail: message(&error) },
            _ if is_one_of(&FULL_CODES) => StoreError::Full { path, detail: message(&error) },
            _ => StoreError::Database { path, source: Arc::new(error) },
        }
    }
}

/// What the database says about an error, without the driver's words around it.
fn message(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

#[cfg(test)]
mod tests;
