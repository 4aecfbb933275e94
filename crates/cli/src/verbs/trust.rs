//! `zuno trust`: let the project's file say what otherwise only the user's may (C9).

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use domain::Digest;
use serde::Serialize;
use similar::TextDiff;

use crate::config::{Config, Project, named};
use crate::context::Context;
use crate::exit::{CliError, Exit};
use crate::trust::{self, TrustError};
use crate::{output, render};

/// What `zuno trust --help` says first.
pub(crate) const HELP: &str = "\
Lets the project's file, .zuno/zuno.toml, say what otherwise only your own may: models with their addresses and the \
names of keys, MCP servers, permissions that allow or ask, the sandbox, and what Goals do.

Shows what the file says, or what changed in it, and asks you. What you trust is this very text: with the next byte \
that changes, the file only narrows again. The record is kept in your state folder, never in the workspace.

Exit code 7 if you say no.";

/// How long is looked for the shortest difference; after that any correct one will do.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// Arguments of `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Trust it without a question
    #[arg(long, conflicts_with_all = ["show", "remove"])]
    yes: bool,
    /// Only show what is trusted and what is not
    #[arg(long, conflicts_with = "remove")]
    show: bool,
    /// Trust nothing of this workspace any more
    #[arg(long)]
    remove: bool,
}

impl TrustArgs {
    /// Whether it changes nothing.
    pub(crate) const fn only_shows(&self) -> bool {
        self.show
    }
}

/// How things stand, as `--json` shows it.
#[derive(Serialize)]
struct Standing<'p> {
    workspace: &'p str,
    file: &'p Path,
    /// Whether the file is what the user trusts.
    trusted: bool,
    sha256: Option<Digest>,
    trusted_sha256: Option<Digest>,
    /// What in the file counts only with trust.
    needs_trust: &'p [String],
    /// From what is trusted to the file.
    diff: String,
}

/// Runs it.
pub(crate) fn run(context: &Context, args: &TrustArgs) -> Result<Exit, CliError> {
    let config = Config::of_process()?;
    let workspace = Path::new(context.workspace());
    if args.remove {
        let removed = config.trust().remove(workspace)?;
        let project = config.project(workspace)?;
        context.out.answer(&standing(context, &project, false), || {
            if removed { "it is not trusted any more\n" } else { "nothing of this workspace was trusted\n" }
                .to_owned()
        })?;
        return Ok(Exit::Done);
    }
    let project = config.project(workspace)?;
    if args.show {
        let standing = standing(context, &project, project.is_trusted());
        context.out.answer(&standing, || shown(&project, &standing))?;
        return Ok(Exit::Done);
    }
    let Some(text) = project.text() else {
        let mut message = format!("there is no {}, so there is nothing to trust", project.path().display());
        if project.trusted_text().is_some() {
            message.push_str("; `zuno trust --remove` forgets the one you trusted");
        }
        return Err(CliError::NotFound(message));
    };
    if project.is_trusted() || project.wide().is_empty() && project.trusted_text().is_none() {
        let standing = standing(context, &project, project.is_trusted());
        context.out.answer(&standing, || summary(&project))?;
        return Ok(Exit::Done);
    }
    project.check()?;
    if !args.yes {
        if context.out.is_json() || !output::has_person() {
            let message = "nobody can be asked here; look at `zuno trust --show`, then give --yes";
            return Err(CliError::Usage(message.to_owned()));
        }
        output::remark(&shown(&project, &standing(context, &project, false)));
        if !asked()? {
            output::remark("not trusted; nothing changed");
            return Ok(Exit::NotFinished);
        }
    }
    // What was shown, whatever the file says by now.
    config.trust().trust(workspace, text)?;
    context.out.answer(&standing(context, &project, true), || {
        format!("trusted: {}\n{}\n", render::one_line(&project.path().display().to_string()), wide(&project))
    })?;
    Ok(Exit::Done)
}

fn standing<'p>(context: &'p Context, project: &'p Project, trusted: bool) -> Standing<'p> {
    Standing {
        workspace: context.workspace(),
        file: project.path(),
        trusted,
        sha256: project.text().map(trust::digest),
        trusted_sha256: if trusted { project.text() } else { project.trusted_text() }.map(trust::digest),
        needs_trust: project.wide(),
        diff: if trusted { String::new() } else { diff(project) },
    }
}

/// From what is trusted to the file. Lines that are the same stand around it, as people know it.
fn diff(project: &Project) -> String {
    let (old, new) = (project.trusted_text().unwrap_or_default(), project.text().unwrap_or_default());
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let from = if project.trusted_text().is_some() { "trusted" } else { "nothing trusted" };
    diff.unified_diff().header(from, ".zuno/zuno.toml").to_string()
}

fn summary(project: &Project) -> String {
    let path = project.path().display().to_string();
    let path = render::one_line(&path);
    match project.text() {
        None => format!("there is no {path}\n"),
        Some(_) if project.is_trusted() => format!("{path} is trusted\n{}\n", wide(project)),
        Some(_) if project.wide().is_empty() => {
            format!("{path} only narrows; nothing in it needs your trust\n")
        }
        Some(_) if project.trusted_text().is_some() => format!("{path} is not what you trusted\n"),
        Some(_) => format!("{path} is not trusted\n"),
    }
}

fn wide(project: &Project) -> String {
    match project.wide() {
        [] => "nothing in it needs your trust".to_owned(),
        parts => format!("what counts only so: {}", render::one_line(&named(parts))),
    }
}

/// The standing in words. The difference is shown whole: nothing in it may hide from who is to trust it.
fn shown(project: &Project, standing: &Standing<'_>) -> String {
    let mut out = summary(project);
    if !standing.trusted {
        if !project.wide().is_empty() {
            let _ = writeln!(out, "{}", wide(project));
        }
        if !standing.diff.is_empty() {
            let _ = write!(out, "\n{}", render::lines(&standing.diff));
        }
    }
    out
}

/// Asks the person. Only a plain yes is one.
fn asked() -> Result<bool, CliError> {
    output::remark("Trust this text? [y/N]");
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CliError::Environment(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

impl From<TrustError> for CliError {
    fn from(error: TrustError) -> Self {
        Self::Environment(error.to_string())
    }
}
