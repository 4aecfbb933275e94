//! Where the repository of a workspace is, and that reading it reads nothing else.
//!
//! A repository is a folder full of pointers: a `.git` that is a file, `commondir`, symbolic links, borrowed objects.
//! What can be written beneath the workspace could make each of them point to a repository of somebody else. So a
//! pointer that leads out of the workspace counts only where the other end, which cannot be written from here, points
//! back.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use gix::bstr::ByteSlice as _;

use super::contents::Look;
use super::repository::{configured, explain};
use crate::plain_file;

/// Bytes of a file that holds one path, or a few; systems take no path longer than 4096.
const MAX_POINTER_BYTES: u64 = 64 * 1024;

/// Object stores that borrow from each other; git itself stops at five.
const MAX_ALTERNATES: usize = 5;

/// A repository that may be read.
#[derive(Debug)]
pub(super) struct Place {
    /// What belongs to this working tree.
    pub(super) git_dir: PathBuf,
    /// What all working trees share: the same, for most.
    pub(super) common_dir: PathBuf,
    /// The root of the working tree, at or above the workspace; none for a bare repository.
    pub(super) work_tree: Option<PathBuf>,
}

/// Finds the repository at or above a folder.
pub(super) fn find(root: &Path) -> Result<Place, String> {
    let uid = fs::metadata(root).map(|found| found.uid()).map_err(|error| failed(root, &error))?;
    for folder in root.ancestors() {
        let dot = folder.join(".git");
        let Ok(found) = fs::symlink_metadata(&dot) else { continue };
        // As git has it: in a folder that anybody can write, somebody else's repository is none of ours.
        if folder != root && found.uid() != uid {
            return Err(format!(
                "the repository {} belongs to another user than the workspace, so it is not read",
                dot.display()
            ));
        }
        let git_dir = if found.is_file() {
            Some(linked(root, folder, &dot)?)
        } else {
            inside(folder, &dot).map(Some).map_err(|outside| {
                format!(
                    ".git is a symbolic link to {}, outside of its working tree, which is refused; the user can make \
                     a linked working tree with `git worktree add` instead",
                    outside.display()
                )
            })?
        };
        if let Some(git_dir) = git_dir {
            return checked(root, git_dir, Some(folder.to_owned()));
        }
    }
    let is_bare = ["HEAD", "objects", "refs"].iter().all(|name| root.join(name).exists());
    if is_bare {
        return checked(root, root.to_owned(), None);
    }
    Err("the workspace is not in a git repository: there is no .git in it or above it".into())
}

/// Where a `.git` file points to, if the other end agrees.
fn linked(root: &Path, folder: &Path, dot: &Path) -> Result<PathBuf, String> {
    let text = read(dot)?.unwrap_or_default();
    let Some(target) = text.strip_prefix(b"gitdir:").map(|target| OsStr::from_bytes(target.trim())) else {
        return Err(format!(
            "{} is a file, but not one of git's: it does not begin with `gitdir:`",
            dot.display()
        ));
    };
    let target = folder.join(target);
    let git_dir = target.canonicalize().map_err(|_| {
        format!(".git points to {}, which does not exist; `git worktree repair` mends it", target.display())
    })?;
    if git_dir.starts_with(root) || is_working_tree_of(&git_dir, dot) || is_submodule_of(&git_dir, folder) {
        return Ok(git_dir);
    }
    Err(format!(
        ".git points to {}, outside the workspace, and that repository does not name {} as a working tree or submodule \
         of its own, so it is not read; `git worktree repair` mends a tree that was moved",
        git_dir.display(),
        folder.display()
    ))
}

/// `git worktree` keeps the path of the tree's `.git` in the repository.
fn is_working_tree_of(git_dir: &Path, dot: &Path) -> bool {
    let back = pointer(&git_dir.join("gitdir")).ok().flatten();
    let back = back.and_then(|back| git_dir.join(back).canonicalize().ok());
    back.is_some_and(|back| Some(back) == dot.canonicalize().ok())
}

