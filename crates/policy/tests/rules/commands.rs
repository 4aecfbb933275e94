//! Commands about proposals, requests, waits and background commands, as tests send them.

use domain::{
    Answer, CallOutcome, CallRef, Capability, CapabilitySet, CommandId, Condition, Effect, Fingerprint,
    GoalId, InputText, JobTitle, Question, RequestId, Timestamp, TurnNumber, TurnOutcome, Wait,
};
use policy::{
    AgentCommand, BudgetEdit, CallGrant, NewJob, NewRequest, Permission, RuntimeCommand, UserCommand,
};
use testkit::{objective, remark};

use super::world::{World, end, grant, owner, respond, spent};

/// A grant of everything for a tool that needs these and a person's leave.
pub(crate) fn asking(requires: &[Capability]) -> CallGrant {
    CallGrant { permission: Permission::Ask { because: "rule 1".to_owned() }, ..grant(requires) }
}

pub(crate) fn forbidding(requires: &[Capability]) -> CallGrant {
    CallGrant { permission: Permission::Deny { because: "rule 2".to_owned() }, ..grant(requires) }
}

/// Delegates to an agent that may do what any may.
pub(crate) fn start_job(call: CallRef, is_background: bool) -> AgentCommand {
    let job = NewJob {
        agent: "deep".parse().unwrap(),
        role_grant: CapabilitySet::of(&Capability::ALL),
        title: JobTitle::parse("look into it").unwrap(),
        text: InputText::parse("Look into it.").unwrap(),
        is_background,
        confinement: None,
        ran: Fingerprint::default(),
    };
    AgentCommand::StartJob { call, grant: grant(&[Capability::Delegate]), job }
}

pub(crate) fn question() -> NewRequest {
    NewRequest::Input { question: Question::parse("Which port?").unwrap(), options: Vec::new() }
}

pub(crate) fn ask(call: CallRef) -> RuntimeCommand {
    RuntimeCommand::Ask { call, grant: grant(&[Capability::AskHuman]), asked: question() }
}

/// Asks for leave to run a call that needs the network.
pub(crate) fn ask_leave(call: CallRef) -> RuntimeCommand {
    let subject = Question::parse("GET example.org").unwrap();
    RuntimeCommand::Ask {
        call,
        grant: asking(&[Capability::Network]),
        asked: NewRequest::Permission { subject },
    }
}

pub(crate) fn text(words: &str) -> Answer {
    Answer::Text { text: InputText::parse(words).unwrap() }
}

pub(crate) const fn deny() -> Answer {
    Answer::Deny { reason: None }
}

pub(crate) const fn answer(request: u32, answer: Answer) -> UserCommand {
    UserCommand::AnswerRequest { request: RequestId(request), answer }
}

pub(crate) fn propose(call: CallRef, goal_id: GoalId, words: &str) -> AgentCommand {
    AgentCommand::ProposeGoal {
        call,
        grant: grant(&[Capability::UpdateGoal]),
        goal_id,
        objective: objective(words),
        criteria: None,
        budgets: domain::Budgets::default(),
    }
}

pub(crate) fn stage_block(call: CallRef) -> AgentCommand {
    AgentCommand::StageBlock { call, grant: grant(&[Capability::UpdateGoal]), reason: remark("no key") }
}

pub(crate) fn wait_goal(call: CallRef, condition: Condition, deadline: i64) -> AgentCommand {
    let wait = Wait { condition, deadline: Timestamp(deadline), note: None, is_met: false };
    AgentCommand::WaitGoal {
        call,
        grant: grant(&[Capability::UpdateGoal]),
        wait,
        ran: domain::Fingerprint::default(),
    }
}

pub(crate) fn start_command(call: CallRef, effect: Effect) -> AgentCommand {
    AgentCommand::StartCommand {
        call,
        grant: grant(&[Capability::RunCommand]),
        effect,
        title: domain::CommandTitle::parse("make all").unwrap(),
        owner: owner(1),
        ran: domain::Fingerprint::default(),
    }
}

pub(crate) fn end_command(command: u32, outcome: CallOutcome) -> RuntimeCommand {
    let (command, result) = (CommandId(command), "the last lines".to_owned());
    RuntimeCommand::EndCommand { command, outcome, result, full_output: None }
}

