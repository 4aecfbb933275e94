//! Plays a random history on a [`World`].

use std::collections::BTreeMap;

use domain::{
    CallOutcome, CallRef, Capability, CommandId, Condition, Digest, Effect, Fingerprint, JobId, LaneId,
    ModelCall, OpenCall, RequestId, Revision, TurnNumber, TurnOutcome, TurnPhase, WaitedPath,
};
use policy::{
    AgentCommand, BudgetEdit, CriteriaEdit, Delivery, Jitter, PlanUpdate, Rejection, RuntimeCommand,
    UserCommand,
};
use testkit::{goal_id, objective, remark};

use super::commands::{
    accept, ask, ask_leave, deny, end_command, propose, stage_block, start_command, start_job, text,
    wait_goal,
};
use super::history::{Act, CommandAct, Deal, GoalAct, Guess, Kind, PlanAct, Reply, Step, WaitKind};
use super::turn::writes_of;
use super::world::{
    World, admit, begin, budgets, complete, complete_goal, end, failure, goal_set, grant, owner, refuse_call,
    respond, spent, start_work, submit,
};

type Outcome = Result<Vec<domain::Event>, Rejection>;

const OBJECTIVES: [&str; 3] = ["Reach it", "Reach half of it", "Reach more"];

/// Plays a history from an opened session.
pub(crate) fn played(history: &[Act]) -> World {
    let mut world = World::open();
    for act in history {
        play(&mut world, act);
    }
    world
}

/// Does one act. Whether it was accepted is part of what histories explore.
pub(crate) fn play(world: &mut World, act: &Act) -> Option<domain::Code> {
    let result = match act {
        Act::Pass(ms) => {
            world.now += ms;
            Ok(Vec::new())
        }
        Act::Late { back, write } => {
            let turn = TurnNumber(world.state.core.last_turn.0.saturating_sub(*back));
            let mut writes = writes_of(world, turn);
            return writes.swap_remove(*write % writes.len()).code(world);
        }
        Act::Step(step) => step_on(world, step),
        Act::Renew { owner: n } => {
            let turn = world.state.core.last_turn;
            world.runtime(&RuntimeCommand::RenewLease { turn, owner: owner(*n) })
        }
        Act::Recover { by_dead_owner, file_is_written } => recover(world, *by_dead_owner, *file_is_written),
        Act::Command { back, act } => command(world, *back, *act),
        Act::Look { is_changed } => {
            let goal_id = world.state.core.goal.as_ref().map_or(goal_id(0), |goal| goal.id);
            let found = is_changed.then_some(Digest([3; 32]));
            world.runtime(&RuntimeCommand::LookAtFile { goal_id, found })
        }
        Act::Submit { .. }
        | Act::EnterPlan
        | Act::StartWork { .. }
        | Act::SelectAgent(_)
        | Act::SetGoal { .. }
        | Act::Goal(_)
        | Act::Answer { .. }
        | Act::Interrupt
        | Act::CancelJob { .. }
        | Act::Plan(_) => {
            let command = user_command(world, act);
            world.user(&command)
        }
    };
    result.err().map(|rejection| rejection.code)
}

/// The command of a person's act.
fn user_command(world: &mut World, act: &Act) -> UserCommand {
    match act {
        Act::EnterPlan => UserCommand::EnterPlan,
        Act::StartWork { with_prompt } => start_work(None, with_prompt.then_some("do it")),
        Act::SelectAgent(agent) => UserCommand::SelectAgent { agent: agent.parse().unwrap() },
        Act::SetGoal { tokens, turns, active_ms, replace } => {
            let id = goal_id(world.next_fresh());
            let active_ms = (*active_ms).try_into().unwrap();
            goal_set(id, domain::Budgets { active_ms, ..budgets(*tokens, *turns) }, *replace)
        }
        Act::Goal(act) => goal_command(*act),
        Act::Answer { back, with } => UserCommand::AnswerRequest {
            request: RequestId(world.state.core.last_request.0.saturating_sub(*back)),
            answer: match with {
                Reply::Text => text("8080"),
                Reply::Allow => domain::Answer::Allow,
                Reply::Deny => deny(),
            },
        },
        Act::Plan(plan) => match plan_command(world, plan) {
            PlanCommand::Update(update) => UserCommand::UpdatePlan { lane: LaneId::main(), update },
            PlanCommand::Close(revision) => UserCommand::ClosePlan {
                lane: LaneId::main(),
                expected_revision: Some(revision),
                reason: remark("it does not apply"),
            },
        },
        Act::Submit { steers, resumes } => {
            let UserCommand::SubmitInput { lane, text, .. } = submit("go on") else { unreachable!() };
            let delivery = if *steers { Delivery::Steer } else { Delivery::Queue };
            UserCommand::SubmitInput { lane, text, delivery, resume: *resumes }
        }
        Act::CancelJob { back } => {
            UserCommand::CancelJob { job: JobId(world.state.core.last_job.0.saturating_sub(*back)) }
        }
        Act::Interrupt
        | Act::Pass(_)
        | Act::Step(_)
        | Act::Renew { .. }
        | Act::Recover { .. }
        | Act::Command { .. }
        | Act::Look { .. }
        | Act::Late { .. } => UserCommand::Interrupt,
    }
}

