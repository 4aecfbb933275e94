//! A session without a store: decisions are kept in memory, and every one is checked against the log.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Budgets, CallOutcome, CallRef, Capability, CapabilitySet, Code, Digest, Effect, Event, EventBody,
    Evidence, Failure, FailureKind, Fingerprint, Goal, GoalId, GoalStatus, LaneId, ModelCall, PlanId,
    REQUESTS_PER_TURN, Seq, SessionState, Timestamp, TokenUsage, TurnNumber, TurnOutcome, TurnPhase,
    Violation,
};
use policy::{
    AgentCommand, CallGrant, Command, ContinuationView, Delivery, Facts, Jitter, Leases, NextAction, Owner,
    Permission, PlanUpdate, Rejection, RuntimeCommand, UserActor, UserCommand, decide, next_action,
};
use testkit::{goal_id, objective, plan_id, session_id};

use super::invariants;

/// A session and what a store would keep for it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: SessionState,
    pub(crate) events: Vec<Event>,
    pub(crate) leases: Leases,
    pub(crate) wake_at: Option<Timestamp>,
    /// What the clock shows; it may be set back.
    pub(crate) now: i64,
    goals: BTreeSet<GoalId>,
    /// The calls that were made before, by Goal.
    made: BTreeSet<(GoalId, Fingerprint)>,
    fresh: u128,
    plans: u128,
    replayed: SessionState,
    user: UserActor,
}

/// When every test begins.
pub(crate) const START: i64 = 1_000_000;

impl World {
    /// A session that was just opened.
    pub(crate) fn open() -> Self {
        let mut world = Self::unopened();
        let command =
            UserCommand::OpenSession { workspace: "/w".to_owned(), agent: "build".parse().unwrap() };
        world.user(&command).unwrap();
        world
    }

    /// A session that does not exist.
    pub(crate) fn unopened() -> Self {
        Self {
            state: SessionState::before_first(session_id(1)),
            events: Vec::new(),
            leases: Leases::default(),
            wake_at: None,
            now: START,
            goals: BTreeSet::new(),
            made: BTreeSet::new(),
            fresh: 0,
            plans: 0,
            replayed: SessionState::before_first(session_id(1)),
            user: UserActor::for_client("cli".parse().unwrap()),
        }
    }

    pub(crate) fn user(&mut self, command: &UserCommand) -> Result<Vec<Event>, Rejection> {
        let user = self.user.clone();
        self.run(Command::User(&user, command))
    }

    pub(crate) fn agent(&mut self, command: &AgentCommand) -> Result<Vec<Event>, Rejection> {
        self.run(Command::Agent(command))
    }

    pub(crate) fn runtime(&mut self, command: &RuntimeCommand) -> Result<Vec<Event>, Rejection> {
        self.run(Command::Runtime(&"worker-1".parse().unwrap(), command))
    }

    /// What the store would read for this command.
    pub(crate) fn facts(&self, command: Command<'_>) -> Facts {
        let of_update = |update: &PlanUpdate| update.goal_id.as_ref().and_then(|id| id.trim().parse().ok());
        let named: Option<GoalId> = match command {
            Command::User(_, UserCommand::SetGoal { goal_id, .. })
            | Command::Agent(AgentCommand::ProposeGoal { goal_id, .. }) => Some(*goal_id),
            Command::User(_, UserCommand::UpdatePlan { update, .. })
            | Command::Agent(AgentCommand::UpdatePlan { update, .. }) => of_update(update),
            _ => None,
        };
        Facts {
            now: Timestamp(self.now).max(self.state.core.last_at),
            leases: self.leases.clone(),
            goal_is_known: named.is_some_and(|id| self.goals.contains(&id)),
            evidence_is_new: self.evidence_is_new(command),
        }
    }

    fn evidence_is_new(&self, command: Command<'_>) -> bool {
        let Command::Runtime(_, RuntimeCommand::FinishCall { call, ran: Some(ran), .. }) = command else {
            return false;
        };
        let bound = self.state.running(call.turn).and_then(|(_, running)| running.goal);
        bound.is_some_and(|bound| !self.made.contains(&(bound.goal_id, *ran)))
    }

