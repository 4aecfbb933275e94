//! An MCP server for tests, over standard streams or HTTP.
//!
//! `toolserver FOLDER` speaks over its standard streams, `toolserver FOLDER http` over a port of the loopback that it
//! writes into the file `port`. What it offers stands in `tools.json`, which it reads for every list; what it was asked,
//! it appends to `log`. What a call does depends on the tool's name.

#![expect(clippy::unwrap_used, reason = "a test program fails by panicking")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Tools {
    folder: PathBuf,
}

impl Tools {
    fn note(&self, text: &str) {
        let mut log = OpenOptions::new().create(true).append(true).open(self.folder.join("log")).unwrap();
        writeln!(log, "{text}").unwrap();
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = fs::read(self.folder.join("tools.json")).unwrap();
        Ok(ListToolsResult::with_all_items(serde_json::from_slice(&tools).unwrap()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::to_string(&request.arguments).unwrap();
        self.note(&format!("{} {arguments}", request.name));
        match request.name.as_ref() {
            "die" => std::process::exit(1),
            "hang" => {
                context.ct.cancelled().await;
                self.note("cancelled");
                Err(ErrorData::internal_error("cancelled", None))
            }
            _ => Ok(CallToolResult::success(vec![ContentBlock::text(format!("did {arguments}"))]).into()),
        }
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let tools = Tools { folder: arguments.next().unwrap().into() };
    if arguments.next().is_none() {
        tools.serve(rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap();
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let whole = tools.folder.join("port.tmp");
    fs::write(&whole, port).unwrap();
    fs::rename(whole, tools.folder.join("port")).unwrap();
    let service = StreamableHttpService::new(
        move || Ok(tools.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
