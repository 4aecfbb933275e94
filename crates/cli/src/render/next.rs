//! What a session does next, or why it does nothing, and the command lines that change that: "not continuing because …".
//!
//! The reasons are the runtime's own words, the same for every client. Here each remedy becomes what a person types.

use std::fmt::Write as _;

use domain::{SessionId, Timestamp};
use policy::{Awaited, Delay, NextAction};
use runtime::{Remedy, SessionView};

use super::{cut, duration_ms, time};
use crate::session_name::short_form;

/// Characters of a reason: the error page of a provider says enough in three lines.
const REASON_CHARS: usize = 240;

/// How hints name the session. Those about the one that a verb takes by itself leave it out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints {
    session: Option<SessionId>,
}

impl Hints {
    /// For the session that verbs take by themselves.
    pub(crate) const LATEST: Self = Self { session: None };

    /// For this session, whichever is the latest.
    pub(crate) const fn of(session: SessionId) -> Self {
        Self { session: Some(session) }
    }

    /// A command line about the session.
    pub(crate) fn command(self, line: &str) -> String {
        match self.session {
            None => format!("`zuno {line}`"),
            Some(session) => format!("`zuno {line} --session {}`", short_form(session)),
        }
    }
}

/// What happens next in a session, and a line for each thing that a person can do about it.
pub(crate) fn next_lines(view: &SessionView, hints: Hints, now: Timestamp) -> Vec<String> {
    let outlook = &view.outlook;
    let mut text = String::new();
    if !outlook.goes_on {
        text.push_str("not continuing because ");
    }
    text.push_str(&cut(&outlook.because, REASON_CHARS));
    if let Some(at) = outlook.at {
        let (moment, left) = (time(at), duration_ms(at.0.saturating_sub(now.0)));
        let _ = match &view.next {
            NextAction::WaitUntil { cause: Delay::Retry { .. }, .. } => {
                write!(text, " at {moment} (in {left})")
            }
            NextAction::WaitFor { what: Awaited::Turn { .. } } => write!(text, " at {moment} (in {left})"),
            NextAction::WaitUntil { .. } => write!(text, " until {moment} (in {left})"),
            _ => write!(text, ", until {moment} at most (in {left})"),
        };
    }
    let is_asked = outlook.remedies.iter().any(|remedy| matches!(remedy, Remedy::Answer { .. }));
    let remedies = outlook.remedies.iter().map(|remedy| hint(*remedy, is_asked, view, hints));
    std::iter::once(text).chain(remedies).collect()
}

/// The same as one sentence.
pub(crate) fn joined(lines: &[String]) -> String {
    match lines.split_first() {
        Some((first, rest)) if !rest.is_empty() => format!("{first}; {}", rest.join(", ")),
        _ => lines.concat(),
    }
}

