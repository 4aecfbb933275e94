//! Everything that a repository can make git run, and that runs nowhere here.

use super::*;

#[tokio::test]
async fn no_program_of_the_configuration_is_run() {
    let fixture = project();
    let marks = fixture.outside().join("marks");
    std::fs::create_dir(&marks).unwrap();
    let program = |name: &str| {
        let path = fixture.outside().join(name);
        let text = format!("#!/bin/sh\ntouch {}/{name}\ncat\n", marks.display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let hooks = fixture.outside().join("hooks");
    std::fs::create_dir(&hooks).unwrap();
    for hook in ["post-index-change", "reference-transaction", "fsmonitor-watchman"] {
        std::fs::copy(program("hook"), hooks.join(hook)).unwrap();
    }
    let included = fixture.outside().join("included");
    std::fs::write(&included, format!("[core]\n\tfsmonitor = {}\n", program("included"))).unwrap();
    fixture.write(".gitattributes", "* filter=evil diff=evil\nnew.txt diff=text\n");
    commit(&fixture, "attributes");
    let hooks = hooks.display().to_string();
    let included = included.display().to_string();
    let command = program("command");
    for (key, value) in [
        ("filter.evil.clean", program("clean").as_str()),
        ("filter.evil.smudge", program("smudge").as_str()),
        ("filter.evil.process", program("process").as_str()),
        ("filter.evil.required", "true"),
        ("diff.evil.command", &command),
        ("diff.text.textconv", &program("textconv")),
        ("diff.external", &program("external")),
        ("core.fsmonitor", &program("fsmonitor")),
        ("core.hooksPath", &hooks),
        ("core.pager", &program("pager")),
        ("core.sshCommand", &program("ssh")),
        ("core.editor", &program("editor")),
        ("core.attributesFile", &program("attributes")),
        ("core.excludesFile", &program("excludes")),
        ("gpg.program", &program("gpg")),
        ("log.showSignature", "true"),
        ("credential.helper", &program("credential")),
        ("interactive.diffFilter", &program("interactive")),
        ("alias.status", &format!("!{}", program("alias"))),
        ("include.path", &included),
    ] {
        std::fs::OpenOptions::new()
            .append(true)
            .open(fixture.path(".git/config"))
            .and_then(|mut config| {
                use std::io::Write as _;
                let (section, name) = key.rsplit_once('.').unwrap();
                let section = match section.split_once('.') {
                    Some((section, sub)) => format!("{section} \"{sub}\""),
                    None => section.to_owned(),
                };
                writeln!(config, "[{section}]\n\t{name} = \"{value}\"")
            })
            .unwrap();
    }
    fixture.write("src/a.rs", "fn changed() {}\n");
    fixture.write("new.txt", "alpha\nbeta\n");
    let status = fixture.ok("git_status", json!({})).await;
    assert!(status.contains("stored through a filter program") && status.contains("src/a.rs"), "{status}");
    for (tool, arguments) in [
        ("git_log", json!({ "path": "new.txt" })),
        ("git_diff", json!({})),
        ("git_diff", json!({ "staged": true })),
        ("git_diff", json!({ "rev": "HEAD~1" })),
        ("git_diff", json!({ "rev": "HEAD~1..HEAD", "stat": true })),
        ("git_show", json!({})),
        ("git_show", json!({ "rev": "HEAD:new.txt" })),
        ("git_blame", json!({ "path": "new.txt" })),
        ("git_blame", json!({ "path": "src/a.rs" })),
    ] {
        fixture.ok(tool, arguments).await;
    }
    let ran: Vec<_> = std::fs::read_dir(&marks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(ran.is_empty(), "{ran:?}");
    // The control: git itself runs some of them.
    let _ = Command::new("git").args(["diff"]).current_dir(fixture.root()).output().unwrap();
    assert!(std::fs::read_dir(&marks).unwrap().count() > 0);
}
