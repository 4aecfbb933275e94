//! A question to a person: durable, and settled once (I4).

use serde::{Deserialize, Serialize};

use crate::goal::Remark;
use crate::id::{CallRef, GoalId, LaneId, RequestId, Timestamp, TurnNumber};
use crate::inbox::InputText;
use crate::progress::Fingerprint;
use crate::text::Text;

/// Characters of a question: a few paragraphs; more is a report, not a question.
pub const QUESTION_CHARS: usize = 2_000;
/// Characters of one suggested answer: a line.
pub const OPTION_CHARS: usize = 200;
/// Suggested answers to one question: what a person can weigh at a glance.
pub const OPTIONS: usize = 10;
/// Requests that may wait in one session. Each ends its turn, so more than a few means that nobody answers.
pub const OPEN_REQUESTS: usize = 20;

/// What a person is asked.
pub type Question = Text<QUESTION_CHARS>;
/// A suggested answer.
pub type AnswerOption = Text<OPTION_CHARS>;

/// What is wanted of the person.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Asked {
    /// An answer in words.
    Input {
        /// The question.
        question: Question,
        /// Suggested answers; any other text is an answer too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<AnswerOption>,
    },
    /// Leave for one tool call, which is kept as it was asked for.
    Permission {
        /// The call. Its arguments stand in the response that asked for it.
        call: CallRef,
        /// Its tool.
        tool: String,
        /// What the call would do, in a line.
        subject: Question,
        /// Why it needs leave.
        because: String,
        /// The tool with its arguments: what makes two calls the same.
        fingerprint: Fingerprint,
    },
}

/// A request that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HumanRequest {
    /// Its number.
    pub id: RequestId,
    /// The lane that asked.
    pub lane: LaneId,
    /// The turn that asked.
    pub turn: TurnNumber,
    /// The Goal it was asked for, which is paused until it is answered.
    pub goal_id: Option<GoalId>,
    /// When it was asked.
    pub at: Timestamp,
    /// What is wanted.
    pub asked: Asked,
}

/// What the person said.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    /// An answer in words.
    Text {
        /// The words.
        text: InputText,
    },
    /// The call may run, once.
    Allow,
    /// The call must not run, or the question is not going to be answered.
    Deny {
        /// Why, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Remark>,
    },
}

/// How a request was settled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RequestEnd {
    /// A person answered.
    Answered {
        /// What they said.
        answer: Answer,
    },
    /// It is not waited for any more: the user resumed its Goal without an answer, or the Goal ended.
    Cancelled,
}
