//! What may happen to a session, drawn before it is known what runs in it and what waits.

use std::num::{NonZeroU32, NonZeroU64};

use domain::{
    Answer, Asked, CallOutcome, CallRef, CommandId, CommandTitle, Condition, Core, Effect, Failure,
    FailureKind, Fingerprint, GoalId, GoalStatus, InputText, LaneId, ModelCall, Objective, OpenCall,
    PauseReason, PlanId, Question, Remark, RequestId, Revision, RunningTurn, SessionState, Timestamp,
    TokenUsage, TurnOutcome, TurnPhase, Wait, WaitedPath,
};
use policy::{
    AgentCommand, Awaited, BudgetEdit, ContinuationView, CriteriaEdit, Delivery, Jitter, NewRequest,
    NextAction, Permission, RuntimeCommand, UserCommand,
};
use proptest::prelude::*;
use store::{Ask, digest};

use crate::site::{admit_turn, keyed, owner, plan, set_goal};
use crate::turns::grant;

/// A command before it is known which turn runs.
#[derive(Debug, Clone)]
pub(super) enum Act {
    User(UserCommand),
    SetGoal {
        replace: bool,
    },
    /// Answers the last request that waits, or one that does not.
    Answer(Reply),
    /// What a turn does next when all goes well; its calls are used this way.
    Next {
        calls: u32,
        used: Use,
    },
    Admit,
    Renew,
    Begin,
    Fail,
    Respond {
        calls: u32,
    },
    Call(Use),
    End {
        failed: bool,
    },
    Recover,
    Command(Step),
    /// Looks at the file that is waited for.
    Look {
        changed: bool,
    },
    /// Time passes.
    Pass {
        ms: i64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    Fitting,
    Deny,
    ToNobody,
}

/// How a call that has no result is dealt with.
#[derive(Debug, Clone)]
pub(super) enum Use {
    Refuse,
    /// Admitted, and finished by the next use; `ran` makes it the same as other calls, or another one.
    Run {
        effect: Effect,
        ran: u8,
    },
    Ask(NewRequest),
    Start {
        effect: Effect,
    },
    Stop,
    Wait {
        condition: Condition,
        ms: i64,
    },
    Block,
    Propose,
    Complete,
    Plan {
        done: usize,
    },
}

/// What happens to the first background command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Renew,
    End { outcome: CallOutcome },
    Recover,
}

/// A command with its authority.
pub(super) enum Sent {
    User(UserCommand),
    Agent(AgentCommand),
    Runtime(RuntimeCommand),
}

fn remark() -> Remark {
    Remark::parse("because").unwrap()
}

fn objective(text: &str) -> Objective {
    Objective::parse(text).unwrap()
}

fn budgets() -> impl Strategy<Value = BudgetEdit> {
    let tokens = proptest::option::of(prop_oneof![Just(60_000), Just(5_000_000)]);
    let turns = proptest::option::of(prop_oneof![Just(2), Just(300)]);
    let active_ms = proptest::option::of(prop_oneof![Just(9_000), Just(90_000_000)]);
    (tokens, turns, active_ms).prop_map(|(tokens, turns, active_ms)| BudgetEdit {
        tokens: tokens.and_then(NonZeroU64::new),
        turns: turns.and_then(NonZeroU32::new),
        active_ms: active_ms.and_then(NonZeroU64::new),
    })
}

fn inputs() -> impl Strategy<Value = UserCommand> {
    let delivery = prop_oneof![Just(Delivery::Queue), Just(Delivery::Steer)];
    (delivery, any::<bool>()).prop_map(|(delivery, resume)| {
        let (lane, text) = (LaneId::main(), InputText::parse("go on").unwrap());
        UserCommand::SubmitInput { lane, text, delivery, resume }
    })
}

fn edits() -> impl Strategy<Value = UserCommand> {
    let text = proptest::option::of("[ab]".prop_map(|text| objective(&text)));
    let criteria = prop_oneof![
        Just(CriteriaEdit::Keep),
        Just(CriteriaEdit::Remove),
        Just(CriteriaEdit::Set(objective("it runs")))
    ];
    (text, criteria).prop_map(|(objective, criteria)| UserCommand::EditGoal {
        objective,
        criteria,
        expected_revision: None,
    })
}

fn start_work() -> UserCommand {
    UserCommand::StartWork { lane: LaneId::main(), expected_plan_revision: None, prompt: None }
}

