//! What went wrong, found from status codes and the provider's structured error codes. Prose is only shown.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::string::FromUtf8Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::FailureKind;
use genai::webc::StreamTimeout;
use serde_json::Value;

use super::witness::Witness;
use super::{Patience, http_date};

/// The longest part of a provider's message that is shown: some answer with a whole HTML page.
const MESSAGE_CHARS: usize = 500;

/// The longest wait a provider can ask for. What is longer is a mistake, and this keeps every moment a date.
const WAIT: Duration = Duration::from_hours(30 * 24);

/// A failure before the model's name is put to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: FailureKind,
    pub(super) detail: String,
    pub(super) retry_after_ms: Option<u64>,
}

impl Finding {
    pub(super) const fn new(kind: FailureKind, detail: String) -> Self {
        Self { kind, detail, retry_after_ms: None }
    }
}

/// What there is to judge a failed exchange by, besides the client library's error.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) witness: &'a Witness,
    pub(super) patience: &'a Patience,
    /// The host, and the port if one is given.
    pub(super) server: &'a str,
}

impl Scene<'_> {
    /// What the frames alone already condemn.
    pub(super) fn of_frames(&self) -> Option<Finding> {
        if let Some(flaw) = self.witness.flaw() {
            return Some(Finding::new(FailureKind::ProviderProtocol, flaw));
        }
        // A model that repeats itself without an end may do better when it is asked again.
        if self.witness.saw_too_much() {
            return Some(Finding::new(
                FailureKind::StreamIncomplete,
                "the answer was broken off: it has more than 32 MiB".to_owned(),
            ));
        }
        self.witness.error().as_ref().map(of_error_in_stream)
    }

    /// The body ended, without an error, before the answer did.
    pub(super) fn of_early_end(&self) -> Finding {
        let detail = if self.witness.saw_data() {
            "the answer stopped before its end"
        } else {
            "the server accepted the request and sent no answer; if that repeats, `base_url` or `protocol` is wrong"
        };
        Finding::new(FailureKind::StreamIncomplete, detail.to_owned())
    }

    /// The server went on and on without an end to anything.
    pub(super) fn of_endless_part(&self) -> Finding {
        self.of_broken_connection(
            "the server sends without an end; if that repeats, `base_url` or `protocol` is wrong",
        )
    }

    /// The answer took longer than any answer takes.
    pub(super) fn of_long_answer(&self) -> Finding {
        self.of_broken_connection(&format!("no complete answer within {:?}", self.patience.answer))
    }

    pub(super) fn of_error(&self, error: &genai::Error) -> Finding {
        use genai::Error;
        match error {
            Error::HttpError { status, body, headers, .. } => {
                let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
                if let Some(target) = header("location").filter(|_| status.is_redirection()) {
                    return of_redirect(status.as_u16(), target);
                }
                of_status(status.as_u16(), body, header)
            }
            Error::WebStream { error, .. } => self.of_broken_stream(error.as_ref()),
            Error::ChatResponse { body, .. } => of_error_in_stream(body),
            // A body that simply stops leaves its last frame half written.
            Error::StreamParse { serde_error, .. }
                if serde_error.is_eof() || self.witness.saw_half_an_end() =>
            {
                self.of_early_end()
            }
            Error::StreamParse { serde_error, .. } => Finding::new(
                FailureKind::ProviderProtocol,
                format!("the answer has a chunk that is no JSON: {serde_error}"),
            ),
            Error::SerdeJson(_)
            | Error::JsonValueExt(_)
            | Error::InvalidJsonResponseElement { .. }
            | Error::NoChatResponse { .. } => Finding::new(
                FailureKind::ProviderProtocol,
                format!("the answer is not what the protocol says: {error}"),
            ),
            // What is left is said by the client library before anything is sent.
            other => {
                Finding::new(FailureKind::Unsupported, format!("the request could not be made: {other}"))
            }
        }
    }

    /// The boxed error says what happened to the connection, or carries the provider's refusal of the request.
    fn of_broken_stream(&self, error: &(dyn StdError + Send + Sync + 'static)) -> Finding {
        if let Some(error) = error.downcast_ref::<genai::Error>() {
            return self.of_error(error);
        }
        if let Some(timeout) = error.downcast_ref::<StreamTimeout>() {
            let limit = match timeout {
                StreamTimeout::Headers => self.patience.first_byte,
                StreamTimeout::Read => self.patience.idle,
            };
            return self.of_broken_connection(&format!(
                "the server was silent for {limit:?}; if it needs longer, raise `idle_seconds`"
            ));
        }
        if let Some(error) = error.downcast_ref::<FromUtf8Error>() {
            return match error.utf8_error().error_len() {
                None => self.of_early_end(),
                Some(_) => Finding::new(FailureKind::ProviderProtocol, "the answer is not UTF-8".to_owned()),
            };
        }
        self.of_broken_connection(&causes(error))
    }

    /// An answer that had begun may have cost something, and one that had not did not (G4).
    fn of_broken_connection(&self, cause: &str) -> Finding {
        let server = self.server;
        if self.witness.saw_data() {
            Finding::new(
                FailureKind::StreamIncomplete,
                format!("the answer from {server} broke off before its end: {cause}"),
            )
        } else {
            Finding::new(FailureKind::Transport, format!("no answer from {server}: {cause}"))
        }
    }
}

