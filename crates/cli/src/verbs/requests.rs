//! `zuno requests`: what agents ask a person, in any session, and the answers (I4).

use clap::{Args, Subcommand};
use domain::{Answer, Asked, Code, HumanRequest, Remark, RequestEnd, RequestId, SessionId};
use policy::Rejection;
use runtime::{Answered, Outlook, SessionView};
use serde::Serialize;

use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit};
use crate::render::{self, Hints};
use crate::verbs::among::{self, Among, WhereItIs};
use crate::{input, output};

/// What to do about requests.
#[derive(Debug, Subcommand)]
pub(crate) enum RequestsVerb {
    /// List what waits for your answer, the oldest of each session first
    List(Among),
    /// Answer a request by its number
    #[command(long_about = ANSWER_HELP)]
    Answer(AnswerArgs),
    /// Let the call of a request run, once
    Allow(AllowArgs),
    /// Deny the call of a request, or decline to answer a question
    Deny(DenyArgs),
}

const ANSWER_HELP: &str = "\
Answers a request by its number, from any terminal and also after a restart.

A question is answered with the number of one of its options, or in words of your own. A request for leave to run a \
call is answered with allow or deny; words after deny tell the agent why.

A request is settled once. An answer that comes second changes nothing: it says how the request was settled, and the \
exit code is 3. The Goal that was paused for it goes on as soon as a \
worker runs: `zuno goal run`, or `zuno run --session ID` for a session without a Goal.";

/// Arguments of `requests answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    of: WhereItIs,
    /// The number of the request
    #[arg(value_name = "N", value_parser = parse_number)]
    request: RequestId,
    /// The answer: the number of an option or any text, or allow or deny; `-` reads it from stdin
    #[arg(value_name = "ANSWER", required = true, num_args = 1..)]
    answer: Vec<String>,
    /// Take the answer as it is, also if it looks like the number of an option
    #[arg(long)]
    text: bool,
}

/// Arguments of `requests allow`.
#[derive(Debug, Args)]
pub(crate) struct AllowArgs {
    #[command(flatten)]
    of: WhereItIs,
    /// The number of the request
    #[arg(value_name = "N", value_parser = parse_number)]
    request: RequestId,
}

/// Arguments of `requests deny`.
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    of: WhereItIs,
    /// The number of the request
    #[arg(value_name = "N", value_parser = parse_number)]
    request: RequestId,
    /// Why, for the agent
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

fn parse_number(text: &str) -> Result<RequestId, &'static str> {
    text.parse().map(RequestId).map_err(|_| "a request has a number from 1; `zuno requests list` shows it")
}

/// An open request as `requests list --json` shows it.
#[derive(Serialize)]
struct Listed<'v> {
    session: SessionId,
    title: Option<&'v str>,
    workspace: &'v str,
    request: &'v HumanRequest,
}

#[derive(Serialize)]
struct List<'v> {
    requests: Vec<Listed<'v>>,
}

/// What became of an answer.
#[derive(Serialize)]
struct Settled<'v> {
    session: SessionId,
    request: RequestId,
    /// Whether this settled it; otherwise it was settled before, and stays as it was.
    changed: bool,
    /// How it was settled.
    end: &'v RequestEnd,
    outlook: &'v Outlook,
}

/// Runs it.
pub(crate) async fn run(context: &Context, verb: RequestsVerb) -> Result<Exit, CliError> {
    let opened = context.open().await?;
    match verb {
        RequestsVerb::List(among) => list(context, &opened, among).await,
        RequestsVerb::Answer(args) => {
            let text = input::prompt(&args.answer.join(" ")).await?;
            settle(context, &opened, args.of, args.request, |asked, hints| {
                read(asked, text.trim_end(), args.text, hints)
            })
            .await
        }
        RequestsVerb::Allow(args) => {
            settle(context, &opened, args.of, args.request, |asked, hints| match asked.asked {
                Asked::Permission { .. } => Ok(Answer::Allow),
                Asked::Input { .. } => Err(wrong(asked, hints)),
            })
            .await
        }
        RequestsVerb::Deny(args) => {
            let reason = args.reason.as_deref().map(reason).transpose()?;
            settle(context, &opened, args.of, args.request, |_, _| Ok(Answer::Deny { reason })).await
        }
    }
}

fn reason(text: &str) -> Result<Remark, Rejection> {
    input::text("I4", "reason", text)
}

