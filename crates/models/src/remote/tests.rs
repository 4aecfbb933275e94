//! The `openai-chat` protocol against a real HTTP server.

mod bodies;
mod log;
mod reports;
mod taxonomy;

use std::path::Path;
use std::sync::Mutex;

use domain::{CapabilitySet, FailureKind, TokenUsage};
use runtime::{Message, RequestedCall, ToolSpec};
use serde_json::{Value, json};

use super::server::{
    Received, Server, Step, call, closing, delta, done, event, events, finish, more, opening, piece, plain,
    role, text, usage,
};
use super::*;
use crate::{ModelSettings, build};
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
            name: "plan_get".into(),
            description: "Shows the plan.".into(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            requires: CapabilitySet::of(&[]),
        }],
        history: vec![Message::User { text: "go".to_owned() }],
        work_state: "work state of request 1".to_owned(),
    }
}

async fn respond(model: &RemoteModel) -> (Result<ModelResponse, Failure>, Vec<String>) {
    respond_and_show(model, &|| {}).await
}

/// Says when a piece was shown.
async fn respond_and_show(
    model: &RemoteModel,
    shown: &(dyn Fn() + Send + Sync),
) -> (Result<ModelResponse, Failure>, Vec<String>) {
    let deltas = Mutex::new(Vec::new());
    let outcome = model
        .respond(&request(), &|delta| {
            shown();
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

async fn check_failure(answer: Vec<Step>, kind: FailureKind, detail: &str) {
    let (outcome, ..) = exchange(answer).await;
    let failure = outcome.unwrap_err();
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.detail.starts_with("model `main`: "), "{failure}");
    assert!(failure.detail.contains(detail), "{failure}");
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
            arguments: r#"{"path": "a.rs", "limit": 5}"#.to_owned(),
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
    check_failure(begun(), kind, "broke off before its end").await;
    check_failure(with(vec![piece("data: {\"choi")]), kind, "broke off before its end").await;
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
    check_failure(vec![opening(), closing()], kind, "sent no answer").await;
    check_failure(vec![opening(), piece(": keep-alive\n\n"), closing()], kind, "sent no answer").await;
}

#[tokio::test]
async fn t9_silence_is_borne_for_as_long_as_the_table_says() {
    let server = Server::start(vec![vec![Step::Hold]]).await;
    let table =
        format!("protocol = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"{}\"\nidle_seconds = 1", server.url);
    let table: ModelSettings = toml::from_str(&table).unwrap();
    let model = build(&"main".parse().unwrap(), &table, &|_| None, Path::new(".")).unwrap();
    let failure = model.respond(&request(), &|_| {}).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transport, "{failure}");
    assert!(failure.detail.contains("the server was silent for 1s"), "{failure}");
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
    assert_eq!(failure.detail, "model `main`: HTTP 401: no such key: [key]; check the key");
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

#[tokio::test]
async fn t6_work_on_a_part_without_an_end_is_given_up() {
    let flood =
        vec![super::server::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Flood("data: all work and no play ")];
    let server = Server::start(vec![flood]).await;
    let part = Most { reads: u32::MAX, work: Duration::ZERO };
    let patience = Patience { part, ..Patience::USUAL };
    let model = RemoteModel::with_patience(settings(&server.url), patience).unwrap();
    let failure = respond(&model).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transport, "{failure}");
    assert!(failure.detail.contains("sends without an end"), "{failure}");
}

#[tokio::test]
async fn t6_what_waits_for_an_answer_goes_on_while_a_huge_part_arrives() {
    let flood =
        vec![super::server::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Flood("data: all work and no play ")];
    let server = Server::start(vec![flood]).await;
    let part = Most { reads: u32::MAX, work: Duration::MAX };
    let model =
        RemoteModel::with_patience(settings(&server.url), Patience { part, ..Patience::USUAL }).unwrap();
    let mut asking = Box::pin(respond(&model));
    // This test has one thread, so the looks come only because the reading is on another.
    for _ in 0..20 {
        let look = tokio::time::sleep(Duration::from_millis(5));
        tokio::select! {
            biased;
            (outcome, _) = &mut asking => panic!("an end: {outcome:?}"),
            () = look => {}
        }
    }
    drop(asking);
    // And the reader is free for the next request.
    let next = Server::start(vec![events(&[text("hi"), finish("stop")])]).await;
    let model = RemoteModel::new(settings(&next.url)).unwrap();
    assert_eq!(respond(&model).await.0.unwrap().text, "hi");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Server::start(vec![events(&[text("hi"), finish("stop")])]).await;
    for status in ["302 Found", "307 Temporary Redirect"] {
        let location = format!("location: {}\r\n", target.url);
        check_failure(plain(status, &location, ""), FailureKind::ProviderProtocol, &target.url).await;
    }
    assert!(target.received().is_empty());
}

#[tokio::test]
async fn a_key_that_is_no_secret_leaves_messages_their_words() {
    for (key, shown) in [("x", "no such text: x"), ("12345678", "no such text: x")] {
        let echo = r#"{"error":{"message":"no such text: x"}}"#;
        let server = Server::start(vec![plain("400 Bad Request", "", echo)]).await;
        let api_key = Some(SecretString::from(key));
        let model = RemoteModel::new(RemoteSettings { api_key, ..settings(&server.url) }).unwrap();
        let failure = respond(&model).await.0.unwrap_err();
        assert_eq!(failure.detail, format!("model `main`: HTTP 400: {shown}"));
    }
}
