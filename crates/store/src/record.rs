//! Events as rows and back. Reading is parsing: what does not decode is an error that names its event (E7).

use domain::{CommandKey, Event, EventBody, Seq, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::engine::{Row, Value};
use crate::error::StoreError;

/// The columns of an event, in the order in which [`read_event`] takes them.
macro_rules! event_columns {
    () => {
        "seq, at, actor, kind, version, payload, command_key"
    };
}
pub(crate) use event_columns;

/// A body as serde sees it from outside: the kind and, unless it has no fields, the payload.
#[derive(Serialize, Deserialize)]
struct Tagged<'a> {
    kind: &'a str,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

/// The payload of a kind without fields.
const NO_PAYLOAD: &str = "null";

/// The values of an event's row, the session first.
pub(crate) fn event_values(session: SessionId, event: &Event) -> Result<Vec<Value>, StoreError> {
    let unwritable = |error: serde_json::Error| StoreError::Misfit {
        session,
        detail: format!("event {} cannot be written: {error}", event.seq),
    };
    let body = serde_json::to_string(&event.body).map_err(unwritable)?;
    let tagged: Tagged<'_> = serde_json::from_str(&body).map_err(unwritable)?;
    Ok(vec![
        Value::text(&session),
        Value::from(event.seq.0),
        Value::from(event.at.0),
        Value::string(serde_json::to_string(&event.actor).map_err(unwritable)?),
        Value::text(&tagged.kind),
        Value::from(i64::from(EventBody::VERSION)),
        Value::text(&tagged.payload.map_or(NO_PAYLOAD, RawValue::get)),
        Value::opt_text(event.command_key.as_ref()),
    ])
}

/// Reads the columns of `event_columns!`.
pub(crate) fn read_event(session: SessionId, row: &mut Row) -> Result<Event, StoreError> {
    let seq = Seq(row.count("seq")?);
    let at = Timestamp(row.int("at")?);
    let corrupt = |detail: String| StoreError::corrupt_at(session, seq, detail);
    let actor = serde_json::from_str(&row.text("actor")?)
        .map_err(|error| corrupt(format!("its actor does not decode: {error}")))?;
    let kind = row.text("kind")?;
    let version = row.count("version")?;
    if !is_known(&kind, version) {
        return Err(StoreError::UnknownKind { session, kind: kind_entry(&kind, version), seq: Some(seq) });
    }
    let body = read_body(&kind, &row.text("payload")?)
        .map_err(|error| corrupt(format!("its payload does not decode as `{kind}`: {error}")))?;
    let command_key = row.opt_text("command_key")?.map(CommandKey::try_from).transpose();
    let command_key = command_key.map_err(|fault| corrupt(format!("its command key {fault}")))?;
    Ok(Event { seq, at, actor, body, command_key })
}

fn read_body(kind: &str, payload: &str) -> serde_json::Result<EventBody> {
    let payload = if payload == NO_PAYLOAD { None } else { Some(serde_json::from_str(payload)?) };
    serde_json::from_str(&serde_json::to_string(&Tagged { kind, payload })?)
}

fn is_known(kind: &str, version: u64) -> bool {
    version == u64::from(EventBody::VERSION) && EventBody::KINDS.contains(&kind)
}

/// How a session's list of kinds names a kind in a version: later versions of a kind are as unknown to this build
/// as later kinds are.
pub(crate) fn kind_entry(kind: &str, version: u64) -> String {
    if version == 1 { kind.to_owned() } else { format!("{kind}/{version}") }
}

/// Whether this build reads events of this entry.
pub(crate) fn entry_is_known(entry: &str) -> bool {
    match entry.split_once('/') {
        None => is_known(entry, 1),
        Some((kind, version)) => version.parse().is_ok_and(|version| is_known(kind, version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e7_what_this_build_writes_it_knows() {
        for kind in EventBody::KINDS {
            assert!(entry_is_known(&kind_entry(kind, u64::from(EventBody::VERSION))));
        }
        assert!(!entry_is_known("session_opened/2"));
        assert!(!entry_is_known("dreamt"));
    }

    #[test]
    fn a_body_without_fields_has_no_payload() {
        assert_eq!(read_body("inbox_held", NO_PAYLOAD).unwrap(), EventBody::InboxHeld);
        assert!(read_body("mode_changed", NO_PAYLOAD).is_err());
        assert!(read_body("mode_changed", "{}").is_err());
    }
}