fn goal_command(act: GoalAct) -> UserCommand {
    match act {
        GoalAct::Accept => accept(),
        GoalAct::Decline => UserCommand::DeclineGoal,
        GoalAct::Edit(n) => UserCommand::EditGoal {
            objective: Some(objective(OBJECTIVES[n])),
            criteria: CriteriaEdit::Keep,
            expected_revision: None,
        },
        GoalAct::Budget { tokens } => {
            let turns = (tokens % 2 == 0).then_some(99.try_into().unwrap());
            let active_ms = 1_000_000.try_into().ok();
            UserCommand::SetBudgets {
                budgets: BudgetEdit { tokens: tokens.try_into().ok(), turns, active_ms },
            }
        }
        GoalAct::Pause => UserCommand::PauseGoal,
        GoalAct::Resume => UserCommand::ResumeGoal,
        GoalAct::Cancel => UserCommand::CancelGoal,
        GoalAct::Complete { force } => complete(force),
    }
}

fn recover(world: &mut World, by_dead_owner: bool, file_is_written: bool) -> Outcome {
    let first = world.state.core.running_turns().next().filter(|_| by_dead_owner);
    let turn = first.map_or(world.state.core.last_turn, |(_, turn)| turn.number);
    let dead = world.leases.turn.as_ref().filter(|_| by_dead_owner).map(|lease| lease.owner.clone());
    let open = world.state.core.running_turns().flat_map(|(_, turn)| turn.open_calls());
    let found: BTreeMap<_, _> =
        open.map(|open| (open.call, file_is_written.then_some(Digest([1; 32])))).collect();
    world.runtime(&RuntimeCommand::RecoverTurn { turn, dead, found })
}

fn last_command(world: &World, back: u32) -> CommandId {
    CommandId(world.state.core.last_command.0.saturating_sub(back))
}

fn command(world: &mut World, back: u32, act: CommandAct) -> Outcome {
    let command = last_command(world, back);
    match act {
        CommandAct::Renew { owner: n } => {
            world.runtime(&RuntimeCommand::RenewCommand { command, owner: owner(n) })
        }
        CommandAct::End(outcome) => world.runtime(&end_command(command.0, outcome)),
        CommandAct::Recover { by_dead_owner } => {
            let lease = world.leases.commands.get(&command).filter(|_| by_dead_owner);
            let dead = lease.map(|lease| lease.owner.clone());
            world.runtime(&RuntimeCommand::RecoverCommand { command, dead })
        }
        CommandAct::Stop => world.user(&UserCommand::StopCommand { command }),
    }
}

enum PlanCommand {
    Update(PlanUpdate),
    Close(Revision),
}

fn plan_command(world: &mut World, act: &PlanAct) -> PlanCommand {
    let current = world.state.current_revision(&LaneId::main());
    let revision = |guess: &Guess| match guess {
        Guess::None => None,
        Guess::Current => Some(current),
        Guess::Wrong => Some(current.next()),
    };
    match act {
        PlanAct::Close { guess } => PlanCommand::Close(revision(guess).unwrap_or_default()),
        PlanAct::Update { snapshot, guess, keeps, linked } => {
            let expected_revision = revision(guess);
            let snapshot = if *keeps { continued(world, snapshot) } else { snapshot.clone() };
            let goal_id = world.state.core.goal.as_ref().filter(|_| *linked).map(|goal| goal.id.to_string());
            let new_plan = world.next_plan_id();
            PlanCommand::Update(PlanUpdate { snapshot, expected_revision, goal_id, new_plan })
        }
    }
}

