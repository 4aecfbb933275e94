//! `prove`: runs the proofs, and writes `docs/reference/guarantees.md` from the figures they leave.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::steps::Steps;
use crate::workspace::Workspace;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Plain,
    Long,
}

/// Where the page is, from the root.
const PAGE: &str = "docs/reference/guarantees.md";
/// Where the proofs leave their figures, from the root.
pub(crate) const FIGURES: &str = "target/proof";

/// The tests that prove, with the package of the program that they kill. Whatever cargo does with them it does with
/// all of this: other packages have other features, and those are another build.
const PROOFS: &str =
    "--package tests --package cli --test model --test crash --test processes --test scenarios";

/// The parts of the page in their order: the name of the figures' file, and the heading.
const PARTS: [(&str, &str); 4] = [
    ("model", "Model checking"),
    ("simulation", "Deterministic simulation"),
    ("processes", "Real processes"),
    ("endurance", "A whole Goal under random kills"),
];

/// Where the incidents are played, one test for each.
const INCIDENTS: &str = "tests/scenarios/incidents.rs";

/// The faults of the first table, and what each means.
const FAULTS: [(&str, &str); 4] = [
    ("duplicated", "an effect, a turn number or an accepted command that happened twice"),
    ("lost", "something that was answered for and is not in the log"),
    ("ghost", "something in the log that nobody asked for, or a turn after the end"),
    ("plan_caused", "a turn that an unfinished plan started"),
];

/// What one part leaves.
#[derive(Deserialize)]
pub(crate) struct Figures {
    seconds: f64,
    paragraphs: Vec<String>,
    tables: Vec<Table>,
    faults: BTreeMap<String, Fault>,
}

impl Figures {
    /// The paragraphs, then the tables.
    pub(crate) fn write_into(&self, page: &mut String) {
        for paragraph in &self.paragraphs {
            let _ = writeln!(page, "{paragraph}\n");
        }
        for table in &self.tables {
            page.push_str(&markdown(table));
        }
    }
}

#[derive(Deserialize)]
struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct Fault {
    seen: u64,
    of: u64,
    in_control: u64,
    control_of: u64,
}

pub(crate) fn run(workspace: &Workspace, effort: Effort) -> Result<(), Error> {
    let mut steps = Steps::default();
    let verdict = prove(workspace, effort, &mut steps);
    steps.print();
    verdict
}

fn prove(workspace: &Workspace, effort: Effort, steps: &mut Steps) -> Result<(), Error> {
    let figures = workspace.root.join(FIGURES);
    // What an earlier run left says nothing about this one.
    if figures.exists() {
        fs::remove_dir_all(&figures).map_err(|source| Error::File { path: figures.clone(), source })?;
    }
    cargo(steps, workspace, "build", &format!("build --profile proof --bin zuno --bin racer {PROOFS}"), &[])?;
    let level = match effort {
        Effort::Plain => "plain",
        Effort::Long => "long",
    };
    let folder = figures.display().to_string();
    let variables = [("ZUNO_PROOF_DIR", folder.as_str()), ("ZUNO_PROOF", level)];
    let run = format!("nextest run --cargo-profile proof {PROOFS}");
    let proofs = format!("{run} --profile prove --run-ignored only --filterset test(/(^|::)prove_/)");
    cargo(steps, workspace, "proofs", &proofs, &variables)?;
    cargo(steps, workspace, "incidents", &format!("{run} --filterset test(/^incidents::/)"), &[])?;
    steps.run("page", || write_page(workspace, &figures, effort))
}

pub(crate) fn cargo(
    steps: &mut Steps,
    workspace: &Workspace,
    name: &'static str,
    line: &str,
    variables: &[(&str, &str)],
) -> Result<(), Error> {
    steps.cargo_with(workspace, name, &line.split(' ').collect::<Vec<_>>(), variables)
}

fn write_page(workspace: &Workspace, figures: &Path, effort: Effort) -> Result<(), Error> {
    let mut found = BTreeMap::new();
    for (part, _) in PARTS {
        let path = figures.join(format!("{part}.json"));
        let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        found.insert(part, serde_json::from_str::<Figures>(&text)?);
    }
    let mut page = page(&found, effort);
    page.push_str(&incidents(&workspace.read(INCIDENTS)?));
    let path = workspace.root.join(PAGE);
    fs::write(&path, page).map_err(|source| Error::File { path, source })?;
    println!("   {PAGE}");
    Ok(())
}

