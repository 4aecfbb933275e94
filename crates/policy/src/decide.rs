//! The one way to a [`Decision`]: dispatch to the rules of each subject.

use domain::{Actor, CallRef, Code, Effect, EventBody, LaneId, PauseReason, SessionState};

use crate::command::{AgentCommand, Command, RuntimeCommand, UserCommand};
use crate::decision::{Decision, Draft};
use crate::facts::Facts;
use crate::rejection::Rejection;
use crate::{background, call, goal, inbox, job, mode, plan, request, stop, turn, wait};

/// Decides a command on the state and the facts read in the same transaction (E2, E3).
///
/// Pure: the same arguments give the same answer. A rejection means that nothing is to be written.
pub fn decide(state: &SessionState, command: Command<'_>, facts: &Facts) -> Result<Decision, Rejection> {
    let actor = actor(state, command)?;
    let mut draft = Draft::new(state, facts, actor);
    match command {
        Command::User(_, UserCommand::OpenSession { workspace, agent }) => {
            if state.is_open() {
                let message = format!("session {} exists", state.id);
                return Err(Rejection::new("E1", Code::SessionExists, message));
            }
            draft.emit(EventBody::SessionOpened { workspace: workspace.clone(), agent: agent.clone() });
        }
        _ if !state.is_open() => return Err(Rejection::unknown_session(state.id)),
        Command::User(_, command) => user(&mut draft, command)?,
        Command::Agent(command) => agent(&mut draft, command)?,
        Command::Runtime(_, command) => runtime(&mut draft, command)?,
    }
    Ok(draft.finish())
}

fn actor(state: &SessionState, command: Command<'_>) -> Result<Actor, Rejection> {
    match command {
        Command::User(user, _) => Ok(Actor::User { client: user.client().clone() }),
        Command::Runtime(worker, _) => Ok(Actor::Runtime { worker: worker.clone() }),
        Command::Agent(command) => {
            let turn = call_of(command).turn;
            let lane = state.running(turn).map(|(lane, _)| lane.clone());
            let lane = lane.ok_or_else(|| {
                Rejection::new("T5", Code::StaleEpoch, format!("turn {turn} is over; its calls do not run"))
            })?;
            Ok(Actor::Agent { lane, turn })
        }
    }
}

const fn call_of(command: &AgentCommand) -> CallRef {
    match command {
        AgentCommand::AdmitCall { call, .. }
        | AgentCommand::UpdatePlan { call, .. }
        | AgentCommand::ClosePlan { call, .. }
        | AgentCommand::CompleteGoal { call, .. }
        | AgentCommand::StageBlock { call, .. }
        | AgentCommand::WaitGoal { call, .. }
        | AgentCommand::ProposeGoal { call, .. }
        | AgentCommand::StartCommand { call, .. }
        | AgentCommand::StopCommand { call, .. }
        | AgentCommand::StartJob { call, .. } => *call,
    }
}

