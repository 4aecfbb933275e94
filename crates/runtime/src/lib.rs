//! The one door to a session, the turn loop, the Goal-only scheduler and recovery.

mod ports;

pub use ports::{
    Delta, Evidence, HistoryCall, Message, Model, ModelRequest, ModelResponse, PreparedCall, RequestedCall,
    Tool, ToolFault, ToolOutput, ToolSpec,
};
