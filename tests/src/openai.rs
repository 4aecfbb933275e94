//! A small HTTP server that speaks the streaming protocol of `openai-chat` and keeps what it was sent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::gate::Gate;

/// Bytes of a call's arguments in one event. Providers cut where it suits them, also within a word.
const PIECE_BYTES: usize = 7;

/// An answer of the server.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A complete answer: text, calls as name and arguments, and the tokens of input and output.
    Answer {
        /// The text, streamed word by word.
        text: String,
        /// The calls, their arguments streamed in pieces.
        calls: Vec<(String, String)>,
        /// Input and output tokens.
        usage: (u64, u64),
    },
    /// The same text and calls, every piece of them; then the connection is gone, before the answer's end.
    Cut {
        /// The text.
        text: String,
        /// The calls.
        calls: Vec<(String, String)>,
    },
    /// A reply that waits until the test opens the gate.
    Gated(Gate, Box<Self>),
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

/// A request as it arrived.
#[derive(Debug, Clone)]
struct Received {
    head: String,
    body: String,
}

/// The server; it ends when this is dropped.
pub struct OpenAiServer {
    /// What belongs into `base_url`.
    pub base_url: String,
    received: Arc<Mutex<Vec<Received>>>,
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
        let received = Arc::new(Mutex::new(Vec::new()));
        let (kept, reply) = (Arc::clone(&received), Arc::new(reply));
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
        Self { base_url, received, task }
    }

    /// The request bodies so far, as they were sent.
    pub fn bodies(&self) -> Vec<String> {
        self.received.lock().unwrap().iter().map(|request| request.body.clone()).collect()
    }

    /// The request lines and header fields so far, as they were sent.
    pub fn heads(&self) -> Vec<String> {
        self.received.lock().unwrap().iter().map(|request| request.head.clone()).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    kept: &Mutex<Vec<Received>>,
    reply: &(dyn Fn(usize, &Value) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let Some(received) = receive(&mut stream).await? else { return Ok(()) };
    let request = serde_json::from_str(&received.body).unwrap_or_default();
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push(received);
        kept.len()
    };
    let mut reply = reply(number, &request);
    while let Reply::Gated(gate, inner) = reply {
        gate.pass().await;
        reply = *inner;
    }
    send(&mut stream, reply).await?;
    stream.shutdown().await
}

async fn send(stream: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Answer { text, calls, usage } => {
            let answer = format!("{HEAD}{}{}", said(&text, &calls), end(!calls.is_empty(), usage));
            stream.write_all(answer.as_bytes()).await
        }
        Reply::Cut { text, calls } => {
            stream.write_all(format!("{HEAD}{}", said(&text, &calls)).as_bytes()).await
        }
        Reply::Begun(text) => {
            stream.write_all(format!("{HEAD}{}", said(&text, &[])).as_bytes()).await?;
            stream.read(&mut [0]).await.map(drop)
        }
        Reply::Refusal { status, headers } => {
            let body = json!({ "error": { "message": status } }).to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close");
            stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await
        }
        Reply::Gated(..) => unreachable!("every gate was passed"),
    }
}

async fn receive(stream: &mut TcpStream) -> std::io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let body = &bytes[end + 4..];
            if body.len() >= length.unwrap_or(0) {
                let body = String::from_utf8_lossy(body).into_owned();
                return Ok(Some(Received { head, body }));
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

/// Text and calls, without an end.
fn said(text: &str, calls: &[(String, String)]) -> String {
    let mut body = String::new();
    for word in text.split_inclusive(' ') {
        body.push_str(&chunk(&delta(&json!({ "content": word }))));
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let opening = json!({
            "index": index, "id": format!("c{index}"), "type": "function",
            "function": { "name": name, "arguments": "" },
        });
        body.push_str(&chunk(&delta(&json!({ "tool_calls": [opening] }))));
        for piece in pieces(arguments) {
            let more = json!({ "index": index, "function": { "arguments": piece } });
            body.push_str(&chunk(&delta(&json!({ "tool_calls": [more] }))));
        }
    }
    body
}

fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.ceil_char_boundary(PIECE_BYTES.min(text.len())));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

/// The reason, the usage and the marks that say that nothing is missing.
fn end(has_calls: bool, (input, output): (u64, u64)) -> String {
    let reason = if has_calls { "tool_calls" } else { "stop" };
    let mut body = chunk(&choices(&json!([{ "index": 0, "delta": {}, "finish_reason": reason }])));
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
