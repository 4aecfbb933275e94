//! What holds after every decision of every test and of every random history.

use std::collections::BTreeSet;

use domain::{Core, Goal, GoalStatus, LaneId, Mode, PauseReason, RequestId, Timestamp};
use policy::{Awaited, ContinuationView, Leases, NextAction, next_action, wake_at};

/// Checks a state with the leases beside it as the store keeps them, at the moment of the decision.
pub(crate) fn check(core: &Core, leases: &Leases, wake: Option<Timestamp>, now: Timestamp) {
    let goal = core.goal.as_ref();
    check_goal(core, goal);
    check_rows(core, goal);
    check_requests(core, goal);
    check_commands(core, goal);
    check_leases(core, leases);
    check_wake_up(core, leases, wake, now);
    let text = serde_json::to_string(core).unwrap();
    assert_eq!(serde_json::from_str::<Core>(&text).unwrap(), *core, "the cached state reads back");
}

fn check_goal(core: &Core, goal: Option<&Goal>) {
    assert!(core.running_turns().count() <= core.lanes.len(), "a running turn per lane at most");
    let Some(goal) = goal else { return };
    if goal.is_active() {
        assert_eq!(core.mode, Mode::Work, "M5: no Goal is active in Plan mode");
        assert!(!goal.is_spent(), "G4: a Goal whose budget is used up is limited in that transaction");
        assert_eq!(core.uncertain_call, None, "T7: what may have happened holds the Goal");
    } else {
        assert_eq!(goal.retry, None, "T10: a retry belongs to an active Goal");
    }
    let bound = core.running_turns().any(|(_, turn)| turn.goal.is_some_and(|bound| bound.goal_id == goal.id));
    assert_eq!(
        goal.active_since.is_some(),
        goal.is_active() && bound,
        "G4: time counts while bound turns run"
    );
    assert!(goal.active_since.is_none_or(|since| since <= core.last_at));
    if !goal.is_open() {
        assert_eq!(
            (&goal.wait, &goal.amendment),
            (&None, &None),
            "G12: nothing waits for a Goal that is over"
        );
    }
}

fn check_rows(core: &Core, goal: Option<&Goal>) {
    let open = goal.filter(|goal| goal.is_open()).map(|goal| goal.id);
    let running: BTreeSet<_> = core.running_turns().map(|(_, turn)| turn.number).collect();
    for row in core.lanes.values().flat_map(|slot| &slot.inbox) {
        match row.taken {
            Some(turn) => {
                assert!(running.contains(&turn), "I2: row {} is taken by a turn that is over", row.id);
            }
            None => assert!(
                row.goal_id.is_none_or(|goal| Some(goal) == open),
                "I5: row {} belongs to a Goal that is over",
                row.id
            ),
        }
    }
}

fn check_requests(core: &Core, goal: Option<&Goal>) {
    let open = goal.filter(|goal| goal.is_open()).map(|goal| goal.id);
    for request in &core.requests {
        assert!(
            request.goal_id.is_none_or(|goal| Some(goal) == open),
            "I4: the end of a Goal cancels its requests"
        );
        assert!(request.id <= core.last_request);
    }
    let awaited: Option<RequestId> = match goal.map(|goal| &goal.status) {
        Some(GoalStatus::Paused(
            PauseReason::HumanInput { request } | PauseReason::Permission { request },
        )) => Some(*request),
        _ => None,
    };
    assert!(
        awaited.is_none_or(|id| core.request(id).is_some()),
        "I4: a pause for a request that can be answered"
    );
}

fn check_commands(core: &Core, goal: Option<&Goal>) {
    let open = goal.filter(|goal| goal.is_open()).map(|goal| goal.id);
    for command in &core.commands {
        let has_reader = command.goal_id.is_none_or(|goal| Some(goal) == open);
        assert!(has_reader || command.is_stopping, "G12: the end of a Goal stops its commands");
        assert!(core.mode == Mode::Work || command.is_stopping, "M3: Plan mode stops what runs");
    }
}

/// What is held is held for something that runs, and whatever runs has an owner.
fn check_leases(core: &Core, leases: &Leases) {
    assert_eq!(
        leases.turn.is_some(),
        core.running_turns().next().is_some(),
        "T5: a lease for the running turn"
    );
    let running: BTreeSet<_> = core.commands.iter().map(|command| command.id).collect();
    assert_eq!(leases.commands.keys().copied().collect::<BTreeSet<_>>(), running, "a lease for each command");
    let text = serde_json::to_string(leases).unwrap();
    assert_eq!(serde_json::from_str::<Leases>(&text).unwrap(), *leases, "the stored leases read back");
}

/// No lost wake-up: what is due is due at once, what waits for time has a time, and nothing else wakes anybody (T3).
fn check_wake_up(core: &Core, leases: &Leases, wake: Option<Timestamp>, now: Timestamp) {
    assert_eq!(wake, wake_at(core, leases, now), "T3: the stored wake-up is the derived one");
    let command = leases.commands.values().map(|lease| lease.expires_at).min();
    let view = ContinuationView::of_lane(core, &LaneId::main());
    let runs_at = |at| matches!(next_action(&view, at), NextAction::RunGoal { .. });
    let of_lane = match next_action(&view, now) {
        NextAction::RunInput { .. } | NextAction::RunGoal { .. } => Some(now),
        NextAction::WaitUntil { at, .. } => {
            assert!(at > now && runs_at(at), "T3: what is waited for runs then");
            Some(at)
        }
        NextAction::WaitFor { what: Awaited::Turn { .. } } => {
            Some(leases.turn.as_ref().expect("a running turn has a lease").expires_at)
        }
        NextAction::WaitFor { what: Awaited::Condition { wait } } => {
            assert!(wait.deadline > now && runs_at(wait.deadline), "G10: a wait ends at its deadline");
            Some(leases.next_look.map_or(wait.deadline, |look| look.min(wait.deadline)))
        }
        NextAction::WaitFor { what: Awaited::Commands { commands } } => {
            assert!(!commands.is_empty() && command.is_some(), "G10: commands that are waited for run");
            None
        }
        NextAction::Idle { .. } => None,
    };
    assert_eq!(wake, of_lane.into_iter().chain(command).min());
}
