//! What a crash leaves: the bytes of the database and of the workspace as they are at one commit.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::Timestamp;
use store::CommitSide;

use super::person::Act;

/// Bytes at the start of a write-ahead log that tell one filling of it from the next.
const WAL_HEADER: usize = 32;

/// The files of a workspace by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Everything that outlives a crash at one commit, and what the harness knows of that moment.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// The number of the commit, from 1.
    pub(crate) commit: usize,
    /// Whether the commit is in it.
    pub(crate) side: CommitSide,
    /// The database file.
    pub(crate) database: Arc<Vec<u8>>,
    /// Its write-ahead log.
    pub(crate) wal: Arc<Vec<u8>>,
    /// How much of the log there was.
    pub(crate) wal_bytes: usize,
    /// The workspace.
    pub(crate) files: Arc<Files>,
    /// The effects that had happened, by their tokens.
    pub(crate) journal: Arc<Vec<String>>,
    /// What the clock showed.
    pub(crate) now: Timestamp,
    /// What a person was asking for when the process died, and got no answer to.
    pub(crate) asking: Vec<Act>,
}

/// Takes images of a store while it is written. It keeps each database file once and each write-ahead log once, since a
/// log only grows until it is begun anew.
pub(crate) struct Camera {
    database_path: PathBuf,
    files: Option<(File, File)>,
    /// The files that were complete, and the last ones.
    rolls: Vec<Roll>,
    shots: Vec<Shot>,
}

struct Roll {
    database: Vec<u8>,
    wal: Vec<u8>,
}

struct Shot {
    roll: usize,
    wal_bytes: usize,
    image: Image,
}

impl Camera {
    /// A camera for the store in this file.
    pub(crate) fn new(database: &Path) -> Self {
        Self { database_path: database.to_owned(), files: None, rolls: Vec::new(), shots: Vec::new() }
    }

    /// Keeps what is there. `image` has all but the files of the store.
    pub(crate) fn take(&mut self, image: Image) {
        let wal_path = self.database_path.with_extension("db-wal");
        // Both stay open until the end: closing a file would drop the locks that SQLite holds on it in this process.
        let open = |path: &Path| File::open(path).unwrap();
        let (database, wal) = self.files.get_or_insert_with(|| (open(&self.database_path), open(&wal_path)));
        let wal_bytes = usize::try_from(wal.metadata().unwrap().len()).unwrap();
        let mut header = [0; WAL_HEADER];
        let header = &mut header[..wal_bytes.min(WAL_HEADER)];
        wal.read_exact_at(header, 0).unwrap();
        let goes_on = self.rolls.last().is_some_and(|roll| {
            !roll.wal.is_empty() && roll.wal.starts_with(header) && roll.wal.len() <= wal_bytes
        });
        if !goes_on {
            let bytes = usize::try_from(database.metadata().unwrap().len()).unwrap();
            self.rolls.push(Roll { database: read(database, 0, bytes), wal: Vec::new() });
        }
        let roll = self.rolls.len() - 1;
        let kept = &mut self.rolls[roll].wal;
        kept.extend(read(wal, kept.len(), wal_bytes - kept.len()));
        self.shots.push(Shot { roll, wal_bytes, image });
    }

    /// The images in order.
    pub(crate) fn develop(self) -> Vec<Image> {
        let rolls: Vec<_> =
            self.rolls.into_iter().map(|roll| (Arc::new(roll.database), Arc::new(roll.wal))).collect();
        let developed = self.shots.into_iter().map(|Shot { roll, wal_bytes, image }| {
            let (database, wal) = rolls[roll].clone();
            Image { database, wal, wal_bytes, ..image }
        });
        developed.collect()
    }
}

fn read(file: &File, from: usize, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    file.read_exact_at(&mut read, from as u64).unwrap();
    read
}

impl Image {
    /// Puts the store and the workspace where another process finds them.
    pub(crate) fn lay_out(&self, database: &Path, workspace: &Path) {
        fs::write(database, &*self.database).unwrap();
        fs::write(database.with_extension("db-wal"), &self.wal[..self.wal_bytes]).unwrap();
        for (name, content) in &*self.files {
            fs::write(workspace.join(name), content).unwrap();
        }
    }
}

/// The files of a workspace, which has no folders.
pub(crate) fn files_of(workspace: &Path) -> Files {
    let entries = fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap());
    let read =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    entries.map(read).collect()
}
