//! Random histories: what a person, models and workers may do in any order, with time passing in between.

use std::collections::BTreeMap;

use domain::{
    CallOutcome, CallRef, Capability, Digest, Effect, FailureKind, LaneId, Revision, TurnNumber, TurnOutcome,
    TurnPhase,
};
use policy::{AgentCommand, Jitter, PlanUpdate, Rejection, RuntimeCommand, UserCommand};
use proptest::prelude::*;
use testkit::{goal_id, remark};

use super::turn::writes_of;
use super::world::{
    World, admit, begin, budgets, complete_goal, end, failure, finish_call, goal_set, grant, owner,
    refuse_call, respond, spent, start_work, submit,
};

/// One thing that happens. What it refers to, such as the running turn, is found when it is played.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Pass(i64),
    Submit,
    EnterPlan,
    StartWork {
        with_prompt: bool,
    },
    SelectAgent(&'static str),
    SetGoal {
        tokens: u64,
        turns: u32,
        replace: bool,
    },
    PauseGoal,
    ResumeGoal,
    CancelGoal,
    CompleteGoal,
    Interrupt,
    Plan(PlanAct),
    /// Whatever brings the session on: admits, asks, answers, deals with a call, ends.
    Step(Step),
    Renew {
        owner: u32,
    },
    Recover {
        by_dead_owner: bool,
        file_is_written: bool,
    },
    /// A command that names an older turn.
    Late {
        back: u64,
        write: usize,
    },
}

/// What a step uses when it comes to it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    owner: u32,
    calls: usize,
    tokens: u64,
    deal: Deal,
    fails: Option<FailureKind>,
}

impl Step {
    /// The same step with another plan, if a plan is what it deals with.
    pub(crate) fn with_plan(&self, plan: PlanAct) -> Self {
        let deal = match &self.deal {
            Deal::Plan(_) => Deal::Plan(plan),
            other => other.clone(),
        };
        Self { deal, ..self.clone() }
    }
}

/// What is done with the first call without a result.
#[derive(Debug, Clone)]
enum Deal {
    Run(Kind),
    Leave(Kind),
    Refuse,
    Plan(PlanAct),
    CompleteGoal,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Read,
    Write,
    Command,
    External,
}

/// A plan command, with more or less luck about the revision and the ids.
#[derive(Debug, Clone)]
pub(crate) enum PlanAct {
    Update { snapshot: domain::Snapshot, guess: Guess, keeps: bool, linked: bool },
    Close { guess: Guess },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Guess {
    None,
    Current,
    Wrong,
}

fn kinds() -> impl Strategy<Value = Kind> {
    proptest::sample::select(vec![Kind::Read, Kind::Write, Kind::Command, Kind::External])
}

pub(crate) fn plan_acts() -> impl Strategy<Value = PlanAct> {
    let guess = || prop_oneof![6 => Just(Guess::Current), 2 => Just(Guess::None), 1 => Just(Guess::Wrong)];
    prop_oneof![
        6 => (testkit::snapshots(), guess(), any::<bool>(), any::<bool>()).prop_map(
            |(snapshot, guess, keeps, linked)| PlanAct::Update { snapshot, guess, keeps, linked }
        ),
        1 => guess().prop_map(|guess| PlanAct::Close { guess }),
    ]
}

fn deals() -> impl Strategy<Value = Deal> {
    prop_oneof![
        4 => kinds().prop_map(Deal::Run),
        1 => kinds().prop_map(Deal::Leave),
        2 => Just(Deal::Refuse),
        3 => plan_acts().prop_map(Deal::Plan),
        1 => Just(Deal::CompleteGoal),
    ]
}

fn step_values() -> impl Strategy<Value = Step> {
    let fails = proptest::option::weighted(0.15, proptest::sample::select(FailureKind::ALL.to_vec()));
    (1..3_u32, 0..3_usize, 0..400_u64, deals(), fails).prop_map(|(owner, calls, tokens, deal, fails)| Step {
        owner,
        calls,
        tokens,
        deal,
        fails,
    })
}

pub(crate) fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        24 => step_values().prop_map(Act::Step),
        4 => prop_oneof![Just(1), Just(2_000), Just(15_000), Just(400_000)].prop_map(Act::Pass),
        4 => Just(Act::Submit),
        1 => Just(Act::EnterPlan),
        2 => any::<bool>().prop_map(|with_prompt| Act::StartWork { with_prompt }),
        1 => prop_oneof![Just("build"), Just("deep")].prop_map(Act::SelectAgent),
        3 => (1..3_000_u64, 1..8_u32, any::<bool>())
            .prop_map(|(tokens, turns, replace)| Act::SetGoal { tokens, turns, replace }),
        1 => Just(Act::PauseGoal),
        3 => Just(Act::ResumeGoal),
        1 => prop_oneof![3 => Just(Act::CancelGoal), 1 => Just(Act::CompleteGoal)],
        1 => Just(Act::Interrupt),
        3 => plan_acts().prop_map(Act::Plan),
        1 => (1..3_u32).prop_map(|owner| Act::Renew { owner }),
        2 => any::<(bool, bool)>().prop_map(|(by_dead_owner, file_is_written)| Act::Recover {
            by_dead_owner,
            file_is_written
        }),
        1 => (0..4_u64, 0..12_usize).prop_map(|(back, write)| Act::Late { back, write }),
    ]
}

