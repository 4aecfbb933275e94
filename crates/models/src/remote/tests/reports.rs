//! What the model wrote and what that cost, as it reaches the caller.

use super::super::server::{body, named};
use super::*;

/// The outcomes of these answers, each to a request of its own.
async fn responses(protocol: Protocol, answers: Vec<Vec<Step>>) -> Vec<Result<ModelResponse, Failure>> {
    let count = answers.len();
    let server = Server::start(answers).await;
    let model = RemoteModel::new(RemoteSettings { protocol, ..settings(&server.url) }).unwrap();
    let mut outcomes = Vec::new();
    for _ in 0..count {
        outcomes.push(respond(&model).await.0);
    }
    outcomes
}

/// The protocols that carry arguments as text.
const TEXTUAL: [Protocol; 3] = [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::Anthropic];

/// An answer of one call, whose arguments come in two pieces where the protocol has pieces.
fn call_answer(protocol: Protocol, tool: &str, arguments: &str) -> Vec<Step> {
    let (first, rest) = arguments.split_at(arguments.len() / 2);
    if protocol == Protocol::OpenaiChat {
        return events(&[call(0, "a", tool, first), more(0, rest), finish("tool_calls")]);
    }
    if protocol == Protocol::OpenaiResponses {
        let item = json!({"type": "function_call", "call_id": "a", "name": tool, "arguments": arguments});
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        return body([event(&done), event(&completed(&Value::Null))]);
    }
    let block = json!({"type": "tool_use", "id": "a", "name": tool, "input": {}});
    let input = |piece: &str| json!({"type": "input_json_delta", "partial_json": piece});
    let frames = [
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": input(first)}),
        json!({"type": "content_block_delta", "index": 0, "delta": input(rest)}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_stop"}),
    ];
    body(frames.iter().map(named))
}

#[tokio::test]
async fn a_call_arrives_as_the_model_wrote_it() {
    let calls = [
        ("unknown tool", "no_such_tool", "{}"),
        ("unknown tool with a foreign name", "functions.größe", "{}"),
        ("tool without a name", "", "{}"),
        ("no arguments", "plan_get", ""),
        ("well formed, with spaces and a key twice", "shell", r#"{ "command": "ls",  "command": "rm"}"#),
        ("number beyond 64 bits", "shell", r#"{"n": 123456789012345678901234567890}"#),
        ("cut off", "shell", r#"{"command": "ls"#),
        ("too much", "shell", r#"{"command": "ls"}}"#),
        ("no JSON", "shell", "ls -l"),
        ("no object", "shell", "null"),
        ("object in a string", "shell", r#""{\"command\": \"ls\"}""#),
        ("white space", "shell", " \n"),
    ];
    for protocol in TEXTUAL {
        let answers = calls.map(|(_, tool, arguments)| call_answer(protocol, tool, arguments)).into();
        for (outcome, (name, tool, arguments)) in responses(protocol, answers).await.into_iter().zip(calls) {
            let expected = RequestedCall { tool: tool.to_owned(), arguments: arguments.to_owned() };
            let calls = outcome.map(|response| response.calls);
            assert_eq!(calls, Ok(vec![expected]), "{name} over {}", protocol.name());
        }
    }
}

#[tokio::test]
async fn a_response_that_only_lists_its_output_has_its_calls() {
    let items = [
        json!({"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{} "}),
        json!({"type": "function_call", "call_id": "a", "name": "list_dir", "arguments": ""}),
    ];
    let mut end = completed(&Value::Null);
    end["response"]["output"] = json!(items);
    let outcomes = responses(Protocol::OpenaiResponses, vec![body([event(&end)])]).await;
    let calls = &outcomes[0].as_ref().unwrap().calls;
    let calls: Vec<_> = calls.iter().map(|call| (&*call.tool, &*call.arguments)).collect();
    assert_eq!(calls, [("shell", "{} "), ("list_dir", "")]);
}

fn completed(usage: &Value) -> Value {
    json!({"type": "response.completed", "response": {
        "id": "r", "model": "m", "status": "completed", "output": [], "usage": usage,
    }})
}

/// An answer that reports these counts of input, cached input and output in the way of its protocol.
fn usage_answer(protocol: Protocol, [input, cached, output]: &[Value; 3]) -> Vec<Step> {
    match protocol {
        Protocol::OpenaiChat => {
            let details = json!({"cached_tokens": cached});
            let spent = json!({"prompt_tokens": input, "completion_tokens": output, "prompt_tokens_details": details});
            events(&[text("hi"), finish("stop"), usage(&spent)])
        }
        Protocol::OpenaiResponses => {
            let details = json!({"cached_tokens": cached});
            let spent =
                json!({"input_tokens": input, "output_tokens": output, "input_tokens_details": details});
            let said = json!({"type": "response.output_text.delta", "delta": "hi"});
            body([event(&said), event(&completed(&spent))])
        }
        Protocol::Anthropic => {
            let read = json!({"input_tokens": input, "cache_read_input_tokens": cached, "output_tokens": 1});
            let said = json!({"type": "text_delta", "text": "hi"});
            let stop = json!({"stop_reason": "end_turn"});
            body(
                [
                    json!({"type": "message_start", "message": {"usage": read}}),
                    json!({"type": "content_block_delta", "index": 0, "delta": said}),
                    json!({"type": "message_delta", "delta": stop, "usage": {"output_tokens": output}}),
                    json!({"type": "message_stop"}),
                ]
                .iter()
                .map(named),
            )
        }
        Protocol::Gemini => {
            let spent = json!({
                "promptTokenCount": input, "cachedContentTokenCount": cached, "candidatesTokenCount": output,
                "toolUsePromptTokenCount": cached, "thoughtsTokenCount": cached,
            });
            let said = json!({"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"});
            body([event(&json!({"candidates": [said], "usageMetadata": spent}))])
        }
        Protocol::Ollama => {
            let said = json!({
                "message": {"content": "hi"}, "done": true, "done_reason": "stop",
                "prompt_eval_count": input, "prompt_eval_cached_count": cached, "eval_count": output,
            });
            body([piece(&format!("{said}\n"))])
        }
    }
}

const PROTOCOLS: [Protocol; 5] = [
    Protocol::OpenaiChat,
    Protocol::OpenaiResponses,
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Ollama,
];

#[tokio::test]
async fn g5_usage_that_makes_no_sense_counts_as_unreported() {
    let counts: [(&str, [Value; 3]); 16] = [
        ("as it should be", [json!(900), json!(0), json!(20)]),
        ("zero", [json!(0), json!(0), json!(0)]),
        ("no input", [Value::Null, json!(0), json!(20)]),
        ("an answer for nothing", [json!(900), json!(0), json!(0)]),
        ("negative input", [json!(-900), json!(0), json!(20)]),
        ("negative cached", [json!(900), json!(-5), json!(20)]),
        ("negative output", [json!(900), json!(0), json!(-20)]),
        ("a fraction", [json!(900.5), json!(0), json!(20)]),
        ("a float", [json!(900), json!(0), json!(20.0)]),
        ("text", [json!("900"), json!(0), json!(20)]),
        ("above any window", [json!(100_000_001), json!(0), json!(20)]),
        ("a sum above 2^31", [json!(i32::MAX), json!(i32::MAX), json!(i32::MAX)]),
        ("2^32", [json!(1_u64 << 32), json!(0), json!(20)]),
        ("2^63", [json!(900), json!(0), json!(1_u64 << 63)]),
        ("2^64 - 1", [json!(900), json!(u64::MAX), json!(20)]),
        ("beyond 64 bits", [json!(900), json!(0), json!(1e30)]),
    ];
    for protocol in PROTOCOLS {
        let answers = counts.iter().map(|(_, counts)| usage_answer(protocol, counts)).collect();
        for (outcome, (name, _)) in responses(protocol, answers).await.into_iter().zip(&counts) {
            let right = TokenUsage { input: 900, cached_input: 0, output: 20, estimated: false };
            let usage = (*name == "as it should be").then_some(right);
            let expected = ModelResponse { text: "hi".to_owned(), usage, ..ModelResponse::default() };
            assert_eq!(outcome, Ok(expected), "{name} over {}", protocol.name());
        }
    }
}

#[tokio::test]
async fn g5_what_stands_beside_the_counts_does_not_make_them_odd() {
    let spent = json!({
        "prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920, "cost": 0.0021,
        "prompt_tokens_details": {"cached_tokens": 1000, "audio_tokens": null},
        "cost_details": {"upstream_inference_cost": -0.5}, "queue_time": 0.25, "is_byok": false,
    });
    let (outcome, ..) = exchange(events(&[text("hi"), finish("stop"), usage(&spent)])).await;
    // More from the cache than there was is all of it.
    let expected = TokenUsage { input: 0, cached_input: 900, output: 20, estimated: false };
    assert_eq!(outcome.unwrap().usage, Some(expected));

    let (outcome, ..) = exchange(events(&[text("hi"), finish("stop")])).await;
    assert_eq!(outcome.unwrap().usage, None);
}

async fn spent(answer: Vec<Step>) -> Option<TokenUsage> {
    exchange(answer).await.0.unwrap_err().usage
}

#[tokio::test]
async fn g4_g5_a_failure_says_what_it_cost() {
    let told = || usage(&json!({"prompt_tokens": 900, "completion_tokens": 20}));
    let reported = Some(TokenUsage { input: 900, cached_input: 0, output: 20, estimated: false });
    for answer in [
        events(&[text("and then"), finish("length"), told()]),
        events(&[text("I will"), finish("content_filter"), told()]),
        events(&[delta(&json!({"refusal": "I can't."})), finish("stop"), told()]),
        events(&[finish("stop"), told()]),
        body([event(&text("a")), event(&told()), event(&json!({"error": {"code": 429}}))]),
        vec![opening(), event(&text("a")), event(&told())],
    ] {
        assert_eq!(spent(answer).await, reported);
    }
    // Nobody said, so the output is as long as what came of it.
    let delivered = |output| Some(TokenUsage { output, estimated: true, ..TokenUsage::default() });
    let error = || event(&json!({"error": {"code": 429}}));
    assert_eq!(spent(body([event(&text("12345678")), error()])).await, delivered(2));
    assert_eq!(spent(body([event(&call(0, "a", "tool", "1234")), error()])).await, delivered(2));
    assert_eq!(spent(body([event(&delta(&json!({"reasoning": "1234"}))), error()])).await, delivered(1));
    assert_eq!(spent(body([event(&role()), error()])).await, None);
    assert_eq!(spent(plain("500 Oops", "", "")).await, None);
}

#[tokio::test]
async fn g4_g5_every_protocol_says_what_a_refused_answer_cost() {
    let stop = |protocol, text: String| match protocol {
        Protocol::OpenaiResponses => text.replace("response.completed", "response.incomplete"),
        Protocol::Gemini => text.replace("STOP", "SAFETY"),
        Protocol::Anthropic => text.replace("end_turn", "refusal"),
        Protocol::Ollama | Protocol::OpenaiChat => text.replace("\"stop\"", "\"length\""),
    };
    for protocol in PROTOCOLS {
        let answer = usage_answer(protocol, &[json!(900), json!(0), json!(20)]);
        let answer = answer.into_iter().map(|step| match step {
            Step::Send(bytes) => {
                // As one piece of plain body: what is replaced has another length.
                let chunk = String::from_utf8(bytes).unwrap().replace("transfer-encoding: chunked\r\n", "");
                let is_chunk = !chunk.starts_with("HTTP/");
                let inner = if is_chunk {
                    chunk.split_once("\r\n").unwrap().1.trim_end_matches("\r\n").to_owned()
                } else {
                    chunk
                };
                Step::Send(stop(protocol, inner).into_bytes())
            }
            other => other,
        });
        let outcome = responses(protocol, vec![answer.collect()]).await.remove(0);
        let failure = outcome.expect_err(protocol.name());
        let expected = TokenUsage { input: 900, cached_input: 0, output: 20, estimated: false };
        assert_eq!(failure.usage, Some(expected), "{}: {failure}", protocol.name());
    }
}
