//! Workers whose commands run within the walls, killed at commits and in the middle of a command.

use std::fs;

use domain::{CallOutcome, EventBody, GoalStatus, SessionId};
use serde_json::json;
use store::SystemClock;
use tests::{CrashPoint, OpenAiServer, Reply, World, Zuno, story, wait_until};

use crate::agent::{self, EFFECT, EFFECTS, NOTES};
use crate::wreck::Wreck;

/// Says loudly why nothing was tried on a machine that cannot build every wall.
async fn are_there(zuno: &Zuno) -> bool {
    let report = zuno.run(&["doctor", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&report.out).unwrap();
    let lines: Vec<_> =
        told["sandbox"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let holds = lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with("holds "));
    if !holds {
        println!("SKIPPED: THIS MACHINE CANNOT BUILD THE WALLS, NOTHING WAS TRIED WITHIN THEM: {lines:#?}");
    }
    holds
}

/// Processes, without zombies, whose arguments or environment hold the mark.
fn marked(mark: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        ["cmdline", "environ"].iter().any(|name| {
            let text = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            text.windows(mark.len()).any(|window| window == mark.as_bytes())
        })
    };
    pids.filter(holds).collect()
}

struct Case {
    world: World<SystemClock>,
    zuno: Zuno,
    session: SessionId,
    _server: OpenAiServer,
}

impl Case {
    async fn new(reply: impl Fn(&serde_json::Value) -> Reply + Send + Sync + 'static) -> Self {
        let world = World::in_sight_of_commands().await;
        let session = world.session().await;
        world.goal(session, "Write the notes and append the line").await;
        let server = OpenAiServer::start(move |_, request| reply(request)).await;
        let zuno = Zuno::of(&world).within_walls().with_model_at(&server.base_url);
        Self { world, zuno, session, _server: server }
    }

    async fn is_completed(&self) -> bool {
        self.world.view(self.session).await.goal.unwrap().status == GoalStatus::Completed
    }
}

/// Kills a worker at a point and lets the next one reach the Goal: nothing is uncertain within walls, so no person is
/// needed. Gives how the command was settled, if it was cut off.
async fn killed_at(point: CrashPoint) -> Option<CallOutcome> {
    let case = Case::new(agent::works_on_the_goal).await;
    let Case { world, zuno, session, .. } = &case;
    let id = session.to_string();
    let work = ["goal", "run", "--session", &id, "--once"];
    let mut worker = zuno.start_until(point, &work);
    assert!(worker.reaches_its_point().await, "{point}: {}", worker.printed());
    let seen = world.log(*session).await;
    worker.kill();
    let wreck = Wreck::examine(world, *session).await;
    assert_eq!(wreck.log, seen, "{point}: a reader saw something else than what is durable");
    let notes = fs::read_to_string(world.path(NOTES)).unwrap_or_default();
    assert!(["", "one\n", "two\n"].contains(&notes.as_str()), "{point}: a torn file: {notes:?}");
    let next = zuno.run(&work).await;
    let log = world.log(*session).await;
    wreck.check(&log);
    let told = story(&log);
    assert_eq!(next.code, Some(0), "{point}: {next:?}\n{told}");
    assert!(case.is_completed().await, "{point}:\n{told}");
    assert_eq!(fs::read_to_string(world.path(EFFECTS)).unwrap(), EFFECT, "{point}: once\n{told}");
    assert_eq!(world.read(NOTES), "two\n", "{point}:\n{told}");
    let plan = world.view(*session).await.plan.unwrap();
    assert_eq!((plan.revision.0, plan.completed, plan.total), (2, 2, 2), "{point}:\n{told}");
    zuno.assert_sound().await;
    let cut_off = wreck.open.values().copied().find(|outcome| *outcome == CallOutcome::Lost);
    println!("{point:<10} {:?}", wreck.open);
    cut_off
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_t7_c6_a_turn_within_walls_killed_at_its_commits_needs_no_person_and_acts_once() {
    use CrashPoint::{After, Before};
    if !are_there(&Case::new(agent::works_on_the_goal).await.zuno).await {
        return;
    }
    // A write admitted and done, the command admitted and run, its result recorded, plan and Goal completed.
    let mut lost = 0;
    for point in [After(9), Before(10), After(15), Before(16), After(16), Before(19), After(20)] {
        lost += u32::from(killed_at(point).await.is_some());
    }
    // Else no point lay between the command's admission and its result.
    assert!(lost >= 2, "{lost} cut off");
}

/// Starts what tries to outlive it, says so, and never ends: a child in a session of its own, and one that its parent
/// left behind.
fn clinging(mark: &str) -> String {
    format!(
        "export MARK={mark}; setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &); \
         trap '' TERM HUP INT; echo whole > begun; while :; do sleep 600; done"
    )
}

async fn killed_in_its_command(background: bool) {
    let mark = format!("walls-{}-{background}", std::process::id());
    let command = clinging(&mark);
    let case = Case::new(move |request| {
        let text = request["messages"].to_string();
        if text.contains("cut off") {
            let is_over = agent::answered(&agent::calls(request), "goal_update", "completed");
            let complete = json!({ "status": "completed" });
            return if is_over { Reply::text("Done.") } else { Reply::call("goal_update", &complete) };
        }
        if agent::calls(request).is_empty() {
            return Reply::call("shell", &json!({ "command": command, "background": background }));
        }
        // The turn goes on beside the command, until the worker is killed.
        Reply::Begun("It runs.".to_owned())
    })
    .await;
    let Case { world, zuno, session, .. } = &case;
    if !are_there(zuno).await {
        return;
    }
    let id = session.to_string();
    let work = ["goal", "run", "--session", &id, "--once"];
    let mut worker = zuno.start(&work);
    let begun = world.path("begun");
    // The shell and its three sleeping descendants at least, or nothing would be there to survive.
    worker.runs_until("a tree of processes", |_| begun.exists() && marked(&mark).len() >= 4).await;
    if background {
        let mut watch = world.store.watch();
        let asked_again = |log: &[domain::Event]| {
            log.iter().filter(|event| matches!(event.body, EventBody::ModelRequested { .. })).count() == 2
        };
        while !asked_again(&world.log(*session).await) {
            watch.changed().await;
        }
    }
    worker.kill();
    wait_until("all that the command started is gone", || marked(&mark).is_empty()).await;
    assert_eq!(world.read("begun"), "whole\n");
    let wreck = Wreck::examine(world, *session).await;
    let next = zuno.run(&work).await;
    let log = world.log(*session).await;
    wreck.check(&log);
    let told = story(&log);
    assert_eq!(next.code, Some(0), "{next:?}\n{told}");
    assert!(case.is_completed().await, "\n{told}");
    let is_lost = |event: &domain::Event| match &event.body {
        EventBody::CallFinished { tool, outcome, .. } => tool == "shell" && *outcome == CallOutcome::Lost,
        EventBody::CommandEnded { outcome, .. } => *outcome == CallOutcome::Lost,
        _ => false,
    };
    assert_eq!(log.iter().filter(|event| is_lost(event)).count(), 1, "\n{told}");
    assert_eq!(marked(&mark), [0_u32; 0], "it was started again\n{told}");
    zuno.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t7_c6_a_command_within_walls_dies_with_its_killed_worker_and_all_it_started() {
    killed_in_its_command(false).await;
    killed_in_its_command(true).await;
}
