//! What moves without an event: who runs a background command, and when a file is looked at next. Both move the wake-up.

use domain::{
    CallOutcome, CommandId, Condition, Effect, EventBody, GoalId, SessionId, Timestamp, Wait, WaitedPath,
};
use policy::{AgentCommand, LEASE_MS, LOOK_MS, Permission, RuntimeCommand, UserCommand};
use store::{Ask, Store, digest};

use crate::site::{
    START, Site, by_runtime, on_each_engine, open_session, owner, run, send, session, set_goal, submit,
};
use crate::turns::{call, end_turn, grant, start_command, start_turn};

const COMMAND: CommandId = CommandId(1);
/// Long after everything else here.
const DEADLINE: Timestamp = START.plus_ms(600_000);

/// A session whose Goal waits for its background command.
async fn with_command(store: &Store, id: SessionId) {
    send(store, id, open_session()).await.unwrap();
    send(store, id, set_goal(5)).await.unwrap();
    let first = start_turn(store, id, 1).await;
    start_command(store, id, first).await;
    end_turn(store, id, first.turn).await;
}

/// A session whose Goal waits.
async fn with_wait(store: &Store, id: SessionId, condition: Condition) {
    send(store, id, open_session()).await.unwrap();
    send(store, id, set_goal(5)).await.unwrap();
    let first = start_turn(store, id, 1).await;
    let wait = Wait { condition, deadline: DEADLINE, note: None, is_met: false };
    let wait = AgentCommand::WaitGoal {
        call: first,
        grant: grant(Permission::Allow),
        wait,
        ran: domain::Fingerprint::default(),
    };
    call(store, id, wait).await.unwrap();
    end_turn(store, id, first.turn).await;
}

fn a_file() -> Condition {
    Condition::File { path: WaitedPath::parse("out.txt").unwrap(), baseline: None }
}

#[tokio::test]
async fn t3_a_commands_renewed_lease_moves_the_wake_up_without_an_event() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        with_command(&store, id).await;
        let before = store.head(id).await.unwrap().unwrap();
        assert_eq!(before.wake_at, Some(START.plus_ms(LEASE_MS)));
        assert_eq!(before.leases.turn, None);
        site.clock.advance_ms(5_000);
        let renew = || RuntimeCommand::RenewCommand { command: COMMAND, owner: owner() };
        let renewed = run(&store, id, renew()).await.unwrap();
        assert!(renewed.events.is_empty());
        let expires = START.plus_ms(5_000 + LEASE_MS);
        // Another process sees it.
        let head = site.open().await.head(id).await.unwrap().unwrap();
        assert_eq!(head.leases.commands[&COMMAND].expires_at, expires);
        assert_eq!((head.wake_at, &head.state), (Some(expires), &before.state));
        assert_eq!(store.next_wake_at(None).await.unwrap(), Some(expires));
        assert_eq!(store.due(expires.plus_ms(-1), None, 10).await.unwrap(), []);
        assert_eq!(store.due(expires, None, 10).await.unwrap(), [id]);
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
        // Without a word of its owner the command is lost; its report makes the Goal due.
        site.clock.set(expires);
        let recover = RuntimeCommand::RecoverCommand { command: COMMAND, dead: None };
        let lost = run(&store, id, recover).await.unwrap();
        assert!(lost.leases.is_empty());
        assert_eq!(lost.wake_at, Some(expires));
        assert!(run(&store, id, renew()).await.is_err());
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn t3_a_look_at_a_file_moves_the_wake_up_and_only_another_content_is_an_event() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let (id, goal_id) = (session(1), GoalId::from_u128(5));
        with_wait(&store, id, a_file()).await;
        let look = async |found| {
            let store = site.open().await;
            run(&store, id, RuntimeCommand::LookAtFile { goal_id, found }).await.unwrap()
        };
        let first = START.plus_ms(LOOK_MS);
        assert_eq!(store.due(first, None, 10).await.unwrap(), [id]);
        let before = site.dump().await;
        site.clock.set(first);
        let looked = look(None).await;
        assert!(looked.events.is_empty());
        let next = first.plus_ms(LOOK_MS);
        assert_eq!((looked.leases.next_look, looked.wake_at), (Some(next), Some(next)));
        assert_eq!(store.due(next.plus_ms(-1), None, 10).await.unwrap(), []);
        assert_eq!(store.head(id).await.unwrap().unwrap().wake_at, Some(next));
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
        let events = |dump: &str| dump.lines().filter(|line| line.starts_with("events")).count();
        assert_eq!(events(&site.dump().await), events(&before));
        site.clock.set(next);
        let met = look(Some(digest(b"there it is"))).await;
        assert_eq!(met.events.iter().map(|event| event.body.kind()).collect::<Vec<_>>(), ["goal_wait_met"]);
        assert!(met.leases.is_empty());
        assert_eq!(met.wake_at, Some(next));
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn g10_a_wait_is_there_after_a_restart_and_ends_at_its_deadline() {
    on_each_engine(async |site: Site| {
        for (number, condition) in [(1, Condition::Time), (2, Condition::Inbox)] {
            let (id, store) = (session(number), site.open().await);
            with_wait(&store, id, condition.clone()).await;
            store.close().await;
            let store = site.open().await;
            let head = store.head(id).await.unwrap().unwrap();
            let goal = head.state.core.goal.as_ref().unwrap();
            assert_eq!(goal.wait.as_ref().map(|wait| &wait.condition), Some(&condition));
            assert_eq!((head.leases.is_empty(), head.wake_at), (true, Some(DEADLINE)));
        }
        let store = site.open().await;
        // An input is what the second one waits for.
        let sent = send(&store, session(2), submit("go on")).await.unwrap();
        assert_eq!(sent.wake_at, Some(START));
        site.clock.set(DEADLINE);
        let started = start_turn(&store, session(1), 0).await.turn;
        let head = store.head(session(1)).await.unwrap().unwrap();
        assert_eq!(head.state.running(started).map(|(_, turn)| turn.is_for_goal), Some(true));
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn the_full_output_of_a_background_command_is_stored_with_its_end() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        with_command(&store, id).await;
        let output = b"line after line".to_vec();
        let end = RuntimeCommand::EndCommand {
            command: COMMAND,
            outcome: CallOutcome::Succeeded,
            result: "line".to_owned(),
            full_output: Some(digest(&output)),
        };
        let ask = Ask { blobs: vec![output.clone()], ..Ask::default() };
        let ended = store.execute(id, ask, by_runtime(end)).await.unwrap();
        let EventBody::CommandEnded { full_output: Some(found), .. } = ended.events[0].body else {
            panic!("{:?}", ended.events)
        };
        assert_eq!(store.blob(found).await.unwrap(), Some(output));
        // Its report waits, and the Goal goes on for it.
        assert_eq!(ended.wake_at, Some(START));
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
    })
    .await;
}

