//! The commands that the actors of the model give: the product's own types, filled in.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use domain::{
    Budgets, CallOutcome, CallRef, Capability, CapabilitySet, CommandTitle, Condition, Digest, Effect,
    Failure, FailureKind, Fingerprint, InputText, ModelCall, Question, Remark, Timestamp, TokenUsage,
    TurnNumber, TurnOutcome, Wait, WaitedPath,
};
use policy::{
    AgentCommand, CallGrant, Command, Delivery, Jitter, NewRequest, Owner, Permission, PlanUpdate,
    RuntimeCommand, Scope, UserActor, UserCommand,
};

use crate::world::{Say, World, lane};

/// A command with its authority, owned.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    User(UserCommand),
    Agent(AgentCommand),
    Runtime(RuntimeCommand),
}

/// What the orders need of the process that gives them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    user: UserActor,
    worker: domain::WorkerName,
}

impl Default for Names {
    fn default() -> Self {
        Self { user: UserActor::for_client("cli".parse().unwrap()), worker: "worker".parse().unwrap() }
    }
}

impl Order {
    pub(crate) const fn as_command<'a>(&'a self, names: &'a Names) -> Command<'a> {
        match self {
            Self::User(command) => Command::User(&names.user, command),
            Self::Agent(command) => Command::Agent(command),
            Self::Runtime(command) => Command::Runtime(&names.worker, command),
        }
    }

    /// The turn that the order writes for. Recovery writes for none: it ends one that nobody drives.
    pub(crate) fn turn(&self) -> Option<TurnNumber> {
        self.clone().turn_mut().copied()
    }

    /// The same for another turn. The places of calls stay.
    pub(crate) fn for_turn(&self, number: TurnNumber) -> Self {
        let mut order = self.clone();
        if let Some(turn) = order.turn_mut() {
            *turn = number;
        }
        order
    }

    const fn turn_mut(&mut self) -> Option<&mut TurnNumber> {
        match self {
            Self::User(_) => None,
            Self::Agent(command) => match command {
                AgentCommand::AdmitCall { call, .. }
                | AgentCommand::UpdatePlan { call, .. }
                | AgentCommand::ClosePlan { call, .. }
                | AgentCommand::CompleteGoal { call, .. }
                | AgentCommand::StageBlock { call, .. }
                | AgentCommand::WaitGoal { call, .. }
                | AgentCommand::ProposeGoal { call, .. }
                | AgentCommand::StartCommand { call, .. }
                | AgentCommand::StopCommand { call, .. }
                | AgentCommand::StartJob { call, .. } => Some(&mut call.turn),
            },
            Self::Runtime(command) => match command {
                RuntimeCommand::RenewLease { turn, .. }
                | RuntimeCommand::BeginRequest { turn, .. }
                | RuntimeCommand::FailRequest { turn, .. }
                | RuntimeCommand::RecordResponse { turn, .. }
                | RuntimeCommand::EndTurn { turn, .. } => Some(turn),
                RuntimeCommand::RefuseCall { call, .. }
                | RuntimeCommand::FinishCall { call, .. }
                | RuntimeCommand::Ask { call, .. } => Some(&mut call.turn),
                RuntimeCommand::AdmitTurn { .. }
                | RuntimeCommand::RecoverTurn { .. }
                | RuntimeCommand::RenewCommand { .. }
                | RuntimeCommand::EndCommand { .. }
                | RuntimeCommand::RecoverCommand { .. }
                | RuntimeCommand::LookAtFile { .. } => None,
            },
        }
    }

