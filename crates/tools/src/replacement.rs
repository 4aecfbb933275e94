//! Replacing a file as a whole: either all of it happens or nothing does, also across a crash.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions};
use domain::{Digest, Effect};
use runtime::{PreparedCall, ToolFault, ToolOutput};
use tokio_util::sync::CancellationToken;

use crate::arguments::Ignored;
use crate::call::{BlockingCall, Stoppable};
use crate::workspace::{Workspace, digest, digest_of, explain, open_regular};

/// Largest content a tool writes. Text that a model dictates is far smaller, and an edit holds the file in memory
/// twice.
pub(crate) const MAX_CONTENT_BYTES: u64 = 16 * 1024 * 1024;

/// The file a path stands for, whether or not it exists.
pub(crate) struct Target {
    /// From the root, free of links. Writing there replaces what the links pointed at, not the links.
    pub(crate) path: String,
    /// What is there, if anything is.
    pub(crate) found: Option<Metadata>,
}

impl Target {
    /// Finds the file that writing to `path` would replace or create.
    pub(crate) fn find(workspace: &Workspace, path: &Path) -> Result<Self, ToolFault> {
        Self::look(workspace, path).map_err(ToolFault::Refused)
    }

    fn look(workspace: &Workspace, path: &Path) -> Result<Self, String> {
        let dir = workspace.dir();
        let found = match dir.metadata(path) {
            // A rename would get past the missing permission, but whoever took it away meant something by it.
            Ok(found) if found.is_file() && found.permissions().readonly() => {
                return Err(format!("{} is read-only", path.display()));
            }
            Ok(found) if found.is_file() => Some(found),
            Ok(found) if found.is_dir() => {
                return Err(format!("{} is a directory, not a file", path.display()));
            }
            Ok(_) => return Err(format!("{} is not a regular file", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(explain(path, &error)),
        };
        let resolved = if found.is_some() {
            workspace.resolve(path)?
        } else if dir.symlink_metadata(path).is_ok() {
            return Err(format!("{} is a symbolic link to a file that does not exist", path.display()));
        } else {
            Self::resolve_absent(workspace, path)?
        };
        let path = resolved
            .into_os_string()
            .into_string()
            .map_err(|path| format!("{} is not a UTF-8 name", path.display()))?;
        Ok(Self { path, found })
    }

    /// Resolves the directories of a path that exist; the others are created when the file is written.
    fn resolve_absent(workspace: &Workspace, path: &Path) -> Result<PathBuf, String> {
        for ancestor in path.ancestors().skip(1) {
            let existing = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
            match workspace.dir().metadata(existing) {
                Ok(found) if found.is_dir() => {
                    let rest = path.strip_prefix(ancestor).unwrap_or(path);
                    let resolved = workspace.resolve(existing)?;
                    return Ok(if resolved == Path::new(".") {
                        rest.to_owned()
                    } else {
                        resolved.join(rest)
                    });
                }
                Ok(_) => return Err(format!("{} is not a directory", ancestor.display())),
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && workspace.dir().symlink_metadata(existing).is_err() => {}
                Err(error) => return Err(explain(ancestor, &error)),
            }
        }
        Err(format!("{}: the workspace root is gone", path.display()))
    }
}

/// A new content for one file, and the content it replaces.
pub(crate) struct Replacement {
    path: String,
    before: Option<Digest>,
    after: Digest,
    content: Vec<u8>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error(
        "{0} was changed by something else after this call looked at it; nothing was written. Read it again"
    )]
    Changed(String),
    #[error("nothing was written: {0}")]
    Io(String),
}

impl Replacement {
    /// Plans to put `content` at a path that [`Target`] found, where `before` is now.
    pub(crate) fn new(path: String, before: Option<Digest>, content: Vec<u8>) -> Self {
        Self { path, before, after: digest_of(&content), content }
    }

    /// The call that writes, and then answers with what was `done`.
    pub(crate) fn into_call(
        self,
        workspace: Arc<Workspace>,
        ignored: Ignored,
        done: String,
    ) -> Box<dyn PreparedCall> {
        let effect = Effect::FileWrite { path: self.path.clone(), before: self.before, after: self.after };
        BlockingCall::with_effect(effect, (&self.path).into(), ignored, move |_, stop| {
            match self.write(&workspace, stop) {
                Ok(()) => ToolOutput::ok(done),
                Err(error) => ToolOutput::failed(error.to_string()),
            }
        })
    }

