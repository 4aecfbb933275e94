//! From the JSON a model sent to the arguments of a tool, forgiving where nothing is lost by it.
//!
//! Everything is driven by the tool's own schema: which keys there are, which are required and of what type. A fault
//! names the key, what was sent and the expected shape, so that one more try repairs the call.

use std::fmt::Write as _;

use runtime::{ToolFault, ToolSpec};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::words::clip;

/// The names other agents use for our keys, each as `(ours, theirs)`. They count only in a tool that has our key and
/// does not itself have a key of their name.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    (
        "path",
        &[
            "file_path",
            "filepath",
            "filePath",
            "file",
            "filename",
            "target_file",
            "absolute_path",
            "dir_path",
            "dir",
            "directory",
        ],
    ),
    ("name", &["skill", "skill_name", "skillName"]),
    ("file", &["path", "resource"]),
    ("old_string", &["old", "old_str", "old_text", "oldString", "oldText"]),
    ("new_string", &["new", "new_str", "new_text", "newString", "newText"]),
    ("replace_all", &["replaceAll", "all"]),
    ("content", &["contents", "file_text", "text"]),
    ("command", &["cmd", "script"]),
    ("workdir", &["cwd", "working_directory", "workingDirectory", "dir"]),
    ("timeout_ms", &["timeout", "timeoutMs"]),
    ("background", &["run_in_background", "is_background", "runInBackground", "isBackground"]),
    ("pattern", &["query", "regex", "regexp", "glob_pattern", "search_pattern"]),
    ("glob", &["include", "include_pattern", "file_pattern"]),
    ("case_insensitive", &["ignore_case", "caseInsensitive", "-i"]),
    ("context", &["context_lines", "-C"]),
    ("max_results", &["maxResults", "max_count", "head_limit", "limit"]),
    ("offset", &["start_line", "startLine", "line"]),
    ("limit", &["max_lines", "num_lines", "lines"]),
    (
        "rev",
        &[
            "revision",
            "revisions",
            "commit",
            "commit_hash",
            "ref",
            "range",
            "sha",
            "hash",
            "object",
            "branch",
        ],
    ),
    ("from", &["base", "rev1"]),
    ("to", &["target", "rev2"]),
    ("staged", &["cached"]),
    ("max_count", &["maxCount", "n", "count", "limit", "max_results"]),
    ("start_line", &["startLine", "line_start", "from_line"]),
    ("end_line", &["endLine", "line_end", "to_line"]),
];

/// Longest piece of a sent value that a fault quotes: enough to recognise it, without repeating a whole file.
const QUOTED_CHARS: usize = 80;

/// Longest list of sent keys in a fault: more than any tool has.
const SENT_KEYS_CHARS: usize = 200;

/// Most unknown keys that are named; beyond them a count does.
const IGNORED_NAMED: usize = 10;

/// Unknown keys of a call, dropped but mentioned in its answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ignored(Vec<String>);

impl Ignored {
    /// Appends the mention, if there is anything to mention.
    pub(crate) fn mention_in(&self, text: &mut String) {
        if self.0.is_empty() {
            return;
        }
        let named: Vec<_> = self.0.iter().take(IGNORED_NAMED).map(|key| clip(key, QUOTED_CHARS)).collect();
        let more = match self.0.len().saturating_sub(IGNORED_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = write!(text, "\n[ignored unknown arguments: {}{more}]", named.join(", "));
    }
}

/// The schema of a tool's arguments: strict, and without what clients warn about or models do not need.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    let Some(top) = schema.as_object_mut() else { return schema };
    for noise in ["$schema", "title", "description"] {
        top.remove(noise);
    }
    let properties = top.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        for noise in ["format", "minimum", "default"] {
            property.remove(noise);
        }
        // An optional field is one that may be left out; a model need not be offered `null` too.
        if let Some(Value::Array(types)) = property.get("type") {
            let kind = types.iter().find(|kind| *kind != "null").cloned();
            property.insert("type".to_owned(), kind.unwrap_or(Value::Null));
        }
    }
    schema
}

