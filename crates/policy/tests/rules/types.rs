//! Types that stand for a check or an authority, and the shortcuts they lack (M1, C2, E3, P19).
//!
//! What must not compile is in `tests/compile_fail.rs`; a missing trait can be asked for here, which is faster and
//! does not depend on the wording of the compiler.

use std::marker::PhantomData;
use std::ops::{Add, BitOr, Not};
use std::str::FromStr;

use domain::{
    Capability, CapabilitySet, ClientName, Core, Event, Plan, SessionState, Snapshot, StepId, Title,
    WorkerName,
};
use policy::{Command, ContinuationView, Decision, UserActor, UserCommand};
use serde::de::DeserializeOwned;

/// Whether a type implements a trait: the inherent constant wins where its bound holds.
macro_rules! implements {
    ($type:ty: $($bound:tt)+) => {{
        struct Probe<T>(PhantomData<T>);
        trait Otherwise {
            const _IS: bool = false;
        }
        impl<T> Otherwise for Probe<T> {}
        impl<T: $($bound)+> Probe<T> {
            const _IS: bool = true;
        }
        let _ = <Probe<$type> as Otherwise>::_IS;
        Probe::<$type>::_IS
    }};
}

#[test]
fn the_probe_tells_the_difference() {
    assert!(implements!(String: Default));
    assert!(!implements!(std::num::NonZeroU8: Default));
}

#[test]
fn e3_a_decision_is_made_by_deciding() {
    assert!(!implements!(Decision: Default));
    assert!(!implements!(Decision: DeserializeOwned));
    assert!(!implements!(Decision: From<Vec<Event>>));
    assert!(!implements!(Decision: From<SessionState>));
}

#[test]
fn m1_authority_of_a_person_is_not_found_by_the_way() {
    assert!(!implements!(UserActor: Default));
    assert!(!implements!(UserActor: DeserializeOwned));
    assert!(!implements!(UserActor: FromStr));
    assert!(!implements!(UserActor: From<String>));
    assert!(!implements!(UserActor: From<ClientName>));
    assert!(!implements!(UserActor: From<WorkerName>));
    assert!(!implements!(UserCommand: DeserializeOwned), "a model's JSON becomes no command of a person");
    assert!(!implements!(Command<'static>: From<&'static UserCommand>));
}

#[test]
fn c2_sets_of_capabilities_have_no_way_to_grow() {
    assert!(!implements!(CapabilitySet: Default));
    assert!(!implements!(CapabilitySet: DeserializeOwned));
    assert!(!implements!(CapabilitySet: From<u16>));
    assert!(!implements!(CapabilitySet: FromIterator<Capability>));
    assert!(!implements!(CapabilitySet: Extend<Capability>));
    assert!(!implements!(CapabilitySet: BitOr));
    assert!(!implements!(CapabilitySet: Add));
    assert!(!implements!(CapabilitySet: Not));
}

#[test]
fn p1_p2_p3_p4_p5_p7_contents_of_plans_are_checked_or_do_not_exist() {
    assert!(!implements!(Snapshot: Default));
    assert!(!implements!(Snapshot: DeserializeOwned), "a stored plan is read as a whole and checked");
    assert!(!implements!(Plan: Default));
    assert!(!implements!(Title: Default));
    assert!(!implements!(Title: From<String>));
    assert!(!implements!(StepId: Default));
    assert!(!implements!(StepId: From<String>));
}

#[test]
fn p19_the_view_of_the_continuation_is_made_of_parts() {
    assert!(!implements!(ContinuationView: From<SessionState>));
    assert!(!implements!(ContinuationView: From<Core>));
    assert!(!implements!(ContinuationView: From<Plan>));
    assert!(!implements!(ContinuationView: Default));
}