    /// What kind of transition it is.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::User(command) => match command {
                UserCommand::OpenSession { .. } => "open_session",
                UserCommand::SelectAgent { .. } => "select_agent",
                UserCommand::EnterPlan => "enter_plan",
                UserCommand::StartWork { .. } => "start_work",
                UserCommand::UpdatePlan { .. } => "user_plan_update",
                UserCommand::ClosePlan { .. } => "user_plan_close",
                UserCommand::SetGoal { .. } => "goal_set",
                UserCommand::AcceptGoal { .. } => "goal_accept",
                UserCommand::DeclineGoal => "goal_decline",
                UserCommand::EditGoal { .. } => "goal_edit",
                UserCommand::SetBudgets { .. } => "goal_budget",
                UserCommand::PauseGoal => "goal_pause",
                UserCommand::ResumeGoal => "goal_resume",
                UserCommand::CancelGoal => "goal_cancel",
                UserCommand::CompleteGoal { .. } => "goal_complete",
                UserCommand::SubmitInput { .. } => "input",
                UserCommand::AnswerRequest { .. } => "answer",
                UserCommand::StopCommand { .. } => "command_stop",
                UserCommand::CancelJob { .. } => "job_cancel",
                UserCommand::Interrupt => "interrupt",
            },
            Self::Agent(_) => "call",
            Self::Runtime(command) => match command {
                RuntimeCommand::AdmitTurn { .. } => "turn_admitted",
                RuntimeCommand::RecoverTurn { .. } => "turn_recovered",
                RuntimeCommand::RenewLease { .. } => "lease_renewed",
                RuntimeCommand::BeginRequest { .. } => "request_begun",
                RuntimeCommand::FailRequest { .. } => "request_failed",
                RuntimeCommand::RecordResponse { .. } => "response_recorded",
                RuntimeCommand::RefuseCall { .. } => "call_refused",
                RuntimeCommand::FinishCall { .. } => "call_finished",
                RuntimeCommand::Ask { .. } => "person_asked",
                RuntimeCommand::RenewCommand { .. } => "command_renewed",
                RuntimeCommand::EndCommand { .. } => "command_ended",
                RuntimeCommand::RecoverCommand { .. } => "command_recovered",
                RuntimeCommand::LookAtFile { .. } => "file_looked_at",
                RuntimeCommand::EndTurn { .. } => "turn_ended",
            },
        }
    }
}

/// The content of the file that writes replace, before and after.
pub(crate) const BEFORE: Digest = Digest([1; 32]);
pub(crate) const AFTER: Digest = Digest([2; 32]);
/// How long a wait may last: longer than a lease, so that both orders of their ends are explored.
const WAIT_MS: i64 = policy::LEASE_MS + 5_000;

pub(crate) fn submit(delivery: Delivery, resume: bool) -> UserCommand {
    UserCommand::SubmitInput { lane: lane(), text: text("go"), delivery, resume }
}

pub(crate) fn text(text: &str) -> InputText {
    InputText::parse(text).unwrap()
}

pub(crate) fn remark() -> Remark {
    Remark::parse("because").unwrap()
}

/// The id of a Goal that was never used: events are numbered, so their numbers make names.
pub(crate) fn fresh_goal(world: &World) -> domain::GoalId {
    testkit::goal_id(1_000 + u128::from(world.session.core.head.0))
}

pub(crate) fn set_goal(world: &World, budgets: Budgets, replace: bool) -> UserCommand {
    let objective = testkit::objective("Reach it");
    UserCommand::SetGoal { goal_id: fresh_goal(world), objective, criteria: None, budgets, replace }
}

pub(crate) fn admit(owner: &Owner, max_requests: u32) -> RuntimeCommand {
    let max_requests = NonZeroU32::new(max_requests).unwrap();
    RuntimeCommand::AdmitTurn {
        lane: lane(),
        owner: owner.clone(),
        model: "m".parse().unwrap(),
        scope: Scope::All,
        max_requests,
        confinement: None,
    }
}

pub(crate) fn respond(turn: TurnNumber, say: Say, tokens: u64) -> RuntimeCommand {
    let call = |say: Say| ModelCall { tool: tool(say), arguments: "{}".to_owned() };
    let calls = say.calls().into_iter().map(call).collect();
    let usage = TokenUsage { input: tokens, ..TokenUsage::default() };
    RuntimeCommand::RecordResponse { turn, text: "said".to_owned(), calls, usage }
}

/// The name by which the log knows the tool of a call.
pub(crate) fn tool(say: Say) -> String {
    format!("{say:?}")
}

/// The call of a tool of this name.
pub(crate) fn say_of(tool: &str) -> Say {
    Say::CALLS.into_iter().find(|say| format!("{say:?}") == tool).unwrap_or(Say::Read)
}

