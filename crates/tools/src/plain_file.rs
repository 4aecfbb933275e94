//! Files that can be read to their end.
//!
//! What is opened by a name that somebody else wrote may be anything: a pipe would keep the reader waiting for ever, and
//! a link to a device would fill the memory.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// How a file is opened that may have become something else: without waiting for the other end of a pipe, and
/// without taking a terminal.
pub(crate) const OPENED: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Why a file cannot be read to its end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Odd {
    #[error("neither file nor folder")]
    Special,
    #[error("a link to a file without a length, as those of the kernel are")]
    Endless,
    #[error("longer than {0} bytes")]
    Long(u64),
}

/// What is odd about what a path leads to. A folder is not, since it cannot be read at all, nor is what does not exist.
pub(crate) fn odd(path: &Path, max_bytes: u64) -> Option<Odd> {
    let found = fs::metadata(path).ok()?;
    if found.is_dir() {
        return None;
    }
    // Files of the kernel have no length, and some of them wait.
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    refuse(&found, max_bytes).err().or_else(|| (found.len() == 0 && is_link()).then_some(Odd::Endless))
}

fn refuse(found: &Metadata, max_bytes: u64) -> Result<(), Odd> {
    if !found.is_file() {
        return Err(Odd::Special);
    }
    if found.len() > max_bytes { Err(Odd::Long(max_bytes)) } else { Ok(()) }
}

/// The content of a file that is not odd.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    if let Some(odd) = odd(path, max_bytes) {
        return Err(io::Error::other(odd));
    }
    let file = File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OPENED, Mode::empty())?);
    // Something else may have taken its place meanwhile, and of that nothing beyond its length is read either.
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    refuse(&found, max_bytes).map_err(io::Error::other)?;
    let mut content = Vec::new();
    file.take(found.len()).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_file_is_read_and_what_has_no_end_is_odd() {
        let fixture = Fixture::new();
        let check = |name: &str, expected: Result<&str, Odd>| {
            let path = fixture.path(name);
            let content = read(&path, 5).map_err(|error| error.downcast::<Odd>().unwrap());
            assert_eq!(content, expected.map(|text| text.as_bytes().to_vec()), "{name}");
            assert_eq!(odd(&path, 5), content.err(), "{name}");
        };
        let link = |name: &str, target: &str| symlink(target, fixture.path(name)).unwrap();
        fixture.write("file", "12345");
        fixture.write("empty", "");
        fixture.write("long", "123456");
        assert!(std::process::Command::new("mkfifo").arg(fixture.path("pipe")).status().unwrap().success());
        drop(UnixListener::bind(fixture.path("socket")).unwrap());
        link("link", "file");
        link("link to a pipe", "pipe");
        link("device", "/dev/zero");
        link("kernel", "/proc/self/mem");
        check("file", Ok("12345"));
        check("empty", Ok(""));
        check("link", Ok("12345"));
        check("long", Err(Odd::Long(5)));
        check("pipe", Err(Odd::Special));
        check("socket", Err(Odd::Special));
        check("link to a pipe", Err(Odd::Special));
        check("device", Err(Odd::Special));
        check("kernel", Err(Odd::Endless));
        for (name, kind) in [("none", io::ErrorKind::NotFound), (".", io::ErrorKind::IsADirectory)] {
            assert_eq!(odd(&fixture.path(name), 5), None, "{name}");
            assert_eq!(read(&fixture.path(name), 5).unwrap_err().kind(), kind, "{name}");
        }
    }

    #[test]
    fn a_pipe_that_takes_the_place_of_a_file_keeps_nobody_waiting() {
        let fixture = Fixture::new();
        assert!(std::process::Command::new("mkfifo").arg(fixture.path("pipe")).status().unwrap().success());
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                for _ in 0..1_000 {
                    fixture.write("new", "text");
                    fs::rename(fixture.path("new"), fixture.path("file")).unwrap();
                    fs::hard_link(fixture.path("pipe"), fixture.path("new")).unwrap();
                    fs::rename(fixture.path("new"), fixture.path("file")).unwrap();
                }
            });
            fixture.write("file", "");
            while !swapping.is_finished() {
                if let Ok(content) = read(&fixture.path("file"), 5) {
                    assert!(matches!(content.as_slice(), b"" | b"text"));
                }
            }
        });
    }
}