async fn list(context: &Context, opened: &Opened, among: Among) -> Result<Exit, CliError> {
    let views = among.views(context, opened).await?;
    let of = |view: &'_ SessionView| view.requests.len();
    if views.iter().map(of).sum::<usize>() == 0 {
        output::remark(&format!("nothing waits for your answer {}", among.place()));
    }
    let listed = views.iter().flat_map(|view| {
        view.requests.iter().map(|request| Listed {
            session: view.session,
            title: view.title.as_deref(),
            workspace: &view.workspace,
            request,
        })
    });
    let requests = List { requests: listed.collect() };
    let now = opened.sessions.now();
    context.out.answer(&requests, || {
        let entry = |view: &SessionView, request: &HumanRequest| {
            let age_ms = now.0.saturating_sub(request.at.0);
            let head =
                among::head(&format!("request {}", request.id), age_ms, view.session, view.title.as_deref());
            let hints = among::hints(context, &views, view, |view| has(view, request.id));
            let ways = render::wrapped(2, &render::ways_to_answer(request, hints));
            format!("{head}\n{}  {ways}\n", render::in_full(request, 2))
        };
        let entries = views.iter().flat_map(|view| view.requests.iter().map(move |request| (view, request)));
        entries.map(|(view, request)| entry(view, request)).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

fn has(view: &SessionView, request: RequestId) -> bool {
    view.requests.iter().any(|open| open.id == request)
}

/// Finds a request, settles it with the answer that is made for it, and says what follows.
async fn settle(
    context: &Context,
    opened: &Opened,
    of: WhereItIs,
    request: RequestId,
    answer: impl FnOnce(&HumanRequest, Hints) -> Result<Answer, Rejection>,
) -> Result<Exit, CliError> {
    let view = of.find(context, opened, &format!("a request {request}"), |view| has(view, request)).await?;
    let session = view.session;
    let hints = Hints::of(session);
    let Some(asked) = view.requests.iter().find(|open| open.id == request) else {
        let known = opened.store.head(session).await?.map(|head| head.state.core.last_request);
        if request == RequestId(0) || known.is_none_or(|last| request > last) {
            return Err(CliError::NotFound(format!(
                "no request {request} waits for an answer; `zuno requests list` shows those that do"
            )));
        }
        let Some(end) = opened.sessions.request_end(session, request).await? else {
            return Err(CliError::NotFound(format!(
                "request {request} was opened just now; look at it first"
            )));
        };
        return tell(context, opened, request, &Answered { view, end, changed: false });
    };
    let answer = answer(asked, hints)?;
    let answered = opened.door.answer(session, request, answer).await?;
    tell(context, opened, request, &answered)
}

/// Says what was committed, which need not be what was typed: somebody else may have been faster.
fn tell(
    context: &Context,
    opened: &Opened,
    request: RequestId,
    answered: &Answered,
) -> Result<Exit, CliError> {
    let Answered { view, end, changed } = answered;
    let (session, changed) = (view.session, *changed);
    let settled = Settled { session, request, changed, end, outlook: &view.outlook };
    context.out.answer(&settled, || {
        let next = render::next_lines(view, Hints::of(session), opened.sessions.now());
        let before = if changed { "" } else { "was settled before, nothing changed: " };
        let head = format!("request {request} {before}{}", render::settled(end));
        format!("{}\nnext: {}", render::wrapped(2, &head), render::paragraphs(6, &next))
    })?;
    Ok(if changed { Exit::Done } else { Exit::Rejected })
}

/// The answer that a person's words are to this request. `literal`: a number is no option.
pub(super) fn read(
    request: &HumanRequest,
    words: &str,
    literal: bool,
    hints: Hints,
) -> Result<Answer, Rejection> {
    match &request.asked {
        Asked::Permission { .. } => {
            let (first, rest) = words.trim().split_once(char::is_whitespace).unwrap_or((words.trim(), ""));
            match first.to_lowercase().as_str() {
                "allow" | "yes" | "y" if rest.is_empty() => Ok(Answer::Allow),
                "deny" | "no" | "n" => {
                    let why = Some(rest.trim()).filter(|why| !why.is_empty());
                    Ok(Answer::Deny { reason: why.map(reason).transpose()? })
                }
                _ => Err(wrong(request, hints)),
            }
        }
        Asked::Input { options, .. } => {
            let is_option = |text: &&domain::AnswerOption| text.as_str() == words.trim();
            let number: Option<usize> = words.trim().parse().ok();
            let numbered = |number: usize| number.checked_sub(1).and_then(|at| options.get(at));
            let chosen = match number {
                None => words,
                Some(_) if literal || options.is_empty() => words,
                // An option that is a number itself is meant by it.
                Some(number) => match options.iter().find(is_option).or_else(|| numbered(number)) {
                    Some(option) => option.as_str(),
                    None => return Err(no_such_option(request, options.len())),
                },
            };
            Ok(Answer::Text { text: input::text("I4", "answer", chosen)? })
        }
    }
}

fn no_such_option(request: &HumanRequest, options: usize) -> Rejection {
    let message = format!(
        "request {} has the options 1 to {options}; choose one, or give the number as your own words with --text",
        request.id
    );
    Rejection::new("I4", Code::WrongAnswer, message)
}

fn wrong(request: &HumanRequest, hints: Hints) -> Rejection {
    let kind = match request.asked {
        Asked::Input { .. } => "is a question",
        Asked::Permission { .. } => "asks for leave to run a call",
    };
    let message = format!("request {} {kind}; {}", request.id, render::ways_to_answer(request, hints));
    Rejection::new("I4", Code::WrongAnswer, message)
}

#[cfg(test)]
mod tests {
    use domain::{CallRef, Fingerprint, LaneId, Timestamp, TurnNumber};

    use super::*;

    fn text<const MAX: usize>(text: &str) -> domain::Text<MAX> {
        domain::Text::parse(text).unwrap()
    }

    fn request(asked: Asked) -> HumanRequest {
        let (lane, turn, at) = (LaneId::main(), TurnNumber(2), Timestamp(0));
        HumanRequest { id: RequestId(3), lane, turn, goal_id: None, at, asked }
    }

    fn question(options: &[&str]) -> HumanRequest {
        let options = options.iter().map(|option| text(option)).collect();
        request(Asked::Input { question: text("Which format?"), options })
    }

    fn permission() -> HumanRequest {
        request(Asked::Permission {
            call: CallRef { turn: TurnNumber(2), request: 1, index: 0 },
            tool: "shell".to_owned(),
            subject: text("shell: cargo publish"),
            because: "no rule allows it".to_owned(),
            fingerprint: Fingerprint::default(),
        })
    }

    fn said(request: &HumanRequest, words: &str) -> String {
        match read(request, words, false, Hints::LATEST) {
            Ok(Answer::Text { text }) => format!("text {text}"),
            Ok(Answer::Allow) => "allow".to_owned(),
            Ok(Answer::Deny { reason }) => {
                format!("deny {}", reason.map(|reason| reason.to_string()).unwrap_or_default())
            }
            Err(refused) => refused.to_string(),
        }
    }

    #[test]
    fn a_question_takes_the_number_of_an_option_or_any_words() {
        let formats = question(&["JSON", "TOML"]);
        assert_eq!(said(&formats, " 2 "), "text TOML");
        assert_eq!(said(&formats, "TOML, with comments"), "text TOML, with comments");
        assert_eq!(said(&formats, "allow"), "text allow");
        assert_eq!(said(&question(&[]), "2"), "text 2");
        // Options that are numbers are meant by themselves, and by their place where no option is that number.
        assert_eq!(said(&question(&["4", "8", "1"]), "1"), "text 1");
        assert_eq!(said(&question(&["4", "8", "1"]), "2"), "text 8");
        let literal = read(&formats, "7", true, Hints::LATEST).unwrap();
        assert_eq!(literal, Answer::Text { text: text("7") });
        insta::assert_snapshot!(
            ["0", "3", " "].map(|words| said(&formats, words)).join("\n"),
            @r"
            wrong_answer: request 3 has the options 1 to 2; choose one, or give the number as your own words with --text
            wrong_answer: request 3 has the options 1 to 2; choose one, or give the number as your own words with --text
            invalid_input: the answer is blank
            "
        );
    }

    #[test]
    fn a_permission_takes_allow_or_deny_with_a_reason() {
        for words in ["allow", "yes", "Y"] {
            assert_eq!(said(&permission(), words), "allow");
        }
        for words in ["deny", "No", "n "] {
            assert_eq!(said(&permission(), words), "deny ");
        }
        assert_eq!(said(&permission(), "deny not before Monday"), "deny not before Monday");
        insta::assert_snapshot!(
            ["perhaps", "", "allow it"].map(|words| said(&permission(), words)).join("\n"),
            @r"
            wrong_answer: request 3 asks for leave to run a call; `zuno requests allow 3` or `zuno requests deny 3`
            wrong_answer: request 3 asks for leave to run a call; `zuno requests allow 3` or `zuno requests deny 3`
            wrong_answer: request 3 asks for leave to run a call; `zuno requests allow 3` or `zuno requests deny 3`
            "
        );
    }
}
