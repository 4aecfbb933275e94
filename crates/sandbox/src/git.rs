//! What git and Zuno would run or obey in a workspace: protected, so that a command cannot plant anything for the
//! moment when its user calls git.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Zuno's own directory in a workspace.
const ZUNO: &str = ".zuno";

/// What git obeys in a directory of its own: settings, programs to run, and where the rest of the repository is.
const OBEYED: [&str; 5] = ["config", "config.worktree", "hooks", "commondir", "gitdir"];

/// Of these, what an ordinary repository does without: who makes them means something by it.
const UNUSUAL: [&str; 2] = ["config.worktree", "commondir"];

/// Repositories of submodules and worktrees looked at. With more, all of them are protected as a whole, and commands
/// cannot commit in them.
const NESTED: usize = 64;

/// Directories between `modules` and a submodule's repository: the name of a submodule may hold slashes.
const NESTED_DEPTH: usize = 4;

/// Longest file that points somewhere: twice the longest path of a system.
const POINTER_BYTES: u64 = 8192;

/// What a workspace needs beside being writable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// Not to be written, although the workspace is.
    pub(crate) protected: Vec<PathBuf>,
    /// To be written, although outside the workspace.
    pub(crate) writable: Vec<PathBuf>,
}

/// Looks at a workspace. Only what exists can be protected.
pub(crate) fn guarded(workspace: &Path) -> Guarded {
    let mut guarded = Guarded::default();
    guarded.protected.extend(existing(workspace, &[ZUNO]));
    let git = workspace.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(found) if found.is_dir() => guarded.protected.extend(of_repository(&git)),
        Ok(found) if found.is_file() => {
            linked_worktree(&git, &mut guarded);
            guarded.protected.push(git);
        }
        Ok(_) | Err(_) => {}
    }
    guarded
}

/// What would be protected if it existed.
pub(crate) fn missing(workspace: &Path) -> Vec<PathBuf> {
    let git = workspace.join(".git");
    let mut expected = vec![workspace.join(ZUNO), git.clone()];
    if fs::symlink_metadata(&git).is_ok_and(|found| found.is_dir()) {
        expected.push(git.join("hooks"));
        expected.extend(UNUSUAL.map(|name| git.join(name)));
    }
    expected.retain(|path| fs::symlink_metadata(path).is_err());
    expected
}

fn existing(directory: &Path, names: &[&str]) -> Vec<PathBuf> {
    let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
    names.iter().map(|name| directory.join(name)).filter(is_there).collect()
}

/// A repository with those of its submodules and worktrees.
fn of_repository(git: &Path) -> Vec<PathBuf> {
    let mut protected = existing(git, &OBEYED);
    for nest in existing(git, &["modules", "worktrees"]) {
        let mut found = Vec::new();
        repositories(&nest, NESTED_DEPTH, &mut found);
        if found.len() > NESTED {
            protected.push(nest);
        } else {
            protected.extend(found.iter().flat_map(|nested| existing(nested, &OBEYED)));
        }
    }
    protected
}

/// Directories beneath this one that git takes for its own, one more than [`NESTED`] at most.
fn repositories(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if found.len() > NESTED || !fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        if path.join("HEAD").exists() {
            repositories(&path.join("modules"), depth.saturating_sub(1), found);
            found.push(path);
        } else if depth > 0 {
            repositories(&path, depth - 1, found);
        }
    }
}

/// A linked worktree keeps its index beside the repository it belongs to, and commits go there. Whether the `.git` file
/// tells the truth is for that repository to say, since a command could have written the file.
fn linked_worktree(git: &Path, guarded: &mut Guarded) {
    let Some(own) = told(git, Some("gitdir:")) else { return };
    let is_confirmed = told(&own.join("gitdir"), None).is_some_and(|back| back == git);
    let Some(common) = told(&own.join("commondir"), None).filter(|_| is_confirmed) else { return };
    guarded.writable.extend(existing(&common, &["objects", "refs", "logs"]));
    guarded.protected.extend(existing(&own, &OBEYED));
    guarded.writable.push(own);
    // Seen even if it lies where temporary files are.
    guarded.protected.push(common);
}

/// The path that a file of git holds on its first line.
fn told(file: &Path, key: Option<&str>) -> Option<PathBuf> {
    let is_small = |found: fs::Metadata| found.is_file() && found.len() < POINTER_BYTES;
    if !fs::metadata(file).is_ok_and(is_small) {
        return None;
    }
    // Should a pipe take its place in this moment, nobody waits for its other end.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
    let found = opened.metadata().ok()?;
    // Files of the kernel have no length, and some of them wait: beyond the length nothing is read.
    let length = found.len();
    let mut text = String::new();
    is_small(found).then(|| opened.take(length).read_to_string(&mut text))?.ok()?;
    let path = text.lines().next()?;
    let path = key.map_or(Some(path), |key| path.strip_prefix(key))?.trim();
    file.parent()?.join(path).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_pointer_without_end_keeps_nobody_waiting() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("own")).unwrap();
        fs::write(at(".git"), "gitdir: own\n").unwrap();
        let told_of = |name: &str| told(&at(name), None);
        fs::write(at("file"), "own\n").unwrap();
        assert_eq!(told_of("file"), at("own").canonicalize().ok());
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        for (name, target) in
            [("a", "pipe"), ("b", "/dev/zero"), ("c", "/proc/kmsg"), ("d", "/proc/self/stat")]
        {
            symlink(target, at(name)).unwrap();
            assert_eq!(told_of(name), None, "{target}");
        }
        symlink("/proc/kmsg", at("own/gitdir")).unwrap();
        let guarded = guarded(home.path());
        assert_eq!(guarded, Guarded { protected: vec![at(".git")], writable: Vec::new() });
    }
}
