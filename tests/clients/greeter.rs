//! A model that repairs the greeting program. It goes by what its tools really answered, as a good agent does.

use serde_json::{Value, json};
use tests::Reply;

/// A call of the history with what it came to.
struct Done {
    tool: String,
    result: String,
}

/// Does the whole job in one turn.
pub(crate) fn in_one_turn(request: &Value) -> Reply {
    Job::of(request).next(false)
}

/// Does it in three turns and then declares the Goal reached.
pub(crate) fn in_three_turns(request: &Value) -> Reply {
    Job::of(request).next(true)
}

/// The messages of a request without the work-state section.
pub(crate) fn transcript(request: &Value) -> &[Value] {
    let messages = request["messages"].as_array().unwrap();
    match messages.split_last() {
        Some((last, before)) if is_work_state(last) => before,
        _ => messages,
    }
}

/// Whether a message is the work-state section.
pub(crate) fn is_work_state(message: &Value) -> bool {
    message["role"] == "user"
        && message["content"].as_str().is_some_and(|text| text.starts_with("<work_state>"))
}

struct Job {
    done: Vec<Done>,
    /// Whether a person or a continuation spoke last: a turn begins.
    begins_turn: bool,
}

impl Job {
    fn of(request: &Value) -> Self {
        let messages = transcript(request);
        let asked: Vec<_> =
            messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten().collect();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        let done = results.map(|message| {
            let call = asked.iter().find(|call| call["id"] == message["tool_call_id"]).unwrap();
            Done {
                tool: call["function"]["name"].as_str().unwrap().to_owned(),
                result: message["content"].as_str().unwrap().to_owned(),
            }
        });
        Self { done: done.collect(), begins_turn: messages.last().unwrap()["role"] == "user" }
    }

    /// What a tool answered last.
    fn result(&self, tool: &str) -> Option<&str> {
        self.done.iter().rev().find(|done| done.tool == tool).map(|done| done.result.as_str())
    }

    /// How many updates of the plan were accepted: its revision.
    fn revision(&self) -> u64 {
        let accepted = |done: &&Done| done.tool == "plan_update" && done.result.contains("\"revision\"");
        self.done.iter().filter(accepted).count() as u64
    }

    fn next(&self, in_turns: bool) -> Reply {
        // Where the job comes in turns, a turn ends before each of these two.
        let rests = in_turns && !self.begins_turn;
        let Some(program) = self.result("read_file") else {
            return calls(
                "First a look at what there is.",
                vec![plan(0, "inspect"), call("read_file", &json!({ "path": "greet.sh" }))],
            );
        };
        let Some(tested) = self.result("shell") else { return calls("", vec![test()]) };
        if self.result("edit_file").is_none() {
            if rests {
                return Reply::text("The greeting is wrong; the repair comes next.");
            }
            return calls("", vec![plan(self.revision(), "implement"), repair(program, tested)]);
        }
        if self.revision() < 3 {
            return calls("", vec![plan(self.revision(), "verify")]);
        }
        if !tested.starts_with("exit code 0") {
            if rests {
                return Reply::text("Repaired, not verified.");
            }
            return calls("", vec![test()]);
        }
        if self.revision() < 4 {
            let mut last = vec![plan(self.revision(), "nothing")];
            if in_turns {
                last.push(call("goal_update", &json!({ "status": "completed", "summary": "It greets." })));
            }
            return calls("", last);
        }
        Reply::text("It says hello to Ada as its test wants it.")
    }
}

fn calls(text: &str, calls: Vec<(String, String)>) -> Reply {
    Reply::Answer { text: text.to_owned(), calls, usage: (1_000, 50) }
}

fn call(tool: &str, arguments: &Value) -> (String, String) {
    (tool.to_owned(), arguments.to_string())
}

fn test() -> (String, String) {
    call("shell", &json!({ "command": "sh test.sh" }))
}

/// The plan in which this step is active: what stands before it is completed.
fn plan(revision: u64, active: &str) -> (String, String) {
    let steps = [("inspect", "Find the fault"), ("implement", "Repair it"), ("verify", "Run the test")];
    let at = steps.iter().position(|(id, _)| *id == active).unwrap_or(steps.len());
    let status = |step: usize| match step.cmp(&at) {
        std::cmp::Ordering::Less => "completed",
        std::cmp::Ordering::Equal => "in_progress",
        std::cmp::Ordering::Greater => "pending",
    };
    let steps = steps.iter().enumerate();
    let steps: Vec<_> = steps
        .map(|(number, (id, title))| json!({ "id": id, "title": title, "status": status(number) }))
        .collect();
    let mut plan = json!({ "title": "Greet as the test expects", "steps": steps });
    if revision > 0 {
        plan["expected_revision"] = json!(revision);
    }
    call("plan_update", &plan)
}

/// The edit that follows from the two outputs: which line to replace, and by what.
fn repair(program: &str, tested: &str) -> (String, String) {
    let line = program.lines().find(|line| line.contains("echo")).unwrap();
    let (_, old) = line.split_once('\t').unwrap();
    let wanted = tested.lines().find_map(|line| line.strip_prefix("expected: ")).unwrap();
    let new = format!("echo \"{}\"", wanted.replace("Ada", "$1"));
    call("edit_file", &json!({ "path": "greet.sh", "old_string": old, "new_string": new }))
}
