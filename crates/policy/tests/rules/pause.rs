//! Why a Goal is held, which reason outlasts which, and who lifts it (G8, G9).

use domain::{
    CallOutcome, CallRef, Code, Effect, Event, FailureKind, GoalStatus, PauseReason, RequestId, TurnNumber,
};
use policy::{NextAction, RuntimeCommand, UserCommand};

use super::commands::{answer, ask, ask_leave, text};
use super::world::{
    World, budgets, code, end, failure, finish_call, kinds, start_work, submit, submit_and_resume,
};

const CALL: CallRef = CallRef { turn: TurnNumber(90), request: 1, index: 0 };
const REQUEST: RequestId = RequestId(90);

/// Every reason, weak to strong.
const REASONS: [PauseReason; 10] = [
    PauseReason::PlanMode,
    PauseReason::NoProgress,
    PauseReason::RepeatedFailure,
    PauseReason::HumanInput { request: REQUEST },
    PauseReason::Permission { request: REQUEST },
    PauseReason::Interrupted,
    PauseReason::User,
    PauseReason::Authentication,
    PauseReason::Quota,
    PauseReason::UncertainSideEffect { call: CALL },
];

fn goal() -> World {
    let mut world = World::open();
    world.set_goal();
    world
}

/// A session whose Goal is held for this reason, by what really leads to it.
fn held(reason: PauseReason) -> World {
    let mut world = goal();
    match reason {
        PauseReason::PlanMode => drop(world.user(&UserCommand::EnterPlan).unwrap()),
        PauseReason::NoProgress => {
            for _ in 0..3 {
                world.whole_turn();
            }
        }
        PauseReason::RepeatedFailure => {
            for _ in 0..5 {
                let turn = world.start();
                world.lose(turn);
            }
        }
        PauseReason::HumanInput { .. } => {
            world.asked(ask);
        }
        PauseReason::Permission { .. } => {
            world.asked(ask_leave);
        }
        PauseReason::Interrupted => drop(world.user(&UserCommand::Interrupt).unwrap()),
        PauseReason::User => drop(world.user(&UserCommand::PauseGoal).unwrap()),
        PauseReason::Authentication | PauseReason::Quota => {
            let kind = if reason == PauseReason::Quota {
                FailureKind::QuotaExhausted
            } else {
                FailureKind::Authentication
            };
            let turn = world.start();
            world.fail(turn, failure(kind));
        }
        PauseReason::UncertainSideEffect { .. } => {
            let call = world.start_with("mail");
            world.admit_call(call, Effect::External);
            world.lose(call.turn);
        }
    }
    let GoalStatus::Paused(is) = world.status() else { panic!("{reason:?}: {:?}", world.status()) };
    assert_eq!(is.name(), reason.name());
    world
}

fn reason(world: &World) -> &'static str {
    match world.status() {
        GoalStatus::Paused(reason) => reason.name(),
        status => status.state().name(),
    }
}

/// What the runtime finds out while a turn for a prompt runs, that was bound before the Goal was held.
fn bound_turn(hold: &UserCommand, then: impl Fn(&mut World, CallRef)) -> World {
    let mut world = goal();
    world.submit("go");
    let call = world.start_with("mail");
    world.admit_call(call, Effect::External);
    world.user(hold).unwrap();
    then(&mut world, call);
    world
}