pub(crate) fn histories() -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(acts(), 1..80)
}

type Outcome = Result<Vec<domain::Event>, Rejection>;

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
        Act::Submit => world.user(&submit("go on")),
        Act::EnterPlan => world.user(&UserCommand::EnterPlan),
        Act::StartWork { with_prompt } => world.user(&start_work(None, with_prompt.then_some("do it"))),
        Act::SelectAgent(agent) => world.user(&UserCommand::SelectAgent { agent: agent.parse().unwrap() }),
        Act::SetGoal { tokens, turns, replace } => {
            let id = goal_id(world.next_fresh());
            world.user(&goal_set(id, budgets(*tokens, *turns), *replace))
        }
        Act::PauseGoal => world.user(&UserCommand::PauseGoal),
        Act::ResumeGoal => world.user(&UserCommand::ResumeGoal),
        Act::CancelGoal => world.user(&UserCommand::CancelGoal),
        Act::CompleteGoal => world.user(&UserCommand::CompleteGoal { summary: None }),
        Act::Interrupt => world.user(&UserCommand::Interrupt),
        Act::Plan(plan) => {
            let command = match plan_command(world, plan) {
                PlanCommand::Update(update) => UserCommand::UpdatePlan { lane: LaneId::main(), update },
                PlanCommand::Close(revision) => UserCommand::ClosePlan {
                    lane: LaneId::main(),
                    expected_revision: Some(revision),
                    reason: remark("it does not apply"),
                },
            };
            world.user(&command)
        }
        Act::Step(step) => step_on(world, step),
        Act::Renew { owner: n } => {
            let turn = world.state.core.last_turn;
            world.runtime(&RuntimeCommand::RenewLease { turn, owner: owner(*n) })
        }
        Act::Recover { by_dead_owner, file_is_written } => recover(world, *by_dead_owner, *file_is_written),
        Act::Late { back, write } => {
            let turn = TurnNumber(world.state.core.last_turn.0.saturating_sub(*back));
            let mut writes = writes_of(world, turn);
            return writes.swap_remove(*write % writes.len()).code(world);
        }
    };
    result.err().map(|rejection| rejection.code)
}

