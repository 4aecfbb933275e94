//! Commands that run beside turns: their start, their end and their report (G10, I5, T7).

use domain::{
    BackgroundCommand, CallOutcome, CallRef, Code, CommandId, CommandTitle, Digest, Effect, EventBody,
    Fingerprint, GoalId, InputKind, InputText, LaneId, PauseReason, RUNNING_COMMANDS, Settlement,
};
use serde::Serialize;

use crate::call;
use crate::command::CallGrant;
use crate::decision::Draft;
use crate::facts::{CommandLease, LEASE_MS, Owner};
use crate::goal;
use crate::progress;
use crate::rejection::Rejection;

/// The answer of a call that starts a command.
#[derive(Serialize)]
struct Started {
    command: CommandId,
    status: &'static str,
    next: &'static str,
}

/// The answer of `command_stop`.
#[derive(Serialize)]
struct Stopping {
    command: CommandId,
    status: &'static str,
}

pub(crate) struct NewCommand<'a> {
    pub(crate) call: CallRef,
    pub(crate) grant: &'a CallGrant,
    pub(crate) effect: &'a Effect,
    pub(crate) title: &'a CommandTitle,
    pub(crate) owner: &'a Owner,
    pub(crate) ran: Fingerprint,
}

/// Admits the call, starts the command and answers the call, in one transaction.
pub(crate) fn start(draft: &mut Draft<'_>, lane: &LaneId, new: &NewCommand<'_>) -> Result<(), Rejection> {
    if draft.state.core.commands.len() >= RUNNING_COMMANDS {
        let message = format!(
            "{RUNNING_COMMANDS} background commands run already; stop one with command_stop, or wait for one"
        );
        return Err(Rejection::new("G10", Code::LimitExceeded, message));
    }
    call::admit(draft, new.call, new.grant, new.effect)?;
    let goal_id = draft
        .state
        .running(new.call.turn)
        .and_then(|(_, running)| progress::active(draft, running).map(|goal| goal.id));
    let id = draft.state.core.last_command.next();
    let command = BackgroundCommand {
        id,
        lane: lane.clone(),
        call: new.call,
        goal_id,
        title: new.title.clone(),
        effect: new.effect.clone(),
        since: draft.now(),
        is_stopping: false,
    };
    draft.emit(EventBody::CommandStarted { command });
    let lease = CommandLease { owner: new.owner.clone(), expires_at: draft.now().plus_ms(LEASE_MS) };
    draft.leases.commands.insert(id, lease);
    let next =
        "it goes on beside your turns; its end is reported to you. To continue only then, end the turn";
    call::succeed_as(draft, new.call, &Started { command: id, status: "running", next }, Some(new.ran))
}

/// The running command of this number.
fn running(draft: &Draft<'_>, id: CommandId) -> Result<BackgroundCommand, Rejection> {
    draft.state.core.command(id).cloned().ok_or_else(|| {
        let message = if id > draft.state.core.last_command || id == CommandId(0) {
            format!("there is no background command {id} in this session")
        } else {
            format!("background command {id} is over")
        };
        Rejection::new("G10", Code::UnknownCommand, message)
    })
}

pub(crate) fn renew(draft: &mut Draft<'_>, id: CommandId, owner: &Owner) -> Result<(), Rejection> {
    running(draft, id)?;
    let expires_at = draft.now().plus_ms(LEASE_MS);
    match draft.leases.commands.get_mut(&id) {
        Some(lease) if lease.owner == *owner => {
            lease.expires_at = expires_at;
            Ok(())
        }
        Some(_) | None => Err(Rejection::new("T5", Code::StaleEpoch, "another worker owns the command")),
    }
}

/// Asks a command to stop; its owner kills it.
pub(crate) fn stop(draft: &mut Draft<'_>, id: CommandId) -> Result<(), Rejection> {
    if !running(draft, id)?.is_stopping {
        draft.emit(EventBody::CommandStopRequested { command: id });
    }
    Ok(())
}

/// `command_stop`.
pub(crate) fn stop_by_agent(draft: &mut Draft<'_>, call: CallRef, id: CommandId) -> Result<(), Rejection> {
    stop(draft, id)?;
    call::succeed(draft, call, &Stopping { command: id, status: "stopping" })
}

/// Asks every command to stop.
pub(crate) fn stop_all(draft: &mut Draft<'_>) {
    stop_where(draft, |_| true);
}

/// Asks the commands of a Goal to stop.
pub(crate) fn stop_of_goal(draft: &mut Draft<'_>, goal: GoalId) {
    stop_where(draft, |command| command.goal_id == Some(goal));
}

fn stop_where(draft: &mut Draft<'_>, is_meant: impl Fn(&BackgroundCommand) -> bool) {
    let commands = draft.state.core.commands.iter();
    let commands: Vec<_> = commands
        .filter(|command| !command.is_stopping && is_meant(command))
        .map(|command| command.id)
        .collect();
    for command in commands {
        draft.emit(EventBody::CommandStopRequested { command });
    }
}

/// Records the end of a command together with its report.
pub(crate) fn end(
    draft: &mut Draft<'_>,
    id: CommandId,
    outcome: CallOutcome,
    result: &str,
    full_output: Option<Digest>,
) -> Result<(), Rejection> {
    let command = running(draft, id)?;
    call::check_size(result)?;
    finish(draft, &command, outcome, result, full_output)
}

/// Ends a command whose owner is gone: by T7 it is lost if a sandbox kept it where looking tells, else nobody knows.
pub(crate) fn recover(draft: &mut Draft<'_>, id: CommandId, dead: Option<&Owner>) -> Result<(), Rejection> {
    let command = running(draft, id)?;
    if let Some(lease) = draft.leases.commands.get(&id)
        && lease.expires_at > draft.now()
        && dead != Some(&lease.owner)
    {
        let message =
            format!("command {id} runs at worker {}, whose lease has not ended", lease.owner.worker);
        return Err(Rejection::new("T5", Code::LeaseHeld, message));
    }
    let (outcome, result) = match command.effect.settle(None) {
        Settlement::Uncertain => (
            CallOutcome::Uncertain,
            "cut off when its worker died; how far it came cannot be told; inspect before repeating",
        ),
        Settlement::Done | Settlement::NotRun | Settlement::Lost => {
            (CallOutcome::Lost, "cut off when its worker died; inspect before repeating")
        }
    };
    finish(draft, &command, outcome, result, None)
}

fn finish(
    draft: &mut Draft<'_>,
    command: &BackgroundCommand,
    outcome: CallOutcome,
    result: &str,
    full_output: Option<Digest>,
) -> Result<(), Rejection> {
    draft.emit(EventBody::CommandEnded { command: command.id, outcome, full_output });
    // The report of a Goal that ended has no reader.
    let open = draft.state.open_goal().map(|goal| goal.id);
    if command.goal_id.is_none_or(|goal| Some(goal) == open) {
        let text = format!(
            "[Background command {} ended: {}. {}]\n{result}",
            command.id,
            outcome.name(),
            command.title
        );
        let text = InputText::parse(&text)
            .map_err(|fault| Rejection::new("I5", Code::LimitExceeded, fault.to_string()))?;
        draft.emit(EventBody::InputQueued {
            lane: command.lane.clone(),
            input: InputKind::Report,
            text,
            goal_id: command.goal_id,
            runs: None,
        });
    }
    if outcome == CallOutcome::Uncertain {
        goal::pause_by_runtime(draft, PauseReason::UncertainSideEffect { call: command.call }, None);
    }
    Ok(())
}
