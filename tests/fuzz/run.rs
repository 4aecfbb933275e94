//! Case after case, each from a seed of its own, and the smallest one that fails.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Tries to make a failing case smaller: enough to read it, and an end also where each try waits for a hanging call.
const SHRINKS: u32 = 256;
const SHRINK_MS: u32 = 60_000;

/// Characters shown of a failing case. Its seed makes the whole again.
const SHOWN_CHARS: usize = 4_000;

/// A call that takes longer hangs. Those that end take milliseconds, also on a busy machine.
const HANGS: Duration = Duration::from_secs(20);

/// Which cases a run takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    first: u64,
    cases: u64,
    time: Duration,
}

impl Extent {
    /// So many, the same ones each time.
    pub(crate) const fn cases(cases: u64) -> Self {
        Self { first: 1, cases, time: Duration::MAX }
    }

    /// One at least, and more until the time is over.
    pub(crate) const fn time(first: u64, time: Duration) -> Self {
        Self { first, cases: u64::MAX, time }
    }
}

/// What is wrong with a case.
pub(crate) type Verdict = Result<(), String>;

/// Checks cases of a strategy; the check tells how many calls it made. Fails with the smallest case it finds, and how to
/// run it again.
pub(crate) fn run<S: Strategy>(
    name: &str,
    extent: Extent,
    strategy: &S,
    check: impl AsyncFn(S::Value) -> Result<u64, String>,
) -> Verdict
where
    S::Value: fmt::Debug,
{
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let done = run_in(&runtime, name, extent, strategy, check);
    // A thread that hangs does not keep the failure from being told.
    runtime.shutdown_background();
    done
}

fn run_in<S: Strategy>(
    runtime: &Runtime,
    name: &str,
    extent: Extent,
    strategy: &S,
    check: impl AsyncFn(S::Value) -> Result<u64, String>,
) -> Verdict
where
    S::Value: fmt::Debug,
{
    let began = Instant::now();
    let calls = std::cell::Cell::new(0);
    let mut cases = 0;
    while cases < extent.cases && (cases == 0 || began.elapsed() < extent.time) {
        let seed = extent.first.wrapping_add(cases);
        let mut runner = TestRunner::new_with_rng(config(), rng(seed));
        let tree = strategy.new_tree(&mut runner).map_err(|reason| format!("{name}: {reason}"))?;
        let test = |case| {
            let made = runtime.block_on(check(case)).map_err(TestCaseError::fail)?;
            calls.set(calls.get() + made);
            Ok(())
        };
        if let Err(failure) = runner.run_one(tree, test) {
            return Err(tell(name, seed, failure));
        }
        cases += 1;
    }
    println!("{name}: {cases} cases, {} calls, {:.1} s", calls.get(), began.elapsed().as_secs_f64());
    Ok(())
}

fn config() -> Config {
    // A seed keeps a case, so no file has to.
    Config {
        failure_persistence: None,
        max_shrink_iters: SHRINKS,
        max_shrink_time: SHRINK_MS,
        ..Config::default()
    }
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn tell<T: fmt::Debug>(name: &str, seed: u64, failure: TestError<T>) -> String {
    let (reason, case) = match failure {
        TestError::Fail(reason, case) => (reason.to_string(), format!("{case:?}")),
        TestError::Abort(reason) => (reason.to_string(), String::new()),
    };
    let shown = |text: &str| text.chars().take(SHOWN_CHARS).collect::<String>();
    format!(
        "{name}, seed {seed}: {}\nthe smallest case found: {}\nrun it again: cargo xtask fuzz --seed {seed}",
        shown(&reason),
        shown(&case)
    )
}

/// Runs one call to its end, on a thread of its own: one that blocks is found, and a panic is told like any fault.
pub(crate) async fn ends<T: Send + 'static>(
    what: &str,
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    match timeout(HANGS, tokio::spawn(call)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what} hangs")),
    }
}

#[test]
fn a_failing_case_is_made_small_and_names_its_seed() {
    let extent = Extent::time(40, Duration::from_mins(10));
    let failure = run("numbers", extent, &(0_u32..100_000), async |number| {
        if number >= 1_000 { Err(format!("{number} is too big")) } else { Ok(1) }
    });
    let told = failure.unwrap_err();
    assert!(told.contains("1000 is too big\nthe smallest case found: 1000\n"), "{told}");
    let seed = told.rsplit_once("\nrun it again: cargo xtask fuzz --seed ").unwrap().1.parse().unwrap();
    let again = run("numbers", Extent::time(seed, Duration::ZERO), &(0_u32..100_000), async |number| {
        if number >= 1_000 { Err(format!("{number} is too big")) } else { Ok(1) }
    });
    assert_eq!(again.unwrap_err(), told);
}

#[test]
fn a_panic_and_a_call_without_end_are_told() {
    let told = |hang: bool| {
        run("odd", Extent::cases(1), &proptest::strategy::Just(hang), async |hang| {
            let call = async move {
                assert!(!hang, "on purpose");
            };
            ends("a call", call).await.map(|()| 1)
        })
    };
    assert_eq!(told(false), Ok(()));
    assert!(told(true).unwrap_err().contains("panicked"), "a panic is not seen");
}
