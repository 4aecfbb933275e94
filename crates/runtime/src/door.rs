//! The user's own door. Whoever holds it speaks for a person.

use domain::{
    AgentName, Answer, Budgets, Code, CommandId, CommandKey, Event, EventBody, GoalId, InputId, InputText,
    JobId, LaneId, Objective, Remark, RequestEnd, RequestId, Revision, SessionId, UnknownKeys, Violation,
};
use policy::{BudgetEdit, CriteriaEdit, Delivery, Rejection, UserActor, UserCommand};
use serde_json::Value;
use store::Committed;

use crate::fresh;
use crate::plan_input;
use crate::projection::{PlanAccepted, PlanView, SessionView};
use crate::sessions::{CommandError, Extra, Order, Sessions};

/// Commands of a person through one client. Only the composition root gets one, from [`open`](crate::open).
#[derive(Clone)]
pub struct UserDoor {
    sessions: Sessions,
    user: UserActor,
}

/// A Goal that a person sets.
#[derive(Debug, Clone)]
pub struct NewGoal {
    /// What it is after.
    pub objective: Objective,
    /// How to tell that it is reached.
    pub criteria: Option<Objective>,
    /// What it may spend.
    pub budgets: Budgets,
    /// Whether it takes the place of an open one (G13).
    pub replace: bool,
}

/// What a person sends to the agent (I1, G9).
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The text.
    pub text: InputText,
    /// Whether it joins the running turn.
    pub delivery: Delivery,
    /// Whether the Goal goes on with it.
    pub resume: bool,
}

impl Prompt {
    /// A prompt that waits for a turn of its own and leaves the Goal as it is.
    pub const fn queued(text: InputText) -> Self {
        Self { text, delivery: Delivery::Queue, resume: false }
    }
}

/// What became of an answer to a request.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The session after it.
    pub view: SessionView,
    /// How the request ended, by this answer or before it.
    pub end: RequestEnd,
    /// Whether this answer did it. Otherwise the request was settled before, and nothing changed.
    pub changed: bool,
}

impl UserDoor {
    pub(crate) const fn new(sessions: Sessions, user: UserActor) -> Self {
        Self { sessions, user }
    }

    async fn act(
        &self,
        session: SessionId,
        command: UserCommand,
        key: Option<CommandKey>,
    ) -> Result<Committed, CommandError> {
        let key = key.map(|key| {
            let payload = serde_json::to_vec(&command).unwrap_or_default();
            (key, store::digest(&payload))
        });
        let order = Order::User(self.user.clone(), command);
        self.sessions.execute(session, order, Extra { key, ..Extra::default() }).await
    }

    async fn view(&self, session: SessionId, command: UserCommand) -> Result<SessionView, CommandError> {
        let committed = self.act(session, command, None).await?;
        Ok(self.view_of(&committed))
    }

    fn view_of(&self, committed: &Committed) -> SessionView {
        SessionView::of(&committed.state, &committed.leases, committed.wake_at, self.sessions.now())
    }

    /// Opens a session in a workspace, given by the absolute path of its root.
    pub async fn open_session(&self, workspace: &str, agent: AgentName) -> Result<SessionId, CommandError> {
        check_agent(&agent)?;
        let session = fresh::session();
        let workspace = workspace.to_owned();
        self.act(session, UserCommand::OpenSession { workspace, agent }, None).await?;
        Ok(session)
    }

    /// Chooses the agent for Work mode (M2).
    pub async fn select_agent(
        &self,
        session: SessionId,
        agent: AgentName,
    ) -> Result<SessionView, CommandError> {
        check_agent(&agent)?;
        self.view(session, UserCommand::SelectAgent { agent }).await
    }