pub(crate) fn fail(turn: TurnNumber, kind: FailureKind, elapsed_ms: i64) -> RuntimeCommand {
    RuntimeCommand::FailRequest { turn, failure: failure(kind), elapsed_ms, jitter: Jitter::default() }
}

pub(crate) fn failure(kind: FailureKind) -> Failure {
    // The provider says when to come back: at a moment that other waits have too, so that few distances arise.
    let retry_after_ms = Some(5_000).filter(|_| kind.class() == domain::FailureClass::Retry);
    Failure { retry_after_ms, ..Failure::new(kind, "as it happens") }
}

pub(crate) fn end(turn: TurnNumber, outcome: TurnOutcome) -> RuntimeCommand {
    RuntimeCommand::EndTurn { turn, outcome, report: None, jitter: Jitter::default() }
}

pub(crate) fn finish(call: CallRef, outcome: CallOutcome) -> RuntimeCommand {
    RuntimeCommand::FinishCall { call, outcome, result: "result".to_owned(), full_output: None, ran: None }
}

pub(crate) fn refuse(call: CallRef, outcome: CallOutcome) -> RuntimeCommand {
    RuntimeCommand::RefuseCall { call, outcome, result: "refused".to_owned() }
}

/// Recovery that finds of each file what is there: the new content of calls that happened, else the old.
pub(crate) fn recover(world: &World, turn: TurnNumber, can_look: bool, sees_death: bool) -> RuntimeCommand {
    let open = world.running().map(domain::RunningTurn::open_calls).unwrap_or_default();
    let writes = open.iter().filter(|open| matches!(open.effect, Some(Effect::FileWrite { .. })));
    let found = |call: CallRef| if world.notes.happened.contains(&call) { AFTER } else { BEFORE };
    let found: BTreeMap<_, _> =
        writes.filter(|_| can_look).map(|open| (open.call, Some(found(open.call)))).collect();
    let dead = world.leases.turn.as_ref().map(|lease| &lease.owner).filter(|_| sees_death).cloned();
    RuntimeCommand::RecoverTurn { turn, dead, found }
}

/// Everything that a turn can write, as one would that is over and does not know.
pub(crate) fn late_writes(turn: TurnNumber, cost: u64, owner: &Owner) -> Vec<Order> {
    let call = CallRef { turn, request: 1, index: 0 };
    let (grant, reason) = (grant(Say::Write), remark());
    let calls = [
        AgentCommand::AdmitCall { call, grant: grant.clone(), effect: Effect::Read },
        AgentCommand::CompleteGoal { call, grant: grant.clone(), summary: None },
        AgentCommand::StageBlock { call, grant, reason },
    ];
    let writes = [
        RuntimeCommand::RenewLease { turn, owner: owner.clone() },
        RuntimeCommand::BeginRequest { turn, estimated_input: cost },
        respond(turn, Say::Text, cost),
        fail(turn, FailureKind::Transport, 0),
        refuse(call, CallOutcome::Denied),
        finish(call, CallOutcome::Succeeded),
        ask(call, Say::Ask),
        end(turn, TurnOutcome::Completed),
        end(turn, TurnOutcome::Failed { failure: failure(FailureKind::Refused) }),
    ];
    calls.into_iter().map(Order::Agent).chain(writes.into_iter().map(Order::Runtime)).collect()
}

/// Asks for what a call of [`Say::Ask`] or [`Say::Guarded`] needs of a person.
pub(crate) fn ask(call: CallRef, say: Say) -> RuntimeCommand {
    let question = Question::parse("which?").unwrap();
    let asked = match say {
        Say::Guarded => NewRequest::Permission { subject: question },
        _ => NewRequest::Input { question, options: Vec::new() },
    };
    RuntimeCommand::Ask { call, grant: grant(say), asked }
}

/// The effect of a call that has one outside the log.
pub(crate) fn effect(say: Say) -> Option<Effect> {
    match say {
        Say::Read => Some(Effect::Read),
        Say::Write => Some(Effect::FileWrite { path: "f".to_owned(), before: Some(BEFORE), after: AFTER }),
        Say::Shell | Say::Background => Some(Effect::Command { confined: true }),
        Say::LooseBackground => Some(Effect::Command { confined: false }),
        Say::External | Say::Guarded => Some(Effect::External),
        Say::Text
        | Say::Plan
        | Say::Done
        | Say::Block
        | Say::Ask
        | Say::AskAndWrite
        | Say::WaitTime
        | Say::WaitCommand
        | Say::WaitFile
        | Say::WaitInbox
        | Say::StopBackground
        | Say::Propose => None,
    }
}