    /// Decides, checks and keeps.
    pub(crate) fn run(&mut self, command: Command<'_>) -> Result<Vec<Event>, Rejection> {
        let facts = self.facts(command);
        let decision = decide(&self.state, command, &facts);
        assert_eq!(decision, decide(&self.state, command, &facts), "the same again");
        let decision = decision.inspect_err(check_rejection)?;
        assert_eq!(decision.session(), self.state.id);
        assert_eq!(decision.based_on(), self.state.core.head);
        for (event, seq) in decision.events().iter().zip(self.state.core.head.0 + 1..) {
            assert_eq!(event.seq, Seq(seq), "no gap in the log");
            assert!(event.at >= self.state.core.last_at, "time does not run backwards");
            let body = stored_and_read(&event.body);
            self.replayed.apply(&Event { body, ..event.clone() });
            self.index(&event.body);
        }
        self.events.extend_from_slice(decision.events());
        assert_eq!(*decision.state(), self.replayed, "state is the fold of what was stored");
        invariants::check(&decision.state().core, decision.leases(), decision.wake_at(), facts.now);
        self.leases = decision.leases().clone();
        self.wake_at = decision.wake_at();
        let (events, state) = decision.into_parts();
        self.state = state;
        Ok(events)
    }

    /// What the store keeps beside the state, each once.
    fn index(&mut self, body: &EventBody) {
        match body {
            EventBody::GoalOpened { goal_id, .. } => {
                assert!(self.goals.insert(*goal_id), "a Goal id is used once");
            }
            EventBody::CallFinished { evidence: Some(Evidence::NewCall { goal_id, call }), .. } => {
                assert!(self.made.insert((*goal_id, *call)), "a call is new once");
            }
            _ => {}
        }
    }

    // What a person does.

    pub(crate) fn submit(&mut self, text: &str) -> Vec<Event> {
        self.user(&submit(text)).unwrap()
    }

    pub(crate) fn set_goal(&mut self) -> GoalId {
        self.set_goal_with(Budgets::default())
    }

    pub(crate) fn set_goal_with(&mut self, budgets: Budgets) -> GoalId {
        let id = goal_id(self.next_fresh());
        self.user(&goal_set(id, budgets, false)).unwrap();
        id
    }

    pub(crate) fn update_plan(&mut self, line: &str, expected: Option<u64>) -> Result<Vec<Event>, Rejection> {
        let update = self.plan_update(line, expected);
        self.user(&UserCommand::UpdatePlan { lane: LaneId::main(), update })
    }

    pub(crate) fn plan_update(&mut self, line: &str, expected: Option<u64>) -> PlanUpdate {
        PlanUpdate {
            snapshot: testkit::snapshot("Plan", line),
            expected_revision: expected.map(domain::Revision),
            goal_id: None,
            new_plan: self.next_plan_id(),
        }
    }

    pub(crate) fn next_fresh(&mut self) -> u128 {
        self.fresh += 1;
        self.fresh
    }

    /// Plans are numbered apart, so that they leave the other ids alone.
    pub(crate) fn next_plan_id(&mut self) -> PlanId {
        self.plans += 1;
        plan_id(self.plans)
    }

    // What a worker does.

    /// Admits the turn that is due.
    pub(crate) fn start(&mut self) -> TurnNumber {
        self.runtime(&admit(&owner(1))).unwrap();
        self.state.core.last_turn
    }

    /// Begins a request, or the next attempt at one that failed, when its wait is over.
    pub(crate) fn request(&mut self, turn: TurnNumber) {
        if let TurnPhase::Failed { retry_at: Some(at), .. } = self.turn(turn).phase {
            self.now = self.now.max(at.0);
        }
        self.runtime(&begin(turn)).unwrap();
    }

    /// Begins a request and records a response with calls of these tools, at 100 tokens.
    pub(crate) fn call(&mut self, turn: TurnNumber, tools: &[&str]) -> Vec<CallRef> {
        self.request(turn);
        self.runtime(&respond(turn, tools, spent(100))).unwrap();
        let request = self.turn(turn).request;
        (0..).zip(tools).map(|(index, _)| CallRef { turn, request, index }).collect()
    }

    /// Admits and finishes a call that ran, with this exit status.
    pub(crate) fn run_call(&mut self, call: CallRef, effect: Effect, exit: &str) {
        let open = self.turn(call.turn).open_calls();
        let asked = open.iter().find(|open| open.call == call).unwrap().fingerprint;
        self.admit_call(call, effect);
        self.runtime(&RuntimeCommand::FinishCall {
            call,
            outcome: CallOutcome::Succeeded,
            result: format!("exit {exit} at {}", self.now),
            full_output: None,
            ran: Some(asked.with(exit)),
        })
        .unwrap();
    }

    /// Admits what is due, changes a file and answers, at 200 tokens: a turn with something to show.
    pub(crate) fn working_turn(&mut self) {
        let turn = self.start();
        let call = self.call(turn, &["write_file"])[0];
        self.admit_call(call, write("src/a", 1));
        self.runtime(&finish_call(call, CallOutcome::Succeeded)).unwrap();
        self.answer(turn, 100);
    }

