//! What a model knows of files: the digests of those that tools showed it whole, or wrote for it.
//!
//! A workspace is opened for one turn, and so is this memory: it tells what a turn of one session saw, and never what
//! another session did. It is lost with the turn, and then `write_file` is bound by nothing but its own look.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::Digest;
use sha2::{Digest as _, Sha256};

/// The files by their path from the root, free of links. A turn makes a bounded number of calls, and each adds one.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<PathBuf, Digest>>);

impl Seen {
    /// The model was shown a file with this content.
    pub(crate) fn showed(&self, path: &Path, digest: Digest) {
        self.with(|files| files.insert(path.to_owned(), digest));
    }

    /// A tool replaced this content by that one. Who had seen another content still does not know the file.
    pub(crate) fn replaced(&self, path: &Path, before: Option<Digest>, after: Digest) {
        self.with(|files| {
            if files.get(path).is_none_or(|seen| Some(*seen) == before) {
                files.insert(path.to_owned(), after);
            }
        });
    }

    /// Whether the model saw this file with another content than it has.
    pub(crate) fn is_stale(&self, path: &Path, now: Digest) -> bool {
        self.with(|files| files.get(path).is_some_and(|seen| *seen != now))
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<PathBuf, Digest>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A reader that takes the digest of what passes through it.
pub(crate) struct Digesting<R> {
    inner: R,
    hasher: Sha256,
    is_at_end: bool,
}

impl<R: Read> Digesting<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), is_at_end: false }
    }

    /// The digest of the whole, if it was read to its end.
    pub(crate) fn digest(self) -> Option<Digest> {
        self.is_at_end.then(|| Digest(self.hasher.finalize().into()))
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.is_at_end |= read == 0 && !buffer.is_empty();
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}
