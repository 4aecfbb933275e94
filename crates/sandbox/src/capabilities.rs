//! Capabilities: what a process may do beyond its user. A command has none, and gains none.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::wall::{Missing, OfWall as _};

const WALL: &str = "capabilities";

/// What the second stage needs: to mount `/proc`, and to give up for good what it could gain.
const OF_SECOND_STAGE: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP];

/// Lets a child keep what it needs when it becomes another program: only root's would by themselves.
pub(crate) fn hand_on() -> Result<(), Missing> {
    let doing = "they cannot be handed on";
    let handed = OF_SECOND_STAGE.into_iter().collect();
    let sets = CapabilitySets { effective: handed, permitted: handed, inheritable: handed };
    set_capabilities(None, sets).of(WALL, doing)?;
    for capability in OF_SECOND_STAGE {
        configure_capability_in_ambient_set(capability, true).of(WALL, doing)?;
    }
    Ok(())
}

/// Not even root has any right that others have not.
pub(crate) fn drop_all() -> Result<(), Missing> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            // Numbers beyond the last capability of this kernel.
            Err(_) => break,
            Ok(false) => {}
            // Who has no capability may not change this set, and gains nothing by it: see below.
            Ok(true) => drop(remove_capability_from_bounding_set(capability)),
        }
    }
    clear_ambient_capability_set().of(WALL, "they cannot be dropped")?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).of(WALL, "they cannot be dropped")?;
    set_no_new_privs(true).of(WALL, "they could be gained")
}