    /// Enters Plan mode (M3).
    pub async fn enter_plan(&self, session: SessionId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::EnterPlan).await
    }

    /// Goes back to Work mode (M4).
    pub async fn start_work(
        &self,
        session: SessionId,
        expected_plan_revision: Option<Revision>,
        prompt: Option<InputText>,
    ) -> Result<SessionView, CommandError> {
        let lane = LaneId::main();
        self.view(session, UserCommand::StartWork { lane, expected_plan_revision, prompt }).await
    }

    /// Replaces the plan with a candidate given as JSON. Unknown keys are refused; `key` makes it safe to send twice.
    pub async fn update_plan(
        &self,
        session: SessionId,
        candidate: &Value,
        key: Option<CommandKey>,
    ) -> Result<PlanAccepted, CommandError> {
        let lane = LaneId::main();
        let (update, _) = match plan_input::read_update(candidate, UnknownKeys::Refuse) {
            Ok(read) => read,
            Err(found) => return Err(self.refuse_plan(session, found).await?.into()),
        };
        // The fresh id of a plan that may not be needed is no part of what the command says.
        let said = (&update.snapshot, update.expected_revision, &update.goal_id);
        let payload = serde_json::to_vec(&said).unwrap_or_default();
        let key = key.map(|key| (key, store::digest(&payload)));
        let order = Order::User(self.user.clone(), UserCommand::UpdatePlan { lane, update });
        let committed = self.sessions.execute(session, order, Extra { key, ..Extra::default() }).await?;
        accepted(&committed.events).ok_or_else(|| {
            Rejection::new("E5", Code::KeyReused, "the key was used for another kind of command").into()
        })
    }

    /// The refusal of a candidate that was never tried, with the plan as it is (P14).
    ///
    /// Clients whose input is not even JSON use it too.
    pub async fn refuse_plan(
        &self,
        session: SessionId,
        found: Vec<Violation>,
    ) -> Result<Rejection, CommandError> {
        let head = self.sessions.head(session).await?;
        Ok(plan_input::refused(found, &head.state, &LaneId::main()))
    }

    /// Closes a plan that no longer applies (P17).
    pub async fn close_plan(
        &self,
        session: SessionId,
        expected_revision: Option<Revision>,
        reason: Remark,
    ) -> Result<PlanView, CommandError> {
        let lane = LaneId::main();
        let command = UserCommand::ClosePlan { lane: lane.clone(), expected_revision, reason };
        let committed = self.act(session, command, None).await?;
        let view =
            committed.state.latest_plan(&lane).map(|latest| PlanView::of(latest.plan, Some(latest.head)));
        view.ok_or_else(|| Rejection::new("P17", Code::NoPlan, "there is no plan").into())
    }

    /// Opens a Goal, active at once unless Plan mode holds it.
    pub async fn set_goal(&self, session: SessionId, new: NewGoal) -> Result<GoalId, CommandError> {
        let goal_id = fresh::goal();
        let NewGoal { objective, criteria, budgets, replace } = new;
        self.act(session, UserCommand::SetGoal { goal_id, objective, criteria, budgets, replace }, None)
            .await?;
        Ok(goal_id)
    }

    /// Holds the Goal.
    pub async fn pause_goal(&self, session: SessionId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::PauseGoal).await
    }

    /// Lets the Goal go on.
    pub async fn resume_goal(&self, session: SessionId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::ResumeGoal).await
    }

    /// Gives the Goal up.
    pub async fn cancel_goal(&self, session: SessionId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::CancelGoal).await
    }

    /// Declares the Goal reached; with `force` also while work of it is open, which is cancelled (G12).
    pub async fn complete_goal(
        &self,
        session: SessionId,
        summary: Option<Remark>,
        force: bool,
    ) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::CompleteGoal { summary, force }).await
    }

    /// Accepts what an agent proposes: a Goal, or a change of one (G3).
    pub async fn accept_goal(
        &self,
        session: SessionId,
        expected_revision: Option<Revision>,
    ) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::AcceptGoal { expected_revision }).await
    }

    /// Declines what an agent proposes.
    pub async fn decline_goal(&self, session: SessionId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::DeclineGoal).await
    }

    /// Changes what the Goal is after.
    pub async fn edit_goal(
        &self,
        session: SessionId,
        objective: Option<Objective>,
        criteria: CriteriaEdit,
        expected_revision: Option<Revision>,
    ) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::EditGoal { objective, criteria, expected_revision }).await
    }

    /// Changes what the Goal may spend; one that ran out of it goes on (G4).
    pub async fn set_budgets(
        &self,
        session: SessionId,
        budgets: BudgetEdit,
    ) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::SetBudgets { budgets }).await
    }

    /// Answers a request; one that was settled before stays as it is (I4).
    pub async fn answer(
        &self,
        session: SessionId,
        request: RequestId,
        answer: Answer,
    ) -> Result<Answered, CommandError> {
        let command = UserCommand::AnswerRequest { request, answer };
        let committed = self.act(session, command, None).await?;
        let view = self.view_of(&committed);
        let settled = committed.events.iter().find_map(|event| settling(event, request));
        let (end, changed) = match settled {
            Some(end) => (end, true),
            // A request that is not open has an event that settled it.
            None => {
                (self.sessions.request_end(session, request).await?.unwrap_or(RequestEnd::Cancelled), false)
            }
        };
        Ok(Answered { view, end, changed })
    }

    /// Asks a background command to stop.
    pub async fn stop_command(
        &self,
        session: SessionId,
        command: CommandId,
    ) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::StopCommand { command }).await
    }

    /// Ends a job (W2).
    pub async fn cancel_job(&self, session: SessionId, job: JobId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::CancelJob { job }).await
    }

    /// Queues a prompt, or a word to the running turn (I1).
    pub async fn submit(
        &self,
        session: SessionId,
        prompt: Prompt,
        key: Option<CommandKey>,
    ) -> Result<InputId, CommandError> {
        let Prompt { text, delivery, resume } = prompt;
        let command = UserCommand::SubmitInput { lane: LaneId::main(), text, delivery, resume };
        let committed = self.act(session, command, key).await?;
        let queued =
            committed.events.iter().find(|event| matches!(event.body, EventBody::InputQueued { .. }));
        Ok(InputId(queued.map_or(committed.state.core.head, |event| event.seq)))
    }

    /// Stops what runs, pauses an active Goal and holds what is queued (G11).
    pub async fn interrupt(&self, session: SessionId) -> Result<SessionView, CommandError> {
        self.view(session, UserCommand::Interrupt).await
    }
}

/// How a request ended, if this event is its end.
pub(crate) fn settling(event: &Event, of: RequestId) -> Option<RequestEnd> {
    match &event.body {
        EventBody::RequestSettled { request, end } if *request == of => Some(end.clone()),
        _ => None,
    }
}

/// The plan among the events of an accepted update: of the first time, should this be a repetition (E5).
fn accepted(events: &[Event]) -> Option<PlanAccepted> {
    events.iter().find_map(|event| match &event.body {
        EventBody::PlanRevised { plan, .. } => Some(PlanAccepted::of(plan)),
        _ => None,
    })
}

/// Only agents of the table can be selected, and `plan` runs in Plan mode alone.
fn check_agent(agent: &AgentName) -> Result<(), CommandError> {
    let mut names = agents::selectable().map(|role| role.name);
    if names.any(|name| name == agent.as_str()) {
        return Ok(());
    }
    let known: Vec<_> = agents::selectable().map(|role| role.name).collect();
    let message = format!("no agent `{agent}` can be selected; there are {}", known.join(", "));
    Err(Rejection::new("C3", Code::NoSuchAgent, message).into())
}
