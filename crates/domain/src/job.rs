//! Delegated work: a job is one child lane of its session (E8, W2).

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilitySet};
use crate::id::{AgentName, CallRef, GoalId, JobId, LaneId, Timestamp};
use crate::text::Text;

/// Jobs that may run at once in one session: each is a model at work, and what four of them report at the same time is
/// already more than one reader follows.
pub const RUNNING_JOBS: usize = 4;
/// Characters by which a job is shown.
pub const JOB_TITLE_CHARS: usize = 200;

/// How a job is shown: its objective, shortened.
pub type JobTitle = Text<JOB_TITLE_CHARS>;

/// A job that runs. What it is to do is the first input of its lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Its lane, which lives as long as the job.
    pub child: LaneId,
    /// The call that delegated it. As long as this call has no result it is answered with the job's report.
    pub call: CallRef,
    /// The agent it runs.
    pub agent: AgentName,
    /// The most its lane may do: what its parent might when it delegated, less what no child may (C5).
    pub grant: Vec<Capability>,
    /// The Goal it works for.
    pub goal_id: Option<GoalId>,
    /// How it is shown.
    pub title: JobTitle,
    /// When it was delegated.
    pub since: Timestamp,
}

impl Job {
    /// The most its lane may do, as the set that calls are held against.
    pub fn may(&self) -> CapabilitySet {
        CapabilitySet::of(&self.grant)
    }
}

/// How a job ended (W2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// Its agent came to an end and reported.
    Succeeded,
    /// It could not go on.
    Failed,
    /// It was stopped.
    Cancelled,
    /// Cut off by a crash during something that may have happened (T7).
    Uncertain,
}

impl JobOutcome {
    /// The name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Uncertain => "uncertain",
        }
    }
}
