//! A repository opened for reading, with nothing of its configuration that could start a program.
//!
//! The library is built without what talks to other programs or the network, and it is told to trust no section of
//! any configuration file: so it knows no filter, diff driver, text conversion, monitor, hook or include, and there is
//! nothing it could run. What is on disk in the working tree it never touches; that goes through the [`Workspace`].

use std::io;
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::config::file::Metadata;
use gix::config::file::init::Options;
use gix::config::{File, Source};
use gix::objs::{CommitRef, Data, Find, FindHeader, Header, WriteTo as _};
use gix::{ObjectId, oid};
use tokio_util::sync::CancellationToken;

use super::place::{self, Place};
use crate::plain_file;
use crate::words::clip;
use crate::workspace::Workspace;

/// Memory for objects that are looked at again and again, such as trees of neighbouring commits.
const OBJECT_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Objects that one call reads at most, about a minute of work.
const MAX_READS: u64 = 3_000_000;

/// Longest configuration: three lines for each of a hundred thousand branches.
const MAX_CONFIG_BYTES: u64 = 16 * 1024 * 1024;

/// Characters of an explanation: several sentences and a path.
const MAX_EXPLAINED_CHARS: usize = 2000;

/// A repository as seen from a workspace.
pub(super) struct Repository {
    pub(super) gix: gix::Repository,
    /// The workspace in the working tree: empty, or a path that ends in `/`.
    pub(super) prefix: BString,
    /// Whether there are files beside the history.
    pub(super) has_work_tree: bool,
}

impl Repository {
    /// Opens the repository that the workspace is in.
    pub(super) fn open(workspace: &Workspace) -> Result<Self, String> {
        let Place { git_dir, common_dir, work_tree } = place::find(workspace.root())?;
        let mut gix = open(&git_dir)?;
        // Should the pointer have been written anew meanwhile.
        if gix.common_dir().canonicalize().ok() != Some(common_dir) {
            return Err("the repository changed while it was opened; try again".into());
        }
        gix.object_cache_size(OBJECT_CACHE_BYTES);
        let within = work_tree.as_deref().and_then(|tree| workspace.root().strip_prefix(tree).ok());
        let mut prefix = BString::from(within.unwrap_or(Path::new("")).as_os_str().as_encoded_bytes());
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        Ok(Self { gix, prefix, has_work_tree: work_tree.is_some() })
    }

    /// A path from the workspace root as the repository has it; empty for the root of both.
    pub(super) fn full(&self, path: &Path) -> BString {
        let mut full = self.prefix.clone();
        if path != Path::new(".") {
            full.extend_from_slice(path.as_os_str().as_encoded_bytes());
        }
        let length = full.trim_end_with(|end| end == '/').len();
        full.truncate(length);
        full
    }

    /// A path of the repository as the workspace has it; nothing if it is outside.
    pub(super) fn local<'a>(&self, path: &'a BStr) -> Option<&'a BStr> {
        path.strip_prefix(self.prefix.as_slice()).map(gix::bstr::ByteSlice::as_bstr)
    }

    /// The tree of `HEAD`; the empty one before the first commit.
    pub(super) fn head_tree(&self) -> Result<ObjectId, String> {
        self.gix.head_tree_id_or_empty().map(gix::Id::detach).map_err(explain)
    }

    /// Where objects are read from by what cannot be stopped otherwise.
    pub(super) fn objects<'a>(&'a self, stop: &'a CancellationToken) -> Objects<'a> {
        let shallow = self.gix.shallow_commits().ok().flatten();
        Objects { odb: &self.gix.objects, shallow, stop, reads: std::cell::Cell::new(0) }
    }
}

/// Opens a folder as a repository.
fn open(git_dir: &Path) -> Result<gix::Repository, String> {
    let options = gix::open::Options::isolated()
        .open_path_as_is(true)
        .with_enforced_trust(gix::sec::Trust::Reduced)
        .filter_config_section(|_| false);
    let format = |key| Ok::<_, String>(configured(git_dir, key)?.map(|format| format.to_lowercase()));
    if let Some(format) = format("extensions.objectformat")?.filter(|format| format != "sha1") {
        return Err(format!("the repository names objects by {format}, which is not supported; sha1 is"));
    }
    if let Some(format) = format("extensions.refstorage")?.filter(|format| format != "files") {
        return Err(format!("the repository stores refs as {format}, which is not supported; files are"));
    }
    options.open(git_dir).map_err(|error| format!("the repository cannot be opened: {}", explain(error)))
}

/// A value of the repository's own configuration, read as text.
pub(super) fn configured(git_dir: &Path, key: &str) -> Result<Option<String>, String> {
    let path = git_dir.join("config");
    let path = if path.exists() { path } else { place::common_dir(git_dir)?.join("config") };
    let content = match plain_file::read(&path, MAX_CONFIG_BYTES) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place::failed(&path, &error)),
    };
    let source = Metadata::from(Source::Local);
    let file = File::from_bytes_no_includes(&content, source, Options::default());
    Ok(file.ok().and_then(|file| Some(file.string(key)?.to_str_lossy().into_owned())))
}

/// The object database, for an algorithm of the library: it ends with an error once the call is stopped or has read
/// too much.
pub(super) struct Objects<'a> {
    odb: &'a gix::OdbHandle,
    /// Commits whose parents were not fetched.
    shallow: Option<gix::shallow::Commits>,
    stop: &'a CancellationToken,
    reads: std::cell::Cell<u64>,
}

impl Objects<'_> {
    fn count(&self) -> gix::Result<()> {
        self.reads.set(self.reads.get() + 1);
        let refuse = |why: &'static str| Err(gix::Error::from_error(std::io::Error::other(why)));
        if self.stop.is_cancelled() {
            return refuse("stopped");
        }
        if self.reads.get() > MAX_READS {
            return refuse("the history is too long to look through as a whole");
        }
        Ok(())
    }
}

impl Find for Objects<'_> {
    fn try_find<'a>(&self, id: &oid, buffer: &'a mut Vec<u8>) -> gix::Result<Option<Data<'a>>> {
        self.count()?;
        let is_shallow =
            self.shallow.as_ref().is_some_and(|commits| commits.iter().any(|commit| commit.as_ref() == id));
        if !is_shallow {
            return self.odb.try_find(id, buffer);
        }
        let mut original = Vec::new();
        let Some(Data { kind, object_hash, data }) = self.odb.try_find(id, &mut original)? else {
            return Ok(None);
        };
        let mut commit = CommitRef::from_bytes(data, object_hash)?;
        commit.parents.clear();
        buffer.clear();
        commit.write_to(buffer).map_err(gix::Error::from_error)?;
        Ok(Some(Data { kind, object_hash, data: buffer }))
    }
}

impl FindHeader for Objects<'_> {
    fn try_header(&self, id: &oid) -> gix::Result<Option<Header>> {
        self.count()?;
        FindHeader::try_header(self.odb, id)
    }
}

/// An error of the library in one line.
pub(super) fn explain(error: impl Into<gix::Error>) -> String {
    let error = error.into();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    // Some repeat the content that they could not read.
    clip(&text.replace('\n', " "), MAX_EXPLAINED_CHARS).into_owned()
}
