//! Readers of a git repository: `git_status`, `git_log`, `git_diff`, `git_show` and `git_blame`.
//!
//! No program is started, whatever the repository configures: the library that reads it knows how to start none, and
//! trusts no configuration ([`repository`]). Nothing is read from outside: pointers that leave the workspace are
//! refused unless the other end points back ([`place`]), files on disk are opened through the [`Workspace`]
//! ([`work_tree`]), and of a repository around the workspace only what lies beneath the workspace is shown.

mod blame;
mod changes;
mod contents;
mod diff;
mod log;
mod patch;
mod place;
mod repository;
mod revision;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod text;
mod work_tree;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet};
use runtime::{PreparedCall, Sight, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{decode, schema_of};
use crate::call::BlockingCall;
use crate::workspace::Workspace;
use repository::Repository;

/// Every reader, in the order in which models are offered them.
pub(crate) fn all(workspace: &Arc<Workspace>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Reader::<status::Status>::new(workspace)),
        Arc::new(Reader::<log::Log>::new(workspace)),
        Arc::new(Reader::<diff::Diff>::new(workspace)),
        Arc::new(Reader::<show::Show>::new(workspace)),
        Arc::new(Reader::<blame::Blame>::new(workspace)),
    ]
}

/// The arguments of one reader, and what it does with them.
trait Question: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    /// The file or folder that is asked about.
    fn path(&self) -> Option<&str>;

    /// The answer, or what is wrong.
    fn answer(self, around: &Around<'_>) -> Result<String, String>;
}

/// What a question is answered from.
struct Around<'a> {
    workspace: &'a Workspace,
    repository: &'a Repository,
    /// What is asked about, from the workspace root. As it was named: in an old revision no link of today is followed,
    /// and on disk none is followed either.
    path: &'a Path,
    sight: &'a Sight,
    stop: &'a CancellationToken,
}

/// A tool that answers one kind of question.
struct Reader<Q> {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
    question: PhantomData<fn() -> Q>,
}

impl<Q: Question> Reader<Q> {
    fn new(workspace: &Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: Q::NAME.into(),
            description: Q::DESCRIPTION.into(),
            input_schema: schema_of::<Q>(),
            requires: CapabilitySet::of(&[Capability::ReadWorkspace]),
        };
        Self { workspace: Arc::clone(workspace), spec, question: PhantomData }
    }
}

#[async_trait]
impl<Q: Question> Tool for Reader<Q> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (question, ignored) = decode::<Q>(&self.spec, arguments)?;
        let path = self.workspace.relative(question.path().unwrap_or("."))?;
        let workspace = Arc::clone(&self.workspace);
        Ok(BlockingCall::read_below(path, ignored, move |path, sight, stop| {
            let answered = Repository::open(&workspace).and_then(|repository| {
                let repository = &repository;
                question.answer(&Around { workspace: &workspace, repository, path, sight, stop })
            });
            match answered {
                Ok(text) => ToolOutput::ok(text),
                Err(text) => ToolOutput::failed(text),
            }
        }))
    }
}
