//! Goals: binding, budgets, accounting and replacement (G1, G2, G4, G5, G13, P21).

use domain::{
    Actor, BlockCode, Budgets, Code, Effect, EventBody, FailureKind, GoalStatus, Mode, Objective,
    PauseReason, StopReason, TokenUsage, TurnOutcome,
};
use policy::{Jitter, RuntimeCommand, UserCommand};
use proptest::prelude::*;
use serde_json::json;
use testkit::goal_id;

use super::world::{
    World, begin, budgets, code, complete_goal, end, failure, finish_call, goal_set, kinds, respond, spent,
};

#[test]
fn g1_a_move_outside_the_table_names_both_states_and_who_asked() {
    let mut world = World::open();
    insta::assert_snapshot!(world.user(&UserCommand::PauseGoal).unwrap_err(), @"unknown_goal: this session has no Goal; `zuno goal set` opens one");
    world.set_goal();
    insta::assert_snapshot!(world.user(&UserCommand::ResumeGoal).unwrap_err(), @"illegal_transition: the Goal is active and waits for nothing, so there is nothing to resume; a worker runs its turns");
    world.user(&UserCommand::CancelGoal).unwrap();
    insta::assert_snapshot!(world.user(&UserCommand::ResumeGoal).unwrap_err(), @"illegal_transition: a user cannot take the Goal from cancelled to active: it is over; `zuno goal set` opens a new one");
    insta::assert_snapshot!(world.user(&UserCommand::CompleteGoal { summary: None, force: false }).unwrap_err(), @"illegal_transition: a user cannot take the Goal from cancelled to completed: it is over; `zuno goal set` opens a new one");
}

#[test]
fn g2_an_objective_has_1_to_4000_characters_and_is_not_blank() {
    for (text, is_valid) in [
        ("x".to_owned(), true),
        ("ü".repeat(4_000), true),
        ("x".repeat(4_001), false),
        (String::new(), false),
        (" \u{200b}\n".to_owned(), false),
    ] {
        assert_eq!(Objective::parse(&text).is_ok(), is_valid, "{} characters", text.chars().count());
        assert_eq!(serde_json::from_value::<Objective>(json!(text)).is_ok(), is_valid);
    }
}

#[test]
fn g2_a_bound_turn_completes_its_goal_and_gets_one_more_answer() {
    let mut world = World::open();
    let id = world.set_goal();
    let turn = world.start();
    let binding = world.running().goal.unwrap();
    assert_eq!((binding.goal_id, binding.revision.0), (id, 1));
    let call = world.call(turn, &["goal_update"])[0];
    let events = world.agent(&complete_goal(call)).unwrap();
    assert_eq!(kinds(&events), ["call_admitted", "goal_moved", "call_finished"]);
    assert!(matches!(events[1].actor, Actor::Agent { .. }));
    assert_eq!(*world.status(), GoalStatus::Completed);

    let more = world.call(turn, &["write_file"])[0];
    let admit =
        policy::AgentCommand::AdmitCall { call: more, grant: super::world::grant(&[]), effect: Effect::Read };
    assert_eq!(code(world.agent(&admit)), Code::TurnStopping, "the last answer runs no call");
    let before = world.goal().usage.tokens;
    assert_eq!(before.input, 200, "it is charged");
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(kinds(&events), ["call_finished", "turn_ended"]);
    assert_eq!(world.goal().usage.turns, 1);
}

#[test]
fn g2_after_its_last_answer_the_completing_turn_asks_no_more() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let call = world.call(turn, &["goal_update"])[0];
    world.agent(&complete_goal(call)).unwrap();
    let calls = world.call(turn, &["read_file"]);
    world.runtime(&super::world::refuse_call(calls[0], domain::CallOutcome::NotRun)).unwrap();
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping);
}

#[test]
fn g2_what_becomes_of_another_goal_leaves_a_turn_alone() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let call = world.call(turn, &["goal_update"])[0];
    world.agent(&complete_goal(call)).unwrap();
    world.set_goal();
    world.user(&UserCommand::CancelGoal).unwrap();
    assert_eq!(world.running().stop, None);
    world.request(turn);
}

#[test]
fn g2_a_turn_that_is_bound_to_nothing_completes_nothing() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.set_goal();
    let call = world.call(turn, &["goal_update"])[0];
    assert_eq!(code(world.agent(&complete_goal(call))), Code::GoalNotBound);
    assert_eq!(*world.status(), GoalStatus::Active);
    assert_eq!(world.goal().usage, domain::GoalUsage::default(), "nor is it charged");
}

