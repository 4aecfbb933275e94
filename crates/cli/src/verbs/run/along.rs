//! Whether a message takes a Goal along that is held (G9). A plain message never does.

use domain::{BlockCode, GoalStatus, PauseReason};
use runtime::SessionView;

use super::keyboard::Keyboard;
use crate::exit::Exit;
use crate::output;
use crate::render::{self, Hints};
use crate::signals::{Signals, Wish};

/// What holds a Goal that a message may well be meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// It led nowhere, so that the message is most likely what it lacked.
    ForLackOfAdvice,
    /// The person stopped it, perhaps to say this.
    ByThePerson,
}

/// How the Goal of the session is held, if a message may be meant for it.
pub(super) fn held(view: &SessionView) -> Option<Held> {
    match &view.goal.as_ref()?.status {
        GoalStatus::Paused(PauseReason::NoProgress)
        | GoalStatus::Blocked { code: BlockCode::AgentDeclared, .. } => Some(Held::ForLackOfAdvice),
        GoalStatus::Paused(PauseReason::Interrupted) => Some(Held::ByThePerson),
        _ => None,
    }
}

/// What is to become of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// It is sent, and the Goal goes on with it.
    Along,
    /// It is sent, and the Goal stays as it is.
    Alone,
    /// It is not sent: nothing was written yet, and nothing is.
    Unsent(Exit),
}

/// Asks the person, or says how to take it along.
pub(super) async fn comes_along(
    held: Held,
    view: &SessionView,
    has_person: bool,
    keyboard: &mut Keyboard,
    signals: &mut Signals,
) -> Choice {
    let because = render::cut(&view.outlook.because, render::COLUMNS * 2);
    if !has_person {
        let way = Hints::of(view.session).command("run PROMPT --resume");
        output::remark(&output::for_stderr(2, &format!("{because}; {way} takes it along")));
        return Choice::Alone;
    }
    keyboard.forget();
    let choice = match held {
        Held::ForLackOfAdvice => "[Y/m/n]",
        Held::ByThePerson => "[y/m/N]",
    };
    let queued = match view.queued_inputs {
        0 => String::new(),
        queued => format!(", after {}", render::count(queued, "held input")),
    };
    output::remark(&format!("{}.", render::wrapped(0, &because)));
    output::remark(&format!(
        "Go on with it, with your message? {choice}\n  m sends the message alone{queued}; n sends nothing"
    ));
    loop {
        let choice = tokio::select! {
            line = keyboard.line() => line.map_or(Some(Choice::Unsent(Exit::NotFinished)), |line| read(&line, held)),
            wish = signals.next() => Some(Choice::Unsent(match wish {
                Wish::Interrupt => Exit::Interrupted,
                Wish::End => Exit::NotFinished,
            })),
        };
        match choice {
            Some(unsent @ Choice::Unsent(_)) => {
                output::remark("Nothing was sent, nothing changed.");
                return unsent;
            }
            Some(choice) => return choice,
            None => output::remark("Type y, m or n."),
        }
    }
}

/// What a line chooses; Enter alone is the answer in capitals.
fn read(line: &str, held: Held) -> Option<Choice> {
    match (line.trim().to_lowercase().as_str(), held) {
        ("y" | "yes", _) | ("", Held::ForLackOfAdvice) => Some(Choice::Along),
        ("m", _) => Some(Choice::Alone),
        ("n" | "no", _) | ("", Held::ByThePerson) => Some(Choice::Unsent(Exit::NotFinished)),
        _ => None,
    }
}
