//! What becomes of a turn whose owner is gone (T7).

use std::collections::BTreeMap;

use domain::{
    CallOutcome, CallRef, Code, Digest, Effect, EventBody, GoalStatus, PauseReason, Settlement, TurnEnd,
};
use policy::{IdleReason, NextAction, UserCommand};
use serde::Deserialize;

use super::world::{World, finish_call, kinds, start_work};

/// An admitted call, what is found afterwards, and how it is settled.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "rule")]
    _rule: String,
    says: String,
    effect: Kind,
    /// The content before, of the write, and found: letters stand for digests, null for no file.
    #[serde(default)]
    before: Option<char>,
    #[serde(default)]
    found: Found,
    /// Whether the owner was not seen dead: its lease ended, and that is all.
    #[serde(default)]
    silent: bool,
    outcome: CallOutcome,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Read,
    WorkState,
    FileWrite,
    ConfinedCommand,
    Command,
    External,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Found {
    /// Nobody could look.
    #[default]
    Unknown,
    Missing,
    Content(char),
}

fn digest(letter: char) -> Digest {
    Digest([u8::try_from(letter).unwrap(); 32])
}

fn effect(case: &Case) -> Effect {
    match case.effect {
        Kind::Read => Effect::Read,
        Kind::WorkState => Effect::WorkState,
        Kind::FileWrite => Effect::FileWrite {
            path: "src/a".to_owned(),
            before: case.before.map(digest),
            after: digest('n'),
        },
        Kind::ConfinedCommand => Effect::Command { confined: true },
        Kind::Command => Effect::Command { confined: false },
        Kind::External => Effect::External,
    }
}

fn found(case: &Case, call: CallRef) -> BTreeMap<CallRef, Option<Digest>> {
    match case.found {
        Found::Unknown => BTreeMap::new(),
        Found::Missing => BTreeMap::from([(call, None)]),
        Found::Content(letter) => BTreeMap::from([(call, Some(digest(letter)))]),
    }
}

fn check(case: &Case) {
    let says = &case.says;
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let call = world.call(turn, &["tool"])[0];
    world.admit_call(call, effect(case));
    world.now += policy::LEASE_MS;
    let lease = world.leases.turn.as_ref().filter(|_| !case.silent);
    let dead = lease.map(|lease| lease.owner.clone());
    let recover = policy::RuntimeCommand::RecoverTurn { turn, dead, found: found(case, call) };
    let events = world.runtime(&recover).unwrap();
    let EventBody::CallFinished { outcome, result, .. } = &events[0].body else { panic!("{says}") };
    assert_eq!(*outcome, case.outcome, "{says}");
    assert!(!result.is_empty());
    if case.outcome == CallOutcome::Uncertain {
        assert_eq!(
            kinds(&events),
            ["call_finished", "goal_time_charged", "turn_lost", "goal_moved"],
            "{says}"
        );
        assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }), "{says}");
        assert_eq!(world.wake_at, None, "{says}");
    } else {
        assert_eq!(kinds(&events), ["call_finished", "goal_time_charged", "turn_lost"], "{says}");
        assert!(matches!(world.next(), NextAction::RunGoal { continuation: 2, .. }), "{says}");
    }
    assert_eq!(world.state.core.uncertain_call, None, "{says}");
}

#[test]
fn t7_each_kind_of_effect_is_settled_by_what_can_be_known() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../cases/settlement.json")).unwrap();
    cases.iter().for_each(check);
}

#[test]
fn t7_the_model_reads_what_happened_to_its_call() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let calls = world.call(turn, &["a", "b", "c", "d", "e", "f"]);
    let write = |before| Effect::FileWrite { path: "p".to_owned(), before, after: digest('n') };
    world.admit_call(calls[0], write(None));
    world.admit_call(calls[1], write(None));
    world.admit_call(calls[2], Effect::Read);
    world.admit_call(calls[3], Effect::External);
    world.admit_call(calls[4], Effect::Read);
    world.runtime(&finish_call(calls[4], CallOutcome::Succeeded)).unwrap();
    let events = world.lose_with(turn, BTreeMap::from([(calls[0], Some(digest('n'))), (calls[1], None)]));
    let lines: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::CallFinished { tool, outcome, result, .. } => {
                Some(format!("{tool} {}: {result}", outcome.name()))
            }
            _ => None,
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    a succeeded: done: the worker died before it could report, but the file has exactly the content that was to be written
    b not_run: not run: the worker died before the call changed anything; call it again if needed
    c lost: cut off by a crash; inspect before repeating
    d uncertain: cut off by a crash, and it cannot be told whether it happened; it was not repeated; inspect first
    f not_run: not run: the worker died first
    ");
}

