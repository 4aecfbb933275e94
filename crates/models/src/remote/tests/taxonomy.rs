//! Every way in which a server is known to misbehave, and the kind of failure that it is (T9).
//!
//! The cases are below, one entry each; what became of them is the table in `snapshots`. A case plays its bytes over
//! TCP to the adapter that the product uses.

use std::fmt::Write;
use std::sync::Arc;

use domain::FailureKind;

use super::super::server::{body, named, send};
use super::*;

/// How the server is reached.
enum At {
    Http,
    /// By an address that promises TLS, which the server does not speak.
    Https,
    /// Nobody listens.
    Nobody,
}

struct Case {
    name: &'static str,
    protocol: Protocol,
    at: At,
    patience: Patience,
    answer: Vec<Step>,
}

const fn case(name: &'static str, answer: Vec<Step>) -> Case {
    Case { name, protocol: Protocol::OpenaiChat, at: At::Http, patience: Patience::USUAL, answer }
}

impl Case {
    fn over(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    fn at(self, at: At) -> Self {
        Self { at, ..self }
    }

    fn with(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    async fn failure(self) -> Failure {
        let name = self.name;
        let server = Server::start(vec![self.answer]).await;
        let url = match self.at {
            At::Http => server.url.clone(),
            At::Https => server.url.replace("http:", "https:"),
            At::Nobody => {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                format!("http://{}/v1/", listener.local_addr().unwrap())
            }
        };
        let settings = RemoteSettings { protocol: self.protocol, ..settings(&url) };
        let model = RemoteModel::with_patience(settings, self.patience).unwrap();
        let shown = Arc::clone(&server.shown);
        let (outcome, _) = respond_and_show(&model, &|| shown.notify_one()).await;
        assert!(server.received().len() < 2, "{name}: one request is one attempt");
        let failure = outcome.expect_err(name);
        let authority = url.split('/').nth(2).unwrap();
        let detail = failure.detail.replace(authority, "HOST:PORT");
        Failure { detail: without_os_codes(&detail), ..failure }
    }
}

/// The numbers of the system's errors differ between systems.
fn without_os_codes(detail: &str) -> String {
    let mut pieces = detail.split(" (os error ");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once(')').map_or("", |(_, rest)| rest))
}

/// For what goes wrong at once.
const SOON: Duration = Duration::from_millis(300);
/// For what must first go well for a moment, also on a busy machine.
const LATER: Duration = Duration::from_secs(2);

fn statuses() -> Vec<Case> {
    let key = r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let model =
        r#"{"error":{"message":"no model `x`","type":"invalid_request_error","code":"model_not_found"}}"#;
    let credit = r#"{"type":"error","error":{"type":"billing_error","message":"no credit"}}"#;
    let long = r#"{"error":{"message":"maximum context length is 8192","code":"context_length_exceeded"}}"#;
    let long_in_prose = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200001 tokens"}}"#;
    let filtered = r#"{"error":{"message":"filtered","code":"content_filter"}}"#;
    vec![
        case("302", plain("302 Found", "location: https://elsewhere.example/v1/\r\n", "")),
        case("400", plain("400 Bad Request", "", "no")),
        case("400 with half a JSON body", plain("400 Bad Request", "", r#"{"error":{"message":"#)),
        case("400 context_length_exceeded", plain("400 Bad Request", "", long)),
        case("400 too long, said in prose", plain("400 Bad Request", "", long_in_prose))
            .over(Protocol::Anthropic),
        case("400 content_filter", plain("400 Bad Request", "", filtered)),
        case("401", plain("401 Unauthorized", "", "")),
        case("401 invalid_api_key", plain("401 Unauthorized", "", key)),
        case("402", plain("402 Payment Required", "", "")),
        case("403", plain("403 Forbidden", "", "")),
        case("403 billing_error", plain("403 Forbidden", "", credit)).over(Protocol::Anthropic),
        case("404 page", plain("404 Not Found", "", "<html>not here</html>")),
        case("404 model_not_found", plain("404 Not Found", "", model)),
        case("404 Ollama's", plain("404 Not Found", "", r#"{"error":"model 'x' not found"}"#))
            .over(Protocol::Ollama),
        case("408", plain("408 Request Timeout", "", "")),
        case("413", plain("413 Payload Too Large", "", "")),
        case("500", plain("500 Internal Server Error", "", "oops")),
        case("500 with half a JSON body", plain("500 Internal Server Error", "", r#"{"error":{"#)),
        case("500 with a body cut off", vec![send("HTTP/1.1 500 Oops\r\ncontent-length: 99\r\n\r\nhalf")]),
        case(
            "500 with a body that stalls",
            vec![send("HTTP/1.1 500 Oops\r\ncontent-length: 99\r\n\r\nhalf"), Step::Hold],
        )
        .with(Patience { idle: SOON, ..Patience::USUAL }),
        case(
            "500 with a body without end",
            vec![send("HTTP/1.1 500 Oops\r\n\r\n"), Step::Flood("all work and no play\n")],
        ),
        case("502 page", plain("502 Bad Gateway", "", "<p>bad gateway</p>")),
        case("503", plain("503 Service Unavailable", "", "")),
        case("503 Retry-After in seconds", plain("503 Service Unavailable", "retry-after: 20\r\n", "")),
        case("529", plain("529 Overloaded", "", "")),
    ]
}

fn limits() -> Vec<Case> {
    let slow = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
    let limited = |name, headers: &str| case(name, plain("429 Too Many Requests", headers, slow));
    let spent = |name, body: &str| case(name, plain("429 Too Many Requests", "", body));
    vec![
        limited("429", ""),
        limited("429 Retry-After in seconds", "retry-after: 7\r\n"),
        limited("429 Retry-After in fractions", "retry-after: 0.5\r\n"),
        limited("429 retry-after-ms", "retry-after-ms: 6500\r\nretry-after: 7\r\n"),
        limited(
            "429 Retry-After as a date",
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:50:07 GMT\r\n",
        ),
        limited("429 Retry-After of the past", "retry-after: Sun, 06 Nov 1994 08:50:07 GMT\r\n"),
        limited("429 Retry-After in 3,000 years", "retry-after: 99999999999\r\n"),
        limited("429 Retry-After without sense", "retry-after: soon\r\n"),
        limited("429 Retry-After below zero", "retry-after: -5\r\n"),
        spent(
            "429 insufficient_quota",
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        ),
        spent(
            "429 quota by type alone",
            r#"{"error":{"message":"suspended","type":"exceeded_current_quota_error"}}"#,
        ),
        spent("429 quota in prose alone", r#"{"error":{"message":"insufficient_quota"}}"#),
    ]
}

fn connections() -> Vec<Case> {
    let begun = || vec![opening(), event(&text("a"))];
    let then = |step| begun().into_iter().chain([step]).collect::<Vec<_>>();
    let mut keep_alives = vec![opening()];
    keep_alives.extend((0..20).flat_map(|_| [piece(": keep-alive\n\n"), Step::Wait(SOON / 4)]));
    let mut drip = begun();
    drip.extend((0..100).flat_map(|_| [event(&text("b")), Step::Wait(SOON / 4)]));
    vec![
        case("connection refused", vec![]).at(At::Nobody),
        case("hung up without an answer", vec![]),
        case("reset without an answer", vec![Step::Reset]),
        case("no TLS at an https address", plain("400 Bad Request", "", "")).at(At::Https),
        case("no HTTP", vec![send("SSH-2.0-OpenSSH_9.2\r\n"), Step::Hold]),
        case("half a status line", vec![send("HTTP/1.1 20")]),
        case("silence from the start", vec![Step::Hold])
            .with(Patience { first_byte: SOON, ..Patience::USUAL }),
        case("silence after the headers", vec![opening(), Step::Hold])
            .with(Patience { idle: SOON, ..Patience::USUAL }),
        case("silence within the answer", then(Step::Hold)).with(Patience { idle: LATER, ..Patience::USUAL }),
        case("nothing but keep-alives", keep_alives).with(Patience { answer: SOON, ..Patience::USUAL }),
        case("an answer that does not end", drip).with(Patience { answer: LATER, ..Patience::USUAL }),
        case("cut in good order", then(closing())),
        case("cut within an HTTP chunk", then(send("ff\r\ndata: {\"cho"))),
        case("hung up between two events", begun()),
        case("reset within the answer", vec![opening(), event(&text("a")), Step::UntilShown, Step::Reset]),
        case("cut in good order, Responses", body([event(&response_text())])).over(Protocol::OpenaiResponses),
        case("cut in good order, Anthropic", body([named(&block_text())])).over(Protocol::Anthropic),
        case("cut in good order, Gemini", body([event(&candidate("half", &Value::Null))]))
            .over(Protocol::Gemini),
        case("cut in good order, Ollama", body([line(&json!({"message": {"content": "half"}}))]))
            .over(Protocol::Ollama),
    ]
}

fn bodies() -> Vec<Case> {
    let garbage = |begun: Value| body([event(&begun), piece("data: {oops}\n\n"), done()]);
    let html = "<html>\n\n<body>Welcome</body>\n\n</html>";
    let unary = r#"{"choices":[{"message":{"content":"not streamed"}}]}"#;
    let endless = vec![send("HTTP/1.1 200 OK\r\n\r\n"), Step::Flood("data: all work and no play ")];
    vec![
        case("malformed JSON in the stream", garbage(text("a"))),
        case("malformed JSON in the stream, Responses", garbage(response_text()))
            .over(Protocol::OpenaiResponses),
        case(
            "malformed JSON in the stream, Anthropic",
            body([piece("event: content_block_delta\ndata: {oops}\n\n")]),
        )
        .over(Protocol::Anthropic),
        case("malformed JSON in the stream, Gemini", garbage(candidate("half", &Value::Null)))
            .over(Protocol::Gemini),
        case("malformed JSON in the stream, Ollama", body([piece("{oops}\n")])).over(Protocol::Ollama),
        case("not UTF-8", vec![opening(), Step::Send(b"5\r\n\xff\xff\xff\n\n\r\n".to_vec()), closing()]),
        case("200 with nothing", plain("200 OK", "", "")),
        case("200 with a page", plain("200 OK", "content-type: text/html\r\n", html)),
        case("200 with a page, Ollama", plain("200 OK", "content-type: text/html\r\n", html))
            .over(Protocol::Ollama),
        case("200 with JSON that is no stream", plain("200 OK", "content-type: application/json\r\n", unary)),
        case(
            "200 with half a JSON body",
            plain("200 OK", "content-type: application/json\r\n", &unary[..20]),
        ),
        case("200 with an event without end", endless)
            .with(Patience { part: Most { reads: 20, ..Patience::USUAL.part }, ..Patience::USUAL }),
        case(
            "a call without an index",
            entry(&json!({"id": "b", "function": {"name": "x", "arguments": "{}"}})),
        ),
        case("a call without a function", entry(&json!({"index": 1, "id": "b"}))),
        case(
            "a call with arguments that are no text",
            entry(&json!({"index": 1, "function": {"name": "x", "arguments": {"a": 1}}})),
        ),
        case(
            "a call far beyond the last",
            entry(&json!({"index": u32::MAX, "function": {"name": "x", "arguments": "{}"}})),
        ),
        case(
            "two calls under one index",
            entry(&json!({"index": 0, "id": "b", "function": {"name": "list_dir", "arguments": "{}"}})),
        ),
    ]
}

fn answers() -> Vec<Case> {
    let cut = |prompt: u32| {
        let spent = usage(&json!({"prompt_tokens": prompt, "completion_tokens": 500}));
        events(&[text("and then"), finish("length"), spent])
    };
    let refusal = [delta(&json!({"refusal": "I can't "})), delta(&json!({"refusal": "do that."}))];
    let refused = json!({"type": "response.refusal.delta", "delta": "I won't."});
    let incomplete = |reason: &str| {
        body([event(&response_text()), event(&response("incomplete", &json!({"reason": reason})))])
    };
    let ended = |reason: &str| {
        let stop = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        body([block_text(), stop, json!({"type": "message_stop"})].iter().map(named))
    };
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}});
    vec![
        case("an empty answer", events(&[role(), finish("stop")])),
        case("an answer of white space", events(&[text(" \n"), finish("stop")])),
        case("an end and nothing before it", events(&[])),
        case("finish_reason content_filter", events(&[text("I will"), finish("content_filter")])),
        case("a refusal", events(&[refusal[0].clone(), refusal[1].clone(), finish("stop")])),
        case("a refusal, Responses", body([refused, response("completed", &Value::Null)].iter().map(event)))
            .over(Protocol::OpenaiResponses),
        case("incomplete for content_filter, Responses", incomplete("content_filter"))
            .over(Protocol::OpenaiResponses),
        case("stop_reason refusal, Anthropic", ended("refusal")).over(Protocol::Anthropic),
        case("finishReason SAFETY, Gemini", body([event(&candidate("I", &json!("SAFETY")))]))
            .over(Protocol::Gemini),
        case("a blocked prompt, Gemini", body([event(&blocked)])).over(Protocol::Gemini),
        case("finish_reason length, context full", cut(9_000)),
        case("finish_reason length, room left", cut(1_000)),
        case("incomplete for max_output_tokens, Responses", incomplete("max_output_tokens"))
            .over(Protocol::OpenaiResponses),
        case("stop_reason model_context_window_exceeded, Anthropic", ended("model_context_window_exceeded"))
            .over(Protocol::Anthropic),
        case(
            "finish_reason insufficient_system_resource",
            events(&[text("a"), finish("insufficient_system_resource")]),
        ),
        case(
            "finishReason MALFORMED_FUNCTION_CALL, Gemini",
            body([event(&candidate("a", &json!("MALFORMED_FUNCTION_CALL")))]),
        )
        .over(Protocol::Gemini),
    ]
}

fn errors_in_answers() -> Vec<Case> {
    let chat = |error: Value| body([event(&text("a")), event(&json!({"error": error}))]);
    let failed = |code: &str| {
        let error = json!({"code": code, "message": "so sorry"});
        let failed = json!({"type": "response.failed", "response": {
            "id": "r", "model": "m", "status": "failed", "error": error, "output": [],
        }});
        body([event(&response_text()), event(&failed)])
    };
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let error = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"});
    let unavailable = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "try later"}});
    let vague = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}});
    let crashed = [json!({"message": {"content": "a"}}), json!({"error": "llama runner crashed"})];
    vec![
        case("an error in the answer", chat(json!({"message": "boom"}))),
        case("an error without a word", chat(json!({}))),
        case("rate_limit_exceeded in the answer", chat(json!({"code": "rate_limit_exceeded"}))),
        case("context_length_exceeded in the answer", chat(json!({"code": "context_length_exceeded"}))),
        case("402 in the answer", chat(json!({"code": 402, "message": "no credit"}))),
        case("failed: server_error, Responses", failed("server_error")).over(Protocol::OpenaiResponses),
        case("failed: rate_limit_exceeded, Responses", failed("rate_limit_exceeded"))
            .over(Protocol::OpenaiResponses),
        case("failed: insufficient_quota, Responses", failed("insufficient_quota"))
            .over(Protocol::OpenaiResponses),
        case("failed: invalid_prompt, Responses", failed("invalid_prompt")).over(Protocol::OpenaiResponses),
        case("an error event, Responses", body([event(&error)])).over(Protocol::OpenaiResponses),
        case("overloaded_error, Anthropic", body([named(&block_text()), named(&overloaded)]))
            .over(Protocol::Anthropic),
        case("UNAVAILABLE, Gemini", body([event(&unavailable)])).over(Protocol::Gemini),
        case("RESOURCE_EXHAUSTED, Gemini", body([event(&vague)])).over(Protocol::Gemini),
        case("an error in the answer, Ollama", body(crashed.iter().map(line))).over(Protocol::Ollama),
    ]
}

