//! Tables of calls and what is said of them.

mod properties;

use domain::Capability;

use super::*;

/// A rule in short: `deny tool=shell command=git push*`.
fn rule(number: usize, text: &str) -> PermissionRule {
    PermissionRule::new(&format!("rule {number}"), &entry(text)).unwrap()
}

fn entry(text: &str) -> RuleEntry {
    let (verdict, mut rest) = text.split_once(' ').unwrap_or((text, ""));
    let verdict = match verdict {
        "allow" => Verdict::Allow,
        "ask" => Verdict::Ask,
        _ => Verdict::Deny,
    };
    let mut entry = RuleEntry { verdict, tool: None, path: None, command: None };
    while let Some(at) = ["tool=", "path=", "command="].iter().filter_map(|key| rest.rfind(key)).max() {
        let (key, value) = rest[at..].split_once('=').unwrap();
        let value = Some(value.to_owned());
        match key {
            "tool" => entry.tool = value,
            "path" => entry.path = value,
            _ => entry.command = value,
        }
        rest = rest[..at].trim_end();
    }
    entry
}

fn rules(texts: &[&str]) -> PermissionRules {
    PermissionRules::new((1..).zip(texts).map(|(number, text)| rule(number, text)).collect()).unwrap()
}

const NOTHING: CallSubject<'_> = CallSubject {
    tool: "shell",
    requires: CapabilitySet::of(&[]),
    is_external: false,
    workspace: "/home/me/project",
    paths: &[],
    command: None,
    is_confined: false,
};

fn command(text: &str) -> CallSubject<'_> {
    CallSubject { requires: CapabilitySet::of(&[Capability::RunCommand]), command: Some(text), ..NOTHING }
}

fn judged_paths(rules: &PermissionRules, tool: &str, paths: &[&str]) -> Judgement {
    let paths: Vec<_> = paths.iter().map(|path| (*path).to_owned()).collect();
    rules.judge(&CallSubject { tool, paths: &paths, ..NOTHING })
}

#[track_caller]
fn check_commands(texts: &[&str], expected: Verdict, commands: &[&str]) {
    let rules = rules(texts);
    for text in commands {
        let judgement = rules.judge(&command(text));
        assert_eq!(judgement.verdict, expected, "{texts:?} on {text:?}: {}", judgement.because);
    }
}

#[track_caller]
fn check_paths(texts: &[&str], expected: Verdict, paths: &[&str]) {
    let rules = rules(texts);
    for path in paths {
        let judgement = judged_paths(&rules, "write_file", &[path]);
        assert_eq!(judgement.verdict, expected, "{texts:?} on {path:?}: {}", judgement.because);
    }
}

#[test]
fn what_is_allowed_for_one_run_leaves_the_other_commands_as_they_are() {
    let check = |texts: &[&str], text: &str, expected| {
        let extra = [rule(9, "allow tool=shell command=git push*")];
        let judgement = rules(texts).extended_by(extra).unwrap().judge(&command(text));
        assert_eq!(judgement.verdict, expected, "{texts:?} on {text:?}: {}", judgement.because);
    };
    check(&["ask tool=shell command=git push*"], "git push", Verdict::Allow);
    check(&["deny tool=shell command=git push*"], "git push", Verdict::Deny);
    check(&[], "cargo test", Verdict::Allow);
    check(&["allow tool=shell command=ls"], "cargo test", Verdict::Ask);
}