/// What to type for a remedy, and what it does. `is_asked`: an answer would do, too.
fn hint(remedy: Remedy, is_asked: bool, view: &SessionView, hints: Hints) -> String {
    match remedy {
        Remedy::ResumeGoal => {
            let does = match (is_asked, view.outlook.goes_on) {
                (_, true) => "does not wait",
                (true, false) => "goes on without an answer",
                (false, false) => "goes on",
            };
            format!("{} {does}", hints.command("goal resume"))
        }
        Remedy::Answer { request } => {
            let asked = view.requests.iter().find(|open| open.id == request);
            asked.map_or_else(
                || hints.command(&format!("requests answer {request} …")),
                |asked| super::ways_to_answer(asked, hints),
            )
        }
        Remedy::AcceptGoal => {
            format!("{} accepts it, {} does not", hints.command("goal accept"), hints.command("goal decline"))
        }
        Remedy::RaiseBudget => {
            let flag = view.goal.as_ref().map_or("--tokens N", super::goal::spent_flag);
            format!("{} raises it", hints.command(&format!("goal budget {flag}")))
        }
        Remedy::StartWork => format!("{} goes on", hints.command("mode work")),
        Remedy::SetGoal => format!("{} sets another", hints.command("goal set OBJECTIVE")),
        Remedy::ResumeWithMessage => {
            format!("{} goes on with a message", Hints::of(view.session).command("run PROMPT --resume"))
        }
        Remedy::RunWorker => {
            let worker = hints.command("goal run");
            match view.next {
                NextAction::RunInput { .. } | NextAction::RunGoal { .. } => {
                    format!("a worker runs it: {worker}")
                }
                NextAction::WaitUntil { .. } | NextAction::WaitFor { .. } | NextAction::Idle { .. } => {
                    format!("{worker} is one")
                }
            }
        }
        // A prompt without a session opens a new one.
        Remedy::SendMessage => {
            let does = if view.outlook.goes_on { "sends a message meanwhile" } else { "goes on" };
            format!("{} {does}", Hints::of(view.session).command("run PROMPT"))
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Mode, Seq, Wait};
    use policy::IdleReason;
    use runtime::Outlook;

    use super::*;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);
    const LATER: Timestamp = Timestamp(1_767_225_720_000);

    fn view(next: NextAction, because: &str, at: Option<Timestamp>, remedies: &[Remedy]) -> SessionView {
        let goes_on = !matches!(next, NextAction::Idle { .. });
        SessionView {
            session: SessionId::from_u128(0xf3c0_2b7c_1e0d),
            title: None,
            workspace: String::new(),
            mode: Mode::Work,
            agent: None,
            work_agent: None,
            head: Seq(1),
            plan: None,
            goal: None,
            queued_inputs: 0,
            requests: Vec::new(),
            commands: Vec::new(),
            jobs: Vec::new(),
            running: None,
            last_turn: None,
            next,
            outlook: Outlook { goes_on, because: because.to_owned(), at, remedies: remedies.to_vec() },
            wake_at: None,
        }
    }

    fn idle(remedies: &[Remedy]) -> SessionView {
        view(NextAction::Idle { why: IdleReason::NothingToDo }, "…", None, remedies)
    }

    fn told(view: &SessionView, hints: Hints) -> String {
        // Wherever this is tested, it is another time there.
        joined(&next_lines(view, hints, NOW)).replace(&time(LATER), "TIME")
    }

    #[test]
    fn t2_each_remedy_is_a_command_line() {
        let request = domain::RequestId(3);
        let remedies = [
            &[Remedy::ResumeGoal][..],
            &[Remedy::Answer { request }, Remedy::ResumeGoal],
            &[Remedy::AcceptGoal],
            &[Remedy::RaiseBudget],
            &[Remedy::StartWork],
            &[Remedy::SetGoal],
            &[Remedy::SendMessage],
            &[Remedy::RunWorker],
            &[Remedy::ResumeWithMessage],
        ];
        let lines = remedies.map(|remedies| told(&idle(remedies), Hints::LATEST));
        insta::assert_snapshot!(lines.join("\n"), @r"
        not continuing because …; `zuno goal resume` goes on
        not continuing because …; `zuno requests answer 3 …`, `zuno goal resume` goes on without an answer
        not continuing because …; `zuno goal accept` accepts it, `zuno goal decline` does not
        not continuing because …; `zuno goal budget --tokens N` raises it
        not continuing because …; `zuno mode work` goes on
        not continuing because …; `zuno goal set OBJECTIVE` sets another
        not continuing because …; `zuno run PROMPT --session f3c02b7c` goes on
        not continuing because …; `zuno goal run` is one
        not continuing because …; `zuno run PROMPT --resume --session f3c02b7c` goes on with a message
        ");
        let session = SessionId::from_u128(0xf3c0_2b7c_1e0d);
        insta::assert_snapshot!(told(&idle(&[Remedy::ResumeGoal]), Hints::of(session)), @"not continuing because …; `zuno goal resume --session f3c02b7c` goes on");
    }

    #[test]
    fn t2_what_goes_on_says_when_and_what_a_person_can_do_meanwhile() {
        let wait = Wait { condition: domain::Condition::Inbox, deadline: LATER, note: None, is_met: false };
        let condition = NextAction::WaitFor { what: Awaited::Condition { wait: wait.clone() } };
        let until = NextAction::WaitUntil { at: LATER, cause: Delay::Wait { wait } };
        let due = NextAction::RunGoal { goal_id: domain::GoalId::from_u128(1), continuation: 4 };
        let lines = [
            view(
                condition,
                "the agent waits for an input",
                Some(LATER),
                &[Remedy::ResumeGoal, Remedy::SendMessage],
            ),
            view(until, "the agent waits", Some(LATER), &[Remedy::ResumeGoal]),
            view(due, "the Goal is due: continuation 4", None, &[Remedy::RunWorker]),
        ];
        insta::assert_snapshot!(lines.map(|view| told(&view, Hints::LATEST)).join("\n"), @r"
        the agent waits for an input, until TIME at most (in 2 min); `zuno goal resume` does not wait, `zuno run PROMPT --session f3c02b7c` sends a message meanwhile
        the agent waits until TIME (in 2 min); `zuno goal resume` does not wait
        the Goal is due: continuation 4; a worker runs it: `zuno goal run`
        ");
    }
}
