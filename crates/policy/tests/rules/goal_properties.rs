//! What holds of Goals, requests, waits and commands in every random history. [`super::invariants`] adds what holds
//! after each decision.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Actor, CallRef, Event, EventBody, Goal, GoalId, GoalStatus, InputId, PauseReason, RequestEnd, RequestId,
    SessionState, TurnOutcome, TurnTrigger,
};
use proptest::prelude::*;

use super::history::histories;
use super::play::played;
use super::properties::each;

const fn is_user(event: &Event) -> bool {
    matches!(event.actor, Actor::User { .. })
}

const fn is_agent(event: &Event) -> bool {
    matches!(event.actor, Actor::Agent { .. })
}

/// The Goal that an event makes something of, apart from accounting for what was spent before.
const fn goal_of(body: &EventBody) -> Option<GoalId> {
    match body {
        EventBody::GoalMoved { goal_id, .. }
        | EventBody::GoalEdited { goal_id, .. }
        | EventBody::GoalBudgetChanged { goal_id, .. }
        | EventBody::GoalAmendmentProposed { goal_id, .. }
        | EventBody::GoalBlockStaged { goal_id, .. }
        | EventBody::GoalWaitSet { goal_id, .. }
        | EventBody::GoalWaitMet { goal_id }
        | EventBody::RetryScheduled { goal_id, .. }
        | EventBody::TurnStarted { trigger: TurnTrigger::Goal { goal_id, .. }, .. } => Some(*goal_id),
        EventBody::InputQueued { goal_id, .. } => *goal_id,
        EventBody::RequestOpened { request } => request.goal_id,
        EventBody::CommandStarted { command } => command.goal_id,
        _ => None,
    }
}

