//! The scenario file: strict decoding, and the checks that make what is decoded playable.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use domain::{FailureKind, TokenUsage};
use runtime::{ModelResponse, RequestedCall};
use serde::Deserialize;

/// A scenario is written by hand or by a test: larger files are something else, given by mistake.
const FILE_BYTES: u64 = 4 << 20;

/// The longest time one response may take to play, in milliseconds: a test that waits longer hangs.
const PLAY_MS: u64 = 60_000;

/// A scenario that cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("scenario {origin}: {problem}")]
pub struct ScenarioError {
    /// The file, or the model whose scenario it is.
    origin: String,
    problem: String,
}

#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) responses: Vec<Response>,
    /// The text answered after the last response; without one the request fails.
    pub(super) exhausted: Option<String>,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) answer: ModelResponse,
    pub(super) expect: Option<String>,
    pub(super) delay: Duration,
    pub(super) chunk_delay: Duration,
    pub(super) failure: Option<ScriptedFailure>,
}

#[derive(Debug)]
pub(super) struct ScriptedFailure {
    pub(super) kind: FailureKind,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) detail: Option<String>,
    /// How many attempts fail; `None` is every one.
    pub(super) times: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    response: Vec<ResponseTable>,
    exhausted: Option<ExhaustedTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExhaustedTable {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseTable {
    #[serde(default)]
    text: String,
    #[serde(default)]
    call: Vec<CallTable>,
    usage: Option<UsageTable>,
    expect: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    chunk_delay_ms: u64,
    failure: Option<FailureTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallTable {
    tool: String,
    arguments: Option<ArgumentsValue>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "arguments: a table, or a string sent as it is")]
enum ArgumentsValue {
    Raw(String),
    Table(toml::Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageTable {
    input: u64,
    output: u64,
    #[serde(default)]
    cached: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureTable {
    kind: FailureKind,
    retry_after_ms: Option<u64>,
    detail: Option<String>,
    times: Option<u32>,
}

impl Scenario {
    pub(super) fn read(path: &Path) -> Result<Self, ScenarioError> {
        let origin = path.display().to_string();
        let mut text = String::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_string(&mut text));
        match read {
            Ok(_) => Self::parse(&origin, &text),
            Err(error) => Err(ScenarioError { origin, problem: format!("cannot be read: {error}") }),
        }
    }

    pub(super) fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let fault = |problem| ScenarioError { origin: origin.to_owned(), problem };
        if text.len() as u64 > FILE_BYTES {
            return Err(fault(format!("is larger than {} MiB", FILE_BYTES >> 20)));
        }
        let file: File =
            toml::from_str(text).map_err(|error| fault(error.to_string().trim_end().to_owned()))?;
        let mut responses = Vec::with_capacity(file.response.len());
        for (index, table) in file.response.into_iter().enumerate() {
            let response = Response::new(table)
                .map_err(|problem| fault(format!("response {}: {problem}", index + 1)))?;
            responses.push(response);
        }
        if responses.is_empty() && file.exhausted.is_none() {
            return Err(fault("has no [[response]]".to_owned()));
        }
        Ok(Self { responses, exhausted: file.exhausted.map(|table| table.text) })
    }
}

impl Response {
    fn new(table: ResponseTable) -> Result<Self, String> {
        let plays = !table.text.trim().is_empty() || !table.call.is_empty();
        let failure = table.failure.map(|failure| ScriptedFailure::new(failure, plays)).transpose()?;
        if !plays && failure.is_none() {
            return Err("has neither text nor call nor failure".to_owned());
        }
        let words = table.text.split_whitespace().count() as u64;
        let total_ms = table.chunk_delay_ms.saturating_mul(words).saturating_add(table.delay_ms);
        if total_ms > PLAY_MS {
            return Err(format!("would take {total_ms} ms, at most {PLAY_MS} are allowed"));
        }
        let calls = table.call.into_iter().map(call).collect::<Result<_, _>>()?;
        let usage = table.usage.map(|usage| TokenUsage {
            input: usage.input,
            cached_input: usage.cached,
            output: usage.output,
            estimated: false,
        });
        Ok(Self {
            answer: ModelResponse { text: table.text, calls, usage },
            expect: table.expect,
            delay: Duration::from_millis(table.delay_ms),
            chunk_delay: Duration::from_millis(table.chunk_delay_ms),
            failure,
        })
    }
}

impl ScriptedFailure {
    /// A failure with nothing to play after it lasts for ever; else it lasts `times` attempts, one by default.
    fn new(table: FailureTable, plays: bool) -> Result<Self, String> {
        let FailureTable { kind, retry_after_ms, detail, times } = table;
        if matches!(
            kind,
            FailureKind::StoreBusy
                | FailureKind::CorruptState
                | FailureKind::Stuck
                | FailureKind::NoSuchAgent
        ) {
            return Err(format!("failure kind {kind} does not come from a model"));
        }
        let times = match (times, plays) {
            (Some(0), _) => return Err("failure with times = 0 never happens".to_owned()),
            (Some(_), false) => {
                return Err(
                    "failure has `times` but there is neither text nor call to play afterwards".to_owned()
                );
            }
            (None, false) => None,
            (times, true) => Some(times.unwrap_or(1)),
        };
        Ok(Self { kind, retry_after_ms, detail, times })
    }
}

fn call(table: CallTable) -> Result<RequestedCall, String> {
    let CallTable { tool, arguments } = table;
    let arguments = match arguments {
        None => "{}".to_owned(),
        Some(ArgumentsValue::Raw(text)) => text,
        Some(ArgumentsValue::Table(table)) => json(toml::Value::Table(table))
            .map_err(|problem| format!("call of {tool}: {problem}"))?
            .to_string(),
    };
    Ok(RequestedCall { tool, arguments })
}

fn json(value: toml::Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .ok_or_else(|| format!("{number} does not exist in JSON"))?
            .into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(date) => return Err(format!("{date} does not exist in JSON: quote it")),
        toml::Value::Array(items) => items.into_iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        toml::Value::Table(table) => serde_json::Value::Object(
            table
                .into_iter()
                .map(|(key, value)| Ok((key, json(value)?)))
                .collect::<Result<serde_json::Map<_, _>, String>>()?,
        ),
    })
}
