//! The files beneath one directory, and no others.
//!
//! Every access goes through a handle on the root directory and is resolved by the kernel beneath it, in one step with
//! the opening. So neither `..`, an absolute path, a symbolic link nor a link swapped in after a check leads out.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt as _};
use domain::Digest;
use runtime::{Inspection, ToolFault};
use sha2::{Digest as _, Sha256};

use crate::call::look;
use crate::plain_file::OPENED;
use crate::replacement;
use crate::seen::Seen;
use crate::version;

/// Bytes read at a time. A stop is noticed between two reads.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Longest path that is looked at; systems take no longer ones, and messages repeat the path.
const MAX_PATH_BYTES: usize = 4096;

/// A directory that tools work in and cannot leave.
#[derive(Debug)]
pub struct Workspace {
    /// Without symbolic links: it prefixes what the kernel calls the files beneath it.
    root: PathBuf,
    /// As it was named when opened, since models are told this name and repeat it.
    named: PathBuf,
    dir: Dir,
    seen: Seen,
}

/// Why a directory cannot be a workspace.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the workspace {path}: {source}")]
pub struct WorkspaceError {
    path: PathBuf,
    source: io::Error,
}

impl Workspace {
    /// Opens an existing directory.
    pub fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let failed = |source| WorkspaceError { path: root.to_owned(), source };
        let named = std::path::absolute(root).map_err(failed)?;
        let canonical = root.canonicalize().map_err(failed)?;
        let dir = Dir::open_ambient_dir(&canonical, cap_std::ambient_authority()).map_err(failed)?;
        Ok(Self { root: canonical, named, dir, seen: Seen::default() })
    }

    /// The root directory, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The handle that every access starts from.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// What the model of this turn knows of the files.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The path as it reads from the root: absolute paths beneath the root are made relative, everything else that
    /// is visibly outside is refused. Looks at nothing; links are followed, or refused, when the path is used.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, ToolFault> {
        if path.is_empty() {
            return Err(ToolFault::Refused(
                "the path is empty: name a file or directory beneath the workspace".into(),
            ));
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(ToolFault::Refused(format!("the path is longer than {MAX_PATH_BYTES} bytes")));
        }
        let asked = Path::new(path);
        let beneath = if asked.is_absolute() {
            // A `..` behind the prefix is caught below, like any other.
            asked.strip_prefix(&self.root).or_else(|_| asked.strip_prefix(&self.named)).map_err(|_| {
                ToolFault::Refused(format!(
                    "{path} is outside the workspace {}: give a path beneath it",
                    self.root.display()
                ))
            })?
        } else {
            asked
        };
        let mut relative = PathBuf::new();
        for component in beneath.components() {
            match component {
                Component::Normal(name) => relative.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(ToolFault::Refused(format!(
                        "{path} contains `..`: write the path from the workspace root {} without it",
                        self.root.display()
                    )));
                }
            }
        }
        if relative.as_os_str().is_empty() {
            relative.push(".");
        }
        Ok(relative)
    }

    /// What is at a path, links followed.
    pub(crate) fn metadata(&self, path: &Path) -> Result<Metadata, String> {
        self.dir.metadata(path).map_err(|error| explain(path, &error))
    }

    /// Where a path leads, free of links. It exists.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        self.dir.canonicalize(path).map_err(|error| explain(path, &error))
    }

    /// Where a path leads, if it leads to anything beneath the root, else the path itself. What a call that looks is
    /// judged by and then looks at: a link is no way around a permission rule.
    pub(crate) async fn followed(self: &Arc<Self>, path: PathBuf) -> Result<PathBuf, ToolFault> {
        let workspace = Arc::clone(self);
        look(move || Ok(workspace.resolve(&path).unwrap_or(path))).await
    }

    /// What an inspection goes by.
    fn inspected(&self, path: &str) -> io::Result<(Dir, PathBuf)> {
        let relative = self
            .relative(path)
            .map_err(|fault| io::Error::new(io::ErrorKind::PermissionDenied, fault.to_string()))?;
        Ok((self.dir.try_clone()?, relative))
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &Path) -> Result<File, String> {
        open_regular(&self.dir, path).map_err(|error| explain(path, &error))
    }
}

/// Opens a regular file for reading. Anything else is refused: a directory has no content, and opening a pipe or a
/// device can block for ever or do something.
pub(crate) fn open_regular(dir: &Dir, path: &Path) -> io::Result<File> {
    let refuse_others = |found: &Metadata| {
        if found.is_dir() {
            Err(io::ErrorKind::IsADirectory.into())
        } else if found.is_file() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    };
    refuse_others(&dir.metadata(path)?)?;
    // Should something else take its place in this moment, that is not waited for either.
    let file =
        dir.open_with(path, OpenOptions::new().read(true).custom_flags(OPENED.bits().cast_signed()))?;
    refuse_others(&file.metadata()?)?;
    Ok(file)
}

/// An I/O error as a text for the model, with what to do about it.
pub(crate) fn explain(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        // The refusal of the library has no error code of the system, a refusal by permission bits has one.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            format!("{path} leads outside the workspace through a symbolic link, which is refused")
        }
        io::ErrorKind::NotFound => format!("{path} does not exist; list_dir and glob show what does"),
        io::ErrorKind::NotADirectory => format!("{path} does not exist: a part of it is not a directory"),
        io::ErrorKind::IsADirectory => format!("{path} is a directory; list_dir shows what it holds"),
        _ => format!("{path}: {error}"),
    }
}

