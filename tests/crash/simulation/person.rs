//! What a person does in a history.

use std::num::{NonZeroU32, NonZeroU64};

use domain::{
    Answer, Asked, Budgets, CommandId, CommandKey, GoalStatus, InputText, Mode, Objective, Remark, RequestId,
    Revision, SessionId,
};
use policy::{BudgetEdit, CriteriaEdit, Delivery};
use runtime::{CommandError, NewGoal, Prompt, UserDoor};
use serde_json::Value;
use store::Head;

use super::chance::Chance;

/// One act.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// A prompt or a word to the running turn; `key` makes it safe to send twice.
    Say {
        text: String,
        delivery: Delivery,
        resume: bool,
        key: Option<String>,
    },
    /// A Goal with these tokens, turns and milliseconds.
    SetGoal {
        budgets: (u64, u32, u64),
        replace: bool,
    },
    /// Another objective.
    EditGoal,
    /// More of everything, or nearly nothing.
    Budget {
        more: bool,
    },
    Pause,
    Resume,
    Cancel,
    Complete {
        force: bool,
    },
    Accept,
    Decline,
    Interrupt,
    EnterPlan,
    /// With a prompt, if there is one.
    StartWork {
        prompt: Option<String>,
    },
    Answer {
        request: RequestId,
        answer: Answer,
    },
    /// A plan; `key` makes it safe to send twice.
    Plan {
        candidate: Value,
        key: Option<String>,
    },
    ClosePlan {
        revision: Revision,
    },
    StopCommand {
        command: CommandId,
    },
    Agent {
        name: &'static str,
    },
}

impl Act {
    /// The prompt that it queues.
    pub(crate) fn prompt(&self) -> Option<&str> {
        match self {
            Self::Say { text, .. } => Some(text),
            Self::StartWork { prompt } => prompt.as_deref(),
            _ => None,
        }
    }

    /// Whether it may be sent again by a client that got no answer.
    pub(crate) const fn is_keyed(&self) -> bool {
        matches!(self, Self::Say { key: Some(_), .. } | Self::Plan { key: Some(_), .. })
    }

    /// Does it.
    pub(crate) async fn perform(&self, user: &UserDoor, session: SessionId) -> Result<(), CommandError> {
        let key = |key: &Option<String>| key.as_deref().map(|key| CommandKey::parse(key).unwrap());
        match self {
            Self::Say { text, delivery, resume, key: sent } => {
                let prompt = Prompt { text: text_of(text), delivery: *delivery, resume: *resume };
                user.submit(session, prompt, key(sent)).await.map(drop)
            }
            Self::SetGoal { budgets: (tokens, turns, active_ms), replace } => {
                let budgets = Budgets {
                    tokens: NonZeroU64::new(*tokens).unwrap(),
                    turns: NonZeroU32::new(*turns).unwrap(),
                    active_ms: NonZeroU64::new(*active_ms).unwrap(),
                };
                let objective = Objective::parse("Reach it").unwrap();
                let new = NewGoal { objective, criteria: None, budgets, replace: *replace };
                user.set_goal(session, new).await.map(drop)
            }
            Self::EditGoal => {
                let objective = Some(Objective::parse("Reach another").unwrap());
                let criteria = CriteriaEdit::Set(Objective::parse("It is reached").unwrap());
                user.edit_goal(session, objective, criteria, None).await.map(drop)
            }
            Self::Budget { more } => {
                let (tokens, turns, active_ms) = if *more { LARGE } else { (10, 1, 10) };
                let budgets = BudgetEdit {
                    tokens: NonZeroU64::new(tokens),
                    turns: NonZeroU32::new(turns),
                    active_ms: NonZeroU64::new(active_ms),
                };
                user.set_budgets(session, budgets).await.map(drop)
            }
            Self::Pause => user.pause_goal(session).await.map(drop),
            Self::Resume => user.resume_goal(session).await.map(drop),
            Self::Cancel => user.cancel_goal(session).await.map(drop),
            Self::Complete { force } => user.complete_goal(session, None, *force).await.map(drop),
            Self::Accept => user.accept_goal(session, None).await.map(drop),
            Self::Decline => user.decline_goal(session).await.map(drop),
            Self::Interrupt => user.interrupt(session).await.map(drop),
            Self::EnterPlan => user.enter_plan(session).await.map(drop),
            Self::StartWork { prompt } => {
                user.start_work(session, None, prompt.as_deref().map(text_of)).await.map(drop)
            }
            Self::Answer { request, answer } => {
                user.answer(session, *request, answer.clone()).await.map(drop)
            }
            Self::Plan { candidate, key: sent } => {
                user.update_plan(session, candidate, key(sent)).await.map(drop)
            }
            Self::ClosePlan { revision } => {
                let reason = Remark::parse("It no longer applies").unwrap();
                user.close_plan(session, Some(*revision), reason).await.map(drop)
            }
            Self::StopCommand { command } => user.stop_command(session, *command).await.map(drop),
            Self::Agent { name } => user.select_agent(session, name.parse().unwrap()).await.map(drop),
        }
    }
}

