//! The `zuno` to test: the one that was built together with the tests, from the sources as they are, with the crash
//! points of the store.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

/// What a `zuno` holds that can be stopped at a commit, and none that people use.
const CRASH_POINTS: &str = "ZUNO_CRASH_POINT";

/// The program. It stands beside the test's own binary. `cargo xtask test` builds both together; where only the tests
/// were built and it is missing, out of date or of another build, it is built here.
pub(crate) fn zuno() -> &'static Path {
    static ZUNO: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = profile_folder().join("zuno");
        if let Some(why) = needs_build(&path) {
            build(&why);
            assert_eq!(needs_build(&path), None, "cargo built another file than {}", path.display());
        }
        path
    });
    &ZUNO
}

/// `target/debug` or its like. Test binaries stand in its `deps`, programs in itself.
fn profile_folder() -> PathBuf {
    let this = env::current_exe().unwrap();
    let folder = this.parent().unwrap();
    if folder.ends_with("deps") { folder.parent().unwrap().to_owned() } else { folder.to_owned() }
}

/// Why the program cannot be used as it is. Cargo lists its sources beside it.
fn needs_build(path: &Path) -> Option<String> {
    let Ok(built) = fs::metadata(path).and_then(|found| found.modified()) else {
        return Some(format!("{} does not exist", path.display()));
    };
    let sources = fs::read_to_string(path.with_extension("d")).unwrap_or_default();
    // A space in a path is escaped.
    let sources = sources.replace("\\ ", "\0");
    let mut sources = sources.split_whitespace().skip(1).map(|source| source.replace('\0', " "));
    let newer = |source: &String| {
        fs::metadata(source).and_then(|found| found.modified()).is_ok_and(|changed| changed > built)
    };
    if let Some(source) = sources.find(newer) {
        return Some(format!("{source} changed after {}", path.display()));
    }
    let found = Command::new("grep").args(["--quiet", "--fixed-strings", CRASH_POINTS]).arg(path).status();
    (!found.unwrap().success()).then(|| format!("{} was built without crash points", path.display()))
}

fn build(why: &str) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = profile_folder().parent().unwrap().to_owned();
    let profile = profile_folder().file_name().unwrap().to_owned();
    let mut command = Command::new(cargo);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
    // Together with this package, whose features give the program its crash points.
    command.args(["build", "--package", "cli", "--package", "tests", "--bin", "zuno"]);
    command.arg("--target-dir").arg(target);
    if profile != "debug" {
        command.arg("--profile").arg(profile);
    }
    let status = command.status().unwrap();
    assert!(
        status.success(),
        "{why}, and it could not be built; try `cargo build --workspace --all-targets`"
    );
}