#[test]
fn t7_without_a_goal_the_session_waits_for_the_person() {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    world.call(turn, &["read_file"]);
    world.lose(turn);
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::TurnLost { turn } });
    assert_eq!(world.wake_at, None);
}

#[test]
fn t7_a_lost_turn_is_lost_once() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let events = world.lose(turn);
    assert_eq!(events.last().unwrap().body, EventBody::TurnLost { turn });
    let recover = policy::RuntimeCommand::RecoverTurn { turn, dead: None, found: BTreeMap::new() };
    assert_eq!(super::world::code(world.runtime(&recover)), Code::StaleEpoch);
    let last = world.state.core.lanes[&domain::LaneId::main()].last_end.clone();
    assert_eq!(last, Some(TurnEnd::Lost { turn }));
}

/// A session without a Goal in which a call may have happened.
fn uncertain() -> (World, CallRef) {
    let mut world = World::open();
    world.submit("go");
    let turn = world.start();
    let call = world.call(turn, &["send_mail"])[0];
    world.admit_call(call, Effect::External);
    world.lose(turn);
    (world, call)
}

#[test]
fn t7_without_a_goal_an_uncertain_call_is_remembered_for_the_next_activation() {
    let (mut world, call) = uncertain();
    assert_eq!(world.state.core.uncertain_call, Some(call));
    world.set_goal();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
    assert_eq!(world.state.core.uncertain_call, None, "dealt with");
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
}

#[test]
fn t7_an_explicit_resume_lifts_a_remembered_uncertainty() {
    let mut world = World::open();
    world.set_goal();
    world.submit("go");
    let turn = world.start();
    let call = world.call(turn, &["send_mail"])[0];
    world.admit_call(call, Effect::External);
    world.user(&UserCommand::PauseGoal).unwrap();
    world.lose(turn);
    assert_eq!(
        (world.status(), world.state.core.uncertain_call),
        (&GoalStatus::Paused(PauseReason::User), Some(call))
    );
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!((world.status(), world.state.core.uncertain_call), (&GoalStatus::Active, None));
}

#[test]
fn t7_start_work_is_no_explicit_resume() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let call = world.call(turn, &["send_mail"])[0];
    world.admit_call(call, Effect::External);
    world.user(&UserCommand::EnterPlan).unwrap();
    world.lose(turn);
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::PlanMode));
    world.user(&start_work(None, None)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
}

#[test]
fn t7_a_call_that_its_own_worker_calls_uncertain_pauses_the_goal() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let call = world.call(turn, &["send_mail"])[0];
    world.admit_call(call, Effect::External);
    world.runtime(&finish_call(call, CallOutcome::Uncertain)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
}

#[test]
fn t7_every_uncertain_call_of_a_turn_is_recorded_and_the_first_is_named() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let calls = world.call(turn, &["one", "two"]);
    for call in &calls {
        world.admit_call(*call, Effect::External);
    }
    let events = world.lose(turn);
    assert_eq!(kinds(&events)[3..], ["turn_lost", "goal_moved"]);
    let call = calls[0];
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
}

#[test]
fn t7_a_write_settles_by_digest() {
    let write = |before| Effect::FileWrite { path: "p".to_owned(), before, after: digest('n') };
    assert_eq!(write(Some(digest('o'))).settle(Some(digest('n'))), Settlement::Done);
    assert_eq!(write(Some(digest('o'))).settle(Some(digest('o'))), Settlement::NotRun);
    assert_eq!(write(Some(digest('o'))).settle(None), Settlement::Uncertain);
    assert_eq!(write(Some(digest('n'))).settle(Some(digest('n'))), Settlement::Done, "nothing was to change");
}

#[test]
fn t7_a_goal_paused_for_one_uncertain_call_keeps_naming_it() {
    let mut world = World::open();
    world.set_goal();
    let turn = world.start();
    let calls = world.call(turn, &["one", "two"]);
    for call in &calls {
        world.admit_call(*call, Effect::External);
    }
    for call in &calls {
        world.runtime(&finish_call(*call, CallOutcome::Uncertain)).unwrap();
    }
    let call = calls[0];
    assert_eq!(*world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { call }));
}
