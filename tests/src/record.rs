//! Records of files, to tell whether anything changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The state of everything outside, by name.
pub type Record = BTreeMap<String, String>;

/// What differs between two records.
pub fn difference(before: &Record, after: &Record) -> Vec<String> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let shown = |record: &Record, name: &str| record.get(name).map_or("nothing", String::as_str).to_owned();
    names
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| format!("{name}: {} became {}", shown(before, name), shown(after, name)))
        .collect()
}

/// Everything at and beneath a path: kind, mode, owner, links, size, times and content. A change of an attribute that is
/// not listed, such as an extended one, shows in the time of the last change.
pub fn record_tree(path: &Path, into: &mut Record) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let content = if found.is_file() {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    } else if found.is_symlink() {
        fs::read_link(path).unwrap_or_default().display().to_string()
    } else {
        String::new()
    };
    let line = format!(
        "mode {:o} of {}:{}, {} links, {} bytes, inode {}, written {}.{}, changed {}.{}, {content:?}",
        found.mode(),
        found.uid(),
        found.gid(),
        found.nlink(),
        found.size(),
        found.ino(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    );
    into.insert(path.display().to_string(), line);
    if found.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            record_tree(&entry.path(), into);
        }
    }
}
