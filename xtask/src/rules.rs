//! Semantic rules and the tests that prove them: `docs/reference/semantics.md` against test names and case files.
//!
//! A rule is a list item `- **P11** *(proved)*: text` or `- **P11** *(planned)*: text`. A test proves a rule when its
//! name starts with the rule's id (`p11_completed_is_terminal`; `p10_p11_…` proves both), a case file when it carries
//! `rule = "P11"` or `"rule": "P11"`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use serde::Serialize;

use crate::{
    error::Error,
    report,
    source::Source,
    workspace::{TextFile, Workspace},
};

const DOCUMENT: &str = "docs/reference/semantics.md";

#[derive(Clone, Copy)]
pub(crate) enum Format {
    Table,
    Json,
    /// Only what is wrong, and one line of counts.
    Problems,
}

pub(crate) fn run(workspace: &Workspace, format: Format) -> Result<(), Error> {
    let document = workspace.read(DOCUMENT)?;
    let ledger = Ledger::new(&document, &workspace.text_files()?);
    match format {
        Format::Table => println!("{}", ledger.table()),
        Format::Json => println!("{}", serde_json::to_string_pretty(&ledger.rules)?),
        Format::Problems => {}
    }
    report("rules", &ledger.problems)?;
    if !matches!(format, Format::Json) {
        println!("rules: {}", ledger.summary());
    }
    Ok(())
}

/// A letter and a number, such as P11.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RuleId {
    family: char,
    number: u32,
}

impl RuleId {
    fn parse(text: &str) -> Option<Self> {
        let (family, number) = text.split_at_checked(1)?;
        let family = family.chars().next().filter(char::is_ascii_uppercase)?;
        // `P01` would be a second spelling of `P1`.
        let digits = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        Some(Self { family, number: number.parse().ok().filter(|_| digits)? })
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.family, self.number)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Proved,
    Planned,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Rule {
    #[serde(serialize_with = "as_text")]
    id: RuleId,
    status: Status,
    text: String,
    proofs: Vec<Proof>,
}

/// A test function or, without a name, a case file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Proof {
    path: String,
    line: usize,
    test: Option<String>,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.test {
            Some(test) => write!(f, "{}:{} {test}", self.path, self.line),
            None => write!(f, "{}:{}", self.path, self.line),
        }
    }
}

