//! All servers of this process: each is started once for a workspace, however many turns use it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::Tool;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinSet;

use crate::fault::{Fault, clip};
use crate::name::ServerName;
use crate::server::{Limits, Reach, Server};
use crate::tool::ExternalTool;

/// Servers that run, and are ended when this is dropped.
#[derive(Default)]
pub struct Servers {
    limits: Limits,
    known: Mutex<BTreeMap<PathBuf, BTreeMap<ServerName, Known>>>,
}

/// The tools of some servers, and what has to be said of these.
#[derive(Default)]
pub struct Found {
    /// The servers that are there.
    pub servers: Vec<ServerName>,
    /// Their tools, by server and name.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What is not as the user thinks.
    pub remarks: Vec<Remark>,
}

/// What the user has to know about a server or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The tool as `server/tool`; `None` if it is about a whole server.
    pub tool: Option<String>,
    /// In words, one line.
    pub text: String,
}

/// A server that was asked for once. What came of it holds for this process, until it is configured otherwise.
struct Known {
    reach: Reach,
    opened: Arc<OnceCell<Result<Opened, Fault>>>,
}

struct Opened {
    tools: Vec<Arc<dyn Tool>>,
    remarks: Vec<Remark>,
}

impl Remark {
    fn about_server(name: &ServerName, fault: &Fault) -> Self {
        Self {
            tool: None,
            text: format!("MCP server `{name}`: {fault}; its tools are not there in this run"),
        }
    }

    pub(crate) fn about_tool(server: &ServerName, tool: &str, problem: &str) -> Self {
        let full = server.full(&clip(tool));
        let text = format!("MCP server `{server}`: `{full}` is not offered: {problem}");
        Self { tool: Some(full), text }
    }
}

impl Servers {
    /// None yet. They get as much time as the limits say.
    pub fn new(limits: Limits) -> Self {
        Self { limits, known: Mutex::default() }
    }

    /// The tools of these servers for turns in a workspace. Starts those that do not run, all at once; others that run
    /// for this workspace are ended as soon as no call needs them. A server that cannot be used is a remark.
    pub async fn tools(
        &self,
        workspace: &Path,
        wanted: impl IntoIterator<Item = (ServerName, Reach)>,
    ) -> Found {
        let mut opening = JoinSet::new();
        {
            let mut known = self.known.lock().await;
            let mut before = known.remove(workspace).unwrap_or_default();
            let mut here = BTreeMap::new();
            for (name, reach) in wanted {
                let same = before.remove(&name).filter(|known| known.reach == reach);
                let server = same.unwrap_or_else(|| Known { reach, opened: Arc::default() });
                let (reach, opened, limits) = (server.reach.clone(), Arc::clone(&server.opened), self.limits);
                let (own_name, folder) = (name.clone(), workspace.to_owned());
                opening.spawn(async move {
                    opened.get_or_init(|| open(own_name.clone(), reach, folder, limits)).await;
                    (own_name, opened)
                });
                here.insert(name, server);
            }
            known.insert(workspace.to_owned(), here);
        }
        let mut opened: Vec<_> = opening.join_all().await;
        opened.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut found = Found::default();
        for (name, opened) in opened {
            match opened.get() {
                Some(Ok(opened)) => {
                    found.tools.extend(opened.tools.iter().cloned());
                    found.remarks.extend(opened.remarks.iter().cloned());
                    found.servers.push(name);
                }
                Some(Err(fault)) => found.remarks.push(Remark::about_server(&name, fault)),
                None => {}
            }
        }
        found
    }
}

async fn open(name: ServerName, reach: Reach, folder: PathBuf, limits: Limits) -> Result<Opened, Fault> {
    let (server, catalog, remarks) = Server::open(name, reach, folder, limits).await?;
    let server = Arc::new(server);
    let tool = |listed| Arc::new(ExternalTool::new(Arc::clone(&server), listed)) as Arc<dyn Tool>;
    Ok(Opened { tools: catalog.into_iter().map(tool).collect(), remarks })
}