#[test]
fn without_rules_only_what_reaches_out_asks() {
    let none = PermissionRules::default();
    let network = CapabilitySet::of(&[Capability::Network]);
    let inside = ["src/lib.rs".to_owned(), ".".to_owned()];
    let outside = ["src/lib.rs".to_owned(), "/etc/hosts".to_owned()];
    let up = ["src/../../other".to_owned()];
    let subjects = [
        CallSubject { tool: "plan_update", ..NOTHING },
        CallSubject { tool: "edit_file", paths: &inside, ..NOTHING },
        command("cargo test > log; $(git push)"),
        command("# nothing"),
        CallSubject { tool: "edit_file", paths: &outside, ..NOTHING },
        CallSubject { tool: "edit_file", paths: &up, ..NOTHING },
        CallSubject { tool: "fetch", requires: network, ..NOTHING },
        CallSubject { tool: "fetch", requires: network, paths: &inside, ..NOTHING },
        CallSubject { requires: network, ..command("curl x") },
        CallSubject { tool: "git/log", is_external: true, paths: &inside, ..NOTHING },
    ];
    let said: Vec<_> = subjects.iter().map(|subject| in_words(&none.judge(subject))).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    Allow: no rule is against the call
    Allow: no rule is against "src/lib.rs"
    Allow: no rule is against "cargo test > log; $(git push)"
    Allow: no rule is against the call
    Ask: no rule allows "/etc/hosts", which is outside the workspace
    Ask: no rule allows "src/../../other", which is outside the workspace
    Ask: no rule allows the call, and it needs the network
    Ask: no rule allows the call, and it needs the network
    Ask: no rule allows "curl x", and it needs the network
    Deny: no rule names `git/log`, and a tool of another program needs one: `tool = "git/log"` in [[permissions]], without `*`
    "#);
}

fn in_words(judgement: &Judgement) -> String {
    format!("{:?}: {}", judgement.verdict, judgement.because)
}

#[test]
fn a_denial_wins_else_the_last_match_else_the_default() {
    let texts = ["deny path=secrets/**", "ask path=**", "allow path=src/**", "ask path=src/gen/**"];
    check_paths(&texts, Verdict::Deny, &["secrets/a", "secrets/deep/b"]);
    check_paths(&texts, Verdict::Ask, &["README.md", "src/gen/a.rs"]);
    check_paths(&texts, Verdict::Allow, &["src/lib.rs", "src/deep/b.rs"]);
    let texts = ["deny tool=write_*", "allow tool=*", "allow path=**"];
    check_paths(&texts, Verdict::Deny, &["src/lib.rs"]);
    check_paths(&["deny tool=write", "deny tool=file", "deny tool=*write"], Verdict::Allow, &["a"]);
}

#[test]
fn the_strictest_part_counts() {
    let rules = rules(&["ask path=**", "allow path=src/**", "allow path=docs/**", "deny path=**/*.key"]);
    let verdict = |paths: &[&str]| judged_paths(&rules, "copy", paths).verdict;
    assert_eq!(verdict(&["src/a", "docs/b"]), Verdict::Allow);
    assert_eq!(verdict(&["src/a", "README.md", "docs/b"]), Verdict::Ask);
    assert_eq!(verdict(&["src/a", "README.md", "docs/b.key"]), Verdict::Deny);
}

#[test]
fn a_glob_with_a_slash_in_front_is_about_absolute_paths() {
    check_paths(&["allow path=**"], Verdict::Ask, &["/etc/hosts", "/home/me/other/a"]);
    check_paths(&["allow path=/tmp/**"], Verdict::Allow, &["/tmp/a", "/tmp/deep/b"]);
    check_paths(
        &["allow path=/tmp/**", "allow path=**"],
        Verdict::Ask,
        &["/tmp/../etc/hosts", "../a", "a/../b"],
    );
    check_paths(&["deny path=/home/me/project/secrets"], Verdict::Deny, &["secrets", "secrets/a"]);
    check_paths(&["deny path=/home/me/**"], Verdict::Deny, &[".", "src/a", "/home/me/other"]);
    check_paths(&["deny path=**/.env"], Verdict::Deny, &[".env", "a/b/.env", "/home/me/other/.env"]);
}

#[test]
fn an_allowance_is_exact_and_the_other_verdicts_take_what_is_beneath() {
    check_paths(&["ask path=**", "allow path=src/*"], Verdict::Allow, &["src/a", "src/.hidden"]);
    check_paths(&["ask path=**", "allow path=src/*"], Verdict::Ask, &["src", "src/a/b", "srcs/a", "a/src/b"]);
    for glob in
        ["deny path=keys", "deny path=./keys", "deny path=keys/**", "deny path=keys/*", "deny path=k*"]
    {
        check_paths(&[glob], Verdict::Deny, &["keys", "keys/a", "keys/a/b"]);
    }
    check_paths(&["deny path=keys"], Verdict::Allow, &["a/keys", "keys.txt", "."]);
    check_paths(&["deny path=*.{pem,key}"], Verdict::Deny, &["a.pem", "b.key"]);
}

