//! The matrix of Goal states (G1): as a table, and as what commands really do.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Actor, CallOutcome, Effect, Event, EventBody, FailureKind, GoalState, GoalStatus, StopReason, TurnOutcome,
};
use policy::{Mover, RuntimeCommand, UserCommand, may_move};
use testkit::goal_id;

use super::commands::{
    accept, answer, ask, ask_leave, deny, end_command, more_tokens, propose, stage_block, text, wait_goal,
};
use super::world::{
    World, begin, budgets, complete, complete_goal, end, failure, finish_call, goal_set, owner, respond,
    spent, start_work, submit, submit_and_resume,
};

type Moves = BTreeMap<(GoalState, GoalState, Mover), BTreeSet<&'static str>>;

#[test]
fn g1_the_whole_matrix() {
    let cell = |from, to| {
        let movers: Vec<_> =
            Mover::ALL.into_iter().filter(|mover| may_move(from, to, *mover)).map(Mover::name).collect();
        if movers.is_empty() { "–".to_owned() } else { movers.join(", ") }
    };
    let header = GoalState::ALL.map(GoalState::name).join(" | ");
    let row = |from: GoalState| format!("{from} | {}", GoalState::ALL.map(|to| cell(from, to)).join(" | "));
    let table = GoalState::ALL.map(row).join("\n");
    insta::assert_snapshot!(format!("from \\ to | {header}\n{table}"), @r"
    from \ to | proposed | active | paused | blocked | budget_limited | completed | cancelled
    proposed | – | user | user | – | user | – | user
    active | – | – | user, runtime | user, agent, runtime | user, runtime | user, agent | user
    paused | – | user, runtime | user, runtime | user, runtime | user, runtime | user | user
    blocked | – | user | user | – | user | user | user
    budget_limited | – | user | user | – | – | user | user
    completed | – | – | – | – | – | – | –
    cancelled | – | – | – | – | – | – | –
    ");
}

/// A session with a Goal, after this.
fn with_goal(act: &dyn Fn(&mut World)) -> World {
    let mut world = World::open();
    world.set_goal_with(budgets(1_000, 10));
    act(&mut world);
    world
}

/// A session whose Goal is in each state that commands reach, by several ways where the way makes a difference.
fn reachable() -> Vec<World> {
    let command = |command: UserCommand| with_goal(&|world: &mut World| drop(world.user(&command).unwrap()));
    let fails = |kind| {
        with_goal(&move |world: &mut World| {
            let turn = world.start();
            world.fail(turn, failure(kind));
        })
    };
    let uncertain = with_goal(&|world| {
        let turn = world.start();
        let call = world.call(turn, &["mail"])[0];
        world.admit_call(call, Effect::External);
        world.lose(turn);
    });
    let spent = with_goal(&|world| {
        let turn = world.start();
        world.answer(turn, 1_000);
    });
    let spent_while_paused = with_goal(&|world| {
        world.submit("go");
        let turn = world.start();
        world.request(turn);
        world.user(&UserCommand::PauseGoal).unwrap();
        world.runtime(&respond(turn, &[], spent_tokens())).unwrap();
    });
    let bound_input_turn = |stop: UserCommand| {
        with_goal(&move |world: &mut World| {
            world.submit("go");
            let turn = world.start();
            let call = world.call(turn, &["mail"])[0];
            world.admit_call(call, Effect::External);
            world.user(&stop).unwrap();
        })
    };
    vec![
        with_goal(&|_| {}),
        with_goal(&|world| {
            world.start();
        }),
        with_goal(&|world| {
            let turn = world.start();
            world.request(turn);
        }),
        with_goal(&|world| {
            let turn = world.start();
            world.call(turn, &["goal_update"]);
        }),
        with_goal(&|world| {
            let turn = world.start();
            let call = world.call(turn, &["mail"])[0];
            world.admit_call(call, Effect::External);
        }),
        bound_input_turn(UserCommand::PauseGoal),
        bound_input_turn(UserCommand::EnterPlan),
        command(UserCommand::PauseGoal),
        command(UserCommand::EnterPlan),
        command(UserCommand::CancelGoal),
        command(UserCommand::CompleteGoal { summary: None, force: false }),
        fails(FailureKind::QuotaExhausted),
        fails(FailureKind::Refused),
        fails(FailureKind::Transport),
        uncertain,
        spent,
        spent_while_paused,
    ]
}

/// The same by proposals, requests, streaks and time.
fn further() -> Vec<World> {
    let proposed = |budget: UserCommand| {
        let mut world = World::open();
        world.submit("go");
        let call = world.start_with("goal_propose");
        world.agent(&propose(call, goal_id(40), "Port it")).unwrap();
        world.user(&budget).unwrap();
        world
    };
    let asked = |asks: fn(domain::CallRef) -> RuntimeCommand, denials: u32| {
        with_goal(&move |world: &mut World| {
            world.asked(asks);
            for n in 1..=denials {
                world.user(&answer(n, deny())).unwrap();
                world.asked(asks);
            }
        })
    };
    let spent_while_held = |hold: fn(&mut World)| {
        with_goal(&move |world: &mut World| {
            hold(world);
            world.user(&more_tokens(1)).unwrap();
        })
    };
    vec![
        proposed(more_tokens(9)),
        asked(ask, 0),
        asked(ask_leave, 0),
        asked(ask_leave, 2),
        spent_while_held(|world| {
            world.asked(ask);
        }),
        spent_while_held(|world| {
            let turn = world.start();
            world.fail(turn, failure(FailureKind::Refused));
        }),
        spent_while_held(|world| {
            world.whole_turn();
            world.user(&UserCommand::EnterPlan).unwrap();
        }),
        // Two turns without evidence and a third that runs; two that declared a block and a third that does.
        with_goal(&|world| {
            world.whole_turn();
            world.whole_turn();
            let turn = world.start();
            world.request(turn);
            world.runtime(&respond(turn, &[], spent(1))).unwrap();
        }),
        with_goal(&|world| {
            world.blocked_turn();
            world.blocked_turn();
            let call = world.start_with("goal_update");
            world.agent(&stage_block(call)).unwrap();
            world.request(call.turn);
            world.runtime(&respond(call.turn, &[], spent(1))).unwrap();
        }),
        with_goal(&|world| {
            for _ in 0..4 {
                let turn = world.start();
                world.lose(turn);
            }
            world.start();
        }),
        with_goal(&|world| {
            world.start();
            world.background_with(Effect::Command { confined: false });
            world.conclude();
        }),
        // Time runs out when the lease is renewed.
        with_goal(&|world| {
            world.start();
            world.user(&active_time(1)).unwrap();
            world.now += 5;
        }),
    ]
}

fn active_time(ms: u64) -> UserCommand {
    let active_ms = ms.try_into().ok();
    UserCommand::SetBudgets { budgets: policy::BudgetEdit { active_ms, ..policy::BudgetEdit::default() } }
}

fn spent_tokens() -> domain::TokenUsage {
    spent(1_000)
}

/// The same session in either mode.
fn in_both_modes(world: World) -> Vec<World> {
    let mut other = world.clone();
    let enter_or_leave = match other.state.core.mode {
        domain::Mode::Work => UserCommand::EnterPlan,
        domain::Mode::Plan => start_work(None, None),
    };
    other.user(&enter_or_leave).unwrap();
    vec![world, other]
}

fn user_commands() -> Vec<(&'static str, UserCommand)> {
    vec![
        ("enter plan", UserCommand::EnterPlan),
        ("start work", start_work(None, None)),
        ("goal set", goal_set(goal_id(50), budgets(1_000, 10), false)),
        ("goal set --replace", goal_set(goal_id(50), budgets(1_000, 10), true)),
        ("goal pause", UserCommand::PauseGoal),
        ("goal resume", UserCommand::ResumeGoal),
        ("goal cancel", UserCommand::CancelGoal),
        ("goal complete", complete(false)),
        ("goal complete --force", complete(true)),
        ("goal accept", accept()),
        ("goal decline", UserCommand::DeclineGoal),
        ("goal budget", more_tokens(1)),
        ("goal budget", more_tokens(1_000_000)),
        ("answer", answer(1, text("8080"))),
        ("answer", answer(3, text("8080"))),
        ("allow", answer(1, domain::Answer::Allow)),
        ("deny", answer(1, deny())),
        ("deny", answer(3, deny())),
        ("interrupt", UserCommand::Interrupt),
        ("input", submit("go")),
        ("input with resume", submit_and_resume("go")),
    ]
}

fn runtime_commands(world: &World) -> Vec<(&'static str, RuntimeCommand)> {
    let mut commands = vec![("admit a turn", super::world::admit(&owner(1)))];
    for command in &world.state.core.commands {
        let (command, dead) = (command.id, Some(owner(1)));
        commands.push(("recover a command", RuntimeCommand::RecoverCommand { command, dead }));
        commands.push(("end a command", end_command(command.0, CallOutcome::Succeeded)));
    }
    let Some((_, running)) = world.state.core.running_turns().next() else { return commands };
    let turn = running.number;
    let call = domain::CallRef { turn, request: running.request, index: 0 };
    let found = BTreeMap::new();
    commands.push(("renew the lease", RuntimeCommand::RenewLease { turn, owner: owner(1) }));
    commands.push(("ask", ask(call)));
    commands.push(("ask", ask_leave(call)));
    commands.push(("begin a request", begin(turn)));
    commands.push(("record a response", respond(turn, &[], spent(1_000))));
    commands.push(("record an uncertain result", finish_call(call, CallOutcome::Uncertain)));
    commands.push(("recover the turn", RuntimeCommand::RecoverTurn { turn, dead: Some(owner(1)), found }));
    for outcome in [TurnOutcome::Completed, TurnOutcome::Stopped { reason: StopReason::Shutdown }] {
        commands.push(("end the turn", end(turn, outcome)));
    }
    for kind in FailureKind::ALL {
        commands.push(("fail the turn", end(turn, TurnOutcome::Failed { failure: failure(kind) })));
    }
    commands
}

/// The moves among these events. A Goal that is opened is no move.
fn record(before: &World, what: &'static str, events: &[Event], seen: &mut Moves) {
    let mut status = before.state.core.goal.clone().map(|goal| goal.status);
    for event in events {
        let to = match &event.body {
            EventBody::GoalMoved { to, .. } => to.clone(),
            EventBody::GoalOpened { status: opened, .. } => {
                status = Some(opened.clone());
                continue;
            }
            _ => continue,
        };
        let mover = match event.actor {
            Actor::User { .. } => Mover::User,
            Actor::Agent { .. } => Mover::Agent,
            Actor::Runtime { .. } => Mover::Runtime,
        };
        let from = status.replace(to.clone()).map(|status: GoalStatus| status.state()).unwrap();
        seen.entry((from, to.state(), mover)).or_default().insert(what);
    }
}

fn observed() -> Moves {
    let mut moves = Moves::new();
    for before in reachable().into_iter().chain(further()).flat_map(in_both_modes) {
        for (what, command) in user_commands() {
            let mut world = before.clone();
            if let Ok(events) = world.user(&command) {
                record(&before, what, &events, &mut moves);
            }
        }
        for (what, command) in runtime_commands(&before) {
            let mut world = before.clone();
            if let Ok(events) = world.runtime(&command) {
                record(&before, what, &events, &mut moves);
            }
        }
        let open =
            before.state.core.running_turns().flat_map(|(_, turn)| turn.open_calls()).map(|open| open.call);
        for call in open.collect::<Vec<_>>() {
            let deadline = before.now + 1_000;
            let commands = [
                ("goal_update completed", complete_goal(call)),
                ("goal_update blocked", stage_block(call)),
                ("goal_wait", wait_goal(call, domain::Condition::Time, deadline)),
                ("goal_propose", propose(call, goal_id(60), "More")),
            ];
            for (what, command) in commands {
                let mut world = before.clone();
                if let Ok(events) = world.agent(&command) {
                    record(&before, what, &events, &mut moves);
                }
            }
        }
    }
    moves
}

#[test]
fn g1_commands_move_a_goal_as_the_matrix_says_and_no_other_way() {
    let moves = observed();
    for ((from, to, mover), by) in &moves {
        assert!(may_move(*from, *to, *mover), "{from} → {to} by {}: {by:?}", mover.name());
    }
    let line = |((from, to, mover), by): (&(GoalState, GoalState, Mover), &BTreeSet<&str>)| {
        let by: Vec<_> = by.iter().copied().collect();
        format!("{from} → {to} by {}: {}", mover.name(), by.join(", "))
    };
    let lines: Vec<_> = moves.iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    proposed → active by user: goal accept
    proposed → paused by user: goal accept
    proposed → cancelled by user: goal cancel, goal decline, goal set, goal set --replace
    active → paused by user: enter plan, goal pause, interrupt
    active → paused by runtime: ask, end the turn, fail the turn, record an uncertain result, recover a command, recover the turn
    active → blocked by runtime: end the turn, fail the turn
    active → budget_limited by user: goal budget
    active → budget_limited by runtime: end the turn, fail the turn, record a response, recover the turn, renew the lease
    active → completed by user: goal complete, goal complete --force
    active → completed by agent: goal_update completed
    active → cancelled by user: goal cancel, goal set --replace
    paused → active by user: allow, answer, deny, goal resume, input with resume, start work
    paused → paused by user: allow, answer, deny, goal pause, goal resume, input with resume
    paused → paused by runtime: record an uncertain result, recover a command
    paused → blocked by user: deny
    paused → budget_limited by user: answer, deny, goal resume, input with resume, start work
    paused → completed by user: goal complete, goal complete --force
    paused → cancelled by user: goal cancel, goal set --replace
    blocked → active by user: goal resume, input with resume
    blocked → paused by user: goal resume, input with resume
    blocked → budget_limited by user: goal resume, input with resume
    blocked → completed by user: goal complete, goal complete --force
    blocked → cancelled by user: goal cancel, goal set --replace
    budget_limited → active by user: goal budget
    budget_limited → paused by user: goal budget
    budget_limited → completed by user: goal complete, goal complete --force
    budget_limited → cancelled by user: goal cancel, goal set --replace
    ");
}

/// What a person's answer or Start Work causes is recorded under that person, what an agent stages under the runtime that
/// counts it, and a Goal that was only proposed has used nothing.
#[test]
fn g1_cells_that_no_command_takes() {
    let moves = observed();
    let mut missing = Vec::new();
    for from in GoalState::ALL {
        for to in GoalState::ALL {
            for mover in Mover::ALL {
                if may_move(from, to, mover) && !moves.contains_key(&(from, to, mover)) {
                    missing.push(format!("{from} → {to} by {}", mover.name()));
                }
            }
        }
    }
    insta::assert_snapshot!(missing.join("\n"), @r"
        proposed → budget_limited by user
        active → blocked by user
        active → blocked by agent
        paused → active by runtime
        paused → blocked by runtime
        paused → budget_limited by runtime
        ");
}
