//! The deep check: silent on what the store wrote, and clear about anything else.

use std::fmt::Write as _;

use domain::{CallOutcome, CallRef, CommandId, Fingerprint, GoalId};
use policy::RuntimeCommand;
use store::{Ask, Store, digest};

use crate::site::{
    Site, by_runtime, by_user, keyed, on_each_engine, open_session, plan, send, session, set_goal, submit,
};
use crate::turns::{admit_look, start_command, start_turn};

/// A session with a plan, a Goal, a running turn, a new call, a background command that runs and one that ended, a key
/// and two blobs.
async fn fill(store: &Store, number: u128) {
    let id = session(number);
    store.execute(id, keyed("open", "p"), by_user(open_session())).await.unwrap();
    send(store, id, set_goal(number + 100)).await.unwrap();
    send(store, id, plan(0, None)).await.unwrap();
    send(store, id, submit("go")).await.unwrap();
    let looked = start_turn(store, id, 3).await;
    admit_look(store, id, looked).await;
    let (output, ran) = (format!("output {number}").into_bytes(), Fingerprint::of(["look"]));
    let finish = RuntimeCommand::FinishCall {
        call: looked,
        outcome: CallOutcome::Succeeded,
        result: "head and tail".to_owned(),
        full_output: Some(digest(&output)),
        ran: Some(ran),
    };
    let evidence = Some((GoalId::from_u128(number + 100), ran));
    store
        .execute(id, Ask { evidence, blobs: vec![output], ..Ask::default() }, by_runtime(finish))
        .await
        .unwrap();
    for index in [1, 2] {
        start_command(store, id, CallRef { index, ..looked }).await;
    }
    let output = format!("build {number}").into_bytes();
    let end = RuntimeCommand::EndCommand {
        command: CommandId(1),
        outcome: CallOutcome::Failed,
        result: "its tail".to_owned(),
        full_output: Some(digest(&output)),
    };
    store.execute(id, Ask { blobs: vec![output], ..Ask::default() }, by_runtime(end)).await.unwrap();
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
            "DELETE FROM events WHERE session_id = ? AND seq = 19",
            "UPDATE events SET payload = '{}' WHERE session_id = ? AND seq = 5",
            "UPDATE events SET payload = json_set(payload, '$.objective', 'x') WHERE session_id = ? AND seq = 2",
            "UPDATE events SET actor = '{}' WHERE session_id = ? AND seq = 4",
            "UPDATE sessions SET core = json_set(core, '$.goal.continuations', 5) WHERE id = ?",
            "UPDATE sessions SET core = '{}' WHERE id = ?",
            "UPDATE sessions SET kinds = json_remove(kinds, '$[0]') WHERE id = ?",
            "UPDATE sessions SET leases = NULL WHERE id = ?",
            "UPDATE sessions SET wake_at = NULL WHERE id = ?",
            "UPDATE sessions SET wake_at = wake_at + 1 WHERE id = ?",
            "UPDATE sessions SET title = 'another' WHERE id = ?",
            "UPDATE sessions SET head_seq = head_seq - 1, core = json_set(core, '$.head', head_seq - 1) WHERE id = ?",
            "DELETE FROM plan_rows WHERE session_id = ?",
            "UPDATE plan_rows SET revision = 9 WHERE session_id = ?",
            "DELETE FROM goal_rows WHERE session_id = ?",
            "DELETE FROM command_keys WHERE session_id = ?",
            "UPDATE command_keys SET last_seq = 2 WHERE session_id = ?",
            r#"UPDATE sessions SET leases = '{"others":1}' WHERE id = ?"#,
            "UPDATE sessions SET leases = json_remove(leases, '$.commands') WHERE id = ?",
            "UPDATE sessions SET leases = json_set(leases, '$.commands.7', leases -> '$.commands.2') WHERE id = ?",
            "DELETE FROM evidence_rows WHERE session_id = ?",
            "UPDATE evidence_rows SET seq = 2 WHERE session_id = ?",
            "INSERT INTO evidence_rows SELECT session_id, goal_id, '00000000000000ff', seq FROM evidence_rows WHERE session_id = ?",
            "DELETE FROM blobs WHERE digest = (SELECT payload ->> '$.full_output' FROM events WHERE session_id = ? AND kind = 'command_ended')",
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
        session 00000000-0000-0000-0000-000000000001: the blob 65dc68cb17e842dc89122cf636d5b04f2ced39011bc5886ba0a026da073194c5 that the log refers to is not there
        session 00000000-0000-0000-0000-000000000002, event 19: the log ends before its head, which is 19
        session 00000000-0000-0000-0000-000000000003, event 5: its payload does not decode as `turn_started`: missing field `turn` at line 1 column 35
        session 00000000-0000-0000-0000-000000000004: the stored state is not the fold of the log
        session 00000000-0000-0000-0000-000000000005, event 4: its actor does not decode: missing field `type` at line 1 column 2
        session 00000000-0000-0000-0000-000000000006: the stored state is not the fold of the log
        session 00000000-0000-0000-0000-000000000007: the state of its head does not decode: missing field `head` at line 1 column 2
        session 00000000-0000-0000-0000-000000000008: the list of kinds is not that of the log
        session 00000000-0000-0000-0000-000000000009: a turn runs without a lease
        session 00000000-0000-0000-0000-000000000009: background command 2 runs without a lease
        session 00000000-0000-0000-0000-000000000009: a wake-up is stored for 1800000015000 ms and one is due at 1800000000000 ms
        session 00000000-0000-0000-0000-00000000000a: no wake-up is stored and one is due at 1800000015000 ms
        session 00000000-0000-0000-0000-00000000000b: a wake-up is stored for 1800000015001 ms and one is due at 1800000015000 ms
        session 00000000-0000-0000-0000-00000000000c: the columns that lists show are not those of the state
        session 00000000-0000-0000-0000-00000000000d, event 19: the log goes on after its head, which is 18
        session 00000000-0000-0000-0000-00000000000d: the stored state is not the fold of the log
        session 00000000-0000-0000-0000-00000000000e, event 3: revision 1 of lane main (revised) stands only in the log or only in its index
        session 00000000-0000-0000-0000-00000000000f, event 3: revision 1 of lane main (revised) stands only in the log or only in its index
        session 00000000-0000-0000-0000-00000000000f, event 3: revision 9 of lane main (revised) stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000010, event 2: Goal 00000000-0000-0000-0000-000000000074 stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000011, event 1: the command key `open` is not remembered
        session 00000000-0000-0000-0000-000000000012, event 1: the command key `open` does not stand on its events
        session 00000000-0000-0000-0000-000000000013: the leases of its head does not decode: unknown field `others`, expected one of `turn`, `commands`, `next_look` at line 1 column 9
        session 00000000-0000-0000-0000-000000000014: background command 2 runs without a lease
        session 00000000-0000-0000-0000-000000000015: worker worker holds a lease for background command 7, which does not run
        session 00000000-0000-0000-0000-000000000016, event 11: the new call c86f4fb0232dd5aa of Goal 00000000-0000-0000-0000-00000000007a stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000017, event 2: the new call c86f4fb0232dd5aa of Goal 00000000-0000-0000-0000-00000000007b stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000017, event 11: the new call c86f4fb0232dd5aa of Goal 00000000-0000-0000-0000-00000000007b stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000018, event 11: the new call 00000000000000ff of Goal 00000000-0000-0000-0000-00000000007c stands only in the log or only in its index
        session 00000000-0000-0000-0000-000000000019: the blob 23fda15290d0473f03d1b7d586544712420681c504e798ee2a97c2e562ccfadb that the log refers to is not there
        the blob 77c1cff2a71c0e779bf011cae23343c2c559f51ad9436215a5f02289eac8577c does not match its digest
        "));
    })
    .await;
}