/// What lies beneath an HTTP client's error. Its own line shows the address, and with it any key in the query.
fn causes(error: &dyn StdError) -> String {
    let mut beneath = Vec::new();
    let mut tls = false;
    let mut next = error.source();
    while let Some(cause) = next {
        beneath.push(cause.to_string());
        tls |= cause.downcast_ref().is_some_and(is_about_tls);
        next = cause.source();
    }
    let said = if beneath.is_empty() { "the request failed".to_owned() } else { beneath.join(": ") };
    if tls {
        said + "; does the server speak https, with a certificate that this machine trusts?"
    } else {
        said
    }
}

/// A connection carries only one kind of data that can be invalid below HTTP. The error is wrapped in others of its type.
fn is_about_tls(error: &io::Error) -> bool {
    let beneath = || error.get_ref()?.downcast_ref().map(is_about_tls);
    error.kind() == ErrorKind::InvalidData || beneath().unwrap_or(false)
}

/// A redirect is not followed: most would drop the body of the request, and some would take the key elsewhere.
fn of_redirect(status: u16, target: &str) -> Finding {
    let target = shortened(target);
    Finding::new(
        FailureKind::ProviderProtocol,
        format!(
            "HTTP {status}: the server sends elsewhere, to {target}; set `base_url` to where it answers itself"
        ),
    )
}

fn of_status<'h>(status: u16, body: &str, header: impl Fn(&str) -> Option<&'h str>) -> Finding {
    let report = serde_json::from_str::<Value>(body).ok().as_ref().and_then(Report::read);
    // A code only sharpens what the status leaves open; that a server is busy or broken is the status's to say.
    let by_code = report
        .as_ref()
        .filter(|_| (400..500).contains(&status))
        .and_then(Report::kind)
        .filter(|kind| !matches!(kind, FailureKind::RateLimited | FailureKind::ServerError));
    let kind = by_code.unwrap_or_else(|| kind_of_status(status));
    let message = report.as_ref().map_or(body, |report| report.message.as_str());
    let code = report.as_ref().and_then(|report| report.codes.first());
    let code = code.map_or_else(String::new, |code| format!(" ({code})"));
    let separator = if message.trim().is_empty() { "" } else { ": " };
    let detail = format!("HTTP {status}{code}{separator}{}{}", shortened(message), advice(kind));
    Finding { kind, detail, retry_after_ms: retry_after_ms(header) }
}

/// What a person can do about it, where the provider's own words often do not say.
const fn advice(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Authentication => "; check the key",
        FailureKind::QuotaExhausted => "; top up the account",
        FailureKind::ModelUnavailable => "; check `model` and `base_url`",
        _ => "",
    }
}

