//! Tests of the prompts: what they say, and what they must not ask for.

use super::*;
use crate::catalog::WORK_TOOLS;
use crate::role::{role, roles};

/// Without texts of people.
fn bare(role: &Role, mode: Mode, workspace: &str) -> String {
    let situation = Situation { mode, is_job: false, workspace, loads_skills: true };
    system_prompt(role, situation, &Instructions::default())
}

fn prompt_of(agent: &str) -> String {
    let mode = if agent == policy::PLAN_AGENT { Mode::Plan } else { Mode::Work };
    bare(role(&agent.parse().unwrap()).unwrap(), mode, "/home/ada/project")
}

/// The chapters of a prompt that are headed so.
fn chapters<'a>(prompt: &'a str, heading: &str) -> Vec<&'a str> {
    let starts = prompt.match_indices(heading).map(|(at, _)| &prompt[at..]);
    starts.map(|rest| rest.find("\n# ").map_or(rest, |end| &rest[..end])).collect()
}

/// The paragraphs and list items of a text, each on one line and in lower case.
fn items(text: &str) -> Vec<String> {
    let items = text.split("\n\n").flat_map(|paragraph| paragraph.split("\n- "));
    items.map(|item| item.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()).collect()
}

#[test]
fn the_whole_prompts_are_reviewed() {
    for role in roles() {
        insta::assert_snapshot!(format!("prompt_{}", role.name), prompt_of(role.name));
    }
    let situation =
        Situation { mode: Mode::Work, is_job: true, workspace: "/home/ada/project", loads_skills: true };
    let deep = role(&"deep".parse().unwrap()).unwrap();
    insta::assert_snapshot!("prompt_deep_in_a_job", system_prompt(deep, situation, &Instructions::default()));
    insta::assert_snapshot!(continuation_line(3, None));
}

#[test]
fn a1_orchestrator_build_and_deep_carry_one_identical_execution_plan_text() {
    for agent in ["orchestrator", "build", "deep"] {
        let prompt = prompt_of(agent);
        let found = chapters(&prompt, "# Execution plan\n");
        assert_eq!(found.len(), 1, "{agent}");
        assert_eq!(found[0].trim_end(), EXECUTION_PLAN.trim_end(), "{agent}");
        // What one role alone says does not speak of plans, so nothing beside the policy can contradict it.
        let own = role(&agent.parse().unwrap()).unwrap().text;
        assert!(!own.to_lowercase().contains("plan"), "{agent}");
    }
    for shared in [BASE, DELIVERY] {
        assert!(!shared.to_lowercase().contains("plan"));
    }
}

#[test]
fn a2_no_prompt_asks_for_a_plan_for_simple_work() {
    let explorer = prompt_of("explorer");
    assert!(!explorer.contains("plan"), "who cannot make one hears of none");
    for role in roles().iter().filter(|role| role.name != "explorer") {
        let items = items(&prompt_of(role.name));
        let asks = |item: &&String| {
            ["a plan", "a concise plan", "its outline"].iter().any(|plan| item.contains(plan))
        };
        let asking: Vec<_> = items.iter().filter(asks).collect();
        assert!(!asking.is_empty(), "{}: the check finds nothing to look at", role.name);
        for item in asking {
            assert!(item.contains("several dependent steps"), "{}: {item}", role.name);
        }
        let excuses = ["a request that is one clear action needs no plan", "neither needs a recorded plan"];
        assert!(items.iter().any(|item| excuses.iter().any(|excuse| item.contains(excuse))), "{}", role.name);
    }
    assert!(!continuation_line(1, None).contains("plan"));
    let update = WORK_TOOLS.iter().find(|tool| tool.name == "plan_update").unwrap();
    assert!(update.description.contains("Never use it for a single simple action."));
}

#[test]
fn only_plan_mode_speaks_of_plan_mode() {
    for role in roles() {
        assert!(!bare(role, Mode::Work, "/w").contains("# Plan mode"));
        assert_eq!(chapters(&bare(role, Mode::Plan, "/w"), "# Plan mode\n").len(), 1);
    }
}

#[test]
fn the_name_of_the_workspace_adds_no_line() {
    let plain = bare(&roles()[0], Mode::Work, "/w/ x");
    let odd = bare(&roles()[0], Mode::Work, "/w/\nx");
    assert_eq!(odd.lines().count(), plain.lines().count());
    assert!(odd.contains("`/w/\u{fffd}x`"));
}

#[test]
fn g14_a_continuation_line_holds_a_number_and_no_objective() {
    let (first, second) = (continuation_line(1, None), continuation_line(27, None));
    assert_eq!(first.replace('1', "27"), second);
}

#[test]
fn g10_a_continuation_says_which_wait_is_over_and_how() {
    let after = |condition, is_met| {
        let line = continuation_line(3, Some(&WaitOver { condition, is_met }));
        line.split(" Continuation 3").next().unwrap_or_default().to_owned()
    };
    let command = Condition::Command { command: domain::CommandId(2) };
    let told = [
        after(Condition::Time, false),
        after(command.clone(), true),
        after(command, false),
        after(Condition::Inbox, true),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    The time you waited for has come.
    You waited for the end of background command 2, and it is there.
    You waited for the end of background command 2; the deadline passed without it.
    You waited for an input, and it is there.
    ");
}
