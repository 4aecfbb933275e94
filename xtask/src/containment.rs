//! `containment`: plays the corpus of `tests/containment`, and writes `docs/reference/containment.md` from its figures.

use std::fmt::Write as _;
use std::fs;

use crate::error::Error;
use crate::prove::{FIGURES, Figures, cargo};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Where the page is, from the root.
const PAGE: &str = "docs/reference/containment.md";

/// The corpus, with the package of the program that plays it.
const CORPUS: &str = "--package tests --package cli --test containment";

pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    let mut steps = Steps::default();
    let verdict = play(workspace, &mut steps);
    steps.print();
    verdict
}

fn play(workspace: &Workspace, steps: &mut Steps) -> Result<(), Error> {
    let figures = workspace.root.join(FIGURES);
    cargo(steps, workspace, "build", &format!("build --bin zuno {CORPUS}"), &[])?;
    let folder = figures.display().to_string();
    let run =
        format!("nextest run {CORPUS} --profile prove --run-ignored only --filterset test(/(^|::)prove_/)");
    cargo(steps, workspace, "corpus", &run, &[("ZUNO_PROOF_DIR", &folder)])?;
    steps.run("page", || {
        let path = figures.join("containment.json");
        let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        let path = workspace.root.join(PAGE);
        fs::write(&path, page(&serde_json::from_str(&text)?))
            .map_err(|source| Error::File { path, source })?;
        println!("   {PAGE}");
        Ok(())
    })
}

fn page(figures: &Figures) -> String {
    let mut page = String::from("# What agents cannot get out of\n\n");
    page.push_str(
        "`cargo xtask containment` wrote this page from what the corpus in `tests/containment` came to. Its cases are lines of \
         data files; every one runs in the ordinary tests, too, and a test compares their number with this page.\n\n",
    );
    figures.write_into(&mut page);
    let _ = writeln!(
        page,
        "Kernel features are those of Linux; `zuno doctor` tries which of them this machine has."
    );
    page
}