    /// Writes, if the file still has the content that was planned for.
    pub(crate) fn write(&self, workspace: &Workspace, stop: &CancellationToken) -> Result<(), ReplaceError> {
        let path = Path::new(&self.path);
        let failed = |error: io::Error| ReplaceError::Io(explain(path, &error));
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(ReplaceError::Io(format!("{} is not a file", self.path)));
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let root = workspace.dir();
        if self.before.is_none() {
            root.create_dir_all(parent).map_err(failed)?;
        }
        // The recorded path is free of links. A link put in its way since then would send the write to another file
        // than the recorded one.
        match root.canonicalize(parent) {
            Ok(resolved) if resolved == parent => {}
            Ok(_) => return Err(ReplaceError::Changed(self.path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReplaceError::Changed(self.path.clone()));
            }
            Err(error) => return Err(failed(error)),
        }
        // From here on this very directory is meant, whatever its path comes to be.
        let dir = root.open_dir(parent).map_err(failed)?;
        let temporary = Temporary::create(&dir, name, self.after).map_err(failed)?;
        let found = self.check(&dir, name, stop)?;
        temporary.fill(&self.content, found.as_ref()).map_err(failed)?;
        // Checked again as late as possible: filling and syncing takes the longest.
        self.check(&dir, name, stop)?;
        temporary.rename_to(name).map_err(failed)?;
        workspace.seen().replaced(path, self.before, self.after);
        sync_dir(&dir, &self.path);
        Ok(())
    }

    /// Refuses unless the file is as it was when the call was prepared.
    fn check(
        &self,
        dir: &Dir,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<Option<Metadata>, ReplaceError> {
        let changed = || ReplaceError::Changed(self.path.clone());
        let failed = |error: io::Error| ReplaceError::Io(explain(Path::new(&self.path), &error));
        let found = match dir.symlink_metadata(name) {
            Ok(found) if found.is_file() => Some(found),
            Ok(_) => return Err(changed()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let now = match &found {
            Some(_) => {
                let file = open_regular(dir, Path::new(name)).map_err(|_| changed())?;
                Some(digest(Stoppable { inner: file, stop }).map_err(failed)?)
            }
            None => None,
        };
        if stop.is_cancelled() {
            return Err(ReplaceError::Io("stopped".into()));
        }
        if now == self.before { Ok(found) } else { Err(changed()) }
    }
}

/// The name of the file that a write fills before it takes its place. The same write always uses the same name, and
/// the names of one target share a prefix, so what a crash left is found again. It does not contain the target's
/// name, which may be as long as names can be.
pub(crate) fn temporary_name(name: &str, after: Digest) -> String {
    format!("{}{}.tmp", temporary_prefix(name), &after.to_string()[..16])
}

fn temporary_prefix(name: &str) -> String {
    format!(".zuno-{}-", &digest_of(name.as_bytes()).to_string()[..16])
}

/// Removes what writes to this file left beside it when they were cut off.
pub(crate) fn remove_leftovers(root: &Dir, path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = match root.open_dir(parent) {
        Ok(dir) => dir,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let prefix = temporary_prefix(name);
    for entry in dir.entries()? {
        let found = entry?.file_name();
        let Some(found) = found.to_str() else { continue };
        if found.starts_with(&prefix) && Path::new(found).extension().is_some_and(|end| end == "tmp") {
            dir.remove_file(found)?;
        }
    }
    Ok(())
}

/// The file being filled; removed again unless it takes its place.
struct Temporary<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    in_place: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a Dir, name: &str, after: Digest) -> io::Result<Self> {
        let name = temporary_name(name, after);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = match dir.open_with(&name, &options) {
            // Only a write of the very same content uses this name, and it was cut off.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                dir.remove_file(&name)?;
                dir.open_with(&name, &options)?
            }
            other => other?,
        };
        Ok(Self { dir, name, file, in_place: false })
    }

    /// Writes the content, with owner and permissions of the file it is about to replace. They come first, so that
    /// the content of a private file is never open to others.
    fn fill(&self, content: &[u8], replaced: Option<&Metadata>) -> io::Result<()> {
        if let Some(replaced) = replaced {
            let own = self.file.metadata()?;
            if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid()) {
                // Only the superuser may give files away; for anyone else the file becomes theirs.
                let handle = self.file.try_clone()?.into_std();
                let _ = std::os::unix::fs::fchown(&handle, Some(replaced.uid()), Some(replaced.gid()));
            }
            self.file.set_permissions(replaced.permissions())?;
        }
        (&self.file).write_all(content)?;
        // Without this a crash of the machine could leave the new name with no content.
        self.file.sync_all()
    }

