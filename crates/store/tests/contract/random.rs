//! Random histories: whatever is accepted or refused, the stored state is the fold of the log.

use domain::{
    CallOutcome, CallRef, Failure, FailureKind, LaneId, ModelCall, Remark, Revision, SessionState,
    TokenUsage, TurnNumber, TurnOutcome, TurnPhase,
};
use policy::{Command, Decision, Facts, Jitter, Rejection, RuntimeCommand, UserCommand};
use proptest::prelude::*;
use store::{Ask, ExecuteError, Store};

use crate::site::{
    Site, admit_turn, keyed, on_each_engine, open_session, owner, plan, session, set_goal, submit, user,
};

/// A command before it is known which turn runs.
#[derive(Debug, Clone)]
enum Act {
    User(UserCommand),
    SetGoal {
        replace: bool,
    },
    /// What a turn does next when all goes well.
    Next {
        calls: u32,
    },
    Admit,
    Renew,
    Begin,
    Fail,
    Respond {
        calls: u32,
    },
    Refuse {
        index: u32,
    },
    End {
        failed: bool,
    },
    Recover,
    Wait {
        ms: i64,
    },
}

fn acts() -> impl Strategy<Value = Act> {
    let close = || UserCommand::ClosePlan {
        lane: LaneId::main(),
        expected_revision: None,
        reason: Remark::parse("done with it").unwrap(),
    };
    let start_work =
        || UserCommand::StartWork { lane: LaneId::main(), expected_plan_revision: None, prompt: None };
    let user = prop_oneof![
        4 => (0..4_usize, proptest::option::of(0..6_u64)).prop_map(|(done, expected)| plan(done, expected)),
        3 => Just(submit("go on")),
        1 => Just(close()),
        1 => Just(UserCommand::EnterPlan),
        2 => Just(start_work()),
        1 => Just(UserCommand::PauseGoal),
        2 => Just(UserCommand::ResumeGoal),
        1 => Just(UserCommand::CancelGoal),
        1 => Just(UserCommand::CompleteGoal { summary: None }),
        1 => Just(UserCommand::Interrupt),
    ];
    prop_oneof![
        8 => user.prop_map(Act::User),
        2 => any::<bool>().prop_map(|replace| Act::SetGoal { replace }),
        20 => (0..3_u32).prop_map(|calls| Act::Next { calls }),
        1 => Just(Act::Admit),
        1 => Just(Act::Renew),
        1 => Just(Act::Begin),
        2 => Just(Act::Fail),
        1 => (0..3_u32).prop_map(|calls| Act::Respond { calls }),
        1 => (0..2_u32).prop_map(|index| Act::Refuse { index }),
        1 => any::<bool>().prop_map(|failed| Act::End { failed }),
        1 => Just(Act::Recover),
        2 => (0..20_000_i64).prop_map(|ms| Act::Wait { ms }),
    ]
}

fn runtime_command(act: &Act, turn: TurnNumber, request: u32) -> Option<RuntimeCommand> {
    Some(match act {
        Act::Admit => admit_turn(),
        Act::Renew => RuntimeCommand::RenewLease { turn, owner: owner() },
        Act::Begin => RuntimeCommand::BeginRequest { turn, estimated_input: 100 },
        Act::Fail => RuntimeCommand::FailRequest {
            turn,
            failure: Failure::new(FailureKind::Transport, "reset"),
            elapsed_ms: 10,
            jitter: Jitter::default(),
        },
        Act::Respond { calls } => RuntimeCommand::RecordResponse {
            turn,
            text: "text".to_owned(),
            calls: (0..*calls)
                .map(|_| ModelCall { tool: "t".to_owned(), arguments: "{}".to_owned() })
                .collect(),
            usage: TokenUsage { input: 50_000, ..TokenUsage::default() },
        },
        Act::Refuse { index } => RuntimeCommand::RefuseCall {
            call: CallRef { turn, request, index: *index },
            outcome: CallOutcome::Invalid,
            result: "no such tool".to_owned(),
        },
        Act::End { failed } => RuntimeCommand::EndTurn {
            turn,
            outcome: if *failed {
                TurnOutcome::Failed { failure: Failure::new(FailureKind::Transport, "reset") }
            } else {
                TurnOutcome::Completed
            },
            jitter: Jitter::default(),
        },
        Act::Recover => RuntimeCommand::RecoverTurn { turn, dead: None, found: [].into() },
        Act::User(_) | Act::SetGoal { .. } | Act::Next { .. } | Act::Wait { .. } => return None,
    })
}

