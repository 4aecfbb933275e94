//! One call of a response: refused with an answer, or admitted, run and answered (M6, C2, T6).

use std::sync::Arc;

use domain::{CallOutcome, CallRef, Code, Effect, ModelCall};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::watched::Watched;
use super::{Driver, Leave};
use crate::ports::{Tool, ToolFault, ToolSpec};
use crate::sessions::CommandError;
use crate::toolbox::{self, Found};
use crate::work_tools::{self, WorkCall, WorkTool};

impl Driver<'_> {
    /// Deals with one call: every call gets exactly one result, and a refused one does not end the turn.
    pub(super) async fn call(
        &mut self,
        call: CallRef,
        asked: &ModelCall,
        offered: &[ToolSpec],
    ) -> Result<(), Leave> {
        let toolbox = self.toolbox;
        let Some((found, spec)) = toolbox.find(&asked.tool) else {
            let names: Vec<_> = offered.iter().map(|spec| spec.name).collect();
            let text =
                format!("there is no tool `{}`; the tools on offer are: {}", asked.tool, names.join(", "));
            return self.refuse(call, CallOutcome::Invalid, text).await;
        };
        let mode = self.turn.state().core.mode;
        let grant = toolbox.grant(self.role, spec);
        // Looking ahead spares a denied call its preparation; the admission decides again, in its transaction.
        if let Err(denied) = policy::check_call(spec.name, &grant, mode) {
            return self.refuse(call, CallOutcome::Denied, denied.to_string()).await;
        }
        let arguments = match toolbox::parse_arguments(&asked.arguments) {
            Ok(arguments) => arguments,
            Err(text) => return self.refuse(call, CallOutcome::Invalid, text).await,
        };
        match found {
            Found::WorkState(tool) => self.work_state_call(call, tool, grant, asked, &arguments).await,
            Found::Outside(tool) => {
                let tool = Arc::clone(tool);
                self.outside_call(call, tool.as_ref(), grant, arguments).await
            }
        }
    }

    async fn refuse(&mut self, call: CallRef, outcome: CallOutcome, text: String) -> Result<(), Leave> {
        let (text, _) = toolbox::shorten(text);
        Ok(self.turn.refuse_call(call, outcome, text).await?)
    }

    async fn work_state_call(
        &mut self,
        call: CallRef,
        tool: WorkTool,
        grant: policy::CallGrant,
        asked: &ModelCall,
        arguments: &Value,
    ) -> Result<(), Leave> {
        let lane = self.turn.lane().clone();
        let prepared = work_tools::prepare(tool, call, grant.clone(), arguments, self.turn.state(), &lane);
        let refusal = match prepared {
            Ok(WorkCall::Read(text)) => match self.turn.admit_call(call, grant, Effect::Read).await {
                Ok(()) => {
                    let (text, full) = toolbox::shorten(text);
                    return Ok(self.turn.finish_call(call, CallOutcome::Succeeded, text, full).await?);
                }
                Err(error) => refusal_of_call(error)?,
            },
            Ok(WorkCall::Change(command)) => {
                match self.turn.work_state_call(call, command, &asked.arguments).await {
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
        tool: &dyn Tool,
        grant: policy::CallGrant,
        arguments: Value,
    ) -> Result<(), Leave> {
        let prepared = match self.watched(tool.prepare(arguments), None).await? {
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
        let effect = prepared.effect();
        if let Err(error) = self.turn.admit_call(call, grant, effect.clone()).await {
            let refusal = refusal_of_call(error)?;
            return self.refuse(call, CallOutcome::Denied, refusal.to_string()).await;
        }
        self.follow();
        let stop = CancellationToken::new();
        let output = match self.watched(prepared.run(stop.clone()), Some(&stop)).await? {
            Watched::Done(output) => output,
            // It did not end although it was told to. Reading did no harm; anything else is for the user to look at.
            Watched::Stopping => {
                let outcome = match effect {
                    Effect::Read => CallOutcome::Lost,
                    Effect::WorkState
                    | Effect::FileWrite { .. }
                    | Effect::Command { .. }
                    | Effect::External => CallOutcome::Uncertain,
                };
                let text = "stopped, but it did not end in time; inspect before repeating".to_owned();
                return Ok(self.turn.finish_call(call, outcome, text, None).await?);
            }
        };
        let outcome = match (output.stopped, output.succeeded) {
            (true, _) => CallOutcome::Stopped,
            (false, true) => CallOutcome::Succeeded,
            (false, false) => CallOutcome::Failed,
        };
        let (text, full) = toolbox::shorten(output.text);
        Ok(self.turn.finish_call(call, outcome, text, full).await?)
    }
}

/// The refusal that answers one call; what concerns the whole turn leaves the loop.
fn refusal_of_call(error: CommandError) -> Result<policy::Rejection, Leave> {
    match error {
        CommandError::Rejected(rejection)
            if !matches!(rejection.code, Code::StaleEpoch | Code::TurnStopping | Code::OutOfOrder) =>
        {
            Ok(rejection)
        }
        other => Err(other.into()),
    }
}
