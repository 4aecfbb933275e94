//! What was decided or checked is not changed afterwards (E3, P1 to P7).

use domain::{Capability, CapabilitySet, Snapshot, Step, StepId};
use policy::Decision;

fn fewer_events(mut one: Decision) -> Decision {
    one.events.clear();
    one
}

fn one_more_step(snapshot: &mut Snapshot, step: Step) {
    snapshot.steps.push(step);
}

fn main() {
    let _ = StepId("\u{200b}".to_owned());
    let _ = CapabilitySet(0xfff);
    let mut read = CapabilitySet::of(&[Capability::ReadWorkspace]);
    read.insert(Capability::WriteWorkspace);
    let _ = read.union(CapabilitySet::of(&[Capability::WriteWorkspace]));
}