#[test]
fn g8_the_order_of_all_reasons() {
    let cell =
        |held: PauseReason, new: PauseReason| if new.strength() > held.strength() { "x" } else { "·" };
    let row = |held: PauseReason| {
        let cells: Vec<_> = REASONS.iter().map(|new| cell(held, *new)).collect();
        format!("{:<21} {}", held.name(), cells.join(" "))
    };
    let table: Vec<_> = REASONS.into_iter().map(row).collect();
    insta::assert_snapshot!(format!("held for; x where the runtime replaces it by the reason of the column, in the same order\n{}", table.join("\n")), @r"
    held for; x where the runtime replaces it by the reason of the column, in the same order
    plan_mode             · x x x x x x x x x
    no_progress           · · · x x x x x x x
    repeated_failure      · · · x x x x x x x
    human_input           · · · · · x x x x x
    permission            · · · · · x x x x x
    interrupted           · · · · · · · x x x
    user                  · · · · · · · x x x
    authentication        · · · · · · · · · x
    quota                 · · · · · · · · · x
    uncertain_side_effect · · · · · · · · · ·
    ");
}

#[test]
fn g8_reasons_are_stored_by_name() {
    for reason in REASONS {
        let json = serde_json::to_value(GoalStatus::Paused(reason)).unwrap();
        assert_eq!(json["reason"], reason.name());
        assert_eq!(serde_json::from_value::<GoalStatus>(json).unwrap(), GoalStatus::Paused(reason));
    }
}

#[test]
fn g8_the_runtime_replaces_a_reason_only_by_a_stronger_one() {
    let uncertain = |world: &mut World, call| {
        world.runtime(&finish_call(call, CallOutcome::Uncertain)).unwrap();
    };
    for hold in [UserCommand::PauseGoal, UserCommand::Interrupt, UserCommand::EnterPlan] {
        let world = bound_turn(&hold, uncertain);
        assert_eq!(reason(&world), "uncertain_side_effect", "after {hold:?}");
    }
    let weaker: [fn(&mut World, CallRef); 2] = [
        |world, call| {
            world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
            let outcome = domain::TurnOutcome::Failed { failure: failure(FailureKind::Authentication) };
            world.runtime(&end(call.turn, outcome)).unwrap();
        },
        |world, call| {
            world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
            let call = world.one_call("ask_user");
            world.runtime(&ask(call)).unwrap();
        },
    ];
    for then in weaker {
        let world = bound_turn(&UserCommand::PauseGoal, then);
        assert_eq!(reason(&world), "user");
    }
}

#[test]
fn g8_the_first_of_two_uncertain_calls_keeps_the_goal() {
    let mut world = held(PauseReason::UncertainSideEffect { call: CALL });
    let before = world.status().clone();
    world.submit("try again");
    let call = world.start_with("mail");
    world.admit_call(call, Effect::External);
    world.runtime(&finish_call(call, CallOutcome::Uncertain)).unwrap();
    assert_eq!(*world.status(), before);
}

#[test]
fn g8_the_person_may_pause_for_their_own_reason_at_any_time() {
    for reason in REASONS {
        let mut world = held(reason);
        world.user(&UserCommand::PauseGoal).unwrap();
        assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::User), "{reason:?}");
        assert_eq!(world.user(&UserCommand::PauseGoal).unwrap(), [], "once");
    }
}

/// What becomes of each pause after each act, where `–` is no change.
#[test]
fn g9_who_lifts_which_pause() {
    type Act = fn(&mut World) -> Result<Vec<Event>, policy::Rejection>;
    let acts: [(&str, Act); 6] = [
        ("message", |world| world.user(&submit("go on"))),
        ("answer", |world| world.user(&answer(1, text("8080")))),
        ("allow", |world| world.user(&answer(1, domain::Answer::Allow))),
        ("start work", |world| world.user(&start_work(None, None))),
        ("resume", |world| world.user(&UserCommand::ResumeGoal)),
        ("message + resume", |world| world.user(&submit_and_resume("go on"))),
    ];
    let cell = |reason: PauseReason, act: Act| {
        let mut world = held(reason);
        match act(&mut world) {
            Err(rejection) => rejection.code.name(),
            Ok(_) if self::reason(&world) == reason.name() => "–",
            Ok(_) => self::reason(&world),
        }
    };
    let row = |reason: PauseReason| {
        let cells: Vec<_> = acts.iter().map(|(_, act)| cell(reason, *act)).collect();
        format!("{} | {}", reason.name(), cells.join(" | "))
    };
    let header: Vec<_> = acts.iter().map(|(name, _)| *name).collect();
    let table: Vec<_> = REASONS.into_iter().map(row).collect();
    insta::assert_snapshot!(format!("held for | {}\n{}", header.join(" | "), table.join("\n")), @r"
    held for | message | answer | allow | start work | resume | message + resume
    plan_mode | – | unknown_request | unknown_request | active | – | –
    no_progress | – | unknown_request | unknown_request | – | active | active
    repeated_failure | – | unknown_request | unknown_request | – | active | active
    human_input | – | active | wrong_answer | – | active | active
    permission | – | wrong_answer | active | – | active | active
    interrupted | – | unknown_request | unknown_request | – | active | active
    user | – | unknown_request | unknown_request | – | active | active
    authentication | – | unknown_request | unknown_request | – | active | active
    quota | – | unknown_request | unknown_request | – | active | active
    uncertain_side_effect | – | unknown_request | unknown_request | – | active | active
    ");
}

#[test]
fn g9_the_runtime_alone_lifts_nothing() {
    for reason in REASONS {
        let mut world = held(reason);
        let before = world.status().clone();
        world.now += 30 * 86_400_000;
        assert_eq!(code(world.runtime(&super::world::admit(&super::world::owner(1)))), Code::NotDue);
        world.submit("a word");
        let call = world.start_with("read_file");
        let read = super::world::grant(&[domain::Capability::ReadWorkspace]);
        world.agent(&policy::AgentCommand::AdmitCall { call, grant: read, effect: Effect::Read }).unwrap();
        world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
        let call = world.one_call("goal_update");
        assert_eq!(code(world.agent(&super::world::complete_goal(call))), Code::GoalNotBound);
        world.shut_down();
        world.submit("another word");
        let turn = world.start();
        world.lose(turn);
        assert_eq!(*world.status(), before, "{reason:?}");
    }
}

#[test]
fn g9_a_message_with_resume_is_one_decision() {
    let mut world = held(PauseReason::Interrupted);
    let events = world.user(&submit_and_resume("go on, but slower")).unwrap();
    assert_eq!(kinds(&events), ["input_queued", "goal_moved"]);
    assert!(matches!(world.next(), NextAction::RunInput { .. }), "the message goes first");
    world.whole_turn();
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));
}

