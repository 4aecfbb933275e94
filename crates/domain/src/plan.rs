//! The execution plan: a checklist with stable step ids that shows progress and drives nothing.

mod decode;
mod diff;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use decode::{DecodedCandidate, UnknownKeys, decode_candidate, decode_revision};
pub use diff::{PlanDiff, StepChange};

use crate::id::{GoalId, PlanId, Revision};
use crate::text::{Text, TextFault, fits_step_id, is_blank, trim, visible};
use crate::violation::{Code, Violation};

/// Characters in a plan or step title: a line and a half of a wide terminal, not a paragraph (P7).
pub const TITLE_CHARS: usize = 500;
/// Bytes in a step id: a short slug (P7).
pub const STEP_ID_BYTES: usize = 64;
/// Steps in a plan: far above the useful dozen, far below what would crowd a model's context (P7).
pub const STEPS: usize = 200;
/// Characters in an explanation: one paragraph (P7).
pub const EXPLANATION_CHARS: usize = 2_000;

/// The title of a plan or a step.
pub type Title = Text<TITLE_CHARS>;

/// How far a step is. Blocking and cancellation are not step states (P6).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    Pending,
    /// The one being worked on.
    InProgress,
    /// Done, for good (P11).
    Completed,
}

impl StepStatus {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The identity of a step across revisions: exact code points after trimming (P3, P7).
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct StepId(String);

/// Why a text is no step id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StepIdFault {
    /// Nothing visible in it.
    #[error("is blank")]
    Blank,
    /// Holds a character that cannot be seen.
    #[error("holds the invisible character U+{0:04X}")]
    Invisible(u32),
    /// Longer than the limit.
    #[error("has {0} bytes, the limit is {STEP_ID_BYTES}")]
    TooLong(usize),
}

