//! The project's file of one workspace: what of it counts, and what is said of the rest (C9).

use std::path::{Path, PathBuf};

use super::file::{self, ProjectFile, UserFile};
use super::permissions::Owner;
use super::{ConfigError, project_path};
use crate::trust::{TrustError, TrustRecords};

/// Parts of a file that a message names one by one: it is to stay a line or two.
const NAMED: usize = 10;

/// A project's file, read once: what is compared with the trust record is what is parsed.
#[derive(Debug)]
pub(crate) struct Project {
    path: PathBuf,
    text: Option<String>,
    file: Option<ProjectFile>,
    trusted: Result<Option<String>, TrustError>,
}

impl Project {
    /// Reads the file of a workspace and what the user said of it.
    pub(super) fn read(workspace: &Path, records: &TrustRecords) -> Result<Self, ConfigError> {
        let path = project_path(workspace);
        let text = file::read(&path)?;
        let file = text.as_deref().map(|text| ProjectFile::parse(&path, text)).transpose()?;
        // A record is of a folder, whatever it is called.
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        Ok(Self { path, text, file, trusted: records.trusted(&workspace) })
    }

    /// Where the file is, or would be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's text, if there is one.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The text that the user trusts, whether or not the file has it.
    pub(crate) fn trusted_text(&self) -> Option<&str> {
        self.trusted.as_ref().ok()?.as_deref()
    }

    /// Whether the file is, byte for byte, what the user trusts.
    pub(crate) fn is_trusted(&self) -> bool {
        self.text.is_some() && self.trusted_text() == self.text()
    }

    /// Whether it cannot be told what the user trusts.
    pub(crate) const fn trust_is_broken(&self) -> bool {
        self.trusted.is_err()
    }

    /// What in the file counts only if the user trusts it.
    pub(crate) fn wide(&self) -> &[String] {
        self.file.as_ref().map_or(&[], |file| &file.wide)
    }

    /// What narrows.
    pub(super) fn into_narrowing(self) -> Option<ProjectFile> {
        self.file
    }

    /// The whole file, if the user trusts it.
    pub(super) fn trusted_file(&self) -> Result<Option<UserFile>, ConfigError> {
        if self.is_trusted() { self.as_trusted() } else { Ok(None) }
    }

    /// The whole file as it would count if it was trusted.
    fn as_trusted(&self) -> Result<Option<UserFile>, ConfigError> {
        let Some(text) = &self.text else { return Ok(None) };
        UserFile::parse(&self.path, text, Owner::TrustedProject).map(Some)
    }

    /// Whether trusting the file would give a configuration that can be read.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.as_trusted().map(drop)
    }

    /// What the user has to know about the file: that some of it is ignored, or that it is not the one they trusted.
    pub(crate) fn notice(&self) -> Option<String> {
        let path = self.path.display();
        let ignored = match self.wide() {
            [] => String::new(),
            wide => format!(", so this is ignored: {}", named(wide)),
        };
        match &self.trusted {
            Ok(Some(_)) if self.is_trusted() => None,
            Ok(Some(_)) if self.text.is_none() => {
                Some(format!("{path}, which you trusted, is gone; `zuno trust --remove` forgets it"))
            }
            Ok(Some(_)) => Some(format!(
                "{path} has changed since you trusted it{ignored}; `zuno trust` shows what changed"
            )),
            // Without a record nothing can have changed, and nothing is ignored either.
            Ok(None) | Err(TrustError::InWorkspace { .. }) if ignored.is_empty() => None,
            Ok(None) => Some(format!("{path} is not trusted{ignored}; `zuno trust` shows it and asks you")),
            Err(error) => Some(format!("{error}{ignored}")),
        }
    }
}

/// The names of parts, and how many more there are.
pub(crate) fn named(parts: &[String]) -> String {
    let shown = parts.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match parts.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
