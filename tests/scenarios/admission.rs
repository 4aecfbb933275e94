//! Between a response and the result of its call: what is prepared, admitted, and told to stop (M6, T6).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    CallOutcome, Capability, CapabilitySet, Code, Effect, EventBody, GoalStatus, ModelCall, PauseReason,
    SessionId, StopReason, TokenUsage, TurnOutcome,
};
use policy::{CallGrant, Permission};
use runtime::{
    CallSubject, CommandError, PreparedCall, Recovery, Scope, Step, Tool, ToolFault, ToolOutput, ToolSpec,
    UserDoor,
};
use serde_json::{Value, json};
use tests::{Gate, Shop, World, answering, call, story};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::stop::{outcome, spawn_step};

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A tool that lets something happen while it prepares a call, and then while it runs it.
struct Slow {
    spec: ToolSpec,
    preparing: Box<dyn Fn() -> Wait + Send + Sync>,
    effect: Effect,
    running: Gate,
}

impl Slow {
    fn tool(
        effect: Effect,
        running: &Gate,
        preparing: impl Fn() -> Wait + Send + Sync + 'static,
    ) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: "slow".into(),
            description: "Takes its time.".into(),
            input_schema: json!({ "type": "object", "additionalProperties": false }),
            requires: CapabilitySet::of(&[Capability::WriteWorkspace]),
        };
        Arc::new(Self { spec, preparing: Box::new(preparing), effect, running: running.clone() })
    }
}

#[async_trait]
impl Tool for Slow {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, _: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        (self.preparing)().await;
        Ok(Box::new(SlowCall { effect: self.effect.clone(), running: self.running.clone() }))
    }
}

struct SlowCall {
    effect: Effect,
    running: Gate,
}

#[async_trait]
impl PreparedCall for SlowCall {
    fn effect(&self) -> Effect {
        self.effect.clone()
    }

    /// Does not listen when it is told to stop.
    fn subject(&self) -> CallSubject {
        CallSubject::default()
    }

    async fn run(self: Box<Self>, _: CancellationToken) -> ToolOutput {
        self.running.pass().await;
        ToolOutput::ok("done")
    }
}

/// Lets the user act between the response of a Goal turn and the admission of its call.
async fn while_preparing<A, F>(act: A) -> (TurnOutcome, String)
where
    A: Fn(UserDoor, SessionId) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let user = world.user.clone();
    let tool = Slow::tool(Effect::External, &Gate::default(), move || Box::pin(act(user.clone(), session)));
    let shop = Shop::of(vec![tool]);
    let engine = world.engine_in(answering(|_, _| Ok(call("slow", &json!({})))), shop);
    let outcome = outcome(spawn_step(&engine, session)).await;
    let log = world.log(session).await;
    assert!(!log.iter().any(|event| matches!(event.body, EventBody::CallAdmitted { .. })), "{}", story(&log));
    (outcome, world.results(session).await[0].2.clone())
}

#[tokio::test]
async fn m6_t6_a_call_is_not_admitted_after_what_happened_since_its_response() {
    let not_run = "not run: the turn ended first".to_owned();
    let stopped = |reason| (TurnOutcome::Stopped { reason }, not_run.clone());
    let ended = while_preparing(|user: UserDoor, session| async move {
        user.enter_plan(session).await.unwrap();
    });
    assert_eq!(ended.await, stopped(StopReason::PlanMode));
    // Leaving Plan mode at once does not bring the turn back.
    let ended = while_preparing(|user: UserDoor, session| async move {
        user.enter_plan(session).await.unwrap();
        user.start_work(session, None, None).await.unwrap();
    });
    assert_eq!(ended.await, stopped(StopReason::PlanMode));
    let ended = while_preparing(|user: UserDoor, session| async move {
        user.interrupt(session).await.unwrap();
    });
    assert_eq!(ended.await, (TurnOutcome::Interrupted, not_run.clone()));
    let ended = while_preparing(|user: UserDoor, session| async move {
        user.pause_goal(session).await.unwrap();
        user.resume_goal(session).await.unwrap();
    });
    assert_eq!(ended.await, stopped(StopReason::GoalChanged));
}

