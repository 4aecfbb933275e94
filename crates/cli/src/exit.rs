//! How the program ends: the one table of exit codes, and which error has which.

use std::fmt;
use std::process::ExitCode;

use domain::{Code, Revision, Violation};
use policy::{PlanBrief, Rejection};
use runtime::CommandError;
use serde::Serialize;
use store::StoreError;

/// The exit codes. Scripts depend on them: a number keeps its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The command line is wrong. clap uses the same number.
    Usage = 2,
    /// A rule refused it, or it was settled before; nothing changed.
    Rejected = 3,
    /// No such session, plan, Goal, request, command, event or store.
    NotFound = 4,
    /// The store or the environment is at fault, the configuration included.
    Environment = 5,
    /// The turn failed.
    TurnFailed = 6,
    /// It waits for a person, or the Goal is not finished.
    NotFinished = 7,
    /// An agent's command acts as the user (C8).
    NotTheUser = 8,
    /// Interrupted, with the number that shells give to Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The end of `--help`.
pub(crate) const EXIT_HELP: &str = "\
Exit codes:
  0    done
  2    the command line is wrong
  3    refused by a rule, or settled before by another answer: nothing changed
  4    no such session, plan, Goal, request, command, event or store
  5    the store or the environment is at fault
  6    the turn failed
  7    waiting for a person, or the Goal is not finished
  8    an agent's command may not act as the user
  130  interrupted";

/// Why a verb could not do what was asked.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command line is wrong in a way that clap cannot see.
    Usage(String),
    /// A rule refused it.
    Rejected(Box<Rejection>),
    /// What was named, or meant, is not there.
    NotFound(String),
    /// The store is at fault.
    Store(StoreError),
    /// Something around the program is at fault.
    Environment(String),
    /// Only the user may, and somebody else started it (C8).
    NotTheUser {
        /// Who, by the environment.
        actor: String,
    },
    /// Nobody reads the output any more.
    OutputClosed,
}

impl CliError {
    /// The table.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Rejected(_) => Exit::Rejected,
            Self::NotFound(_)
            | Self::Store(
                StoreError::NotFound { .. } | StoreError::UnknownSession(_) | StoreError::CursorAhead { .. },
            ) => Exit::NotFound,
            Self::Store(_) | Self::Environment(_) => Exit::Environment,
            Self::NotTheUser { .. } => Exit::NotTheUser,
            // Whoever closed the pipe has read what they wanted.
            Self::OutputClosed => Exit::Done,
        }
    }

    /// The name of the error for programs.
    const fn name(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Rejected(_) => "rejected",
            Self::NotFound(_) | Self::Store(StoreError::NotFound { .. } | StoreError::UnknownSession(_)) => {
                "not_found"
            }
            Self::Store(StoreError::CursorAhead { .. }) => "cursor_ahead",
            Self::Store(_) => "store",
            Self::Environment(_) => "environment",
            Self::NotTheUser { .. } => "not_the_user",
            Self::OutputClosed => "output_closed",
        }
    }

    /// What `--json` prints instead of an answer.
    pub(crate) fn line(&self) -> ErrorLine<'_> {
        match self {
            Self::Rejected(rejection) => rejected_line(rejection),
            other => ErrorLine::Error { code: other.name(), message: other.to_string() },
        }
    }
}

/// An error as one line of JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorLine<'a> {
    /// A rule refused it. Every field is always there, so that a reader need not ask whether it is.
    Rejected {
        /// The first violation's code.
        code: Code,
        /// Everything that was found wrong together.
        violations: &'a [Violation],
        /// The revision to expect, after a refused plan command.
        current_revision: Option<Revision>,
        /// The plan as it is, after a refused plan command.
        current_plan: Option<&'a PlanBrief>,
    },
    /// Something is at fault or not there.
    Error {
        /// Its name for programs.
        code: &'static str,
        /// What is wrong, for people.
        message: String,
    },
}

