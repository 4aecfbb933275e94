//! Strategies for the arguments of calls: near the schema of a tool, and far from it.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Number, Value, json};
use testkit::texts;

/// Words that mean something to one of the tools, or to a library beneath it.
const WORDS: &[&str] = &[
    "",
    ".",
    "..",
    "/",
    "src",
    "src/lib.rs",
    "a",
    "link",
    "absent/new",
    "src/lib.rs/x",
    "a\0b",
    "~",
    "-",
    "--all",
    "HEAD",
    "HEAD~1",
    "HEAD~99999999999999999999",
    "HEAD^{/fix}",
    "HEAD^{}",
    "HEAD^0",
    "HEAD^18446744073709551616",
    "@",
    "@{-1}",
    "@{u}",
    "@{yesterday}",
    "main..HEAD",
    "main...",
    "..",
    "^main",
    ":/fix",
    ":0:src/lib.rs",
    "HEAD:src/lib.rs",
    "HEAD:",
    "main@{0}",
    "main@{99999999999999999999}",
    "0000000000000000000000000000000000000000",
    "deadbeef",
    "v1.0-3-gdeadbee",
    "refs/heads/main",
    "refs/heads/../../HEAD",
    "*",
    "*.rs",
    "**/*",
    "**/**/**",
    "src/**",
    "{a,b",
    "{a,b}",
    "{{{{{{{{",
    "[",
    "[]",
    "[!]",
    "[z-a]",
    "[^",
    "\\",
    "a\\",
    "(",
    "(a",
    ")",
    "a{1,2}",
    "a{1000000}",
    "(a{1000}){1000}",
    "(a*)*b",
    "(?P<n>a)",
    "(?i)\\p{Greek}+",
    "\\b",
    "\\xff",
    "(?-u)\\xff",
    "[[:alpha:]",
    "(?=a)",
    "\\1",
    "$",
    "^",
    ".*",
    "\\u{110000}",
    "true",
    "null",
    "0",
    "-1",
    "1e9",
    "network",
    "true; false",
    "pending",
    "in_progress",
    "completed",
    "blocked",
    "time",
    "file",
    "command",
    "inbox",
    "Network",
    "\u{feff}",
];

/// Numbers at the edges of the types that they are decoded to.
const NUMBERS: &[f64] = &[
    -0.0,
    0.5,
    1.0,
    2.0,
    1e3,
    -1.5,
    4_294_967_295.0,
    4_294_967_296.0,
    9_007_199_254_740_993.0,
    9.223_372_036_854_776e18,
    1.844_674_407_370_955_2e19,
    1e300,
    -1e300,
    5e-324,
];

/// Keys that other agents use, and some that nobody does.
const KEYS: &[&str] = &[
    "file_path",
    "filePath",
    "file",
    "dir",
    "old_str",
    "new_str",
    "text",
    "cmd",
    "cwd",
    "timeout",
    "query",
    "regex",
    "include",
    "-i",
    "-C",
    "limit",
    "lines",
    "line",
    "commit",
    "ref",
    "n",
    "all",
    "",
    "path ",
    "__proto__",
    "Path",
    "steps",
    "id",
    "`",
    "revision",
];

/// Nesting of a value. The parser of calls stops at 128, and what it lets through is decoded.
const NESTED: usize = 120;

/// Longest text: more than the bound of any field, so that each bound is met.
const LONG: usize = 70_000;

/// Text of any kind: words that tools know, odd characters, and too much of one character.
pub(crate) fn strings() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(WORDS).prop_map(str::to_owned),
        3 => texts(),
        1 => (select(testkit::ODD_CHARACTERS), select(&[65, 300, 2_000, 5_000, LONG][..]))
            .prop_map(|(odd, times)| odd.to_string().repeat(times)),
        1 => vec(select(WORDS), 1..6).prop_map(|words| words.concat()),
    ]
}

fn numbers() -> impl Strategy<Value = Value> {
    let edges = select(vec![0, 1, 2, 10, 127, 255, 65_535, 4_294_967_295, i64::MAX.unsigned_abs(), u64::MAX]);
    prop_oneof![
        4 => edges.prop_map(Value::from),
        1 => select(vec![-1, i64::from(i32::MIN), i64::MIN]).prop_map(Value::from),
        2 => select(NUMBERS).prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
        1 => any::<u64>().prop_map(Value::from),
    ]
}

/// JSON of any kind.
pub(crate) fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers(),
        strings().prop_map(Value::from),
        (1..NESTED).prop_map(|depth| (0..depth).fold(json!(1), |inner, _| json!([inner]))),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(keys(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![4 => select(KEYS).prop_map(str::to_owned), 1 => strings()]
}

/// Mostly what a schema asks for; now and then something else in a place of it.
pub(crate) fn near(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(values) = schema["enum"].as_array() {
        let fitting = select(values.clone());
        return prop_oneof![8 => fitting, 1 => anything()].boxed();
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let of_kind = |kind: &Value| match kind.as_str() {
        Some("string") => strings().prop_map(Value::from).boxed(),
        Some("integer" | "number") => numbers().boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("null") => Just(Value::Null).boxed(),
        Some("array") => vec(near(&schema["items"]), 0..5).prop_map(Value::from).boxed(),
        Some("object") => object(schema),
        _ => anything().boxed(),
    };
    let fitting = proptest::strategy::Union::new(kinds.iter().map(of_kind));
    prop_oneof![15 => fitting, 1 => anything()].boxed()
}

/// An object with most of the properties of a schema and sometimes others.
fn object(schema: &Value) -> BoxedStrategy<Value> {
    let properties: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, property)| (Just(key.clone()), near(property), proptest::bool::weighted(0.8)))
        .collect();
    let others = prop_oneof![4 => Just(Vec::new()), 1 => vec((keys(), anything()), 1..4)];
    (properties, others)
        .prop_map(|(properties, others)| {
            let sent = properties.into_iter().filter(|(_, _, is_sent)| *is_sent);
            let mut object: Map<_, _> = sent.map(|(key, value, _)| (key, value)).collect();
            for (key, value) in others {
                object.entry(key).or_insert(value);
            }
            Value::Object(object)
        })
        .boxed()
}

/// Every name that a schema gives to a field, however deep.
pub(crate) fn fields(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            let properties = object.get("properties").and_then(Value::as_object);
            into.extend(properties.into_iter().flat_map(Map::keys).cloned());
            object.values().for_each(|inner| fields(inner, into));
        }
        Value::Array(list) => list.iter().for_each(|inner| fields(inner, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