#[test]
fn c2_only_a_rule_that_names_a_tool_of_another_program_lets_it_through() {
    let inside = ["src/lib.rs".to_owned()];
    let check = |texts: &[&str], expected: Verdict| {
        for paths in [&[][..], &inside] {
            let call = CallSubject { tool: "git/log", is_external: true, paths, ..NOTHING };
            let judgement = rules(texts).judge(&call);
            assert_eq!(judgement.verdict, expected, "{texts:?}: {}", judgement.because);
        }
    };
    let too_wide = [
        "allow tool=*",
        "allow tool=git/*",
        "ask tool=git/lo*",
        "ask tool=*",
        "allow path=**",
        "allow command=*",
    ];
    check(&too_wide, Verdict::Deny);
    check(&["allow tool=git/log path=**", "allow tool=git", "allow tool=GIT/LOG"], Verdict::Deny);
    check(&["allow tool=git/log"], Verdict::Allow);
    check(&["ask tool=git/log", "allow tool=*"], Verdict::Ask);
    check(&["allow tool=git/log", "ask tool=git/*"], Verdict::Ask);
    check(&["ask tool=*", "allow tool=git/log"], Verdict::Allow);
    check(&["allow tool=git/log", "deny tool=git/*"], Verdict::Deny);
    check(&["deny tool=*", "allow tool=git/log"], Verdict::Deny);
    let several =
        rules(&["allow tool=a/b", "ask tool=c/d", "deny tool=e/f", "allow tool=g/*", "allow tool=shell"]);
    assert_eq!(several.of_servers().collect::<Vec<_>>(), ["a/b", "c/d"]);
}

#[test]
fn rules_about_paths_commands_and_tools_keep_to_their_parts() {
    let paths = ["crates/a".to_owned()];
    let subject = CallSubject { paths: &paths, ..command("cargo test") };
    let verdict = |texts: &[&str]| rules(texts).judge(&subject).verdict;
    assert_eq!(verdict(&["ask command=*", "allow path=**"]), Verdict::Ask);
    assert_eq!(verdict(&["ask path=**", "allow command=*"]), Verdict::Ask);
    assert_eq!(verdict(&["ask path=**", "ask command=*", "allow tool=shell"]), Verdict::Allow);
    assert_eq!(verdict(&["ask tool=shell", "allow command=cargo *", "allow path=crates/**"]), Verdict::Allow);
    assert_eq!(verdict(&["deny tool=other command=*", "deny tool=other path=**"]), Verdict::Allow);

    // A path that is allowed allows neither the network nor a program of others; a command that is allowed may go there.
    let network = CapabilitySet::of(&[Capability::Network]);
    let fetch = CallSubject { tool: "fetch", requires: network, paths: &paths, ..NOTHING };
    assert_eq!(rules(&["allow path=**"]).judge(&fetch).verdict, Verdict::Ask);
    assert_eq!(rules(&["allow tool=fetch"]).judge(&fetch).verdict, Verdict::Allow);
    let external = CallSubject { is_external: true, ..fetch };
    assert_eq!(rules(&["allow path=**"]).judge(&external).verdict, Verdict::Deny);
    let curl = CallSubject { requires: network, paths: &paths, ..command("curl x") };
    assert_eq!(rules(&["allow command=curl *"]).judge(&curl).verdict, Verdict::Allow);
}

#[test]
fn a_denial_finds_what_a_shell_makes_of_words() {
    check_commands(
        &["deny command=git push*", "deny command=rm *"],
        Verdict::Deny,
        &[
            "p=push; git $p",
            "git $p origin",
            "git pu{s,s}h",
            "git p*",
            "/usr/bin/git \"$@\"",
            "g=git; $g push",
            "r=m; true & r$r -f x",
            "taskset 1 rm -f x",
            "prlimit rm -f x",
            "runuser -u root -- rm -f x",
            "start-stop-daemon -S -x /bin/rm -- -f x",
            "fakeroot rm -f x",
        ],
    );
    check_commands(
        &["deny command=git push*", "deny command=rm *"],
        Verdict::Allow,
        &[
            "git add *.rs",
            "git log $REV",
            "ls *.o",
            "[ -e $x ]",
            "echo $HOME",
            "cp {a,b} c",
            "git add $(pwd)",
        ],
    );
}

