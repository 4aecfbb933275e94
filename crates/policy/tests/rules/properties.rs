//! What holds in every random history.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Actor, Event, EventBody, Goal, GoalId, GoalStatus, InboxRow, InputId, InputKind, LaneId, Mode, Plan,
    Revision, SessionState, StepStatus, TurnTrigger,
};
use policy::{Mover, NextAction, may_move};
use proptest::prelude::*;

use super::history::{Act, histories, plan_acts, twins};
use super::play::{play, played};
use super::turn::writes_of;
use super::world::World;

/// Goes through the log and calls `check` with the state before each event.
pub(crate) fn each(world: &World, mut check: impl FnMut(&SessionState, &Event)) {
    let mut state = SessionState::before_first(world.state.id);
    for event in &world.events {
        check(&state, event);
        state.apply(event);
    }
    assert_eq!(state, world.state, "the log alone gives the state");
}

fn revisions(world: &World) -> Vec<&Plan> {
    let events = world.events.iter();
    events
        .filter_map(|event| match &event.body {
            EventBody::PlanRevised { plan, .. } => Some(plan),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(testkit::cases(64))]

    /// [`World::run`] checks each decision; here the whole log is folded again.
    #[test]
    fn e1_e2_t3_state_is_the_fold_of_the_log_and_wake_at_is_derived(history in histories()) {
        let world = played(&history);
        prop_assert_eq!(SessionState::fold(world.state.id, &world.events), world.state.clone());
        for (event, seq) in world.events.iter().zip(1..) {
            prop_assert_eq!(event.seq.0, seq);
        }
    }

    #[test]
    fn e2_applying_is_total_also_for_events_of_another_history(one in histories(), other in histories()) {
        let mut state = played(&one).state;
        for event in played(&other).events.iter().rev() {
            state.apply(event);
        }
        prop_assert_eq!(state.core.head.0, 1);
    }

    #[test]
    fn p1_p2_p3_p4_p5_p10_p11_p13_every_stored_plan_keeps_the_rules(history in histories()) {
        let world = played(&history);
        // The lanes of jobs write theirs in between.
        let mut latest: BTreeMap<domain::PlanId, &Plan> = BTreeMap::new();
        for plan in revisions(&world) {
            let steps = plan.snapshot.steps();
            let count = |status| steps.iter().filter(|step| step.status == status).count();
            prop_assert!(count(StepStatus::InProgress) <= 1);
            prop_assert!(count(StepStatus::Pending) == 0 || count(StepStatus::InProgress) == 1);
            let unique: BTreeSet<_> = steps.iter().map(|step| &step.id).collect();
            prop_assert_eq!(unique.len(), steps.len());
            match latest.insert(plan.id, plan) {
                Some(previous) => {
                    prop_assert_eq!(plan.revision, previous.revision.next());
                    for old in previous.snapshot.steps() {
                        let kept = plan.step(&old.id);
                        prop_assert!(kept.is_some());
                        let was_completed = old.status == StepStatus::Completed;
                        prop_assert!(!was_completed || kept.unwrap().status == StepStatus::Completed);
                    }
                }
                None => {
                    prop_assert_eq!(plan.revision, Revision(1));
                }
            }
        }
    }

    #[test]
    fn p20_plan_events_come_alone(history in histories()) {
        let world = played(&history);
        each(&world, |before, event| {
            if matches!(event.body, EventBody::PlanRevised { .. } | EventBody::PlanClosed { .. }) {
                let mut after = before.clone();
                after.apply(event);
                assert_eq!((&before.core.goal, before.core.mode), (&after.core.goal, after.core.mode));
                assert_eq!(before.core.lanes[&LaneId::main()].inbox, after.core.lanes[&LaneId::main()].inbox);
            }
        });
    }

    #[test]
    fn m1_m2_m5_m6_the_mode_is_the_persons_and_binds(history in histories()) {
        let world = played(&history);
        each(&world, |before, event| match &event.body {
            EventBody::ModeChanged { .. } => assert!(matches!(event.actor, Actor::User { .. })),
            EventBody::TurnStarted { agent, .. } => {
                assert_eq!(agent.as_str() == "plan", before.core.mode == Mode::Plan);
            }
            EventBody::CallAdmitted { call, effect, .. } if before.core.mode == Mode::Plan => {
                let (_, running) = before.running(call.turn).unwrap();
                assert_eq!(running.agent.as_str(), "plan", "nothing of a Work turn is admitted");
                assert!(matches!(effect, domain::Effect::Read | domain::Effect::WorkState));
            }
            _ => {}
        });
        prop_assert!(world.state.core.mode == Mode::Work
            || !world.state.core.goal.as_ref().is_some_and(Goal::is_active));
    }

    #[test]
    fn g1_goals_move_by_the_matrix(history in histories()) {
        each(&played(&history), |before, event| {
            let EventBody::GoalMoved { goal_id, to, .. } = &event.body else { return };
            let goal = before.core.goal.as_ref().unwrap();
            let mover = match event.actor {
                Actor::User { .. } => Mover::User,
                Actor::Agent { .. } => Mover::Agent,
                Actor::Runtime { .. } => Mover::Runtime,
            };
            assert_eq!(goal.id, *goal_id);
            assert!(may_move(goal.status.state(), to.state(), mover), "{:?} to {to:?}", goal.status);
        });
    }

    #[test]
    fn g2_a_goal_is_completed_by_a_person_or_by_a_turn_bound_to_it_as_it_is(history in histories()) {
        each(&played(&history), |before, event| {
            let EventBody::GoalMoved { to: GoalStatus::Completed, .. } = &event.body else { return };
            let goal = before.core.goal.as_ref().unwrap();
            if let Actor::Agent { turn, .. } = &event.actor {
                let bound = before.running(*turn).unwrap().1.goal.unwrap();
                assert_eq!((bound.goal_id, bound.revision), (goal.id, goal.revision));
            }
        });
    }

    #[test]
    fn g4_g5_requests_are_charged_once_and_only_within_the_budget(history in histories()) {
        let world = played(&history);
        let mut charged = BTreeSet::new();
        each(&world, |before, event| match &event.body {
            EventBody::GoalCharged { goal_id, turn, request, attempt, .. } => {
                assert!(charged.insert((*turn, *request, *attempt)), "{turn}.{request} is charged twice");
                let goal = before.core.goal.as_ref().unwrap();
                assert_eq!(goal.id, *goal_id);
            }
            EventBody::ModelRequested { charged_to: Some(id), attempt: 1, .. } => {
                // The last answer of a turn that completed its Goal may come when another one is set.
                let goal = before.core.goal.as_ref().filter(|goal| goal.id == *id);
                assert!(goal.is_none_or(|goal| !goal.is_spent()), "one request over at most");
            }
            EventBody::TurnStarted { goal: Some(_), .. } => {
                assert!(!before.core.goal.as_ref().unwrap().is_spent());
            }
            _ => {}
        });
        let goal = world.state.core.goal.as_ref();
        prop_assert!(!goal.is_some_and(|goal| goal.is_active() && goal.is_spent()));
    }

    #[test]
    fn i1_i2_each_row_is_consumed_once_or_cancelled_or_waits(history in histories()) {
        let world = played(&history);
        let mut open: BTreeSet<InputId> = BTreeSet::new();
        each(&world, |_, event| match &event.body {
            EventBody::InputQueued { .. } => assert!(open.insert(InputId(event.seq))),
            EventBody::InputConsumed { rows, .. } => rows.iter().for_each(|row| assert!(open.remove(row))),
            EventBody::InputCancelled { row, .. } => assert!(open.remove(row)),
            EventBody::InputReturned { row } => assert!(open.contains(row)),
            EventBody::TurnStarted { trigger: TurnTrigger::Input { rows }, .. } => {
                assert_eq!(rows.len(), 1);
                assert!(open.contains(&rows[0]));
            }
            _ => {}
        });
        let waiting: BTreeSet<_> = world.state.core.lanes.values().flat_map(|slot| &slot.inbox).map(|row| row.id).collect();
        prop_assert_eq!(open, waiting);
    }

    #[test]
    fn i3_a_continuation_never_overtakes_input(history in histories()) {
        each(&played(&history), |before, event| {
            if let EventBody::TurnStarted { trigger: TurnTrigger::Goal { .. }, lane, .. } = &event.body {
                let waits = |row: &InboxRow| row.kind == InputKind::Report && row.goal_id.is_none();
                assert!(before.core.inbox_held || before.core.lanes[lane].inbox.iter().all(waits));
            }
        });
    }

    #[test]
    fn t1_t4_one_turn_at_a_time_and_numbers_only_grow(history in histories()) {
        let world = played(&history);
        let mut last = domain::TurnNumber(0);
        let mut continuations: BTreeMap<GoalId, u64> = BTreeMap::new();
        each(&world, |before, event| {
            let EventBody::TurnStarted { turn, lane, trigger, goal, .. } = &event.body else { return };
            assert!(*turn > last);
            last = *turn;
            assert!(before.core.lanes[lane].running.is_none(), "one running turn per lane");
            if let TurnTrigger::Goal { goal_id, continuation } = trigger {
                let previous = continuations.insert(*goal_id, *continuation).unwrap_or(0);
                assert!(*continuation > previous);
                let active = before.core.goal.as_ref().unwrap();
                assert_eq!((active.id, active.is_active()), (*goal_id, true));
                assert_eq!(goal.unwrap().goal_id, *goal_id);
            }
        });
        prop_assert_eq!(world.leases.turn.is_some(), world.state.core.running_turns().next().is_some());
    }

    #[test]
    fn t5_every_write_of_a_turn_that_is_over_is_refused(history in histories()) {
        let mut world = played(&history);
        let over: Vec<_> = world
            .events
            .iter()
            .filter_map(|event| match event.body {
                EventBody::TurnEnded { turn, .. } | EventBody::TurnLost { turn } => Some(turn),
                _ => None,
            })
            .collect();
        for turn in over {
            for write in writes_of(&mut world, turn) {
                let before = world.events.len();
                prop_assert_eq!(write.code(&mut world), Some(domain::Code::StaleEpoch));
                prop_assert_eq!(world.events.len(), before);
            }
        }
    }

    #[test]
    fn t6_a_turn_that_was_asked_to_stop_begins_nothing(history in histories()) {
        each(&played(&history), |before, event| match &event.body {
            EventBody::ModelRequested { turn, .. } => assert_eq!(before.running(*turn).unwrap().1.stop, None),
            EventBody::CallAdmitted { call, .. } => assert_eq!(before.running(call.turn).unwrap().1.stop, None),
            _ => {}
        });
    }

    #[test]
    fn t2_t3_idle_is_what_no_passage_of_time_ends(history in histories(), later in 1..1_000_000_000_i64) {
        let world = played(&history);
        let next = world.next();
        match (&next, world.wake_at) {
            (NextAction::Idle { .. }, wake) => {
                prop_assert!(wake.is_none() || !world.state.core.commands.is_empty());
                prop_assert_eq!(world.next_at(world.now + later), next);
            }
            (NextAction::WaitUntil { at, .. }, Some(wake)) => {
                prop_assert!(wake <= *at);
                let is_over = matches!(world.next_at(at.0), NextAction::RunGoal { .. });
                prop_assert!(is_over, "time alone ends it");
            }
            (_, wake) => prop_assert!(wake.is_some()),
        }
    }

    #[test]
    fn t7_an_uncertain_call_holds_the_goal_until_a_person_resumes(history in histories()) {
        each(&played(&history), |before, event| {
            let EventBody::GoalMoved { to: GoalStatus::Active, .. } = &event.body else { return };
            let held = &before.core.goal.as_ref().unwrap().status;
            let is_held = matches!(held, GoalStatus::Paused(domain::PauseReason::UncertainSideEffect { .. }));
            assert!(!is_held || matches!(event.actor, Actor::User { .. }));
        });
    }
}

/// The part of a session's future that an outsider can tell, with rows named by their order: an event's place in the
/// log is also a matter of how many plan events came before.
#[derive(Debug, PartialEq, Eq)]
struct Schedule {
    next: String,
    wake_at: Option<i64>,
    turns: Vec<String>,
    goal: Option<(String, u64, u32)>,
}

fn schedule(world: &World) -> Schedule {
    let queued =
        world.events.iter().filter(|event| event.body.kind() == "input_queued").map(|event| event.seq);
    let names: BTreeMap<InputId, usize> = queued.map(InputId).zip(0..).collect();
    let next = match world.next() {
        NextAction::RunInput { row } => format!("input {}", names[&row]),
        other => format!("{other:?}"),
    };
    let turns = world.events.iter().filter_map(|event| match &event.body {
        EventBody::TurnStarted { turn, agent, trigger: TurnTrigger::Input { rows }, goal, .. } => Some(
            format!("{turn} {agent} {:?} {goal:?}", rows.iter().map(|row| names[row]).collect::<Vec<_>>()),
        ),
        EventBody::TurnStarted { turn, agent, trigger, goal, .. } => {
            Some(format!("{turn} {agent} {trigger:?} {goal:?}"))
        }
        EventBody::TurnEnded { turn, outcome } => Some(format!("{turn} {outcome:?}")),
        EventBody::TurnLost { turn } => Some(format!("{turn} lost")),
        _ => None,
    });
    let goal = world.state.core.goal.as_ref();
    Schedule {
        next,
        // What is due is due, whenever it was last looked at.
        wake_at: world.wake_at.map(|at| at.0.max(world.now)),
        turns: turns.collect(),
        goal: goal.map(|goal| (format!("{:?}", goal.status), goal.usage.tokens.charged(), goal.usage.turns)),
    }
}

proptest! {
    #![proptest_config(testkit::cases(128))]

    #[test]
    fn p19_different_plans_have_the_same_schedule(history in twins()) {
        let (mut one, mut other) = (World::open(), World::open());
        for (act, twin) in &history {
            let codes = (play(&mut one, act), play(&mut other, twin));
            if !matches!(act, Act::Plan(_)) {
                prop_assert_eq!(codes.0, codes.1, "{:?}", act);
            }
            prop_assert_eq!(schedule(&one), schedule(&other), "after {:?}", act);
        }
    }

    #[test]
    fn p19_t8_a_session_with_plans_and_without_a_cause_never_runs(plans in proptest::collection::vec(plan_acts(), 1..20)) {
        let mut world = World::open();
        for plan in plans {
            play(&mut world, &Act::Plan(plan));
            let is_idle = matches!(world.next(), NextAction::Idle { .. });
            prop_assert!(is_idle);
            prop_assert_eq!(world.wake_at, None);
        }
    }
}

/// Random histories are only worth something if they get somewhere.
#[test]
fn random_histories_reach_what_they_are_to_explore() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let strategy = histories();
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    for _ in 0..300 {
        let history = strategy.new_tree(&mut runner).unwrap().current();
        for event in played(&history).events {
            *seen.entry(event.body.kind()).or_default() += 1;
        }
    }
    let missing: Vec<_> = EventBody::KINDS.iter().filter(|kind| !seen.contains_key(**kind)).collect();
    assert!(missing.is_empty(), "no history had {missing:?}: {seen:?}");
    let is_rare = |kind: &str| seen[kind] < 20;
    let deep =
        ["turn_lost", "goal_moved", "plan_closed", "request_settled", "command_ended", "goal_wait_set"];
    assert!(!deep.into_iter().any(is_rare), "{seen:?}");
}