/// A grant of everything, for a tool that needs what the tool of this call needs.
pub(crate) fn grant(say: Say) -> CallGrant {
    let requires = match say {
        Say::Text | Say::Read => Capability::ReadWorkspace,
        Say::Write => Capability::WriteWorkspace,
        Say::Shell | Say::Background | Say::LooseBackground | Say::StopBackground => Capability::RunCommand,
        Say::External | Say::Guarded => Capability::Network,
        Say::Plan => Capability::UpdatePlan,
        Say::Done
        | Say::Block
        | Say::WaitTime
        | Say::WaitCommand
        | Say::WaitFile
        | Say::WaitInbox
        | Say::Propose => Capability::UpdateGoal,
        Say::Ask | Say::AskAndWrite => Capability::AskHuman,
    };
    let permission = match say {
        Say::Guarded => Permission::Ask { because: "a rule says so".to_owned() },
        _ => Permission::Allow,
    };
    let (requires, grant) = (CapabilitySet::of(&[requires]), CapabilitySet::of(&Capability::ALL));
    CallGrant { requires, grant, tool_is_allowed: true, permission }
}

/// The command of a call that the store or the session answers.
pub(crate) fn agent(world: &World, call: CallRef, say: Say, owner: &Owner) -> Option<AgentCommand> {
    let grant = grant(say);
    let last = world.session.core.last_command;
    Some(match say {
        Say::Read | Say::Write | Say::Shell | Say::External | Say::Guarded => {
            AgentCommand::AdmitCall { call, grant, effect: effect(say)? }
        }
        Say::Background | Say::LooseBackground => {
            let title = CommandTitle::parse("long").unwrap();
            AgentCommand::StartCommand {
                call,
                grant,
                effect: effect(say)?,
                title,
                owner: owner.clone(),
                ran: Fingerprint::default(),
            }
        }
        Say::StopBackground => AgentCommand::StopCommand { call, grant, command: last },
        Say::Plan => {
            let update = plan_update(world);
            AgentCommand::UpdatePlan { call, grant, update, ignored: Vec::new() }
        }
        Say::Done => AgentCommand::CompleteGoal { call, grant, summary: None },
        Say::Block => AgentCommand::StageBlock { call, grant, reason: remark() },
        Say::WaitTime => wait(world, call, grant, Condition::Time),
        Say::WaitCommand => wait(world, call, grant, Condition::Command { command: last }),
        Say::WaitFile => {
            let path = WaitedPath::parse("f").unwrap();
            wait(world, call, grant, Condition::File { path, baseline: Some(BEFORE) })
        }
        Say::WaitInbox => wait(world, call, grant, Condition::Inbox),
        Say::Propose => AgentCommand::ProposeGoal {
            call,
            grant,
            goal_id: fresh_goal(world),
            objective: testkit::objective("Reach that"),
            criteria: None,
            budgets: Budgets::default(),
        },
        Say::Text | Say::Ask | Say::AskAndWrite => return None,
    })
}

fn wait(world: &World, call: CallRef, grant: CallGrant, condition: Condition) -> AgentCommand {
    let deadline = Timestamp(world.now.0 + WAIT_MS);
    let wait = Wait { condition, deadline, note: None, is_met: false };
    AgentCommand::WaitGoal { call, grant, wait, ran: Fingerprint::default() }
}

/// The next of the plan's few shapes: begun, then half done, then complete; then a new plan.
pub(crate) fn plan_update(world: &World) -> PlanUpdate {
    let current = world.session.current_plan(&lane());
    let line = match current.map(domain::Plan::completed) {
        None => "a:in_progress b:pending",
        Some(0) => "a:completed b:in_progress",
        Some(_) => "a:completed b:completed",
    };
    PlanUpdate {
        snapshot: testkit::snapshot("Plan", line),
        expected_revision: current.map(|plan| plan.revision),
        goal_id: None,
        new_plan: testkit::plan_id(1),
    }
}
