//! Scenarios played, and refused.

use std::sync::Mutex;
use std::time::Instant;

use runtime::{HistoryCall, RequestedCall};

use super::*;

fn scripted(text: &str) -> ScriptedModel {
    ScriptedModel::from_toml("demo".parse().unwrap(), text).unwrap()
}

fn request(answers: usize) -> ModelRequest {
    let mut history = vec![Message::User { text: "go".to_owned() }];
    for index in 0..answers {
        let call = HistoryCall {
            id: format!("call_1_{index}_0"),
            tool: "list_dir".to_owned(),
            arguments: "{}".to_owned(),
        };
        history.push(Message::Assistant { text: String::new(), calls: vec![call.clone()] });
        history.push(Message::ToolResult {
            call_id: call.id,
            tool: call.tool,
            text: format!("result {index}"),
        });
    }
    ModelRequest { system: String::new(), tools: Vec::new(), history, work_state: "plan: none".to_owned() }
}

async fn play(model: &ScriptedModel, answers: usize) -> (Result<ModelResponse, Failure>, Vec<String>) {
    let deltas = Mutex::new(Vec::new());
    let outcome = model
        .respond(&request(answers), &|delta| {
            if let Delta::Text(text) = delta {
                deltas.lock().unwrap().push(text.to_owned());
            }
        })
        .await;
    (outcome, deltas.into_inner().unwrap())
}