/// The snapshot with the current steps put in front, as a model that follows the rules would send it.
fn continued(world: &World, wanted: &domain::Snapshot) -> domain::Snapshot {
    let Some(current) = world.state.current_plan(&LaneId::main()) else { return wanted.clone() };
    let find = |id| wanted.steps().iter().find(|step| step.id == id);
    let kept = current.snapshot.steps().iter().map(|old| {
        let status = match find(old.id.clone()) {
            Some(new) if old.status != domain::StepStatus::Completed => new.status,
            Some(_) | None => old.status,
        };
        domain::Step { status, ..old.clone() }
    });
    let new = wanted.steps().iter().filter(|step| current.step(&step.id).is_none()).cloned();
    testkit::mended(wanted.title().as_str(), kept.chain(new))
}

fn step_on(world: &mut World, step: &Step) -> Outcome {
    let lanes: Vec<_> = world.state.core.lanes.iter().rev().collect();
    let (lane, slot) = lanes[step.lane % lanes.len()];
    let Some(running) = &slot.running else {
        let RuntimeCommand::AdmitTurn { owner, model, scope, max_requests, confinement, .. } =
            admit(&owner(step.owner))
        else {
            unreachable!()
        };
        let lane = lane.clone();
        return world.runtime(&RuntimeCommand::AdmitTurn {
            lane,
            owner,
            model,
            scope,
            max_requests,
            confinement,
        });
    };
    let turn = running.number;
    let fail = |kind| end(turn, TurnOutcome::Failed { failure: failure(kind) });
    match &running.phase {
        TurnPhase::Ready => match step.fails {
            Some(kind) => world.runtime(&fail(kind)),
            None if running.stop.is_some() => world.runtime(&end(turn, TurnOutcome::Completed)),
            // A turn that must not ask any more ends as the turn loop ends it.
            None => world.runtime(&begin(turn)).or_else(|rejection| match rejection.code {
                domain::Code::LimitExceeded => world.runtime(&fail(domain::FailureKind::Stuck)),
                domain::Code::TurnStopping => world.runtime(&end(turn, TurnOutcome::Completed)),
                _ => Err(rejection),
            }),
        },
        TurnPhase::Requesting { attempt, .. } => match step.fails {
            Some(kind) if *attempt < 2 => {
                let failure = failure(kind);
                let jitter = Jitter::from_random(step.tokens);
                world.runtime(&RuntimeCommand::FailRequest { turn, failure, elapsed_ms: 0, jitter })
            }
            Some(kind) => world.runtime(&fail(kind)),
            None => {
                let command = response(world, turn, step);
                world.runtime(&command)
            }
        },
        TurnPhase::Failed { retry_at: Some(at), .. } => {
            world.now = world.now.max(at.0);
            world.runtime(&begin(turn))
        }
        TurnPhase::Failed { failure: kind, .. } => world.runtime(&fail(*kind)),
        TurnPhase::Calling { .. } => {
            let open = running.open_calls();
            // The end of a job answers its call.
            let acts = |call: &&OpenCall<'_>| call.effect.is_some_and(|effect| *effect != Effect::Job);
            let admitted = open.iter().find(acts).map(|open| open.call);
            let requested = open.iter().find(|call| call.effect.is_none()).map(|open| open.call);
            match (admitted, requested) {
                (Some(call), _) => world.runtime(&finished(call, CallOutcome::Succeeded, None)),
                (None, Some(call)) => deal_with(world, call, &step.deal),
                (None, None) => Ok(Vec::new()),
            }
        }
        TurnPhase::Answered => world.runtime(&end(turn, TurnOutcome::Completed)),
    }
}

