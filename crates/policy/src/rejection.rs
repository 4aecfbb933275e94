//! The answer to a command that is not allowed: data for programs, models and people alike.

use std::fmt;

use domain::{
    Actor, Code, CommandKey, LaneId, PlanId, Revision, SessionId, SessionState, StepId, StepStatus, Title,
    Violation,
};
use serde::Serialize;

/// Bytes of step titles that a refusal repeats; above that, ids and statuses tell enough (P14).
const TITLES_BYTES: usize = 8 * 1024;

/// A refused command. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// The first violation's code.
    pub code: Code,
    /// Everything that was found wrong together; never empty.
    pub violations: Vec<Violation>,
    /// The revision to expect, after a refused plan command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<Revision>,
    /// The plan as it is, after a refused plan command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_plan: Option<Box<PlanBrief>>,
}

/// A plan as a refusal shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanBrief {
    /// The plan.
    pub plan_id: PlanId,
    /// Its revision.
    pub revision: Revision,
    /// Who made the revision.
    pub changed_by: Actor,
    /// Its steps.
    pub steps: Vec<StepBrief>,
}

/// A step as a refusal shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepBrief {
    /// The id.
    pub id: StepId,
    /// The status.
    pub status: StepStatus,
    /// The title, unless all titles together are too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Title>,
}

impl Rejection {
    /// A refusal for one reason.
    pub fn new(rule: &'static str, code: Code, message: impl Into<String>) -> Self {
        Self::of(vec![Violation::new(rule, code, message)])
    }

    /// A refusal for several reasons. An empty list would be a bug of the caller and reads as `invalid_input`.
    pub fn of(violations: Vec<Violation>) -> Self {
        let code = violations.first().map_or(Code::InvalidInput, |first| first.code);
        Self { code, violations, current_revision: None, current_plan: None }
    }

    /// The same with the lane's plan as it is (P14).
    #[must_use]
    pub fn with_plan(mut self, state: &SessionState, lane: &LaneId) -> Self {
        self.current_revision = Some(state.current_revision(lane));
        self.current_plan =
            state.latest_plan(lane).filter(|latest| latest.head.closed.is_none()).map(|latest| {
                let steps = latest.plan.snapshot.steps();
                let bytes: usize = steps.iter().map(|step| step.title.as_str().len()).sum();
                let brief = |step: &domain::Step| StepBrief {
                    id: step.id.clone(),
                    status: step.status,
                    title: (bytes < TITLES_BYTES).then(|| step.title.clone()),
                };
                Box::new(PlanBrief {
                    plan_id: latest.plan.id,
                    revision: latest.plan.revision,
                    changed_by: latest.head.by.clone(),
                    steps: steps.iter().map(brief).collect(),
                })
            });
        self
    }

    /// Whether sending the steps again repairs the call: not for closing a plan or starting work on it.
    fn is_about_an_update(&self) -> bool {
        !self.violations.iter().any(|violation| matches!(violation.rule, "P17" | "M4"))
    }

    /// No session of this id.
    pub fn unknown_session(id: SessionId) -> Self {
        Self::new(
            "E1",
            Code::UnknownSession,
            format!("there is no session {id}; `zuno session list` shows them"),
        )
    }

    /// A command key that was used for something else (E5).
    pub fn key_reused(key: &CommandKey) -> Self {
        Self::new(
            "E5",
            Code::KeyReused,
            format!("the command key `{key}` was used before with another payload; send a new key"),
        )
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.violations.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", violation.code, violation.message)?;
        }
        if let Some(plan) = &self.current_plan {
            for (at, step) in plan.steps.iter().enumerate() {
                let separator = if at == 0 { ". Steps: " } else { " · " };
                write!(f, "{separator}{} {}", step.id, step.status)?;
            }
            if self.is_about_an_update() {
                write!(f, ". Resend all steps with \"expected_revision\": {}.", plan.revision)?;
            } else {
                write!(f, ". The current revision is {}.", plan.revision)?;
            }
        } else if self.current_revision.is_some() && self.is_about_an_update() {
            write!(f, ". There is no current plan: send all steps without \"expected_revision\".")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}
