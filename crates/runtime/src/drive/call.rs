//! One call of a response: refused with an answer, or admitted, run and answered (M6, C2, T6).

use std::sync::Arc;

use domain::{CallOutcome, CallRef, CapabilitySet, Code, Effect, Fingerprint, ModelCall};
use policy::{AgentCommand, CallGrant};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::watched::Watched;
use super::{Driver, Leave};
use crate::ports::{CallSubject, PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use crate::sessions::CommandError;
use crate::toolbox::{self, Found};
use crate::turn::CallResult;
use crate::work_tools::{self, WorkCall, WorkTool};

impl Driver {
    /// Deals with one call: every call gets exactly one result, and a refused one does not end the turn.
    pub(super) async fn call(
        &mut self,
        call: CallRef,
        asked: &ModelCall,
        offered: &[ToolSpec],
    ) -> Result<(), Leave> {
        let toolbox = self.around.toolbox.clone();
        let Some((found, spec)) = toolbox.find(&asked.tool) else {
            let names: Vec<_> = offered.iter().map(|spec| spec.name.as_ref()).collect();
            let text =
                format!("there is no tool `{}`; the tools on offer are: {}", asked.tool, names.join(", "));
            return self.refuse(call, CallOutcome::Invalid, text).await;
        };
        let mode = self.turn.state().core.mode;
        let grant = toolbox.grant(&self.role, spec);
        // Looking ahead spares a denied call its preparation; the admission decides again, in its transaction.
        if let Err(denied) = policy::check_call(&spec.name, &grant, mode) {
            return self.refuse(call, CallOutcome::Denied, denied.to_string()).await;
        }
        if let Some(because) = toolbox.not_granted(spec) {
            let text = format!("denied: `{}` is not allowed: {because}", spec.name);
            return self.refuse(call, CallOutcome::Denied, text).await;
        }
        let arguments = match toolbox::parse_arguments(&asked.arguments) {
            Ok(arguments) => arguments,
            Err(text) => return self.refuse(call, CallOutcome::Invalid, text).await,
        };
        match found {
            Found::WorkState(tool) => {
                let permission = toolbox.permission((spec, spec.requires), &CallSubject::default(), None);
                let grant = CallGrant { permission, ..grant };
                self.work_state_call(call, tool, grant, asked, &arguments).await
            }
            Found::Outside(tool) => {
                let tool = Arc::clone(tool);
                self.outside_call(call, (tool.as_ref(), spec), grant, asked, arguments).await
            }
        }
    }

    pub(super) async fn refuse(
        &mut self,
        call: CallRef,
        outcome: CallOutcome,
        text: String,
    ) -> Result<(), Leave> {
        let (text, _) = toolbox::shorten(text);
        Ok(self.turn.refuse_call(call, outcome, text).await?)
    }

    async fn work_state_call(
        &mut self,
        call: CallRef,
        tool: WorkTool,
        grant: CallGrant,
        asked: &ModelCall,
        arguments: &Value,
    ) -> Result<(), Leave> {
        let lane = self.turn.lane().clone();
        let context = work_tools::Context {
            state: self.turn.state(),
            lane: &lane,
            now: self.turn.sessions().now(),
            budgets: self.around.limits.proposed_budgets,
            confinement: self.around.limits.confinement,
        };
        let mut prepared = work_tools::prepare(tool, call, grant.clone(), arguments, context);
        if let Ok(WorkCall::Change(command)) = &mut prepared
            && let AgentCommand::WaitGoal { wait, .. } = command.as_mut()
            && let Err(refused) = self.take_baseline(wait).await
        {
            prepared = Err(refused);
        }
        let refusal = match prepared {
            Ok(WorkCall::Delegate(job)) => match self.delegate(call, grant, *job).await? {
                Some(refusal) => refusal,
                None => return Ok(()),
            },
            Ok(WorkCall::Ask(question)) => match self.ask_person(call, grant, question).await? {
                Some(refusal) => refusal,
                None => return Ok(()),
            },
            Ok(WorkCall::Read(text)) => match self.turn.admit_call(call, grant, Effect::Read).await {
                Ok(()) => {
                    let (text, full) = toolbox::shorten(text);
                    let result =
                        CallResult { outcome: CallOutcome::Succeeded, text, full_output: full, ran: None };
                    return Ok(self.turn.finish_call(call, result).await?);
                }
                Err(error) => refusal_of_call(error)?,
            },
            Ok(WorkCall::Change(command)) => {
                match self.turn.work_state_call(call, *command, &asked.arguments).await {
                    Ok(()) => return Ok(()),
                    Err(error) => refusal_of_call(error)?,
                }
            }
            Err(refusal) => refusal,
        };
        let outcome = if refusal.code == Code::Denied { CallOutcome::Denied } else { CallOutcome::Refused };
        let text = format!("{} refused, nothing changed. {refusal}", asked.tool);
        self.refuse(call, outcome, text).await
    }

    async fn outside_call(
        &mut self,
        call: CallRef,
        (tool, spec): (&dyn Tool, &ToolSpec),
        grant: CallGrant,
        asked: &ModelCall,
        arguments: Value,
    ) -> Result<(), Leave> {
        let mut prepared = match self.watched(tool.prepare(arguments), None).await? {
            Watched::Done(Ok(prepared)) => prepared,
            // Preparing changes nothing, so it may be dropped half-way.
            Watched::Stopping => return Err(self.stopping()),
            Watched::Done(Err(fault)) => {
                let outcome = match &fault {
                    ToolFault::Arguments(_) => CallOutcome::Invalid,
                    ToolFault::Refused(_) => CallOutcome::Refused,
                };
                return self.refuse(call, outcome, fault.to_string()).await;
            }
        };
        let (effect, subject) = (prepared.effect(), prepared.subject());
        let requires: Vec<_> = spec.requires.iter().chain(prepared.needs_also().iter()).collect();
        let requires = CapabilitySet::of(&requires);
        let permission = self.around.toolbox.permission((spec, requires), &subject, Some(&effect));
        prepared.narrow(self.around.toolbox.sight(spec, &permission));
        let grant = CallGrant { requires, permission, ..grant };
        let admitted = match prepared.background() {
            None => self.turn.admit_call(call, grant.clone(), effect.clone()).await,
            Some(title) => {
                let ran = Fingerprint::of_call(&asked.tool, &asked.arguments);
                match self.turn.start_command(call, grant.clone(), effect.clone(), title, ran).await {
                    Ok((command, taken_at)) => {
                        let session = self.turn.session();
                        self.around.background.start(session, (command, taken_at), prepared);
                        return Ok(());
                    }
                    Err(error) => Err(error),
                }
            }
        };
        if let Err(error) = admitted {
            let refusal = refusal_of_call(error)?;
            if refusal.code == Code::PermissionNeeded {
                return self.ask_leave(call, grant, asked, &subject).await;
            }
            let outcome =
                if refusal.code == Code::Denied { CallOutcome::Denied } else { CallOutcome::Refused };
            return self.refuse(call, outcome, refusal.to_string()).await;
        }
        self.follow().await?;
        let output = self.run_call(prepared).await?;
        let result = match output {
            Some(output) => {
                let ran = fingerprint(asked, &output);
                let outcome = match &output {
                    ToolOutput { stopped: true, .. } => CallOutcome::Stopped,
                    ToolOutput { uncertain: true, .. } => CallOutcome::Uncertain,
                    ToolOutput { succeeded: true, .. } => CallOutcome::Succeeded,
                    ToolOutput { .. } => CallOutcome::Failed,
                };
                let (text, full_output) = toolbox::shorten(output.text);
                CallResult { outcome, text, full_output, ran }
            }
            // It did not end although it was told to. Reading did no harm; anything else is for the user to look at.
            None => {
                let outcome = match effect {
                    Effect::Read => CallOutcome::Lost,
                    Effect::WorkState
                    | Effect::Job
                    | Effect::FileWrite { .. }
                    | Effect::Command { .. }
                    | Effect::External => CallOutcome::Uncertain,
                };
                CallResult::plain(outcome, "stopped, but it did not end in time; inspect before repeating")
            }
        };
        Ok(self.turn.finish_call(call, result).await?)
    }

    /// Runs an admitted call; `None` if it was stopped and did not end in time.
    async fn run_call(&mut self, prepared: Box<dyn PreparedCall>) -> Result<Option<ToolOutput>, Leave> {
        let stop = CancellationToken::new();
        match self.watched(prepared.run(stop.clone()), Some(&stop)).await? {
            Watched::Done(output) => Ok(Some(output)),
            Watched::Stopping => Ok(None),
        }
    }
}

/// The call with its exit status, if it ran: a call that could not be done brought nothing new (G7).
fn fingerprint(asked: &ModelCall, output: &ToolOutput) -> Option<Fingerprint> {
    let status = match output.exit_status {
        Some(status) => status.to_string(),
        None if output.succeeded => "ok".to_owned(),
        None => return None,
    };
    (!output.stopped).then(|| Fingerprint::of_call(&asked.tool, &asked.arguments).with(&status))
}

/// The refusal that answers one call; what concerns the whole turn leaves the loop.
pub(super) fn refusal_of_call(error: CommandError) -> Result<policy::Rejection, Leave> {
    match error {
        CommandError::Rejected(rejection)
            if !matches!(rejection.code, Code::StaleEpoch | Code::TurnStopping | Code::OutOfOrder) =>
        {
            Ok(rejection)
        }
        other => Err(other.into()),
    }
}
