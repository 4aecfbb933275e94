//! `zuno doctor`: what this program stands on, and whether it holds.

mod walls;

use std::fmt::Write as _;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agents::ToolAllowList;
use clap::Args;
use runtime::Toolbox;
use serde::Serialize;
use store::{CheckProgress, StoreError};
use tools::Workspace;

use crate::config::{self, Config, ConfigError, process_environment};
use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit};
use crate::render;
use crate::servers;
use crate::workshop;

/// What `zuno doctor --help` says first.
pub(crate) const HELP: &str = "\
Checks the environment, the sandbox of commands, the configuration and the store. The walls of the sandbox are tried \
in a throw-away folder. The store is compared with its log event by event, which takes a while for a large one; it may \
be in use meanwhile. Exit code 5 if something is wrong.";

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also start every MCP server, list its tools, and end it again
    #[arg(long)]
    servers: bool,
}

/// Everything that was looked at.
#[derive(Debug, Serialize)]
struct Report {
    zuno: &'static str,
    platform: Vec<String>,
    sandbox: Vec<String>,
    configuration: Vec<String>,
    store: Vec<String>,
    findings: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(context: &Context, args: DoctorArgs) -> Result<Exit, CliError> {
    let mut report = Report {
        zuno: env!("CARGO_PKG_VERSION"),
        platform: platform(),
        sandbox: Vec::new(),
        configuration: Vec::new(),
        store: Vec::new(),
        findings: Vec::new(),
    };
    let config = check_configuration(context, &mut report);
    check_walls(context, &mut report);
    if let (true, Some(config)) = (args.servers, config) {
        let (lines, faults) = servers::look(&config, Path::new(context.workspace())).await;
        report.configuration.extend(lines);
        report.findings.extend(faults);
    }
    check_store(context, &mut report).await?;
    let exit = if report.findings.is_empty() { Exit::Done } else { Exit::Environment };
    context.out.answer(&report, || text(&report))?;
    Ok(exit)
}

fn platform() -> Vec<String> {
    let mut lines = Vec::new();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    lines.push(
        format!("{} {} {}", std::env::consts::OS, std::env::consts::ARCH, kernel.trim()).trim().to_owned(),
    );
    lines.push(if cfg!(target_os = "linux") {
        "file tools: kept beneath the workspace root by the kernel, without user namespaces".to_owned()
    } else {
        "file tools: kept beneath the workspace root, step by step in this program".to_owned()
    });
    lines
}

/// What holds in this workspace; without a readable configuration, what holds by default.
fn check_walls(context: &Context, report: &mut Report) {
    let config =
        Config::of_process().and_then(|config| Ok(config.in_workspace(Path::new(context.workspace()))?.0));
    let table = config.map(|config| config.sandbox().clone()).unwrap_or_default();
    let (lines, wrong) = walls::check(&table);
    report.sandbox = lines;
    report.findings.extend(wrong);
}

fn check_configuration(context: &Context, report: &mut Report) -> Option<Config> {
    let config = match Config::of_process() {
        Ok(config) => config,
        Err(error) => {
            report.findings.push(error.to_string());
            return None;
        }
    };
    let path = config.path().display();
    report.configuration.push(if config.is_found() {
        format!("user: {path}")
    } else {
        format!("user: {path} (not there; defaults)")
    });
    let config = check_project(context, config, report);
    report.configuration.push(match config.model(None, &process_environment) {
        Ok(model) => {
            format!("model: {} ({} tokens of context)", model.name(), render::number(model.context_tokens()))
        }
        // Nothing to find fault with before anybody runs a model.
        Err(ConfigError::NoModel { .. }) => "model: none configured, and no *_API_KEY is set".to_owned(),
        Err(error @ ConfigError::NoDefault { .. }) => format!("model: {error}"),
        Err(error) => {
            report.findings.push(error.to_string());
            "model: cannot be used".to_owned()
        }
    });
    let limits = config.limits();
    report.findings.extend(limits.agent.as_ref().and_then(config::unselectable));
    report.configuration.push(format!(
        "budgets of a Goal: {} tokens, {} turns, {} of running turns",
        render::number(limits.budgets.tokens.get()),
        limits.budgets.turns,
        render::active_time(limits.budgets.active_ms.get())
    ));
    report.configuration.push(format!("a turn makes at most {} model requests", limits.max_requests));
    check_guidance(context, &config, report);
    report.findings.extend(unknown_tools(context, &config));
    report.configuration.push(match &limits.tools {
        ToolAllowList::All => "tools: all that the agent and the mode grant".to_owned(),
        ToolAllowList::Only(names) if names.is_empty() => "tools: none".to_owned(),
        ToolAllowList::Only(names) => {
            format!("tools: at most {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
    });
    Some(config)
}

/// The project's file, and what holds with it. That it is ignored is no fault; that it changed under the user is one.
fn check_project(context: &Context, config: Config, report: &mut Report) -> Config {
    let workspace = Path::new(context.workspace());
    let found = config.project(workspace).and_then(|project| Ok((project, config.in_workspace(workspace)?)));
    let (project, (config, notice)) = match found {
        Ok(found) => found,
        Err(error) => {
            report.findings.push(error.to_string());
            report.configuration.push("project: cannot be used".to_owned());
            return config;
        }
    };
    let trust = if project.is_trusted() { " (trusted)" } else { "" };
    report.configuration.push(match project.text() {
        Some(_) => format!("project: {}{trust}", project.path().display()),
        None => "project: none".to_owned(),
    });
    let is_new = project.trusted_text().is_none() && !project.trust_is_broken();
    match notice {
        Some(notice) if is_new => report.configuration.push(notice),
        notice => report.findings.extend(notice),
    }
    report.configuration.extend(config.mcp_servers().map(|server| format!("MCP server {server}")));
    config
}

/// The texts for agents: which hold, and which cannot be used.
fn check_guidance(context: &Context, config: &Config, report: &mut Report) {
    let Ok(files) = Workspace::open(Path::new(context.workspace())) else { return };
    let guidance = workshop::guidance(config, &files, context.workspace());
    let list = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let places = list(guidance.places().map(str::to_owned).collect());
    report.configuration.push(format!("instructions for agents: {places}"));
    report.configuration.push(format!("skills: {}", list(guidance.skills().collect())));
    report.configuration.extend(guidance.remarks().iter().cloned());
    report.findings.extend(guidance.problems().map(str::to_owned));
}

/// Names in an allow-list that no tool has: most likely typing mistakes, which take a tool away.
fn unknown_tools(context: &Context, config: &Config) -> Option<String> {
    let ToolAllowList::Only(names) = &config.limits().tools else { return None };
    let workspace = Workspace::open(Path::new(context.workspace())).ok()?;
    let tools = tools::all(Arc::new(workspace), tools::Secrets::default(), None);
    let toolbox = Toolbox::new(context.workspace(), tools, ToolAllowList::All, Arc::default());
    // Offered only where there are skills.
    let known: BTreeSet<_> = toolbox.names().chain(["load_skill"]).collect();
    let is_known = |name: &&str| known.contains(name) || config.has_server_of(name);
    let unknown: Vec<_> = names.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
    let list = |names: &[&str]| names.join(", ");
    let known: Vec<_> = known.iter().copied().collect();
    (!unknown.is_empty())
        .then(|| format!("tools: no tool is called {}; there are {}", list(&unknown), list(&known)))
}

async fn check_store(context: &Context, report: &mut Report) -> Result<(), CliError> {
    report.store.push(context.store_url().to_string());
    let opened = match context.open().await {
        Ok(opened) => opened,
        Err(CliError::Store(StoreError::NotFound { .. })) => {
            report.store.push("none yet; `zuno session new` makes one".to_owned());
            return Ok(());
        }
        Err(CliError::Store(error)) => {
            report.findings.push(error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    match opened.store.engine_version().await {
        Ok(version) => report.store.push(version),
        Err(error) => report.findings.push(error.to_string()),
    }
    match deep_check(context, &opened).await {
        Ok((last, found)) => {
            let checked = format!(
                "{} and {} read and compared",
                render::count(usize::try_from(last.sessions).unwrap_or(usize::MAX), "session"),
                render::count(usize::try_from(last.events).unwrap_or(usize::MAX), "event")
            );
            report.store.push(checked);
            report.findings.extend(found.iter().map(ToString::to_string));
        }
        Err(error) => report.findings.push(error.to_string()),
    }
    Ok(())
}

async fn deep_check(
    context: &Context,
    opened: &Opened,
) -> Result<(CheckProgress, Vec<store::CheckFinding>), StoreError> {
    let mut last = CheckProgress { sessions: 0, of: 0, events: 0 };
    let mut said = Instant::now();
    let shows = !context.out.is_json() && std::io::stderr().is_terminal();
    let found = opened
        .store
        .check(|progress| {
            last = progress;
            // Faster than anybody reads is a flicker.
            if shows && said.elapsed() > Duration::from_millis(500) {
                said = Instant::now();
                let line = format!(
                    "checked {} of {} sessions, {} events",
                    progress.sessions, progress.of, progress.events
                );
                let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K{line}");
            }
        })
        .await?;
    if shows {
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K");
    }
    Ok((last, found))
}

fn text(report: &Report) -> String {
    let mut out = format!("zuno {}\n", report.zuno);
    for (name, lines) in [
        ("platform", &report.platform),
        ("sandbox", &report.sandbox),
        ("configuration", &report.configuration),
        ("store", &report.store),
    ] {
        let _ = writeln!(out, "\n{name}");
        for line in lines {
            let _ = writeln!(out, "  {}", render::wrapped(4, line));
        }
    }
    out.push('\n');
    if report.findings.is_empty() {
        out.push_str("nothing is wrong\n");
    }
    for finding in &report.findings {
        let _ = writeln!(out, "! {}", render::lines(finding));
    }
    out
}
