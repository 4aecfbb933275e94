//! What the answer of a walled command says about its walls.
//!
//! The kernel tells nobody that a wall refused something: a program sees an ordinary error, and a model would look for
//! the cause in its own work. So after a failure with such an error in its output one line says what the walls are.

use std::fmt::Write as _;
use std::path::PathBuf;

use sandbox::{Level, Sandbox};

/// What programs print when the file system or a system call refuses.
const REFUSED: [&str; 6] =
    ["Permission denied", "Operation not permitted", "Read-only file system", "EACCES", "EPERM", "EROFS"];

/// What programs print when there is no way out.
const UNREACHABLE: [&str; 9] = [
    "Network is unreachable",
    "Could not resolve",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Failed to resolve",
    "failed to lookup address",
    "ENETUNREACH",
    "EAI_AGAIN",
    "ENOTFOUND",
];

/// What a command could plant for whoever comes after it.
pub(crate) struct Unprotected(Vec<PathBuf>);

impl Unprotected {
    /// What of it is not there yet.
    pub(crate) fn before(walls: Option<&Sandbox>) -> Self {
        Self(walls.map(Sandbox::unprotected).unwrap_or_default())
    }

    /// Mentions what has appeared.
    pub(crate) fn mention_in(&self, text: &mut String) {
        let appeared = self.0.iter().filter(|path| path.symlink_metadata().is_ok());
        let appeared: Vec<_> = appeared.map(|path| path.display().to_string()).collect();
        if !appeared.is_empty() {
            let _ = write!(
                text,
                "\n[{} appeared while this command ran, and from now on is protected from commands. Git or Zuno acts on \
                 what stands there: tell the user if this command was not meant to make it]",
                appeared.join(", ")
            );
        }
    }
}

/// Mentions the walls after a failure that they may have caused.
pub(crate) fn mention_cause(walls: &Sandbox, network: bool, output: &str, text: &mut String) {
    let holds = |marks: &[&str]| marks.iter().any(|mark| output.contains(mark));
    if holds(&REFUSED) {
        let places: Vec<_> = walls.writable().map(|path| path.display().to_string()).collect();
        let more = match walls.level() {
            Level::Full => ", but not to .git/config, .git/hooks and .zuno, and connect to no UNIX socket",
            Level::Landlock => {
                ", change no mode, owner or time of a file, and use no internet socket, not even on 127.0.0.1"
            }
        };
        let _ = write!(
            text,
            "\n[this may be the sandbox: commands write only beneath {} and $TMPDIR{more}. What must go elsewhere is for \
             the user to do]",
            places.join(", ")
        );
    }
    if !network && holds(&UNREACHABLE) {
        text.push_str(
            "\n[this may be the sandbox: commands reach nothing but 127.0.0.1. Send the call again with \
             needs: [\"network\"] if it has to; that asks the user]",
        );
    }
}

#[cfg(test)]
mod tests {
    use sandbox::{Launcher, Limits, Places};

    use super::*;
    use crate::fixture::Fixture;

    fn walls(fixture: &Fixture) -> Sandbox {
        let launcher = Launcher { program: "/proc/self/exe".into(), arguments: Vec::new() };
        let places = Places {
            workspace: fixture.root(),
            temp: fixture.outside().join("temp"),
            writable: Vec::new(),
            hidden: Vec::new(),
        };
        Sandbox::new(launcher, Level::Full, &places, Limits::default()).unwrap()
    }

    #[test]
    fn a_failure_that_looks_like_the_wall_says_how_to_ask() {
        let fixture = Fixture::new();
        let walls = walls(&fixture);
        let mentioned = |network, output: &str| {
            let mut text = String::new();
            mention_cause(&walls, network, output, &mut text);
            text.replace(&fixture.root().display().to_string(), "ROOT")
        };
        insta::assert_snapshot!(
            mentioned(false, "curl: (6) Could not resolve host: a\nsh: cannot create /x: Read-only file system"),
            @r#"

        [this may be the sandbox: commands write only beneath ROOT and $TMPDIR, but not to .git/config, .git/hooks and .zuno, and connect to no UNIX socket. What must go elsewhere is for the user to do]
        [this may be the sandbox: commands reach nothing but 127.0.0.1. Send the call again with needs: ["network"] if it has to; that asks the user]
        "#
        );
        assert_eq!(mentioned(true, "curl: (6) Could not resolve host: a"), "");
        assert_eq!(mentioned(false, "1 test failed"), "");
    }

    #[test]
    fn what_appears_and_could_not_be_protected_is_mentioned() {
        let fixture = Fixture::new();
        let before = Unprotected::before(Some(&walls(&fixture)));
        let mut text = String::new();
        before.mention_in(&mut text);
        assert_eq!(text, "");
        fixture.write(".git/config", "");
        before.mention_in(&mut text);
        assert!(text.contains("/.git appeared while this command ran"), "{text}");
    }
}
