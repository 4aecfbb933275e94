//! The MCP servers of a workspace: which are started, and what is said of them.
//!
//! A server is started only if a rule names one of its tools: of others nothing would be offered anyway.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use external::{Remark, ServerName, Servers};
use runtime::Tool;

use crate::config::Config;

/// The tools of the servers of which the rules let some through, and a line for whatever is not as the rules have it.
pub(crate) async fn granted_tools(
    servers: &Servers,
    config: &Config,
    workspace: &Path,
) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let granted: BTreeSet<_> = config.limits().permissions.of_servers().collect();
    let is_of = |name: &ServerName, tool: &str| {
        tool.split_once('/').is_some_and(|(server, _)| server == name.as_str())
    };
    let (mut wanted, mut lines, mut configured) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (name, reach) in config.reaches() {
        configured.insert(name);
        if !granted.iter().any(|tool| is_of(name, tool)) {
            continue;
        }
        match reach {
            Ok(reach) => wanted.push((name.clone(), reach)),
            Err(missing) => {
                lines.push(format!("MCP server `{name}`: {missing}; its tools are not there in this run"));
            }
        }
    }
    let found = servers.tools(workspace, wanted).await;
    let known = found.tools.iter().filter_map(|tool| tool.of_server());
    let known: BTreeSet<_> =
        known.chain(found.remarks.iter().filter_map(|remark| remark.tool.as_deref())).collect();
    let of_interest = |remark: &Remark| remark.tool.as_deref().is_none_or(|tool| granted.contains(tool));
    lines.extend(found.remarks.iter().filter(|remark| of_interest(remark)).map(|remark| remark.text.clone()));
    for tool in granted {
        if !configured.iter().any(|name| is_of(name, tool)) {
            lines.push(format!("a rule names `{tool}`, but no [mcp] table has the name before the `/`"));
        } else if !known.contains(tool) && found.servers.iter().any(|name| is_of(name, tool)) {
            lines.push(format!("a rule names `{tool}`, but its server offers no such tool"));
        }
    }
    (found.tools, lines)
}

/// Starts every configured server once: what each offers, and what is wrong.
pub(crate) async fn look(config: &Config, workspace: &Path) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut faults, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
    for (name, reach) in config.reaches() {
        match reach {
            Ok(reach) => wanted.push((name.clone(), reach)),
            Err(missing) => faults.push(format!("MCP server `{name}`: {missing}")),
        }
    }
    let granted: BTreeSet<_> = config.limits().permissions.of_servers().collect();
    let servers = Servers::default();
    let found = servers.tools(workspace, wanted).await;
    for tool in found.tools.iter().filter_map(|tool| tool.of_server()) {
        let how = if granted.contains(tool) { "named by a rule" } else { "denied: no rule names it" };
        lines.push(format!("MCP tool {tool}: {how}"));
    }
    faults.extend(found.remarks.into_iter().map(|remark| remark.text));
    (lines, faults)
}
