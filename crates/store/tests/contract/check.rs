//! The deep check: silent on what the store wrote, and clear about anything else.

use std::fmt::Write as _;

use domain::{CallOutcome, CallRef, CapabilitySet, Effect, ModelCall, SessionState, TokenUsage, TurnNumber};
use policy::{AgentCommand, CallGrant, Command, Facts, RuntimeCommand};
use store::{Ask, Store, digest};

use crate::site::{
    Site, admit_turn, by_runtime, by_user, keyed, on_each_engine, open_session, plan, run, send, session,
    set_goal, submit,
};

/// A session with a plan, a Goal, a running turn, a key and a blob.
async fn fill(store: &Store, number: u128) {
    let id = session(number);
    store.execute(id, keyed("open", "p"), by_user(open_session())).await.unwrap();
    send(store, id, set_goal(number + 100)).await.unwrap();
    send(store, id, plan(0, None)).await.unwrap();
    send(store, id, submit("go")).await.unwrap();
    run(store, id, admit_turn()).await.unwrap();
    let turn = TurnNumber(1);
    run(store, id, RuntimeCommand::BeginRequest { turn, estimated_input: 10 }).await.unwrap();
    let calls = vec![ModelCall { tool: "nothing".to_owned(), arguments: "{}".to_owned() }];
    let usage = TokenUsage::default();
    let response = RuntimeCommand::RecordResponse { turn, text: "hm".to_owned(), calls, usage };
    run(store, id, response).await.unwrap();
    let call = CallRef { turn, request: 1, index: 0 };
    let nothing = CapabilitySet::of(&[]);
    let grant = CallGrant { requires: nothing, grant: nothing, tool_is_allowed: true };
    let admit = AgentCommand::AdmitCall { call, grant, effect: Effect::Read };
    let admit =
        move |state: &SessionState, facts: &Facts| policy::decide(state, Command::Agent(&admit), facts);
    store.execute(id, Ask::default(), admit).await.unwrap();
    let output = format!("output {number}").into_bytes();
    let finish = RuntimeCommand::FinishCall {
        call,
        outcome: CallOutcome::Succeeded,
        result: "head and tail".to_owned(),
        full_output: Some(digest(&output)),
    };
    let ask = Ask { blobs: vec![output], ..Ask::default() };
    store.execute(id, ask, by_runtime(finish)).await.unwrap();
}

#[tokio::test]
async fn e1_a_whole_store_has_no_findings() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        for number in 1..=3 {
            fill(&store, number).await;
        }
        let mut steps = Vec::new();
        let findings = store.check(|progress| steps.push(progress.sessions)).await.unwrap();
        assert_eq!(findings, []);
        assert_eq!(steps, [0, 1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn e1_each_kind_of_damage_is_found() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let damages = [
            "DELETE FROM events WHERE session_id = ? AND seq = 4",
            "DELETE FROM events WHERE session_id = ? AND kind = 'call_finished'",
            "UPDATE events SET payload = '{}' WHERE session_id = ? AND seq = 5",
            "UPDATE events SET payload = json_set(payload, '$.objective', 'x') WHERE session_id = ? AND seq = 2",
            "UPDATE events SET actor = '{}' WHERE session_id = ? AND seq = 4",
            "UPDATE sessions SET core = json_set(core, '$.goal.continuations', 5) WHERE id = ?",
            "UPDATE sessions SET core = '{}' WHERE id = ?",
            "UPDATE sessions SET kinds = json_remove(kinds, '$[0]') WHERE id = ?",
            "UPDATE sessions SET lease = NULL WHERE id = ?",
            "UPDATE sessions SET wake_at = NULL WHERE id = ?",
            "UPDATE sessions SET wake_at = wake_at + 1 WHERE id = ?",
            "UPDATE sessions SET title = 'another' WHERE id = ?",
            "UPDATE sessions SET head_seq = head_seq - 1, core = json_set(core, '$.head', head_seq - 1) WHERE id = ?",
            "DELETE FROM plan_rows WHERE session_id = ?",
            "UPDATE plan_rows SET revision = 9 WHERE session_id = ?",
            "DELETE FROM goal_rows WHERE session_id = ?",
            "DELETE FROM command_keys WHERE session_id = ?",
            "UPDATE command_keys SET last_seq = 2 WHERE session_id = ?",
        ];
        let mut report = String::new();
        for number in 1..=damages.len() as u128 {
            fill(&store, number).await;
        }
        site.tamper("DROP TRIGGER events_are_append_only").await;
        for (number, damage) in (1..).zip(damages) {
            site.tamper(&damage.replace('?', &format!("'{}'", session(number)))).await;
        }
        site.tamper(&format!("DELETE FROM blobs WHERE digest = '{}'", digest(b"output 1"))).await;
        site.tamper(&format!("UPDATE blobs SET bytes = x'' WHERE digest = '{}'", digest(b"output 2"))).await;
        for finding in store.check(|_| {}).await.unwrap() {
            writeln!(report, "{finding}").unwrap();
        }
        insta::allow_duplicates!(insta::assert_snapshot!(report, @"
        session 00000000-0000-0000-0000-000000000001, event 4: the event is missing
        session 00000000-0000-0000-0000-000000000001: the blob 65dc68cb17e842dc89122cf636d5b04f2ced39011bc5886ba0a026da073194c5 that a call's result refers to is not there
        session 00000000-0000-0000-0000-000000000002, event 11: the log ends before its head, which is 11
        session 00000000-0000-0000-0000-000000000003, event 5: its payload does not decode as `turn_started`: missing field `turn` at line 1 column 35
        session 00000000-0000-0000-0000-000000000004: the stored state is not the fold of the log
        session 00000000-0000-0000-0000-000000000005, event 4: its actor does not decode: missing field `type` at line 1 column 2
        session 00000000-0000-0000-0000-000000000006: the stored state is not the fold of the log
        session 00000000-0000-0000-0000-000000000007: the state of its head does not decode: missing field `head` at line 1 column 2
        session 00000000-0000-0000-0000-000000000008: the list of kinds is not that of the log
        session 00000000-0000-0000-0000-000000000009: a turn runs without a lease
        session 00000000-0000-0000-0000-00000000000a: no wake-up is stored and one is due at 1800000015000 ms
        session 00000000-0000-0000-0000-00000000000b: a wake-up is stored for 1800000015001 ms and one is due at 1800000015000 ms
        session 00000000-0000-0000-0000-00000000000c: the columns that lists show are not those of the state
        session 00000000-0000-0000-0000-00000000000d, event 11: the log goes on after its head, which is 10
        session 00000000-0000-0000-0000-00000000000d: the stored state is not the fold of the log
        session 00000000-0000-0000-0000-00000000000d: the list of kinds is not that of the log
        session 00000000-0000-0000-0000-00000000000e, event 3: revision 1 of lane main (revised) stands only in the log or only in its index
        session 00000000-0000-0000-0000-00000000000f, event 3: revision 1 of lane main (revised) stands only in the log or only in its index
        session 00000000-0000-0000-0000-00000000000f, event 3: revision 9 of lane main (revised) stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000010, event 2: Goal 00000000-0000-0000-0000-000000000074 stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000011, event 1: the command key `open` is not remembered
        session 00000000-0000-0000-0000-000000000012, event 1: the command key `open` does not stand on its events
        the blob 77c1cff2a71c0e779bf011cae23343c2c559f51ad9436215a5f02289eac8577c does not match its digest
        "));
    })
    .await;
}
