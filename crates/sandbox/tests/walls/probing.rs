//! What the probe finds on this machine.

use std::fmt::Write as _;

use sandbox::{Level, probe};

use crate::house::{launcher, parent};

#[test]
fn c6_every_wall_of_this_machine_holds() {
    for level in [Level::Full, Level::Landlock] {
        let scratch = parent();
        let findings = probe(&launcher(), level, scratch.path()).unwrap();
        let mut open = String::new();
        for finding in findings.iter().filter(|finding| !finding.holds) {
            let _ = writeln!(open, "{}: {}", finding.wall, finding.detail);
        }
        assert!(open.is_empty(), "{level:?}\n{open}");
    }
}
