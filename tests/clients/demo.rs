//! `zuno demo`, as a newcomer starts it.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use store::SystemClock;
use tests::{Finished, World, Zuno, is_alive, wait_until};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::desk::{assert_no_file, finished, signal};

/// A machine without any key or configuration, and an empty folder for temporary files.
struct Machine {
    world: World<SystemClock>,
    temporary: tempfile::TempDir,
}

impl Machine {
    async fn new() -> Self {
        Self { world: World::in_real_time().await, temporary: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::from(Zuno::of(&self.world).command(arguments));
        command.env_remove("ZUNO_STORE").env("TMPDIR", self.temporary.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn demo(&self, arguments: &[&str]) -> Finished {
        finished(self.command(&[&["demo"], arguments].concat())).await
    }
}

const README: &str = include_str!("../../README.md");

/// The lines of the demo that README.md shows, without their times.
fn shown_in_readme() -> Vec<&'static str> {
    let (_, block) = README.split_once("```text\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines: Vec<_> = block.lines().map(|line| line.split_once(" s  ").unwrap().1).collect();
    assert_eq!(lines.len(), 9);
    lines
}

#[test]
fn the_readme_shows_the_configuration_that_the_program_prints() {
    assert!(README.contains(models::EXAMPLE_TOML));
}

fn assert_in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for words in wanted {
        let at = rest.find(words).unwrap_or_else(|| panic!("{words:?} is missing, or too early, in\n{text}"));
        rest = &rest[at + words.len()..];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_is_killed_recovers_is_denied_and_everything_holds() {
    let machine = Machine::new().await;
    let done = machine.demo(&[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert_in_order(
        &done.out,
        &[
            "plan revision 1  0/3",
            "1 of 3 passed",
            "plan revision 2  1/3",
            "continuation 2 of the Goal starts turn 2",
            "turn 2 killed",
            "turn 2 recovered",
            "continuation 3 of the Goal starts turn 3",
            "background command 1 started",
            "background command 1 succeeded",
            "the report starts turn 5",
            "request 1: may it run shell: git commit",
            "request 1 allowed, once",
            "the answer starts turn 6",
            "1 file changed",
            "plan revision 4  3/3",
            "Goal completed",
            "Plan mode",
            "write_file denied",
            "shell denied",
            "Work mode",
        ],
    );
    assert_eq!(done.out.matches("held  ").count(), 9, "{}", done.out);
    for line in shown_in_readme() {
        assert!(done.out.contains(line), "README.md shows {line:?}, which the demo does not print");
    }
    assert!(!done.out.contains("FAILED") && !done.out.contains('\u{1b}'), "{}", done.out);
    let widest = done.out.lines().chain(done.err.lines()).map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{}{}", done.out, done.err);
    // Nothing is left, neither where it played nor in the home of whoever started it.
    assert_no_file(machine.temporary.path());
    assert!(!machine.world.store_path().parent().unwrap().join("data").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_as_json_is_its_timeline_and_can_be_looked_at_afterwards() {
    let machine = Machine::new().await;
    let done = machine.demo(&["--json", "--keep"]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, entries) = lines.split_last().unwrap();
    assert_eq!(last["held"], true, "{last}");
    let of_kind = |kind: &str| entries.iter().filter(|entry| entry["what"] == kind).collect::<Vec<_>>();
    let continuations: Vec<_> = of_kind("continuation").iter().map(|entry| &entry["continuation"]).collect();
    assert_eq!(continuations, [1, 2, 3, 4]);
    let (killed, recovered) = (of_kind("killed"), of_kind("recovered"));
    assert_eq!((killed.len(), recovered.len()), (1, 1));
    assert_eq!(killed[0]["turn"], recovered[0]["turn"]);
    assert_ne!(killed[0]["worker"], recovered[0]["worker"]);
    let modes: Vec<_> = of_kind("mode").iter().map(|entry| &entry["mode"]).collect();
    assert_eq!(modes, ["plan", "work"]);

    // The folder that was kept is a store like any other: the timeline is what its log says.
    let kept = fs::read_dir(machine.temporary.path()).unwrap().next().unwrap().unwrap().path();
    assert!(done.err.contains(&kept.display().to_string()), "{}", done.err);
    let store = kept.join("zuno.db").display().to_string();
    let session = last["session"].as_str().unwrap();
    let log = finished(machine.command(&["events", "--json", "--store", &store, "--session", session])).await;
    let log: Vec<Value> = log.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for entry in entries {
        let event = log.iter().find(|event| event["seq"] == entry["seq"]).unwrap();
        assert_eq!(event["at"], entry["at"]);
    }
    let doctor = finished(machine.command(&["doctor", "--store", &store])).await;
    assert_eq!(doctor.code, Some(0), "{}{}", doctor.out, doctor.err);
    let test = Command::new("sh").arg("test.sh").current_dir(kept.join("project")).output().await.unwrap();
    assert!(test.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_demo_leaves_no_process_and_no_folder() {
    let machine = Machine::new().await;
    let mut demo = machine.command(&["demo"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(demo.stderr.take().unwrap()).lines();
    let worker: u32 = loop {
        let line = told.next_line().await.unwrap().unwrap();
        if let Some((_, pid)) = line.split_once("process ") {
            break pid.parse().unwrap();
        }
    };
    signal(&demo, "INT").await;
    assert_eq!(demo.wait().await.unwrap().code(), Some(130));
    wait_until("the worker is gone", || !is_alive(worker)).await;
    assert_no_file(machine.temporary.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_git_the_demo_says_what_to_do() {
    let machine = Machine::new().await;
    let mut command = machine.command(&["demo", "--json"]);
    command.env("PATH", machine.temporary.path());
    let done = finished(command).await;
    assert_eq!(done.code, Some(5), "{}{}", done.out, done.err);
    assert!(done.err.contains("install git"), "{}", done.err);
    let answer: Value = serde_json::from_str(done.out.trim()).unwrap();
    assert_eq!(answer["error"]["code"], json!("environment"));
    assert_no_file(machine.temporary.path());
}
