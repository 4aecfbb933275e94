//! Keeps with which compiler, and how, the program is built: figures mean nothing without it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let said = Command::new(variable("RUSTC")).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // `rustc 1.95.0 (hash date)`
    let version = said.split_whitespace().nth(1).unwrap_or("of an unknown version");
    println!("cargo::rustc-env=BENCH_RUSTC={version}");
    println!("cargo::rustc-env=BENCH_OPT_LEVEL={}", variable("OPT_LEVEL"));
}