/// The digest of everything a reader gives.
pub(crate) fn digest(mut reader: impl Read) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(Digest(hasher.finalize().into())),
            Ok(read) => hasher.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The digest of a content.
pub(crate) fn digest_of(content: &[u8]) -> Digest {
    Digest(Sha256::digest(content).into())
}

#[async_trait]
impl Inspection for Workspace {
    async fn file_digest(&self, path: &str) -> io::Result<Option<Digest>> {
        let (dir, relative) = self.inspected(path)?;
        tokio::task::spawn_blocking(move || {
            replacement::remove_leftovers(&dir, &relative)?;
            match open_regular(&dir, &relative) {
                Ok(file) => digest(file).map(Some),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                {
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })
        .await?
    }

    async fn file_version(&self, path: &str) -> io::Result<Option<Digest>> {
        let (dir, relative) = self.inspected(path)?;
        tokio::task::spawn_blocking(move || version::of(&dir, &relative)).await?
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_file_cannot_be_a_workspace() {
        let fixture = Fixture::new();
        let file = fixture.write("file", "");
        let error = Workspace::open(&file).unwrap_err().to_string();
        assert!(error.starts_with("cannot open the workspace"), "{error}");
        assert!(Workspace::open(&fixture.path("absent")).is_err());
    }

    #[test]
    fn paths_read_from_the_root() {
        let fixture = Fixture::new();
        let link = fixture.outside().join("link");
        symlink(fixture.root(), &link).unwrap();
        let workspace = Workspace::open(&link).unwrap();
        let check = |path: &str, expected: &str| {
            assert_eq!(workspace.relative(path).unwrap(), Path::new(expected), "{path}");
        };
        check("a/b.rs", "a/b.rs");
        check("./a//b.rs/", "a/b.rs");
        check(".", ".");
        check(&link.join("a.rs").to_string_lossy(), "a.rs");
        check(&fixture.path("a.rs").to_string_lossy(), "a.rs");
        check(&fixture.root().to_string_lossy(), ".");
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        let fixture = Fixture::new();
        let sibling = format!("{}-sibling/file", fixture.root().display());
        let behind = format!("{}/../x", fixture.root().display());
        let long = "a/".repeat(3000);
        for path in
            [long.as_str(), "", "..", "../x", "a/../../x", "a/../b", "/", "/etc/passwd", &sibling, &behind]
        {
            assert!(fixture.workspace.relative(path).is_err(), "{path}");
        }
    }

    #[test]
    fn links_that_lead_out_are_refused_and_links_inside_are_followed() {
        let fixture = Fixture::new();
        std::fs::write(fixture.outside().join("secret"), "secret").unwrap();
        fixture.write("inside/file", "text");
        symlink(fixture.outside(), fixture.path("dir")).unwrap();
        symlink(fixture.outside().join("secret"), fixture.path("file")).unwrap();
        symlink("../outside/secret", fixture.path("up")).unwrap();
        symlink("/proc/self/root/etc/passwd", fixture.path("magic")).unwrap();
        symlink("inside/file", fixture.path("good")).unwrap();
        symlink("loop", fixture.path("loop")).unwrap();
        for path in ["dir/secret", "dir", "file", "up", "magic"] {
            let error = fixture.workspace.open_file(Path::new(path)).unwrap_err();
            assert!(error.contains("leads outside the workspace"), "{path}: {error}");
        }
        assert!(fixture.workspace.open_file(Path::new("loop")).is_err());
        assert!(fixture.workspace.open_file(Path::new("good")).is_ok());
        assert_eq!(fixture.workspace.resolve(Path::new("good")).unwrap(), Path::new("inside/file"));
    }

    #[test]
    fn a_file_descriptor_link_of_the_process_is_no_way_out() {
        let fixture = Fixture::new();
        let secret = fixture.outside().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let open = std::fs::File::open(&secret).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&open);
        symlink(format!("/proc/self/fd/{descriptor}"), fixture.path("link")).unwrap();
        assert!(fixture.workspace.open_file(Path::new("link")).is_err());
    }

    #[tokio::test]
    async fn an_inspection_finds_the_digest_of_what_is_there() {
        let fixture = Fixture::new();
        fixture.write("a/file", "abc");
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        let digest = fixture.workspace.file_digest("a/file").await.unwrap().unwrap();
        insta::assert_snapshot!(digest, @"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(fixture.workspace.file_digest("a/none").await.unwrap(), None);
        assert_eq!(fixture.workspace.file_digest("none/none").await.unwrap(), None);
        assert_eq!(fixture.workspace.file_digest("a/file/none").await.unwrap(), None);
        for path in ["../x", "out/x", "a"] {
            assert!(fixture.workspace.file_digest(path).await.is_err(), "{path}");
        }
    }

    #[tokio::test]
    async fn an_inspection_clears_away_what_a_cut_off_write_left() {
        let fixture = Fixture::new();
        fixture.write("a/file", "abc");
        fixture.write("a/other", "abc");
        let leftover = replacement::temporary_name("file", digest_of(b"new"));
        let of_another = replacement::temporary_name("other", digest_of(b"new"));
        fixture.write(&format!("a/{leftover}"), "ne");
        fixture.write(&format!("a/{of_another}"), "ne");
        fixture.workspace.file_digest("a/file").await.unwrap();
        assert_eq!(fixture.names("a"), [of_another.as_str(), "file", "other"]);
    }
}