fn user_commands() -> impl Strategy<Value = UserCommand> {
    let (lane, reason) = (LaneId::main(), remark());
    let close = UserCommand::ClosePlan { lane, expected_revision: None, reason };
    prop_oneof![
        4 => (0..4_usize, proptest::option::of(0..6_u64)).prop_map(|(done, expected)| plan(done, expected)),
        3 => inputs(),
        1 => Just(close),
        1 => Just(UserCommand::EnterPlan),
        2 => Just(start_work()),
        1 => Just(UserCommand::PauseGoal),
        3 => Just(UserCommand::ResumeGoal),
        1 => Just(UserCommand::CancelGoal),
        1 => any::<bool>().prop_map(|force| UserCommand::CompleteGoal { summary: None, force }),
        1 => Just(UserCommand::Interrupt),
        1 => edits(),
        2 => budgets().prop_map(|budgets| UserCommand::SetBudgets { budgets }),
        2 => Just(UserCommand::AcceptGoal { expected_revision: None }),
        1 => Just(UserCommand::DeclineGoal),
        1 => (0..4_u32).prop_map(|number| UserCommand::StopCommand { command: CommandId(number) }),
    ]
}

fn effects() -> impl Strategy<Value = Effect> {
    let write = Effect::FileWrite { path: "a".to_owned(), before: None, after: digest(b"new") };
    prop_oneof![
        2 => Just(Effect::Read),
        1 => Just(write),
        2 => any::<bool>().prop_map(|confined| Effect::Command { confined }),
        1 => Just(Effect::External),
    ]
}

fn conditions() -> impl Strategy<Value = Condition> {
    let path = WaitedPath::parse("out.txt").unwrap();
    prop_oneof![
        1 => Just(Condition::Time),
        2 => (1..4_u32).prop_map(|number| Condition::Command { command: CommandId(number) }),
        3 => Just(Condition::File { path, baseline: None }),
        1 => Just(Condition::Inbox),
    ]
}

