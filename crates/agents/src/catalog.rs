//! The tools that act on the session itself: names, descriptions for the model, and what they require.
//!
//! Their schemas and their execution live in `runtime`; here is what a grant and a reader need.

use domain::{Capability, CapabilitySet};

/// A tool that reads or changes the work state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkTool {
    /// The name the model calls it by.
    pub name: &'static str,
    /// What it does and how to call it, for the model.
    pub description: &'static str,
    /// Every capability a call needs (C2).
    pub requires: CapabilitySet,
}

/// Every work-state tool.
pub const WORK_TOOLS: &[WorkTool] = &[
    WorkTool { name: "plan_get", description: PLAN_GET, requires: READ },
    WorkTool { name: "plan_update", description: PLAN_UPDATE, requires: PLAN },
    WorkTool { name: "plan_close", description: PLAN_CLOSE, requires: PLAN },
    WorkTool { name: "goal_get", description: GOAL_GET, requires: READ },
    WorkTool { name: "goal_update", description: GOAL_UPDATE, requires: GOAL },
    WorkTool { name: "goal_propose", description: GOAL_PROPOSE, requires: GOAL },
    WorkTool { name: "goal_wait", description: GOAL_WAIT, requires: GOAL },
    WorkTool { name: "task", description: TASK, requires: DELEGATE },
    WorkTool { name: "command_stop", description: COMMAND_STOP, requires: COMMAND },
    WorkTool { name: "ask_user", description: ASK_USER, requires: ASK },
];

const READ: CapabilitySet = CapabilitySet::of(&[Capability::ReadWorkState]);
const PLAN: CapabilitySet = CapabilitySet::of(&[Capability::UpdatePlan]);
const GOAL: CapabilitySet = CapabilitySet::of(&[Capability::UpdateGoal]);
const COMMAND: CapabilitySet = CapabilitySet::of(&[Capability::RunCommand]);
const DELEGATE: CapabilitySet = CapabilitySet::of(&[Capability::Delegate]);
const ASK: CapabilitySet = CapabilitySet::of(&[Capability::AskHuman]);

const PLAN_GET: &str = "\
Reads the current execution plan in full: revision, title, and every step with id, title and status. Rarely needed: \
the work-state section of every request shows the plan. Call it when that section says that texts were shortened.";

const PLAN_UPDATE: &str = "\
Replaces the execution plan: the checklist that shows the user how far multi-step work is. It only shows progress; it \
starts nothing and nothing waits for it. Never use it for a single simple action.

Send the full snapshot each time: the title and every step in order, 3–12 steps. A step has a short stable id such as \
\"verify\", a title, and a status: pending, in_progress or completed.
- First call: start the first step in_progress, and send no expected_revision.
- Later calls: send the plan's current revision, shown in the work-state section, as expected_revision. Keep every accepted id; titles and order may change and \
steps may be added, but none may be removed, and a completed step stays completed.
- While a step is pending, exactly one step is in_progress. When all steps are completed, none is.
- Once a plan is completed or closed, a call without expected_revision opens the next plan.
- goal_id links the plan to a Goal; a call without it removes the link.";

const PLAN_CLOSE: &str = "\
Closes an unfinished execution plan that no longer applies, and says why. Steps keep their statuses, so nothing is \
marked completed that is not. Send the plan's current revision as expected_revision. The next plan_update opens a new \
plan. A plan whose steps are all completed needs no closing.";

const GOAL_GET: &str = "\
Reads the Goal of this session in full: id, status, objective, criteria, budgets and what was spent. Rarely needed: \
the work-state section of every request shows the Goal. Call it when that section says that texts were shortened.";

const GOAL_UPDATE: &str = "\
Declares the active Goal completed or blocked.
- status \"completed\", optionally with a summary of the result: only when the objective and the criteria are met and you \
have verified that they are. Doing less than was asked, running out of ideas or a budget near its end is not \
completion. Work that still runs for the Goal has to end first. Afterwards you get one last answer, without tools, for \
your report.
- status \"blocked\" with a summary of what is in the way and what you tried: only when nothing is left to try. It takes \
three turns in a row that say so. If a person has to decide or do something, call ask_user instead; to wait for \
something, call goal_wait.";

const GOAL_PROPOSE: &str = "\
Proposes a Goal for work that takes many turns, revises a proposal of yours that is not accepted yet, or proposes a \
change of the objective or criteria of a Goal that is. Nothing starts and nothing changes until the user accepts it. \
Never use it for work that fits into this turn.";

const GOAL_WAIT: &str = "\
Lets the active Goal wait without spending turns: until a time has passed, a background command or a job has ended, a file has \
changed or an input has arrived, and in any case for at most so many seconds. Call it instead of polling, then end the \
turn with a short answer; the Goal goes on by itself when the wait is over.";

const TASK: &str = "\
Delegates one piece of work to another agent, which works in a lane of its own: it knows nothing of this conversation \
and answers with a single report.
- agent \"explorer\" answers a question about the workspace by reading and searching; \"deep\" takes on a difficult problem \
and may change files and run commands.
- Say everything it has to know: the objective, what to deliver, how to go about it, by what evidence the work counts as \
done, and optionally the scope it must stay within.
- The call returns the report. With background true it returns at once, several jobs work side by side, and each report \
comes to you in a later request; never give two of them the same files to change.
Do yourself what takes a few calls.";

const COMMAND_STOP: &str = "\
Stops a background command that shell started, by its number. Its end is reported to you like any other.";

const ASK_USER: &str = "\
Asks the user a question that only they can answer and that you cannot go on without: a decision, a fact that is \
nowhere in the workspace, or something they have to do. The turn ends; the answer comes with a later turn. Ask one \
clear question and offer options where there are some. Never ask for what you can find out, nor for leave to use a tool: \
that is asked for you.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_requires_what_it_does_and_nothing_more() {
        let line = |tool: &WorkTool| {
            let requires: Vec<_> = tool.requires.iter().map(Capability::name).collect();
            format!("{} {}\n", tool.name, requires.join(","))
        };
        let lines: String = WORK_TOOLS.iter().map(line).collect();
        insta::assert_snapshot!(lines, @r"
        plan_get read_work_state
        plan_update update_plan
        plan_close update_plan
        goal_get read_work_state
        goal_update update_goal
        goal_propose update_goal
        goal_wait update_goal
        task delegate
        command_stop run_command
        ask_user ask_human
        ");
    }

    #[test]
    fn what_the_model_reads_about_them() {
        let texts: Vec<_> =
            WORK_TOOLS.iter().map(|tool| format!("{}\n\n{}\n", tool.name, tool.description)).collect();
        insta::assert_snapshot!(texts.join("\n----\n\n"));
    }
}