#[test]
fn a_denial_that_needs_a_certain_end_is_found_behind_words_left_open() {
    check_commands(&["deny command=git * --force"], Verdict::Deny, &["git push $x", "git $x --force"]);
    check_commands(&["deny command=git * --force"], Verdict::Allow, &["git $x --tags", "gitk $x"]);
}

#[test]
fn commands_allowed_by_name_make_the_others_ask_unless_a_sandbox_holds_them() {
    let some = rules(&["allow command=cargo test*"]);
    assert_eq!(some.judge(&command("cargo test")).verdict, Verdict::Allow);
    assert_eq!(some.judge(&command("cargo publish")).verdict, Verdict::Ask);
    let confined = CallSubject { is_confined: true, ..command("cargo publish") };
    assert_eq!(some.judge(&confined).verdict, Verdict::Allow);
    let of_another_tool = rules(&["allow tool=run command=cargo test*"]);
    assert_eq!(of_another_tool.judge(&command("cargo publish")).verdict, Verdict::Allow);
}

const NAMED: [&str; 3] = ["allow command=git status*", "allow command=cargo test", "allow command=npm run *"];

#[test]
fn an_allowance_of_commands_matches_each_simple_command() {
    check_commands(
        &NAMED,
        Verdict::Allow,
        &[
            "git status",
            "  git   status\t--short  ",
            "git status --short && cargo test",
            "git status; cargo test;",
            "git status | cargo test || npm run lint & cargo test\n\ngit status\n",
            "cargo test # and nothing else; rm -rf x",
            "# first\ngit status",
            "cargo \\\n  test",
            "git status 'a;b' \"c && d\" e\\;f '$(g)' \"\\`h\\`\"",
            "git status \"a\\\"; rm x\"",
            "'git' status",
            "cargo test 2>&1",
            "cargo test >/dev/null 2>&1 </dev/null && git status 2> /dev/null",
            "npm run $TARGET \"$X\" a*",
        ],
    );
    check_commands(&["allow command=*"], Verdict::Allow, &["rm -rf x", "(a)", "$(b) > c", "'"]);
    check_commands(&["allow command=git commit -m \"*\""], Verdict::Allow, &["git commit -m \"a 'b'; c\""]);
    check_commands(&["allow command=FOO=1 make *"], Verdict::Allow, &["FOO=1 make all"]);
    check_commands(&["allow command=[ -f *"], Verdict::Allow, &["[ -f x ]"]);
}

#[test]
fn an_allowance_of_commands_covers_nothing_else() {
    check_commands(
        &NAMED,
        Verdict::Ask,
        &[
            // A further command.
            "git status; rm -rf x",
            "git status&&rm x",
            "git status || rm x",
            "git status | sh",
            "git status & rm x",
            "git status\nrm x",
            "rm x; git status",
            "git status;\\\nrm x",
            "git status '\n' ; rm x",
            "git status # \\\nrm x",
            "git status#; rm x",
            "git status \"\\\\\" ; rm \"x\"",
            // A command within a word, a group or a later text.
            "git status $(rm x)",
            "git status `rm x`",
            "git status \"$(rm x)\"",
            "git status \"$\\\n(rm x)\"",
            "git status \"`rm x`\"",
            "git status ${X:-$(rm x)}",
            "git status $((x))",
            "git status $'\\'' ; rm x '",
            "git status <(rm x)",
            "git status >(rm x)",
            "(git status)",
            "{ git status; }",
            "git() { rm x; }; git status",
            "! git status",
            "if git status; then cargo test; fi",
            "for x in a; do git status; done",
            "eval git status",
            "alias git=rm\ngit status",
            "git status << E\n$(rm x)\nE",
            "git status <<< x",
            // A file that is written or read.
            "git status > x",
            "git status >> x",
            "git status >| x",
            "git status 2>x",
            "git status <> x",
            "git status >& x",
            "git status &> /dev/null/../x",
            "git status < x",
            "git status >/dev/nullx",
            "git status > $X",
            "git status 12>&1",
            // Another command that only looks alike.
            "$GIT status",
            "g* status",
            "\"git status\"",
            "git\\ status",
            "git stat\"us x\"",
            "X=1 git status",
            "PATH=. git status",
            "./git status",
            "/usr/bin/git status",
            "env git status",
            "cargo test --all",
            "cargo testx",
            "xcargo test",
            "npm run",
            "git\u{a0}status",
            "git\rstatus",
            "git status \u{200b}",
            "git status\u{0}",
            // No shell would run these.
            "git status '",
            "git status \"",
            "git status \\",
        ],
    );
}

