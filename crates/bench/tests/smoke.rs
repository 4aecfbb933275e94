//! Every benchmark runs, and tells what it found. How long anything takes is not tested.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use std::process::Command;

fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_benchmark_runs_and_prints_a_row_for_each_candidate() {
    let (code, out, err) = bench(&["--smoke"]);
    assert_eq!(code, Some(0), "{out}{err}");
    for row in ["bare sh -c true", "shell, no sandbox", "shell, Landlock and seccomp", "shell, all walls"] {
        let line = out.lines().find(|line| line.starts_with(row));
        assert!(line.is_some_and(|line| line.matches('×').count() == 2), "{row}: {out}");
    }
    assert!(out.starts_with("zuno ") && out.contains("Linux ") && out.contains("rustc "), "{out}");
}

#[test]
fn a_name_that_nothing_has_is_told_which_there_are() {
    let (code, out, err) = bench(&["sandbox-costs"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("Benchmarks: sandbox-cost"), "{err}");
}