/// Budgets that no history uses up.
pub(crate) const LARGE: (u64, u32, u64) = (1_000_000_000_000, 10_000, 1_000 * 60 * 60 * 1_000);
/// Small ones: a few requests, turns or minutes.
const SMALL: [(u64, u32, u64); 3] =
    [(2_500, LARGE.1, LARGE.2), (LARGE.0, 3, LARGE.2), (LARGE.0, LARGE.1, 40_000)];

fn text_of(text: &str) -> InputText {
    InputText::parse(text).unwrap()
}

/// A person who decides by chance.
pub(crate) struct Person {
    pub(crate) chance: Chance,
    /// Tells this person's prompts from those of others.
    pub(crate) name: &'static str,
    said: u64,
}

impl Person {
    pub(crate) const fn new(name: &'static str, chance: Chance) -> Self {
        Self { chance, name, said: 0 }
    }

    /// A text that nobody said before.
    pub(crate) fn new_text(&mut self) -> String {
        self.said += 1;
        format!("{} says {}", self.name, self.said)
    }

    /// Any act, more often one that the situation calls for.
    pub(crate) fn act(&mut self, head: &Head) -> Act {
        if self.chance.one_in(2)
            && let Some(act) = self.response(head)
        {
            return act;
        }
        match self.chance.below(24) {
            0..=4 => self.say(),
            5..=8 => self.set_goal(),
            9 => Act::EditGoal,
            10 => Act::Budget { more: self.chance.one_in(2) },
            11 => Act::Pause,
            12 => Act::Resume,
            13 => Act::Cancel,
            14 => Act::Complete { force: self.chance.one_in(2) },
            15 => [Act::Accept, Act::Decline][usize::from(self.chance.one_in(2))].clone(),
            16 | 17 => Act::Interrupt,
            18 | 19 => Act::EnterPlan,
            20 => Act::StartWork { prompt: self.chance.one_in(2).then(|| self.new_text()) },
            21 => self.plan(head),
            22 => Act::Agent { name: self.chance.pick::<&str>(&["build", "deep", "orchestrator"]) },
            _ => {
                let commands = &head.state.core.commands;
                let command = commands.first().map_or(CommandId(7), |command| command.id);
                Act::StopCommand { command }
            }
        }
    }

    /// What lets the session go on, if something holds it.
    pub(crate) fn response(&mut self, head: &Head) -> Option<Act> {
        let core = &head.state.core;
        if let Some(request) = core.requests.first()
            && !self.chance.one_in(4)
        {
            let deny = Answer::Deny { reason: None };
            let fitting = match request.asked {
                Asked::Input { .. } => Answer::Text { text: text_of("So be it") },
                Asked::Permission { .. } => Answer::Allow,
            };
            let answer = if self.chance.one_in(3) { deny } else { fitting };
            return Some(Act::Answer { request: request.id, answer });
        }
        if core.mode == Mode::Plan {
            return Some(Act::StartWork { prompt: None });
        }
        if core.inbox_held {
            return Some(self.say());
        }
        let goal = core.goal.as_ref().filter(|goal| goal.is_open())?;
        match &goal.status {
            GoalStatus::Proposed => Some(if self.chance.one_in(4) { Act::Decline } else { Act::Accept }),
            GoalStatus::BudgetLimited => Some(Act::Budget { more: true }),
            GoalStatus::Paused(_) | GoalStatus::Blocked { .. } => Some(Act::Resume),
            GoalStatus::Active | GoalStatus::Completed | GoalStatus::Cancelled => None,
        }
    }

    fn say(&mut self) -> Act {
        let text = self.new_text();
        let key = self.chance.one_in(2).then(|| text.clone());
        let delivery = if self.chance.one_in(3) { Delivery::Steer } else { Delivery::Queue };
        Act::Say { text, delivery, resume: self.chance.one_in(5), key }
    }

    fn set_goal(&mut self) -> Act {
        let budgets = if self.chance.one_in(3) { *self.chance.pick(&SMALL) } else { LARGE };
        Act::SetGoal { budgets, replace: self.chance.one_in(2) }
    }

    fn plan(&mut self, head: &Head) -> Act {
        let current = head.state.current_plan(&domain::LaneId::main());
        let revision = head.state.current_revision(&domain::LaneId::main());
        if revision.0 > 0 && self.chance.one_in(4) {
            return Act::ClosePlan { revision };
        }
        let candidate = next_plan(current, &mut self.chance);
        let key = self.chance.one_in(2).then(|| self.new_text());
        Act::Plan { candidate, key }
    }
}

/// A plan that follows from the current one: a step further, a new step, or a new plan.
pub(crate) fn next_plan(current: Option<&domain::Plan>, chance: &mut Chance) -> Value {
    let unfinished = current.filter(|plan| plan.unfinished() > 0);
    let Some(plan) = unfinished else {
        return tests::plan(if chance.one_in(4) { "a:in_progress" } else { "a:in_progress b c" });
    };
    let steps: Vec<_> = plan.snapshot.steps().iter().map(|step| step.id.as_str().to_owned()).collect();
    let done = plan.completed();
    let further = done + usize::from(!chance.one_in(4));
    let line = (0..steps.len()).map(|at| match at {
        _ if at < further => format!("{}:completed", steps[at]),
        _ if at == further => format!("{}:in_progress", steps[at]),
        _ => steps[at].clone(),
    });
    tests::revised(plan.revision.0, &line.collect::<Vec<_>>().join(" "))
}
