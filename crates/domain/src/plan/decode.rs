//! From JSON to a [`Candidate`]: types and shapes only; what the values mean is checked afterwards.

use serde_json::{Map, Value};

use super::{Candidate, CandidateStep, StepStatus};
use crate::id::Revision;
use crate::violation::{Code, Violation};

/// What happens to keys that a plan does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are an error: a person's or a program's typing mistake (command line, HTTP).
    Refuse,
    /// They are dropped and listed: models add keys of their own (tools, MCP).
    Ignore,
}

/// A decoded candidate and what was dropped on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedCandidate {
    /// The candidate.
    pub candidate: Candidate,
    /// The dropped keys, such as `steps[2].note`.
    pub ignored: Vec<String>,
}

/// Decodes a candidate and reports everything about it that has the wrong shape, as `invalid_input`.
///
/// In optional fields `null` means absent, and whole numbers may be written as `2.0`.
pub fn decode_candidate(value: &Value, unknown: UnknownKeys) -> Result<DecodedCandidate, Vec<Violation>> {
    let mut reader = Reader { unknown, ignored: Vec::new(), found: Vec::new() };
    let candidate = reader.candidate(value);
    match candidate {
        Some(candidate) if reader.found.is_empty() => {
            Ok(DecodedCandidate { candidate, ignored: reader.ignored })
        }
        _ => Err(reader.found),
    }
}

/// Reads a revision: a whole number from 0, also written `2.0`.
pub fn decode_revision(key: &str, value: &Value) -> Result<Revision, Violation> {
    // Above 2^53 a float no longer tells neighbours apart; a revision never gets there.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = value.as_u64() {
        return Ok(Revision(number));
    }
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && (0.0..EXACT).contains(&number) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            let number = number as u64;
            Ok(Revision(number))
        }
        _ => {
            let message = format!("`{key}` must be a whole number from 0, got {}", shown(value));
            Err(Violation::new("P9", Code::InvalidInput, message))
        }
    }
}

struct Reader {
    unknown: UnknownKeys,
    ignored: Vec<String>,
    found: Vec<Violation>,
}

impl Reader {
    fn candidate(&mut self, value: &Value) -> Option<Candidate> {
        let Some(object) = value.as_object() else {
            self.invalid(format!("a plan is an object with `title` and `steps`, got {}", shown(value)));
            return None;
        };
        self.keys("", object, &["title", "steps", "expected_revision", "goal_id", "explanation"]);
        let title = self.required_text("", object, "title");
        let steps = self.steps(object);
        let expected_revision = match optional(object, "expected_revision") {
            None => None,
            Some(value) => decode_revision("expected_revision", value).map_err(|v| self.found.push(v)).ok(),
        };
        let goal_id = self.optional_text(object, "goal_id");
        let explanation = self.optional_text(object, "explanation");
        Some(Candidate { title: title?, steps: steps?, expected_revision, goal_id, explanation })
    }

    fn steps(&mut self, object: &Map<String, Value>) -> Option<Vec<CandidateStep>> {
        let Some(list) = optional(object, "steps") else {
            self.invalid("`steps` is missing; send the list of all steps".to_owned());
            return None;
        };
        let Some(list) = list.as_array() else {
            self.invalid(format!("`steps` must be a list, got {}", shown(list)));
            return None;
        };
        let steps: Vec<_> = list.iter().enumerate().filter_map(|(at, step)| self.step(at, step)).collect();
        (steps.len() == list.len()).then_some(steps)
    }

    fn step(&mut self, at: usize, value: &Value) -> Option<CandidateStep> {
        let place = format!("steps[{at}]");
        let Some(object) = value.as_object() else {
            self.invalid(format!(
                "`{place}` must be an object with id, title and status, got {}",
                shown(value)
            ));
            return None;
        };
        let place = format!("{place}.");
        self.keys(&place, object, &["id", "title", "status"]);
        let id = self.required_text(&place, object, "id");
        let title = self.required_text(&place, object, "title");
        let status = self.status(&place, object, id.as_deref());
        Some(CandidateStep { id: id?, title: title?, status: status? })
    }

    fn status(&mut self, place: &str, object: &Map<String, Value>, id: Option<&str>) -> Option<StepStatus> {
        let text = self.required_text(place, object, "status")?;
        let status = match text.as_str() {
            "pending" => StepStatus::Pending,
            "in_progress" => StepStatus::InProgress,
            "completed" => StepStatus::Completed,
            other => {
                let message = format!(
                    "`{place}status` is {}; a step is pending, in_progress or completed. Blocking and cancellation \
                     are not step states: they belong to the Goal or to a work item; say why in `explanation`, or \
                     close the plan",
                    shown(&Value::from(other))
                );
                let violation = Violation::new("P6", Code::InvalidInput, message);
                self.found.push(violation.of_steps(id.map(str::to_owned)));
                return None;
            }
        };
        Some(status)
    }

    fn required_text(&mut self, place: &str, object: &Map<String, Value>, key: &str) -> Option<String> {
        match optional(object, key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                self.invalid(format!("`{place}{key}` must be text, got {}", shown(other)));
                None
            }
            None => {
                self.invalid(format!("`{place}{key}` is missing"));
                None
            }
        }
    }

    fn optional_text(&mut self, object: &Map<String, Value>, key: &str) -> Option<String> {
        optional(object, key)?;
        self.required_text("", object, key)
    }

    fn keys(&mut self, place: &str, object: &Map<String, Value>, known: &[&str]) {
        // Sorted, because the order of an object's keys depends on how the map was built.
        let mut strange: Vec<_> = object.keys().filter(|key| !known.contains(&key.as_str())).collect();
        strange.sort_unstable();
        for key in strange {
            let name: String = format!("{place}{key}").chars().take(80).collect();
            match self.unknown {
                UnknownKeys::Ignore => self.ignored.push(name),
                UnknownKeys::Refuse => {
                    self.invalid(format!("unknown key `{name}`; known here: {}", known.join(", ")));
                }
            }
        }
    }

    fn invalid(&mut self, message: String) {
        self.found.push(Violation::new("P6", Code::InvalidInput, message));
    }
}

fn optional<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// A value as a message shows it: its start is enough to recognise it.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain(['…']).collect() }
}
