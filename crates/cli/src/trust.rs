//! What the user trusts: of each workspace, the project's file as it was when they said so (C9).
//!
//! There is one record a workspace, in the user's state folder, named by the digest of the workspace's path. It holds
//! the digest of the file and, to show later what changed, its text. Nothing of it lies in the workspace, where agents
//! write.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use domain::Digest;
use serde::{Deserialize, Serialize};

/// Bytes of a record: a configuration file of the largest size, with each character written as an escape of JSON.
const RECORD_BYTES: u64 = 8 << 20;

/// Bits of a record's mode that let others write it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Why trust cannot be told or recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// What is beneath the workspace an agent can write.
    #[error(
        "the folder of trust records, {}, lies in the workspace, where agents write: set XDG_STATE_HOME to a folder \
         outside of it", folder.display()
    )]
    InWorkspace {
        /// The folder.
        folder: PathBuf,
    },
    /// No home.
    #[error("there is no place for trust records: neither HOME nor XDG_STATE_HOME is set")]
    NoFolder,
    /// A record that is not as it was written.
    #[error("the trust record {} is damaged ({problem}); `zuno trust --remove` removes it", path.display())]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The disk.
    #[error("the trust record {}: {source}", path.display())]
    Io {
        /// Its file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A record as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The workspace, for people who look into the folder.
    workspace: String,
    /// The digest of the file that is trusted.
    sha256: String,
    /// Its text.
    text: String,
}

/// Where the records of a user are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustRecords {
    folder: Option<PathBuf>,
}

impl TrustRecords {
    /// The records beneath a state folder such as `~/.local/state`; without one nothing is trusted.
    pub(crate) fn beneath(state: Option<PathBuf>) -> Self {
        Self { folder: state.map(|state| state.join("zuno").join("trust")) }
    }

    /// The text that is trusted in a workspace, if any is.
    pub(crate) fn trusted(&self, workspace: &Path) -> Result<Option<String>, TrustError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let path = record_path(folder, workspace);
        let fault = |source| TrustError::Io { path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault(error)),
        };
        refuse_within(folder, workspace)?;
        let damaged = |problem: &str| TrustError::Damaged { path: path.clone(), problem: problem.to_owned() };
        if file.metadata().map_err(fault)?.permissions().mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(damaged("others can write it"));
        }
        let mut json = String::new();
        file.take(RECORD_BYTES).read_to_string(&mut json).map_err(fault)?;
        let record: Record = serde_json::from_str(&json).map_err(|error| damaged(&error.to_string()))?;
        if record.workspace != workspace.to_string_lossy() {
            return Err(damaged("it is of another workspace"));
        }
        if record.sha256 != digest(&record.text).to_string() {
            return Err(damaged("its text has another digest"));
        }
        Ok(Some(record.text))
    }

    /// Trusts this text in a workspace, in place of whatever was trusted there.
    pub(crate) fn trust(&self, workspace: &Path, text: &str) -> Result<(), TrustError> {
        let folder = self.folder.as_ref().ok_or(TrustError::NoFolder)?;
        let path = record_path(folder, workspace);
        let fault = |source| TrustError::Io { path: path.clone(), source };
        refuse_within(folder, workspace)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fault)?;
        // Once more: only what exists can be told apart from what a link makes of it.
        refuse_within(folder, workspace)?;
        let record = Record {
            workspace: workspace.to_string_lossy().into_owned(),
            sha256: digest(text).to_string(),
            text: text.to_owned(),
        };
        let json = serde_json::to_vec(&record).map_err(|error| fault(io::Error::other(error)))?;
        write_whole(&path, &json).map_err(fault)
    }

    /// Forgets what is trusted in a workspace. Tells whether anything was.
    pub(crate) fn remove(&self, workspace: &Path) -> Result<bool, TrustError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let path = record_path(folder, workspace);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TrustError::Io { path, source }),
        }
    }
}

/// What a text is bound to.
pub(crate) fn digest(text: &str) -> Digest {
    store::digest(text.as_bytes())
}

fn record_path(folder: &Path, workspace: &Path) -> PathBuf {
    folder.join(format!("{}.json", store::digest(workspace.as_os_str().as_bytes())))
}

