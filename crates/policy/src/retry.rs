//! How long to wait before trying again (T9).

use domain::{Failure, FailureClass};

use crate::command::Jitter;

/// Attempts at one model request within a turn: a passing fault is over by then.
pub const ATTEMPTS_IN_PLACE: u32 = 4;
/// How long a turn may spend on attempts at one request; after that the wait belongs in the store.
pub const IN_PLACE_MS: i64 = 180_000;
/// The first wait, and the least that a provider's `Retry-After` is taken for.
const FIRST_MS: i64 = 2_000;
/// The longest wait: a provider that is back is noticed within five minutes.
const LONGEST_MS: i64 = 300_000;

/// The wait after the `attempt`-th failure in a row: 2 s doubled each time up to 300 s, moved by jitter; a
/// provider's `Retry-After` is honoured as it is, but not below 2 s.
pub(crate) fn delay_ms(attempt: u32, failure: &Failure, jitter: Jitter) -> i64 {
    if let Some(asked) = failure.retry_after_ms {
        return i64::try_from(asked).unwrap_or(i64::MAX).max(FIRST_MS);
    }
    // 2 s doubled eight times is past the longest wait.
    let doubled = FIRST_MS << attempt.saturating_sub(1).min(8);
    jitter.apply(doubled.min(LONGEST_MS))
}

/// The wait before the same request is sent again within its turn; `None` if the turn has to give up.
pub(crate) fn in_place_delay_ms(
    attempt: u32,
    failure: &Failure,
    elapsed_ms: i64,
    jitter: Jitter,
) -> Option<i64> {
    if failure.kind.class() != FailureClass::Retry || attempt >= ATTEMPTS_IN_PLACE {
        return None;
    }
    let delay = delay_ms(attempt, failure, jitter);
    (elapsed_ms.saturating_add(delay) <= IN_PLACE_MS).then_some(delay)
}

#[cfg(test)]
mod tests {
    use domain::FailureKind;

    use super::*;

    fn rate_limited(retry_after_ms: Option<u64>) -> Failure {
        Failure { retry_after_ms, ..Failure::new(FailureKind::RateLimited, "slow down") }
    }

    #[test]
    fn t9_the_wait_doubles_from_2_s_to_300_s_and_jitter_moves_it_by_a_fifth() {
        let waits: Vec<_> = (1..=10).map(|n| delay_ms(n, &rate_limited(None), Jitter::default())).collect();
        assert_eq!(waits, [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]);
        for random in 0..401 {
            let wait = delay_ms(3, &rate_limited(None), Jitter::from_random(random));
            assert!((6_400..=9_600).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn t9_retry_after_is_honoured_with_a_floor_of_2_s() {
        assert_eq!(delay_ms(1, &rate_limited(Some(700)), Jitter::from_random(0)), 2_000);
        assert_eq!(delay_ms(1, &rate_limited(Some(45_000)), Jitter::from_random(0)), 45_000);
        assert_eq!(delay_ms(1, &rate_limited(Some(900_000)), Jitter::from_random(0)), 900_000);
    }

    #[test]
    fn t9_a_request_is_tried_four_times_within_180_s_and_only_for_failures_that_pass() {
        let jitter = Jitter::default();
        assert_eq!(in_place_delay_ms(3, &rate_limited(None), 20_000, jitter), Some(8_000));
        assert_eq!(in_place_delay_ms(4, &rate_limited(None), 20_000, jitter), None);
        assert_eq!(in_place_delay_ms(1, &rate_limited(None), 179_000, jitter), None);
        assert_eq!(in_place_delay_ms(1, &rate_limited(Some(200_000)), 0, jitter), None);
        for kind in FailureKind::ALL {
            let again = in_place_delay_ms(1, &Failure::new(kind, ""), 0, jitter).is_some();
            assert_eq!(again, kind.class() == FailureClass::Retry, "{kind}");
        }
    }
}
