//! Time as a port: the system's clock, or one that a test moves by hand.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use domain::Timestamp;
use tokio::sync::watch;

/// The longest sleep before the system's clock is read again: it may have been set, or the machine was asleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Tells the time and waits for it. One clock serves a store and everything that waits for what it holds.
#[async_trait]
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// Waits until [`now`](Self::now) is `at` or later.
    async fn until(&self, at: Timestamp);
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    async fn until(&self, at: Timestamp) {
        loop {
            let left = at.0.saturating_sub(self.now().0);
            match u64::try_from(left) {
                Ok(left @ 1..) => tokio::time::sleep(Duration::from_millis(left).min(LOOK_AGAIN)).await,
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { now: watch::Sender::new(start) }
    }

    /// Shows `at` from here on. Setting it back is allowed: real clocks do that too.
    pub fn set(&self, at: Timestamp) {
        self.now.send_replace(at);
    }

    /// Moves it forward and returns what it shows.
    pub fn advance_ms(&self, ms: i64) -> Timestamp {
        self.now.send_modify(|now| *now = now.plus_ms(ms));
        self.now()
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    async fn until(&self, at: Timestamp) {
        // The sender lives as long as `self`, so waiting cannot fail.
        self.now.subscribe().wait_for(|now| *now >= at).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_lets_waiters_go_when_it_is_moved() {
        let clock = std::sync::Arc::new(ManualClock::new(Timestamp(10)));
        clock.until(Timestamp(10)).await;
        let waiter = tokio::spawn({
            let clock = clock.clone();
            async move { clock.until(Timestamp(15)).await }
        });
        assert_eq!(clock.advance_ms(4), Timestamp(14));
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        clock.advance_ms(1);
        waiter.await.unwrap();
    }

    #[tokio::test]
    async fn the_system_clock_does_not_wait_for_the_past() {
        SystemClock.until(Timestamp(0)).await;
        assert!(SystemClock.now() > Timestamp(0));
    }
}
