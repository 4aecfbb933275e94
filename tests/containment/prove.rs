//! The figures for `docs/reference/containment.md`, and whether that page is of these data files.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CallOutcome, Mode};
use tests::Proof;

use crate::cases::{self, Command, Control, WALLS};
use crate::commands::{self, Run};
use crate::{files, forged};

/// What no wall holds, and what the page therefore says.
const CONVENTIONS: &str = "What is only convention, and no wall:\n\n\
    - Another agent's shell, a terminal or an editor beside Zuno has no walls of Zuno's. `ZUNO_ACTOR=agent` asks programs \
    to behave, and a program that drops it is not noticed.\n\
    - A command can make a `.git`, a `.zuno`, or in a repository a `.git/hooks`, `.git/config.worktree` or \
    `.git/commondir` that did not exist before: only what exists can be mounted read-only. The answer of such a command \
    says so, and later commands cannot change it.\n\
    - A file of the workspace with a second name outside (a hard link that somebody made before) is one file. The file \
    tools replace it and leave the other name alone; a command that writes into it writes into both.\n\
    - What a command writes in the workspace runs when the user runs it: a build script, a test, a `Makefile`.\n\
    - Reading is free outside of what Zuno hides (its store, configuration and data, and `hide` in `[sandbox]`).\n\
    - `needs: [\"network\"]`, which a person allows, gives the machine's network with its loopback; `--sandbox off` gives \
    everything.";

/// Of one kind of command.
#[derive(Default)]
struct Row {
    cases: usize,
    absent: usize,
    walls: BTreeSet<String>,
    held: usize,
    played: usize,
    left: usize,
    control: usize,
}

fn rows(full: &Run, off: &Run) -> BTreeMap<String, Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for case in full.played.iter().map(|(case, _)| case).chain(&full.absent) {
        let row = rows.entry(case.kind.clone()).or_default();
        row.cases += 1;
        row.walls.insert(case.wall.clone());
    }
    for case in &full.absent {
        rows.entry(case.kind.clone()).or_default().absent += 1;
    }
    for (case, played) in &full.played {
        let row = rows.entry(case.kind.clone()).or_default();
        row.played += 1;
        row.held += usize::from(played.leaks.is_empty());
    }
    for (case, played) in &off.played {
        let row = rows.entry(case.kind.clone()).or_default();
        row.control += 1;
        row.left += usize::from(!played.leaks.is_empty());
    }
    rows
}

fn features(walls: &BTreeSet<String>) -> String {
    let features: BTreeSet<_> = WALLS
        .iter()
        .filter(|(name, ..)| walls.contains(*name))
        .flat_map(|(_, _, feature)| feature.split(", "))
        .collect();
    features.into_iter().collect::<Vec<_>>().join(", ")
}

fn joined(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn with_commands(proof: Proof, full: &Run, plan: &Run, off: &Run) -> Proof {
    let count = full.played.len() + full.absent.len();
    let held = full.played.len() - full.leaked().count();
    let denied = plan.played.len() - plan.leaked().count();
    let left = off.leaked().count();
    let never = cases::commands().iter().filter(|case| case.control == Control::Never).count();
    proof
        .paragraph(format!(
            "**{held} of {} shell commands held in Work mode**, each run by the real program for a model that asked for it, \
             with a folder tree, sockets, a process, the store and the configuration outside compared before and after: \
             bytes, modes, owners, links, times, arrivals, memory, signals. Of {count} cases in all, the programs of {} are \
             not installed on the machine that wrote this page.",
            full.played.len(),
            full.absent.len()
        ))
        .paragraph(format!(
            "**{denied} of {} were refused in Plan mode** before anything was started, by the same program.",
            plan.played.len()
        ))
        .paragraph(format!(
            "Control without walls (`--sandbox off`): {left} of {} left the workspace. {never} were not tried there, since \
             they would harm the machine; the others meet a wall of another kind, such as a missing network of the package \
             manager.",
            off.played.len()
        ))
        .table(
            "Commands",
            ["kind", "cases", "not installed", "wall", "kernel feature", "held", "left without walls"],
            rows(full, off).into_iter().map(|(kind, row)| {
                [
                    kind,
                    row.cases.to_string(),
                    row.absent.to_string(),
                    joined(&row.walls),
                    features(&row.walls),
                    format!("{} of {}", row.held, row.played),
                    format!("{} of {}", row.left, row.control),
                ]
            }),
        )
        .table(
            "Walls",
            ["wall", "what it is", "kernel feature", "cases"],
            WALLS.iter().map(|(name, what, feature)| {
                let stops = |case: &&Command| case.wall == *name;
                let cases = cases::commands().iter().filter(stops).count().to_string();
                [(*name).to_owned(), (*what).to_owned(), (*feature).to_owned(), cases]
            }),
        )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "plays everything three times; `cargo xtask containment` runs it"]
async fn prove_containment() {
    let without_harm = |case: &Command| case.control != Control::Never;
    let (full, plan, off) = tokio::join!(
        commands::run(Mode::Work, "full", |_| true),
        commands::run(Mode::Plan, "full", |_| true),
        commands::run(Mode::Work, "off", without_harm),
    );
    let proof = with_commands(Proof::new("containment"), &full, &plan, &off);

    let (answered, changed) = forged::play(false).await;
    let refused = |outcome| answered.iter().filter(|answered| answered.outcome == outcome).count();
    let (denied, would_write) = forged::without_the_grant().await;
    let (paths, wrong) = files::play().await;
    let tools = cases::count(cases::files().into_iter().map(|case| case.tool));
    proof
        .paragraph(format!(
            "**{} forged calls in Plan mode changed {} files**: {} were denied by what Plan mode allows, {} named tools or \
             arguments that do not exist, the others only look or write plans and proposals. It is the same with an empty \
             system prompt. Control with an engine that admits everything: of the {denied} denied calls {} wrote.",
            answered.len(),
            changed.len(),
            refused(CallOutcome::Denied),
            refused(CallOutcome::Invalid),
            would_write.len()
        ))
        .paragraph(format!(
            "**{} of {paths} calls of file tools stayed beneath the root** and said so: `..`, absolute paths, links of every \
             kind, also one that changes places with a folder while calls run, hard links, `/proc/self`, odd names, devices, \
             pipes, huge and binary files.",
            paths - wrong.len()
        ))
        .table(
            "Calls of file tools",
            ["tool", "cases"],
            tools.into_iter().map(|(tool, count)| [tool, count.to_string()]),
        )
        .paragraph(CONVENTIONS)
        .write();
    assert!(full.leaked().chain(plan.leaked()).next().is_none() && wrong.is_empty() && changed.is_empty());
}

#[test]
fn the_page_is_of_these_cases() {
    let page = cases::folder().join("../../docs/reference/containment.md");
    let page = std::fs::read_to_string(page).unwrap();
    let kinds = cases::count(cases::commands().into_iter().map(|case| case.kind));
    let tools = cases::count(cases::files().into_iter().map(|case| case.tool));
    for (name, count) in kinds.into_iter().chain(tools) {
        let row = format!("| {name} | {count} |");
        assert!(page.contains(&row), "the page has no row `{row}`: run `cargo xtask containment`");
    }
    let forged = cases::forged().len();
    assert!(page.contains(&format!("**{forged} forged calls")), "run `cargo xtask containment`");
}
