//! Making every head anew from its log, after the schema moved: the build that wrote it may have known less (E1).

use std::sync::Arc;

use domain::{Seq, SessionId};

use crate::engine::{Connection, Row, Value};
use crate::error::StoreError;
use crate::head::{Head, Loaded, read_kinds, read_leases};
use crate::read::state_at;
use crate::write::{head_values, write_heads};

/// Folds every log. A session that cannot be read stays as it is, and stays what the check reports.
pub(crate) async fn refold(connection: &mut dyn Connection) -> Result<(), StoreError> {
    let select = "SELECT id, head_seq, kinds, leases FROM sessions WHERE id > $1 ORDER BY id LIMIT 1";
    let mut last = String::new();
    loop {
        let rows = connection.rows(select.into(), vec![Value::text(&last)]).await?;
        let Some(mut row) = rows.into_iter().next() else { return Ok(()) };
        last = row.text("id")?;
        let Ok(session) = last.parse() else { continue };
        match refold_one(connection, session, row).await {
            Err(error @ (StoreError::Corrupt { .. } | StoreError::UnknownKind { .. })) => {
                tracing::warn!(%error, "the stored state of a session was not made anew");
            }
            refolded => refolded?,
        }
    }
}

async fn refold_one(
    connection: &mut dyn Connection,
    session: SessionId,
    mut row: Row,
) -> Result<(), StoreError> {
    let head = Seq(row.count("head_seq")?);
    let kinds = read_kinds(session, &mut row)?;
    let leases = read_leases(session, &mut row)?;
    let state = state_at(connection, session, head).await?;
    let wake_at = policy::wake_at(&state.core, &leases, state.core.last_at);
    let loaded = Loaded { head: Head { state: Arc::new(state), leases, wake_at }, kinds };
    write_heads(connection, &[head_values(session, &loaded)?]).await
}
