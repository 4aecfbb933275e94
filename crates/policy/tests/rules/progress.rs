//! Goals that lead nowhere: staged blocks, turns without evidence, losses and failures in a row (G6, G7).

use domain::{
    BlockCode, CallOutcome, Code, Effect, EventBody, FailureKind, GoalStatus, PauseReason, Streaks,
};
use policy::UserCommand;
use proptest::prelude::*;

use super::commands::stage_block;
use super::world::{World, code, failure, finish_call, grant, kinds, refuse_call, write};

const NO_PROGRESS: GoalStatus = GoalStatus::Paused(PauseReason::NoProgress);

/// A session with a Goal.
fn goal() -> World {
    let mut world = World::open();
    world.set_goal();
    world
}

/// Turns of the Goal until it is not active any more, this many at most.
fn turns_until_held(world: &mut World, most: usize, mut turn: impl FnMut(&mut World, usize)) -> usize {
    for n in 0..most {
        if *world.status() != GoalStatus::Active {
            return n;
        }
        turn(world, n);
    }
    most
}

fn streaks(world: &World) -> Streaks {
    world.goal().streaks
}

// G6

#[test]
fn g6_the_third_turn_that_says_so_blocks_the_goal() {
    let mut world = goal();
    for n in 1..=3 {
        let call = world.start_with("goal_update");
        let events = world.agent(&stage_block(call)).unwrap();
        assert_eq!(kinds(&events), ["call_admitted", "goal_block_staged", "call_finished"]);
        let EventBody::CallFinished { result, .. } = &events[2].body else { panic!() };
        assert!(result.starts_with(&format!(r#"{{"status":"staged","turns":{n},"of":3,"#)), "{result}");
        assert!(result.contains("ask_user"), "{result}");
        assert_eq!(*world.status(), GoalStatus::Active, "not before the turn ends");
        world.conclude();
    }
    let detail = "no key".to_owned();
    assert_eq!(*world.status(), GoalStatus::Blocked { code: BlockCode::AgentDeclared, detail });
    assert_eq!(world.wake_at, None);
}

#[test]
fn g6_a_turn_that_says_it_twice_says_it_once() {
    let mut world = goal();
    for _ in 0..2 {
        let turn = world.start();
        for _ in 0..3 {
            let call = world.call(turn, &["goal_update"])[0];
            world.agent(&stage_block(call)).unwrap();
        }
        world.answer(turn, 10);
    }
    assert_eq!((world.status(), streaks(&world).staged_blocks), (&GoalStatus::Active, 2));
}

#[test]
fn g6_evidence_clears_what_was_staged() {
    let mut world = goal();
    world.blocked_turn();
    world.blocked_turn();
    world.working_turn();
    assert_eq!(streaks(&world).staged_blocks, 0);
    world.blocked_turn();
    world.blocked_turn();
    assert_eq!(*world.status(), GoalStatus::Active);
    let call = world.start_with("write_file");
    world.admit_call(call, write("a", 1));
    world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
    let call = world.one_call("goal_update");
    let events = world.agent(&stage_block(call)).unwrap();
    let EventBody::CallFinished { result, .. } = &events[2].body else { panic!() };
    assert!(
        result.contains(r#""turns":1"#),
        "a turn with evidence that says so is the first again: {result}"
    );
    world.conclude();
    assert_eq!((world.status(), streaks(&world).staged_blocks), (&GoalStatus::Active, 1));
}

#[test]
fn g6_a_turn_without_a_word_in_between_clears_nothing() {
    let mut world = goal();
    world.blocked_turn();
    world.submit("what is in the way?");
    world.whole_turn();
    world.blocked_turn();
    assert_eq!(streaks(&world).staged_blocks, 2);
}

#[test]
fn g6_what_was_staged_survives_loss_restart_and_another_worker() {
    let mut world = goal();
    world.blocked_turn();
    world.blocked_turn();
    let call = world.start_with("goal_update");
    world.agent(&stage_block(call)).unwrap();
    world.lose(call.turn);
    assert_eq!(streaks(&world).staged_blocks, 2, "a lost turn adds nothing");
    // `World` reads each stored state back, so what a restart would know is what is here.
    world.blocked_turn();
    assert!(matches!(world.status(), GoalStatus::Blocked { .. }));
}

#[test]
fn g6_blocked_wins_over_no_progress_when_both_are_due() {
    let mut world = goal();
    let turns = turns_until_held(&mut world, 9, |world, _| world.blocked_turn());
    assert_eq!(turns, 3);
    assert_eq!(streaks(&world).without_evidence, 3, "both were due");
    assert!(matches!(world.status(), GoalStatus::Blocked { code: BlockCode::AgentDeclared, .. }));
}

#[test]
fn g6_a_resume_by_the_person_starts_the_count_anew() {
    let mut world = goal();
    turns_until_held(&mut world, 9, |world, _| world.blocked_turn());
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(streaks(&world), Streaks::default());
    let turns = turns_until_held(&mut world, 9, |world, _| world.blocked_turn());
    assert_eq!(turns, 3);
}

#[test]
fn g6_only_a_bound_turn_declares() {
    let mut world = goal();
    world.user(&UserCommand::PauseGoal).unwrap();
    world.submit("go");
    let call = world.start_with("goal_update");
    assert_eq!(code(world.agent(&stage_block(call))), Code::GoalNotBound);
}

// G7

#[test]
fn g7_three_turns_without_evidence_pause_the_goal() {
    let mut world = goal();
    let turns = turns_until_held(&mut world, 9, |world, _| {
        world.whole_turn();
    });
    assert_eq!((turns, world.status(), world.wake_at), (3, &NO_PROGRESS, None));
}

/// What a turn does, and whether that is evidence of progress however often it is done.
#[test]
fn g7_what_is_evidence_and_what_is_not() {
    type Deed = fn(&mut World, usize);
    let deeds: [(&str, Deed, usize); 9] = [
        ("a changed file", |world, _| world.working_turn(), 20),
        (
            "a file written as it was",
            |world, _| {
                let call = world.start_with("write_file");
                let same = Some(domain::Digest([1; 32]));
                let effect =
                    Effect::FileWrite { path: "a".to_owned(), before: same, after: domain::Digest([1; 32]) };
                world.admit_call(call, effect);
                world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
                world.conclude();
            },
            3,
        ),
        (
            "a write that failed",
            |world, _| {
                let call = world.start_with("write_file");
                world.admit_call(call, write("a", 1));
                world.runtime(&finish_call(call, CallOutcome::Failed)).unwrap();
                world.conclude();
            },
            3,
        ),
        // The first one is new, the others repeat it, although the output carries the time of day.
        ("the same call again and again", |world, _| world.new_call_turn("date"), 4),
        // Ten turns are carried, the next three are not.
        ("another call every time", |world, n| world.new_call_turn(&n.to_string()), 13),
        (
            "a call that is refused",
            |world, _| {
                let call = world.start_with("shell");
                world.runtime(&refuse_call(call, CallOutcome::Denied)).unwrap();
                world.conclude();
            },
            3,
        ),
        (
            "a status of a plan step",
            |world, n| {
                let call = world.start_with("plan_update");
                let line = if n % 2 == 0 { "a:in_progress b" } else { "a b:in_progress" };
                let update = world.plan_update(line, (n > 0).then(|| u64::try_from(n).unwrap()));
                let grant = grant(&[domain::Capability::UpdatePlan]);
                let command = policy::AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() };
                world.agent(&command).unwrap();
                world.conclude();
            },
            3,
        ),
        (
            "a completed plan step",
            |world, n| {
                let call = world.start_with("plan_update");
                let steps: Vec<_> = (0..=n).map(|step| format!("s{step}:completed")).collect();
                let update = world.plan_update(&steps.join(" "), (n > 0).then(|| u64::try_from(n).unwrap()));
                let grant = grant(&[domain::Capability::UpdatePlan]);
                let command = policy::AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() };
                world.agent(&command).unwrap();
                world.conclude();
            },
            3,
        ),
        (
            "a proposal to change the Goal",
            |world, n| {
                let call = world.start_with("goal_propose");
                world
                    .agent(&super::commands::propose(call, testkit::goal_id(99), &format!("no. {n}")))
                    .unwrap();
                world.conclude();
            },
            3,
        ),
    ];
    for (deed, turn, until) in deeds {
        let mut world = goal();
        assert_eq!(turns_until_held(&mut world, 20, turn), until, "{deed}");
        let held = if until == 20 { &GoalStatus::Active } else { &NO_PROGRESS };
        assert_eq!(world.status(), held, "{deed}");
    }
}

#[test]
fn g7_another_exit_status_is_another_result() {
    let mut world = goal();
    for exit in ["0", "1", "0", "1", "2"] {
        let call = world.start_with("make");
        let events = world.events.len();
        world.run_call(call, Effect::Command { confined: true }, exit);
        let is_new = world.events[events..]
            .iter()
            .any(|event| matches!(event.body, EventBody::CallFinished { evidence: Some(_), .. }));
        let seen_before = world.events[..events].iter().any(|event| {
            matches!(&event.body, EventBody::CallFinished { result, .. } if result.starts_with(&format!("exit {exit}")))
        });
        assert_eq!(is_new, !seen_before, "exit {exit}");
        world.conclude();
    }
}

#[test]
fn g7_a_change_lets_new_calls_carry_again() {
    let mut world = goal();
    for n in 0..10 {
        world.new_call_turn(&n.to_string());
    }
    assert_eq!(streaks(&world).only_new_calls, 10);
    world.working_turn();
    assert_eq!(streaks(&world), Streaks::default());
    let turns = turns_until_held(&mut world, 20, |world, n| world.new_call_turn(&format!("x{n}")));
    assert_eq!(turns, 13);
}

#[test]
fn g7_a_turn_in_between_without_evidence_gives_new_calls_no_new_credit() {
    let mut world = goal();
    let turns = turns_until_held(&mut world, 40, |world, n| {
        if n % 2 == 0 {
            world.new_call_turn(&n.to_string());
        } else {
            world.whole_turn();
        }
    });
    assert_eq!((turns, world.status()), (22, &NO_PROGRESS));
}

#[test]
fn g7_a_call_that_was_new_for_one_goal_is_new_for_the_next() {
    let mut world = goal();
    world.new_call_turn("ls");
    world.user(&super::world::goal_set(testkit::goal_id(50), domain::Budgets::default(), true)).unwrap();
    world.new_call_turn("ls");
    assert_eq!(streaks(&world).without_evidence, 0);
}

#[test]
fn g7_turns_for_a_persons_prompt_leave_the_streak_and_may_end_it() {
    let mut world = goal();
    world.whole_turn();
    world.whole_turn();
    for _ in 0..5 {
        world.submit("how far are you?");
        world.whole_turn();
    }
    assert_eq!((world.status(), streaks(&world).without_evidence), (&GoalStatus::Active, 2));
    world.submit("do it like this");
    world.working_turn();
    assert_eq!(streaks(&world).without_evidence, 0);
}

#[test]
fn g7_stopped_turns_leave_the_streak_unless_they_brought_evidence() {
    let mut world = goal();
    world.whole_turn();
    world.whole_turn();
    for _ in 0..4 {
        world.start();
        world.shut_down();
    }
    assert_eq!(streaks(&world).without_evidence, 2, "a worker that leaves is no lack of progress");
    let call = world.start_with("write_file");
    world.admit_call(call, write("a", 1));
    world.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
    world.shut_down();
    assert_eq!(streaks(&world).without_evidence, 0);
}

#[test]
fn g7_lost_and_failed_turns_leave_the_streak_and_have_their_own() {
    let mut world = goal();
    world.whole_turn();
    world.whole_turn();
    let turn = world.start();
    world.lose(turn);
    let turn = world.start();
    world.fail(turn, failure(FailureKind::Transport));
    let Streaks { without_evidence, lost, failed, .. } = streaks(&world);
    assert_eq!((without_evidence, lost, failed), (2, 1, 1));
    world.now = world.goal().retry.unwrap().at.0;
    world.working_turn();
    assert_eq!(streaks(&world), Streaks::default(), "a turn that comes to its end ends them");
}

#[test]
fn g7_five_lost_turns_in_a_row_pause_the_goal() {
    let mut world = goal();
    let turns = turns_until_held(&mut world, 20, |world, _| {
        let turn = world.start();
        world.lose(turn);
    });
    assert_eq!((turns, world.status()), (5, &GoalStatus::Paused(PauseReason::RepeatedFailure)));
    assert_eq!(world.wake_at, None);
    world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(streaks(&world), Streaks::default());
}

#[test]
fn g7_a_hundred_failures_in_a_row_pause_the_goal_after_about_eight_hours() {
    let mut world = goal();
    let start = world.now;
    let turns = turns_until_held(&mut world, 200, |world, _| {
        if let Some(retry) = world.goal().retry {
            world.now = retry.at.0;
        }
        let turn = world.start();
        world.fail(turn, failure(FailureKind::ServerError));
    });
    assert_eq!((turns, world.status()), (100, &GoalStatus::Paused(PauseReason::RepeatedFailure)));
    assert_eq!(world.goal().retry, None);
    assert_eq!((world.now - start) / 3_600_000, 7);
    assert_eq!(world.goal().usage.turns, 0, "none is counted as a turn (T9)");
}

#[test]
fn g7_every_way_in_which_a_person_lets_the_goal_go_on_clears_the_streaks() {
    type Resume = fn(&mut World);
    let ways: [(&str, Resume); 5] = [
        ("resume", |world| {
            world.user(&UserCommand::PauseGoal).unwrap();
            world.user(&UserCommand::ResumeGoal).unwrap();
        }),
        ("a message that resumes", |world| {
            world.user(&UserCommand::PauseGoal).unwrap();
            world.user(&super::world::submit_and_resume("go on")).unwrap();
        }),
        ("start work", |world| {
            world.user(&UserCommand::EnterPlan).unwrap();
            world.user(&super::world::start_work(None, None)).unwrap();
        }),
        ("resume instead of a retry", |world| {
            let turn = world.start();
            world.fail(turn, failure(FailureKind::Transport));
            world.user(&UserCommand::ResumeGoal).unwrap();
        }),
        ("resume instead of a wait", |world| {
            world.wait_for(domain::Condition::Time, world.now + 60_000);
            world.user(&UserCommand::ResumeGoal).unwrap();
        }),
    ];
    for (way, resume) in ways {
        let mut world = goal();
        world.blocked_turn();
        assert_ne!(streaks(&world), Streaks::default());
        resume(&mut world);
        assert_eq!((streaks(&world), world.status()), (Streaks::default(), &GoalStatus::Active), "{way}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Turn {
    Plain,
    NewCall,
    Change,
    Block,
    Prompt,
    Lost,
    Failed,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let all = [Turn::Plain, Turn::NewCall, Turn::Change, Turn::Block, Turn::Prompt, Turn::Lost, Turn::Failed];
    proptest::collection::vec(proptest::sample::select(all.to_vec()), 1..60)
}

proptest! {
    #![proptest_config(testkit::cases(64))]

    /// The streaks written down a second time, over the turns since the last change.
    #[test]
    fn g6_g7_the_goal_stops_at_the_first_streak_that_is_due(turns in turns()) {
        let mut world = goal();
        let (mut none, mut new, mut staged, mut lost, mut failed) = (0, 0, 0, 0, 0);
        for (n, turn) in turns.into_iter().enumerate() {
            if let Some(retry) = world.goal().retry {
                world.now = world.now.max(retry.at.0);
            }
            match turn {
                Turn::Plain => { world.whole_turn(); none += 1; }
                Turn::NewCall => {
                    world.new_call_turn(&n.to_string());
                    if new < 10 { (new, none, staged) = (new + 1, 0, 0) } else { none += 1 }
                }
                Turn::Change => { world.working_turn(); (none, new, staged) = (0, 0, 0); }
                Turn::Block => { world.blocked_turn(); (none, staged) = (none + 1, staged + 1); }
                Turn::Prompt => { world.submit("go"); world.whole_turn(); }
                Turn::Lost => { let turn = world.start(); world.lose(turn); lost += 1; }
                Turn::Failed => { let turn = world.start(); world.fail(turn, failure(FailureKind::Transport)); failed += 1; }
            }
            if !matches!(turn, Turn::Lost | Turn::Failed) {
                (lost, failed) = (0, 0);
            }
            let due = match () {
                () if staged >= 3 => "blocked",
                () if none >= 3 => "no_progress",
                () if lost >= 5 || failed >= 100 => "repeated_failure",
                () => "active",
            };
            let is = match world.status() {
                GoalStatus::Paused(reason) => reason.name(),
                status => status.state().name(),
            };
            prop_assert_eq!(is, due);
            if due != "active" {
                prop_assert_eq!(world.wake_at, None);
                break;
            }
        }
    }
}
