//! The one door to a session, the turn loop, the Goal-only scheduler and recovery.
//!
//! [`open`] gives the door, [`Sessions`], and the user's own, [`UserDoor`], which alone can issue what only a person
//! may. An [`Engine`] runs turns: it asks a [`Model`], runs [`Tool`]s, and starts a turn for durable input or an active
//! Goal and for nothing else. Loops elsewhere use the same steps through [`AdmittedTurn`]. Everything a client shows
//! is one of the views here.

mod background;
mod door;
mod drive;
mod feed;
mod fresh;
mod history;
mod outlook;
mod owner;
mod plan_input;
mod ports;
mod projection;
mod recovery;
mod scheduler;
mod sessions;
mod sight;
mod toolbox;
mod turn;
mod work_tools;
mod worker;
mod workshop;

pub use agents::{
    InstructionFile, InstructionOwner, Instructions, PROJECT_INSTRUCTION_BYTES, SkillSummary,
    USER_INSTRUCTION_BYTES,
};
pub use door::{Answered, NewGoal, Prompt, UserDoor};
pub use drive::{Driven, Observer};
pub use outlook::{Outlook, Remedy};
pub use owner::WorkerState;
pub use policy::{Awaited, BudgetEdit, CriteriaEdit, Delay, Delivery, NewRequest, Scope};
pub use ports::{
    CallSubject, Delta, HistoryCall, Inspection, Message, Model, ModelRequest, ModelResponse, PreparedCall,
    RequestedCall, Tool, ToolFault, ToolOutput, ToolSpec,
};
pub use projection::{
    AgainView, CommandView, GoalView, JobView, ModeView, PlanAccepted, PlanChangeView, PlanRevisionView,
    PlanView, SessionView, TurnView,
};
pub use recovery::Recovery;
pub use scheduler::{Asking, Engine, EngineError, Step};
pub use sessions::{CommandError, Sessions, open};
pub use sight::Sight;
pub use toolbox::Toolbox;
pub use turn::{AdmittedTurn, CallResult};
pub use worker::{Charge, Rest, Waiting, Worked};
pub use workshop::{TurnLimits, Workplace, Workshop};