proptest! {
    #![proptest_config(testkit::cases(64))]

    #[test]
    fn g3_what_an_agent_makes_of_a_goal_is_a_proposal(history in histories()) {
        each(&played(&history), |before, event| match &event.body {
            EventBody::GoalOpened { status, .. } => assert!(is_user(event) || *status == GoalStatus::Proposed),
            EventBody::GoalMoved { to, .. } => assert!(!is_agent(event) || *to == GoalStatus::Completed),
            EventBody::GoalEdited { .. } => {
                let goal = before.core.goal.as_ref().unwrap();
                assert!(is_user(event) || goal.status == GoalStatus::Proposed);
            }
            EventBody::GoalBudgetChanged { .. }
            | EventBody::GoalAmendmentDeclined { .. }
            | EventBody::GoalWaitLifted { .. }
            | EventBody::RequestSettled { .. }
            | EventBody::InboxReleased => assert!(is_user(event), "{:?}", event.body),
            _ => {}
        });
    }

    #[test]
    fn g8_g9_the_runtime_only_strengthens_a_pause_and_only_people_lift_one(history in histories()) {
        each(&played(&history), |before, event| {
            let EventBody::GoalMoved { to, .. } = &event.body else { return };
            let held = match before.core.goal.as_ref().map(|goal| &goal.status) {
                Some(GoalStatus::Paused(held)) => *held,
                _ => return,
            };
            match to {
                GoalStatus::Paused(reason) => {
                    assert!(is_user(event) || reason.strength() > held.strength(), "{held:?} by {reason:?}");
                }
                _ => assert!(is_user(event), "{held:?} by {:?}", event.actor),
            }
            if let (GoalStatus::Active, PauseReason::HumanInput { request } | PauseReason::Permission { request }) =
                (to, held)
            {
                assert_eq!(before.core.request(request), None, "answered, or not waited for any more");
            }
        });
    }

    #[test]
    fn g10_no_turn_of_a_goal_starts_while_it_waits_and_a_wait_is_consumed_once(history in histories()) {
        let mut set = 0;
        let mut over = 0;
        each(&played(&history), |before, event| match &event.body {
            EventBody::GoalWaitSet { .. } => set += 1,
            EventBody::TurnStarted { trigger, wait_over, .. } => {
                let goal = before.core.goal.as_ref();
                let wait = goal.and_then(|goal| goal.wait.as_ref());
                if let TurnTrigger::Goal { goal_id, .. } = trigger {
                    let commands = before.core.commands_of(*goal_id).count();
                    assert!(wait.map_or(commands == 0, |wait| !wait.holds(event.at)), "{wait:?}");
                    assert_eq!(wait_over.is_some(), wait.is_some());
                }
                if wait_over.is_some() {
                    over += 1;
                    assert!(goal.is_some_and(Goal::is_active) && wait.is_some_and(|wait| !wait.holds(event.at)));
                }
            }
            _ => {}
        });
        prop_assert!(over <= set, "{over} of {set}");
    }

    #[test]
    fn g12_i5_after_the_end_of_a_goal_nothing_happens_for_it(history in histories()) {
        let mut ended = BTreeSet::new();
        let mut rows: BTreeMap<InputId, GoalId> = BTreeMap::new();
        each(&played(&history), |_, event| {
            if let Some(goal) = goal_of(&event.body) {
                assert!(!ended.contains(&goal), "{:?}", event.body);
            }
            match &event.body {
                EventBody::GoalMoved { goal_id, to, .. } if to.state().is_terminal() => {
                    ended.insert(*goal_id);
                }
                EventBody::InputQueued { goal_id: Some(goal), .. } => {
                    rows.insert(InputId(event.seq), *goal);
                }
                EventBody::InputConsumed { rows: read, .. }
                | EventBody::TurnStarted { trigger: TurnTrigger::Input { rows: read }, .. } => {
                    let gone = read.iter().filter_map(|row| rows.get(row)).find(|goal| ended.contains(goal));
                    assert_eq!(gone, None, "a row of a Goal that is over is read");
                }
                EventBody::InputReturned { row } => {
                    assert!(rows.get(row).is_none_or(|goal| !ended.contains(goal)));
                }
                _ => {}
            }
        });
    }

    #[test]
    fn i5_rows_of_a_goal_start_turns_only_while_it_is_active_and_reports_of_none_never(history in histories()) {
        each(&played(&history), |before, event| {
            let EventBody::TurnStarted { trigger: TurnTrigger::Input { rows }, lane, .. } = &event.body else {
                return;
            };
            let row = before.core.lanes[lane].inbox.iter().find(|row| row.id == rows[0]).unwrap();
            let active = before.core.goal.as_ref().filter(|goal| goal.is_active()).map(|goal| goal.id);
            assert!(row.goal_id.is_none() || row.goal_id == active);
            assert!(row.kind != domain::InputKind::Report || row.goal_id.is_some());
        });
    }

    #[test]
    fn i4_a_request_ends_its_turn_and_is_settled_once(history in histories()) {
        let world = played(&history);
        let mut open: BTreeSet<RequestId> = BTreeSet::new();
        let mut opened = None;
        each(&world, |before, event| match &event.body {
            EventBody::RequestOpened { request } => {
                assert_eq!(request.id, before.core.last_request.next());
                assert!(open.insert(request.id));
                opened = Some((request.turn, request.id));
            }
            EventBody::RequestSettled { request, end } => {
                assert!(open.remove(request), "settled twice");
                let goal = before.core.goal.as_ref();
                let belongs = before.core.request(*request).unwrap().goal_id;
                assert!(*end != RequestEnd::Cancelled || belongs == goal.map(|goal| goal.id));
            }
            EventBody::TurnEnded { turn, outcome: TurnOutcome::Waiting { request } } => {
                assert_eq!(opened.take(), Some((*turn, *request)));
            }
            _ => {}
        });
        let waiting: BTreeSet<_> = world.state.core.requests.iter().map(|request| request.id).collect();
        prop_assert_eq!(open, waiting);
    }

    #[test]
    fn i4_an_allowed_call_is_admitted_at_most_once(history in histories()) {
        let mut admitted: BTreeSet<CallRef> = BTreeSet::new();
        each(&played(&history), |before, event| {
            let EventBody::CallAdmitted { call: call @ CallRef { request: 0, .. }, .. } = &event.body else {
                return;
            };
            let taken: Vec<_> = before.core.lanes.values().flat_map(|slot| &slot.inbox)
                .filter(|row| row.taken == Some(call.turn))
                .collect();
            let allowed = taken[0].runs.as_ref().unwrap();
            assert_eq!((taken.len(), call.index), (1, 0));
            assert!(admitted.insert(allowed.call), "{} runs twice", allowed.call);
        });
    }

    #[test]
    fn t12_a_turn_that_repeats_itself_begins_nothing(history in histories()) {
        each(&played(&history), |before, event| {
            let turn = match &event.body {
                EventBody::ModelRequested { turn, .. } => *turn,
                EventBody::CallAdmitted { call, .. } => call.turn,
                _ => return,
            };
            let (_, running) = before.running(turn).unwrap();
            assert!(running.repeat.is_none_or(|repeat| repeat.times < 5));
            assert!(running.request <= running.max_requests);
        });
    }

    #[test]
    fn t7_w2_a_command_and_a_job_end_once_and_their_reports_are_for_the_goal_they_worked_for(history in histories()) {
        let mut running: BTreeMap<domain::CommandId, Option<GoalId>> = BTreeMap::new();
        let mut ended = None;
        each(&played(&history), |before, event| match &event.body {
            EventBody::CommandStarted { command } => {
                assert_eq!(command.id, before.core.last_command.next());
                running.insert(command.id, command.goal_id);
            }
            EventBody::CommandEnded { command, .. } => {
                let goal = running.remove(command).expect("ends once");
                let open = before.open_goal().map(|goal| goal.id);
                ended = goal.is_none_or(|goal| Some(goal) == open).then_some((event.seq.next(), goal));
            }
            EventBody::JobEnded { job, .. } => {
                assert_eq!(ended, None);
                let job = before.core.job(*job).expect("ends once");
                let parent = before.running(job.call.turn).map(|(_, parent)| parent.open_calls());
                let waits = parent.is_some_and(|open| {
                    open.iter().any(|open| open.call == job.call && open.effect.is_some())
                });
                let open = before.open_goal().map(|goal| goal.id);
                let has_reader = job.goal_id.is_none_or(|goal| Some(goal) == open);
                ended = (has_reader && !waits).then_some((event.seq.next(), job.goal_id));
            }
            EventBody::InputQueued { input: domain::InputKind::Report, goal_id, .. } => {
                assert_eq!(ended.take(), Some((event.seq, *goal_id)));
            }
            _ => assert!(ended.is_none_or(|(at, _)| at != event.seq), "a report is missing"),
        });
    }

    /// Whatever happened, the person gets a prompt answered and ends the Goal (no stuck state).
    #[test]
    fn i5_the_person_is_never_stuck(history in histories()) {
        let mut world = played(&history);
        world.now = world.now.max(world.state.core.last_at.0) + policy::LEASE_MS;
        let running: Vec<_> = world.state.core.running_turns().map(|(_, turn)| turn.number).collect();
        for turn in running {
            world.lose(turn);
        }
        let last = InputId(world.submit("are you there?")[0].seq);
        let row = |state: &SessionState| state.core.lanes.values().flat_map(|slot| &slot.inbox).any(|row| row.id == last);
        while row(&world.state) {
            let turn = world.start();
            // An allowed call comes before the first request, and is refused here.
            for open in world.running().open_calls().iter().map(|open| open.call).collect::<Vec<_>>() {
                world.runtime(&super::world::refuse_call(open, domain::CallOutcome::Denied)).unwrap();
            }
            world.answer(turn, 10);
        }
        if world.state.open_goal().is_some() {
            world.user(&policy::UserCommand::CancelGoal).unwrap();
        }
        prop_assert!(world.state.open_goal().is_none());
    }
}