fn response(world: &World, turn: TurnNumber, step: &Step) -> RuntimeCommand {
    let request = world.turn(turn).request;
    let call = |tool: &str| ModelCall {
        tool: tool.to_owned(),
        arguments: if step.polls { "{}".to_owned() } else { format!("[{turn}, {request}]") },
    };
    let RuntimeCommand::RecordResponse { text, usage, .. } = respond(turn, &[], spent(step.tokens)) else {
        unreachable!()
    };
    let tools = if step.polls { ["one"; 3] } else { ["one", "two", "three"] };
    let calls = tools.into_iter().take(step.calls).map(call).collect();
    RuntimeCommand::RecordResponse { turn, text, calls, usage }
}

fn finished(call: CallRef, outcome: CallOutcome, ran: Option<u8>) -> RuntimeCommand {
    let ran = ran.map(|n| Fingerprint::of([n.to_string().as_str()]));
    RuntimeCommand::FinishCall { call, outcome, result: "result".to_owned(), full_output: None, ran }
}

fn effect(kind: Kind) -> (Effect, Capability) {
    match kind {
        Kind::Read => (Effect::Read, Capability::ReadWorkspace),
        Kind::Write => (super::world::write("a", 1), Capability::WriteWorkspace),
        Kind::Command => (Effect::Command { confined: true }, Capability::RunCommand),
        Kind::External => (Effect::External, Capability::Network),
    }
}

/// Runs a call or answers why not, as the turn loop does. A turn that was stopped ends instead.
fn deal_with(world: &mut World, call: CallRef, deal: &Deal) -> Outcome {
    if world.turn(call.turn).stop.is_some() {
        return world.runtime(&end(call.turn, TurnOutcome::Completed));
    }
    let result = match deal {
        Deal::Refuse => return world.runtime(&refuse_call(call, CallOutcome::Invalid)),
        Deal::Ask { leave } => world.runtime(&if *leave { ask_leave(call) } else { ask(call) }),
        Deal::Run { .. }
        | Deal::Leave(_)
        | Deal::Plan(_)
        | Deal::CompleteGoal
        | Deal::StageBlock
        | Deal::Propose(_)
        | Deal::Wait { .. }
        | Deal::Background(_)
        | Deal::Delegate { .. }
        | Deal::StopCommand { .. } => {
            let command = agent_command(world, call, deal);
            world.agent(&command)
        }
    };
    match (result, deal) {
        (Ok(_), Deal::Run { outcome, ran, .. }) => world.runtime(&finished(call, *outcome, *ran)),
        (Ok(events), _) => Ok(events),
        (Err(_), _) => world.runtime(&refuse_call(call, CallOutcome::Refused)),
    }
}

fn agent_command(world: &mut World, call: CallRef, deal: &Deal) -> AgentCommand {
    match deal {
        Deal::Run { kind, .. } | Deal::Leave(kind) => {
            let (effect, capability) = effect(*kind);
            AgentCommand::AdmitCall { call, grant: grant(&[capability]), effect }
        }
        Deal::Delegate { is_background } => start_job(call, *is_background),
        Deal::Background(kind) => start_command(call, effect(*kind).0),
        Deal::StopCommand { back } => {
            let command = last_command(world, *back);
            AgentCommand::StopCommand { call, grant: grant(&[Capability::RunCommand]), command }
        }
        Deal::StageBlock => stage_block(call),
        Deal::Propose(n) => propose(call, goal_id(world.next_fresh()), OBJECTIVES[*n]),
        Deal::Wait { kind, ahead_ms } => {
            let condition = match kind {
                WaitKind::Time => Condition::Time,
                WaitKind::Command { back } => Condition::Command { command: last_command(world, *back) },
                WaitKind::File => Condition::File { path: WaitedPath::parse("a").unwrap(), baseline: None },
                WaitKind::Inbox => Condition::Inbox,
            };
            wait_goal(call, condition, world.now + ahead_ms)
        }
        Deal::Plan(plan) => {
            let grant = grant(&[Capability::UpdatePlan]);
            match plan_command(world, plan) {
                PlanCommand::Update(update) => {
                    AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() }
                }
                PlanCommand::Close(expected_revision) => {
                    AgentCommand::ClosePlan { call, grant, expected_revision, reason: remark("obsolete") }
                }
            }
        }
        Deal::CompleteGoal | Deal::Refuse | Deal::Ask { .. } => complete_goal(call),
    }
}