#[tokio::test]
async fn m6_t6_admission_reads_the_turn_anew_in_its_transaction() {
    let world = World::new().await;
    for enter_plan in [true, false] {
        let session = world.session().await;
        world.goal(session, "reach it").await;
        let mut turn = world
            .sessions
            .admit(session, &"none".parse().unwrap(), runtime::Scope::All, tests::MOST_REQUESTS)
            .await
            .unwrap();
        turn.begin_request(10).await.unwrap();
        let asked = vec![ModelCall { tool: "write_file".to_owned(), arguments: "{}".to_owned() }];
        turn.record_response(String::new(), asked, TokenUsage::default()).await.unwrap();
        if enter_plan {
            world.user.enter_plan(session).await.unwrap();
        } else {
            world.user.cancel_goal(session).await.unwrap();
        }
        let needs = CapabilitySet::of(&[Capability::WriteWorkspace]);
        let grant =
            CallGrant { requires: needs, grant: needs, tool_is_allowed: true, permission: Permission::Allow };
        // What the turn knows is from before; the store knows better.
        let admitted = turn.admit_call(turn.call(0), grant, Effect::External).await;
        let Err(CommandError::Rejected(refused)) = admitted else { panic!("{admitted:?}") };
        assert_eq!(refused.code, Code::TurnStopping);
    }
}

#[tokio::test]
async fn g11_t6_an_interrupt_ends_a_turn_whose_call_is_still_being_prepared() {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let gate = Gate::default();
    let preparing = gate.clone();
    let tool = Slow::tool(Effect::External, &Gate::default(), move || {
        let preparing = preparing.clone();
        Box::pin(async move { preparing.pass().await })
    });
    let shop = Shop::of(vec![tool]);
    let engine = world.engine_in(answering(|_, _| Ok(call("slow", &json!({})))), shop);
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    world.user.interrupt(session).await.unwrap();
    // The gate stays shut: the turn does not wait for what changes nothing.
    assert_eq!(outcome(step).await, TurnOutcome::Interrupted);
    let results = world.results(session).await;
    assert_eq!(results[0].1, CallOutcome::NotRun);
}

/// Interrupts a call that does not listen, and tells how it was recorded and what became of the Goal.
async fn deaf(effect: Effect) -> (CallOutcome, GoalStatus) {
    let world = World::new().await;
    let session = world.session().await;
    world.goal(session, "reach it").await;
    let gate = Gate::default();
    let shop = Shop::of(vec![Slow::tool(effect, &gate, || Box::pin(async {}))]);
    let engine = world.engine_in(answering(|_, _| Ok(call("slow", &json!({})))), shop);
    let step = spawn_step(&engine, session);
    gate.arrival().await;
    world.user.interrupt(session).await.unwrap();
    assert_eq!(outcome(step).await, TurnOutcome::Interrupted);
    let (_, outcome, _) = world.results(session).await[0].clone();
    (outcome, world.view(session).await.goal.unwrap().status)
}

#[tokio::test]
async fn t6_a_call_that_does_not_end_when_told_to_is_uncertain_unless_it_only_reads() {
    let (read, external) = tokio::join!(deaf(Effect::Read), deaf(Effect::External));
    assert_eq!(read, (CallOutcome::Lost, GoalStatus::Paused(PauseReason::Interrupted)));
    let (outcome, status) = external;
    assert_eq!(outcome, CallOutcome::Uncertain);
    assert!(matches!(status, GoalStatus::Paused(PauseReason::UncertainSideEffect { .. })), "{status:?}");
}

/// Lets a worker sleep past its lease right after a commit with such an event, while another one recovers its turn. Gives
/// what its step came to, and fails if the call ran.
async fn asleep_after(is_it: fn(&EventBody) -> bool) -> Step {
    let world = World::new().await;
    let session = world.session().await;
    world.say(session, "go").await;
    let workspace = tools::Workspace::open(&world.workspace()).unwrap();
    let (other, clock) = (world.other_worker(), Arc::clone(&world.clock));
    world.tape.at_each(move |event| {
        if is_it(&event.body) {
            clock.advance_ms(policy::LEASE_MS);
            let recovered = other.recover(session, &workspace);
            let recovered = tokio::task::block_in_place(|| Handle::current().block_on(recovered));
            assert!(matches!(recovered, Ok(Recovery::Recovered { .. })), "{recovered:?}");
        }
    });
    let gate = Gate::default();
    let shop = Shop::of(vec![Slow::tool(Effect::External, &gate, || Box::pin(async {}))]);
    let engine = world.engine_in(answering(|_, _| Ok(call("slow", &json!({})))), shop);
    // The gate stays shut: a call that ran would wait there for ever.
    engine.step(session, Scope::All).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn t5_a_worker_that_slept_past_its_lease_does_nothing_more() {
    let events: [fn(&EventBody) -> bool; 3] = [
        |body| matches!(body, EventBody::ModelRequested { .. }),
        |body| matches!(body, EventBody::ModelResponded { .. }),
        |body| matches!(body, EventBody::CallAdmitted { .. }),
    ];
    for is_it in events {
        let step = asleep_after(is_it).await;
        assert!(matches!(step, Step::Busy { .. }), "{step:?}");
    }
}
