//! Commands as they run without walls; those with walls are tried with the real program.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::fixture::Fixture;

/// Waits until the process whose id is in this file is gone, or a zombie that nobody reaped.
async fn assert_gone(fixture: &Fixture, pid_file: &str) {
    let pid = fixture.read(pid_file).trim().to_owned();
    for _ in 0..1000 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still there");
}

/// Waits until a file is there.
async fn appears(path: &Path) {
    while std::fs::read_to_string(path).unwrap_or_default().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_answer_is_the_exit_code_and_the_output_in_order() {
    let fixture = Fixture::new();
    let command = "echo one; echo two >&2; echo three; exit 3";
    let text = fixture.refused("shell", json!({ "command": command })).await;
    insta::assert_snapshot!(text, @r"
    exit code 3
    one
    two
    three
    ");
    assert_eq!(fixture.ok("shell", json!({ "cmd": "true" })).await, "exit code 0\n[no output]");
    let text = fixture.refused("shell", json!({ "command": "kill -9 $$" })).await;
    assert_eq!(text, "killed by signal 9\n[no output]");
    let text = fixture.refused("shell", json!({ "command": "no-such-program" })).await;
    assert!(text.starts_with("exit code 127\n"), "{text}");
}

#[tokio::test]
async fn it_runs_in_the_root_or_a_directory_beneath_it() {
    let fixture = Fixture::new();
    fixture.write("sub/file", "");
    symlink(fixture.outside(), fixture.path("out")).unwrap();
    let root = fixture.root().display().to_string();
    let check = async |arguments: Value, expected: String| {
        assert_eq!(fixture.ok("shell", arguments.clone()).await, expected, "{arguments}");
    };
    check(json!({ "command": "pwd" }), format!("exit code 0\n{root}")).await;
    check(json!({ "command": "pwd", "cwd": "sub" }), format!("exit code 0\n{root}/sub")).await;
    check(json!({ "command": "pwd", "workdir": root }), format!("exit code 0\n{root}")).await;
    for workdir in ["..", "/", "out", "none", "sub/file"] {
        fixture.refused("shell", json!({ "command": "pwd", "workdir": workdir })).await;
    }
}

#[tokio::test]
async fn there_is_no_input_and_no_terminal() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ok("shell", json!({ "command": "cat; echo end" })).await, "exit code 0\nend");
    let text = fixture.refused("shell", json!({ "command": "echo x > /dev/tty" })).await;
    assert!(!text.starts_with("exit code 0"), "{text}");
}

#[tokio::test]
async fn a_command_knows_that_it_acts_for_an_agent() {
    let text = Fixture::new().ok("shell", json!({ "command": "echo $ZUNO_ACTOR" })).await;
    assert_eq!(text, "exit code 0\nagent");
}

#[tokio::test]
async fn a_timeout_kills_grandchildren_and_keeps_the_output() {
    let fixture = Fixture::new();
    let command = "echo start; (sleep 300 & echo $! > pid; wait) & sleep 300";
    let text = fixture.refused("shell", json!({ "command": command, "timeout": 1500 })).await;
    assert_eq!(text, "timed out after 1500 ms; everything it started was killed\nstart");
    assert_gone(&fixture, "pid").await;
}

#[tokio::test]
async fn a_command_that_ignores_signals_is_killed_too() {
    let fixture = Fixture::new();
    let command = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 1; done";
    let text = fixture.refused("shell", json!({ "command": command, "timeout_ms": 1000 })).await;
    assert!(text.starts_with("timed out"), "{text}");
    assert_gone(&fixture, "pid").await;
}

#[tokio::test]
async fn the_stop_token_ends_it_with_everything_it_started() {
    let fixture = Fixture::new();
    let command = "echo start; sleep 300 & echo $! > pid; sleep 300";
    let call = fixture.prepare("shell", json!({ "command": command })).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(call.run(stop.clone()));
    appears(&fixture.path("pid")).await;
    stop.cancel();
    let output = running.await.unwrap();
    assert_eq!(output, ToolOutput::stopped("stopped; everything it started was killed\nstart"));
    assert_gone(&fixture, "pid").await;
    let output = fixture.stopped("shell", json!({ "command": "echo x > never" })).await;
    assert!(output.stopped && !fixture.path("never").exists());
}

