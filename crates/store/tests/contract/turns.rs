//! Turns as tests drive them, up to the calls of their model.

use domain::{
    CallOutcome, CallRef, CapabilitySet, CommandTitle, Effect, Event, EventBody, Evidence, Fingerprint,
    GoalId, ModelCall, SessionId, TokenUsage, TurnNumber, TurnOutcome,
};
use policy::{AgentCommand, CallGrant, Command, Jitter, Permission, RuntimeCommand};
use store::{Ask, Committed, ExecuteError, Store};

use crate::site::{admit_turn, by_runtime, owner, run};

/// A grant for tools that need nothing, under these permission rules.
pub(crate) fn grant(permission: Permission) -> CallGrant {
    let nothing = CapabilitySet::of(&[]);
    CallGrant { requires: nothing, grant: nothing, tool_is_allowed: true, permission }
}

/// Sends what the model of the running turn wants.
pub(crate) async fn call(
    store: &Store,
    id: SessionId,
    command: AgentCommand,
) -> Result<Committed, ExecuteError> {
    let decide = move |state: &_, facts: &_| policy::decide(state, Command::Agent(&command), facts);
    store.execute(id, Ask::default(), decide).await
}

/// Asks the model, which answers with this many calls.
pub(crate) async fn ask_model(store: &Store, id: SessionId, turn: TurnNumber, calls: u32) {
    run(store, id, RuntimeCommand::BeginRequest { turn, estimated_input: 10 }).await.unwrap();
    let call = |index| ModelCall { tool: "tool".to_owned(), arguments: format!("{{\"at\":{index}}}") };
    let (calls, usage) = ((0..calls).map(call).collect(), TokenUsage::default());
    run(store, id, RuntimeCommand::RecordResponse { turn, text: "hm".to_owned(), calls, usage })
        .await
        .unwrap();
}

/// Starts the turn that is due; its model answers with this many calls, the first of which is returned.
pub(crate) async fn start_turn(store: &Store, id: SessionId, calls: u32) -> CallRef {
    let turn = run(store, id, admit_turn()).await.unwrap().state.core.last_turn;
    ask_model(store, id, turn, calls).await;
    CallRef { turn, request: 1, index: 0 }
}

/// Admits a call that only looks.
pub(crate) async fn admit_look(store: &Store, id: SessionId, of: CallRef) {
    let admit = AgentCommand::AdmitCall { call: of, grant: grant(Permission::Allow), effect: Effect::Read };
    call(store, id, admit).await.unwrap();
}

/// Finishes an admitted call that ran as `ran`, asking whether that is new for the Goal.
pub(crate) async fn finish(
    store: &Store,
    id: SessionId,
    of: CallRef,
    (goal, ran): (GoalId, Fingerprint),
) -> Committed {
    let finish = RuntimeCommand::FinishCall {
        call: of,
        outcome: CallOutcome::Succeeded,
        result: "seen".to_owned(),
        full_output: None,
        ran: Some(ran),
    };
    let ask = Ask { evidence: Some((goal, ran)), ..Ask::default() };
    store.execute(id, ask, by_runtime(finish)).await.unwrap()
}

/// What the events say about progress.
pub(crate) fn evidence_in(events: &[Event]) -> Option<Evidence> {
    events.iter().find_map(|event| match &event.body {
        EventBody::CallFinished { evidence, .. } => *evidence,
        _ => None,
    })
}

/// Starts a background command that a sandbox confines, by this call.
pub(crate) async fn start_command(store: &Store, id: SessionId, by: CallRef) -> Committed {
    let start = AgentCommand::StartCommand {
        call: by,
        grant: grant(Permission::Allow),
        effect: Effect::Command { confined: true },
        title: CommandTitle::parse("cargo build").unwrap(),
        owner: owner(),
        ran: Fingerprint::default(),
    };
    call(store, id, start).await.unwrap()
}

/// Has the model answer without calls, and ends the turn.
pub(crate) async fn end_turn(store: &Store, id: SessionId, turn: TurnNumber) -> Committed {
    ask_model(store, id, turn, 0).await;
    let (outcome, jitter) = (TurnOutcome::Completed, Jitter::default());
    run(store, id, RuntimeCommand::EndTurn { turn, outcome, report: None, jitter }).await.unwrap()
}