/// Decodes the arguments of one call.
pub(crate) fn decode<T: DeserializeOwned>(
    spec: &ToolSpec,
    arguments: Value,
) -> Result<(T, Ignored), ToolFault> {
    let properties = Property::all(&spec.input_schema);
    let mut sent = match arguments {
        Value::Object(sent) => sent,
        Value::Null => Map::new(),
        other => {
            let problem = format!("sent {}, expected an object", quote(&other));
            return Err(fault(&spec.name, &[problem], &properties));
        }
    };
    let sent_keys: Vec<_> = sent.keys().map(String::as_str).collect();
    let sent_keys = clip(&sent_keys.join(", "), SENT_KEYS_CHARS).into_owned();
    let mut taken = Map::new();
    let mut problems = Vec::new();
    for property in &properties {
        match property.take_from(&mut sent, &properties) {
            Some(value) => match property.fit(value) {
                Ok(value) => drop(taken.insert(property.name.to_owned(), value)),
                Err(problem) => problems.push(problem),
            },
            None if property.required && sent_keys.is_empty() => {
                problems.push(format!("`{}` is missing: no arguments were sent", property.name));
            }
            None if property.required => {
                problems.push(format!("`{}` is missing: sent {}", property.name, sent_keys));
            }
            None => {}
        }
    }
    if !problems.is_empty() {
        return Err(fault(&spec.name, &problems, &properties));
    }
    let mut unknown: Vec<_> = sent.into_iter().map(|(key, _)| key).collect();
    // A map of JSON may or may not keep its order.
    unknown.sort_unstable();
    let ignored = Ignored(unknown);
    match serde_json::from_value(Value::Object(taken)) {
        Ok(decoded) => Ok((decoded, ignored)),
        Err(error) => Err(fault(&spec.name, &[error.to_string()], &properties)),
    }
}

fn fault(tool: &str, problems: &[String], properties: &[Property<'_>]) -> ToolFault {
    let shape: Vec<_> = properties.iter().map(Property::shape).collect();
    ToolFault::Arguments(format!(
        "{}. {tool} expects {{{}}}; ? marks optional keys",
        problems.join("; "),
        shape.join(", ")
    ))
}

fn quote(value: &Value) -> String {
    clip(&value.to_string(), QUOTED_CHARS).into_owned()
}

/// One key of a tool's arguments, as its schema has it.
struct Property<'a> {
    name: &'a str,
    kind: &'a str,
    required: bool,
}

impl<'a> Property<'a> {
    /// The keys of a schema, required ones first and otherwise by name, whatever order the JSON map keeps.
    fn all(schema: &'a Value) -> Vec<Self> {
        let required: Vec<_> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut all: Vec<_> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, property)| Self {
                name,
                kind: property["type"].as_str().unwrap_or("any"),
                required: required.contains(&name.as_str()),
            })
            .collect();
        all.sort_by_key(|property| {
            (required.iter().position(|name| *name == property.name).unwrap_or(usize::MAX), property.name)
        });
        all
    }

    /// Takes this key out of what was sent, under our name or another. `null` counts as absent.
    fn take_from(&self, sent: &mut Map<String, Value>, all: &[Self]) -> Option<Value> {
        let others =
            OTHER_NAMES.iter().find(|(ours, _)| *ours == self.name).map_or(&[][..], |(_, them)| them);
        let others =
            others.iter().copied().filter(|other| all.iter().all(|property| property.name != *other));
        for name in std::iter::once(self.name).chain(others) {
            match sent.get(name) {
                Some(Value::Null) => drop(sent.remove(name)),
                Some(_) => return sent.remove(name),
                None => {}
            }
        }
        None
    }

    /// The value as this key wants it.
    fn fit(&self, value: Value) -> Result<Value, String> {
        match (self.kind, &value) {
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("any", _) => Ok(value),
            ("array", Value::Array(items)) if items.iter().all(Value::is_string) => Ok(value),
            // One thing alone is a list of one.
            ("array", Value::String(_)) => Ok(Value::Array(vec![value])),
            ("integer", Value::Number(number)) => match whole(number) {
                Some(whole) => Ok(whole.into()),
                None => Err(self.misfit(&value)),
            },
            _ => Err(self.misfit(&value)),
        }
    }

    fn misfit(&self, value: &Value) -> String {
        let expected = match self.kind {
            "string" => "a string",
            "boolean" => "true or false",
            "integer" => "a whole number, not negative",
            "array" => "a list of strings",
            other => other,
        };
        format!("`{}`: sent {}, expected {expected}", self.name, quote(value))
    }

    fn shape(&self) -> String {
        format!("\"{}\"{}: {}", self.name, if self.required { "" } else { "?" }, self.kind)
    }
}