fn user(draft: &mut Draft<'_>, command: &UserCommand) -> Result<(), Rejection> {
    match command {
        // Answered by `decide`, which alone sees a session that is not open.
        UserCommand::OpenSession { .. } => Ok(()),
        UserCommand::SelectAgent { agent } => {
            if draft.state.core.work_agent.as_ref() != Some(agent) {
                draft.emit(EventBody::AgentSelected { agent: agent.clone() });
            }
            Ok(())
        }
        UserCommand::EnterPlan => {
            mode::enter_plan(draft);
            Ok(())
        }
        UserCommand::StartWork { lane, expected_plan_revision, prompt } => {
            mode::start_work(draft, known_lane(draft, lane)?, *expected_plan_revision, prompt.as_ref())
        }
        UserCommand::UpdatePlan { lane, update } => plan::update(draft, known_lane(draft, lane)?, update),
        UserCommand::ClosePlan { lane, expected_revision, reason } => {
            plan::close(draft, known_lane(draft, lane)?, *expected_revision, reason)
        }
        UserCommand::SetGoal { goal_id, objective, criteria, budgets, replace } => {
            inbox::release(draft);
            let (goal_id, criteria, budgets) = (*goal_id, criteria.as_ref(), *budgets);
            goal::set(draft, &goal::NewGoal { goal_id, objective, criteria, budgets, replace: *replace })
        }
        UserCommand::AcceptGoal { .. }
        | UserCommand::DeclineGoal
        | UserCommand::EditGoal { .. }
        | UserCommand::SetBudgets { .. }
        | UserCommand::PauseGoal
        | UserCommand::ResumeGoal
        | UserCommand::CancelGoal
        | UserCommand::CompleteGoal { .. } => user_goal(draft, command),
        UserCommand::SubmitInput { lane, text, delivery, resume } => {
            inbox::submit(draft, known_lane(draft, lane)?, *delivery, text)?;
            if *resume { goal::resume_with_message(draft) } else { Ok(()) }
        }
        UserCommand::AnswerRequest { request, answer } => request::answer(draft, *request, answer),
        UserCommand::StopCommand { command } => background::stop(draft, *command),
        UserCommand::CancelJob { job } => job::cancel(draft, *job),
        UserCommand::Interrupt => {
            stop::interrupt(draft);
            Ok(())
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`user` names every command and sends these here")]
fn user_goal(draft: &mut Draft<'_>, command: &UserCommand) -> Result<(), Rejection> {
    match command {
        UserCommand::AcceptGoal { expected_revision } => {
            inbox::release(draft);
            goal::accept(draft, *expected_revision)
        }
        UserCommand::DeclineGoal => goal::decline(draft),
        UserCommand::EditGoal { objective, criteria, expected_revision } => {
            goal::edit(draft, objective.as_ref(), criteria, *expected_revision)
        }
        UserCommand::SetBudgets { budgets } => goal::set_budgets(draft, *budgets),
        UserCommand::PauseGoal => goal::pause(draft, PauseReason::User),
        UserCommand::ResumeGoal => {
            goal::resume(draft)?;
            inbox::release(draft);
            Ok(())
        }
        UserCommand::CancelGoal => goal::cancel(draft),
        UserCommand::CompleteGoal { summary, force } => {
            goal::complete_by_user(draft, summary.as_ref(), *force)
        }
        _ => Ok(()),
    }
}

fn known_lane<'a>(draft: &Draft<'_>, lane: &'a LaneId) -> Result<&'a LaneId, Rejection> {
    if draft.state.core.lanes.contains_key(lane) {
        return Ok(lane);
    }
    Err(Rejection::new("P18", Code::InvalidInput, format!("this session has no lane `{lane}`")))
}

fn agent(draft: &mut Draft<'_>, command: &AgentCommand) -> Result<(), Rejection> {
    let Actor::Agent { lane, .. } = draft.actor().clone() else { return Ok(()) };
    match command {
        AgentCommand::AdmitCall { call, grant, effect } => call::admit(draft, *call, grant, effect),
        AgentCommand::UpdatePlan { call, grant, update, ignored } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            call::update_plan(draft, &lane, *call, update, ignored)
        }
        AgentCommand::ClosePlan { call, grant, expected_revision, reason } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            call::close_plan(draft, &lane, *call, *expected_revision, reason)
        }
        AgentCommand::CompleteGoal { call, grant, summary } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            call::complete_goal(draft, *call, summary.as_ref())
        }
        AgentCommand::StageBlock { call, grant, reason } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            call::stage_block(draft, *call, reason)
        }
        AgentCommand::WaitGoal { call, grant, wait, ran } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            wait::set(draft, *call, wait, *ran)
        }
        AgentCommand::ProposeGoal { call, grant, goal_id, objective, criteria, budgets } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            let (goal_id, criteria, budgets) = (*goal_id, criteria.as_ref(), *budgets);
            let new = goal::NewGoal { goal_id, objective, criteria, budgets, replace: false };
            call::propose_goal(draft, *call, &new)
        }
        AgentCommand::StartCommand { call, grant, effect, title, owner, ran } => background::start(
            draft,
            &lane,
            &background::NewCommand { call: *call, grant, effect, title, owner, ran: *ran },
        ),
        AgentCommand::StopCommand { call, grant, command } => {
            call::admit(draft, *call, grant, &Effect::WorkState)?;
            background::stop_by_agent(draft, *call, *command)
        }
        AgentCommand::StartJob { call, grant, job } => job::start(draft, &lane, *call, grant, job),
    }
}

fn runtime(draft: &mut Draft<'_>, command: &RuntimeCommand) -> Result<(), Rejection> {
    match command {
        RuntimeCommand::AdmitTurn { lane, owner, model, scope, max_requests, confinement } => {
            let terms = (*scope, *max_requests, *confinement);
            turn::admit(draft, known_lane(draft, lane)?, owner, model, terms)
        }
        RuntimeCommand::RecoverTurn { turn, dead, found } => {
            turn::recover(draft, *turn, dead.as_ref(), found)
        }
        RuntimeCommand::RenewLease { turn, owner } => turn::renew(draft, *turn, owner),
        RuntimeCommand::BeginRequest { turn, estimated_input } => {
            turn::begin_request(draft, *turn, *estimated_input)
        }
        RuntimeCommand::FailRequest { turn, failure, elapsed_ms, jitter } => {
            turn::fail_request(draft, *turn, failure, *elapsed_ms, *jitter)
        }
        RuntimeCommand::RecordResponse { turn, text, calls, usage } => {
            turn::record_response(draft, *turn, text, calls, *usage)
        }
        RuntimeCommand::RefuseCall { call, outcome, result } => call::refuse(draft, *call, *outcome, result),
        RuntimeCommand::FinishCall { call, outcome, result, full_output, ran } => {
            call::finish(draft, *call, *outcome, result, *full_output, *ran)
        }
        RuntimeCommand::Ask { call, grant, asked } => request::ask(draft, *call, grant, asked),
        RuntimeCommand::RenewCommand { command, owner } => background::renew(draft, *command, owner),
        RuntimeCommand::EndCommand { command, outcome, result, full_output } => {
            background::end(draft, *command, *outcome, result, *full_output)
        }
        RuntimeCommand::RecoverCommand { command, dead } => {
            background::recover(draft, *command, dead.as_ref())
        }
        RuntimeCommand::LookAtFile { goal_id, found } => wait::look(draft, *goal_id, *found),
        RuntimeCommand::EndTurn { turn, outcome, report, jitter } => {
            turn::end(draft, *turn, outcome, report.as_deref(), *jitter)
        }
    }
}
