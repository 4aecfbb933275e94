//! The turn at writing: an operating-system lock on a file beside the database.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::error::StoreError;

/// The lock file of a database: its name with `.lock` behind it. A link leads to the lock of the file it names, so that
/// all who write the file take the same lock.
pub(super) fn path_for(database: &Path) -> PathBuf {
    let real = database.canonicalize().unwrap_or_else(|_| database.to_owned());
    let mut name = real.into_os_string();
    name.push(".lock");
    PathBuf::from(name)
}

/// Opens the lock file; only its lock matters, never its content.
pub(super) fn open_file(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| StoreError::io(path, error))
}

/// A lock that is waited for on a thread of its own, so that a wait without end holds up neither the runtime nor
/// the end of the process.
pub(super) struct WriteLock {
    path: PathBuf,
    file: Arc<File>,
    requests: std_mpsc::Sender<()>,
    grants: mpsc::Receiver<io::Result<()>>,
    /// A request whose grant was not waited for to the end.
    is_pending: bool,
}

impl WriteLock {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let file = Arc::new(open_file(path)?);
        let (requests, requested) = std_mpsc::channel();
        let (granted, grants) = mpsc::channel(1);
        let waiter = Arc::clone(&file);
        std::thread::Builder::new()
            .name("zuno-store-lock".to_owned())
            .spawn(move || {
                while let Ok(()) = requested.recv() {
                    let outcome = waiter.lock();
                    if granted.blocking_send(outcome).is_err() {
                        // Nobody is left to use it. Closing the file would do the same once the last handle is gone.
                        waiter.unlock().ok();
                        break;
                    }
                }
            })
            .map_err(|error| StoreError::io(path, error))?;
        Ok(Self { path: path.to_owned(), file, requests, grants, is_pending: false })
    }

    /// Waits for the turn. After `Busy` the request stands, and the next call goes on waiting for it.
    pub(super) async fn acquire(&mut self, patience: Duration) -> Result<(), StoreError> {
        if !self.is_pending {
            self.requests.send(()).map_err(|_| StoreError::Closed)?;
            self.is_pending = true;
        }
        match tokio::time::timeout(patience, self.grants.recv()).await {
            Ok(Some(outcome)) => {
                self.is_pending = false;
                outcome.map_err(|error| StoreError::io(&self.path, error))
            }
            Ok(None) => Err(StoreError::Closed),
            Err(_) => Err(StoreError::Busy(patience.as_secs())),
        }
    }

    /// Gives the turn to the next.
    pub(super) fn release(&self) {
        if let Err(error) = self.file.unlock() {
            tracing::error!(%error, path = %self.path.display(), "the store's lock cannot be released");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PATIENCE;
    use super::*;

    #[tokio::test]
    async fn a_lock_that_came_too_late_is_used_by_the_next_who_asks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let holder = open_file(&path).unwrap();
        holder.lock().unwrap();
        let mut lock = WriteLock::open(&path).unwrap();
        let refused = lock.acquire(Duration::from_millis(1)).await;
        assert!(matches!(refused, Err(StoreError::Busy(_))), "{refused:?}");
        holder.unlock().unwrap();
        lock.acquire(PATIENCE).await.unwrap();
        assert!(matches!(holder.try_lock(), Err(std::fs::TryLockError::WouldBlock)));
        lock.release();
        holder.try_lock().unwrap();
    }
}
