//! The `openai-chat` protocol against a real HTTP server.

mod bodies;
mod log;

use std::sync::Mutex;
use std::time::Instant;

use domain::{CapabilitySet, TokenUsage};
use runtime::{Message, RequestedCall, ToolSpec};
use serde_json::{Value, json};

use super::server::{
    Received, Server, Step, call, closing, delta, done, event, events, finish, more, opening, piece, plain,
    role, text, usage,
};
use super::*;
use log::Log;

const KEY: &str = "sk-very-secret-key";

fn settings(base_url: &str) -> RemoteSettings {
    RemoteSettings {
        name: "main".parse().unwrap(),
        protocol: Protocol::OpenaiChat,
        model: "some-model".to_owned(),
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        context_tokens: 10_000,
    }
}

fn request() -> ModelRequest {
    ModelRequest {
        system: "You are careful.".to_owned(),
        tools: vec![ToolSpec {
            name: "plan_get",
            description: "Shows the plan.",
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            requires: CapabilitySet::of(&[]),
        }],
        history: vec![Message::User { text: "go".to_owned() }],
        work_state: "work state of request 1".to_owned(),
    }
}

async fn respond(model: &RemoteModel) -> (Result<ModelResponse, Failure>, Vec<String>) {
    let deltas = Mutex::new(Vec::new());
    let outcome = model
        .respond(&request(), &|delta| {
            deltas.lock().unwrap().push(match delta {
                Delta::Text(text) => text.to_owned(),
                Delta::Reasoning(text) => format!("({text})"),
            });
        })
        .await;
    (outcome, deltas.into_inner().unwrap())
}

/// Plays one answer to one request, and checks that there was only one.
async fn exchange(answer: Vec<Step>) -> (Result<ModelResponse, Failure>, Vec<String>, Received) {
    let server = Server::start(vec![answer]).await;
    let model = RemoteModel::new(settings(&server.url)).unwrap();
    let (outcome, deltas) = respond(&model).await;
    let received = server.received();
    assert_eq!(received.len(), 1, "one request is one attempt");
    (outcome, deltas, received.into_iter().next().unwrap())
}

async fn check_failure(answer: Vec<Step>, kind: FailureKind, detail: &str) -> Failure {
    let (outcome, ..) = exchange(answer).await;
    let failure = outcome.unwrap_err();
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.detail.starts_with("model `main`: "), "{failure}");
    assert!(failure.detail.contains(detail), "{failure}");
    failure
}

async fn check_calls(answer: Vec<Step>, expected: &[(&str, &str)]) {
    let (outcome, ..) = exchange(answer).await;
    let response = outcome.unwrap();
    let calls: Vec<_> =
        response.calls.iter().map(|call| (call.tool.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn an_answer_with_text_a_call_in_pieces_and_usage_arrives_whole() {
    let (outcome, deltas, received) = exchange(events(&[
        role(),
        delta(&json!({"reasoning_content": "hmm"})),
        text("Let me "),
        text("look: é"),
        call(0, "abc", "read_file", ""),
        more(0, "{\"path\": \"a"),
        more(0, ".rs\", \"limit\": 5}"),
        finish("tool_calls"),
        usage(&json!({
            "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
            "prompt_tokens_details": {"cached_tokens": 600},
        })),
    ]))
    .await;
    let expected = ModelResponse {
        text: "Let me look: é".to_owned(),
        calls: vec![RequestedCall {
            tool: "read_file".to_owned(),
            arguments: r#"{"path":"a.rs","limit":5}"#.to_owned(),
        }],
        usage: Some(TokenUsage { input: 400, cached_input: 600, output: 20, estimated: false }),
    };
    assert_eq!(outcome, Ok(expected));
    assert_eq!(deltas, ["(hmm)", "Let me ", "look: é"]);

    let head = received.head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    let body = received.json();
    assert_eq!(body["model"], "some-model");
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(
        body["tools"][0]["function"],
        json!({
            "name": "plan_get", "description": "Shows the plan.", "strict": false,
            "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
        })
    );
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "You are careful."},
            {"role": "user", "content": "go"},
            {"role": "user", "content": "work state of request 1"},
        ])
    );
    let fields: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "stream", "tools", "messages", "stream_options"], "nothing else is sent");
}

