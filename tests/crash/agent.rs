//! A model with the sense of a good agent: it goes by what its history says about each call, and looks before it
//! repeats what nobody can tell.

use serde_json::{Value, json};
use tests::Reply;

/// The file that one call writes and another edits.
pub(crate) const NOTES: &str = "notes.md";
/// The file to which the command appends; a second line is a repetition.
pub(crate) const EFFECTS: &str = "effects.txt";
/// The line it appends.
pub(crate) const EFFECT: &str = "happened\n";

/// What an agent does about a call of which nobody can tell whether it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// It looks before it repeats it.
    Looks,
    /// It repeats it: a control.
    Repeats,
    /// It takes it for done: another one.
    Trusts,
}

/// A call with its result, as the history tells it.
#[derive(Debug)]
pub(crate) struct Done {
    tool: String,
    arguments: String,
    result: String,
}

/// What a result says about its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It did what was asked.
    Done,
    /// It did nothing, or nothing that lasts.
    Open,
    /// Nobody can tell.
    Uncertain,
}

impl Done {
    fn standing(&self) -> Standing {
        let is_lost = self.result.starts_with("cut off by a crash; inspect");
        if is_lost && self.tool == "shell" {
            Standing::Uncertain
        } else if self.result.starts_with("not run") || is_lost {
            Standing::Open
        } else if self.result.contains("it cannot be told") {
            Standing::Uncertain
        } else {
            Standing::Done
        }
    }
}

/// The calls of a request's history that have a result, in order.
pub(crate) fn calls(request: &Value) -> Vec<Done> {
    let messages = request["messages"].as_array().unwrap();
    let asked = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let asked: Vec<_> = asked.collect();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let done = results.map(|message| {
        let call = asked.iter().find(|call| call["id"] == message["tool_call_id"]).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Done {
            tool: text(&call["function"]["name"]),
            arguments: text(&call["function"]["arguments"]),
            result: text(&message["content"]),
        }
    });
    done.collect()
}

/// What the last call of this tool whose arguments name this came to.
pub(crate) fn standing(calls: &[Done], tool: &str, about: &str) -> Standing {
    let mut latest = calls.iter().rev();
    let found = latest.find(|call| call.tool == tool && call.arguments.contains(about));
    found.map_or(Standing::Open, Done::standing)
}

pub(crate) fn answer(calls: Vec<(String, String)>) -> Reply {
    Reply::Answer { text: String::new(), calls, usage: (100, 10) }
}

pub(crate) fn call(tool: &str, arguments: &Value) -> (String, String) {
    (tool.to_owned(), arguments.to_string())
}

/// Works on the Goal: plan, write, edit and read, run a command, complete plan and Goal, report. Each step once, however
/// often the turn is cut off.
pub(crate) fn works_on_the_goal(request: &Value) -> Reply {
    let calls = calls(request);
    let first = [
        (!answered(&calls, "plan_update", "\"revision\":1"), call("plan_update", &plan(None))),
        (is_open(&calls, "write_file"), call("write_file", &json!({ "path": NOTES, "content": "one\n" }))),
    ];
    let edit = json!({ "path": NOTES, "old_string": "one", "new_string": "two" });
    let second = [
        (is_open(&calls, "edit_file"), call("edit_file", &edit)),
        (
            standing(&calls, "read_file", NOTES) == Standing::Open,
            call("read_file", &json!({ "path": NOTES })),
        ),
    ];
    let completed = json!({ "status": "completed" });
    let last = [
        (!answered(&calls, "plan_update", "\"revision\":2"), call("plan_update", &plan(Some(1)))),
        (!answered(&calls, "goal_update", "\"status\":\"completed\""), call("goal_update", &completed)),
    ];
    open(first)
        .or_else(|| open(second))
        .or_else(|| appends_once(&calls, EFFECT.trim_end(), Care::Looks))
        .or_else(|| open(last))
        .unwrap_or_else(|| Reply::text("All done."))
}

/// Runs the command once and reports.
pub(crate) fn runs_the_command(request: &Value) -> Reply {
    appends_once(&calls(request), EFFECT.trim_end(), Care::Looks)
        .unwrap_or_else(|| Reply::text("The line is there."))
}

fn is_open(calls: &[Done], tool: &str) -> bool {
    standing(calls, tool, "") == Standing::Open
}

pub(crate) fn answered(calls: &[Done], tool: &str, text: &str) -> bool {
    calls.iter().any(|call| call.tool == tool && call.result.contains(text))
}

/// A response with those of the calls that are still open; `None` if none is.
pub(crate) fn open(calls: [(bool, (String, String)); 2]) -> Option<Reply> {
    let open: Vec<_> = calls.into_iter().filter(|(is_open, _)| *is_open).map(|(_, call)| call).collect();
    (!open.is_empty()).then(|| answer(open))
}

/// The next call towards exactly one such line; `None` once it is there.
pub(crate) fn appends_once(calls: &[Done], line: &str, care: Care) -> Option<Reply> {
    let command = format!("echo {line} >> {EFFECTS}");
    let append = || Some(answer(vec![call("shell", &json!({ "command": command }))]));
    match (standing(calls, "shell", &command), care) {
        (Standing::Done, _) | (Standing::Uncertain, Care::Trusts) => None,
        (Standing::Open, _) | (Standing::Uncertain, Care::Repeats) => append(),
        (Standing::Uncertain, Care::Looks) => {
            let is_it = |call: &Done| call.tool == "shell" && call.arguments.contains(&command);
            let ran = calls.iter().rposition(is_it).unwrap();
            let is_look = |call: &&Done| call.tool == "read_file" && call.arguments.contains(EFFECTS);
            let looked = calls[ran..].iter().filter(is_look).rfind(|call| call.standing() == Standing::Done);
            match looked {
                None => Some(answer(vec![call_read(EFFECTS)])),
                Some(look) if look.result.contains(line) => None,
                Some(_) => append(),
            }
        }
    }
}

fn call_read(path: &str) -> (String, String) {
    call("read_file", &json!({ "path": path }))
}

fn plan(revises: Option<u64>) -> Value {
    let statuses = if revises.is_none() { ["in_progress", "pending"] } else { ["completed", "completed"] };
    let mut plan = json!({
        "title": "Write and check",
        "steps": [
            { "id": "write", "title": "Write the notes", "status": statuses[0] },
            { "id": "check", "title": "Check them", "status": statuses[1] },
        ],
    });
    if let Some(revision) = revises {
        plan["expected_revision"] = json!(revision);
    }
    plan
}
