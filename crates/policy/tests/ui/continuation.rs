//! The decision on the next turn cannot look at a plan or at the mode (P19, T2).

use domain::{Mode, Plan, SessionState, Timestamp};
use policy::{ContinuationView, next_action};

fn of_a_session(state: &SessionState) -> ContinuationView {
    ContinuationView::of_lane(state, &domain::LaneId::main())
}

fn of_a_plan(plan: &Plan) -> ContinuationView {
    ContinuationView::new(None, &[], false, None, None, &[], &[], plan)
}

fn next(state: &SessionState) {
    let _ = next_action(state, Timestamp(0));
}

fn with_a_plan(view: &ContinuationView) -> &Plan {
    &view.plan
}

fn with_a_mode(view: &ContinuationView) -> Mode {
    view.mode
}

fn main() {}
