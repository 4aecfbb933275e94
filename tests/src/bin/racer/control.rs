//! The controls: contestants without one of the protections, which a check must catch.
//!
//! They ask the same rules as everybody else, but about what they believe instead of about what is.

use std::sync::Arc;

use domain::{
    CallOutcome, CallRef, LaneId, SessionState, StepStatus, TokenUsage, TurnNumber, TurnOutcome, WorkerName,
};
use policy::{
    AgentCommand, Command, Facts, IdleReason, Jitter, LEASE_MS, Leases, NextAction, Owner, RuntimeCommand,
};
use runtime::Scope;
use store::{Ask, Committed, ExecuteError};

use crate::{FINISHED, LOOKED, Racer, SAID, admission, asked, effect, grant, refusal, say, told};

/// What a control takes for the state of the session, whatever it became meanwhile, with the leases.
#[derive(Clone)]
struct Belief {
    state: Arc<SessionState>,
    leases: Leases,
}

/// The steps of a plan that is contested.
const STEPS: &str = "count:in_progress compare";

/// What a control looks at before it admits a turn.
#[derive(Clone, Copy, PartialEq)]
enum Sight {
    /// At the state it read in an earlier transaction.
    Before,
    /// At the state of this transaction, but neither at the running turn nor at the lease.
    Blind,
}

impl Racer {
    /// Runs a control.
    pub(crate) async fn control(&self, role: &str) {
        match role {
            "admit-on-what-it-saw-before" => self.admit_without_lease(Sight::Before).await,
            "admit-without-the-lease" => self.admit_without_lease(Sight::Blind).await,
            "recover-on-what-it-saw-before" => self.recover_on_what_it_saw().await,
            "update-whatever-is-there" => self.update_whatever_is_there().await,
            "admit-and-never-look-again" => self.admit_and_never_look_again().await,
            "say-before-it-writes" => self.say_before_it_writes().await,
            "nag" => self.nag().await,
            other => panic!("no role `{other}`"),
        }
    }

    async fn head(&self) -> Belief {
        let head = self.store.head(self.session).await.unwrap().unwrap();
        Belief { state: head.state, leases: head.leases }
    }

    /// Lets the rules decide on what is believed, and commits that. Nothing believed is what is there.
    async fn execute(&self, command: Order, believed: Option<Belief>) -> Result<Committed, ExecuteError> {
        let decide = move |state: &SessionState, facts: &Facts| {
            let Belief { state: believed, leases } = believed
                .clone()
                .unwrap_or_else(|| Belief { state: Arc::new(state.clone()), leases: facts.leases.clone() });
            let mut believed = (*believed).clone();
            // The store takes a decision for the head it stands at and for no other, so even this one has to name it.
            (believed.core.head, believed.core.last_at) = (state.core.head, state.core.last_at);
            policy::decide(&believed, command.as_command(), &Facts { leases, ..facts.clone() })
        };
        self.store.execute(self.session, Ask::default(), decide).await
    }

    async fn admit_without_lease(&self, sight: Sight) {
        let mut seen = None;
        let mut turn = None;
        say("ready");
        while let Some(order) = told() {
            match order.as_str() {
                "look" => {
                    seen = Some(self.head().await);
                    say(LOOKED);
                }
                "go" => {
                    let belief = match sight {
                        Sight::Before => seen.take().unwrap(),
                        Sight::Blind => self.head().await,
                    };
                    match self.admit_as_if_alone(belief).await {
                        Ok(committed) => {
                            let number = committed.state.core.last_turn;
                            say(&admission(&committed.state, number));
                            turn = Some(number);
                        }
                        Err(refused) => say(&refusal(&refused)),
                    }
                }
                "finish" => {
                    if let Some(turn) = turn.take() {
                        self.finish_if_it_runs(turn).await;
                    }
                    say(FINISHED);
                }
                other => panic!("no order `{other}`"),
            }
        }
    }

    /// The rules are asked about a session in which nothing runs and nobody holds the lease.
    async fn admit_as_if_alone(&self, belief: Belief) -> Result<Committed, ExecuteError> {
        let mut state = (*belief.state).clone();
        state.core.lanes.values_mut().for_each(|lane| lane.running = None);
        let (lane, model) = (LaneId::main(), "racer".parse().unwrap());
        let (scope, max_requests) = (Scope::All, tests::MOST_REQUESTS);
        let admit =
            RuntimeCommand::AdmitTurn { lane, owner: owner(), model, scope, max_requests, confinement: None };
        let alone = Belief { state: Arc::new(state), leases: Leases::default() };
        self.execute(runtime(admit), Some(alone)).await
    }