fn entry(entry: &Value) -> Vec<Step> {
    let calls = json!({"tool_calls": [entry]});
    events(&[call(0, "a", "read_file", "{}"), delta(&calls), finish("tool_calls")])
}

/// A piece of text in the Responses protocol.
fn response_text() -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "half"})
}

fn response(status: &str, details: &Value) -> Value {
    json!({"type": format!("response.{status}"), "response": {
        "id": "r", "model": "m", "status": status, "incomplete_details": details, "output": [],
    }})
}

/// A piece of text in Anthropic's protocol.
fn block_text() -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}})
}

fn candidate(text: &str, finish_reason: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": finish_reason}]})
}

/// A line of Ollama's stream.
fn line(data: &Value) -> Step {
    piece(&format!("{data}\n"))
}

/// Kinds that come from elsewhere than a model's server.
const OTHERS: [FailureKind; 4] =
    [FailureKind::StoreBusy, FailureKind::CorruptState, FailureKind::Stuck, FailureKind::NoSuchAgent];

#[tokio::test]
async fn t9_a_misbehaving_server_has_its_kind_of_failure() {
    let groups = [
        ("Statuses", statuses()),
        ("Limits", limits()),
        ("Connections", connections()),
        ("Bodies", bodies()),
        ("Answers", answers()),
        ("Errors in answers", errors_in_answers()),
    ];
    let mut table = String::new();
    let mut missing: Vec<_> = FailureKind::ALL.into_iter().filter(|kind| !OTHERS.contains(kind)).collect();
    for (title, cases) in groups {
        writeln!(table, "\n## {title}\n").unwrap();
        for case in cases {
            let name = case.name;
            let failure = case.failure().await;
            missing.retain(|kind| *kind != failure.kind);
            let class = format!("{:?}", failure.kind.class()).to_lowercase();
            let wait = failure.retry_after_ms.map_or_else(String::new, |wait| format!(" after {wait} ms"));
            let detail = failure.detail.strip_prefix("model `main`: ").expect(name);
            writeln!(table, "{name}\n    {class}{wait}: {}\n    {detail}", failure.kind).unwrap();
        }
    }
    assert!(missing.is_empty(), "no case ends as {missing:?}");
    insta::assert_snapshot!(table);
}