#[test]
fn a_command_needs_a_name_that_can_be_read() {
    let hidden = ["$X --version", "a* --version", "{rm,x} --version", "'a b' --version", "'' --version"];
    check_commands(&["allow command=* --version"], Verdict::Ask, &hidden);
    check_commands(&["allow command=* --version"], Verdict::Allow, &["a --version", "./a --version"]);
}

#[test]
fn an_asterisk_or_quotes_in_a_text_are_not_those_of_a_pattern() {
    check_commands(&["allow command=rm *.tmp"], Verdict::Ask, &["rm 'a; b'", "rm a.tmp -r ..", "rm"]);
    check_commands(&["allow command=echo a b"], Verdict::Ask, &["echo 'a b'", "echo a '' b", "echo a\\ b"]);
    check_commands(&["allow command=ls ~/x"], Verdict::Ask, &["ls '~/x'"]);
    check_commands(&["allow command=aXbXc"], Verdict::Ask, &["a*b*c"]);
}

#[test]
fn a_denial_or_question_finds_its_command() {
    for texts in [["deny command=git push*"], ["ask command=git push*"]] {
        let expected = entry(texts[0]).verdict;
        check_commands(
            &texts,
            expected,
            &[
                "git push",
                "git   push origin",
                "true && git push -f | cat",
                "'git' \"push\"",
                "g\\it pu''sh",
                "git \\\npush",
                "/usr/bin/git push",
                "X=1 Y=$Z git push",
                "'/usr/bin/git' push",
                "sudo git push",
                "xargs -n1 git push",
                "sh -c 'git push'",
                "bash -lc \"cd x && git 'push' origin\"",
                "/usr/bin/env git push",
                "find . -exec git push {} +",
                // Texts that are not understood.
                "(git push)",
                "{ git push; }",
                "if true; then git push; fi",
                "echo $(git push)",
                "echo `/usr/bin/git push`",
                "echo ${X:-`git push`}",
                "$X; git 'push' origin > log",
                "eval 'git push'",
                "git push <<E\nE",
                "! git\tpush",
                "git push '",
                "! git pu\\\nsh",
            ],
        );
        check_commands(
            &texts,
            Verdict::Allow,
            &[
                "git status",
                "git commit -m 'git push later'",
                "echo git push",
                "legit push",
                "(legit push)",
                "(git status)",
                "git commit $X",
                "# git push",
            ],
        );
    }
    check_commands(&["deny command=rm *"], Verdict::Allow, &["git rm x", "echo $(date) > alarm log", "rm"]);
    check_commands(&["deny command=rm"], Verdict::Deny, &["rm", "(rm)", "$(/bin/rm)", "sudo rm x"]);
    check_commands(&["deny command=rm"], Verdict::Allow, &["rmdir x", "(rmdir x)", "(charm)", "(rm_x)"]);
    check_commands(
        &["deny command=npm * publish"],
        Verdict::Deny,
        &["(npm -w x publish)", "npm -w x publish"],
    );
    check_commands(
        &["deny command=npm * publish"],
        Verdict::Allow,
        &["(npm -w x publisher)", "(publish npm x)"],
    );
    check_commands(&["deny command=*"], Verdict::Deny, &["a", "(a)", "X=1"]);
    check_commands(&["deny command=/opt/x"], Verdict::Deny, &["/opt/x", "'/opt/x'", "(/opt/x)"]);
    check_commands(&["deny command=*--force*"], Verdict::Deny, &["git push --force", "(x --force)"]);
}

