//! From JSON to a plan update, the same way for every client and tool.

use domain::{DecodedCandidate, LaneId, SessionState, Snapshot, UnknownKeys, Violation, decode_candidate};
use policy::{PlanUpdate, Rejection};
use serde_json::Value;

use crate::fresh;

/// Decodes and checks a candidate: everything that can be said of it without the current plan (P1–P7).
pub(crate) fn read_update(
    value: &Value,
    unknown: UnknownKeys,
) -> Result<(PlanUpdate, Vec<String>), Vec<Violation>> {
    let DecodedCandidate { candidate, ignored } = decode_candidate(value, unknown)?;
    let snapshot = Snapshot::check(&candidate)?;
    let update = PlanUpdate {
        snapshot,
        expected_revision: candidate.expected_revision,
        goal_id: candidate.goal_id,
        new_plan: fresh::plan(),
    };
    Ok((update, ignored))
}

/// The refusal of a candidate whose structure is wrong, with the plan as it is (P14).
pub(crate) fn refused(found: Vec<Violation>, state: &SessionState, lane: &LaneId) -> Rejection {
    Rejection::of(found).with_plan(state, lane)
}
