//! What holds for any rules and calls.

use proptest::prelude::*;

use super::*;

/// Rules and calls over a few names, so that they often meet.
fn any_rule() -> impl Strategy<Value = RuleEntry> {
    let verdict = prop_oneof![Just(Verdict::Allow), Just(Verdict::Ask), Just(Verdict::Deny)];
    let tool = proptest::option::weighted(0.3, prop_oneof!["[st*]", Just("shell".to_owned())]);
    let path = "(/w/)?[ab*]{1,2}(/[ab*]{1,2})?".prop_map(|glob| (Some(glob), None));
    let about = prop_oneof![path, "[ab]( [ab*])?|\\*".prop_map(|command| (None, Some(command)))];
    (verdict, tool, about).prop_map(|(verdict, tool, (path, command))| RuleEntry {
        verdict,
        tool,
        path,
        command,
    })
}

fn any_rules() -> impl Strategy<Value = Vec<PermissionRule>> {
    let checked = any_rule().prop_filter_map("no rule", |entry| PermissionRule::new("rule", &entry).ok());
    proptest::collection::vec(checked, 0..5)
}

/// The owned parts of a call: paths, command, requires, external, confined.
type AnyCall = (Vec<String>, Option<String>, bool, bool, bool);

fn any_call() -> impl Strategy<Value = AnyCall> {
    let paths = proptest::collection::vec("/?[abw]/?[ab]?|\\.", 0..3);
    let command = proptest::option::of("[ab]( [ab])?([;&|(`$'> ]{1,2}[ab]( [ab])?)?");
    (paths, command, any::<bool>(), any::<bool>(), any::<bool>())
}

fn judged(rules: &[PermissionRule], call: &AnyCall) -> Verdict {
    let (paths, text, network, is_external, is_confined) = call;
    let needs: &[_] = if *network { &[Capability::Network] } else { &[] };
    let subject = CallSubject {
        tool: "shell",
        requires: CapabilitySet::of(needs),
        is_external: *is_external,
        workspace: "/w",
        paths,
        command: text.as_deref(),
        is_confined: *is_confined,
    };
    PermissionRules::new(rules.to_vec()).unwrap().judge(&subject).verdict
}

/// A text in which a command stands that no rule allows, whatever is around it.
fn with_further_command() -> impl Strategy<Value = String> {
    let known = prop_oneof![
        Just("git status"),
        Just("git status 'a;b'"),
        Just("npm run \"a\\\"\" # x\nnpm run b"),
        Just("cargo test 2>&1"),
    ];
    let further = "(X=1 |PATH=\\. )?(rm|\\./git|'rm'|r\\\\m|/bin/rm|\\$X|r\\*|env git|eval git)( status)?( -[a-z])?( 'x y')?";
    let join = prop_oneof![
        Just("{K}; {F}"),
        Just("{F}; {K}"),
        Just("{K}&&{F}"),
        Just("{K} || {F} "),
        Just("{K} | {F}"),
        Just("{K}&{F}"),
        Just("{F}&{K}"),
        Just("{K}\n{F}"),
        Just("{K} $({F})"),
        Just("{K} \"a $({F})\""),
        Just("{K} `{F}`"),
        Just("{K} <({F})"),
        Just("({F}); {K}"),
        Just("{K}; {F} > x"),
        Just("if {K}; then {F}; fi"),
        Just("{K} ${X:-`{F}`}"),
        Just("{K} \\\\; {F}"),
        Just("{K} \\\n ; \\\n{F}"),
        Just("{K} '' ; {F} ''"),
    ];
    (join, known, further).prop_map(|(join, known, further)| {
        // The known command comes first wherever a comment in it would hide what follows on its line.
        let line_end = if known.contains('#') { "\n" } else { "" };
        let known = format!("{known}{line_end}");
        join.replace("{K}", &known).replace("{F}", &further)
    })
}

proptest! {
    #[test]
    fn a_further_denial_never_makes_a_call_freer(
        rules in any_rules(), denial in any_rule(), at in 0_usize..5, call in any_call(),
    ) {
        let denial = RuleEntry { verdict: Verdict::Deny, ..denial };
        let Ok(denial) = PermissionRule::new("denial", &denial) else { return Ok(()) };
        let mut more = rules.clone();
        more.insert(at.min(rules.len()), denial);
        prop_assert!(judged(&more, &call) >= judged(&rules, &call));
    }

    #[test]
    fn no_order_and_no_allowance_lifts_a_denial(
        rules in any_rules(), other in any_rule(), at in 0_usize..5, call in any_call(),
    ) {
        if judged(&rules, &call) != Verdict::Deny {
            return Ok(());
        }
        let Ok(other) = PermissionRule::new("other", &other) else { return Ok(()) };
        let mut more = rules.clone();
        more.insert(at.min(rules.len()), other);
        more.reverse();
        prop_assert_eq!(judged(&more, &call), Verdict::Deny);
    }

    #[test]
    fn a_project_never_makes_a_call_freer(user in any_rules(), project in any_rules(), call in any_call()) {
        let narrowed = PermissionRules::new(user.clone()).unwrap()
            .narrowed_by(&PermissionRules::new(project).unwrap());
        prop_assert!(judged(&narrowed.0, &call) >= judged(&user, &call));
    }

    #[test]
    fn allowed_commands_never_allow_a_text_with_a_further_one(text in with_further_command()) {
        let judgement = rules(&NAMED).judge(&command(&text));
        prop_assert_ne!(judgement.verdict, Verdict::Allow, "{}", judgement.because);
    }

    #[test]
    fn any_text_is_judged(text in any::<String>(), pattern in "[a-b *\"]{1,6}", call in any_call()) {
        let Ok(rule) = PermissionRule::new("rule", &entry(&format!("deny command={pattern}"))) else {
            return Ok(());
        };
        let call = (call.0, Some(text), call.2, call.3, call.4);
        judged(&[rule], &call);
    }
}
