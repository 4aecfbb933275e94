//! Files of ignore rules that can be read to their end.
//!
//! The library that walks a tree opens them by name, whatever they are: a pipe in their place would keep it waiting for
//! ever, and a link to a device would fill the memory. So each folder is looked at before the library enters it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Longest file of rules, and of a pointer of git: far beyond those that people write.
const MAX_BYTES: u64 = 1024 * 1024;

/// What the library reads in every folder.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];

/// What begins the text of a `.git` that is a file.
const POINTER: &str = "gitdir: ";

/// The first of a folder's rule files that cannot be read like a file, if there is one.
pub(crate) fn odd_one_in(folder: &Path) -> Option<PathBuf> {
    let own = NAMES.iter().map(|name| folder.join(name)).find(|path| is_odd(path));
    own.or_else(|| odd_one_of_git(&folder.join(".git")))
}

/// The same for what the library reads of a repository, by the way that it takes to it.
fn odd_one_of_git(dot: &Path) -> Option<PathBuf> {
    let exclude = |dir: &Path| Some(dir.join("info/exclude")).filter(|path| is_odd(path));
    if !fs::metadata(dot).is_ok_and(|found| found.is_file()) {
        return exclude(dot);
    }
    if is_odd(dot) {
        return Some(dot.to_owned());
    }
    let git_dir = PathBuf::from(first_line(dot)?.strip_prefix(POINTER)?);
    let pointer = git_dir.join("commondir");
    if is_odd(&pointer) {
        return Some(pointer);
    }
    exclude(&git_dir.join(first_line(&pointer)?))
}

/// Whether it is there and may have no end. A link to an empty file counts: files of the kernel have no length, and
/// some of them wait.
fn is_odd(path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    fs::metadata(path).is_ok_and(|found| {
        let is_plain = found.is_file() && found.len() <= MAX_BYTES && (found.len() > 0 || !is_link);
        // A folder cannot be read at all, so nothing waits for it.
        !is_plain && !found.is_dir()
    })
}

fn first_line(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?.take(MAX_BYTES);
    BufReader::new(file).lines().next()?.ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn what_can_be_read_is_plain_and_what_has_no_end_is_odd() {
        let fixture = Fixture::new();
        let odd_one = |folder: &str| {
            let found = odd_one_in(&fixture.path(folder))?;
            Some(found.strip_prefix(fixture.root()).unwrap().display().to_string())
        };
        let pointed = format!("{POINTER}{}\n", fixture.path("pointed").display());
        fixture.write("plain/.gitignore", "");
        fixture.write("plain/.git/info/exclude", "x\n");
        fixture.write("rules", "x\n");
        symlink(fixture.path("rules"), fixture.path("plain/.ignore")).unwrap();
        fixture.write("tree/.git", &pointed);
        fixture.write("pointed/commondir", "../common\n");
        fixture.write("common/info/exclude", "x\n");
        for folder in ["plain", "tree", "absent"] {
            assert_eq!(odd_one(folder), None, "{folder}");
        }
        for (folder, name, target) in [
            ("device", ".ignore", "/dev/zero"),
            ("kernel", ".gitignore", "/proc/self/mem"),
            ("excluded", ".git/info/exclude", "/dev/zero"),
        ] {
            fixture.write(&format!("{folder}/.git/info/x"), "");
            symlink(target, fixture.path(&format!("{folder}/{name}"))).unwrap();
            assert_eq!(odd_one(folder), Some(format!("{folder}/{name}")));
        }
        File::create(fixture.write("huge/.ignore", "")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(odd_one("huge").as_deref(), Some("huge/.ignore"));
        std::fs::remove_file(fixture.path("common/info/exclude")).unwrap();
        symlink("/dev/zero", fixture.path("common/info/exclude")).unwrap();
        assert!(
            odd_one("tree").is_some_and(|odd| odd.ends_with("common/info/exclude")),
            "{:?}",
            odd_one("tree")
        );
        std::fs::remove_file(fixture.path("pointed/commondir")).unwrap();
        symlink("/dev/zero", fixture.path("pointed/commondir")).unwrap();
        assert_eq!(odd_one("tree").as_deref(), Some("pointed/commondir"));
    }
}
