//! The README's tour and the tables of the guide, held against the program.

use std::process::Stdio;

use crate::world::World;

const README: &str = include_str!("../../../../README.md");

/// Ids are other ones each time.
fn masked(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c == '-' || c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        out.push_str(if is_id(&word) { "ID" } else { &word });
        word.clear();
        out.push(c);
    }
    out.trim_end().to_owned()
}

/// The words of a command line; quotes hold some together.
fn words(line: &str) -> Vec<&str> {
    let pieces = line.split('"').enumerate();
    pieces
        .flat_map(|(at, piece)| match at % 2 {
            0 => piece.split_whitespace().collect::<Vec<_>>(),
            _ => vec![piece],
        })
        .collect()
}

#[test]
fn the_tour_of_the_readme_is_true_word_for_word() {
    let tour = README.split("## A quick tour").nth(1).unwrap();
    let tour = tour.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
    let world = World::new();
    let help = world.run(&["plan", "update", "--help"]).expect(0).stdout;
    let (start, end) = (help.find("{\"title\"").unwrap(), help.find("]}\n").unwrap());
    world.write("work/plan.json", &help[start..end + 2]);
    for step in tour.split("$ zuno ").skip(1) {
        let (line, expected) = step.split_once('\n').unwrap();
        let output = world.command(&words(line)).stdin(Stdio::null()).output().unwrap();
        let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert_eq!(masked(&told), masked(expected), "zuno {line}");
    }
}

#[test]
fn the_guide_names_every_kind_of_failure() {
    let guide = include_str!("../../../../docs/guide/configuration.md");
    for kind in domain::FailureKind::ALL {
        assert!(guide.contains(&format!("`{}`", kind.name())), "{}", kind.name());
    }
}