fn as_text<S: serde::Serializer>(id: &RuleId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

struct Ledger {
    rules: Vec<Rule>,
    problems: Vec<String>,
}

impl Ledger {
    fn new(document: &str, files: &[TextFile]) -> Self {
        let (mut rules, mut problems) = parse_document(document);
        let families: BTreeSet<char> = rules.iter().map(|rule| rule.id.family).collect();
        let mut proofs: BTreeMap<RuleId, BTreeSet<Proof>> = BTreeMap::new();
        for (id, proof) in files.iter().flat_map(|file| claims(file, &families)) {
            match id {
                Ok(id) if rules.iter().any(|rule| rule.id == id) => {
                    proofs.entry(id).or_default().insert(proof);
                }
                Ok(id) => problems.push(format!("{proof} names {id}, which is no rule of {DOCUMENT}")),
                Err(text) => problems.push(format!("{proof} names `{text}`, which is no rule id")),
            }
        }
        for rule in &mut rules {
            rule.proofs = proofs.remove(&rule.id).into_iter().flatten().collect();
            match (rule.status, rule.proofs.first()) {
                (Status::Proved, None) => {
                    problems.push(format!("{} is marked proved, but no test names it", rule.id));
                }
                (Status::Planned, Some(proof)) => {
                    problems.push(format!("{} is marked planned, but {proof} proves it", rule.id));
                }
                (Status::Proved, Some(_)) | (Status::Planned, None) => {}
            }
        }
        Self { rules, problems }
    }

    fn table(&self) -> String {
        let mut table = String::new();
        for rule in &self.rules {
            let status = match rule.status {
                Status::Proved => "proved",
                Status::Planned => "planned",
            };
            let mut proofs = rule.proofs.iter().map(ToString::to_string);
            let line = format!("{:<5}{status:<9}{}", rule.id.to_string(), proofs.next().unwrap_or_default());
            table.push_str(line.trim_end());
            table.push('\n');
            for proof in proofs {
                let _ = writeln!(table, "{:14}{proof}", "");
            }
        }
        table
    }

    fn summary(&self) -> String {
        let proved = self.rules.iter().filter(|rule| rule.status == Status::Proved).count();
        let proofs: BTreeSet<&Proof> = self.rules.iter().flat_map(|rule| &rule.proofs).collect();
        format!(
            "{proved} proved by {} tests and case files, {} planned",
            proofs.len(),
            self.rules.len() - proved
        )
    }
}

fn parse_document(document: &str) -> (Vec<Rule>, Vec<String>) {
    let (mut rules, mut problems) = (Vec::<Rule>::new(), Vec::new());
    for (index, line) in document.lines().enumerate() {
        let Some((id, rest)) = line.strip_prefix("- **").and_then(|rest| rest.split_once("**")) else {
            continue;
        };
        let Some(id) = RuleId::parse(id) else { continue };
        let parsed = [("proved", Status::Proved), ("planned", Status::Planned)]
            .into_iter()
            .find_map(|(word, status)| Some((status, rest.strip_prefix(&format!(" *({word})*: "))?)));
        match parsed {
            _ if rules.iter().any(|rule| rule.id == id) => {
                problems.push(format!("{DOCUMENT}:{} defines {id} a second time", index + 1));
            }
            Some((status, text)) => {
                rules.push(Rule { id, status, text: text.trim().to_owned(), proofs: Vec::new() });
            }
            None => problems.push(format!(
                "{DOCUMENT}:{} must read `- **{id}** *(proved)*: text` or `- **{id}** *(planned)*: text`",
                index + 1
            )),
        }
    }
    if rules.is_empty() {
        problems.push(format!("{DOCUMENT} has no rule"));
    }
    (rules, problems)
}

/// What a file claims to prove; an id that does not parse is handed on as text.
fn claims(file: &TextFile, families: &BTreeSet<char>) -> Vec<(Result<RuleId, String>, Proof)> {
    let parts: Vec<&str> = file.path.split('/').collect();
    let [folders @ .., _] = parts.as_slice() else { return Vec::new() };
    if !matches!(folders.first(), Some(&("crates" | "tests"))) {
        return Vec::new();
    }
    if file.is_kind("rs") {
        return test_claims(file, families);
    }
    let is_case = folders.contains(&"tests")
        && folders.contains(&"cases")
        && ["toml", "json", "md"].iter().any(|kind| file.is_kind(kind));
    if is_case { case_claims(file) } else { Vec::new() }
}

fn test_claims(file: &TextFile, families: &BTreeSet<char>) -> Vec<(Result<RuleId, String>, Proof)> {
    let mut claims = Vec::new();
    for (line, test) in Source::parse(&file.text).tests() {
        for id in ids_in_name(test, families) {
            let proof = Proof { path: file.path.clone(), line, test: Some(test.to_owned()) };
            claims.push((Ok(id), proof));
        }
    }
    claims
}

/// `p10_p11_ids_stay` → P10, P11. A name such as `e2e_run` or one of a letter without rules names none.
fn ids_in_name(test: &str, families: &BTreeSet<char>) -> Vec<RuleId> {
    let mut parts: Vec<&str> = test.split('_').collect();
    // The id is a prefix: something must be said about the rule behind it.
    parts.pop();
    let is_lower = |part: &&str| part.starts_with(|first: char| first.is_ascii_lowercase());
    parts
        .into_iter()
        .take_while(is_lower)
        .map_while(|part| RuleId::parse(&part.to_ascii_uppercase()))
        .take_while(|id| families.contains(&id.family))
        .collect()
}

fn case_claims(file: &TextFile) -> Vec<(Result<RuleId, String>, Proof)> {
    let mut claims = Vec::new();
    for (index, text) in file.text.lines().enumerate() {
        for id in rule_values(text) {
            let proof = Proof { path: file.path.clone(), line: index + 1, test: None };
            claims.push((RuleId::parse(id).ok_or_else(|| id.to_owned()), proof));
        }
    }
    claims
}

/// The values of `rule = "…"` and `"rule": "…"` in one line.
fn rule_values(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("rule").filter_map(|(at, word)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let after = match before.strip_suffix('"') {
            Some(_) => after.strip_prefix('"')?.trim_start().strip_prefix(':')?,
            None if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') => return None,
            None => after.trim_start().strip_prefix('=')?,
        };
        after.trim_start().strip_prefix('"')?.split_once('"').map(|(id, _)| id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "# Rules\n\n- **P10** *(proved)*: stays\n- **P11** *(proved)*: is final\n- a list item\n\
                       - **Note** bold\n- **E8** *(planned)*: later\n";

    fn ledger(document: &str, files: &[(&str, &str)]) -> Ledger {
        let file =
            |(path, text): &(&str, &str)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() };
        Ledger::new(document, &files.iter().map(file).collect::<Vec<_>>())
    }

    fn problems(document: &str, files: &[(&str, &str)]) -> Vec<String> {
        ledger(document, files).problems
    }

    const BOTH: (&str, &str) = ("crates/policy/src/plan.rs", "#[test]\nfn p10_p11_ids_and_ends_stay() {}");

    #[test]
    fn one_test_may_prove_several_rules() {
        let ledger = ledger(DOC, &[BOTH]);
        assert_eq!(ledger.problems, [""; 0]);
        assert_eq!(ledger.summary(), "2 proved by 1 tests and case files, 1 planned");
        assert_eq!(
            ledger.table(),
            "P10  proved   crates/policy/src/plan.rs:2 p10_p11_ids_and_ends_stay\n\
             P11  proved   crates/policy/src/plan.rs:2 p10_p11_ids_and_ends_stay\n\
             E8   planned\n"
        );
    }

    #[test]
    fn a_proved_rule_without_a_test_fails() {
        let file = ("crates/policy/src/plan.rs", "#[test]\nfn p10_x() {}\nfn p11_not_a_test() {}");
        assert_eq!(problems(DOC, &[file]), ["P11 is marked proved, but no test names it"]);
    }

    #[test]
    fn a_tested_rule_still_planned_fails() {
        let file = ("tests/scenarios/lanes.rs", "#[tokio::test]\nasync fn e8_lanes() {}");
        assert_eq!(
            problems(DOC, &[BOTH, file]),
            ["E8 is marked planned, but tests/scenarios/lanes.rs:2 e8_lanes proves it"]
        );
    }

    #[test]
    fn an_unknown_rule_fails_and_an_unknown_letter_is_a_plain_name() {
        let file = ("tests/a.rs", "#[test]\nfn p99_x() {}\n#[test]\nfn z1_x() {}\n#[test]\nfn e2e_x() {}");
        assert_eq!(
            problems(DOC, &[BOTH, file]),
            ["tests/a.rs:2 p99_x names P99, which is no rule of docs/reference/semantics.md"]
        );
    }

    #[test]
    fn a_name_is_read_up_to_its_first_other_word() {
        let families = BTreeSet::from(['P', 'E']);
        let ids =
            |name| ids_in_name(name, &families).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(ids("p1_p2_p3_blank"), "P1 P2 P3");
        assert_eq!(ids("p1_blank_p2"), "P1");
        assert_eq!(ids("p1"), "");
        assert_eq!(ids("P1_x"), "");
        assert_eq!(ids("p01_x"), "");
        assert_eq!(ids("p_x"), "");
    }

    #[test]
    fn case_files_prove_rules() {
        let cases = [
            ("tests/conformance/cases/a.toml", "[[case]]\nrule = \"P10\"\noverrule = \"x\""),
            ("crates/policy/tests/cases/b.json", "{\"rule\": \"P11\", \"rules\": 1}"),
            ("docs/cases/c.md", "rule = \"P12\""),
        ];
        assert_eq!(problems(DOC, &cases), [""; 0]);
        let wrong = ("tests/cases/d.md", "rule = \"later\"");
        assert_eq!(problems(DOC, &[BOTH, wrong]), ["tests/cases/d.md:1 names `later`, which is no rule id"]);
    }

    #[test]
    fn a_rule_line_has_one_form() {
        let document = format!("{DOC}- **P1** *(done)*: x\n- **P10** *(proved)*: again\n");
        assert_eq!(
            problems(&document, &[BOTH]),
            [
                "docs/reference/semantics.md:8 must read `- **P1** *(proved)*: text` or `- **P1** *(planned)*: text`",
                "docs/reference/semantics.md:9 defines P10 a second time",
            ]
        );
        assert_eq!(problems("", &[]), ["docs/reference/semantics.md has no rule"]);
    }
}
