//! Bringing a store up to date: forward only, each step once, all that it lacks in one transaction.
//!
//! A build that takes a step may also make another state of an old log than the build before it, so every head is
//! folded anew with it. A change of `apply` that needs this comes with a step, if only an empty one.

use std::path::Path;

use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use super::{Plain, fault};
use crate::error::StoreError;
use crate::refold::refold;
use crate::store::digest;

/// A step of the schema. Once it was released its text never changes: a store remembers the digest.
struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "start", sql: include_str!("../../migrations/sqlite/0001_start.sql") },
    Migration {
        version: 2,
        name: "leases and evidence",
        sql: include_str!("../../migrations/sqlite/0002_leases_and_evidence.sql"),
    },
    Migration {
        version: 3,
        name: "met waits",
        sql: include_str!("../../migrations/sqlite/0003_met_waits.sql"),
    },
];

/// The schema of this build.
pub(super) const SCHEMA: i64 = 3;

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
    if from >= SCHEMA {
        return Ok(());
    }
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await.map_err(fault(path))?;
    let result = steps(path, connection, from).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = sqlx::raw_sql(end).execute(&mut *connection).await.map_err(fault(path));
    result.and(ended.map(drop))
}

async fn steps(path: &Path, connection: &mut SqliteConnection, from: i64) -> Result<(), StoreError> {
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > from) {
        step(connection, migration).await.map_err(fault(path))?;
        tracing::debug!(version = migration.version, name = migration.name, "the schema moved");
    }
    refold(&mut Plain { path: path.into(), connection }).await
}

async fn step(connection: &mut SqliteConnection, migration: &Migration) -> Result<(), sqlx::Error> {
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
