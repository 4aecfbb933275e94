//! Whether a message takes a Goal along that is held (G9). A plain message never does.

use domain::{BlockCode, GoalStatus, PauseReason};
use runtime::SessionView;

use super::keyboard::Keyboard;
use crate::output;
use crate::render::{self, Hints};
use crate::signals::Signals;

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

/// Asks the person, or says how to take it along. `None` if they interrupt: nothing was written yet.
pub(super) async fn comes_along(
    held: Held,
    view: &SessionView,
    has_person: bool,
    keyboard: &mut Keyboard,
    signals: &mut Signals,
) -> Option<bool> {
    let because = render::cut(&view.outlook.because, render::COLUMNS * 2);
    if !has_person {
        let way = Hints::of(view.session).command("run PROMPT --resume");
        output::remark(&output::for_stderr(2, &format!("{because}; {way} takes it along")));
        return Some(false);
    }
    keyboard.forget();
    let choice = match held {
        Held::ForLackOfAdvice => "[Y/n]",
        Held::ByThePerson => "[y/N]",
    };
    output::remark(&format!("{}.", render::wrapped(0, &because)));
    output::remark(&format!("Go on with it, with your message? {choice}"));
    tokio::select! {
        line = keyboard.line() => Some(match line.as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => true,
            Some("") => held == Held::ForLackOfAdvice,
            Some(_) | None => false,
        }),
        _ = signals.next() => None,
    }
}