fn page(found: &BTreeMap<&str, Figures>, effort: Effort) -> String {
    let mut page = String::from("# What is guaranteed, and how it is proved\n\n");
    let verb = match effort {
        Effort::Plain => "cargo xtask prove",
        Effort::Long => "cargo xtask prove --long",
    };
    let _ = writeln!(
        page,
        "`{verb}` wrote this page from what its proofs counted. Each proof runs beside a control that lacks the \
         protection in question and has to fail.\n"
    );
    page.push_str("| fault | seen | in the control |\n|---|---|---|\n");
    for (name, meaning) in FAULTS {
        let faults = || found.values().filter_map(|part| part.faults.get(name));
        let sum = |figure: fn(&Fault) -> u64| faults().map(figure).sum::<u64>();
        let _ = writeln!(
            page,
            "| **{}**: {meaning} | {} in {} | {} in {} |",
            name.replace('_', "-"),
            sum(|fault| fault.seen),
            sum(|fault| fault.of),
            sum(|fault| fault.in_control),
            sum(|fault| fault.control_of)
        );
    }
    for (part, heading) in PARTS {
        let Some(figures) = found.get(part) else { continue };
        let _ = writeln!(page, "\n## {heading}\n");
        figures.write_into(&mut page);
        let took = Duration::from_secs_f64(figures.seconds.max(0.0)).as_secs();
        let _ = writeln!(page, "Took {took} s.");
    }
    page
}

/// The tests that play what was reported of agents in the field, by their names: a rule id and a sentence.
fn incidents(source: &str) -> String {
    let mut text = format!(
        "\n## Published incidents\n\nWhat agents in the field were reported to do, each played to its end by one test of \
         `{INCIDENTS}`, all of which passed before this page was written:\n\n"
    );
    let mut is_test = false;
    for line in source.lines() {
        let name = line.trim_start().strip_prefix("async fn ").and_then(|rest| rest.split_once('('));
        if let Some((name, _)) = name.filter(|_| is_test) {
            let is_rule = |word: &&str| {
                let (letter, number) = word.split_at(1.min(word.len()));
                letter.chars().all(|c| c.is_ascii_lowercase())
                    && !number.is_empty()
                    && number.chars().all(|c| c.is_ascii_digit())
            };
            let words: Vec<_> = name.split('_').collect();
            let rules: Vec<_> =
                words.iter().take_while(|word| is_rule(word)).map(|word| word.to_uppercase()).collect();
            let _ = writeln!(text, "- **{}** {}", rules.join(", "), words[rules.len()..].join(" "));
        }
        is_test = line.contains("#[tokio::test]");
    }
    text
}

fn markdown(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = format!("{}:\n\n", table.caption);
    text.push_str(&line(&table.columns));
    let _ = writeln!(text, "|{}", "---|".repeat(table.columns.len()));
    for row in &table.rows {
        text.push_str(&line(row));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_is_a_test_told_by_its_name() {
        let source = "#[tokio::test]\nasync fn g4_t6_a_budget_of_500_holds() {}\nasync fn status() {}\n";
        assert!(incidents(source).ends_with("\n\n- **G4, T6** a budget of 500 holds\n"));
    }

    #[test]
    fn the_page_sums_the_faults_and_shows_each_part() {
        let figures = |seen: u64, in_control: u64| Figures {
            seconds: 61.4,
            paragraphs: vec!["Seeds 1 to 3.".to_owned()],
            tables: vec![Table {
                caption: "Slices".to_owned(),
                columns: vec!["slice".to_owned(), "states".to_owned()],
                rows: vec![vec!["a|b".to_owned(), "7".to_owned()]],
            }],
            faults: [("lost".to_owned(), Fault { seen, of: 10, in_control, control_of: 5 })].into(),
        };
        let found = [("simulation", figures(0, 2)), ("processes", figures(0, 3))].into();
        let page = page(&found, Effort::Plain);
        assert!(page.contains("| 0 in 20 | 5 in 10 |"), "{page}");
        assert!(page.contains("## Deterministic simulation\n\nSeeds 1 to 3.\n\nSlices:\n\n| slice | states |\n|---|---|\n| a\\|b | 7 |\n"), "{page}");
        assert!(page.contains("## Real processes") && page.contains("Took 61 s."), "{page}");
    }
}
