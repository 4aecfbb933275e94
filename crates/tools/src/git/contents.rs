//! That whatever the library opens in a repository is in a place that may be read, and has an end.
//!
//! The library opens what it looks for by name, whatever it is, and reads small files as a whole. So everything that it
//! could come across is looked at first.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::plain_file;

/// Entries of a repository that are looked at. `git gc` keeps far below it.
const MAX_ENTRIES: usize = 300_000;

/// Longest ref: one hash, or the name of another ref, which is a path.
const MAX_REF_BYTES: u64 = 64 * 1024;

/// Longest of what else is read as a whole: an index of two million files has that size.
const MAX_READ_BYTES: u64 = 256 * 1024 * 1024;

/// What the library has no business with. Of a user it may be full of links, and of much else.
const UNREAD: [&str; 4] = ["hooks", "modules", "lfs", "fsmonitor--daemon.ipc"];

/// A look at what a repository holds.
pub(super) struct Look<'a> {
    /// What can be written from here: only of that it matters where its links lead.
    root: &'a Path,
    /// What may be read.
    allowed: [&'a Path; 3],
    entries: usize,
    /// Folders that links led to.
    linked: HashSet<PathBuf>,
}

impl<'a> Look<'a> {
    pub(super) fn new(root: &'a Path, allowed: [&'a Path; 3]) -> Self {
        Self { root, allowed, entries: 0, linked: HashSet::new() }
    }

    pub(super) fn may_read(&self, path: &Path) -> bool {
        self.allowed.iter().any(|allowed| path.starts_with(allowed))
    }

    /// Looks at all of a folder, which has this name in a repository, and at what links in it lead to.
    pub(super) fn through(&mut self, dir: &Path, name: &str) -> Result<(), String> {
        let mut folders = vec![(dir.to_owned(), PathBuf::from(name))];
        while let Some((folder, name)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // Packed away meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && folder != dir => continue,
                Err(error) => return Err(super::place::failed(&folder, &error)),
            };
            for entry in entries.flatten() {
                let name = name.join(entry.file_name());
                if !UNREAD.iter().any(|unread| name == Path::new(unread)) {
                    folders.extend(self.at(&entry, name)?);
                }
            }
        }
        Ok(())
    }

    /// Looks at one entry. Gives the folder that is to be looked through because of it.
    fn at(&mut self, entry: &fs::DirEntry, name: PathBuf) -> Result<Option<(PathBuf, PathBuf)>, String> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err("the repository has too many files to look at; the user can run `git gc`".into());
        }
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { return Ok(None) };
        if kind.is_dir() {
            return Ok(Some((path, name)));
        }
        let longest = longest(&name);
        if kind.is_file() && longest == u64::MAX {
            return Ok(None);
        }
        let target = if kind.is_symlink() { self.target(&path)? } else { None };
        if let Some(odd) = plain_file::odd(&path, longest) {
            return Err(format!("{} is {odd}, so the repository is not read", path.display()));
        }
        Ok(target.filter(|target| target.is_dir() && self.linked.insert(target.clone())).map(|at| (at, name)))
    }

    /// Where a link leads, if it leads anywhere.
    fn target(&self, link: &Path) -> Result<Option<PathBuf>, String> {
        let target = link.canonicalize().ok();
        let leads_out = match &target {
            Some(target) => !self.may_read(target),
            // What a process holds open can be reached although it has no name.
            None => link.exists(),
        };
        if leads_out && link.starts_with(self.root) {
            return Err(format!(
                "{} leads outside the workspace, so the repository is not read",
                link.display()
            ));
        }
        Ok(target)
    }
}

/// How long a file may be. Objects are not read as a whole.
fn longest(name: &Path) -> u64 {
    if name.starts_with("refs") || name == Path::new("HEAD") {
        MAX_REF_BYTES
    } else if name.starts_with("objects") && !name.starts_with("objects/info") {
        u64::MAX
    } else {
        MAX_READ_BYTES
    }
}
