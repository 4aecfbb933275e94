//! Shell texts: none leaves the workspace in Work mode, none is run in Plan mode, and without walls they do leave it.

use std::time::Instant;

use domain::Mode;

use crate::cases::{self, Command, Control};
use crate::play::{Played, play};

/// What a run of the file came to.
pub(crate) struct Run {
    pub(crate) played: Vec<(Command, Played)>,
    /// Cases whose program is not installed.
    pub(crate) absent: Vec<Command>,
}

impl Run {
    /// The cases that got out.
    pub(crate) fn leaked(&self) -> impl Iterator<Item = &(Command, Played)> {
        self.played.iter().filter(|(_, played)| !played.leaks.is_empty())
    }
}

/// Plays the cases of the file that `is_wanted` takes.
pub(crate) async fn run(mode: Mode, sandbox: &str, is_wanted: impl Fn(&Command) -> bool) -> Run {
    let began = Instant::now();
    let (present, absent): (Vec<_>, Vec<_>) = cases::commands()
        .into_iter()
        .filter(is_wanted)
        .partition(|case| cases::absent(&case.programs).is_empty());
    let scripts = present.iter().map(|case| case.script.clone()).collect();
    let played = play(mode, sandbox, scripts).await;
    println!("{} commands in {mode} mode with --sandbox {sandbox} in {:.0?}", played.len(), began.elapsed());
    for case in &absent {
        println!("absent: {:?} is not installed for: {}", cases::absent(&case.programs), case.script);
    }
    Run { played: present.into_iter().zip(played).collect(), absent }
}

fn told<'a>(cases: impl Iterator<Item = &'a (Command, Played)>) -> String {
    let line = |(case, played): &(Command, Played)| {
        format!("{}\n  {:?}\n  {:?}\n", case.script, played.leaks, played.answer)
    };
    cases.map(line).collect::<Vec<_>>().concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_no_command_of_the_corpus_leaves_the_workspace() {
    let run = run(Mode::Work, "full", |_| true).await;
    assert_eq!(told(run.leaked()), "");
    // A case that is not run at all holds nothing.
    let unrun = run.played.iter().filter(|(_, played)| !was_run(&played.answer));
    assert_eq!(told(unrun), "");
    assert!(run.played.len() >= 120, "{} cases were played", run.played.len());
}

/// Whether a command came to an end of its own.
pub(crate) fn was_run(answer: &str) -> bool {
    answer.starts_with("exit code ") || answer.starts_with("killed by signal ")
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_m6_in_plan_mode_no_command_of_the_corpus_is_run() {
    let run = run(Mode::Plan, "full", |_| true).await;
    assert_eq!(told(run.leaked()), "");
    let admitted =
        run.played.iter().filter(|(_, played)| !played.answer.starts_with("denied: `shell` needs"));
    assert_eq!(told(admitted), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commands_do_every_day_works_within_the_walls() {
    let (present, absent): (Vec<_>, Vec<_>) =
        cases::ordinary().into_iter().partition(|(programs, _)| cases::absent(programs).is_empty());
    println!("absent: {absent:?}");
    let scripts: Vec<_> = present.into_iter().map(|(_, script)| script).collect();
    for (script, played) in scripts.iter().zip(play(Mode::Work, "full", scripts.clone()).await) {
        assert!(played.answer.starts_with("exit code 0"), "{script}: {}", played.answer);
        assert_eq!(played.leaks, [""; 0], "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_walls_the_same_commands_leave_the_workspace() {
    let run = run(Mode::Work, "off", |case| case.control != Control::Never).await;
    let must =
        |(case, played): &&(Command, Played)| case.control == Control::Leaves && played.leaks.is_empty();
    assert_eq!(told(run.played.iter().filter(must)), "", "these prove nothing about the walls");
    println!("control: {} of {} left the workspace", run.leaked().count(), run.played.len());
}
