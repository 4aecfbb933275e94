//! What applying events does that no decision shows: several lanes, bounds, and events that fit nothing.

use super::*;
use crate::event::EventBody;
use crate::goal::{Budgets, GoalStatus, Objective};
use crate::id::ModelName;
use crate::inbox::{InputKind, InputText};
use crate::progress::{Evidence, Fingerprint, Progress, Streaks};
use crate::turn::{GoalBinding, ModelCall, TurnOutcome, TurnTrigger};
use crate::usage::TokenUsage;

const GOAL: GoalId = GoalId::from_u128(7);

/// A session with a Goal and a second lane, as delegation will have it.
fn session() -> SessionState {
    let mut state = SessionState::before_first(SessionId::from_u128(1));
    let agent = "build".parse().unwrap();
    apply(&mut state, 0, EventBody::SessionOpened { workspace: "/w".to_owned(), agent });
    state.core.lanes.insert(child(), Lane::default());
    apply(
        &mut state,
        0,
        EventBody::GoalOpened {
            goal_id: GOAL,
            objective: Objective::parse("Reach it").unwrap(),
            criteria: None,
            budgets: Budgets::default(),
            status: GoalStatus::Active,
        },
    );
    state
}

fn child() -> LaneId {
    "child".parse().unwrap()
}

fn apply(state: &mut SessionState, at: i64, body: EventBody) {
    let seq = state.core.head.next();
    let actor = Actor::Runtime { worker: "w".parse().unwrap() };
    state.apply(&Event { seq, at: Timestamp(at), actor, body, command_key: None });
}

fn start(state: &mut SessionState, at: i64, turn: u64, lane: LaneId) {
    let model: ModelName = "m".parse().unwrap();
    apply(
        state,
        at,
        EventBody::TurnStarted {
            turn: TurnNumber(turn),
            lane,
            agent: "build".parse().unwrap(),
            model,
            trigger: TurnTrigger::Goal { goal_id: GOAL, continuation: turn },
            goal: Some(GoalBinding { goal_id: GOAL, revision: Revision(1) }),
            max_requests: 9,
            wait_over: None,
            confinement: None,
        },
    );
}

fn end(state: &mut SessionState, at: i64, turn: u64) {
    apply(state, at, EventBody::TurnEnded { turn: TurnNumber(turn), outcome: TurnOutcome::Completed });
}

fn goal(state: &SessionState) -> &Goal {
    state.core.goal.as_ref().unwrap()
}

/// What policy charges at this moment.
fn charge(state: &mut SessionState, at: i64) {
    if let Some(since) = goal(state).active_since {
        let active_ms = u64::try_from(at - since.0).unwrap();
        apply(state, at, EventBody::GoalTimeCharged { goal_id: GOAL, active_ms });
    }
}

#[test]
fn g4_time_in_which_bound_turns_overlap_counts_once() {
    let mut state = session();
    assert_eq!(goal(&state).active_since, None);
    start(&mut state, 1_000, 1, LaneId::main());
    start(&mut state, 3_000, 2, child());
    assert_eq!(goal(&state).active_since, Some(Timestamp(1_000)));
    charge(&mut state, 6_000);
    end(&mut state, 6_000, 1);
    assert_eq!(goal(&state).active_since, Some(Timestamp(6_000)), "the other one runs on");
    charge(&mut state, 10_000);
    end(&mut state, 10_000, 2);
    assert_eq!((goal(&state).active_since, goal(&state).usage.active_ms), (None, 9_000));
    assert_eq!(goal(&state).usage.turns, 2, "while both count as turns");
}

#[test]
fn g7_the_strongest_evidence_of_a_turn_counts() {
    let mut state = session();
    start(&mut state, 0, 1, LaneId::main());
    let call = |index| CallRef { turn: TurnNumber(1), request: 1, index };
    apply(
        &mut state,
        0,
        EventBody::ModelRequested {
            turn: TurnNumber(1),
            request: 1,
            attempt: 1,
            estimated_input: 1,
            charged_to: None,
        },
    );
    let calls = vec![ModelCall { tool: "t".to_owned(), arguments: String::new() }; 3];
    apply(
        &mut state,
        0,
        EventBody::ModelResponded {
            turn: TurnNumber(1),
            request: 1,
            text: String::new(),
            calls,
            usage: TokenUsage::default(),
        },
    );
    let new_call = Evidence::NewCall { goal_id: GOAL, call: Fingerprint::of(["a"]) };
    let evidence = [Some(new_call), Some(Evidence::FileChanged), None];
    let expected = [Progress::NewCalls, Progress::Change, Progress::Change];
    for ((index, evidence), expected) in (0..).zip(evidence).zip(expected) {
        apply(
            &mut state,
            0,
            EventBody::CallFinished {
                call: call(index),
                tool: "t".to_owned(),
                outcome: crate::turn::CallOutcome::Succeeded,
                result: index.to_string(),
                full_output: None,
                evidence,
            },
        );
        assert_eq!(state.running(TurnNumber(1)).unwrap().1.progress, expected);
    }
}

#[test]
fn g7_calls_not_made_before_end_the_streak_ten_times() {
    let after = |only_new_calls| Streaks { only_new_calls, ..Streaks::default() };
    for carried in 0..=12 {
        assert_eq!(after(carried).are_ended_by(Progress::NewCalls), carried < 10, "{carried}");
        assert!(after(carried).are_ended_by(Progress::Change));
        assert!(!after(carried).are_ended_by(Progress::None));
    }
}

#[test]
fn i1_the_end_of_a_turn_makes_prompts_of_the_words_to_its_own_lane() {
    let mut state = session();
    start(&mut state, 0, 1, LaneId::main());
    start(&mut state, 0, 2, child());
    for lane in [LaneId::main(), child()] {
        let text = InputText::parse("quickly").unwrap();
        apply(
            &mut state,
            0,
            EventBody::InputQueued { lane, input: InputKind::Steer, text, goal_id: None, runs: None },
        );
    }
    end(&mut state, 0, 2);
    assert_eq!(state.core.lanes[&child()].inbox[0].kind, InputKind::User);
    assert_eq!(state.core.lanes[&LaneId::main()].inbox[0].kind, InputKind::Steer);
}

#[test]
fn e2_events_about_another_goal_change_nothing_of_this_one() {
    let mut state = session();
    let before = goal(&state).clone();
    let other = GoalId::from_u128(8);
    for body in [
        EventBody::GoalMoved {
            goal_id: other,
            to: GoalStatus::Completed,
            summary: None,
            unfinished_steps: None,
        },
        EventBody::GoalTimeCharged { goal_id: other, active_ms: 5 },
        EventBody::GoalWaitMet { goal_id: other },
        EventBody::GoalWaitMet { goal_id: GOAL },
        EventBody::GoalWaitLifted { goal_id: GOAL },
        EventBody::GoalAmendmentDeclined { goal_id: GOAL },
        EventBody::RequestSettled { request: RequestId(9), end: crate::request::RequestEnd::Cancelled },
        EventBody::CommandStopRequested { command: CommandId(9) },
    ] {
        apply(&mut state, 1, body);
        assert_eq!(*goal(&state), before);
    }
}