    /// Admits a call with every capability.
    pub(crate) fn admit_call(&mut self, call: CallRef, effect: Effect) {
        self.agent(&AgentCommand::AdmitCall { call, grant: grant(&[]), effect }).unwrap();
    }

    /// One request without calls at this price, and the end of the turn.
    pub(crate) fn answer(&mut self, turn: TurnNumber, tokens: u64) {
        self.request(turn);
        self.runtime(&respond(turn, &[], spent(tokens))).unwrap();
        self.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    }

    /// Admits what is due and answers it.
    pub(crate) fn whole_turn(&mut self) -> TurnNumber {
        let turn = self.start();
        self.answer(turn, 100);
        turn
    }

    /// One request that fails this way after all attempts, and the end of the turn.
    pub(crate) fn fail(&mut self, turn: TurnNumber, failure: Failure) -> Vec<Event> {
        if self.running().phase == TurnPhase::Ready {
            self.request(turn);
        }
        self.runtime(&end(turn, TurnOutcome::Failed { failure })).unwrap()
    }

    /// Lets the lease run out, and recovers the turn of an owner that was seen dead.
    pub(crate) fn lose(&mut self, turn: TurnNumber) -> Vec<Event> {
        self.lose_with(turn, BTreeMap::new())
    }

    pub(crate) fn lose_with(
        &mut self,
        turn: TurnNumber,
        found: BTreeMap<CallRef, Option<Digest>>,
    ) -> Vec<Event> {
        self.now += policy::LEASE_MS;
        let dead = self.leases.turn.as_ref().map(|lease| lease.owner.clone());
        self.runtime(&RuntimeCommand::RecoverTurn { turn, dead, found }).unwrap()
    }

    // What can be seen.

    pub(crate) fn next(&self) -> NextAction {
        self.next_at(self.now)
    }

    pub(crate) fn next_at(&self, now: i64) -> NextAction {
        next_action(&ContinuationView::of_lane(&self.state.core, &LaneId::main()), Timestamp(now))
    }

    pub(crate) fn goal(&self) -> &Goal {
        self.state.core.goal.as_ref().unwrap()
    }

    pub(crate) fn status(&self) -> &GoalStatus {
        &self.goal().status
    }

    /// The running turn of the main lane.
    pub(crate) fn running(&self) -> &domain::RunningTurn {
        self.state.core.lanes[&LaneId::main()].running.as_ref().unwrap()
    }

    /// A running turn of any lane.
    pub(crate) fn turn(&self, turn: TurnNumber) -> &domain::RunningTurn {
        self.state.running(turn).unwrap().1
    }

    pub(crate) fn inbox(&self) -> Vec<u64> {
        self.state.core.lanes[&LaneId::main()].inbox.iter().map(|row| row.id.0.0).collect()
    }
}

/// `id:status` of every step, or how the lane has no current plan.
pub(crate) fn steps(state: &SessionState) -> String {
    let Some(plan) = state.current_plan(&LaneId::main()) else { return "none".to_owned() };
    let steps = plan.snapshot.steps().iter().map(|step| format!("{}:{}", step.id, step.status));
    steps.collect::<Vec<_>>().join(" ")
}

/// `RULE code: steps` of every violation.
pub(crate) fn in_short(rejection: &Rejection) -> Vec<String> {
    let line = |violation: &Violation| {
        let steps = violation.steps.join(", ");
        let separator = if steps.is_empty() { "" } else { ": " };
        format!("{} {}{separator}{steps}", violation.rule, violation.code)
    };
    rejection.violations.iter().map(line).collect()
}

pub(crate) fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.body.kind()).collect()
}

/// The code of a refusal that had to come.
pub(crate) fn code(result: Result<Vec<Event>, Rejection>) -> Code {
    result.expect_err("had to be refused").code
}

fn check_rejection(rejection: &Rejection) {
    assert!(!rejection.violations.is_empty(), "a refusal says why");
    assert_eq!(rejection.code, rejection.violations[0].code);
    for violation in &rejection.violations {
        assert!(!violation.message.is_empty() && !violation.rule.is_empty());
    }
}

/// What a store would give back for this event.
fn stored_and_read(body: &EventBody) -> EventBody {
    let json = serde_json::to_value(body).unwrap();
    assert_eq!(json["kind"], body.kind());
    let read = serde_json::from_value::<EventBody>(json).unwrap();
    assert_eq!(read, *body, "what is stored reads back");
    read
}

