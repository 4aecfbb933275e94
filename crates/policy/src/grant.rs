//! What an agent may do: intersections only (C2), and the Plan mode's allow list (C4).

use domain::{Capability, CapabilitySet, Code, Mode};

use crate::command::{CallGrant, Permission};
use crate::rejection::Rejection;

/// All that Plan mode lets through, by name. Whatever is not here is denied, whoever asks (C4, M6).
pub const PLAN_MODE: CapabilitySet = CapabilitySet::of(&[
    Capability::ReadWorkspace,
    Capability::SearchWorkspace,
    Capability::AskHuman,
    Capability::LoadSkill,
    Capability::ReadWorkState,
    Capability::UpdatePlan,
    Capability::UpdateGoal,
    Capability::UpdateWorkItems,
]);

/// What remains of a grant in a mode.
#[must_use]
pub const fn in_mode(grant: CapabilitySet, mode: Mode) -> CapabilitySet {
    match mode {
        Mode::Work => grant,
        Mode::Plan => grant.intersect(PLAN_MODE),
    }
}

/// Whether a call may run in this mode. The refusal names what is missing and where it would be allowed.
///
/// In Plan mode a tool that says of no capability that it needs it is denied too: the mode is an allow list, and such
/// a tool names nothing that is on it (C4).
pub fn check_call(tool: &str, call: &CallGrant, mode: Mode) -> Result<(), Rejection> {
    if mode == Mode::Plan && call.requires.iter().next().is_none() {
        let message = format!(
            "`{tool}` does not say what it needs, and Plan mode allows by name. Go on with reading and planning, and \
             say what you would do"
        );
        return Err(Rejection::new("C4", Code::Denied, message));
    }
    let missing: Vec<_> =
        call.requires.missing_from(in_mode(call.grant, mode)).map(Capability::name).collect();
    if !missing.is_empty() {
        let lacks = missing.join(", ");
        let message = match mode {
            Mode::Plan => format!(
                "`{tool}` needs {lacks}, which Plan mode does not allow. Plan mode is read-only and only the user \
                 leaves it. Go on with reading and planning, and say what you would do"
            ),
            Mode::Work => format!(
                "`{tool}` needs {lacks}, which this agent does not have in {mode} mode. Go on without it, or tell \
                 the user what is missing"
            ),
        };
        let rule = if matches!(mode, Mode::Plan) { "C4" } else { "C2" };
        return Err(Rejection::new(rule, Code::Denied, message));
    }
    if !call.tool_is_allowed {
        let message = format!("`{tool}` is not on the list of allowed tools in the configuration");
        return Err(Rejection::new("C2", Code::Denied, message));
    }
    Ok(())
}

/// What the permission rules say about a call that the mode and the role let through. A call that a person allowed
/// needs no second leave (I4); a rule that denies it stands above that.
pub(crate) fn check_permission(tool: &str, call: &CallGrant, was_allowed: bool) -> Result<(), Rejection> {
    match &call.permission {
        Permission::Allow => Ok(()),
        Permission::Ask { .. } if was_allowed => Ok(()),
        Permission::Ask { because } => {
            let message = format!("`{tool}` needs the user's leave: {because}");
            Err(Rejection::new("I4", Code::PermissionNeeded, message))
        }
        Permission::Deny { because } => {
            Err(Rejection::new("C2", Code::Denied, format!("`{tool}` is not allowed: {because}")))
        }
    }
}