const fn kind_of_status(status: u16) -> FailureKind {
    match status {
        401 | 403 => FailureKind::Authentication,
        402 => FailureKind::QuotaExhausted,
        404 => FailureKind::ModelUnavailable,
        // The server, or something before it, gave up waiting for the request.
        408 => FailureKind::Transport,
        413 => FailureKind::PromptTooLarge,
        429 => FailureKind::RateLimited,
        500..=599 => FailureKind::ServerError,
        405..=407 | 410..=412 | 414..=421 | 423..=499 => FailureKind::Unsupported,
        // 400 and 422 say the request is malformed; anything outside 4xx and 5xx is no answer to it at all.
        _ => FailureKind::ProviderProtocol,
    }
}

/// An error sent in place of the rest of the answer. The request had been accepted, so an unknown one is the server's.
fn of_error_in_stream(body: &Value) -> Finding {
    let Some(report) = Report::read(body) else {
        return Finding::new(FailureKind::ServerError, "the answer was replaced by an error".to_owned());
    };
    let by_status = || {
        let status = report.codes.iter().find_map(|code| code.parse().ok())?;
        (400..600).contains(&status).then(|| kind_of_status(status))
    };
    let kind = report.kind().or_else(by_status).unwrap_or(FailureKind::ServerError);
    let code = report.codes.first().map_or_else(String::new, |code| format!(" ({code})"));
    let separator = if report.message.trim().is_empty() { "" } else { ": " };
    let message = shortened(&report.message);
    Finding::new(kind, format!("the answer was replaced by an error{code}{separator}{message}"))
}

/// A provider's description of an error: `{"error": {…}}`, the inner object alone, or a list of one of them.
struct Report {
    /// `code`, `type` and `status`, those that are there.
    codes: Vec<String>,
    message: String,
}

impl Report {
    fn read(body: &Value) -> Option<Self> {
        let body = body.get(0).unwrap_or(body);
        let error = body.get("error").unwrap_or(body);
        if let Value::String(message) = error {
            return Some(Self { codes: Vec::new(), message: message.clone() });
        }
        let error = error.as_object()?;
        let codes = ["code", "type", "status"]
            .into_iter()
            .filter_map(|field| match error.get(field)? {
                Value::String(code) => Some(code.clone()),
                Value::Number(code) => Some(code.to_string()),
                _ => None,
            })
            .collect();
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { codes, message })
    }

    /// The kind that a well-known code names.
    fn kind(&self) -> Option<FailureKind> {
        self.codes.iter().find_map(|code| {
            Some(match code.as_str() {
                // The second is Moonshot's.
                "insufficient_quota"
                | "exceeded_current_quota_error"
                | "billing_hard_limit_reached"
                | "billing_not_active"
                | "billing_error" => FailureKind::QuotaExhausted,
                // The second is llama.cpp's.
                "context_length_exceeded" | "exceed_context_size_error" => FailureKind::ContextLimit,
                "request_too_large" => FailureKind::PromptTooLarge,
                "model_not_found" => FailureKind::ModelUnavailable,
                "invalid_api_key" | "authentication_error" | "permission_error" => {
                    FailureKind::Authentication
                }
                "content_filter" | "content_policy_violation" | "invalid_prompt" => FailureKind::Refused,
                "rate_limit_exceeded" | "rate_limit_error" => FailureKind::RateLimited,
                "server_error" | "api_error" | "overloaded_error" => FailureKind::ServerError,
                _ => return None,
            })
        })
    }
}

