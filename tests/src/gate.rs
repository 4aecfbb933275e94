//! A place where something under test waits until the test lets it go on: order without sleeping.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long either side waits before it says that the other never came: a broken test must not hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gate with two sides. All clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    /// Says that it is here and waits to be let through. For what is under test.
    pub async fn pass(&self) {
        self.arrived.add_permits(1);
        let opened = timeout(PATIENCE, self.opened.acquire()).await;
        opened.expect("nobody opened the gate").unwrap().forget();
    }

    /// Waits for the next one to be here. For the test.
    pub async fn arrival(&self) {
        let arrived = timeout(PATIENCE, self.arrived.acquire()).await;
        arrived.expect("nobody came to the gate").unwrap().forget();
    }

    /// Lets one through: who waits, or who comes next. For the test.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }
}