#[tokio::test]
async fn dropping_the_call_kills_everything_it_started() {
    let fixture = Fixture::new();
    let command = "sleep 300 & echo $! > pid; echo $$ > shell; sleep 300";
    let call = fixture.prepare("shell", json!({ "command": command })).await.unwrap();
    let running = tokio::spawn(call.run(CancellationToken::new()));
    appears(&fixture.path("shell")).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_gone(&fixture, "pid").await;
    assert_gone(&fixture, "shell").await;
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_does_not_hang_the_call() {
    let fixture = Fixture::new();
    let command = "sleep 300 & echo $! > pid; echo done";
    let text = fixture.ok("shell", json!({ "command": command })).await;
    assert_eq!(text, "exit code 0; what it left running in the background was killed\ndone");
    assert_gone(&fixture, "pid").await;
}

#[tokio::test]
async fn a_process_that_left_the_group_is_not_waited_for() {
    let fixture = Fixture::new();
    let command = "setsid sh -c 'echo $$ > pid; exec sleep 300' & \
                   until [ -s pid ]; do sleep 0.01; done; echo done";
    let text = fixture.ok("shell", json!({ "command": command })).await;
    assert!(text.ends_with("\ndone"), "{text}");
    let pid = fixture.read("pid");
    fixture.ok("shell", json!({ "command": format!("kill -9 {pid}") })).await;
}

#[tokio::test]
async fn endless_output_is_bounded_and_does_not_outlive_the_time() {
    let fixture = Fixture::new();
    let text = fixture.refused("shell", json!({ "command": "yes", "timeout_ms": 1000 })).await;
    assert!(text.starts_with("timed out") && text.contains("bytes left out"), "{}", &text[..100]);
    assert!(text.len() < 200 * 1024, "{}", text.len());
    let text = fixture.ok("shell", json!({ "command": "echo first; seq 200000; echo last" })).await;
    assert!(text.starts_with("exit code 0\nfirst\n1\n2\n") && text.ends_with("\n200000\nlast"));
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let fixture = Fixture::new();
    let texts = [
        fixture.refused("shell", json!({ "command": " " })).await,
        fixture.refused("shell", json!({ "command": "a\0b" })).await,
        fixture.refused("shell", json!({ "command": "ls", "timeout_ms": 0 })).await,
        fixture.refused("shell", json!({ "command": ["ls"] })).await,
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    invalid arguments: `command` is empty
    invalid arguments: `command` contains a NUL character
    invalid arguments: `timeout_ms`: sent 0, expected 1 or more
    invalid arguments: `command`: sent ["ls"], expected a string. shell expects {"command": string, "background"?: boolean, "needs"?: array, "timeout_ms"?: integer, "workdir"?: string}; ? marks optional keys
    "#);
}

#[tokio::test]
async fn the_exit_status_is_that_of_a_command_that_came_to_its_end() {
    let fixture = Fixture::new();
    let check = async |arguments: Value, expected: Option<i32>| {
        let output = fixture.call("shell", arguments.clone()).await;
        assert_eq!(output.exit_status, expected, "{arguments}: {}", output.text);
        assert_eq!(output.succeeded, expected == Some(0), "{arguments}: {}", output.text);
    };
    check(json!({ "command": "true" }), Some(0)).await;
    check(json!({ "command": "exit 3", "background": true }), Some(3)).await;
    check(json!({ "command": "kill -9 $$" }), None).await;
    check(json!({ "command": "sleep 300", "timeout_ms": 1 }), None).await;
    check(json!({ "command": "true", "workdir": "none" }), None).await;
    assert_eq!(fixture.stopped("shell", json!({ "command": "true" })).await.exit_status, None);
}

#[tokio::test]
async fn a_background_command_is_shown_on_one_line() {
    let fixture = Fixture::new();
    let check = async |arguments: Value, expected: Option<&str>| {
        let call = fixture.prepare("shell", arguments.clone()).await.unwrap();
        let title = call.background();
        assert_eq!(title.as_ref().map(CommandTitle::as_str), expected, "{arguments}");
    };
    check(json!({ "command": "ls" }), None).await;
    check(json!({ "command": "ls", "background": false }), None).await;
    check(json!({ "command": " npm run dev\n", "run_in_background": true }), Some("npm run dev")).await;
    let script = "cd a &&\n\t\u{1b}[1mrm  -rf\u{202e} b";
    check(json!({ "command": script, "background": true }), Some("cd a && [1mrm -rf b")).await;
    let fits = "ü".repeat(COMMAND_TITLE_CHARS);
    check(json!({ "command": fits, "background": true }), Some(&fits)).await;
    let cut = format!("{}…", "ü".repeat(COMMAND_TITLE_CHARS - 1));
    check(json!({ "command": format!("{fits}x"), "background": true }), Some(&cut)).await;
    let text = fixture.refused("shell", json!({ "command": "\u{200b}", "background": true })).await;
    assert_eq!(text, "invalid arguments: `command` is empty");
}

#[test]
fn a_background_command_has_more_time() {
    let check = |in_background, sent, expected_ms| {
        let limit = time_limit(in_background, sent).unwrap();
        assert_eq!(limit, Duration::from_millis(expected_ms), "{in_background} {sent:?}");
    };
    check(false, None, 120_000);
    check(false, Some(u64::MAX), 600_000);
    check(true, None, 3_600_000);
    check(true, Some(7_200_000), 7_200_000);
    check(true, Some(u64::MAX), 86_400_000);
    assert!(time_limit(true, Some(0)).is_err());
}

#[tokio::test]
async fn a_background_command_answers_at_its_end_like_any_other() {
    let fixture = Fixture::new();
    let command = "echo start; (sleep 300 & echo $! > pid); exit 1";
    let text = fixture.refused("shell", json!({ "command": command, "background": true })).await;
    assert_eq!(text, "exit code 1; what it left running in the background was killed\nstart");
    assert_gone(&fixture, "pid").await;
    let command = "echo start; sleep 300";
    let arguments = json!({ "command": command, "background": true, "timeout_ms": 1000 });
    let text = fixture.refused("shell", arguments).await;
    assert_eq!(text, "timed out after 1000 ms; everything it started was killed\nstart");
}

#[tokio::test]
async fn a_background_command_is_stopped_with_everything_it_started() {
    let fixture = Fixture::new();
    let command = "sleep 300 & echo $! > pid; echo serving; echo > up; sleep 300";
    let call = fixture.prepare("shell", json!({ "command": command, "background": true })).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(call.run(stop.clone()));
    appears(&fixture.path("up")).await;
    stop.cancel();
    let output = running.await.unwrap();
    assert_eq!(output, ToolOutput::stopped("stopped; everything it started was killed\nserving"));
    assert_gone(&fixture, "pid").await;
}

#[tokio::test]
async fn endless_output_of_a_background_command_is_bounded() {
    let fixture = Fixture::new();
    let command = "echo first; seq 2000000; echo last";
    let text = fixture.ok("shell", json!({ "command": command, "background": true })).await;
    assert!(text.starts_with("exit code 0\nfirst\n1\n2\n") && text.ends_with("\n2000000\nlast"));
    assert!(text.contains("bytes left out") && text.len() < 200 * 1024, "{}", text.len());
}

#[tokio::test]
async fn a_command_is_never_recorded_as_confined() {
    let fixture = Fixture::new();
    let call = fixture.prepare("shell", json!({ "command": "ls" })).await.unwrap();
    assert_eq!(call.effect(), Effect::Command { confined: false });
}
