//! How hard random tests try.

use proptest::test_runner::Config;

/// This many cases, or as many as the environment's `PROPTEST_CASES` says: few at each change, many over night.
pub fn cases(cases: u32) -> Config {
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    if is_set { Config::default() } else { Config::with_cases(cases) }
}
