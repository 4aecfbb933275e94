//! Arguments and file trees that nobody would write on purpose, drawn from strategies.
//!
//! An ordinary run takes the same few cases each time. `cargo xtask fuzz` goes on for as long as it is told to, from a
//! seed that it prints. Each case has a seed of its own, counted up from the first: the one that a failure names is the
//! first case of a run that starts with it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a run says how many cases it took")]

mod arguments;
mod json;
mod paths;
mod run;
mod tree;
mod work_state;

use std::time::Duration;

use run::Extent;

/// What `ZUNO_FUZZ_SECONDS` is without a value: as long as `cargo xtask fuzz --smoke`.
const SECONDS: u64 = 20;

/// Cases that ordinary tests try of each kind: a second or two of them.
const CASES: u64 = 24;

#[test]
fn arguments_of_any_shape_are_answered_with_the_name_of_the_field() {
    arguments::fuzz(Extent::cases(CASES * 4)).unwrap();
}

#[test]
fn a_turn_answers_arguments_of_any_shape_and_goes_on() {
    work_state::fuzz(Extent::cases(CASES)).unwrap();
}

#[test]
fn c6_no_tree_leads_a_file_tool_out_or_keeps_it_waiting() {
    paths::fuzz(Extent::cases(CASES)).unwrap();
}

#[test]
#[ignore = "takes the time it is given: cargo xtask fuzz"]
fn for_a_while() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("ZUNO_FUZZ_SEED").unwrap_or(1);
    let all = Duration::from_secs(number("ZUNO_FUZZ_SECONDS").unwrap_or(SECONDS));
    println!("from seed {first} for {} s", all.as_secs());
    // Trees have the most ways to go wrong.
    let runs = [
        arguments::fuzz(Extent::time(first, all * 3 / 10)),
        work_state::fuzz(Extent::time(first, all * 2 / 10)),
        paths::fuzz(Extent::time(first, all * 5 / 10)),
    ];
    let failures: Vec<_> = runs.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
