//! Permission rules in the two files, and what is said of wrong ones.

use agents::CallSubject;
use domain::{Capability, CapabilitySet};

use super::*;

fn said_of_command(limits: &Limits, command: &str) -> String {
    let subject = CallSubject {
        tool: "shell",
        requires: CapabilitySet::of(&[Capability::RunCommand]),
        is_external: false,
        workspace: "/w",
        paths: &[],
        command: Some(command),
        is_confined: false,
    };
    let judgement = limits.permissions.judge(&subject);
    format!("{:?}: {}", judgement.verdict, judgement.because)
}

#[test]
fn permission_rules_are_those_of_the_user_and_the_denials_of_the_project() {
    let user = "permissions = [\n  { verdict = \"ask\", command = \"*\" },\n  \
                { verdict = \"allow\", tool = \"shell\", command = \"cargo *\" },\n]\n";
    let project = "[[permissions]]\nverdict = \"deny\"\ncommand = \"cargo publish*\"\n";
    let home = Home::new(Some(user), Some(project));
    let (own, narrowed) = (home.config().unwrap().limits().clone(), home.limits().unwrap());
    let said = [
        said_of_command(&own, "cargo publish"),
        said_of_command(&narrowed, "cargo publish"),
        said_of_command(&narrowed, "cargo test"),
        said_of_command(&narrowed, "ls"),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    Allow: rule 2 of the user's zuno.toml (tool = "shell", command = "cargo *") allows "cargo publish"
    Deny: rule 1 of the project's zuno.toml (command = "cargo publish*") denies "cargo publish"
    Allow: rule 2 of the user's zuno.toml (tool = "shell", command = "cargo *") allows "cargo test"
    Ask: rule 1 of the user's zuno.toml (command = "*") asks a person about "ls"
    "#);
}

#[test]
fn a_wrong_permission_rule_is_named_by_file_line_and_entry() {
    let good = "[[permissions]]\nverdict = \"deny\"\ntool = \"shell\"\n";
    let said: Vec<_> = [
        "verdict = \"deny\"",
        "verdict = \"permit\"\ntool = \"shell\"",
        "tool = \"shell\"",
        "verdict = \"deny\"\ncomand = \"git push*\"",
        "verdict = \"deny\"\ntool = 1",
        "verdict = \"deny\"\npath = \"a[\"",
        "verdict = \"deny\"\npath = \"~/.ssh/**\"",
        "verdict = \"deny\"\npath = \"a\"\ncommand = \"b\"",
    ]
    .into_iter()
    .map(|entry| {
        let home = Home::new(Some(&format!("{good}\n[[permissions]]\n{entry}\n")), None);
        home.shown(&home.config().unwrap_err())
    })
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: it says nothing about `tool`, `path` or `command`; add one of them (`tool = "*"` is every tool)
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: `verdict`: unknown variant `permit`, expected one of `allow`, `ask`, `deny`
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: missing field `verdict`
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: unknown field `comand`, expected one of `verdict`, `tool`, `path`, `command`
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: `tool`: invalid type: integer `1`, expected a string
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: `path` is no glob: unclosed character class; missing ']'; put a backslash before a character that means itself
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: `path`: `~` is not expanded here; write the absolute path
    ~/.config/zuno/zuno.toml:5: entry 2 of `permissions`: it has both `path` and `command`, and nothing is both; make two entries of it
    "#);

    let whole: Vec<_> = [
        "permissions = \"deny\"".to_owned(),
        "[permissions]\nverdict = \"deny\"\ntool = \"shell\"".to_owned(),
        "permissions = [\n  { verdict = \"deny\", tool = \"a\" },\n  \"deny\",\n]".to_owned(),
        "permissions = [\n  { verdict = \"deny\", tool = \"a\" },\n  { verdict = \"deny\", tol = \"a\" },\n]"
            .to_owned(),
        good.repeat(201),
    ]
    .iter()
    .map(|user| {
        let home = Home::new(Some(user), None);
        home.shown(&home.config().unwrap_err())
    })
    .collect();
    insta::assert_snapshot!(whole.join("\n"), @r#"
    ~/.config/zuno/zuno.toml:1: `permissions`: invalid type: string "deny", expected a list (`[[permissions]]` begins one entry of it)
    ~/.config/zuno/zuno.toml:1: invalid type: map, expected a list (`[[permissions]]` begins one entry of it)
    ~/.config/zuno/zuno.toml:3: invalid type: string "deny", expected a map
    ~/.config/zuno/zuno.toml:3: entry 2 of `permissions`: unknown field `tol`, expected one of `verdict`, `tool`, `path`, `command`
    ~/.config/zuno/zuno.toml: `permissions`: there are 201 rules, the limit is 200; write fewer with `*`
    "#);
}

#[test]
fn c9_what_a_project_allows_or_asks_counts_only_with_trust_and_never_before_the_user() {
    let user = "[[permissions]]\nverdict = \"deny\"\ncommand = \"git push*\"\n\
                [[permissions]]\nverdict = \"ask\"\ncommand = \"make *\"\n";
    let project = "[[permissions]]\nverdict = \"allow\"\ncommand = \"*\"\n\
                   [[permissions]]\nverdict = \"ask\"\ncommand = \"npm *\"\n\
                   [[permissions]]\nverdict = \"deny\"\ncommand = \"npm publish*\"\n";
    let home = Home::new(Some(user), Some(project));
    let told = || {
        let limits = home.limits().unwrap();
        let commands = ["git push", "make all", "npm test", "npm publish", "ls $(x)"];
        commands.map(|command| said_of_command(&limits, command)).join("\n")
    };
    let without = told();
    home.trust();
    insta::assert_snapshot!(format!("{without}\n\n{}", told()), @r#"
    Deny: rule 1 of the user's zuno.toml (command = "git push*") denies "git push"
    Ask: rule 2 of the user's zuno.toml (command = "make *") asks a person about "make all"
    Allow: no rule is against "npm test"
    Deny: rule 3 of the project's zuno.toml (command = "npm publish*") denies "npm publish"
    Allow: no rule is against "ls $(x)"

    Deny: rule 1 of the user's zuno.toml (command = "git push*") denies "git push"
    Ask: rule 2 of the user's zuno.toml (command = "make *") asks a person about "make all"
    Ask: rule 2 of the project's zuno.toml (command = "npm *") asks a person about "npm test"
    Deny: rule 3 of the project's zuno.toml (command = "npm publish*") denies "npm publish"
    Allow: rule 1 of the project's zuno.toml (command = "*") allows "ls $(x)"
    "#);
}
