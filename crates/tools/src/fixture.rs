//! A temporary workspace with something outside it, and a short way to call a tool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agents::{PermissionRule, PermissionRules, RuleEntry, Verdict};
use runtime::{PreparedCall, Sight, Tool, ToolFault, ToolOutput};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{Secrets, Workspace};

/// `root` is the workspace, `outside` its neighbour; both are gone when this is dropped.
pub(crate) struct Fixture {
    parent: TempDir,
    pub(crate) workspace: Arc<Workspace>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("root")).unwrap();
        std::fs::create_dir(parent.path().join("outside")).unwrap();
        let workspace = Arc::new(Workspace::open(&parent.path().join("root")).unwrap());
        Self { parent, workspace }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.workspace.root().to_owned()
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.parent.path().join("outside")
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file, with its directories.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// The sorted names in a directory.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.root().join(path)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let all = crate::all(Arc::clone(&self.workspace), Secrets::default(), None);
        all.into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub(crate) async fn prepare(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<Box<dyn PreparedCall>, ToolFault> {
        self.tool(name).prepare(arguments).await
    }

    /// Prepares and runs.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        self.prepare(name, arguments).await.unwrap().run(CancellationToken::new()).await
    }

    /// The answer of a call that succeeds, with what rules of this verdict leave of it, each given as
    /// `tool path`.
    pub(crate) async fn within(
        &self,
        verdict: Verdict,
        rules: &[&str],
        name: &str,
        arguments: Value,
    ) -> String {
        let rules = rules.iter().map(|rule| {
            let (tool, path) = rule.split_once(' ').unwrap();
            let (tool, path) = (Some(tool.to_owned()), Some(path.to_owned()));
            PermissionRule::new("rule", &RuleEntry { verdict, tool, path, command: None }).unwrap()
        });
        let rules = Arc::new(PermissionRules::new(rules.collect()).unwrap());
        let tool = self.tool(name);
        let spec = tool.spec();
        let root = self.root();
        let sight = Sight::new(rules, root.to_str().unwrap(), (&spec.name, spec.requires), false);
        let mut call = tool.prepare(arguments).await.unwrap();
        call.narrow(sight);
        let output = call.run(CancellationToken::new()).await;
        assert!(output.succeeded, "{}", output.text);
        output.text
    }

    /// The answer of a call that succeeds.
    pub(crate) async fn ok(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert!(output.succeeded && !output.stopped, "{}", output.text);
        output.text
    }

    /// The text of a call that is refused or fails.
    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> String {
        match self.prepare(name, arguments).await {
            Err(fault) => fault.to_string(),
            Ok(call) => {
                let output = call.run(CancellationToken::new()).await;
                assert!(!output.succeeded && !output.stopped, "{}", output.text);
                output.text
            }
        }
    }

    /// Runs a call whose token is already cancelled.
    pub(crate) async fn stopped(&self, name: &str, arguments: Value) -> ToolOutput {
        let stop = CancellationToken::new();
        stop.cancel();
        self.prepare(name, arguments).await.unwrap().run(stop).await
    }
}
