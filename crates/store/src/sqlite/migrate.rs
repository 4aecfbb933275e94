//! Bringing the schema up to date: forward only, each step once, each in a transaction.

use std::path::Path;

use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use super::fault;
use crate::error::StoreError;
use crate::store::digest;

/// A step of the schema. Once it was released its text never changes: a store remembers the digest.
struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "start", sql: include_str!("../../migrations/sqlite/0001_start.sql") }];

/// The schema of this build.
pub(super) const SCHEMA: i64 = 1;

/// The schema of a store.
pub(super) async fn schema(path: &Path, connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    read_schema(connection).await.map_err(fault(path))
}

pub(super) async fn read_schema(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await
}

/// Runs the steps that a store lacks. The caller holds the store's lock.
pub(super) async fn run(path: &Path, connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let from = schema(path, connection).await?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > from) {
        let result = step(connection, migration).await;
        if result.is_err() {
            sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.ok();
        }
        result.map_err(fault(path))?;
        tracing::debug!(version = migration.version, name = migration.name, "the schema moved");
    }
    Ok(())
}

async fn step(connection: &mut SqliteConnection, migration: &Migration) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    sqlx::raw_sql(migration.sql).execute(&mut *connection).await?;
    let log = "CREATE TABLE IF NOT EXISTS schema_steps \
               (version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT";
    sqlx::raw_sql(log).execute(&mut *connection).await?;
    sqlx::query("INSERT INTO schema_steps (version, name, sha256) VALUES ($1, $2, $3)")
        .bind(migration.version)
        .bind(migration.name)
        .bind(digest(migration.sql.as_bytes()).to_string())
        .execute(&mut *connection)
        .await?;
    let set_version = format!("PRAGMA user_version = {}", migration.version);
    sqlx::raw_sql(AssertSqlSafe(set_version)).execute(&mut *connection).await?;
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    Ok(())
}

/// Steps that a store took with another text than this build has.
pub(super) async fn differences(
    path: &Path,
    connection: &mut SqliteConnection,
) -> Result<Vec<String>, StoreError> {
    let select = "SELECT version, sha256 FROM schema_steps ORDER BY version";
    let mut found = Vec::new();
    for row in sqlx::query(select).fetch_all(connection).await.map_err(fault(path))? {
        let version: i64 = row.try_get(0).map_err(fault(path))?;
        let sha256: String = row.try_get(1).map_err(fault(path))?;
        let ours = MIGRATIONS.iter().find(|migration| migration.version == version);
        if ours.is_none_or(|migration| digest(migration.sql.as_bytes()).to_string() != sha256) {
            found.push(format!("schema step {version} was taken with another text than this build has"));
        }
    }
    Ok(found)
}

/// The name and digest of every step.
#[cfg(test)]
pub(super) fn digests() -> Vec<String> {
    let line = |step: &Migration| format!("{} {} {}", step.version, step.name, digest(step.sql.as_bytes()));
    MIGRATIONS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_from_one_to_the_schema_of_this_build() {
        let versions: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=SCHEMA).collect::<Vec<_>>());
    }
}