impl StepId {
    /// Trims and checks a text.
    pub fn parse(text: &str) -> Result<Self, StepIdFault> {
        if is_blank(text) {
            return Err(StepIdFault::Blank);
        }
        let text = trim(text);
        if let Some(c) = text.chars().find(|c| !fits_step_id(*c)) {
            return Err(StepIdFault::Invisible(c.into()));
        }
        if text.len() > STEP_ID_BYTES {
            return Err(StepIdFault::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for StepId {
    type Error = StepIdFault;

    fn try_from(text: String) -> Result<Self, StepIdFault> {
        Self::parse(&text)
    }
}

impl From<StepId> for String {
    fn from(id: StepId) -> Self {
        id.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One step of an accepted plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Step {
    /// Its identity across revisions.
    pub id: StepId,
    /// What it is about; free to change.
    pub title: Title,
    /// How far it is.
    pub status: StepStatus,
}

/// A plan somebody proposes: decoded, not checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The title as sent.
    pub title: String,
    /// The steps as sent.
    pub steps: Vec<CandidateStep>,
    /// The revision the change is based on.
    pub expected_revision: Option<Revision>,
    /// The Goal the plan supports, as sent: what is no id names no Goal (P12).
    pub goal_id: Option<String>,
    /// Why the plan changes.
    pub explanation: Option<String>,
}

/// A step of a [`Candidate`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CandidateStep {
    /// The id as sent.
    pub id: String,
    /// The title as sent.
    pub title: String,
    /// The status.
    pub status: StepStatus,
}

/// The content of a plan that keeps P1–P7. There is no other way to make one than [`Snapshot::check`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Snapshot {
    title: Title,
    steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
}

impl Snapshot {
    /// Checks the structure of a candidate and reports everything that is wrong with it (P1–P7).
    pub fn check(candidate: &Candidate) -> Result<Self, Vec<Violation>> {
        let mut found = Vec::new();
        let title = match Title::parse(&candidate.title) {
            Ok(title) => Some(title),
            Err(TextFault::Blank) => {
                found.push(Violation::new("P1", Code::BlankTitle, "the plan title is blank; give it one"));
                None
            }
            Err(fault @ TextFault::TooLong { .. }) => {
                found.push(Violation::new("P7", Code::LimitExceeded, format!("the plan title {fault}")));
                None
            }
        };
        if candidate.steps.len() > STEPS {
            let message = format!("the plan has {} steps, the limit is {STEPS}", candidate.steps.len());
            found.push(Violation::new("P7", Code::LimitExceeded, message));
        }
        if let Some(chars) = candidate.explanation.as_ref().map(|text| text.chars().count())
            && chars > EXPLANATION_CHARS
        {
            let message = format!("the explanation has {chars} characters, the limit is {EXPLANATION_CHARS}");
            found.push(Violation::new("P7", Code::LimitExceeded, message));
        }
        let steps: Vec<_> =
            (1..).zip(&candidate.steps).filter_map(|(at, step)| check_step(at, step, &mut found)).collect();
        check_set(&candidate.steps, &mut found);
        match (title, found.is_empty()) {
            (Some(title), true) => Ok(Self { title, steps, explanation: candidate.explanation.clone() }),
            _ => Err(found),
        }
    }

    /// The title.
    pub fn title(&self) -> &Title {
        &self.title
    }

    /// The steps in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Why this revision was made.
    pub fn explanation(&self) -> Option<&str> {
        self.explanation.as_deref()
    }
}

/// How a message names a step that may lack a usable id.
fn label(at: usize, step: &CandidateStep) -> String {
    if is_blank(&step.id) { format!("#{at}") } else { trim(&step.id).chars().take(80).collect() }
}

fn check_step(at: usize, step: &CandidateStep, found: &mut Vec<Violation>) -> Option<Step> {
    let label = label(at, step);
    let named = visible(&label);
    let mut report = |rule, code, message: String| {
        found.push(Violation::new(rule, code, message).of_steps([label.clone()]));
    };
    let id = StepId::parse(&step.id);
    match id {
        Ok(_) => {}
        Err(StepIdFault::Blank) => report(
            "P2",
            Code::BlankStepId,
            format!("step {at} has a blank id; give it a short stable one such as \"verify\""),
        ),
        Err(fault @ StepIdFault::Invisible(_)) => {
            report("P7", Code::InvalidStepId, format!("the id of step {at} {fault}"));
        }
        Err(fault @ StepIdFault::TooLong(_)) => {
            report("P7", Code::LimitExceeded, format!("the id of step {at} {fault}"));
        }
    }
    let title = Title::parse(&step.title);
    match title {
        Ok(_) => {}
        Err(TextFault::Blank) => {
            report(
                "P2",
                Code::BlankStepTitle,
                format!("step `{named}` has a blank title; say what it is about"),
            );
        }
        Err(fault @ TextFault::TooLong { .. }) => {
            report("P7", Code::LimitExceeded, format!("the title of step `{named}` {fault}"));
        }
    }
    Some(Step { id: id.ok()?, title: title.ok()?, status: step.status })
}

fn check_set(steps: &[CandidateStep], found: &mut Vec<Violation>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps.iter().filter(|step| !is_blank(&step.id)) {
        *seen.entry(trim(&step.id)).or_default() += 1;
    }
    let repeated: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).map(|(id, _)| *id).collect();
    if !repeated.is_empty() {
        let message =
            format!("step ids must be unique; used more than once: {}", visible(&repeated.join(", ")));
        found.push(Violation::new("P3", Code::DuplicateStepId, message).of_steps(repeated));
    }
    let with = |status| (1..).zip(steps).filter(move |(_, step)| step.status == status);
    let active: Vec<_> = with(StepStatus::InProgress).map(|(at, step)| label(at, step)).collect();
    if active.len() > 1 {
        let message = format!("only one step may be in_progress; these are: {}", visible(&active.join(", ")));
        found.push(Violation::new("P4", Code::SeveralInProgress, message).of_steps(active));
    } else if active.is_empty()
        && let Some((at, next)) = with(StepStatus::Pending).next()
    {
        let pending: Vec<_> = with(StepStatus::Pending).map(|(at, step)| label(at, step)).collect();
        let next = visible(&label(at, next));
        let message =
            format!("steps are pending, so exactly one must be in_progress; mark one, for example `{next}`");
        found.push(Violation::new("P5", Code::NoActiveStep, message).of_steps(pending));
    }
}

/// An accepted revision of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "PlanRecord")]
pub struct Plan {
    /// The plan; its revisions share it.
    #[serde(rename = "plan_id")]
    pub id: PlanId,
    /// The revision, from 1 (P13).
    pub revision: Revision,
    /// The Goal it supports; only an association (P12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal_id: Option<GoalId>,
    /// Title, steps and explanation.
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// Whether a plan has work left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Something is left, or there are no steps yet.
    Unfinished,
    /// At least one step, and all are completed.
    Complete,
}

impl Plan {
    /// How many steps are completed.
    pub fn completed(&self) -> usize {
        self.count(StepStatus::Completed)
    }

    /// How many steps there are.
    pub fn total(&self) -> usize {
        self.snapshot.steps.len()
    }

    /// How many steps are not completed.
    pub fn unfinished(&self) -> usize {
        self.total() - self.completed()
    }

    /// The step in progress.
    pub fn active(&self) -> Option<&Step> {
        self.snapshot.steps.iter().find(|step| step.status == StepStatus::InProgress)
    }

    /// Whether work is left.
    pub fn standing(&self) -> Standing {
        if self.total() > 0 && self.unfinished() == 0 { Standing::Complete } else { Standing::Unfinished }
    }

    /// The step of this id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.snapshot.steps.iter().find(|step| step.id == *id)
    }

    fn count(&self, status: StepStatus) -> usize {
        self.snapshot.steps.iter().filter(|step| step.status == status).count()
    }
}

/// The stored form of a [`Plan`]: reading it checks P1–P7 again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanRecord {
    plan_id: PlanId,
    revision: Revision,
    #[serde(default)]
    goal_id: Option<GoalId>,
    title: String,
    steps: Vec<StepRecord>,
    #[serde(default)]
    explanation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepRecord {
    id: String,
    title: String,
    status: StepStatus,
}

/// A stored plan that breaks the rules it was accepted under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored plan breaks {}: {}", .0.rule, .0.message)]
struct StoredPlanFault(Violation);

impl TryFrom<PlanRecord> for Plan {
    type Error = StoredPlanFault;

    fn try_from(record: PlanRecord) -> Result<Self, StoredPlanFault> {
        let steps = record.steps.into_iter();
        let candidate = Candidate {
            title: record.title,
            steps: steps.map(|s| CandidateStep { id: s.id, title: s.title, status: s.status }).collect(),
            expected_revision: None,
            goal_id: None,
            explanation: record.explanation,
        };
        let snapshot =
            Snapshot::check(&candidate).map_err(|mut found| StoredPlanFault(found.swap_remove(0)))?;
        if record.revision == Revision(0) {
            let message = "a stored revision is at least 1";
            return Err(StoredPlanFault(Violation::new("P13", Code::InvalidInput, message)));
        }
        Ok(Self { id: record.plan_id, revision: record.revision, goal_id: record.goal_id, snapshot })
    }
}

#[cfg(test)]
mod tests;
