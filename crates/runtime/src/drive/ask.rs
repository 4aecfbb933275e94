//! What a turn asks a person, and the call that a person allowed (I4, G10).

use domain::{CallOutcome, CallRef, Code, Condition, ModelCall, Question, TurnPhase, Wait};
use policy::{CallGrant, NewRequest, Permission, Rejection};

use super::call::refusal_of_call;
use super::{Driver, Leave};
use crate::ports::CallSubject;
use crate::scheduler::Asking;

/// Characters of a call's arguments that a person is shown when nothing says more about it.
const SHOWN_CHARS: usize = 500;

impl Driver {
    /// Runs the call that the user allowed, before the model is asked: once, under the grant of this turn.
    pub(super) async fn granted_call(&mut self) -> Result<(), Leave> {
        let Some(running) = self.turn.running() else { return Ok(()) };
        let TurnPhase::Calling { .. } = running.phase else { return Ok(()) };
        let number = running.number;
        let slot = self.turn.state().core.lanes.get(self.turn.lane());
        let rows = slot.map_or(&[][..], |slot| &slot.inbox);
        let granted = rows.iter().filter(|row| row.taken == Some(number)).find_map(|row| row.runs.clone());
        let call = CallRef { turn: number, request: 0, index: 0 };
        let asked = granted.as_ref().and_then(|granted| {
            let arguments = self.history.arguments_of(granted.call)?.to_owned();
            Some(ModelCall { tool: granted.tool.clone(), arguments })
        });
        match asked {
            Some(asked) => self.call(call, &asked, &[]).await?,
            None => {
                let text = "not run: what was asked for is not in the history any more".to_owned();
                self.refuse(call, CallOutcome::NotRun, text).await?;
            }
        }
        self.follow().await?;
        Ok(())
    }

    /// Asks the question of `ask_user`. Gives a refusal back if nobody is there; else the turn is over.
    pub(super) async fn ask_person(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        asked: NewRequest,
    ) -> Result<Option<Rejection>, Leave> {
        if let Asking::Nobody { .. } = self.around.asking.as_ref() {
            let message =
                "nobody is here to answer; decide yourself, and say in your report what you assumed";
            return Ok(Some(Rejection::new("I4", Code::Denied, message)));
        }
        match self.turn.ask(call, grant, asked).await {
            Ok(outcome) => Err(Leave::Ended(outcome)),
            Err(error) => Ok(Some(refusal_of_call(error)?)),
        }
    }

    /// Asks for leave to run a call. Without anybody to give it the call is denied.
    pub(super) async fn ask_leave(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        asked: &ModelCall,
        subject: &CallSubject,
    ) -> Result<(), Leave> {
        let because = match &grant.permission {
            Permission::Ask { because } | Permission::Deny { because } => because.clone(),
            Permission::Allow => String::new(),
        };
        if let Asking::Nobody { hint } = self.around.asking.as_ref() {
            let text = format!(
                "denied: `{}` needs the user's leave ({because}), and nobody is here to give it. {hint} Go on without it.",
                asked.tool
            );
            return self.refuse(call, CallOutcome::Denied, text).await;
        }
        let Some(subject) = described(asked, subject) else {
            let text = "denied: the call cannot be shown to the user".to_owned();
            return self.refuse(call, CallOutcome::Denied, text).await;
        };
        match self.turn.ask(call, grant, NewRequest::Permission { subject }).await {
            Ok(outcome) => Err(Leave::Ended(outcome)),
            Err(error) => {
                let refusal = refusal_of_call(error)?;
                self.refuse(call, CallOutcome::Denied, refusal.to_string()).await
            }
        }
    }

    /// Looks at the file that the Goal is to wait for, so that the wait knows what a change is.
    pub(super) async fn take_baseline(&mut self, wait: &mut Wait) -> Result<(), Rejection> {
        let Condition::File { path, baseline } = &mut wait.condition else { return Ok(()) };
        match self.around.inspection.file_version(path.as_str()).await {
            Ok(version) => {
                *baseline = version;
                Ok(())
            }
            Err(error) => {
                let message = format!("`{path}` cannot be watched: {error}");
                Err(Rejection::new("G10", Code::InvalidInput, message))
            }
        }
    }
}

/// The call in a line for the person: its command, its paths, or else its arguments.
fn described(asked: &ModelCall, subject: &CallSubject) -> Option<Question> {
    let what = match &subject.command {
        Some(command) if subject.paths.is_empty() => command.clone(),
        // The same words mean another thing in another folder.
        Some(command) => format!("{command} (in {})", subject.paths.join(", ")),
        None if !subject.paths.is_empty() => subject.paths.join(", "),
        None => asked.arguments.clone(),
    };
    let shown: String = what.chars().take(SHOWN_CHARS).collect();
    let cut = if shown.len() < what.len() { " …" } else { "" };
    Question::parse(&format!("{}: {shown}{cut}", asked.tool)).ok()
}
