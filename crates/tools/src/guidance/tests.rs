//! Which texts are found, in which order, and which are refused.

use std::os::unix::fs::symlink;

use runtime::ToolOutput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fixture::Fixture;

/// The neighbour of the workspace is the user's configuration folder.
fn read(fixture: &Fixture, here: &str) -> Guidance {
    Guidance::read(&fixture.workspace, &fixture.path(here), Some(&fixture.outside()), &Sight::default())
}

fn skill(fixture: &Fixture, folder: &str, head: &str, body: &str) {
    fixture.write(&format!("{folder}/SKILL.md"), format!("---\n{head}\n---\n\n{body}"));
}

fn told(fixture: &Fixture, guidance: &Guidance) -> String {
    let user = fixture.outside().display().to_string();
    let skills = guidance.skills.summaries();
    let lines = guidance
        .places()
        .map(|place| format!("file {place}"))
        .chain(skills.iter().map(|skill| format!("skill {}: {}", skill.name, skill.description)))
        .chain(guidance.remarks().iter().map(|remark| format!("remark {remark}")))
        .chain(guidance.problems().map(|problem| format!("problem {problem}")));
    lines.collect::<Vec<_>>().join("\n").replace(&user, "~")
}

async fn load(guidance: &Guidance, arguments: Value) -> String {
    match guidance.tool().unwrap().prepare(arguments).await {
        Ok(call) => {
            let ToolOutput { text, succeeded, .. } = call.run(CancellationToken::new()).await;
            format!("{succeeded}: {text}")
        }
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn instructions_are_those_from_the_folder_worked_in_up_to_the_root_and_the_users_own() {
    let fixture = Fixture::new();
    for place in ["a/b/AGENTS.md", "AGENTS.md", "other/AGENTS.md", "../outside/AGENTS.md", "../AGENTS.md"] {
        fixture.write(place, format!("of {place}"));
    }
    fixture.write("a/AGENTS.md", " \n");
    std::fs::create_dir_all(fixture.path("a/b/c")).unwrap();
    let each =
        ["a/b/c", ".", "missing", "../outside", ".."].map(|here| told(&fixture, &read(&fixture, here)));
    insta::assert_snapshot!(each.join("\n---\n"), @r"
    file a/b/AGENTS.md
    file AGENTS.md
    file ~/AGENTS.md
    ---
    file AGENTS.md
    file ~/AGENTS.md
    ---
    file AGENTS.md
    file ~/AGENTS.md
    ---
    file AGENTS.md
    file ~/AGENTS.md
    ---
    file AGENTS.md
    file ~/AGENTS.md
    ");
}

#[test]
fn instructions_that_lead_out_or_have_no_end_are_refused_and_a_link_within_brings_no_second_copy() {
    let fixture = Fixture::new();
    std::fs::write(fixture.outside().join("secret"), "secret").unwrap();
    for folder in ["a", "a/b", "a/b/c", "a/b/c/d"] {
        std::fs::create_dir(fixture.path(folder)).unwrap();
    }
    fixture.write("AGENTS.md", "root");
    symlink("../AGENTS.md", fixture.path("a/AGENTS.md")).unwrap();
    symlink(fixture.outside().join("secret"), fixture.path("a/b/AGENTS.md")).unwrap();
    symlink("missing", fixture.path("a/b/c/AGENTS.md")).unwrap();
    std::fs::create_dir(fixture.path("a/b/c/d/AGENTS.md")).unwrap();
    let guidance = read(&fixture, "a/b/c/d");
    insta::assert_snapshot!(told(&fixture, &guidance), @r"
    file a/AGENTS.md
    problem a/b/c/d/AGENTS.md is a directory; list_dir shows what it holds
    problem a/b/AGENTS.md leads outside the workspace through a symbolic link, which is refused
    ");
    assert!(guidance.files.iter().all(|file| file.text == "root"));
}

#[test]
fn no_more_of_a_file_is_read_than_can_be_shown() {
    let fixture = Fixture::new();
    fixture.write("AGENTS.md", "ä".repeat(PROJECT_INSTRUCTION_BYTES));
    let guidance = read(&fixture, ".");
    let [file] = &guidance.files[..] else { panic!("{guidance:?}") };
    assert!(file.text.len() <= PROJECT_INSTRUCTION_BYTES + 4, "{}", file.text.len());
    assert_eq!(file.text.len() as u64 + file.rest_bytes, 2 * PROJECT_INSTRUCTION_BYTES as u64);
}

#[test]
fn skills_are_the_users_own_then_the_projects_and_bad_ones_are_told() {
    let fixture = Fixture::new();
    let good = |name: &str| format!("name: {name}\ndescription: Of {name}.");
    skill(&fixture, "../outside/skills/release", &good("release"), "the user's");
    skill(&fixture, ".zuno/skills/release", &good("release"), "the project's");
    skill(
        &fixture,
        ".agents/skills/folded",
        "name: folded\ndescription: >-\n  Two\n  lines: one.\nlicense: MIT\nmetadata:\n  a: 1",
        "",
    );
    skill(&fixture, ".agents/skills/none", "name: none", "");
    skill(&fixture, ".agents/skills/blank", "name: blank\ndescription: ' '", "");
    skill(&fixture, ".agents/skills/long", &format!("name: long\ndescription: {}", "x".repeat(1025)), "");
    skill(&fixture, ".agents/skills/other", &good("another"), "");
    skill(&fixture, ".agents/skills/Upper", &good("Upper"), "");
    skill(&fixture, ".agents/skills/broken", "name: [", "");
    skill(&fixture, ".agents/skills/bomb", "a: &a [x,x]\nb: &b [*a,*a]\nname: bomb\ndescription: y", "");
    fixture.write(".agents/skills/headless/SKILL.md", "# No head");
    fixture.write(".agents/skills/README.md", "no skill");
    std::fs::create_dir(fixture.path(".agents/skills/empty")).unwrap();
    skill(&fixture, "../outside/elsewhere", &good("elsewhere"), "secret");
    symlink(fixture.outside().join("elsewhere"), fixture.path(".agents/skills/elsewhere")).unwrap();
    std::fs::create_dir(fixture.path(".agents/skills/inner")).unwrap();
    symlink(fixture.outside().join("elsewhere/SKILL.md"), fixture.path(".agents/skills/inner/SKILL.md"))
        .unwrap();
    insta::assert_snapshot!(told(&fixture, &read(&fixture, ".")), @r"
    skill bomb: y
    skill folded: Two lines: one.
    skill release: Of release.
    remark the skill .zuno/skills/release is not used: ~/skills/release comes before it
    problem .agents/skills/Upper: a skill's name has lower-case letters, digits and `-` within, 64 at most; rename the folder
    problem .agents/skills/blank: the `description` of SKILL.md is blank
    problem .agents/skills/broken: the head of SKILL.md cannot be read: error: line 1 column 7: expected string scalar
    problem .agents/skills/elsewhere: .agents/skills/elsewhere leads outside the workspace through a symbolic link, which is refused
    problem .agents/skills/empty: SKILL.md does not exist; list_dir and glob show what does
    problem .agents/skills/headless: SKILL.md does not begin with `---`, `name`, `description` and `---` on lines of their own
    problem .agents/skills/inner: SKILL.md leads outside the workspace through a symbolic link, which is refused
    problem .agents/skills/long: the `description` of SKILL.md has more than 1024 characters
    problem .agents/skills/none: the head of SKILL.md cannot be read: error: line 1 column 1: missing field `description`
    problem .agents/skills/other: SKILL.md is called `another`; name it as its folder
    ");
}

#[tokio::test]
async fn c7_load_skill_reads_one_text_beneath_its_folder_and_runs_nothing() {
    let fixture = Fixture::new();
    let head = "name: deploy\ndescription: How to deploy.\nallowed-tools: shell write_file\nmode: work";
    skill(&fixture, ".zuno/skills/deploy", head, "!`touch made`\n\n$(touch made)\nRun ./go.sh.");
    fixture.write(".zuno/skills/deploy/references/api.md", "the api");
    fixture.write(".zuno/skills/deploy/go.sh", "#!/bin/sh\ntouch made\n");
    fixture.write("secret", "secret");
    symlink("../../../secret", fixture.path(".zuno/skills/deploy/link")).unwrap();
    fixture.write(".zuno/skills/deploy/big", "x".repeat(40 * 1024));
    skill(&fixture, "../outside/skills/own", "name: own\ndescription: x", "mine");
    let guidance = read(&fixture, ".");
    let call = guidance.tool().unwrap().prepare(json!({ "name": "deploy" })).await.unwrap();
    assert_eq!(
        (call.effect(), call.subject().paths),
        (domain::Effect::Read, vec![".zuno/skills/deploy/SKILL.md".to_owned()])
    );
    let call = guidance.tool().unwrap().prepare(json!({ "name": "own" })).await.unwrap();
    assert!(call.subject().paths.is_empty());
    let mut answers = Vec::new();
    for arguments in [
        json!({ "name": "deploy" }),
        json!({ "skill": "own", "mode": "work" }),
        json!({ "name": "deploy", "file": "references/api.md" }),
        json!({ "name": "deploy", "file": "go.sh" }),
        json!({ "name": "deploy", "file": "link" }),
        json!({ "name": "deploy", "file": "../../../secret" }),
        json!({ "name": "deploy", "file": "/etc/passwd" }),
        json!({ "name": "deploy", "file": "references" }),
        json!({ "name": "../deploy" }),
        json!({}),
    ] {
        answers.push(load(&guidance, arguments).await);
    }
    let answers = answers.join("\n---\n").replace(&fixture.outside().display().to_string(), "~");
    insta::assert_snapshot!(answers, @r#"
    true: [skill `deploy`, SKILL.md of .zuno/skills/deploy]
    !`touch made`

    $(touch made)
    Run ./go.sh.
    ---
    true: [skill `own`, SKILL.md of ~/skills/own]
    mine
    [ignored unknown arguments: mode]
    ---
    true: [skill `deploy`, references/api.md of .zuno/skills/deploy]
    the api
    ---
    true: [skill `deploy`, go.sh of .zuno/skills/deploy]
    #!/bin/sh
    touch made
    ---
    .zuno/skills/deploy/link leads out of the skill's folder through a symbolic link, which is refused
    ---
    `../../../secret` is no path within the skill's folder
    ---
    `/etc/passwd` is no path within the skill's folder
    ---
    false: .zuno/skills/deploy/references: is a directory
    ---
    there is no skill `../deploy`; there are: deploy, own
    ---
    invalid arguments: `name` is missing: no arguments were sent. load_skill expects {"name": string, "file"?: string}; ? marks optional keys
    "#);
    let big = load(&guidance, json!({ "name": "deploy", "file": "big" })).await;
    assert!(
        big.len() < 32 * 1024 && big.ends_with("[cut: these are the first 30720 of 40960 bytes of the file]")
    );
    assert!(!fixture.path("made").exists());
}

#[test]
fn c7_what_the_rules_keep_from_reading_is_neither_an_instruction_nor_a_skill() {
    use agents::{PermissionRule, PermissionRules, RuleEntry, Verdict};
    let fixture = Fixture::new();
    fixture.write("private/notes", "secret");
    symlink("private/notes", fixture.path("AGENTS.md")).unwrap();
    skill(&fixture, "private/skill", "name: skill\ndescription: secret", "");
    std::fs::create_dir_all(fixture.path(".agents/skills")).unwrap();
    symlink("../../private/skill", fixture.path(".agents/skills/skill")).unwrap();
    let entry =
        RuleEntry { verdict: Verdict::Deny, tool: None, path: Some("private/**".to_owned()), command: None };
    let rules = PermissionRules::new(vec![PermissionRule::new("rule", &entry).unwrap()]).unwrap();
    let reads = domain::CapabilitySet::of(&[domain::Capability::ReadWorkspace]);
    let sight = Sight::new(Arc::new(rules), "/w", ("read_file", reads), false);
    let guidance = Guidance::read(&fixture.workspace, &fixture.root(), None, &sight);
    insta::assert_snapshot!(told(&fixture, &guidance), @r"
    problem AGENTS.md is not read: the permission rules keep it from agents
    problem .agents/skills/skill: the permission rules keep it from agents
    ");
    assert!(guidance.tool().is_none());
}
