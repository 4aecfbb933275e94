//! A connection to a server: the handshake, the list of its tools, and calls.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ErrorData,
    Implementation, JsonObject, ListRootsRequestMethod, ListToolsRequest, PaginatedRequestParams,
    PingRequest, ServerResult, Tool,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RequestHandle, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use runtime::ToolOutput;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::answer::answer;
use crate::fault::{Fault, clip};
use crate::messages::{MESSAGE_BYTES, Messages};
use crate::process::Process;
use crate::server::{Limits, Reach};

/// Tools of one server: each is told to the model with every request.
const TOOLS: usize = 128;

/// Pages of the list of tools: as many as there can be tools, so that a list without end has one.
const PAGES: usize = TOOLS;

/// What this program is to a server: one that uses tools and offers nothing. It does not let a server ask a model or a
/// person, nor tells it of folders.
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("zuno", env!("CARGO_PKG_VERSION")),
        )
    }

    #[expect(deprecated, reason = "servers of older protocols ask, and the default tells them of no folders")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }
}

/// A server that has shaken hands. Its program is killed when this is dropped.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Client>,
    process: Mutex<Option<Process>>,
    is_too_long: Arc<AtomicBool>,
}

impl Connection {
    /// Reaches a server. The bound on the time is the caller's.
    pub(crate) async fn open(reach: &Reach, folder: &Path) -> Result<Self, Fault> {
        let is_too_long = Arc::new(AtomicBool::new(false));
        match reach {
            Reach::Program { command, arguments, environment } => {
                let (process, stdout, stdin) = Process::start(command, arguments, environment, folder)?;
                let stdout = Messages::new(stdout, MESSAGE_BYTES, Arc::clone(&is_too_long));
                let transport =
                    AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MESSAGE_BYTES);
                let service = match Client.serve(transport).await {
                    Ok(service) => service,
                    Err(_) if is_too_long.load(Ordering::Relaxed) => {
                        return Err(Fault::TooLong(MESSAGE_BYTES));
                    }
                    Err(error) => {
                        let words = process.words_at_its_end().await;
                        let said = if words.is_empty() { words } else { format!("; it said: {words}") };
                        return Err(Fault::BrokenOff(clip(&format!("{error}{said}"))));
                    }
                };
                Ok(Self { service, process: Mutex::new(Some(process)), is_too_long })
            }
            Reach::Http { url, token } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MESSAGE_BYTES)
                    .max_json_response_size(MESSAGE_BYTES);
                if let Some(token) = token {
                    config = config.auth_header(token.0.as_str());
                }
                let transport = StreamableHttpClientTransport::from_config(config);
                let service = Client.serve(transport).await;
                let service = service.map_err(|error| Fault::BrokenOff(clip(&error.to_string())))?;
                Ok(Self { service, process: Mutex::new(None), is_too_long })
            }
        }
    }

    /// Whether nothing can be asked over it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// All tools, asked for anew: what the server said before, or says of how long that holds, is not relied on.
    pub(crate) async fn list(&self) -> Result<Vec<Tool>, Fault> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let request = match cursor.take() {
                None => ListToolsRequest::default(),
                next => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(next)),
            };
            let page = self.service.peer().send_request(ClientRequest::ListToolsRequest(request)).await;
            let ServerResult::ListToolsResult(page) = page.map_err(|error| self.fault(&error))? else {
                return Err(Fault::Refused("its list of tools is none".to_owned()));
            };
            tools.extend(page.tools);
            if tools.len() > TOOLS {
                break;
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(Fault::TooMany(TOOLS))
    }

    /// Calls a tool and waits for the answer, at most as long as the limits say and until it is told to stop.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        limits: Limits,
        stop: &CancellationToken,
    ) -> ToolOutput {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let send = self.service.peer().send_cancellable_request(request, PeerRequestOptions::no_options());
        let mut handle = match timeout(limits.cancel, send).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => return self.broken_off(&error),
            Err(_) => {
                self.kill();
                return ToolOutput::uncertain("the server takes no message; inspect before repeating");
            }
        };
        tokio::select! {
            result = &mut handle.rx => match result.unwrap_or(Err(ServiceError::TransportClosed)) {
                Ok(result) => answer(result),
                Err(error) => self.broken_off(&error),
            },
            () = stop.cancelled() => {
                let how = self.cancel(handle, limits.cancel).await;
                ToolOutput::stopped(format!("stopped before the server answered; {how}"))
            }
            () = sleep(limits.call) => {
                let how = self.cancel(handle, limits.cancel).await;
                ToolOutput::failed(format!("{}; {how}", Fault::Silent(limits.call)))
            }
        }
    }

    /// Tells the server that nobody waits for an answer. A program that takes no notice is killed.
    async fn cancel(&self, call: RequestHandle<RoleClient>, limit: Duration) -> String {
        let told = timeout(limit, async {
            call.cancel(Some("the call is over".to_owned())).await?;
            self.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default())).await
        });
        let how = if matches!(told.await, Ok(Ok(_))) {
            "it was told to cancel the call"
        } else if self.kill() {
            "it took no notice and was killed"
        } else {
            "it took no notice"
        };
        format!("{how}. What the call did by then stays; inspect before repeating")
    }

    /// Kills its program. Says whether there was one.
    pub(crate) fn kill(&self) -> bool {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    fn fault(&self, error: &ServiceError) -> Fault {
        if self.is_too_long.load(Ordering::Relaxed) {
            return Fault::TooLong(MESSAGE_BYTES);
        }
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        match (Fault::of(error), process.as_ref().map(Process::last_words)) {
            (Fault::BrokenOff(why), Some(words)) if !words.is_empty() => {
                Fault::BrokenOff(format!("{why}; it said: {words}"))
            }
            (fault, _) => fault,
        }
    }

    /// The server refused, or nobody can tell what it did.
    fn broken_off(&self, error: &ServiceError) -> ToolOutput {
        match self.fault(error) {
            fault @ Fault::Refused(_) => ToolOutput::failed(format!("the call failed: {fault}")),
            fault @ Fault::TooLong(_) => {
                ToolOutput::failed(format!("the call was made, but {fault}; ask for less at a time"))
            }
            fault => ToolOutput::uncertain(format!(
                "the server was called, and then {fault}. The call may have done what it was to do, in part or as a \
                 whole; inspect before repeating"
            )),
        }
    }
}
