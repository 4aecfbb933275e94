//! Texts that real shells run, against what permission rules say about them.
//!
//! Texts are put together from pieces that matter to a shell. Each runs in an empty folder, where only two programs
//! can be found: `ok` and `evil` leave a mark that they ran. So the shell itself says which commands a text holds.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use agents::{CallSubject, PermissionRule, PermissionRules, RuleEntry, Verdict};
use domain::{Capability, CapabilitySet};
use proptest::prelude::*;

/// `sh` differs between systems, so each text runs in every shell of these that is there.
const SHELLS: [&[&str]; 3] = [&["/bin/sh", "-c"], &["/bin/bash", "-c"], &["/bin/bash", "--posix", "-c"]];

fn judged(verdict: Verdict, pattern: &str, text: &str) -> Verdict {
    let entry = RuleEntry { verdict, tool: None, path: None, command: Some(pattern.to_owned()) };
    let rule = PermissionRule::new("the rule", &entry).unwrap();
    let subject = CallSubject {
        tool: "shell",
        requires: CapabilitySet::of(&[Capability::RunCommand]),
        is_external: false,
        workspace: "/w",
        paths: &[],
        command: Some(text),
        is_confined: false,
    };
    PermissionRules::new(vec![rule]).unwrap().judge(&subject).verdict
}

/// The first shell in which `evil` runs, or in which the text makes a file.
fn harm(text: &str) -> Option<String> {
    let shells = SHELLS.iter().filter(|shell| Path::new(shell[0]).exists());
    shells
        .map(|shell| (shell, harm_in(shell, text)))
        .find_map(|(shell, harm)| Some(format!("{shell:?}: {}", harm?)))
}

fn harm_in(shell: &[&str], text: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let (programs, here) = (folder.path().join("programs"), folder.path().join("here"));
    fs::create_dir(&programs).unwrap();
    fs::create_dir(&here).unwrap();
    let evil_ran = folder.path().join("evil_ran");
    put_program(&programs.join("evil"), &format!("#!/bin/sh\n: > '{}'\n", evil_ran.display()));
    put_program(&programs.join("ok"), "#!/bin/sh\n:\n");
    // The output ends when everything that the text started has ended.
    Command::new(shell[0])
        .args(&shell[1..])
        .arg(text)
        .env_clear()
        .env("PATH", &programs)
        .current_dir(&here)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if evil_ran.exists() {
        return Some("evil ran".to_owned());
    }
    let made: Vec<_> = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    (!made.is_empty()).then(|| format!("made {made:?}"))
}

fn put_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Pieces from which a text is made. Nothing here can name a file outside the folder or run for ever.
const PIECES: [&str; 46] = [
    "ok",
    "ok ",
    "evil",
    "evil",
    " ",
    "\t",
    "\n",
    ";",
    ";",
    "&",
    "&&",
    "|",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\\n",
    "$",
    "(",
    ")",
    "`",
    "{",
    "}",
    "#",
    ">",
    "<",
    "2>&1",
    ">/dev/null",
    "=",
    "X=evil ",
    "$X",
    "!",
    "if ",
    "then ",
    "fi",
    "*",
    "~",
    "eval ",
    "; evil ",
    "$(evil)",
    "$\\\n(evil)",
    "`evil`",
    "$'\\'",
    "\\\"",
    "\"$(evil)\"",
];

fn texts(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(pieces), 1..10).prop_map(|pieces| pieces.concat())
}

/// Pieces without what no reader of a text can follow: variables, patterns, braces and functions.
const READABLE: [&str; 32] = [
    "ok", "ok ", "evil", "ev", "il", " ", "\n", ";", "&", "|", "'", "\"", "''", "\\", "\\\n", "$(", "(", ")",
    "`", "#", ">", "<", "2>&1", "! ", "if ", "then ", "fi", "X=1 ", "evil", "'il'", "\\\"", "e\\v",
];

proptest! {
    #[test]
    fn an_allowed_text_runs_nothing_but_the_allowed_command(text in texts(&PIECES)) {
        // Most texts are refused, which needs no shell.
        if judged(Verdict::Allow, "ok*", &format!("ok {text}")) == Verdict::Allow {
            prop_assert_eq!(harm(&format!("ok {text}")), None);
        }
    }

    #[test]
    fn a_denied_command_that_a_shell_runs_is_found(text in texts(&READABLE)) {
        if judged(Verdict::Deny, "evil*", &text) == Verdict::Allow {
            let harm = harm(&text).filter(|harm| harm.ends_with("evil ran"));
            prop_assert_eq!(harm, None);
        }
    }
}

#[test]
fn the_judge_of_these_tests_sees_harm() {
    assert_eq!(harm("ok; ok 'evil' # evil"), None);
    assert!(harm("ok $(evil)").is_some_and(|harm| harm.ends_with("evil ran")));
    assert!(harm("ok & evil").is_some());
    assert!(harm("ok > x").is_some());
}
