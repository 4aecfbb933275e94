//! Looking through several sessions for what waits or runs in them, and for the one that a number means.

use clap::Args;
use domain::SessionId;
use runtime::SessionView;
use store::SessionFilter;

use crate::context::{Context, Opened, named};
use crate::exit::CliError;
use crate::output;
use crate::render::{self, Hints};
use crate::session_name::{SessionName, short_form};

/// Sessions whose numbers clash that a message lists.
const CANDIDATES: usize = 10;
/// Columns of their titles, beside short names.
const CANDIDATE_TITLE: usize = 60;

/// The sessions that a list is about.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Among {
    /// Only this session, by its id or its short form [default: every session of the workspace]
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    session: Option<SessionName>,
    /// The sessions of every workspace
    #[arg(long)]
    all: bool,
}

/// The session that a numbered thing is in.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WhereItIs {
    /// The session, by its id or its short form [default: the one of this workspace in which it is]
    #[arg(long, value_name = "ID")]
    session: Option<SessionName>,
}

impl Among {
    /// The sessions at a glance, the one that changed last first. One that cannot be read is said and left out.
    pub(crate) async fn views(
        self,
        context: &Context,
        opened: &Opened,
    ) -> Result<Vec<SessionView>, CliError> {
        match self.session {
            Some(name) => Ok(vec![opened.sessions.view(named(opened, name).await?).await?]),
            None => views(opened, (!self.all).then(|| context.workspace().to_owned())).await,
        }
    }

    /// Where nothing was found, in words that follow "there is none".
    pub(crate) fn place(self) -> &'static str {
        match (self.session, self.all) {
            (Some(_), _) => "in this session",
            (None, true) => "in this store",
            (None, false) => "in the sessions of this workspace; --all looks into the others",
        }
    }
}

async fn views(opened: &Opened, workspace: Option<String>) -> Result<Vec<SessionView>, CliError> {
    let filter = SessionFilter { workspace, ..SessionFilter::default() };
    let mut found = Vec::new();
    for summary in opened.sessions.list(&filter).await? {
        match opened.sessions.view(summary.id).await.map_err(CliError::from) {
            Ok(view) => found.push(view),
            // One session of a newer build does not hide what waits in the others.
            Err(error @ CliError::Store(_)) => output::remark(&render::lines(&error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// How hints name the sessions that a number alone does not tell apart: those elsewhere, and those that share it.
pub(crate) fn hints(
    context: &Context,
    all: &[SessionView],
    of: &SessionView,
    has: impl Fn(&SessionView) -> bool,
) -> Hints {
    let is_here = |view: &&SessionView| view.workspace == context.workspace();
    let sharing = all.iter().filter(is_here).filter(|view| has(view)).count();
    if is_here(&of) && sharing == 1 { Hints::LATEST } else { Hints::of(of.session) }
}

impl WhereItIs {
    /// The session that was named, else the one of the workspace that has what is meant. Without one that has it, the
    /// latest of the workspace can tell more.
    pub(crate) async fn find(
        self,
        context: &Context,
        opened: &Opened,
        what: &str,
        has: impl Fn(&SessionView) -> bool,
    ) -> Result<SessionView, CliError> {
        if let Some(name) = self.session {
            return Ok(opened.sessions.view(named(opened, name).await?).await?);
        }
        let mut all = views(opened, Some(context.workspace().to_owned())).await?;
        if all.is_empty() {
            let workspace = context.workspace();
            return Err(CliError::NotFound(format!("there is no session of {workspace} yet")));
        }
        let having: Vec<_> = (0..).zip(&all).filter(|(_, view)| has(view)).map(|(at, _)| at).collect();
        match having[..] {
            [] => Ok(all.swap_remove(0)),
            [at] => Ok(all.swap_remove(at)),
            _ => Err(ambiguous(what, having.iter().filter_map(|at| all.get(*at)))),
        }
    }
}

fn ambiguous<'v>(what: &str, having: impl Iterator<Item = &'v SessionView>) -> CliError {
    let mut text = format!("several sessions have {what}; say which:");
    for view in having.take(CANDIDATES) {
        let title = render::cut(view.title.as_deref().unwrap_or_default(), CANDIDATE_TITLE);
        text.push_str(format!("\n  --session {}  {title}", short_form(view.session)).trim_end());
    }
    CliError::Usage(text)
}

/// The head of an entry: its number, how long it is there, its session.
pub(crate) fn head(what: &str, age_ms: i64, session: SessionId, title: Option<&str>) -> String {
    let age = render::duration_ms(age_ms);
    let head = format!("{what}  {age} ago  session {}", short_form(session));
    match title {
        None => head,
        Some(title) => {
            let room = render::COLUMNS.saturating_sub(head.chars().count() + 2);
            format!("{head}  {}", render::cut(title, room))
        }
    }
}