/// Refuses a folder beneath the workspace, whichever links lead to it.
fn refuse_within(folder: &Path, workspace: &Path) -> Result<(), TrustError> {
    let real = folder.ancestors().find_map(|folder| folder.canonicalize().ok());
    if folder.starts_with(workspace) || real.is_some_and(|real| real.starts_with(workspace)) {
        return Err(TrustError::InWorkspace { folder: folder.to_owned() });
    }
    Ok(())
}

/// Puts a file in place as a whole: a reader finds the old one or this one, also after a crash.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = (|| {
        // A leftover of a process that died with this number.
        fs::remove_file(&temporary).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // What could not be put in place is of no use; the error tells why.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home {
        folder: tempfile::TempDir,
    }

    impl Home {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("work")).unwrap();
            Self { folder }
        }

        fn workspace(&self) -> PathBuf {
            self.folder.path().join("work").canonicalize().unwrap()
        }

        fn records(&self, beneath: &str) -> TrustRecords {
            TrustRecords::beneath(Some(self.folder.path().join(beneath)))
        }

        fn record(&self) -> PathBuf {
            record_path(&self.folder.path().join("state/zuno/trust"), &self.workspace())
        }
    }

    #[test]
    fn c9_trust_is_for_one_text_of_one_workspace_until_it_is_removed() {
        let home = Home::new();
        let (records, work) = (home.records("state"), home.workspace());
        assert_eq!(records.trusted(&work).unwrap(), None);
        assert!(!records.remove(&work).unwrap());
        records.trust(&work, "a = 1").unwrap();
        records.trust(&work, "a = 2").unwrap();
        assert_eq!(records.trusted(&work).unwrap().as_deref(), Some("a = 2"));
        assert_eq!(records.trusted(home.folder.path()).unwrap(), None);
        assert!(records.remove(&work).unwrap());
        assert_eq!(records.trusted(&work).unwrap(), None);
    }

    #[test]
    fn c9_a_record_is_the_users_alone_and_whole() {
        let home = Home::new();
        let (records, work) = (home.records("state"), home.workspace());
        records.trust(&work, "a = 1").unwrap();
        let record = home.record();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&record), mode(record.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(record.parent().unwrap()).unwrap().count(), 1);
        // Opened to others, it says nothing any more.
        fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(records.trusted(&work), Err(TrustError::Damaged { .. })));
    }

    #[test]
    fn c9_a_record_that_was_tampered_with_is_damaged() {
        let home = Home::new();
        let (records, work) = (home.records("state"), home.workspace());
        records.trust(&work, "a = 1").unwrap();
        let written = fs::read_to_string(home.record()).unwrap();
        for tampered in [
            written.replace("a = 1", "a = 2"),
            written.replace("/work\"", "/other\""),
            written.replace("\"text\"", "\"more\":1,\"text\""),
            written[..written.len() / 2].to_owned(),
            String::new(),
        ] {
            assert_ne!(tampered, written);
            fs::write(home.record(), &tampered).unwrap();
            assert!(matches!(records.trusted(&work), Err(TrustError::Damaged { .. })), "{tampered}");
        }
    }

    #[test]
    fn c9_records_in_the_workspace_are_neither_written_nor_believed() {
        let home = Home::new();
        let work = home.workspace();
        home.records("state").trust(&work, "a = 1").unwrap();
        fs::rename(home.folder.path().join("state"), work.join("state")).unwrap();
        std::os::unix::fs::symlink(work.join("state"), home.folder.path().join("link")).unwrap();
        for beneath in ["work/state", "link"] {
            let records = home.records(beneath);
            assert!(matches!(records.trusted(&work), Err(TrustError::InWorkspace { .. })), "{beneath}");
            assert!(
                matches!(records.trust(&work, "a = 2"), Err(TrustError::InWorkspace { .. })),
                "{beneath}"
            );
        }
        let nowhere = TrustRecords::beneath(None);
        assert!(matches!(nowhere.trust(&work, "a = 1"), Err(TrustError::NoFolder)));
        assert_eq!(nowhere.trusted(&work).unwrap(), None);
    }
}