#[test]
fn g2_a_stale_turn_does_not_touch_a_goal_that_was_paused_and_resumed() {
    let mut world = World::open();
    world.set_goal();
    world.submit("go");
    let turn = world.start();
    world.user(&UserCommand::PauseGoal).unwrap();
    let call = world.call(turn, &["goal_update"])[0];
    assert_eq!(code(world.agent(&complete_goal(call))), Code::GoalNotBound, "paused");
    world.user(&UserCommand::ResumeGoal).unwrap();
    let rejection = world.agent(&complete_goal(call)).unwrap_err();
    assert_eq!(rejection.code, Code::GoalNotBound, "resumed: another revision");
    assert!(rejection.to_string().contains("revision 3"), "{rejection}");
}

#[test]
fn g2_accounting_does_not_move_the_revision_and_moves_do() {
    let mut world = World::open();
    world.set_goal();
    world.whole_turn();
    assert_eq!(world.goal().revision.0, 1);
    world.user(&UserCommand::PauseGoal).unwrap();
    assert_eq!(world.goal().revision.0, 2);
}

#[test]
fn g2_only_a_goal_that_is_active_at_admission_binds() {
    let mut world = World::open();
    world.set_goal();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.submit("go");
    let turn = world.start();
    assert_eq!(world.running().goal, None);
    world.answer(turn, 10);
    assert_eq!(world.goal().usage, domain::GoalUsage::default());
}

#[test]
fn g4_a_goal_without_a_budget_has_the_default_one() {
    let mut world = World::open();
    world.set_goal();
    assert_eq!(world.goal().budgets, budgets(2_000_000, 200));
}

#[test]
fn g4_tokens_are_uncached_input_and_output() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    let turn = world.start();
    world.request(turn);
    let usage = TokenUsage { input: 30, cached_input: 5_000, output: 60, estimated: false };
    world.runtime(&respond(turn, &[], usage)).unwrap();
    assert_eq!(world.goal().usage.tokens, usage);
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn g4_crossing_is_decided_with_the_charge_and_stops_bound_turns() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    world.submit("an input turn is bound too");
    let turn = world.start();
    world.request(turn);
    let events = world.runtime(&respond(turn, &["read_file"], spent(100))).unwrap();
    assert_eq!(
        kinds(&events),
        ["model_responded", "goal_charged", "goal_budget_announced", "goal_moved", "turn_stop_requested"]
    );
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    assert_eq!(world.running().stop, Some(StopReason::Budget));
    assert_eq!(code(world.runtime(&begin(turn))), Code::TurnStopping);
    assert_eq!(world.goal().usage.tokens.charged(), 100, "no further call is charged");
}

#[test]
fn g4_half_and_four_fifths_are_announced_once() {
    let mut world = World::open();
    world.set_goal_with(budgets(1_000, 100));
    let mut announced = Vec::new();
    for _ in 0..10 {
        if *world.status() != GoalStatus::Active {
            break;
        }
        world.working_turn();
    }
    for event in &world.events {
        if let EventBody::GoalBudgetAnnounced { percent, .. } = event.body {
            announced.push(percent);
        }
    }
    assert_eq!(announced, [50, 80]);
    assert_eq!((world.status(), world.goal().usage.turns), (&GoalStatus::BudgetLimited, 5));
}

#[test]
fn g4_turns_are_a_budget_of_their_own() {
    let mut world = World::open();
    world.set_goal_with(budgets(1_000_000, 2));
    world.whole_turn();
    assert_eq!((world.status(), world.goal().announced_percent), (&GoalStatus::Active, 50));
    world.whole_turn();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    assert_eq!(world.wake_at, None);
}

#[test]
fn g4_a_lost_turn_counts_and_is_charged_an_estimate() {
    let mut world = World::open();
    world.set_goal_with(budgets(1_000, 1));
    let turn = world.start();
    world.request(turn);
    let events = world.lose(turn);
    assert_eq!(
        kinds(&events),
        [
            "goal_charged",
            "goal_budget_announced",
            "goal_time_charged",
            "turn_lost",
            "goal_budget_announced",
            "goal_moved"
        ]
    );
    let usage = world.goal().usage;
    assert_eq!((usage.turns, usage.tokens.input, usage.tokens.estimated), (1, 500, true));
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
}

