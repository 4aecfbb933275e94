//! Cases and properties of the structure of a plan.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

/// A candidate as JSON and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "rule")]
    _rule: String,
    says: String,
    #[serde(default)]
    door: Door,
    input: Value,
    /// `id:status` of every step.
    accepted: Option<String>,
    accepted_steps: Option<usize>,
    title: Option<String>,
    expected_revision: Option<u64>,
    ignored: Option<Vec<String>>,
    /// `RULE code: steps` of every violation.
    refused: Option<Vec<String>>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Door {
    #[default]
    Strict,
    Model,
}

/// Writes out `{"$repeat": [text, n]}`, `{"$join": [text, …]}` and `{"$steps": n}`.
fn expanded(value: &Value) -> Value {
    let text = |value: &Value| expanded(value).as_str().map(str::to_owned).unwrap();
    let count = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    match value {
        Value::Object(object) if object.contains_key("$repeat") => {
            json!(text(&object["$repeat"][0]).repeat(count(&object["$repeat"][1])))
        }
        Value::Object(object) if object.contains_key("$join") => {
            json!(object["$join"].as_array().unwrap().iter().map(text).collect::<String>())
        }
        Value::Object(object) if object.contains_key("$steps") => {
            let step = |n| json!({ "id": format!("s{n}"), "title": "x", "status": "completed" });
            json!((0..count(&object["$steps"])).map(step).collect::<Vec<_>>())
        }
        Value::Object(object) => {
            Value::Object(object.iter().map(|(key, value)| (key.clone(), expanded(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(expanded).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn parse(input: &Value, unknown: UnknownKeys) -> Result<(DecodedCandidate, Snapshot), Vec<Violation>> {
    let decoded = decode_candidate(input, unknown)?;
    let snapshot = Snapshot::check(&decoded.candidate)?;
    Ok((decoded, snapshot))
}

fn in_short(violation: &Violation) -> String {
    let steps = violation.steps.join(", ");
    let separator = if steps.is_empty() { "" } else { ": " };
    format!("{} {}{separator}{steps}", violation.rule, violation.code)
}

fn check(case: &Case) {
    let Case { says, door, .. } = case;
    let unknown = match door {
        Door::Strict => UnknownKeys::Refuse,
        Door::Model => UnknownKeys::Ignore,
    };
    match parse(&expanded(&case.input), unknown) {
        Ok((decoded, snapshot)) => {
            let steps: Vec<_> =
                snapshot.steps().iter().map(|step| format!("{}:{}", step.id, step.status)).collect();
            assert_eq!(case.refused, None, "{says}");
            match case.accepted_steps {
                Some(count) => assert_eq!(steps.len(), count, "{says}"),
                None => assert_eq!(Some(steps.join(" ")), case.accepted, "{says}"),
            }
            assert_eq!(decoded.candidate.expected_revision.map(|r| r.0), case.expected_revision, "{says}");
            assert_eq!(decoded.ignored, case.ignored.clone().unwrap_or_default(), "{says}");
            if let Some(title) = &case.title {
                assert_eq!(snapshot.title().as_str(), title, "{says}");
            }
        }
        Err(found) => {
            let found: Vec<_> = found.iter().map(in_short).collect();
            assert_eq!(Some(found), case.refused, "{says}");
        }
    }
}

fn check_all(cases: &str) {
    let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
    cases.iter().for_each(check);
}

#[test]
fn p1_p2_p3_p4_p5_the_structure_of_a_plan() {
    check_all(include_str!("tests/cases/structure.json"));
}

#[test]
fn p7_limits_at_and_over_the_edge() {
    check_all(include_str!("tests/cases/limits.json"));
}

#[test]
fn p6_p9_decoding_coerces_nothing() {
    check_all(include_str!("tests/cases/decode.json"));
}

#[test]
fn p6_the_refusal_says_where_blocking_and_cancellation_live() {
    let input = json!({ "title": "T", "steps": [{ "id": "a", "title": "x", "status": "blocked" }] });
    let found = parse(&input, UnknownKeys::Ignore).unwrap_err();
    insta::assert_snapshot!(found[0].message, @r#"`steps[0].status` is "blocked"; a step is pending, in_progress or completed. Blocking and cancellation are not step states: they belong to the Goal or to a work item; say why in `explanation`, or close the plan"#);
}

#[test]
fn p1_p2_p3_p4_p5_p7_messages_say_what_to_do() {
    let input = json!({ "title": "", "steps": [
        { "id": "", "title": "x", "status": "in_progress" },
        { "id": "a\u{200b}", "title": "", "status": "in_progress" },
        { "id": "b", "title": "x".repeat(501), "status": "pending" },
        { "id": "b", "title": "x", "status": "pending" },
    ] });
    let found = parse(&input, UnknownKeys::Refuse).unwrap_err();
    let lines: Vec<_> = found.iter().map(|v| format!("{} {}: {}", v.rule, v.code, v.message)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    P1 blank_title: the plan title is blank; give it one
    P2 blank_step_id: step 1 has a blank id; give it a short stable one such as "verify"
    P7 invalid_step_id: the id of step 2 holds the invisible character U+200B
    P2 blank_step_title: step `a\u{200b}` has a blank title; say what it is about
    P7 limit_exceeded: the title of step `b` has 501 characters, the limit is 500
    P3 duplicate_step_id: step ids must be unique; used more than once: b
    P4 several_in_progress: only one step may be in_progress; these are: #1, a\u{200b}
    "#);
}

#[test]
fn p13_a_stored_plan_reads_back_and_one_that_breaks_a_rule_does_not() {
    let stored = json!({
        "plan_id": "91a00000-0000-0000-0000-000000000001",
        "revision": 3,
        "title": "T",
        "steps": [{ "id": "a", "title": "x", "status": "in_progress" }],
        "explanation": "why",
    });
    let plan: Plan = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&plan).unwrap(), stored);
    let broken = [
        ("title", json!(" ")),
        ("revision", json!(0)),
        ("revision", json!(-1)),
        ("steps", json!([{ "id": "a", "title": "x", "status": "pending" }])),
        ("steps", json!([{ "id": "a\u{200b}", "title": "x", "status": "completed" }])),
        ("steps", json!([{ "id": "a", "title": "x", "status": "completed", "more": 1 }])),
        ("more", json!(1)),
    ];
    for (key, value) in broken {
        let mut stored = stored.clone();
        stored[key] = value;
        assert!(serde_json::from_value::<Plan>(stored.clone()).is_err(), "{stored}");
    }
}

fn plan(revision: u64, title: &str, steps: &[(&str, &str, StepStatus)]) -> Plan {
    let step = |(id, title, status): &(&str, &str, StepStatus)| CandidateStep {
        id: (*id).to_owned(),
        title: (*title).to_owned(),
        status: *status,
    };
    let candidate = Candidate {
        title: title.to_owned(),
        steps: steps.iter().map(step).collect(),
        expected_revision: None,
        goal_id: None,
        explanation: None,
    };
    let snapshot = Snapshot::check(&candidate).unwrap();
    Plan { id: PlanId::from_u128(1), revision: Revision(revision), goal_id: None, snapshot }
}

#[test]
fn p15_a_difference_names_what_was_added_changed_moved_and_is_gone() {
    use StepStatus::{Completed, InProgress, Pending};
    let old = plan(1, "T", &[("a", "A", InProgress), ("b", "B", Pending), ("c", "C", Pending)]);
    let new = plan(4, "U", &[("b", "B", InProgress), ("a", "A2", Completed), ("d", "D", Pending)]);
    insta::assert_compact_json_snapshot!(PlanDiff::between(&old, &new), @r#"
    {
      "from": [
        "00000000-0000-0000-0000-000000000001",
        1
      ],
      "to": [
        "00000000-0000-0000-0000-000000000001",
        4
      ],
      "title": "U",
      "steps": [
        {
          "change": "changed",
          "id": "b",
          "status": [
            "pending",
            "in_progress"
          ],
          "title": null
        },
        {
          "change": "changed",
          "id": "a",
          "status": [
            "in_progress",
            "completed"
          ],
          "title": [
            "A",
            "A2"
          ]
        },
        {
          "change": "added",
          "step": {
            "id": "d",
            "title": "D",
            "status": "pending"
          }
        },
        {
          "change": "removed",
          "step": {
            "id": "c",
            "title": "C",
            "status": "pending"
          }
        }
      ],
      "reordered": true
    }
    "#);
    let gone: Vec<_> = PlanDiff::between(&new, &old).steps;
    assert!(
        gone.iter().any(|change| matches!(change, StepChange::Removed { step } if step.id.as_str() == "d"))
    );
    assert!(PlanDiff::between(&old, &old).is_empty());
}

#[test]
fn p16_a_plan_is_complete_with_at_least_one_step_and_all_completed() {
    use StepStatus::{Completed, InProgress};
    assert_eq!(plan(1, "T", &[]).standing(), Standing::Unfinished);
    assert_eq!(
        plan(1, "T", &[("a", "A", Completed), ("b", "B", InProgress)]).standing(),
        Standing::Unfinished
    );
    assert_eq!(plan(1, "T", &[("a", "A", Completed)]).standing(), Standing::Complete);
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let odd = proptest::sample::select(vec![
        ' ',
        '\u{200b}',
        '\u{3164}',
        '\n',
        '\u{a0}',
        'a',
        'b',
        'é',
        '\u{1f680}',
    ]);
    let text = proptest::collection::vec(odd, 0..5).prop_map(String::from_iter);
    let status =
        proptest::sample::select(vec![StepStatus::Pending, StepStatus::InProgress, StepStatus::Completed]);
    let step = (text.clone(), text.clone(), status).prop_map(|(id, title, status)| CandidateStep {
        id,
        title,
        status,
    });
    (text, proptest::collection::vec(step, 0..5)).prop_map(|(title, steps)| Candidate {
        title,
        steps,
        expected_revision: None,
        goal_id: None,
        explanation: None,
    })
}

proptest! {
    #[test]
    fn p1_p2_p3_p4_p5_whatever_is_accepted_keeps_the_rules(candidate in any_candidate()) {
        let Ok(snapshot) = Snapshot::check(&candidate) else { return Ok(()) };
        let steps = snapshot.steps();
        let ids: std::collections::BTreeSet<_> = steps.iter().map(|step| step.id.as_str()).collect();
        let count = |status| steps.iter().filter(|step| step.status == status).count();
        prop_assert!(!is_blank(snapshot.title().as_str()));
        prop_assert!(steps.iter().all(|step| !is_blank(step.id.as_str()) && !is_blank(step.title.as_str())));
        prop_assert_eq!(ids.len(), steps.len());
        prop_assert!(count(StepStatus::InProgress) <= 1);
        prop_assert!(count(StepStatus::Pending) == 0 || count(StepStatus::InProgress) == 1);
        prop_assert_eq!(steps.len(), candidate.steps.len());
    }

    #[test]
    fn p13_what_was_accepted_is_accepted_again_as_it_is(candidate in any_candidate()) {
        let Ok(snapshot) = Snapshot::check(&candidate) else { return Ok(()) };
        let plan = Plan { id: PlanId::from_u128(1), revision: Revision(1), goal_id: None, snapshot };
        let text = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }

    #[test]
    fn p6_decoding_any_json_is_total(text in ".{0,40}") {
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = decode_candidate(&value, UnknownKeys::Ignore);
        }
    }
}
