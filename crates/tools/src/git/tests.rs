//! Repositories made by git itself, read by these tools.

mod odd_files;
mod places;
mod programs;

use std::path::Path;
use std::process::Command;

use agents::Verdict;
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Runs git in a folder, with nothing of this machine's configuration and a clock that stands still.
fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "user.name=Ann Lee",
            "-c",
            "user.email=ann@example.org",
        ])
        .args(["-c", "protocol.file.allow=always", "-c", "commit.gpgSign=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "2024-02-03T04:05:06+0100")
        .env("GIT_COMMITTER_DATE", "2024-02-03T04:05:06+0100")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || arguments[0] == "merge", "git {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn git(fixture: &Fixture, arguments: &[&str]) -> String {
    git_in(&fixture.root(), arguments)
}

fn commit(fixture: &Fixture, message: &str) -> String {
    git(fixture, &["add", "-A"]);
    git(fixture, &["commit", "-q", "--allow-empty", "-m", message]);
    git(fixture, &["rev-parse", "HEAD"])
}

/// Two commits: the second changes, adds and renames.
fn project() -> Fixture {
    let fixture = Fixture::new();
    git(&fixture, &["init", "-q"]);
    fixture.write("src/a.rs", "fn one() {\n    1\n}\n\nfn two() {\n    2\n}\n");
    fixture.write("old.txt", "alpha\nbeta\ngamma\ndelta\nepsilon\n");
    fixture.write("secrets/key", "first secret\n");
    commit(&fixture, "Begin\n\nWith a body.");
    fixture.write("src/a.rs", "fn one() {\n    1\n}\n\nfn two() {\n    22\n}\n");
    std::fs::rename(fixture.path("old.txt"), fixture.path("new.txt")).unwrap();
    fixture.write("new.txt", "alpha\nbeta\ngamma\ndelta\nzeta\n");
    fixture.write("secrets/key", "second secret\n");
    fixture.write("image", b"\x89PNG\0\x01");
    commit(&fixture, "Change two");
    fixture
}

/// An answer with the hashes of a repository made alike.
fn masked(text: &str) -> String {
    let is_hash = |word: &str| word.len() >= 7 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut masked = String::new();
    for piece in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let rest = &piece[word.len()..];
        masked.push_str(if is_hash(word) { "HASH" } else { word });
        masked.push_str(rest);
    }
    // An empty line of context is a blank, which editors take away.
    masked.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_status_is_that_of_git() {
    let fixture = project();
    assert_eq!(fixture.ok("git_status", json!({})).await, "## main\n[nothing to commit, working tree clean]");
    fixture.write("src/a.rs", "fn three() {}\n");
    fixture.write("staged", "x\n");
    git(&fixture, &["add", "staged"]);
    fixture.write("staged", "y\n");
    git(&fixture, &["mv", "new.txt", "newer.txt"]);
    std::fs::remove_file(fixture.path("image")).unwrap();
    fixture.write("fresh/deep/file", "");
    fixture.write("src/b.rs", "");
    fixture.write(".gitignore", "ignored\n");
    fixture.write("ignored", "");
    let text = fixture.ok("git_status", json!({})).await;
    insta::assert_snapshot!(text, @r"
    ## main
    ?? .gitignore
    ?? fresh/
     D image
    R  new.txt -> newer.txt
     M src/a.rs
    ?? src/b.rs
    AM staged
    ");
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&text), lines(&git(&fixture, &["status", "--short", "--branch"])));
    let text = fixture.ok("git_status", json!({ "path": "src" })).await;
    assert_eq!(text, "## main\n M src/a.rs\n?? src/b.rs");
}

