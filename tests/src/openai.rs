//! A small HTTP server that speaks the streaming protocol of `openai-chat` and keeps what it was sent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// An answer of the server.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A complete answer: text, calls as name and arguments, and the tokens of input and output.
    Answer {
        /// The text, streamed word by word.
        text: String,
        /// The calls.
        calls: Vec<(String, String)>,
        /// Input and output tokens.
        usage: (u64, u64),
    },
    /// The beginning of an answer; then nothing until the client goes.
    Begun(String),
    /// An HTTP error with this status line, such as `429 Too Many Requests`, and further header lines.
    Refusal {
        /// Number and reason.
        status: String,
        /// Header lines, each ended by a line break.
        headers: String,
    },
}

impl Reply {
    /// A text that ends the turn.
    pub fn text(text: &str) -> Self {
        Self::Answer { text: text.to_owned(), calls: Vec::new(), usage: (100, 10) }
    }

    /// One call.
    pub fn call(tool: &str, arguments: &Value) -> Self {
        let calls = vec![(tool.to_owned(), arguments.to_string())];
        Self::Answer { text: String::new(), calls, usage: (100, 10) }
    }
}

/// The server; it ends when this is dropped.
pub struct OpenAiServer {
    /// What belongs into `base_url`.
    pub base_url: String,
    bodies: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for OpenAiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OpenAiServer {
    /// Answers each request by its number, from 1, and its body.
    pub async fn start(reply: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (kept, reply) = (Arc::clone(&bodies), Arc::new(reply));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (kept, reply) = (Arc::clone(&kept), Arc::clone(&reply));
                tokio::spawn(async move {
                    // A client that goes away in the middle is part of what tests do.
                    serve(stream, &kept, reply.as_ref()).await.ok();
                });
            }
        });
        Self { base_url, bodies, task }
    }

    /// The request bodies so far, as they were sent.
    pub fn bodies(&self) -> Vec<String> {
        self.bodies.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    kept: &Mutex<Vec<String>>,
    reply: &(dyn Fn(usize, &Value) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let Some(body) = receive(&mut stream).await? else { return Ok(()) };
    let request = serde_json::from_str(&body).unwrap_or_default();
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push(body);
        kept.len()
    };
    match reply(number, &request) {
        Reply::Answer { text, calls, usage } => {
            stream.write_all(answer(&text, &calls, usage).as_bytes()).await?;
        }
        Reply::Begun(text) => {
            stream
                .write_all(format!("{HEAD}{}", chunk(&delta(&json!({ "content": text })))).as_bytes())
                .await?;
            // The client says nothing more; this ends when it goes.
            stream.read_to_end(&mut Vec::new()).await?;
        }
        Reply::Refusal { status, headers } => {
            let body = json!({ "error": { "message": status } }).to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close");
            stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
        }
    }
    stream.shutdown().await
}

async fn receive(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let body = &bytes[end + 4..];
            if body.len() >= length.unwrap_or(0) {
                return Ok(Some(String::from_utf8_lossy(body).into_owned()));
            }
        }
        match stream.read(&mut buffer).await? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                    connection: close\r\n\r\n";

fn answer(text: &str, calls: &[(String, String)], (input, output): (u64, u64)) -> String {
    let mut body = HEAD.to_owned();
    for word in text.split_inclusive(' ') {
        body.push_str(&chunk(&delta(&json!({ "content": word }))));
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let call = json!({
            "index": index, "id": format!("c{index}"), "type": "function",
            "function": { "name": name, "arguments": arguments },
        });
        body.push_str(&chunk(&delta(&json!({ "tool_calls": [call] }))));
    }
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    body.push_str(&chunk(&choices(&json!([{ "index": 0, "delta": {}, "finish_reason": reason }]))));
    let mut usage = choices(&json!([]));
    usage["usage"] = json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
    });
    body.push_str(&chunk(&usage));
    body + &http_chunk("data: [DONE]\n\n") + "0\r\n\r\n"
}

fn delta(delta: &Value) -> Value {
    choices(&json!([{ "index": 0, "delta": delta, "finish_reason": null }]))
}

fn choices(choices: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices,
    })
}

fn chunk(event: &Value) -> String {
    http_chunk(&format!("data: {event}\n\n"))
}

fn http_chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
