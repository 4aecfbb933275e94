//! What is sent: the address, the fields, and the order in which they stand.

use runtime::{HistoryCall, Message};

use super::super::server::{Server, events, finish, text};
use super::*;

#[tokio::test]
async fn the_base_url_may_end_with_or_without_a_slash_and_carry_a_query() {
    let server = Server::start((0..3).map(|_| events(&[text("hi"), finish("stop")])).collect()).await;
    let bare = server.url.trim_end_matches('/').to_owned();
    for url in [&bare, &server.url, &format!("{bare}?api-version=1")] {
        respond(&RemoteModel::new(settings(url)).unwrap()).await.0.unwrap();
    }
    let lines: Vec<_> = server
        .received()
        .iter()
        .map(|request| request.head.lines().next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "POST /v1/chat/completions HTTP/1.1",
            "POST /v1/chat/completions HTTP/1.1",
            "POST /v1/chat/completions?api-version=1 HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn the_models_name_is_sent_as_it_is() {
    for name in ["qwen-high", "anthropic::claude-zero", "gpt-6-max", "gpt-5.6", "org/model:free"] {
        let server = Server::start(vec![events(&[text("hi"), finish("stop")])]).await;
        let model =
            RemoteModel::new(RemoteSettings { model: name.to_owned(), ..settings(&server.url) }).unwrap();
        respond(&model).await.0.unwrap();
        let body = server.received()[0].json();
        assert_eq!(body["model"], name);
        let fields: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["model", "stream", "tools", "messages", "stream_options"]);
    }
}

fn history_call(index: u32, tool: &str, arguments: &str) -> HistoryCall {
    HistoryCall { id: format!("call_1_1_{index}"), tool: tool.to_owned(), arguments: arguments.to_owned() }
}

fn tool_result(index: u32, tool: &str, text: &str) -> Message {
    Message::ToolResult { call_id: format!("call_1_1_{index}"), tool: tool.to_owned(), text: text.to_owned() }
}

#[tokio::test]
async fn v3_tools_system_and_history_are_a_byte_prefix_of_the_next_body() {
    let growth = [
        vec![
            Message::Assistant {
                text: "Looking.".to_owned(),
                calls: vec![
                    history_call(0, "list_dir", "{\"path\": \"b\", \"a\": 1}"),
                    history_call(1, "shell", "{\"command\": \"ls"),
                    history_call(2, "plan_get", ""),
                ],
            },
            tool_result(0, "list_dir", "a.rs"),
            tool_result(1, "shell", "invalid arguments"),
            tool_result(2, "plan_get", "no plan"),
        ],
        vec![Message::Assistant { text: "Done.".to_owned(), calls: Vec::new() }],
        vec![Message::User { text: "and now?".to_owned() }],
    ];
    let answers = (0..=growth.len()).map(|_| events(&[text("ok"), finish("stop")])).collect();
    let server = Server::start(answers).await;
    let model = RemoteModel::new(settings(&server.url)).unwrap();
    let mut request = request();
    model.respond(&request, &|_| {}).await.unwrap();
    for (index, more) in growth.into_iter().enumerate() {
        request.history.extend(more);
        request.work_state = format!("work state of request {}", index + 2);
        model.respond(&request, &|_| {}).await.unwrap();
    }

    let bodies: Vec<String> = server.received().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 4);
    for (index, pair) in bodies.windows(2).enumerate() {
        let work_state = format!(r#"{{"role":"user","content":"work state of request {}"}}"#, index + 1);
        let (stable, rest) = pair[0].split_once(&work_state).expect("the work state is its own message");
        assert!(stable.contains("\"tools\":") && stable.contains("You are careful."), "{stable}");
        assert!(rest.starts_with(']'), "the work state is the last message: {rest}");
        assert!(pair[1].starts_with(stable), "request {} changed what came before", index + 2);
        assert!(!pair[1].contains(&work_state), "an old work state stayed in the history");
    }
    let last: Value = serde_json::from_str(&bodies[3]).unwrap();
    assert_eq!(
        last["messages"],
        json!([
            {"role": "system", "content": "You are careful."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "Looking.", "tool_calls": [
                {"type": "function", "id": "call_1_1_0",
                 "function": {"name": "list_dir", "arguments": "{\"path\":\"b\",\"a\":1}"}},
                {"type": "function", "id": "call_1_1_1",
                 "function": {"name": "shell",
                              "arguments": "{\"malformed_arguments\":\"{\\\"command\\\": \\\"ls\"}"}},
                {"type": "function", "id": "call_1_1_2", "function": {"name": "plan_get", "arguments": "{}"}},
            ]},
            {"role": "tool", "content": "a.rs", "tool_call_id": "call_1_1_0"},
            {"role": "tool", "content": "invalid arguments", "tool_call_id": "call_1_1_1"},
            {"role": "tool", "content": "no plan", "tool_call_id": "call_1_1_2"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "and now?"},
            {"role": "user", "content": "work state of request 4"},
        ])
    );
}

#[tokio::test]
async fn a_call_that_no_provider_reads_back_is_sent_as_one_that_it_does() {
    let long = "x".repeat(100);
    let names = ["shell", "functions.shell", "multi tool/use", "größe", "", &long];
    let server = Server::start(vec![events(&[text("hi"), finish("stop")])]).await;
    let model = RemoteModel::new(settings(&server.url)).unwrap();
    let calls = (0..).zip(names).map(|(index, name)| history_call(index, name, "{}")).collect();
    let mut request = request();
    request.history.push(Message::Assistant { text: "\n\n".to_owned(), calls });
    request.history.extend((0..).zip(names).map(|(index, name)| tool_result(index, name, "no such tool")));
    model.respond(&request, &|_| {}).await.unwrap();
    let body = server.received()[0].json();
    let answer = &body["messages"][2];
    // Nor does every provider take a text of white space.
    assert!(answer["content"].as_str().is_none_or(str::is_empty), "{answer}");
    let calls = answer["tool_calls"].as_array().unwrap();
    let sent: Vec<_> = calls.iter().map(|call| call["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(sent, ["shell", "functions_shell", "multi_tool_use", "gr__e", "_", &long[..64]]);
}