#[test]
fn g9_a_message_with_resume_that_cannot_resume_queues_nothing() {
    let mut world = World::open();
    assert_eq!(code(world.user(&submit_and_resume("go on"))), Code::UnknownGoal);
    world.set_goal_with(budgets(100, 10));
    world.whole_turn();
    assert_eq!(code(world.user(&submit_and_resume("go on"))), Code::IllegalTransition, "no budget");
    assert_eq!(world.inbox(), [0; 0]);
    world.user(&UserCommand::CancelGoal).unwrap();
    assert_eq!(code(world.user(&submit_and_resume("go on"))), Code::IllegalTransition, "over");
}

#[test]
fn g9_a_message_with_resume_to_a_goal_that_runs_is_a_message() {
    let mut world = goal();
    world.wait_for(domain::Condition::Time, world.now + 60_000);
    let before = world.goal().clone();
    assert_eq!(kinds(&world.user(&submit_and_resume("go on")).unwrap()), ["input_queued"]);
    assert_eq!(*world.goal(), before, "its wait is not dropped by the way");
}

#[test]
fn g9_a_message_with_resume_lifts_a_block_too() {
    let mut world = goal();
    for _ in 0..3 {
        world.blocked_turn();
    }
    world.user(&submit_and_resume("here is the key")).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn g9_m5_in_plan_mode_a_resume_waits_for_start_work() {
    for reason in REASONS {
        let mut world = held(reason);
        world.user(&UserCommand::EnterPlan).unwrap();
        world.user(&UserCommand::ResumeGoal).unwrap();
        assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode), "{reason:?}");
        world.user(&start_work(None, None)).unwrap();
        assert_eq!(*world.status(), GoalStatus::Active, "{reason:?}");
    }
}

#[test]
fn g9_resuming_drops_a_wait_or_a_retry_of_a_goal_that_runs() {
    let mut world = goal();
    world.wait_for(domain::Condition::Inbox, world.now + 60_000);
    assert_eq!(kinds(&world.user(&UserCommand::ResumeGoal).unwrap()), ["goal_wait_lifted"]);
    let turn = world.start();
    world.fail(turn, failure(FailureKind::Transport));
    assert_eq!(kinds(&world.user(&UserCommand::ResumeGoal).unwrap()), ["retry_cleared"]);
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 3, .. }));
    assert_eq!(code(world.user(&UserCommand::ResumeGoal)), Code::IllegalTransition, "nothing holds it");
    let look = RuntimeCommand::LookAtFile { goal_id: world.goal().id, found: None };
    assert_eq!(code(world.runtime(&look)), Code::NotDue, "no wait is left");
}