/// A submodule's repository knows its folder by `core.worktree`.
fn is_submodule_of(git_dir: &Path, folder: &Path) -> bool {
    let is_modules = git_dir.components().any(|part| part == Component::Normal("modules".as_ref()));
    let named = is_modules.then(|| configured(git_dir, "core.worktree").ok().flatten()).flatten();
    let named = named.and_then(|named| git_dir.join(named).canonicalize().ok());
    named.is_some_and(|named| Some(named) == folder.canonicalize().ok())
}

/// Where a repository keeps what its working trees share.
pub(super) fn common_dir(git_dir: &Path) -> Result<PathBuf, String> {
    let pointed = git_dir.join("commondir");
    match pointer(&pointed)? {
        Some(common) => git_dir.join(common).canonicalize().map_err(|error| failed(&pointed, &error)),
        None => Ok(git_dir.to_owned()),
    }
}

/// Checks everything that reading the repository follows.
fn checked(root: &Path, git_dir: PathBuf, work_tree: Option<PathBuf>) -> Result<Place, String> {
    if !git_dir.is_dir() {
        return Err(format!("{} is no folder, so there is no repository in it", git_dir.display()));
    }
    let common_dir = common_dir(&git_dir)?;
    // What can be written from the workspace is not believed about what lies outside of it.
    if git_dir.starts_with(root) && !common_dir.starts_with(root) {
        return Err(format!(
            "{} shares the repository {}, outside the workspace, so it is not read",
            git_dir.display(),
            common_dir.display()
        ));
    }
    let mut look = Look::new(root, [root, &git_dir, &common_dir]);
    look.through(&git_dir, "")?;
    if common_dir != git_dir {
        look.through(&common_dir, "")?;
    }
    borrowed(&common_dir.join("objects"), &mut look)?;
    Ok(Place { git_dir, common_dir, work_tree })
}

/// Looks through the object stores that others borrow from, and refuses those outside.
fn borrowed(objects: &Path, look: &mut Look<'_>) -> Result<(), String> {
    let mut stores = vec![objects.to_owned()];
    for at in 0.. {
        let Some(store) = stores.get(at).cloned() else { break };
        if at > MAX_ALTERNATES {
            return Err(format!("the repository borrows objects from more than {MAX_ALTERNATES} others"));
        }
        if at > 0 {
            look.through(&store, "objects")?;
        }
        let list = store.join("info/alternates");
        let Some(text) = read(&list)? else { continue };
        for path in gix::odb::alternate::parse(&text).map_err(explain)? {
            // From the first store also in the list of another, as the library has it.
            let Ok(borrowed) = objects.join(path).canonicalize() else { continue };
            if !look.may_read(&borrowed) {
                return Err(format!(
                    "the repository borrows objects from {} (objects/info/alternates), outside the workspace, so it is \
                     not read; `git repack -a -d` and then removing that file makes it stand alone",
                    borrowed.display()
                ));
            }
            stores.push(borrowed);
        }
    }
    Ok(())
}

/// A folder that a path leads to, if it is beneath another. Nothing if there is none of git's.
fn inside(folder: &Path, path: &Path) -> Result<PathBuf, PathBuf> {
    let target = path.canonicalize().map_err(|_| path.to_owned())?;
    if target.starts_with(folder) { Ok(target) } else { Err(target) }
}

/// The path that a small file holds; nothing if there is no such file.
fn pointer(path: &Path) -> Result<Option<PathBuf>, String> {
    let Some(text) = read(path)? else { return Ok(None) };
    match text.trim_end() {
        b"" => Err(format!("the repository cannot be read: {} is empty", path.display())),
        text => Ok(Some(Path::new(OsStr::from_bytes(text)).to_owned())),
    }
}

/// The content of a small file that holds paths; nothing if there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match plain_file::read(path, MAX_POINTER_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

pub(super) fn failed(path: &Path, error: &io::Error) -> String {
    format!("the repository cannot be read: {}: {error}", path.display())
}
