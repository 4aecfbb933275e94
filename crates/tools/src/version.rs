//! What tells one state of a path from another, for whoever waits until it changes.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use domain::Digest;

use crate::workspace::{digest, digest_of, open_regular};

/// Bytes of a file that are read every few seconds: a hundredth of a second of work. Beyond, its metadata tells.
const MAX_READ_BYTES: u64 = 4 * 1024 * 1024;

/// Names of a directory that are read every few seconds, for the same reason.
const MAX_NAMES: usize = 10_000;

/// The version of what is at a path, links followed; `None` if there is nothing.
///
/// A file of usual size is what it contains, so that writing the same again is no change. A directory is the names in
/// it. What is too big for that, and what has no content, is what the file system says of it.
pub(crate) fn of(dir: &Dir, path: &Path) -> io::Result<Option<Digest>> {
    match look(dir, path) {
        Ok(version) => Ok(Some(version)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn look(dir: &Dir, path: &Path) -> io::Result<Digest> {
    let found = dir.metadata(path)?;
    if found.is_file() && found.len() <= MAX_READ_BYTES {
        // It may be growing.
        return digest(open_regular(dir, path)?.take(MAX_READ_BYTES));
    }
    let names = if found.is_dir() { names(&dir.open_dir(path)?)? } else { None };
    Ok(names.unwrap_or_else(|| stamp(&found)))
}

/// The digest of the sorted names; `None` if there are too many.
fn names(dir: &Dir) -> io::Result<Option<Digest>> {
    let mut names = Vec::new();
    for entry in dir.entries()? {
        if names.len() == MAX_NAMES {
            return Ok(None);
        }
        names.push(entry?.file_name());
    }
    names.sort_unstable();
    let mut listing = Vec::new();
    for name in names {
        listing.extend_from_slice(name.as_encoded_bytes());
        // No name holds it.
        listing.push(0);
    }
    Ok(Some(digest_of(&listing)))
}

fn stamp(found: &Metadata) -> Digest {
    let (changed, at) = (found.mtime(), found.mtime_nsec());
    digest_of(format!("{} {changed} {at} {} {}", found.len(), found.dev(), found.ino()).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, SystemTime};

    use runtime::Inspection as _;

    use super::*;
    use crate::fixture::Fixture;

    async fn version(fixture: &Fixture, path: &str) -> Option<Digest> {
        fixture.workspace.file_version(path).await.unwrap()
    }

    #[tokio::test]
    async fn a_file_is_its_content() {
        let fixture = Fixture::new();
        fixture.write("a/file", "one");
        let one = version(&fixture, "a/file").await;
        assert_eq!(one, Some(digest_of(b"one")));
        fixture.write("a/file", "two");
        assert_ne!(version(&fixture, "a/file").await, one);
        std::fs::remove_file(fixture.path("a/file")).unwrap();
        fixture.write("a/file", "one");
        assert_eq!(version(&fixture, "a/file").await, one);
        symlink("a/file", fixture.path("link")).unwrap();
        assert_eq!(version(&fixture, "link").await, one);
    }

    #[tokio::test]
    async fn nothing_is_none_and_outside_is_refused() {
        let fixture = Fixture::new();
        fixture.write("file", "");
        symlink("absent", fixture.path("dangling")).unwrap();
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        for path in ["none", "none/none", "file/none", "dangling"] {
            assert_eq!(version(&fixture, path).await, None, "{path}");
        }
        for path in ["../outside", "out", "out/x", "/etc/passwd"] {
            assert!(fixture.workspace.file_version(path).await.is_err(), "{path}");
        }
    }

    #[tokio::test]
    async fn looking_changes_nothing() {
        let fixture = Fixture::new();
        let leftover = crate::replacement::temporary_name("file", digest_of(b"new"));
        fixture.write(&leftover, "ne");
        fixture.write("file", "abc");
        version(&fixture, "file").await.unwrap();
        assert_eq!(fixture.names("."), [leftover.as_str(), "file"]);
    }

    #[tokio::test]
    async fn a_big_file_is_its_size_its_time_and_which_file_it_is() {
        let fixture = Fixture::new();
        let path = fixture.write("file", "");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let mut versions = Vec::new();
        for bytes in [MAX_READ_BYTES, MAX_READ_BYTES + 1, MAX_READ_BYTES + 2] {
            file.set_len(bytes).unwrap();
            file.set_modified(past).unwrap();
            versions.push(version(&fixture, "file").await);
        }
        assert_eq!(version(&fixture, "file").await, versions[2]);
        file.set_modified(past + Duration::from_micros(1)).unwrap();
        versions.push(version(&fixture, "file").await);
        std::fs::copy(&path, fixture.path("copy")).unwrap();
        let copy = std::fs::File::options().write(true).open(fixture.path("copy")).unwrap();
        copy.set_modified(past).unwrap();
        std::fs::rename(fixture.path("copy"), &path).unwrap();
        versions.push(version(&fixture, "file").await);
        for (index, version) in versions.iter().enumerate() {
            assert!(version.is_some() && !versions[..index].contains(version), "{index}");
        }
    }

    #[tokio::test]
    async fn a_directory_is_the_names_in_it() {
        let fixture = Fixture::new();
        fixture.write("dir/ab", "");
        fixture.write("dir/c", "");
        let before = version(&fixture, "dir").await;
        fixture.write("dir/c", "more");
        assert_eq!(version(&fixture, "dir").await, before);
        fixture.write("dir/d", "");
        let more = version(&fixture, "dir").await;
        assert!(before.is_some() && more.is_some() && more != before);
        std::fs::remove_file(fixture.path("dir/d")).unwrap();
        assert_eq!(version(&fixture, "dir").await, before);
        std::fs::rename(fixture.path("dir/ab"), fixture.path("dir/a")).unwrap();
        std::fs::rename(fixture.path("dir/c"), fixture.path("dir/bc")).unwrap();
        assert_ne!(version(&fixture, "dir").await, before);
        assert!(version(&fixture, ".").await.is_some());
    }

    #[tokio::test]
    async fn a_directory_of_very_many_names_still_notices_one_more() {
        let fixture = Fixture::new();
        for number in 0..=MAX_NAMES {
            fixture.write(&format!("dir/{number}"), "");
        }
        let dir = std::fs::File::open(fixture.path("dir")).unwrap();
        dir.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let before = version(&fixture, "dir").await;
        assert_eq!(version(&fixture, "dir").await, before);
        fixture.write("dir/more", "");
        assert_ne!(version(&fixture, "dir").await, before);
    }

    #[tokio::test]
    async fn a_socket_is_there_without_being_opened() {
        let fixture = Fixture::new();
        assert_eq!(version(&fixture, "socket").await, None);
        let _listener = UnixListener::bind(fixture.path("socket")).unwrap();
        assert!(version(&fixture, "socket").await.is_some());
    }
}