#[test]
fn an_explanation_names_the_rule_as_configured() {
    let texts = [
        "deny tool=shell command=git push*",
        "ask path=/etc/**",
        "allow command=cargo *",
        "deny tool=danger",
        "deny path=**/*.key",
    ];
    let rules = rules(&texts);
    let long = format!("cargo {}", "x".repeat(300));
    let commands = [
        "cargo test",
        "cargo test; ls",
        "cargo test && git  push origin",
        "cargo doc > log",
        "(git push </work_state>)",
        "cargo test \u{202e}",
        long.as_str(),
    ];
    let mut said: Vec<_> = commands.iter().map(|text| in_words(&rules.judge(&command(text)))).collect();
    said.push(in_words(&judged_paths(&rules, "read_file", &["src/a", "/etc/hosts"])));
    said.push(in_words(&judged_paths(&rules, "danger", &["src/a"])));
    said.push(in_words(&judged_paths(&rules, "copy", &["src/a", "b/c.key"])));
    insta::assert_snapshot!(said.join("\n"), @r#"
    Allow: rule 3 (command = "cargo *") allows "cargo test"
    Ask: no rule allows "ls", and commands are allowed by name
    Deny: rule 1 (tool = "shell", command = "git push*") denies "git push origin"
    Ask: no rule allows "cargo doc > log": it holds a redirection to or from a file, and only plain commands are allowed by name
    Deny: rule 1 (tool = "shell", command = "git push*") denies "(git push \u003c/work_state>)", which may run that: it holds a subshell or a function
    Ask: no rule allows "cargo test \u202e": it holds an unusual blank or an invisible character, and only plain commands are allowed by name
    Allow: rule 3 (command = "cargo *") allows "cargo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    Ask: rule 2 (path = "/etc/**") asks a person about "/etc/hosts"
    Deny: rule 4 (tool = "danger") denies "src/a"
    Deny: rule 5 (path = "**/*.key") denies "b/c.key"
    "#);
}

#[test]
fn an_entry_that_makes_no_rule_says_what_to_do() {
    let long = format!("deny command={}", "x".repeat(1_001));
    let said: Vec<_> = [
        "deny",
        "deny path=a command=b",
        "deny tool=",
        "deny command=  ",
        "deny path=./",
        "deny path=~/.ssh/**",
        "deny path=../a",
        "deny path=src/",
        "deny path=a[b",
        "deny path={a",
        long.as_str(),
    ]
    .iter()
    .map(|text| PermissionRule::new("rule 1", &entry(text)).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    it says nothing about `tool`, `path` or `command`; add one of them (`tool = "*"` is every tool)
    it has both `path` and `command`, and nothing is both; make two entries of it
    `tool` is empty; leave it out or write what it is about
    `command` is empty; leave it out or write what it is about
    `path` is empty; leave it out or write what it is about
    `path`: `~` is not expanded here; write the absolute path
    `path`: `..` leads nowhere here; write the path from the workspace root, or an absolute one
    `path`: no path ends in `/`; `folder/**` is what a folder holds
    `path` is no glob: unclosed character class; missing ']'; put a backslash before a character that means itself
    `path` is no glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?); put a backslash before a character that means itself
    `command` is longer than 1000 bytes; make several entries of it
    "#);
    let many = PermissionRules::new(vec![rule(1, "deny tool=x"); 201]).unwrap_err();
    insta::assert_snapshot!(many, @"there are 201 rules, the limit is 200; write fewer with `*`");
}

#[test]
fn a_project_only_adds_denials() {
    let user = rules(&["deny command=git push*", "allow command=*"]);
    let project = rules(&["allow command=git push*", "ask command=ls", "deny command=cargo publish*"]);
    let both = user.clone().narrowed_by(&project);
    let verdict = |text| both.judge(&command(text)).verdict;
    assert_eq!(verdict("git push"), Verdict::Deny);
    assert_eq!(verdict("ls"), Verdict::Allow);
    assert_eq!(verdict("cargo publish"), Verdict::Deny);
    assert_eq!(user.clone().narrowed_by(&PermissionRules::default()), user);
}