fn recover(world: &mut World, by_dead_owner: bool, file_is_written: bool) -> Outcome {
    let turn = world.state.core.last_turn;
    let dead = world.lease.as_ref().filter(|_| by_dead_owner).map(|lease| lease.owner.clone());
    let open = world.state.core.running_turns().flat_map(|(_, turn)| turn.open_calls());
    let found: BTreeMap<_, _> =
        open.map(|open| (open.call, file_is_written.then_some(Digest([1; 32])))).collect();
    world.runtime(&RuntimeCommand::RecoverTurn { turn, dead, found })
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
    let Some((_, running)) = world.state.core.running_turns().next() else {
        return world.runtime(&admit(&owner(step.owner)));
    };
    let turn = running.number;
    match &running.phase {
        TurnPhase::Ready => match step.fails {
            Some(kind) => world.runtime(&end(turn, TurnOutcome::Failed { failure: failure(kind) })),
            None if running.stop.is_some() => world.runtime(&end(turn, TurnOutcome::Completed)),
            None => world.runtime(&begin(turn)),
        },
        TurnPhase::Requesting { attempt, .. } => match step.fails {
            Some(kind) if *attempt < 2 => {
                let failure = failure(kind);
                let jitter = Jitter::from_random(step.tokens);
                world.runtime(&RuntimeCommand::FailRequest { turn, failure, elapsed_ms: 0, jitter })
            }
            Some(kind) => world.runtime(&end(turn, TurnOutcome::Failed { failure: failure(kind) })),
            None => {
                let tools: Vec<_> = ["one", "two", "three"].into_iter().take(step.calls).collect();
                world.runtime(&respond(turn, &tools, spent(step.tokens)))
            }
        },
        TurnPhase::Failed { retry_at: Some(at), .. } => {
            world.now = world.now.max(at.0);
            world.runtime(&begin(turn))
        }
        TurnPhase::Failed { failure: kind, .. } => {
            world.runtime(&end(turn, TurnOutcome::Failed { failure: failure(*kind) }))
        }
        TurnPhase::Calling { .. } => {
            let open = running.open_calls();
            let admitted = open.iter().find(|call| call.effect.is_some()).map(|open| open.call);
            let requested = open.iter().find(|call| call.effect.is_none()).map(|open| open.call);
            match (admitted, requested) {
                (Some(call), _) => world.runtime(&finish_call(call, CallOutcome::Succeeded)),
                (None, Some(call)) => deal_with(world, call, &step.deal),
                (None, None) => Ok(Vec::new()),
            }
        }
        TurnPhase::Answered => world.runtime(&end(turn, TurnOutcome::Completed)),
    }
}

/// Runs a call or answers why not, as the turn loop does. A turn that was stopped ends instead.
fn deal_with(world: &mut World, call: CallRef, deal: &Deal) -> Outcome {
    if world.running().stop.is_some() {
        return world.runtime(&end(call.turn, TurnOutcome::Completed));
    }
    let effect = |kind: &Kind| match kind {
        Kind::Read => (Effect::Read, Capability::ReadWorkspace),
        Kind::Write => {
            let write = Effect::FileWrite { path: "a".to_owned(), before: None, after: Digest([1; 32]) };
            (write, Capability::WriteWorkspace)
        }
        Kind::Command => (Effect::Command { confined: true }, Capability::RunCommand),
        Kind::External => (Effect::External, Capability::Network),
    };
    let command = match deal {
        Deal::Run(kind) | Deal::Leave(kind) => {
            let (effect, capability) = effect(kind);
            AgentCommand::AdmitCall { call, grant: grant(&[capability]), effect }
        }
        Deal::Refuse => return world.runtime(&refuse_call(call, CallOutcome::Invalid)),
        Deal::CompleteGoal => complete_goal(call),
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
    };
    match (world.agent(&command), deal) {
        (Ok(_), Deal::Run(_)) => world.runtime(&finish_call(call, CallOutcome::Succeeded)),
        (Ok(events), _) => Ok(events),
        (Err(_), _) => world.runtime(&refuse_call(call, CallOutcome::Refused)),
    }
}