fn shortened(message: &str) -> String {
    let mut words = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(MESSAGE_CHARS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// `Retry-After` as seconds or as a date, or OpenAI's finer `retry-after-ms`.
fn retry_after_ms<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<u64> {
    let wait = asked_wait(header)?.min(WAIT);
    u64::try_from(wait.as_millis()).ok()
}

fn asked_wait<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    if let Some(milliseconds) = header("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let text = header("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = http_date::unix_seconds(text)?;
    // Measured on the provider's own clock where it shows it: ours may be off by more than the wait.
    let now = header("date").and_then(http_date::unix_seconds).or_else(our_clock)?;
    Some(Duration::from_secs(u64::try_from(until - now).unwrap_or(0)))
}

fn our_clock() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], expected: Option<u64>) {
        let found = retry_after_ms(|name| {
            headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value)
        });
        assert_eq!(found, expected, "{headers:?}");
    }

    #[test]
    fn a_wait_is_read_from_seconds_milliseconds_or_a_date() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "0.25")], Some(250));
        check(&[("retry-after", "7"), ("retry-after-ms", "6500")], Some(6_500));
        check(&[date, ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], Some(30_000));
        check(&[date, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0));
        check(&[("retry-after", "99999999999")], Some(2_592_000_000));
        check(&[("retry-after", "1e300")], None);
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "soon")], None);
        check(&[("retry-after", "NaN")], None);
    }

    fn check_status(status: u16, body: &str, expected: FailureKind) {
        assert_eq!(of_status(status, body, |_| None).kind, expected, "{status} {body}");
    }

    #[test]
    fn every_status_has_its_kind() {
        check_status(400, "", FailureKind::ProviderProtocol);
        check_status(401, "", FailureKind::Authentication);
        check_status(402, "", FailureKind::QuotaExhausted);
        check_status(403, "", FailureKind::Authentication);
        check_status(404, "", FailureKind::ModelUnavailable);
        check_status(405, "", FailureKind::Unsupported);
        check_status(408, "", FailureKind::Transport);
        check_status(413, "", FailureKind::PromptTooLarge);
        check_status(415, "", FailureKind::Unsupported);
        check_status(422, "", FailureKind::ProviderProtocol);
        check_status(429, "", FailureKind::RateLimited);
        check_status(500, "", FailureKind::ServerError);
        check_status(529, "", FailureKind::ServerError);
        check_status(302, "", FailureKind::ProviderProtocol);
    }

    #[test]
    fn a_structured_code_sharpens_a_status_and_prose_does_not() {
        check_status(429, r#"{"error":{"code":"insufficient_quota"}}"#, FailureKind::QuotaExhausted);
        check_status(
            429,
            r#"{"error":{"code":null,"type":"insufficient_quota"}}"#,
            FailureKind::QuotaExhausted,
        );
        check_status(429, r#"{"error":{"message":"insufficient_quota"}}"#, FailureKind::RateLimited);
        check_status(400, r#"{"error":{"code":"context_length_exceeded"}}"#, FailureKind::ContextLimit);
        check_status(400, r#"{"error":{"type":"exceed_context_size_error"}}"#, FailureKind::ContextLimit);
        check_status(400, r#"{"error":"context_length_exceeded"}"#, FailureKind::ProviderProtocol);
        check_status(403, r#"{"error":{"code":"model_not_found"}}"#, FailureKind::ModelUnavailable);
        check_status(
            400,
            r#"[{"error":{"code":400,"status":"INVALID_ARGUMENT"}}]"#,
            FailureKind::ProviderProtocol,
        );
        check_status(413, r#"{"error":{"code":"rate_limit_exceeded"}}"#, FailureKind::PromptTooLarge);
        check_status(500, r#"{"error":{"code":"insufficient_quota"}}"#, FailureKind::ServerError);
    }

    #[test]
    fn an_error_inside_an_answer_is_the_servers_unless_its_code_says_more() {
        let kind = |body: Value| of_error_in_stream(&body).kind;
        assert_eq!(kind(serde_json::json!({"message": "boom"})), FailureKind::ServerError);
        assert_eq!(kind(Value::Null), FailureKind::ServerError);
        assert_eq!(kind(serde_json::json!({"code": 429})), FailureKind::RateLimited);
        assert_eq!(kind(serde_json::json!({"code": "rate_limit_exceeded"})), FailureKind::RateLimited);
        assert_eq!(kind(serde_json::json!({"type": "overloaded_error"})), FailureKind::ServerError);
    }

    #[test]
    fn a_page_of_html_is_shown_by_its_head() {
        let finding = of_status(502, &"<p>bad gateway</p>\n".repeat(1_000), |_| None);
        assert!(finding.detail.starts_with("HTTP 502: <p>bad gateway</p> <p>"), "{}", finding.detail);
        assert!(finding.detail.chars().count() < 600);
    }
}
