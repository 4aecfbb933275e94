//! Walking the files that are worth searching: those that git would not ignore.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use runtime::ToolFault;
use tokio_util::sync::CancellationToken;

use crate::rule_files::odd_one_in;
use crate::words::count;
use crate::workspace::Workspace;

/// Entries looked at in one walk, some ten seconds of it. Beyond, the answer says that it is incomplete.
const MAX_WALKED: u64 = 500_000;

/// Longest glob; the engine's own bound is on the compiled form, which takes long to reach.
const MAX_PATTERN_BYTES: usize = 1000;

/// A file met on the walk.
pub(crate) struct Met<'a> {
    /// From the workspace root.
    pub(crate) path: &'a Path,
    /// From where the walk started.
    pub(crate) within: &'a Path,
}

/// How a walk ended.
pub(crate) struct Walked {
    /// Whether it gave up at its bound.
    pub(crate) cut_off: bool,
    /// Folders that it did not enter, since their rules cannot be read.
    pub(crate) odd: u64,
}

impl Walked {
    /// What an answer says of a walk that did not see everything.
    pub(crate) fn remarks(&self) -> String {
        let mut text = String::new();
        if self.cut_off {
            text.push_str("[incomplete: the tree is too big to walk as a whole; give a path]\n");
        }
        if self.odd > 0 {
            let folders = count(self.odd, "directory");
            let _ = writeln!(text, "[{folders} left out: .gitignore or .ignore there is no plain file]");
        }
        text
    }
}

/// Calls `visit` for every file at or below `start`, in order of path, until it breaks.
///
/// The walk itself goes by names from the root, so it only proposes: whoever opens or reports a file does it
/// beneath the root.
pub(crate) fn files(
    workspace: &Workspace,
    start: &Path,
    stop: &CancellationToken,
    mut visit: impl FnMut(Met<'_>) -> ControlFlow<()>,
) -> Result<Walked, String> {
    let start = workspace.resolve(start)?;
    let absolute =
        if start == Path::new(".") { workspace.root().to_owned() } else { workspace.root().join(&start) };
    // Outside of any repository, rules above the start are somebody else's: a home directory full of ignored
    // configuration must not hide a project in it.
    let in_repository = absolute.ancestors().any(|ancestor| ancestor.join(".git").exists());
    let entered = absolute.ancestors().skip(usize::from(!absolute.is_dir()));
    let read = if in_repository { usize::MAX } else { usize::from(absolute.is_dir()) };
    if let Some(odd) = entered.take(read).find_map(odd_one_in) {
        return Err(format!(
            "{} is no plain file of ignore rules, so nothing beneath its directory is searched; list_dir and read_file \
             work there",
            odd.display()
        ));
    }
    let odd = Arc::new(AtomicU64::new(0));
    let left_out = Arc::clone(&odd);
    let walk = WalkBuilder::new(&absolute)
        .hidden(false)
        .require_git(in_repository)
        .parents(in_repository)
        .follow_links(false)
        .filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            if entry.file_name() == ".git" {
                return false;
            }
            let is_odd = is_folder && odd_one_in(entry.path()).is_some();
            left_out.fetch_add(u64::from(is_odd), Ordering::Relaxed);
            !is_odd
        })
        .sort_by_file_path(Path::cmp)
        .build();
    let mut cut_off = false;
    for (walked, entry) in (0..).zip(walk) {
        if stop.is_cancelled() {
            return Err("stopped".into());
        }
        if walked >= MAX_WALKED {
            cut_off = true;
            break;
        }
        // Unreadable directories are left out, as if they were ignored.
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(path) = entry.path().strip_prefix(workspace.root()) else { continue };
        let within = match entry.path().strip_prefix(&absolute) {
            Ok(within) if !within.as_os_str().is_empty() => within,
            _ => Path::new(entry.file_name()),
        };
        if visit(Met { path, within }).is_break() {
            break;
        }
    }
    Ok(Walked { cut_off, odd: odd.load(Ordering::Relaxed) })
}

/// A glob over paths from where a walk starts. Without a `/` it is about the name alone, at any depth.
pub(crate) struct NamePattern {
    matcher: GlobMatcher,
    whole_path: bool,
}

impl NamePattern {
    /// Compiles a pattern that was sent as `key`.
    pub(crate) fn new(workspace: &Workspace, key: &str, sent: &str) -> Result<Self, ToolFault> {
        let fault = |problem: &str| {
            ToolFault::Arguments(format!(
                "`{key}`: {problem}. Patterns look like *.rs, src/**/*.ts or {{a,b}}/*.md"
            ))
        };
        if sent.len() > MAX_PATTERN_BYTES {
            return Err(fault(&format!("longer than {MAX_PATTERN_BYTES} bytes")));
        }
        let root = format!("{}/", workspace.root().display());
        let pattern = sent.strip_prefix(&root).or_else(|| sent.strip_prefix("./")).unwrap_or(sent);
        if pattern.is_empty() || pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(fault("the pattern must be relative to the directory searched, without `..`"));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| fault(&format!("not a valid glob: {}", error.kind())))?;
        Ok(Self { matcher: glob.compile_matcher(), whole_path: pattern.contains('/') })
    }

    pub(crate) fn fits(&self, within: &Path) -> bool {
        if self.whole_path {
            self.matcher.is_match(within)
        } else {
            within.file_name().is_some_and(|name| self.matcher.is_match(name))
        }
    }
}

/// The path of a search, beneath the root and free of links.
pub(crate) async fn start(workspace: &Arc<Workspace>, path: Option<&str>) -> Result<PathBuf, ToolFault> {
    workspace.followed(workspace.relative(path.unwrap_or("."))?).await
}