    fn rename_to(mut self, name: &str) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.in_place
            && let Err(error) = self.dir.remove_file(&self.name)
        {
            tracing::debug!(name = self.name, %error, "a temporary file stays behind");
        }
    }
}

/// Makes a rename durable before its call is recorded as done. Some file systems cannot sync a directory; there the
/// digests tell after a crash.
fn sync_dir(dir: &Dir, path: &str) {
    if let Err(error) = dir.open(".").and_then(|dir| dir.sync_all()) {
        tracing::debug!(path, %error, "the directory was not synced");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::fixture::Fixture;

    fn replacement(fixture: &Fixture, path: &str, content: &str) -> Replacement {
        let target = Target::find(&fixture.workspace, Path::new(path)).unwrap();
        let before = target.found.map(|_| digest_of(fixture.read(path).as_bytes()));
        Replacement::new(target.path, before, content.into())
    }

    fn write(fixture: &Fixture, replacement: &Replacement) -> Result<(), ReplaceError> {
        replacement.write(&fixture.workspace, &CancellationToken::new())
    }

    #[test]
    fn the_mode_is_kept_and_nothing_is_left_beside() {
        let fixture = Fixture::new();
        let path = fixture.write("bin/tool", "old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
        write(&fixture, &replacement(&fixture, "bin/tool", "new")).unwrap();
        assert_eq!(fixture.read("bin/tool"), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(fixture.names("bin"), ["tool"]);
    }

    #[test]
    fn a_file_changed_in_between_is_left_alone() {
        let fixture = Fixture::new();
        fixture.write("file", "old");
        let planned = replacement(&fixture, "file", "new");
        fixture.write("file", "newer");
        let error = write(&fixture, &planned).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"file was changed by something else after this call looked at it; nothing was written. Read it again");
        assert_eq!(fixture.read("file"), "newer");
        assert_eq!(fixture.names("."), ["file"]);
    }

    #[test]
    fn a_file_that_appeared_or_went_away_in_between_is_a_change() {
        let fixture = Fixture::new();
        let planned = replacement(&fixture, "file", "new");
        fixture.write("file", "mine");
        assert!(matches!(write(&fixture, &planned), Err(ReplaceError::Changed(_))));
        let planned = replacement(&fixture, "file", "new");
        std::fs::remove_file(fixture.path("file")).unwrap();
        assert!(matches!(write(&fixture, &planned), Err(ReplaceError::Changed(_))));
        assert_eq!(fixture.names("."), [""; 0]);
    }

    #[test]
    fn a_directory_swapped_for_a_link_in_between_is_not_followed() {
        let fixture = Fixture::new();
        fixture.write("dir/file", "old");
        fixture.write("other/file", "old");
        std::fs::write(fixture.outside().join("file"), "old").unwrap();
        let planned = replacement(&fixture, "dir/file", "new");
        std::fs::rename(fixture.path("dir"), fixture.path("moved")).unwrap();

        symlink(fixture.outside(), fixture.path("dir")).unwrap();
        let error = write(&fixture, &planned).unwrap_err().to_string();
        assert!(error.contains("leads outside the workspace"), "{error}");

        std::fs::remove_file(fixture.path("dir")).unwrap();
        symlink("other", fixture.path("dir")).unwrap();
        assert!(matches!(write(&fixture, &planned), Err(ReplaceError::Changed(_))));

        assert_eq!(std::fs::read_to_string(fixture.outside().join("file")).unwrap(), "old");
        assert_eq!((fixture.read("other/file"), fixture.read("moved/file")), ("old".into(), "old".into()));
        assert_eq!(std::fs::read_dir(fixture.outside()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_swapped_for_a_link_in_between_is_not_followed() {
        let fixture = Fixture::new();
        fixture.write("file", "old");
        fixture.write("other", "old");
        std::fs::write(fixture.outside().join("file"), "old").unwrap();
        let planned = replacement(&fixture, "file", "new");
        for target in [fixture.outside().join("file"), "other".into()] {
            std::fs::remove_file(fixture.path("file")).unwrap();
            symlink(&target, fixture.path("file")).unwrap();
            assert!(matches!(write(&fixture, &planned), Err(ReplaceError::Changed(_))));
        }
        assert_eq!(std::fs::read_to_string(fixture.outside().join("file")).unwrap(), "old");
        assert_eq!(fixture.read("other"), "old");
    }

    #[test]
    fn a_hard_link_to_a_file_outside_is_cut_not_written_through() {
        let fixture = Fixture::new();
        let outside = fixture.outside().join("file");
        std::fs::write(&outside, "old").unwrap();
        std::fs::hard_link(&outside, fixture.path("file")).unwrap();
        write(&fixture, &replacement(&fixture, "file", "new")).unwrap();
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "old");
        assert_eq!(fixture.read("file"), "new");
    }

    #[test]
    fn a_leftover_of_the_same_write_is_no_obstacle() {
        let fixture = Fixture::new();
        fixture.write("file", "old");
        fixture.write(&temporary_name("file", digest_of(b"new")), "ne");
        write(&fixture, &replacement(&fixture, "file", "new")).unwrap();
        assert_eq!((fixture.read("file"), fixture.names(".")), ("new".into(), vec!["file".into()]));
    }

    #[test]
    fn a_link_planted_under_the_temporary_name_is_not_written_through() {
        let fixture = Fixture::new();
        let outside = fixture.outside().join("file");
        std::fs::write(&outside, "old").unwrap();
        symlink(&outside, fixture.path(&temporary_name("file", digest_of(b"new")))).unwrap();
        write(&fixture, &replacement(&fixture, "file", "new")).unwrap();
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "old");
        assert_eq!(fixture.read("file"), "new");
    }

    #[test]
    fn a_name_as_long_as_names_can_be_is_fine() {
        let fixture = Fixture::new();
        let name = "n".repeat(255);
        write(&fixture, &replacement(&fixture, &name, "new")).unwrap();
        assert_eq!(fixture.read(&name), "new");
    }

    #[test]
    fn a_stopped_write_changes_nothing() {
        let fixture = Fixture::new();
        fixture.write("file", "old");
        let stop = CancellationToken::new();
        stop.cancel();
        assert!(replacement(&fixture, "file", "new").write(&fixture.workspace, &stop).is_err());
        assert_eq!((fixture.read("file"), fixture.names(".")), ("old".into(), vec!["file".into()]));
    }

    #[test]
    fn places_that_cannot_hold_a_file_are_refused() {
        let fixture = Fixture::new();
        fixture.write("dir/file", "old");
        let locked = fixture.write("locked", "old");
        std::fs::set_permissions(locked, std::fs::Permissions::from_mode(0o444)).unwrap();
        symlink("nowhere", fixture.path("dangling")).unwrap();
        symlink(fixture.outside(), fixture.path("out")).unwrap();
        let check = |path: &str, expected: &str| {
            let fault = Target::find(&fixture.workspace, Path::new(path)).err().unwrap().to_string();
            assert!(fault.contains(expected), "{path}: {fault}");
        };
        check("dir", "is a directory");
        check(".", "is a directory");
        check("locked", "is read-only");
        check("dir/file/below", "not a directory");
        check("dangling", "a symbolic link to a file that does not exist");
        check("dangling/below", "does not exist");
        check("out/new", "leads outside the workspace");
        check("out/new/deeper", "leads outside the workspace");
        check("/etc/passwd", "leads outside the workspace");
        check("../outside/file", "leads outside the workspace");
    }
}
