//! One tool of a server, as the turn loop knows tools.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet, Effect};
use rmcp::model::JsonObject;
use runtime::{CallSubject, PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::catalog::Listed;
use crate::connection::Connection;
use crate::fault::Fault;
use crate::server::{Limits, Server};

/// What a program of others may do, as far as anybody knows: anything. So it needs what Plan mode and readers lack,
/// whatever the server says of the tool (C4).
const NEEDS: CapabilitySet = CapabilitySet::of(&[Capability::RunCommand, Capability::Network]);

pub(crate) struct ExternalTool {
    server: Arc<Server>,
    listed: Listed,
    full: String,
    spec: ToolSpec,
}

impl ExternalTool {
    pub(crate) fn new(server: Arc<Server>, listed: Listed) -> Self {
        let full = server.name.full(&listed.name);
        let said = listed.description.as_deref().filter(|text| !text.trim().is_empty());
        let spec = ToolSpec {
            name: listed.for_models.clone().into(),
            description: said
                .map_or_else(|| format!("The tool {full} of another program."), str::to_owned)
                .into(),
            input_schema: Value::Object(listed.schema.as_ref().clone()),
            requires: NEEDS,
        };
        Self { server, listed, full, spec }
    }
}

#[async_trait]
impl Tool for ExternalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn of_server(&self) -> Option<&str> {
        Some(&self.full)
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let Value::Object(arguments) = arguments else {
            return Err(ToolFault::Arguments("send one JSON object".to_owned()));
        };
        let connection = self.server.connection_for(&self.listed).await.map_err(|fault| {
            let next = match fault {
                Fault::Changed { .. } => {
                    "It is refused until the next run. Go on without it, and tell the user"
                }
                _ => "Nothing was called. Go on without it, or try again",
            };
            ToolFault::Refused(format!("`{}` cannot be called. Of its server: {fault}. {next}", self.full))
        })?;
        let (tool, limits) = (self.listed.name.clone(), self.server.limits);
        Ok(Box::new(ExternalCall { connection, tool, arguments, limits }))
    }
}

struct ExternalCall {
    connection: Arc<Connection>,
    tool: String,
    arguments: JsonObject,
    limits: Limits,
}

#[async_trait]
impl PreparedCall for ExternalCall {
    fn effect(&self) -> Effect {
        Effect::External
    }

    fn subject(&self) -> CallSubject {
        CallSubject::default()
    }

    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput {
        let Self { connection, tool, arguments, limits } = *self;
        connection.call(&tool, arguments, limits, &stop).await
    }
}
