//! Where the repository of a workspace is, and that reading it reads nothing else.
//!
//! A repository is a folder full of pointers: a `.git` that is a file, `commondir`, symbolic links, borrowed objects.
//! What can be written beneath the workspace could make each of them point to a repository of somebody else. So a
//! pointer that leads out of the workspace counts only where the other end, which cannot be written from here, points
//! back.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Bytes of a file that holds one path, or a few; systems take no path longer than 4096.
const MAX_POINTER_BYTES: u64 = 64 * 1024;

/// Entries of a repository that are looked at for links. `git gc` keeps far below it.
const MAX_ENTRIES: usize = 300_000;

/// Object stores that borrow from each other; git itself stops at five.
const MAX_ALTERNATES: usize = 5;

/// A repository that may be read.
#[derive(Debug)]
pub(super) struct Place {
    /// What belongs to this working tree.
    pub(super) git_dir: PathBuf,
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
            return checked(root, Place { git_dir, work_tree: Some(folder.to_owned()) });
        }
    }
    let is_bare = ["HEAD", "objects", "refs"].iter().all(|name| root.join(name).exists());
    if is_bare {
        return checked(root, Place { git_dir: root.to_owned(), work_tree: None });
    }
    Err("the workspace is not in a git repository: there is no .git in it or above it".into())
}

/// Where a `.git` file points to, if the other end agrees.
fn linked(root: &Path, folder: &Path, dot: &Path) -> Result<PathBuf, String> {
    let text = pointer(dot).map_err(|error| failed(dot, &error))?;
    let Some(target) = text.strip_prefix("gitdir:").map(str::trim) else {
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
    let back = pointer(&git_dir.join("gitdir")).map(|back| git_dir.join(back));
    back.and_then(|back| back.canonicalize()).is_ok_and(|back| Some(back) == dot.canonicalize().ok())
}

/// A submodule's repository knows its folder by `core.worktree`.
fn is_submodule_of(git_dir: &Path, folder: &Path) -> bool {
    let is_modules = git_dir.components().any(|part| part == Component::Normal("modules".as_ref()));
    let named = super::repository::configured(git_dir, "core.worktree");
    let named = named.and_then(|named| git_dir.join(named).canonicalize().ok());
    is_modules && named.is_some_and(|named| Some(named) == folder.canonicalize().ok())
}

/// Checks everything that reading the repository follows.
fn checked(root: &Path, place: Place) -> Result<Place, String> {
    let git_dir = &place.git_dir;
    let common = match pointer(&git_dir.join("commondir")) {
        Ok(common) => git_dir.join(common).canonicalize().map_err(|error| failed(git_dir, &error))?,
        Err(_) => git_dir.clone(),
    };
    // What can be written from the workspace is not believed about what lies outside of it.
    if git_dir.starts_with(root) && !common.starts_with(root) {
        return Err(format!(
            "{} shares the repository {}, outside the workspace, so it is not read",
            git_dir.display(),
            common.display()
        ));
    }
    let allowed = [root, git_dir, &common];
    let mut entries = 0;
    for dir in [git_dir, &common] {
        if dir.starts_with(root) {
            no_links_out(dir, &allowed, &mut entries)?;
        }
    }
    no_borrowing(&common.join("objects"), &allowed)?;
    Ok(place)
}

/// Refuses symbolic links that leave the folders that may be read.
fn no_links_out(dir: &Path, allowed: &[&Path], entries: &mut usize) -> Result<(), String> {
    for entry in fs::read_dir(dir).map_err(|error| failed(dir, &error))?.flatten() {
        *entries += 1;
        if *entries > MAX_ENTRIES {
            return Err("the repository has too many files to look at; the user can run `git gc`".into());
        }
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_symlink() {
            let target = path.canonicalize();
            if target.is_ok_and(|target| !allowed.iter().any(|allowed| target.starts_with(allowed))) {
                return Err(format!(
                    "{} leads outside the workspace, so the repository is not read",
                    path.display()
                ));
            }
        } else if kind.is_dir() && !matches!(entry.file_name().to_str(), Some("hooks" | "modules" | "lfs")) {
            no_links_out(&path, allowed, entries)?;
        } else if !kind.is_dir() && !kind.is_file() && entry.file_name() != "fsmonitor--daemon.ipc" {
            return Err(format!(
                "{} is neither file nor folder, so the repository is not read",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Refuses object stores that borrow from outside.
fn no_borrowing(objects: &Path, allowed: &[&Path]) -> Result<(), String> {
    let mut stores = vec![objects.to_owned()];
    for at in 0.. {
        let Some(store) = stores.get(at).cloned() else { break };
        if at > MAX_ALTERNATES {
            return Err(format!("the repository borrows objects from more than {MAX_ALTERNATES} others"));
        }
        let Ok(list) = pointer(&store.join("info/alternates")) else { continue };
        for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let borrowed = store.join(line.trim_matches('"'));
            let borrowed = borrowed.canonicalize().unwrap_or(borrowed);
            let is_plain = !borrowed.components().any(|part| part == Component::ParentDir);
            if !is_plain || !allowed.iter().any(|allowed| borrowed.starts_with(allowed)) {
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

/// The text of a small file that holds paths.
fn pointer(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_POINTER_BYTES).read_to_string(&mut text)?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text)
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("the repository cannot be read: {}: {error}", path.display())
}