#[tokio::test]
async fn parallel_calls_keep_their_order_and_may_share_an_id() {
    let twice = |first: &str, second: &str| {
        events(&[
            role(),
            call(0, first, "read_file", "{\"path\":\"a\"}"),
            call(1, second, "list_dir", "{\"pa"),
            more(1, "th\":\"b\"}"),
            finish("tool_calls"),
        ])
    };
    let expected = [("read_file", r#"{"path":"a"}"#), ("list_dir", r#"{"path":"b"}"#)];
    check_calls(twice("call_a", "call_b"), &expected).await;
    check_calls(twice("call_0", "call_0"), &expected).await;
    check_calls(twice("", ""), &expected).await;
    // Two calls that are the same are two calls.
    let same = || call(0, "c", "list_dir", "{}");
    let other = || call(1, "c", "list_dir", "{}");
    check_calls(events(&[same(), other(), finish("tool_calls")]), &[("list_dir", "{}"), ("list_dir", "{}")])
        .await;
}

#[tokio::test]
async fn malformed_and_missing_arguments_arrive_as_they_are() {
    let answer = events(&[call(0, "a", "shell", "{\"command\": \"ls"), finish("tool_calls")]);
    check_calls(answer, &[("shell", "{\"command\": \"ls")]).await;
    let answer = events(&[call(0, "a", "plan_get", ""), finish("tool_calls")]);
    check_calls(answer, &[("plan_get", "")]).await;
}

#[tokio::test]
async fn an_answer_without_usage_reports_none() {
    let (outcome, ..) = exchange(events(&[text("hi"), finish("stop")])).await;
    assert_eq!(outcome.unwrap().usage, None);
    let zero = usage(&json!({"prompt_tokens": 0, "completion_tokens": 0}));
    let (outcome, ..) = exchange(events(&[text("hi"), finish("stop"), zero])).await;
    assert_eq!(outcome.unwrap().usage, None);
    let half = usage(&json!({"prompt_tokens": 12}));
    let (outcome, ..) = exchange(events(&[text("hi"), finish("stop"), half])).await;
    assert_eq!(outcome.unwrap().usage, None);
}

#[tokio::test]
async fn t6_a_cut_answer_is_a_failure_however_it_was_cut() {
    let begun = || {
        vec![
            opening(),
            event(&role()),
            event(&text("Half of")),
            event(&call(0, "a", "shell", "{\"command\":\"rm x\"}")),
        ]
    };
    let with = |more: Vec<Step>| begun().into_iter().chain(more).collect::<Vec<_>>();
    let kind = FailureKind::StreamIncomplete;
    // The connection is gone.
    check_failure(begun(), kind, "the connection broke before the answer's end").await;
    check_failure(with(vec![piece("data: {\"choi")]), kind, "the connection broke").await;
    // The body ends in good order, and the answer does not.
    check_failure(with(vec![closing()]), kind, "the answer stopped before its end").await;
    check_failure(with(vec![event(&finish("tool_calls")), closing()]), kind, "stopped before its end").await;
    check_failure(with(vec![piece("data: {\"choi"), closing()]), kind, "stopped before its end").await;
    check_failure(with(vec![piece("data: [DON"), closing()]), kind, "stopped before its end").await;
    check_failure(with(vec![piece("dat"), closing()]), kind, "stopped before its end").await;
    // The provider says so.
    let broken = with(vec![event(&finish("insufficient_system_resource")), done(), closing()]);
    check_failure(broken, kind, "broke the answer off (insufficient_system_resource)").await;
    // Nothing but a promise.
    check_failure(vec![opening(), closing()], kind, "sent nothing").await;
    check_failure(vec![opening(), piece(": keep-alive\n\n"), closing()], kind, "sent nothing").await;
}

#[tokio::test]
async fn statuses_become_typed_failures() {
    let failure = check_failure(
        plain(
            "429 Too Many Requests",
            "retry-after: 7\r\n",
            r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
        ),
        FailureKind::RateLimited,
        "HTTP 429 (rate_limit_exceeded): slow down",
    )
    .await;
    assert_eq!(failure.retry_after_ms, Some(7_000));

    let failure = check_failure(
        plain(
            "503 Service Unavailable",
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:57 GMT\r\n",
            "",
        ),
        FailureKind::ServerError,
        "HTTP 503",
    )
    .await;
    assert_eq!(failure.retry_after_ms, Some(20_000));

    let quota = r#"{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    check_failure(plain("429 Too Many Requests", "", quota), FailureKind::QuotaExhausted, "pay").await;
    let long = r#"{"error":{"message":"maximum context length","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    check_failure(plain("400 Bad Request", "", long), FailureKind::ContextLimit, "maximum context length")
        .await;
    check_failure(plain("400 Bad Request", "", "no"), FailureKind::ProviderProtocol, "HTTP 400: no").await;
    check_failure(plain("401 Unauthorized", "", "{}"), FailureKind::Authentication, "HTTP 401").await;
    check_failure(plain("402 Payment Required", "", ""), FailureKind::QuotaExhausted, "HTTP 402").await;
    check_failure(plain("404 Not Found", "", "<html>"), FailureKind::ModelUnavailable, "HTTP 404").await;
    check_failure(plain("413 Payload Too Large", "", ""), FailureKind::PromptTooLarge, "HTTP 413").await;
    check_failure(plain("500 Internal Server Error", "", "oops"), FailureKind::ServerError, "oops").await;
    check_failure(plain("529 Overloaded", "", ""), FailureKind::ServerError, "HTTP 529").await;
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_empty() {
    let kind = FailureKind::EmptyResponse;
    check_failure(events(&[role(), finish("stop")]), kind, "neither text nor calls").await;
    check_failure(events(&[text(" \n"), finish("stop")]), kind, "neither text nor calls").await;
    check_failure(events(&[]), kind, "neither text nor calls").await;
}

#[tokio::test]
async fn a_refusal_is_no_answer() {
    let kind = FailureKind::Refused;
    check_failure(events(&[text("I will"), finish("content_filter")]), kind, "filter").await;
    let refusal = events(&[
        delta(&json!({"refusal": "I can't "})),
        delta(&json!({"refusal": "do that."})),
        finish("stop"),
    ]);
    check_failure(refusal, kind, "the model refused: I can't do that.").await;
}

#[tokio::test]
async fn an_answer_cut_at_its_length_is_no_answer() {
    let cut = |prompt: u32| {
        events(&[
            text("and then"),
            finish("length"),
            usage(&json!({"prompt_tokens": prompt, "completion_tokens": 500})),
        ])
    };
    check_failure(cut(9_000), FailureKind::ContextLimit, "9500 of 10000 tokens").await;
    check_failure(cut(1_000), FailureKind::Unsupported, "the model's output limit (length)").await;
}

#[tokio::test]
async fn an_answer_that_is_not_the_protocol_is_told_apart_from_a_cut_one() {
    let kind = FailureKind::ProviderProtocol;
    let garbage = vec![opening(), event(&text("a")), piece("data: <html>oops</html>\n\n"), done(), closing()];
    check_failure(garbage, kind, "a chunk that is no JSON").await;
    let check_entry = async |entry: Value, detail: &str| {
        let answer = events(&[
            call(0, "a", "list_dir", "{}"),
            delta(&json!({"tool_calls": [entry]})),
            finish("tool_calls"),
        ]);
        check_failure(answer, kind, detail).await;
    };
    check_entry(json!({"id": "b", "function": {"name": "x", "arguments": "{}"}}), "without an index").await;
    check_entry(json!({"index": 1, "id": "b"}), "without a function").await;
    check_entry(json!({"index": 1, "function": {"name": "x", "arguments": {"a": 1}}}), "no text").await;
    check_entry(json!({"index": 2, "function": {"name": "x", "arguments": "{}"}}), "a gap").await;
    check_entry(
        json!({"index": 0, "id": "b", "function": {"name": "list_dir", "arguments": "{}"}}),
        "two tool calls under one index",
    )
    .await;
}

#[tokio::test]
async fn an_error_in_the_middle_of_an_answer_is_typed_by_its_code() {
    let broken =
        |error: Value| vec![opening(), event(&text("a")), event(&json!({"error": error})), closing()];
    check_failure(broken(json!({"message": "boom"})), FailureKind::ServerError, "boom").await;
    let limited = json!({"message": "slow", "code": "rate_limit_exceeded"});
    check_failure(broken(limited), FailureKind::RateLimited, "(rate_limit_exceeded): slow").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_transport_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let failure = respond(&RemoteModel::new(settings(&url)).unwrap()).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transport);
    assert!(failure.detail.contains("Connection refused"), "{failure}");

    // Accepts, and hangs up without an answer.
    check_failure(vec![], FailureKind::Transport, "no answer: ").await;

    // Answers, but not in TLS.
    let server = Server::start(vec![plain("200 OK", "", "")]).await;
    let url = server.url.replace("http:", "https:");
    let model = RemoteModel::with_patience(settings(&url), IMPATIENT).unwrap();
    let failure = respond(&model).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transport, "{failure}");
}

const IMPATIENT: Patience = Patience {
    connect: Duration::from_millis(500),
    first_byte: Duration::from_millis(200),
    idle: Duration::from_millis(200),
    answer: Duration::from_millis(700),
};

#[tokio::test]
async fn a_silent_server_is_given_up_on() {
    let wait = || Step::Wait(Duration::from_secs(30));
    let check = async |answer: Vec<Step>, detail: &str| {
        let server = Server::start(vec![answer]).await;
        let model = RemoteModel::with_patience(settings(&server.url), IMPATIENT).unwrap();
        let start = Instant::now();
        let failure = respond(&model).await.0.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Transport, "{failure}");
        assert!(failure.detail.contains(detail), "{failure}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    };
    check(vec![wait()], "response headers timed out").await;
    check(vec![opening(), event(&text("a")), wait()], "body read timed out").await;
    let mut drip = vec![opening(), event(&text("a"))];
    for _ in 0..20 {
        drip.extend([Step::Wait(Duration::from_millis(100)), piece(": keep-alive\n\n")]);
    }
    check(drip, "no complete answer within 0 s").await;
}

#[tokio::test]
async fn a_server_without_keys_gets_none_of_the_environments() {
    let server = Server::start(vec![events(&[text("hi"), finish("stop")])]).await;
    let model = RemoteModel::new(RemoteSettings { api_key: None, ..settings(&server.url) }).unwrap();
    respond(&model).await.0.unwrap();
    let head = server.received()[0].head.to_ascii_lowercase();
    assert!(head.contains("authorization: bearer none\r\n"), "{head}");
}

#[tokio::test]
async fn the_key_is_in_no_message_log_or_debug_output() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());

    let echo = format!(r#"{{"error":{{"message":"no such key: {KEY}"}}}}"#);
    let server = Server::start(vec![plain("401 Unauthorized", "", &echo)]).await;
    let settings = settings(&server.url);
    assert!(!format!("{settings:?}").contains(KEY));
    let model = RemoteModel::new(settings).unwrap();
    assert!(!format!("{model:?}").contains(KEY));
    let failure = respond(&model).await.0.unwrap_err();
    assert_eq!(failure.detail, "model `main`: HTTP 401: no such key: [key]");
    assert!(!format!("{failure:?}").contains(KEY));

    let logged = log.text();
    assert!(logged.contains("model request failed"), "{logged}");
    assert!(!logged.contains(KEY), "{logged}");
}

#[tokio::test]
async fn dropping_the_request_closes_the_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let model = RemoteModel::new(settings(&url)).unwrap();
    let asking = tokio::spawn(async move { respond(&model).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut buffer = vec![0; 65_536];
    assert_ne!(tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await.unwrap(), 0);
    asking.abort();
    let end = tokio::time::timeout(Duration::from_secs(5), async {
        while tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await.is_ok_and(|count| count > 0) {}
    });
    end.await.expect("the server notices");
}