#[test]
fn g4_activation_with_a_used_up_budget_lands_in_budget_limited() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    world.user(&UserCommand::PauseGoal).unwrap();
    world.runtime(&respond(turn, &[], spent(100))).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User), "what was begun is charged");
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
    assert_eq!(code(world.user(&UserCommand::ResumeGoal)), Code::IllegalTransition);
}

#[test]
fn g4_start_work_with_a_used_up_budget_lands_in_budget_limited() {
    let mut world = World::open();
    world.set_goal_with(budgets(100, 10));
    let turn = world.start();
    world.request(turn);
    world.user(&UserCommand::EnterPlan).unwrap();
    world.runtime(&respond(turn, &[], spent(100))).unwrap();
    assert_eq!(
        (world.status(), world.state.core.mode),
        (&GoalStatus::Paused(PauseReason::PlanMode), Mode::Plan)
    );
    world.user(&super::world::start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::BudgetLimited);
}

#[test]
fn g4_a_budget_that_is_no_positive_whole_number_fails_at_decoding() {
    let wrong = ["0", "-1", "1.5", "\"5\"", "null", "NaN", "Infinity", "true", "[1]"];
    for text in wrong {
        for json in [
            format!("{{\"tokens\":{text},\"turns\":1}}"),
            format!("{{\"tokens\":1,\"turns\":{text}}}"),
            format!("{{\"tokens\":1,\"turns\":1,\"active_ms\":{text}}}"),
        ] {
            assert!(serde_json::from_str::<Budgets>(&json).is_err(), "{json}");
        }
    }
    assert!(serde_json::from_str::<Budgets>(r#"{"turns":1}"#).is_err(), "never absent");
    assert!(serde_json::from_str::<Budgets>(r#"{"tokens":1}"#).is_err(), "never absent");
    let largest = format!(r#"{{"tokens":{},"turns":{}}}"#, u64::MAX, u32::MAX);
    assert_eq!(serde_json::from_str::<Budgets>(&largest).unwrap(), budgets(u64::MAX, u32::MAX));
}

#[test]
fn g5_a_request_is_charged_once() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.request(turn);
    world.runtime(&respond(turn, &[], spent(70))).unwrap();
    assert_eq!(code(world.runtime(&respond(turn, &[], spent(70)))), Code::OutOfOrder);
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(code(world.runtime(&respond(turn, &[], spent(70)))), Code::StaleEpoch);
    assert_eq!(world.goal().usage.tokens.charged(), 70);
}

#[test]
fn g5_attempts_that_were_turned_away_leave_one_charge() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    for _ in 0..2 {
        world.request(turn);
        let failure = failure(FailureKind::RateLimited);
        let jitter = Jitter::default();
        world.runtime(&RuntimeCommand::FailRequest { turn, failure, elapsed_ms: 0, jitter }).unwrap();
    }
    world.request(turn);
    world.runtime(&respond(turn, &[], spent(70))).unwrap();
    assert_eq!((world.running().request, world.goal().usage.tokens.charged()), (1, 70));
}

#[test]
fn g5_an_interrupted_request_is_charged_by_estimate_and_marked() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.request(turn);
    world.user(&UserCommand::Interrupt).unwrap();
    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    let tokens = world.goal().usage.tokens;
    assert_eq!((tokens.input, tokens.estimated), (500, true));
}

#[test]
fn g5_t9_a_request_that_reached_no_model_costs_nothing() {
    for kind in FailureKind::ALL {
        let mut world = World::open();
        world.set_goal();
        let turn = world.start();
        world.fail(turn, failure(kind));
        let is_charged = world.goal().usage.tokens.charged() > 0;
        let answered = matches!(
            kind,
            FailureKind::StreamIncomplete
                | FailureKind::EmptyResponse
                | FailureKind::ProviderProtocol
                | FailureKind::Refused
                | FailureKind::Stuck
                | FailureKind::StoreBusy
                | FailureKind::CorruptState
        );
        assert_eq!(is_charged, answered, "{kind}");
    }
}

#[test]
fn g13_a_goal_over_an_open_one_needs_replace() {
    let mut world = World::open();
    let old = world.set_goal();
    world.whole_turn();
    let turn = world.start();
    let new = goal_id(50);
    let rejection = world.user(&goal_set(new, Budgets::default(), false)).unwrap_err();
    assert_eq!(rejection.code, Code::GoalOpen);
    let events = world.user(&goal_set(new, Budgets::default(), true)).unwrap();
    assert_eq!(kinds(&events), ["goal_moved", "turn_stop_requested", "goal_opened"]);
    assert_eq!(
        events[0].body,
        EventBody::GoalMoved {
            goal_id: old,
            to: GoalStatus::Cancelled,
            summary: None,
            unfinished_steps: None
        }
    );
    assert_eq!(world.running().stop, Some(StopReason::GoalChanged));
    let goal = world.goal();
    assert_eq!((goal.id, goal.usage, goal.revision.0), (new, domain::GoalUsage::default(), 1));

    world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(world.goal().usage.turns, 0, "the old Goal's turn is not the new one's");
}

#[test]
fn g13_after_the_end_a_new_goal_starts_from_nothing() {
    for last in [UserCommand::CancelGoal, UserCommand::CompleteGoal { summary: None, force: false }] {
        let mut world = World::open();
        let old = world.set_goal();
        world.whole_turn();
        world.user(&last).unwrap();
        assert_eq!(
            code(world.user(&goal_set(old, Budgets::default(), false))),
            Code::GoalOpen,
            "ids are used once"
        );
        let new = world.set_goal();
        assert_ne!(new, old);
        assert_eq!((world.goal().usage.turns, world.goal().continuations), (0, 0));
    }
}

#[test]
fn g13_replacing_clears_the_retry_and_charges_no_one_for_the_old_request() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    world.fail(turn, failure(FailureKind::Transport));
    assert!(world.goal().retry.is_some());
    world.submit("go");
    let turn = world.start();
    world.request(turn);
    world.user(&goal_set(goal_id(50), Budgets::default(), true)).unwrap();
    assert_eq!(world.goal().retry, None);
    world.runtime(&respond(turn, &[], spent(70))).unwrap();
    assert_eq!(world.goal().usage, domain::GoalUsage::default());
}

#[test]
fn p21_unfinished_steps_are_counted_and_refuse_nothing() {
    for by_agent in [false, true] {
        let mut world = World::open();
        world.update_plan("a:completed b:in_progress c", None).unwrap();
        world.set_goal();
        let events = if by_agent {
            let turn = world.start();
            let call = world.call(turn, &["goal_update"])[0];
            world.agent(&complete_goal(call)).unwrap()
        } else {
            world.user(&UserCommand::CompleteGoal { summary: None, force: false }).unwrap()
        };
        let moved = events.iter().find(|event| event.body.kind() == "goal_moved").unwrap();
        assert!(matches!(moved.body, EventBody::GoalMoved { unfinished_steps: Some(2), .. }));
        assert_eq!(world.goal().unfinished_steps, Some(2));
    }
}

#[test]
fn p21_a_closed_plan_has_no_unfinished_steps() {
    let mut world = World::open();
    world.update_plan("a:in_progress", None).unwrap();
    let reason = testkit::remark("obsolete");
    let lane = domain::LaneId::main();
    world.user(&UserCommand::ClosePlan { lane, expected_revision: None, reason }).unwrap();
    world.set_goal();
    world.user(&UserCommand::CompleteGoal { summary: None, force: false }).unwrap();
    assert_eq!(world.goal().unfinished_steps, Some(0));
}

#[test]
fn g2_t6_an_input_turn_goes_on_unbound_when_its_goal_is_paused() {
    let mut world = World::open();
    world.set_goal();
    world.submit("go");
    let turn = world.start();
    world.user(&UserCommand::PauseGoal).unwrap();
    let call = world.call(turn, &["read_file"])[0];
    world.admit_call(call, Effect::Read);
    world.runtime(&finish_call(call, domain::CallOutcome::Succeeded)).unwrap();
    assert_eq!(world.goal().usage.tokens.charged(), 0);
}

#[test]
fn g1_a_block_code_is_not_lost_in_storage() {
    for code in [BlockCode::CorruptState, BlockCode::ModelUnavailable] {
        let status = GoalStatus::Blocked { code, detail: "d".to_owned() };
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["code"], code.name());
        assert_eq!(serde_json::from_value::<GoalStatus>(json).unwrap(), status);
    }
}

proptest! {
    #![proptest_config(testkit::cases(128))]

    #[test]
    fn g4_the_used_share_is_exact_and_never_overflows(
        input in any::<u64>(), output in any::<u64>(), tokens in 1..=u64::MAX, turns in 1..=u32::MAX, used in any::<u32>()
    ) {
        let mut world = World::open();
        world.set_goal_with(budgets(tokens, turns));
        let mut goal = world.goal().clone();
        goal.usage.tokens = TokenUsage { input, output, ..TokenUsage::default() };
        goal.usage.turns = used;
        prop_assert_eq!(goal.is_spent(), goal.used_percent() == 100);
    }
}