/// A number that is whole, however it is written: `2.0` means 2.
fn whole(number: &serde_json::Number) -> Option<u64> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && *float >= 0.0);
    // Printing and parsing refuses what does not fit instead of rounding it.
    number.as_u64().or_else(|| float()?.abs().to_string().parse().ok())
}

#[cfg(test)]
mod tests {
    use domain::CapabilitySet;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        path: String,
        old_string: String,
        timeout_ms: Option<u64>,
        replace_all: Option<bool>,
    }

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "sample".into(),
            description: "".into(),
            input_schema: schema_of::<Sample>(),
            requires: CapabilitySet::of(&[]),
        }
    }

    fn decoded(arguments: Value) -> (Sample, Ignored) {
        decode(&spec(), arguments).unwrap()
    }

    fn refused(arguments: Value) -> String {
        decode::<Sample>(&spec(), arguments).unwrap_err().to_string()
    }

    #[test]
    fn the_schema_is_strict_and_plain() {
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "old_string"],
            "properties": {
                "path": { "type": "string" },
                "old_string": { "type": "string" },
                "timeout_ms": { "type": "integer" },
                "replace_all": { "type": "boolean" },
            },
        });
        assert_eq!(schema_of::<Sample>(), expected);
    }

    #[test]
    fn names_of_other_agents_are_understood() {
        let (sample, ignored) =
            decoded(json!({ "file_path": "a", "old_str": "b", "timeout": 5, "replaceAll": true }));
        let expected =
            Sample { path: "a".into(), old_string: "b".into(), timeout_ms: Some(5), replace_all: Some(true) };
        assert_eq!((sample, ignored), (expected, Ignored::default()));
    }

    #[test]
    fn null_is_absent_and_a_whole_float_is_a_whole_number() {
        let (sample, _) =
            decoded(json!({ "path": null, "file": "a", "old": "b", "timeout_ms": 2.0, "replace_all": null }));
        assert_eq!((sample.path.as_str(), sample.timeout_ms, sample.replace_all), ("a", Some(2), None));
    }

    #[test]
    fn our_own_name_wins_and_unknown_keys_are_mentioned() {
        let (sample, ignored) =
            decoded(json!({ "path": "ours", "file_path": "theirs", "old": "b", "mood": "happy" }));
        let mut text = "done".to_owned();
        ignored.mention_in(&mut text);
        assert_eq!(sample.path, "ours");
        assert_eq!(text, "done\n[ignored unknown arguments: file_path, mood]");
    }

    #[test]
    fn a_fault_names_the_key_what_was_sent_and_the_shape() {
        insta::assert_snapshot!(
            refused(json!({ "old": 5, "timeout": "soon" })),
            @r#"invalid arguments: `path` is missing: sent old, timeout; `old_string`: sent 5, expected a string; `timeout_ms`: sent "soon", expected a whole number, not negative. sample expects {"path": string, "old_string": string, "replace_all"?: boolean, "timeout_ms"?: integer}; ? marks optional keys"#
        );
        insta::assert_snapshot!(
            refused(json!("ls")),
            @r#"invalid arguments: sent "ls", expected an object. sample expects {"path": string, "old_string": string, "replace_all"?: boolean, "timeout_ms"?: integer}; ? marks optional keys"#
        );
    }

    #[test]
    fn numbers_that_are_not_whole_or_do_not_fit_are_refused() {
        for number in [json!(-1), json!(1.5), json!(-0.5), json!(1e300), json!("3"), json!(true)] {
            let text = refused(json!({ "path": "a", "old": "b", "timeout": number }));
            assert!(text.contains("`timeout_ms`: sent"), "{number}: {text}");
        }
    }

    #[test]
    fn a_list_of_other_things_than_strings_is_refused_by_its_key() {
        let list = Property { name: "needs", kind: "array", required: false };
        assert_eq!(list.fit(json!(["a"])), Ok(json!(["a"])));
        assert_eq!(list.fit(json!("a")), Ok(json!(["a"])));
        let told = list.fit(json!(["a", null])).unwrap_err();
        assert_eq!(told, "`needs`: sent [\"a\",null], expected a list of strings");
    }

    #[test]
    fn a_long_value_is_quoted_in_part() {
        let text = refused(json!({ "path": "a", "old": ["x".repeat(10_000)] }));
        assert!(text.len() < 500, "{text}");
    }
}