fn uses() -> impl Strategy<Value = Use> {
    let question = || Question::parse("which one?").unwrap();
    let asked = prop_oneof![
        Just(NewRequest::Input { question: question(), options: Vec::new() }),
        Just(NewRequest::Permission { subject: question() })
    ];
    prop_oneof![
        2 => Just(Use::Refuse),
        6 => (effects(), 0..6_u8).prop_map(|(effect, ran)| Use::Run { effect, ran }),
        2 => asked.prop_map(Use::Ask),
        4 => effects().prop_map(|effect| Use::Start { effect }),
        1 => Just(Use::Stop),
        2 => (conditions(), 1..60_000_i64).prop_map(|(condition, ms)| Use::Wait { condition, ms }),
        2 => Just(Use::Block),
        1 => Just(Use::Propose),
        1 => Just(Use::Complete),
        1 => (0..4_usize).prop_map(|done| Use::Plan { done }),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![3 => Just(CallOutcome::Succeeded), 1 => Just(CallOutcome::Stopped)];
    prop_oneof![
        2 => Just(Step::Renew),
        2 => outcome.prop_map(|outcome| Step::End { outcome }),
        1 => Just(Step::Recover),
    ]
}

pub(super) fn acts() -> impl Strategy<Value = Act> {
    let replies = prop_oneof![6 => Just(Reply::Fitting), 3 => Just(Reply::Deny), 1 => Just(Reply::ToNobody)];
    prop_oneof![
        8 => user_commands().prop_map(Act::User),
        2 => any::<bool>().prop_map(|replace| Act::SetGoal { replace }),
        3 => replies.prop_map(Act::Answer),
        40 => (prop_oneof![Just(0_u32), 1..4_u32], uses()).prop_map(|(calls, used)| Act::Next { calls, used }),
        1 => Just(Act::Admit),
        1 => Just(Act::Renew),
        1 => Just(Act::Begin),
        2 => Just(Act::Fail),
        1 => (0..3_u32).prop_map(|calls| Act::Respond { calls }),
        1 => uses().prop_map(Act::Call),
        1 => any::<bool>().prop_map(|failed| Act::End { failed }),
        2 => Just(Act::Recover),
        3 => steps().prop_map(Act::Command),
        2 => any::<bool>().prop_map(|changed| Act::Look { changed }),
        3 => (0..20_000_i64).prop_map(|ms| Act::Pass { ms }),
    ]
}

/// The act that the running turn waits for; without one, what gets the session going.
fn next(calls: u32, used: &Use, core: &Core, now: Timestamp) -> Act {
    let Some((_, running)) = core.running_turns().next() else {
        let view = ContinuationView::of_lane(core, &LaneId::main());
        return match policy::next_action(&view, now) {
            NextAction::WaitFor { what: Awaited::Condition { wait } } => match wait.condition {
                Condition::File { .. } => Act::Look { changed: true },
                _ => Act::Command(Step::End { outcome: CallOutcome::Succeeded }),
            },
            NextAction::WaitFor { .. } => Act::Command(Step::Recover),
            NextAction::Idle { .. } => wake(core),
            _ => Act::Admit,
        };
    };
    let is_admitted = running.open_calls().iter().any(|open| open.effect.is_some());
    match &running.phase {
        _ if running.stop.is_some() && !is_admitted => Act::End { failed: false },
        TurnPhase::Ready => Act::Begin,
        TurnPhase::Requesting { .. } => Act::Respond { calls },
        TurnPhase::Calling { .. } => Act::Call(used.clone()),
        TurnPhase::Answered | TurnPhase::Failed { .. } => Act::End { failed: false },
    }
}

/// What a person does about a session that does nothing.
fn wake(core: &Core) -> Act {
    match core.goal.as_ref().map(|goal| &goal.status) {
        None | Some(GoalStatus::Completed | GoalStatus::Cancelled) => Act::SetGoal { replace: false },
        Some(GoalStatus::Proposed) => Act::User(UserCommand::AcceptGoal { expected_revision: None }),
        Some(GoalStatus::Paused(PauseReason::HumanInput { .. } | PauseReason::Permission { .. })) => {
            Act::Answer(Reply::Fitting)
        }
        Some(GoalStatus::Paused(PauseReason::PlanMode)) => Act::User(start_work()),
        Some(GoalStatus::BudgetLimited) => {
            let tokens = NonZeroU64::new(u64::MAX);
            Act::User(UserCommand::SetBudgets { budgets: BudgetEdit { tokens, ..BudgetEdit::default() } })
        }
        Some(GoalStatus::Active | GoalStatus::Paused(_) | GoalStatus::Blocked { .. }) => {
            Act::User(UserCommand::ResumeGoal)
        }
    }
}

/// The text that a command leaves behind, some of it the same as an earlier one.
fn output(number: usize) -> Vec<u8> {
    format!("output {}", number % 7).into_bytes()
}

/// What an act means on this state.
pub(super) fn resolve(
    act: &Act,
    number: usize,
    has_key: bool,
    state: &SessionState,
    now: Timestamp,
) -> (Ask, Sent) {
    let act = match act {
        Act::Next { calls, used } => next(*calls, used, &state.core, now),
        act => act.clone(),
    };
    let sent = match &act {
        Act::User(command) => Sent::User(user_command(command, number, state)),
        Act::SetGoal { replace: wanted } => {
            let mut set = set_goal(number as u128);
            if let UserCommand::SetGoal { replace, .. } = &mut set {
                *replace = *wanted;
            }
            Sent::User(set)
        }
        Act::Answer(reply) => Sent::User(answer(*reply, &state.core)),
        Act::Call(used) => call(used, number, state, now),
        act => Sent::Runtime(runtime_command(act, number, &state.core)),
    };
    let mut ask = if has_key { keyed(&format!("{number}"), "p") } else { Ask::default() };
    let running = state.core.running_turns().next().map(|(_, running)| running);
    match &sent {
        Sent::Runtime(RuntimeCommand::FinishCall { ran, full_output, .. }) => {
            let goal = running.and_then(|running| running.goal).map(|bound| bound.goal_id);
            ask.evidence = goal.zip(*ran);
            ask.blobs.extend(full_output.map(|_| output(number)));
        }
        Sent::Runtime(RuntimeCommand::EndCommand { .. }) => ask.blobs.push(output(number)),
        Sent::User(_) | Sent::Agent(_) | Sent::Runtime(_) => {}
    }
    (ask, sent)
}

fn user_command(command: &UserCommand, number: usize, state: &SessionState) -> UserCommand {
    let UserCommand::UpdatePlan { lane, update } = command else { return command.clone() };
    let mut update = update.clone();
    update.new_plan = PlanId::from_u128(number as u128);
    // Half of the revisions are right; of random ones hardly any would be.
    if update.expected_revision > Some(Revision(2)) {
        update.expected_revision = Some(state.current_revision(lane));
    }
    UserCommand::UpdatePlan { lane: lane.clone(), update }
}

fn answer(reply: Reply, core: &Core) -> UserCommand {
    let open = core.requests.last();
    let request = match reply {
        Reply::Fitting | Reply::Deny => open.map_or(core.last_request, |request| request.id),
        Reply::ToNobody => RequestId(core.last_request.0 + 1),
    };
    let answer = match (reply, open.map(|request| &request.asked)) {
        (Reply::Deny, _) => Answer::Deny { reason: None },
        (_, Some(Asked::Permission { .. })) => Answer::Allow,
        (_, _) => Answer::Text { text: InputText::parse("the first").unwrap() },
    };
    UserCommand::AnswerRequest { request, answer }
}

/// Deals with the first call that has no result, or with one that nobody made.
fn call(used: &Use, number: usize, state: &SessionState, now: Timestamp) -> Sent {
    let running = state.core.running_turns().next().map(|(_, running)| running);
    let open = running.and_then(|running| running.open_calls().into_iter().next());
    let turn = running.map_or(state.core.last_turn, |running| running.number);
    let of = open.map_or(CallRef { turn, request: 1, index: 0 }, |open| open.call);
    if let Some(OpenCall { effect: Some(_), .. }) = open {
        return Sent::Runtime(finish(used, of, number));
    }
    let allowed = grant(Permission::Allow);
    Sent::Agent(match used {
        Use::Refuse => {
            let (outcome, result) = (CallOutcome::Invalid, "no such tool".to_owned());
            return Sent::Runtime(RuntimeCommand::RefuseCall { call: of, outcome, result });
        }
        Use::Ask(asked) => {
            let grant = grant(Permission::Ask { because: "a rule".to_owned() });
            return Sent::Runtime(RuntimeCommand::Ask { call: of, grant, asked: asked.clone() });
        }
        Use::Run { effect, .. } => {
            AgentCommand::AdmitCall { call: of, grant: allowed, effect: effect.clone() }
        }
        Use::Start { effect } => AgentCommand::StartCommand {
            call: of,
            grant: allowed,
            effect: effect.clone(),
            title: CommandTitle::parse("cargo build").unwrap(),
            owner: owner(),
            ran: Fingerprint::default(),
        },
        Use::Stop => AgentCommand::StopCommand { call: of, grant: allowed, command: state.core.last_command },
        Use::Wait { condition, ms } => {
            let (condition, deadline) = (condition.clone(), now.plus_ms(*ms));
            let wait = Wait { condition, deadline, note: None, is_met: false };
            AgentCommand::WaitGoal { call: of, grant: allowed, wait, ran: Fingerprint::default() }
        }
        Use::Block => AgentCommand::StageBlock { call: of, grant: allowed, reason: remark() },
        Use::Propose => AgentCommand::ProposeGoal {
            call: of,
            grant: allowed,
            goal_id: GoalId::from_u128(number as u128),
            objective: objective("another thing"),
            criteria: None,
            budgets: domain::Budgets::default(),
        },
        Use::Complete => AgentCommand::CompleteGoal { call: of, grant: allowed, summary: None },
        Use::Plan { done } => {
            let lane = LaneId::main();
            let revision = Some(state.current_revision(&lane).0).filter(|revision| *revision > 0);
            let UserCommand::UpdatePlan { mut update, .. } = plan(*done, revision) else { unreachable!() };
            update.new_plan = PlanId::from_u128(number as u128);
            AgentCommand::UpdatePlan { call: of, grant: allowed, update, ignored: Vec::new() }
        }
    })
}

fn finish(used: &Use, call: CallRef, number: usize) -> RuntimeCommand {
    let ran = |what: &str| Some(Fingerprint::of(["tool", what, "0"]));
    let (outcome, ran) = match used {
        Use::Refuse => (CallOutcome::Uncertain, None),
        Use::Run { ran: what, .. } => (CallOutcome::Succeeded, ran(&what.to_string())),
        _ => (CallOutcome::Failed, ran("without success")),
    };
    let full_output = number.is_multiple_of(2).then(|| digest(&output(number)));
    RuntimeCommand::FinishCall { call, outcome, result: "seen".to_owned(), full_output, ran }
}

fn runtime_command(act: &Act, number: usize, core: &Core) -> RuntimeCommand {
    let running: Option<&RunningTurn> = core.running_turns().next().map(|(_, running)| running);
    let turn = running.map_or(core.last_turn, |running| running.number);
    match act {
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
        Act::End { failed } => RuntimeCommand::EndTurn {
            turn,
            report: None,
            outcome: if *failed {
                TurnOutcome::Failed { failure: Failure::new(FailureKind::Transport, "reset") }
            } else {
                TurnOutcome::Completed
            },
            jitter: Jitter::default(),
        },
        Act::Recover => RuntimeCommand::RecoverTurn { turn, dead: None, found: [].into() },
        Act::Command(step) => background(*step, number, core),
        Act::Look { changed } => RuntimeCommand::LookAtFile {
            goal_id: core.goal.as_ref().map_or(GoalId::from_u128(0), |goal| goal.id),
            found: changed.then(|| digest(b"it is there")),
        },
        Act::User(_)
        | Act::SetGoal { .. }
        | Act::Answer(_)
        | Act::Next { .. }
        | Act::Call(_)
        | Act::Pass { .. } => unreachable!("it is not the runtime's"),
    }
}

fn background(step: Step, number: usize, core: &Core) -> RuntimeCommand {
    let command = core.commands.first().map_or(core.last_command, |command| command.id);
    match step {
        Step::Renew => RuntimeCommand::RenewCommand { command, owner: owner() },
        Step::End { outcome } => RuntimeCommand::EndCommand {
            command,
            outcome,
            result: "its end".to_owned(),
            full_output: Some(digest(&output(number))),
        },
        Step::Recover => RuntimeCommand::RecoverCommand { command, dead: None },
    }
}