/// A refusal as data.
pub(crate) fn rejected_line(rejection: &Rejection) -> ErrorLine<'_> {
    ErrorLine::Rejected {
        code: rejection.code,
        violations: &rejection.violations,
        current_revision: rejection.current_revision,
        current_plan: rejection.current_plan.as_deref(),
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::NotFound(text) | Self::Environment(text) => f.write_str(text),
            Self::Rejected(rejection) => write!(f, "refused, nothing changed. {rejection}"),
            Self::Store(error) => error.fmt(f),
            Self::NotTheUser { actor } => write!(
                f,
                "this acts as the user, and the environment says that somebody else started it (ZUNO_ACTOR={actor}). \
                 Agents have tools of their own, such as plan_update, and ask the user for the rest"
            ),
            Self::OutputClosed => f.write_str("nobody reads the output"),
        }
    }
}

impl From<CommandError> for CliError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Rejected(rejection) => rejection.into(),
            CommandError::Fault(fault) => fault.into(),
        }
    }
}

impl From<Rejection> for CliError {
    /// What is not there is said in one way, whoever found out.
    fn from(rejection: Rejection) -> Self {
        if matches!(
            rejection.code,
            Code::UnknownSession | Code::UnknownRequest | Code::UnknownCommand | Code::UnknownJob
        ) {
            let messages = rejection.violations.iter().map(|found| found.message.as_str());
            return Self::NotFound(messages.collect::<Vec<_>>().join("; "));
        }
        Self::Rejected(Box::new(rejection))
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<std::io::Error> for CliError {
    /// Errors of writing to the standard streams; files name themselves where they are read.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Environment(format!("the output cannot be written: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use domain::{Seq, SessionId};

    use super::*;

    fn of_code(code: Code) -> CliError {
        Rejection::new("E1", code, "no").into()
    }

    #[test]
    fn every_error_has_its_code() {
        let session = SessionId::from_u128(1);
        let table = [
            (CliError::Usage(String::new()), 2),
            (of_code(Code::RevisionConflict), 3),
            (of_code(Code::InvalidInput), 3),
            (of_code(Code::UnknownSession), 4),
            (of_code(Code::UnknownCommand), 4),
            (of_code(Code::UnknownJob), 4),
            (CliError::NotFound(String::new()), 4),
            (StoreError::NotFound { path: "x".into() }.into(), 4),
            (StoreError::UnknownSession(session).into(), 4),
            (StoreError::CursorAhead { session, after: Seq(9), head: Seq(1) }.into(), 4),
            (StoreError::Closed.into(), 5),
            (CliError::Environment(String::new()), 5),
            (CliError::NotTheUser { actor: String::new() }, 8),
            (std::io::Error::from(std::io::ErrorKind::BrokenPipe).into(), 0),
        ];
        for (error, expected) in table {
            assert_eq!(error.exit() as u8, expected, "{error:?}");
        }
    }

    #[test]
    fn the_help_lists_every_code() {
        let codes = [
            Exit::Done,
            Exit::Usage,
            Exit::Rejected,
            Exit::NotFound,
            Exit::Environment,
            Exit::TurnFailed,
            Exit::NotFinished,
            Exit::NotTheUser,
            Exit::Interrupted,
        ];
        let listed: Vec<_> =
            EXIT_HELP.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(listed, codes.map(|code| (code as u8).to_string()));
    }

    #[test]
    fn an_error_is_data_with_all_its_fields() {
        let line = |error: &CliError| serde_json::to_string(&error.line()).unwrap();
        insta::assert_snapshot!(line(&of_code(Code::BlankTitle)), @r#"{"rejected":{"code":"blank_title","violations":[{"rule":"E1","code":"blank_title","steps":[],"message":"no"}],"current_revision":null,"current_plan":null}}"#);
        let unknown = of_code(Code::UnknownSession);
        insta::assert_snapshot!(line(&unknown), @r#"{"error":{"code":"not_found","message":"no"}}"#);
        let missing = CliError::NotFound("no plan".to_owned());
        insta::assert_snapshot!(line(&missing), @r#"{"error":{"code":"not_found","message":"no plan"}}"#);
    }
}
