//! Decisions, plan contents and authority are not written down by whoever likes to: their fields are private
//! (E3, P1 to P7, M1).

use domain::{ClientName, Snapshot, Step, Title};
use policy::{ContinuationView, Decision, Leases, UserActor};

fn a_decision(one: &Decision) -> Decision {
    Decision {
        session: one.session(),
        based_on: one.based_on(),
        events: Vec::new(),
        state: one.state().clone(),
        leases: Leases::default(),
        wake_at: None,
    }
}

fn a_decision_like(one: Decision) -> Decision {
    Decision { wake_at: None, ..one }
}

fn a_plan(title: Title, steps: Vec<Step>) -> Snapshot {
    Snapshot { title, steps, explanation: None }
}

fn a_person(client: ClientName) -> UserActor {
    UserActor { client }
}

fn a_view_without_hold(view: ContinuationView) -> ContinuationView {
    ContinuationView { inbox_held: false, ..view }
}

fn main() {}
