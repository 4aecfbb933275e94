//! A small HTTP server for the tests: answers each connection as told and keeps what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// One step of an answer.
pub(super) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Waits until the client was shown a piece of text.
    UntilShown,
    /// Sends nothing until the client hangs up.
    Hold,
    /// Sends this again and again until the client hangs up.
    Flood(&'static str),
    /// Breaks the connection off instead of closing it.
    Reset,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) head: String,
    pub(super) body: String,
}

impl Received {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub(super) struct Server {
    pub(super) url: String,
    /// To be told of each piece of text that the client shows.
    pub(super) shown: Arc<Notify>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Serves the answers in order, one a connection, and closes each; further connections are only recorded.
    pub(super) async fn start(answers: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::new(Notify::new());
        let (kept, told) = (Arc::clone(&received), Arc::clone(&shown));
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(request) = receive(&mut stream).await else { continue };
                kept.lock().unwrap().push(request);
                for step in answers.next().into_iter().flatten() {
                    // A client that hung up is what some tests are about.
                    if step.play(&mut stream, &told).await.is_err() {
                        break;
                    }
                }
            }
        });
        Self { url, shown, received }
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

impl Step {
    async fn play(self, stream: &mut TcpStream, shown: &Notify) -> std::io::Result<()> {
        match self {
            Self::Send(bytes) => stream.write_all(&bytes).await,
            Self::Wait(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Self::UntilShown => {
                shown.notified().await;
                Ok(())
            }
            Self::Hold => stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
            Self::Flood(text) => loop {
                stream.write_all(text.as_bytes()).await?;
            },
            Self::Reset => stream.set_zero_linger(),
        }
    }
}

/// The first byte of a client that speaks TLS.
const TLS_HANDSHAKE: u8 = 0x16;

async fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if bytes.first() == Some(&TLS_HANDSHAKE) {
            return Some(Received { head: String::new(), body: String::new() });
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_owned();
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Some(Received { head, body: body.to_owned() });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A plain answer with headers, each ended by a line break, and a body.
pub(super) fn plain(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![send(&format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))]
}

/// These bytes and no others.
pub(super) fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// The beginning of a stream.
pub(super) fn opening() -> Step {
    send(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: \
         close\r\n\r\n",
    )
}

/// A piece of a stream, as one HTTP chunk.
pub(super) fn piece(text: &str) -> Step {
    send(&format!("{:x}\r\n{text}\r\n", text.len()))
}

/// An event of a stream.
pub(super) fn event(data: &Value) -> Step {
    piece(&format!("data: {data}\n\n"))
}

/// The end mark of the protocol.
pub(super) fn done() -> Step {
    piece("data: [DONE]\n\n")
}

/// The orderly end of the HTTP body.
pub(super) fn closing() -> Step {
    send("0\r\n\r\n")
}

/// An event of Anthropic's, which goes by its name.
pub(super) fn named(data: &Value) -> Step {
    piece(&format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
}

/// A whole body of pieces that ends in good order.
pub(super) fn body(pieces: impl IntoIterator<Item = Step>) -> Vec<Step> {
    [opening()].into_iter().chain(pieces).chain([closing()]).collect()
}

/// A whole stream of events, with its end mark.
pub(super) fn events(data: &[Value]) -> Vec<Step> {
    body(data.iter().map(event).chain([done()]))
}

fn choice(delta: &Value, finish_reason: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    })
}

pub(super) fn role() -> Value {
    choice(&json!({"role": "assistant", "content": ""}), &Value::Null)
}

pub(super) fn text(content: &str) -> Value {
    choice(&json!({"content": content}), &Value::Null)
}

pub(super) fn delta(delta: &Value) -> Value {
    choice(delta, &Value::Null)
}

/// The first piece of a call.
pub(super) fn call(index: u32, id: &str, name: &str, arguments: &str) -> Value {
    choice(
        &json!({"tool_calls": [{
            "index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments},
        }]}),
        &Value::Null,
    )
}

/// A later piece of a call.
pub(super) fn more(index: u32, arguments: &str) -> Value {
    choice(&json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}), &Value::Null)
}

pub(super) fn finish(reason: &str) -> Value {
    choice(&json!({}), &json!(reason))
}

pub(super) fn usage(usage: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [], "usage": usage,
    })
}