/// The act that the running turn waits for.
fn next(calls: u32, state: &SessionState) -> Act {
    let Some((_, running)) = state.core.running_turns().next() else { return Act::Admit };
    match &running.phase {
        _ if running.stop.is_some() => Act::End { failed: false },
        TurnPhase::Ready => Act::Begin,
        TurnPhase::Requesting { .. } => Act::Respond { calls },
        TurnPhase::Calling { .. } => Act::Refuse { index: running.open_calls()[0].call.index },
        TurnPhase::Answered | TurnPhase::Failed { .. } => Act::End { failed: false },
    }
}

/// Decides an act on the state it meets.
fn decide(act: &Act, number: usize, state: &SessionState, facts: &Facts) -> Result<Decision, Rejection> {
    let running = state.core.running_turns().next();
    let (turn, request) =
        running.map_or((state.core.last_turn, 0), |(_, running)| (running.number, running.request));
    let act = &match act {
        Act::Next { calls } => next(*calls, state),
        act => act.clone(),
    };
    if let Some(command) = runtime_command(act, turn, request) {
        return policy::decide(state, Command::Runtime(&owner().worker, &command), facts);
    }
    let command = match act {
        Act::SetGoal { replace: wanted } => {
            let UserCommand::SetGoal { goal_id, objective, criteria, budgets, .. } = set_goal(number as u128)
            else {
                unreachable!()
            };
            UserCommand::SetGoal { goal_id, objective, criteria, budgets, replace: *wanted }
        }
        Act::User(UserCommand::UpdatePlan { lane, update }) => {
            let mut update = update.clone();
            update.new_plan = domain::PlanId::from_u128(number as u128);
            // Half of the revisions are right; of random ones hardly any would be.
            if update.expected_revision > Some(Revision(2)) {
                update.expected_revision = Some(state.current_revision(lane));
            }
            UserCommand::UpdatePlan { lane: lane.clone(), update }
        }
        Act::User(command) => command.clone(),
        _ => unreachable!(),
    };
    policy::decide(state, Command::User(&user(), &command), facts)
}

async fn play(store: &Store, site: &Site, history: &[(u128, bool, Act)]) {
    for number in [1, 2] {
        let open = move |state: &SessionState, facts: &Facts| {
            policy::decide(state, Command::User(&user(), &open_session()), facts)
        };
        store.execute(session(number), Ask::default(), open).await.unwrap();
    }
    for (number, (on, has_key, act)) in history.iter().enumerate() {
        if let Act::Wait { ms } = act {
            site.clock.advance_ms(*ms);
            continue;
        }
        let ask = if *has_key { keyed(&format!("{number}"), "p") } else { Ask::default() };
        let act = act.clone();
        let decided =
            store.execute(session(*on), ask, move |state, facts| decide(&act, number, state, facts));
        match decided.await {
            Ok(_) | Err(ExecuteError::Rejected(_)) => {}
            Err(ExecuteError::Fault(error)) => panic!("{error}"),
        }
    }
}

proptest! {
    // Each history is a few dozen durable commits.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn e1_after_any_history_the_stored_state_is_the_fold_of_the_log(
        history in prop::collection::vec((prop_oneof![3 => Just(1_u128), 1 => Just(2)], any::<bool>(), acts()), 1..100)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(on_each_engine(async |site: Site| {
            let store = site.open().await;
            play(&store, &site, &history).await;
            assert_eq!(store.check(|_| {}).await.unwrap(), []);
            for number in [1, 2] {
                let head = store.head(session(number)).await.unwrap().unwrap();
                let page = store.events_after(session(number), domain::Seq(0), 1_000).await.unwrap();
                assert!(!page.has_more);
                assert_eq!(*head.state, SessionState::fold(session(number), &page.events));
            }
        }));
    }
}
