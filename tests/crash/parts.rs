//! The work of a Goal in many parts, and an agent that does what is not done of it.

use serde_json::{Value, json};
use tests::Reply;

use crate::agent::{self, Care, Standing, answer, answered, appends_once, call, calls, open};

/// The steps of the work, each a turn of its own: a file written and edited, a line appended by a command, a plan step.
pub(crate) fn names(parts: usize) -> impl Iterator<Item = String> {
    (1..=parts).map(|part| format!("part-{part:02}"))
}

/// The plan while this part is worked on; none is when all are done.
fn plan(parts: usize, active: Option<usize>) -> Value {
    let status = |part: usize| match active {
        Some(active) if part == active => "in_progress",
        Some(active) if part > active => "pending",
        _ => "completed",
    };
    let step = |(name, part): (String, usize)| json!({ "id": name, "title": format!("Do {name}"), "status": status(part) });
    let steps: Vec<_> = names(parts).zip(1..).map(step).collect();
    let expected = active.unwrap_or(parts + 1) - 1;
    json!({ "title": "All parts", "steps": steps, "expected_revision": expected })
}

/// Does the next thing that is not done, going by the history alone.
pub(crate) fn works(request: &Value, parts: usize, care: Care) -> Reply {
    let calls = calls(request);
    for (name, part) in names(parts).zip(1..) {
        let file = format!("{name}.md");
        let is_open = |tool| agent::standing(&calls, tool, &file) == Standing::Open;
        let draft = json!({ "path": file, "content": format!("{name}: draft\n") });
        let edit = json!({ "path": file, "old_string": "draft", "new_string": "final" });
        let is_planned = answered(&calls, "plan_update", &format!("\"active\":\"{name}\""));
        let begun = [
            (!is_planned, call("plan_update", &plan(parts, Some(part)))),
            (is_open("write_file"), call("write_file", &draft)),
        ];
        let edited = is_open("edit_file").then(|| answer(vec![call("edit_file", &edit)]));
        let said = format!("{name} is done.");
        let next = open(begun).or(edited).or_else(|| appends_once(&calls, &name, care));
        let ends = !was_said(request, &said) && !begins_a_turn(request);
        let next = next.or_else(|| ends.then(|| Reply::text(&said)));
        if let Some(next) = next {
            return next;
        }
    }
    let is_over = |text: &str| answered(&calls, "plan_update", text);
    let completed = json!({ "status": "completed" });
    let last = [
        (!is_over("\"active\":null"), call("plan_update", &plan(parts, None))),
        (!answered(&calls, "goal_update", "\"status\":\"completed\""), call("goal_update", &completed)),
    ];
    open(last).unwrap_or_else(|| Reply::text("All parts are done."))
}

fn was_said(request: &Value, text: &str) -> bool {
    let mut messages = request["messages"].as_array().unwrap().iter();
    messages.any(|message| message["role"] == "assistant" && message["content"] == text)
}

/// Whether this is the first request of a turn. A turn that only told what the one before it did would be one without
/// progress, and after three of them in a row the Goal would be paused (G7).
fn begins_a_turn(request: &Value) -> bool {
    // The last message is the work state; before it stands what the model goes on from.
    let messages = request["messages"].as_array().unwrap();
    messages.iter().nth_back(1).is_some_and(|message| message["role"] == "user")
}
