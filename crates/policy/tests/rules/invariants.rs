//! What holds after every decision of every test and of every random history.

use std::collections::BTreeSet;

use domain::{
    Core, Goal, GoalStatus, HumanRequest, LaneId, Mode, PauseReason, RUNNING_JOBS, RequestId, Timestamp,
};
use policy::{Awaited, ContinuationView, Leases, NextAction, next_action, wake_at};

/// Checks a state with the leases beside it as the store keeps them, at the moment of the decision.
pub(crate) fn check(core: &Core, leases: &Leases, wake: Option<Timestamp>, now: Timestamp) {
    let goal = core.goal.as_ref();
    check_goal(core, goal);
    check_rows(core, goal);
    check_requests(core, goal);
    check_commands(core, goal);
    check_jobs(core, goal);
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

fn check_jobs(core: &Core, goal: Option<&Goal>) {
    let open = goal.filter(|goal| goal.is_open()).map(|goal| goal.id);
    let main = LaneId::main();
    let lanes: BTreeSet<_> = core.jobs.iter().map(|job| &job.child).chain([&main]).collect();
    let are_there: BTreeSet<_> = core.lanes.keys().collect();
    assert!(core.lanes.is_empty() || lanes == are_there, "E8: a lane for each job, and the main lane");
    assert!(core.jobs.len() <= RUNNING_JOBS, "W2: jobs are bounded");
    for job in &core.jobs {
        let running = core.lanes[&job.child].running.as_ref();
        let goes_on = running.is_none_or(|turn| turn.stop.is_none());
        assert!(job.goal_id.is_none_or(|goal| Some(goal) == open) || !goes_on, "G12: it ends with its Goal");
        assert!(core.mode == Mode::Work || !goes_on, "M3: Plan mode ends every job");
        let waits = core.requests.iter().any(|request| request.lane == job.child);
        let is_due = core.lanes[&job.child].inbox.iter().any(|row| row.taken.is_none());
        assert!(running.is_some() || waits || is_due, "W2: nobody forgets a job");
        assert_eq!(job.may().intersect(policy::CHILD), job.may(), "C5: no child speaks for its parent");
    }
    let has_lane = |request: &HumanRequest| core.lanes.contains_key(&request.lane);
    assert!(core.requests.iter().all(has_lane), "W2: a job takes its requests along");
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
    let turn = || leases.turn.as_ref().expect("a running turn has a lease").expires_at;
    let of_jobs =
        core.jobs.iter().map(|job| match next_action(&ContinuationView::of_lane(core, &job.child), now) {
            NextAction::RunInput { .. } => Some(now),
            NextAction::WaitFor { what: Awaited::Turn { .. } } => Some(turn()),
            NextAction::Idle { .. } => None,
            other => panic!("E8: {other:?} in the lane of a job"),
        });
    let of_jobs = of_jobs.flatten().min();
    let view = ContinuationView::of_lane(core, &LaneId::main());
    let runs_at = |at| matches!(next_action(&view, at), NextAction::RunGoal { .. });
    let of_lane = match next_action(&view, now) {
        NextAction::RunInput { .. } | NextAction::RunGoal { .. } => Some(now),
        NextAction::WaitUntil { at, .. } => {
            assert!(at > now && runs_at(at), "T3: what is waited for runs then");
            Some(at)
        }
        NextAction::WaitFor { what: Awaited::Turn { .. } } => Some(turn()),
        NextAction::WaitFor { what: Awaited::Condition { wait } } => {
            assert!(wait.deadline > now && runs_at(wait.deadline), "G10: a wait ends at its deadline");
            Some(leases.next_look.map_or(wait.deadline, |look| look.min(wait.deadline)))
        }
        NextAction::WaitFor { what: Awaited::Commands { commands } } => {
            assert!(!commands.is_empty() && command.is_some(), "G10: commands that are waited for run");
            None
        }
        NextAction::WaitFor { what: Awaited::Jobs { jobs } } => {
            let run = jobs.iter().all(|id| core.job(*id).is_some());
            assert!(!jobs.is_empty() && run, "G10: jobs that are waited for are not over");
            None
        }
        NextAction::Idle { .. } => None,
    };
    assert_eq!(wake, of_lane.into_iter().chain(command).chain(of_jobs).min());
}