#[tokio::test]
async fn the_log_shows_commits_narrows_and_goes_on() {
    let fixture = project();
    insta::assert_snapshot!(masked(&fixture.ok("git_log", json!({})).await), @r"
    commit HASH (HEAD, main)
    Author: Ann Lee <ann@example.org>
    Date:   Sat Feb 3 04:05:06 2024 +0100

        Change two

    commit HASH
    Author: Ann Lee <ann@example.org>
    Date:   Sat Feb 3 04:05:06 2024 +0100

        Begin

        With a body.
    ");
    let check = async |arguments: Value, expected: &str| {
        assert_eq!(masked(&fixture.ok("git_log", arguments.clone()).await), expected, "{arguments}");
    };
    check(
        json!({ "oneline": true, "max_count": 1 }),
        "HASH 2024-02-03 (HEAD, main) Change two\n[there are more; go on with skip 1]",
    )
    .await;
    check(json!({ "oneline": true, "skip": 1 }), "HASH 2024-02-03 Begin").await;
    check(
        json!({ "oneline": true, "path": "old.txt" }),
        "HASH 2024-02-03 (HEAD, main) Change two\nHASH 2024-02-03 Begin",
    )
    .await;
    check(json!({ "oneline": true, "path": "image" }), "HASH 2024-02-03 (HEAD, main) Change two").await;
    check(json!({ "oneline": true, "grep": "BODY" }), "HASH 2024-02-03 Begin").await;
    check(
        json!({ "oneline": true, "author": "ann@", "rev": "HEAD~1..HEAD" }),
        "HASH 2024-02-03 (HEAD, main) Change two",
    )
    .await;
    check(json!({ "author": "nobody" }), "[no commit matches]").await;
}

#[tokio::test]
async fn a_diff_reads_as_gits_own() {
    let fixture = project();
    let ours = fixture.ok("git_diff", json!({ "rev": "HEAD~1..HEAD", "path": "src" })).await;
    assert_eq!(ours, git(&fixture, &["diff", "HEAD~1..HEAD", "--", "src"]));
    insta::assert_snapshot!(masked(&fixture.ok("git_diff", json!({ "from": "HEAD~1", "to": "HEAD" })).await), @r"
    diff --git a/image b/image
    new file mode 100644
    index HASH..HASH
    Binary files differ (0 bytes to 6 bytes)
    diff --git a/old.txt b/new.txt
    similarity index 74%
    rename from old.txt
    rename to new.txt
    index HASH..HASH 100644
    --- a/old.txt
    +++ b/new.txt
    @@ -2,4 +2,4 @@ alpha
     beta
     gamma
     delta
    -epsilon
    +zeta
    diff --git a/secrets/key b/secrets/key
    index HASH..HASH 100644
    --- a/secrets/key
    +++ b/secrets/key
    @@ -1 +1 @@
    -first secret
    +second secret
    diff --git a/src/a.rs b/src/a.rs
    index HASH..HASH 100644
    --- a/src/a.rs
    +++ b/src/a.rs
    @@ -3,5 +3,5 @@ fn one() {
     }

     fn two() {
    -    2
    +    22
     }
    ");
    insta::assert_snapshot!(fixture.ok("git_diff", json!({ "rev": "HEAD~1 HEAD", "stat": true })).await, @r"
    image              |  Bin
    old.txt => new.txt |    2 +-
    secrets/key        |    2 +-
    src/a.rs           |    2 +-
    4 files changed, 3 insertions(+), 3 deletions(-)
    ");
    assert_eq!(fixture.ok("git_diff", json!({})).await, "[no differences]");
    fixture.write("src/a.rs", "fn one() {\n    1\n}\n\nfn two() {\n    22\n}\nend");
    let ours = fixture.ok("git_diff", json!({ "context": 1 })).await;
    assert_eq!(ours, git(&fixture, &["diff", "-U1"]));
    assert_eq!(fixture.ok("git_diff", json!({ "staged": true })).await, "[no differences]");
    git(&fixture, &["add", "-A"]);
    assert_eq!(fixture.ok("git_diff", json!({ "cached": true })).await, git(&fixture, &["diff", "--cached"]));
    assert_eq!(fixture.ok("git_diff", json!({ "rev": "HEAD" })).await, git(&fixture, &["diff", "HEAD"]));
    let page = fixture.ok("git_diff", json!({ "rev": "HEAD", "limit": 2 })).await;
    assert!(page.ends_with("continue with offset 3, or narrow by path]"), "{page}");
}

#[tokio::test]
async fn a_commit_a_tag_a_file_and_a_folder_are_shown() {
    let fixture = project();
    git(&fixture, &["tag", "-a", "v1", "-m", "The first."]);
    insta::assert_snapshot!(masked(&fixture.ok("git_show", json!({ "rev": "v1", "stat": true })).await), @r"
    tag v1
    Tagger: Ann Lee <ann@example.org>
    Date:   Sat Feb 3 04:05:06 2024 +0100

    The first.

    commit HASH
    Author: Ann Lee <ann@example.org>
    Date:   Sat Feb 3 04:05:06 2024 +0100

        Change two

     image              |  Bin
     old.txt => new.txt |    2 +-
     secrets/key        |    2 +-
     src/a.rs           |    2 +-
     4 files changed, 3 insertions(+), 3 deletions(-)
    ");
    let check = async |arguments: Value, expected: &str| {
        assert_eq!(masked(&fixture.ok("git_show", arguments.clone()).await), expected, "{arguments}");
    };
    check(
        json!({ "rev": "HEAD~1:old.txt", "offset": 2, "limit": 1 }),
        "beta\n[lines 2 to 2 of 5; continue with offset 3, or narrow by path]",
    )
    .await;
    check(json!({ "rev": "HEAD:image" }), "[binary file, 6 bytes, not shown]").await;
    check(json!({ "rev": "HEAD:" }), "tree HEAD:.\n\nimage\nnew.txt\nsecrets/\nsrc/").await;
    let text = fixture.refused("git_show", json!({ "rev": "HEAD:old.txt" })).await;
    assert!(text.starts_with("old.txt does not exist in HEAD; git_show HEAD:. lists"), "{text}");
}

#[tokio::test]
async fn a_blame_tells_the_commit_of_each_line() {
    let fixture = project();
    fixture.write("src/a.rs", "fn one() {\n    1\n}\n\nfn two() {\n    22\n}\nmore\n");
    insta::assert_snapshot!(masked(&fixture.ok("git_blame", json!({ "path": "src/a.rs", "start_line": 5 })).await), @r"
    ^HASH (Ann Lee 2024-02-03 04:05:06 +0100    5) fn two() {
    HASH (Ann Lee 2024-02-03 04:05:06 +0100    6)     22
    ^HASH (Ann Lee 2024-02-03 04:05:06 +0100    7) }
    HASH (Not Committed Yet    8) more
    ");
    insta::assert_snapshot!(masked(&fixture.ok("git_blame", json!({ "path": "new.txt", "rev": "HEAD" })).await), @r"
    ^HASH old.txt (Ann Lee 2024-02-03 04:05:06 +0100    1) alpha
    ^HASH old.txt (Ann Lee 2024-02-03 04:05:06 +0100    2) beta
    ^HASH old.txt (Ann Lee 2024-02-03 04:05:06 +0100    3) gamma
    ^HASH old.txt (Ann Lee 2024-02-03 04:05:06 +0100    4) delta
    HASH (Ann Lee 2024-02-03 04:05:06 +0100    5) zeta
    ");
    let texts = [
        fixture.refused("git_blame", json!({ "path": "none" })).await,
        fixture.refused("git_blame", json!({ "path": "image" })).await,
        fixture.refused("git_blame", json!({ "path": "src/a.rs", "start_line": 9 })).await,
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    none is no file in HEAD; git_status tells whether it was ever committed, git_log with path when
    image is a binary file, which has no lines
    there are no lines 9 to 9: src/a.rs has 8 lines
    ");
}

#[tokio::test]
async fn a_revision_that_is_none_is_answered_with_the_nearest() {
    let fixture = project();
    git(&fixture, &["branch", "feature/login"]);
    git(&fixture, &["tag", "v1.0"]);
    let refused = async |rev: &str| fixture.refused("git_log", json!({ "rev": rev })).await;
    let texts = [
        refused("master").await,
        refused("login").await,
        refused("HEAD~9").await,
        refused("abcdef12").await,
        refused("--output=x").await,
        refused(":/Begin").await,
        fixture.refused("git_diff", json!({ "rev": "v1..v2.0" })).await,
        fixture.refused("git_show", json!({ "rev": "HEAD^{tree}" })).await,
    ];
    // What surrounds a revision is no way around its bound.
    let padded = json!({ "rev": " ".repeat(501) });
    assert_eq!(fixture.refused("git_show", padded).await, "the revision is longer than 500 bytes");
    insta::assert_snapshot!(texts.join("\n"), @r"
    unknown revision master; the nearest refs are: main, feature/login, v1.0; HEAD~N counts back from the latest commit
    unknown revision login; the nearest refs are: feature/login, main, v1.0; HEAD~N counts back from the latest commit
    HEAD~9 does not exist although HEAD does; git_log with rev HEAD shows the commits before it
    unknown revision abcdef12 (no commit, or more than one, begins with that hash); the nearest refs are: feature/login, main, v1.0; HEAD~N counts back from the latest commit
    --output=x is an option; only revisions such as HEAD~3, a branch or a hash are taken
    :/Begin searches messages or names a path, which is not taken here; git_log finds commits by message with grep
    unknown revision v1; the nearest refs are: v1.0, main, feature/login; HEAD~N counts back from the latest commit
    HEAD^{tree} is not a commit; name a commit, tag or branch, and a file in it as REVISION:PATH
    ");
}

#[tokio::test]
async fn conflicts_and_states_between_commits_are_told() {
    let fixture = Fixture::new();
    git(&fixture, &["init", "-q"]);
    assert_eq!(
        fixture.ok("git_status", json!({})).await,
        "## No commits yet on main\n[nothing to commit, working tree clean]"
    );
    let text = fixture.refused("git_log", json!({})).await;
    assert_eq!(text, "there is no commit yet; git_status shows the files");
    fixture.write("a", "1\n");
    git(&fixture, &["add", "a"]);
    assert_eq!(fixture.ok("git_status", json!({})).await, "## No commits yet on main\nA  a");
    commit(&fixture, "one");
    git(&fixture, &["checkout", "-q", "-b", "other"]);
    fixture.write("a", "theirs\n");
    commit(&fixture, "two");
    git(&fixture, &["checkout", "-q", "main"]);
    fixture.write("a", "ours\n");
    commit(&fixture, "three");
    git(&fixture, &["merge", "other"]);
    assert_eq!(fixture.ok("git_status", json!({})).await, "## main\n[in progress: merge]\nUU a");
    let text = fixture.ok("git_diff", json!({})).await;
    assert!(text.starts_with("* Unmerged path a\ndiff --git a/a b/a") && text.contains("+theirs"), "{text}");
    git(&fixture, &["merge", "--abort"]);
    git(&fixture, &["checkout", "-q", "--detach"]);
    let text = fixture.ok("git_status", json!({})).await;
    assert!(text.starts_with("## HEAD (no branch, at "), "{text}");
}

#[tokio::test]
async fn names_and_contents_that_are_not_utf8_are_shown_safely() {
    use std::os::unix::ffi::OsStrExt as _;
    let fixture = Fixture::new();
    git(&fixture, &["init", "-q"]);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9\n");
    std::fs::write(fixture.root().join(name), b"na\xefve \x1b[1m\n").unwrap();
    assert_eq!(fixture.ok("git_status", json!({})).await, "## No commits yet on main\n?? \"caf\\351\\n\"");
    commit(&fixture, "odd");
    let text = fixture.ok("git_show", json!({})).await;
    assert!(text.contains(r#"+++ "b/caf\351\n""#) && text.contains("+na\u{fffd}ve"), "{text}");
}

#[tokio::test]
async fn c2_no_reader_shows_content_that_may_not_be_read() {
    let fixture = project();
    fixture.write("secrets/key", "third secret\n");
    let call = async |rule: &str, tool: &str, arguments: Value| {
        fixture.within(Verdict::Deny, &[rule], tool, arguments).await
    };
    for rule in ["read_file secrets/**", "git_* secrets/**", "* secrets"] {
        for (tool, arguments) in [
            ("git_diff", json!({})),
            ("git_diff", json!({ "rev": "HEAD~1..HEAD" })),
            ("git_show", json!({})),
            ("git_log", json!({})),
            ("git_status", json!({})),
        ] {
            let text = call(rule, tool, arguments.clone()).await;
            assert!(!text.contains("secret\n"), "{rule} {tool} {arguments}: {text}");
            let is_named = text.contains("secrets/key");
            assert_eq!(is_named, rule.starts_with("read_file") && tool != "git_log", "{rule} {tool}: {text}");
        }
    }
    let text = call("read_file secrets/**", "git_show", json!({ "rev": "HEAD:secrets" })).await;
    assert_eq!(text, "tree HEAD:secrets\n\nkey");
    // What the call names is judged before it runs; should it run all the same, content stays away.
    let subject = fixture.prepare("git_show", json!({ "rev": "HEAD:secrets/key" })).await.unwrap().subject();
    assert_eq!(subject.paths, ["secrets/key"]);
}

#[tokio::test]
async fn a_stopped_reader_says_so() {
    let fixture = project();
    for (tool, arguments) in [
        ("git_status", json!({})),
        ("git_log", json!({})),
        ("git_diff", json!({})),
        ("git_show", json!({})),
        ("git_blame", json!({ "path": "new.txt" })),
    ] {
        assert!(fixture.stopped(tool, arguments).await.stopped, "{tool}");
    }
}