/// Sessions at rest, each with another reason for its wake-up.
async fn at_rest(store: &Store) -> Vec<(SessionId, &'static str)> {
    let sessions = [
        (session(1), "a running command of the Goal"),
        (session(2), "a file"),
        (session(3), "a time"),
        (session(4), "the end of a command"),
        (session(5), "a command without a Goal"),
        (session(6), "an input while a command runs"),
    ];
    with_command(store, session(1)).await;
    with_wait(store, session(2), a_file()).await;
    with_wait(store, session(3), Condition::Time).await;
    for (id, condition) in
        [(session(4), Condition::Command { command: COMMAND }), (session(6), Condition::Inbox)]
    {
        send(store, id, open_session()).await.unwrap();
        send(store, id, set_goal(5)).await.unwrap();
        let first = start_turn(store, id, 2).await;
        start_command(store, id, first).await;
        let wait = Wait { condition, deadline: DEADLINE, note: None, is_met: false };
        let second = domain::CallRef { index: 1, ..first };
        let wait = AgentCommand::WaitGoal {
            call: second,
            grant: grant(Permission::Allow),
            wait,
            ran: domain::Fingerprint::default(),
        };
        call(store, id, wait).await.unwrap();
        end_turn(store, id, first.turn).await;
    }
    send(store, session(5), open_session()).await.unwrap();
    send(store, session(5), submit("watch it")).await.unwrap();
    let first = start_turn(store, session(5), 1).await;
    let start = AgentCommand::StartCommand {
        call: first,
        grant: grant(Permission::Allow),
        effect: Effect::External,
        title: domain::CommandTitle::parse("serve").unwrap(),
        owner: owner(),
        ran: domain::Fingerprint::default(),
    };
    call(store, session(5), start).await.unwrap();
    end_turn(store, session(5), first.turn).await;
    sessions.to_vec()
}

/// Has every owner speak up and every file looked at, without an event.
async fn renew_all(store: &Store) {
    for number in [1, 4, 5, 6] {
        let renew = RuntimeCommand::RenewCommand { command: COMMAND, owner: owner() };
        assert!(run(store, session(number), renew).await.unwrap().events.is_empty());
    }
    let look = RuntimeCommand::LookAtFile { goal_id: GoalId::from_u128(5), found: None };
    assert!(run(store, session(2), look).await.unwrap().events.is_empty());
}

#[tokio::test]
async fn t3_the_check_knows_the_wake_ups_of_commands_and_waits_at_any_time() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let sessions = at_rest(&store).await;
        assert_eq!(store.check(|_| {}).await.unwrap(), []);
        // Between two looks, past the leases, at the deadline and after it; then the clock is set back.
        for after in [2_000, LEASE_MS + 1_000, 599_000, 600_000, 700_000, 30_000] {
            site.clock.set(START.plus_ms(after));
            renew_all(&store).await;
            assert_eq!(store.check(|_| {}).await.unwrap(), [], "{after}");
        }
        site.clock.set(START);
        renew_all(&store).await;
        for damage in ["NULL", "wake_at + 1", "wake_at - 1"] {
            for (id, reason) in &sessions {
                site.tamper(&format!("UPDATE sessions SET wake_at = {damage} WHERE id = '{id}'")).await;
                let findings = store.check(|_| {}).await.unwrap();
                assert_eq!(findings.len(), 1, "{reason}, {damage}: {findings:?}");
                assert_eq!(findings[0].session, Some(*id));
                assert!(findings[0].detail.contains("wake-up"), "{findings:?}");
                send(&store, *id, UserCommand::SelectAgent { agent: "deep".parse().unwrap() }).await.unwrap();
                send(&store, *id, UserCommand::SelectAgent { agent: "build".parse().unwrap() })
                    .await
                    .unwrap();
                assert_eq!(store.check(|_| {}).await.unwrap(), []);
            }
        }
    })
    .await;
}