    /// Ends a turn without the door. Of two turns in one lane only the last is known, so a refusal is no surprise.
    async fn finish_if_it_runs(&self, turn: TurnNumber) {
        let (call, usage) = (CallRef { turn, request: 1, index: 0 }, TokenUsage::default());
        let begin = || runtime(RuntimeCommand::BeginRequest { turn, estimated_input: 1 });
        let answer =
            |calls| runtime(RuntimeCommand::RecordResponse { turn, text: SAID.to_owned(), calls, usage });
        let (outcome, result) = (CallOutcome::Succeeded, "written".to_owned());
        let (full_output, ran) = (None, None);
        let orders = [
            begin(),
            answer(vec![asked()]),
            Order::Agent(AgentCommand::AdmitCall { call, grant: grant(), effect: effect(turn) }),
            runtime(RuntimeCommand::FinishCall { call, outcome, result, full_output, ran }),
            begin(),
            answer(Vec::new()),
            runtime(RuntimeCommand::EndTurn {
                turn,
                outcome: TurnOutcome::Completed,
                report: None,
                jitter: Jitter::default(),
            }),
        ];
        for order in orders {
            match self.execute(order, None).await {
                Ok(_) | Err(ExecuteError::Rejected(_)) => {}
                Err(ExecuteError::Fault(fault)) => panic!("{fault}"),
            }
        }
    }

    /// Recovers the turn that ran when it looked, also when somebody did meanwhile.
    async fn recover_on_what_it_saw(&self) {
        let mut seen = None;
        say("ready");
        while let Some(order) = told() {
            if order == "look" {
                seen = Some(self.head().await);
                say(LOOKED);
                continue;
            }
            let belief = seen.take().unwrap();
            let turn = belief.state.core.last_turn;
            let found = std::collections::BTreeMap::new();
            let recover = RuntimeCommand::RecoverTurn { turn, dead: None, found };
            let nobody = Belief { leases: Leases::default(), ..belief };
            self.execute(runtime(recover), Some(nobody)).await.unwrap();
            say("recovered");
        }
    }

    /// Replaces the plan that it saw, whatever it became meanwhile: told that it is too late, it sends the same again for
    /// the revision that is there. Says which revision it saw, and which it wrote.
    async fn update_whatever_is_there(&self) {
        let revision = async || self.head().await.state.current_revision(&LaneId::main());
        let mut seen = None;
        say("ready");
        while let Some(order) = told() {
            if order == "look" {
                seen = Some(revision().await);
                say(LOOKED);
                continue;
            }
            let seen = seen.take().unwrap();
            loop {
                let candidate = tests::revised(revision().await.0, STEPS);
                match self.user.update_plan(self.session, &candidate, None).await {
                    Ok(accepted) => break say(&format!("{seen} {}", accepted.revision)),
                    Err(ExecuteError::Rejected(_)) => {}
                    Err(ExecuteError::Fault(fault)) => panic!("{fault}"),
                }
            }
        }
    }

    /// Admits a turn as everybody does and then believes to have it, whatever happened meanwhile.
    async fn admit_and_never_look_again(&self) {
        say("ready");
        let mut belief = None;
        while let Some(order) = told() {
            match order.as_str() {
                "go" => {
                    let turn = self.admitted().await.unwrap();
                    belief = Some((self.head().await, turn.number()));
                    say(&admission(turn.state(), turn.number()));
                }
                "finish" => {
                    let (Belief { state, mut leases }, turn) = belief.take().unwrap();
                    if let Some(lease) = &mut leases.turn {
                        lease.expires_at = self.sessions.now().plus_ms(LEASE_MS);
                    }
                    let begin = RuntimeCommand::BeginRequest { turn, estimated_input: 1 };
                    let fenced = self.execute(runtime(begin), Some(Belief { state, leases })).await;
                    say(&fenced.map_or_else(|error| refusal(&error), |_| FINISHED.to_owned()));
                }
                other => panic!("no order `{other}`"),
            }
        }
    }

    /// Says that an input is durable before it is.
    async fn say_before_it_writes(&self) {
        say("ready");
        while let Some(text) = told() {
            say("accepted");
            self.submit(&text).await;
        }
    }

    /// Wakes the session whenever its plan has open steps and nothing goes on: the loop that no client may have.
    async fn nag(&self) {
        say("ready");
        let mut watch = self.store.watch();
        loop {
            let state = self.head().await.state;
            let plan = state.current_plan(&LaneId::main());
            let has_open_steps = plan.is_some_and(|plan| {
                plan.snapshot.steps().iter().any(|step| step.status != StepStatus::Completed)
            });
            let rests = self.sessions.next(self.session).await.unwrap()
                == NextAction::Idle { why: IdleReason::NothingToDo };
            if has_open_steps && rests {
                self.submit("The plan is not finished; go on.").await;
            }
            watch.changed().await;
        }
    }
}

/// A command with its authority.
enum Order {
    Agent(AgentCommand),
    Runtime(WorkerName, RuntimeCommand),
}

impl Order {
    const fn as_command(&self) -> Command<'_> {
        match self {
            Self::Agent(command) => Command::Agent(command),
            Self::Runtime(worker, command) => Command::Runtime(worker, command),
        }
    }
}

fn owner() -> Owner {
    let worker = "racer".parse().unwrap();
    Owner { worker, place: String::new(), pid: std::process::id(), started: 0 }
}

fn runtime(command: RuntimeCommand) -> Order {
    Order::Runtime("racer".parse().unwrap(), command)
}