#[tokio::test]
async fn the_number_of_answers_in_the_history_chooses_the_response() {
    let model = scripted(
        r#"
        [[response]]
        text = "Looking around."
        usage = { input = 900, cached = 400, output = 12 }
        [[response.call]]
        tool = "read_file"
        arguments = { lines = [1, 2.5, true], path = "src/main.rs" }
        [[response.call]]
        tool = "shell"
        arguments = '{"command": '
        [[response.call]]
        tool = "plan_get"

        [[response]]
        text = "Done."
        "#,
    );
    let (first, deltas) = play(&model, 0).await;
    let call = |tool: &str, arguments: &str| RequestedCall {
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    };
    let expected = ModelResponse {
        text: "Looking around.".to_owned(),
        calls: vec![
            call("read_file", r#"{"lines":[1,2.5,true],"path":"src/main.rs"}"#),
            call("shell", r#"{"command": "#),
            call("plan_get", "{}"),
        ],
        usage: Some(domain::TokenUsage { input: 900, cached_input: 400, output: 12, estimated: false }),
    };
    assert_eq!(first.as_ref(), Ok(&expected));
    assert_eq!(deltas, ["Looking ", "around."]);
    // Asked again after a crash, it says the same.
    assert_eq!(play(&model, 0).await.0, Ok(expected));
    let second = play(&model, 1).await.0.unwrap();
    assert_eq!((second.text.as_str(), second.usage), ("Done.", None));
}

#[tokio::test]
async fn a_request_past_the_end_fails_or_gets_the_text_for_it() {
    let failure = play(&scripted("[[response]]\ntext = \"hi\""), 3).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ProviderProtocol);
    assert_eq!(failure.detail, "model `demo`: the scenario has 1 responses, request 4 was made");

    let (outcome, _) = play(&scripted("[exhausted]\ntext = \"nothing left to do\""), 3).await;
    assert_eq!(outcome.unwrap().text, "nothing left to do");
}

#[tokio::test]
async fn a_failure_lasts_its_times_and_then_the_response_is_played() {
    let model = scripted(
        r#"
        [[response]]
        text = "back again"
        failure = { kind = "rate_limited", retry_after_ms = 1500, detail = "slow down", times = 2 }
        [[response]]
        text = "once"
        failure = { kind = "server_error" }
        "#,
    );
    for _ in 0..2 {
        let failure = play(&model, 0).await.0.unwrap_err();
        assert_eq!(failure.kind, FailureKind::RateLimited);
        assert_eq!(failure.retry_after_ms, Some(1_500));
        assert_eq!(failure.detail, "model `demo`: slow down");
    }
    assert_eq!(play(&model, 0).await.0.unwrap().text, "back again");
    assert_eq!(play(&model, 1).await.0.unwrap_err().kind, FailureKind::ServerError);
    assert_eq!(play(&model, 1).await.0.unwrap().text, "once");
}

#[tokio::test]
async fn a_failure_with_nothing_after_it_lasts_for_ever() {
    let model = scripted("[[response]]\nfailure = { kind = \"authentication\" }");
    for _ in 0..5 {
        assert_eq!(play(&model, 0).await.0.unwrap_err().kind, FailureKind::Authentication);
    }
}

#[tokio::test]
async fn a_cut_answer_streams_its_first_half() {
    let model =
        scripted("[[response]]\ntext = \"one two three four\"\nfailure = { kind = \"stream_incomplete\" }");
    let (outcome, deltas) = play(&model, 0).await;
    assert_eq!(outcome.unwrap_err().kind, FailureKind::StreamIncomplete);
    assert_eq!(deltas, ["one ", "two "]);
    let (outcome, deltas) = play(&model, 0).await;
    assert_eq!(outcome.unwrap().text, "one two three four");
    assert_eq!(deltas.len(), 4);
}

#[tokio::test]
async fn delays_are_waited_for() {
    let model = scripted("[[response]]\ntext = \"a b c\"\ndelay_ms = 30\nchunk_delay_ms = 20");
    let start = Instant::now();
    play(&model, 0).await.0.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(70), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_expectation_is_met_by_the_last_message_or_the_work_state() {
    let model = scripted(
        r#"
        [[response]]
        text = "a"
        expect = "plan: none"
        [[response]]
        text = "b"
        expect = "result 0"
        [[response]]
        text = "c"
        expect = "result 0"
        "#,
    );
    play(&model, 0).await.0.unwrap();
    play(&model, 1).await.0.unwrap();
    let failure = play(&model, 2).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ProviderProtocol);
    assert_eq!(
        failure.detail,
        "model `demo`: response 3 of the scenario expects \"result 0\" in the last message or the work state; the \
         last message begins \"result 1\""
    );
}

fn check_refused(text: &str, expected: &str) {
    let error = ScriptedModel::from_toml("demo".parse().unwrap(), text).unwrap_err().to_string();
    assert!(error.starts_with("scenario of model demo: "), "{error}");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_scenario_that_cannot_be_played_says_why() {
    check_refused("", "has no [[response]]");
    check_refused("[[response]]", "response 1: has neither text nor call nor failure");
    check_refused("[[response]]\ntext = \"a\"\n[[response]]\ntxt = \"a\"", "unknown field `txt`");
    check_refused("[[response]]\ntext = \"a\"\n[[response.call]]\ntol = \"x\"", "unknown field `tol`");
    check_refused("[[response]]\n[[response.call]]\ntool = \"x\"\narguments = 3", "a table, or a string");
    check_refused(
        "[[response]]\n[[response.call]]\ntool = \"x\"\narguments = { at = 2026-01-01 }",
        "response 1: call of x: 2026-01-01 does not exist in JSON",
    );
    check_refused("[[response]]\nfailure = { kind = \"sulking\" }", "unknown variant `sulking`");
    check_refused(
        "[[response]]\nfailure = { kind = \"stuck\" }",
        "response 1: failure kind stuck does not come from a model",
    );
    check_refused(
        "[[response]]\nfailure = { kind = \"transport\", times = 2 }",
        "neither text nor call to play afterwards",
    );
    check_refused(
        "[[response]]\ntext = \"a\"\nfailure = { kind = \"transport\", times = 0 }",
        "never happens",
    );
    check_refused("[[response]]\ntext = \"a\"\ndelay_ms = 60001", "would take 60001 ms");
    check_refused("[[response]]\ntext = \"a b c\"\nchunk_delay_ms = 30000", "would take 90000 ms");
    check_refused(&format!("#{}", "x".repeat(4 << 20)), "is larger than 4 MiB");
}

#[test]
fn an_error_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.toml");
    std::fs::write(&path, "[[response]]\ntext = 3").unwrap();
    let error = ScriptedModel::from_file("demo".parse().unwrap(), &path).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("scenario {}: TOML parse error at line 2", path.display())),
        "{error}"
    );
}