pub(crate) const fn accept() -> UserCommand {
    UserCommand::AcceptGoal { expected_revision: None }
}

pub(crate) fn more_tokens(tokens: u64) -> UserCommand {
    UserCommand::SetBudgets {
        budgets: BudgetEdit { tokens: tokens.try_into().ok(), ..BudgetEdit::default() },
    }
}

impl World {
    /// The one call of a new request of the running turn.
    pub(crate) fn one_call(&mut self, tool: &str) -> CallRef {
        let turn = self.running().number;
        self.call(turn, &[tool])[0]
    }

    /// Starts the turn that is due, and has it call this tool.
    pub(crate) fn start_with(&mut self, tool: &str) -> CallRef {
        self.start();
        self.one_call(tool)
    }

    /// A last answer of the running turn, and its end.
    pub(crate) fn conclude(&mut self) {
        let turn = self.running().number;
        self.answer(turn, 100);
    }

    /// A turn that asks this and waits.
    pub(crate) fn asked(&mut self, asks: impl Fn(CallRef) -> RuntimeCommand) -> CallRef {
        let call = self.start_with("tool");
        self.runtime(&asks(call)).unwrap();
        call
    }

    /// Has the running turn start a background command in the sandbox.
    pub(crate) fn background(&mut self) -> u32 {
        self.background_with(Effect::Command { confined: true })
    }

    pub(crate) fn background_with(&mut self, effect: Effect) -> u32 {
        let call = self.one_call("shell");
        self.agent(&start_command(call, effect)).unwrap();
        self.state.core.last_command.0
    }

    /// Has the running turn delegate, and gives the job's turn.
    pub(crate) fn delegate(&mut self, is_background: bool) -> TurnNumber {
        let call = self.one_call("task");
        self.agent(&start_job(call, is_background)).unwrap();
        self.state.core.last_turn
    }

    /// A turn that sets this wait and ends.
    pub(crate) fn wait_for(&mut self, condition: Condition, deadline: i64) {
        let call = self.start_with("goal_wait");
        self.agent(&wait_goal(call, condition, deadline)).unwrap();
        self.conclude();
    }

    /// A turn of one request that runs a call not made before, with these arguments.
    pub(crate) fn new_call_turn(&mut self, arguments: &str) {
        let turn = self.start();
        self.request(turn);
        let RuntimeCommand::RecordResponse { text, mut calls, usage, .. } =
            respond(turn, &["shell"], spent(100))
        else {
            panic!()
        };
        arguments.clone_into(&mut calls[0].arguments);
        self.runtime(&RuntimeCommand::RecordResponse { turn, text, calls, usage }).unwrap();
        let call = CallRef { turn, request: self.running().request, index: 0 };
        self.run_call(call, Effect::Command { confined: true }, "0");
        self.answer(turn, 100);
    }

    /// A turn that declares the Goal blocked.
    pub(crate) fn blocked_turn(&mut self) {
        let call = self.start_with("goal_update");
        self.agent(&stage_block(call)).unwrap();
        self.conclude();
    }

    /// Ends the running turn as its worker does when it has to go.
    pub(crate) fn shut_down(&mut self) {
        let turn = self.running().number;
        let reason = domain::StopReason::Shutdown;
        self.runtime(&end(turn, TurnOutcome::Stopped { reason })).unwrap();
    }

    /// How many turns ended a wait.
    pub(crate) fn waits_ended(&self) -> usize {
        let ends = |event: &&domain::Event| {
            matches!(event.body, domain::EventBody::TurnStarted { wait_over: Some(_), .. })
        };
        self.events.iter().filter(ends).count()
    }

    /// The kinds of the rows that wait, in order.
    pub(crate) fn row_kinds(&self) -> Vec<&'static str> {
        self.state.core.lanes.values().flat_map(|slot| &slot.inbox).map(|row| row.kind.name()).collect()
    }
}

/// The fingerprint of the call that [`World::call`] makes of a tool.
pub(crate) fn fingerprint(tool: &str) -> Fingerprint {
    Fingerprint::of_call(tool, "{}")
}