pub(crate) fn owner(n: u32) -> Owner {
    Owner { worker: format!("worker-{n}").parse().unwrap(), place: "boot".to_owned(), pid: n, started: 7 }
}

pub(crate) fn budgets(tokens: u64, turns: u32) -> Budgets {
    Budgets {
        tokens: tokens.try_into().unwrap(),
        turns: turns.try_into().unwrap(),
        active_ms: Budgets::default().active_ms,
    }
}

/// The default budgets with this much active time.
pub(crate) fn active_budget(active_ms: u64) -> Budgets {
    Budgets { active_ms: active_ms.try_into().unwrap(), ..Budgets::default() }
}

/// A write of a file that was not there.
pub(crate) fn write(path: &str, content: u8) -> Effect {
    Effect::FileWrite { path: path.to_owned(), before: None, after: Digest([content; 32]) }
}

pub(crate) fn spent(tokens: u64) -> TokenUsage {
    TokenUsage { input: tokens, ..TokenUsage::default() }
}

/// A grant of everything for a tool that needs these.
pub(crate) fn grant(requires: &[Capability]) -> CallGrant {
    let grant = CapabilitySet::of(&Capability::ALL);
    let requires = CapabilitySet::of(requires);
    CallGrant { requires, grant, tool_is_allowed: true, permission: Permission::Allow }
}

pub(crate) fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "as it happens")
}

pub(crate) fn submit(text: &str) -> UserCommand {
    let text = domain::InputText::parse(text).unwrap();
    UserCommand::SubmitInput { lane: LaneId::main(), text, delivery: Delivery::Queue, resume: false }
}

/// A word to the running turn.
pub(crate) fn steer(text: &str) -> UserCommand {
    let text = domain::InputText::parse(text).unwrap();
    UserCommand::SubmitInput { lane: LaneId::main(), text, delivery: Delivery::Steer, resume: false }
}

/// A prompt with which the Goal goes on.
pub(crate) fn submit_and_resume(text: &str) -> UserCommand {
    let text = domain::InputText::parse(text).unwrap();
    UserCommand::SubmitInput { lane: LaneId::main(), text, delivery: Delivery::Queue, resume: true }
}

pub(crate) fn complete(force: bool) -> UserCommand {
    UserCommand::CompleteGoal { summary: None, force }
}

pub(crate) fn start_work(expected: Option<u64>, prompt: Option<&str>) -> UserCommand {
    UserCommand::StartWork {
        lane: LaneId::main(),
        expected_plan_revision: expected.map(domain::Revision),
        prompt: prompt.map(|text| domain::InputText::parse(text).unwrap()),
    }
}

pub(crate) fn goal_set(goal_id: GoalId, budgets: Budgets, replace: bool) -> UserCommand {
    UserCommand::SetGoal { goal_id, objective: objective("Reach it"), criteria: None, budgets, replace }
}

pub(crate) fn admit(owner: &Owner) -> RuntimeCommand {
    RuntimeCommand::AdmitTurn {
        lane: LaneId::main(),
        owner: owner.clone(),
        model: "m".parse().unwrap(),
        scope: policy::Scope::All,
        max_requests: REQUESTS_PER_TURN.try_into().unwrap(),
        confinement: None,
    }
}

pub(crate) fn begin(turn: TurnNumber) -> RuntimeCommand {
    RuntimeCommand::BeginRequest { turn, estimated_input: 500 }
}

pub(crate) fn respond(turn: TurnNumber, tools: &[&str], usage: TokenUsage) -> RuntimeCommand {
    let call = |tool: &&str| ModelCall { tool: (*tool).to_owned(), arguments: "{}".to_owned() };
    let calls = tools.iter().map(call).collect();
    RuntimeCommand::RecordResponse { turn, text: "said".to_owned(), calls, usage }
}

pub(crate) fn finish_call(call: CallRef, outcome: CallOutcome) -> RuntimeCommand {
    RuntimeCommand::FinishCall { call, outcome, result: "result".to_owned(), full_output: None, ran: None }
}

pub(crate) fn refuse_call(call: CallRef, outcome: CallOutcome) -> RuntimeCommand {
    RuntimeCommand::RefuseCall { call, outcome, result: "refused".to_owned() }
}

pub(crate) fn end(turn: TurnNumber, outcome: TurnOutcome) -> RuntimeCommand {
    RuntimeCommand::EndTurn { turn, outcome, report: None, jitter: Jitter::default() }
}

pub(crate) fn complete_goal(call: CallRef) -> AgentCommand {
    AgentCommand::CompleteGoal { call, grant: grant(&[Capability::UpdateGoal]), summary: None }
}
