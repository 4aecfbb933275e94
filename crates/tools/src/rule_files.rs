//! Files of ignore rules that can be read to their end.
//!
//! The library that walks a tree opens them by name, whatever they are. So each folder is looked at before the library
//! enters it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::plain_file;

/// Longest file of rules, and of a pointer of git: far beyond those that people write.
const MAX_BYTES: u64 = 1024 * 1024;

/// What the library reads in every folder.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];

/// What begins the text of a `.git` that is a file.
const POINTER: &[u8] = b"gitdir: ";

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
    let line = first_line(dot)?;
    let git_dir = Path::new(OsStr::from_bytes(line.strip_prefix(POINTER)?));
    let pointer = git_dir.join("commondir");
    if is_odd(&pointer) {
        return Some(pointer);
    }
    let line = first_line(&pointer)?;
    let common = Path::new(OsStr::from_bytes(&line));
    // Without a dot it is from where this process runs.
    exclude(&if line.starts_with(b".") { git_dir.join(common) } else { common.to_owned() })
}

fn is_odd(path: &Path) -> bool {
    plain_file::odd(path, MAX_BYTES).is_some()
}

/// As the library reads it: up to the end of the line.
fn first_line(path: &Path) -> Option<Vec<u8>> {
    let mut content = plain_file::read(path, MAX_BYTES).ok()?;
    content.truncate(content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len()));
    content.truncate(content.len() - usize::from(content.ends_with(b"\r")));
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
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
        let pointed = format!("gitdir: {}\n", fixture.path("pointed").display());
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
