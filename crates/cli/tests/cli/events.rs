//! `zuno events`: the log of a session while other processes write it, and how it looks where.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout};

use serde_json::{Value, json};

use crate::world::{Done, Terminal, World, signal};

/// What the writers add, besides the event that opens the session.
const UPDATES: u64 = 200;

/// A process that follows a session, and its output line by line.
struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut child = world.command(&[&["events", "--follow"], arguments].concat()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line, which may take its time.
    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The next lines as JSON, up to that event.
    fn until(&mut self, seq: u64) -> Vec<Value> {
        let mut events = Vec::<Value>::new();
        while events.last().is_none_or(|event| event["seq"] != seq) {
            events.push(serde_json::from_str(&self.next()).unwrap());
        }
        events
    }

    /// Sends a signal; the exit code, with nothing more printed.
    fn end(mut self, name: &str) -> Option<i32> {
        signal(&self.child, name);
        assert_eq!(self.lines.map(Result::unwrap).collect::<Vec<_>>(), [""; 0]);
        self.child.wait().unwrap().code()
    }
}

fn log(world: &World, session: &str, after: u64) -> Vec<Value> {
    world.run(&["events", "--session", session, "--json", "--after", &after.to_string()]).json_lines()
}

/// Complete plans: each opens the next one, so that several writers need not agree.
fn updates(from: u64, to: u64) -> String {
    let line = |number: u64| {
        let step = json!({ "id": "only", "title": "Only", "status": "completed" });
        json!({ "title": format!("plan {number}"), "steps": [step] }).to_string() + "\n"
    };
    (from..to).map(line).collect()
}

#[test]
fn e6_followers_of_other_processes_get_the_log_without_a_gap_and_nothing_twice() {
    let world = World::new();
    let session = world.session();
    let of = ["--session", &session, "--json"];
    let mut early = Follower::start(&world, &of);
    assert_eq!(early.until(1).len(), 1);
    let mut writer = world.command(&["plan", "update", "--stream", "--session", &session]);
    let mut writer = writer.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = writer.stdin.take().unwrap();
    let mut answers = BufReader::new(writer.stdout.take().unwrap()).lines();
    // A second one joins in the middle, and another process writes at the same time.
    input.write_all(updates(0, 20).as_bytes()).unwrap();
    for _ in 0..20 {
        assert!(answers.next().unwrap().unwrap().contains("accepted"));
    }
    let mut late = Follower::start(&world, &[&of[..], &["--after", "9"]].concat());
    assert_eq!(late.until(21).len(), 12);
    let rest = std::thread::spawn(move || {
        input.write_all(updates(20, UPDATES).as_bytes()).unwrap();
        drop(input);
        answers.count()
    });
    for mode in ["plan", "work"].into_iter().cycle().take(10) {
        world.run(&["mode", mode, "--session", &session]).expect(0);
    }
    assert_eq!(rest.join().unwrap(), usize::try_from(UPDATES - 20).unwrap());
    assert!(writer.wait().unwrap().success());

    let last = 1 + UPDATES + 10;
    let (seen_early, seen_late) = (early.until(last), late.until(last));
    let written = log(&world, &session, 0);
    assert_eq!(written.len() as u64, last);
    assert_eq!(seen_early, written[1..]);
    assert_eq!(seen_late, written[21..]);
    // Both still follow.
    world.run(&["mode", "plan", "--session", &session]).expect(0);
    let added = log(&world, &session, last);
    assert_eq!((early.until(last + 1), late.until(last + 1)), (added.clone(), added));
    assert_eq!(early.end("INT"), Some(130));
    assert_eq!(late.end("TERM"), Some(0));
}

#[test]
fn a_limit_ends_a_follower_and_a_cursor_ahead_is_an_error() {
    let world = World::new();
    let session = world.session();
    let two = Follower::start(&world, &["--json", "--limit", "2"]);
    world.run(&["mode", "plan"]).expect(0);
    let mut child = two.child;
    let lines: Vec<_> =
        two.lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lines, log(&world, &session, 0));
    let ahead = world.run(&["events", "--follow", "--after", "3", "--json"]).expect(4);
    assert_eq!(ahead.json()["error"]["code"], "cursor_ahead");
}

#[test]
fn a_follower_whose_reader_leaves_ends_quietly_though_nothing_is_added() {
    let world = World::new();
    let session = world.session();
    let mut follower = Follower::start(&world, &["--session", &session]);
    // The date, and the event.
    assert!(follower.next().len() == 10 && follower.next().contains("session opened"));
    drop(follower.lines);
    let done = Done::of(follower.child.wait_with_output().unwrap()).expect(0);
    assert_eq!(done.stderr, "");
}

#[test]
fn a_follower_ends_on_ctrl_c_while_its_reader_stands_still() {
    let world = World::new();
    let session = world.session();
    world.run_with(&["plan", "update", "--stream"], updates(0, 2 * UPDATES).as_bytes()).expect(0);
    let mut follower = Follower::start(&world, &["--session", &session, "--json"]);
    // What it has to say fills the pipe several times over, and only the beginning is read.
    assert!(follower.next().contains("session_opened"));
    signal(&follower.child, "INT");
    assert_eq!(follower.child.wait().unwrap().code(), Some(130));
}

/// The lines of the log as a terminal of this width shows them.
fn shown_at(world: &World, columns: u16) -> Vec<String> {
    let mut terminal = Terminal::open();
    terminal.resize(columns);
    let child = world.command(&["events", "--follow"]).stdout(terminal.stream()).spawn().unwrap();
    let shown = terminal.read_until("input queued: ");
    let shown = if shown.ends_with('\n') { shown } else { shown.clone() + &terminal.read_until("\n") };
    signal(&child, "TERM");
    assert!(Done::of(child.wait_with_output().unwrap()).code == 0);
    shown.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn a_line_is_cut_at_the_width_of_the_terminal_and_whole_in_a_pipe() {
    let world = World::with_scenario("[exhausted]\ntext = \"Here I am.\"");
    let session = world.session();
    let prompt = format!("begin {} end", "word ".repeat(60));
    std::fs::remove_dir(world.path("work/sub")).unwrap();
    world.run(&["run", &prompt, "--session", &session]).expect(0);
    let piped = world.run(&["events"]).expect(0).stdout;
    assert!(piped.lines().any(|line| line.ends_with(&prompt)), "{piped}");
    for columns in [60, 80, 200] {
        let shown = shown_at(&world, columns);
        let widest = shown.iter().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(columns.into()), "{shown:#?}");
    }
}
