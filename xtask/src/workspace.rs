//! What the checks look at: the checkout's text files and its package graph.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cargo_metadata::{Metadata, MetadataCommand};

use crate::error::Error;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
}

/// A text file of the checkout; `path` is relative to the root, with `/` between its parts.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn is_kind(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|it| it == extension)
    }
}

impl Workspace {
    pub(crate) fn find() -> Result<Self, Error> {
        // Read at run time: a path compiled in would go wrong when a checkout moves.
        let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).ok_or(Error::NotUnderCargo)?;
        let root = xtask.parent().map(Path::to_path_buf).ok_or(Error::NotUnderCargo)?;
        Ok(Self { root })
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Error> {
        let path = self.root.join(path);
        fs::read_to_string(&path).map_err(|source| Error::File { path, source })
    }

    /// Packages and targets; the dependency graph is not resolved, so this needs neither network nor lock file.
    pub(crate) fn metadata(&self) -> Result<Metadata, Error> {
        Ok(MetadataCommand::new().manifest_path(self.root.join("Cargo.toml")).no_deps().exec()?)
    }

    /// Tracked files and those that `git add` would take, so that a finding shows before the commit.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>, Error> {
        let command = "git ls-files --cached --others --exclude-standard -z";
        let output = Command::new("git")
            .args(command.split(' ').skip(1))
            .current_dir(&self.root)
            .output()
            .map_err(|source| Error::Start { command: command.to_owned(), source })?;
        if !output.status.success() {
            return Err(Error::Command { command: command.to_owned(), status: output.status.to_string() });
        }
        let mut paths: Vec<_> = output.stdout.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            let full = self.root.join(&*path);
            // A tracked file that was just deleted, a link and a binary file have no text to check.
            let is_file = fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file());
            if is_file
                && let Ok(text) = fs::read_to_string(&full)
                && !text.contains('\0')
            {
                files.push(TextFile { path: path.into_owned(), text });
            }
        }
        Ok(files)
    }
}
