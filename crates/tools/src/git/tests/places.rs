//! Repositories in other places than a `.git` folder at the root of the workspace.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use super::*;
use crate::Workspace;

/// The fixture with another folder as its workspace.
fn moved(mut fixture: Fixture, path: &str) -> Fixture {
    fixture.workspace = Arc::new(Workspace::open(&fixture.path(path)).unwrap());
    fixture
}

/// Somebody else's repository, beside the workspace.
fn neighbour(fixture: &Fixture) {
    git_in(&fixture.outside(), &["init", "-q"]);
    std::fs::write(fixture.outside().join("private"), "private\n").unwrap();
    git_in(&fixture.outside(), &["add", "-A"]);
    git_in(&fixture.outside(), &["commit", "-q", "-m", "private"]);
}

async fn refused(fixture: &Fixture) -> String {
    let text = fixture.refused("git_log", json!({})).await;
    let outside = fixture.outside().canonicalize().unwrap();
    let text = text.replace(&outside.display().to_string(), "OUTSIDE");
    text.replace(&fixture.root().display().to_string(), "ROOT")
}

#[tokio::test]
async fn of_a_repository_around_the_workspace_only_what_lies_beneath_is_shown() {
    let fixture = project();
    fixture.write("src/fresh", "");
    fixture.write("outside", "");
    fixture.write("src/a.rs", "fn three() {}\n");
    let fixture = moved(fixture, "src");
    assert_eq!(fixture.ok("git_status", json!({})).await, "## main\n M a.rs\n?? fresh");
    let text = fixture.ok("git_show", json!({})).await;
    assert!(text.contains("+++ b/a.rs") && !text.contains("secret") && !text.contains("new.txt"), "{text}");
    assert!(fixture.ok("git_diff", json!({})).await.contains("+fn three() {}"));
    let text = fixture.ok("git_show", json!({ "rev": "HEAD:" })).await;
    assert_eq!(text, "tree HEAD:.\n\na.rs");
    assert!(fixture.ok("git_blame", json!({ "path": "a.rs" })).await.contains("fn three"));
    for path in ["../secrets/key", "secrets/key"] {
        fixture.refused("git_show", json!({ "rev": format!("HEAD:{path}") })).await;
    }
}

#[tokio::test]
async fn a_linked_working_tree_is_read_if_its_repository_names_it() {
    let fixture = project();
    git(&fixture, &["worktree", "add", "-q", "-b", "side", "../side"]);
    let fixture = moved(fixture, "../side");
    assert!(fixture.ok("git_status", json!({})).await.starts_with("## side\n"));
    assert!(fixture.ok("git_log", json!({})).await.contains("Change two"));
    // The file alone, copied elsewhere, opens nothing.
    let stolen = Fixture::new();
    std::fs::copy(fixture.path(".git"), stolen.path(".git")).unwrap();
    let text = stolen.refused("git_log", json!({})).await;
    assert!(text.contains("does not name") && text.contains("so it is not read"), "{text}");
}

#[tokio::test]
async fn a_submodule_is_read_if_its_repository_names_it() {
    let fixture = project();
    neighbour(&fixture);
    git(&fixture, &["submodule", "--quiet", "add", "../outside", "module"]);
    let fixture = moved(fixture, "module");
    assert!(fixture.ok("git_log", json!({})).await.contains("private"));
}

/// A name and what makes the repository.
type Case = (&'static str, fn(&Fixture));

#[tokio::test]
async fn pointers_out_of_the_workspace_are_refused() {
    let mut texts = Vec::new();
    let cases: [Case; 9] = [
        ("a file", |fixture| drop(fixture.write(".git", "gitdir: ../outside/.git\n"))),
        ("a link", |fixture| symlink(fixture.outside().join(".git"), fixture.path(".git")).unwrap()),
        ("objects", |fixture| {
            git(fixture, &["init", "-q"]);
            std::fs::remove_dir_all(fixture.path(".git/objects")).unwrap();
            symlink(fixture.outside().join(".git/objects"), fixture.path(".git/objects")).unwrap();
        }),
        ("a ref", |fixture| {
            git(fixture, &["init", "-q"]);
            symlink(fixture.outside().join("private"), fixture.path(".git/refs/heads/main")).unwrap();
        }),
        ("alternates", |fixture| {
            git(fixture, &["init", "-q"]);
            let objects = fixture.outside().join(".git/objects");
            fixture.write(".git/objects/info/alternates", format!("{}\n", objects.display()));
        }),
        ("alternates behind a comment", |fixture| {
            git(fixture, &["init", "-q"]);
            fixture.write(".git/objects/info/alternates", b"# caf\xe9\n../../../outside/.git/objects\n");
        }),
        ("quoted alternates", |fixture| {
            git(fixture, &["init", "-q"]);
            fixture.write(".git/objects/info/alternates", "\"../../../\\157utside/.git/objects\"\n");
        }),
        ("commondir", |fixture| {
            git(fixture, &["init", "-q"]);
            fixture.write(".git/commondir", "../../outside/.git\n");
        }),
        ("commondir with a blank", |fixture| {
            git(fixture, &["init", "-q"]);
            fixture.write(".git/common /HEAD", "");
            symlink(fixture.outside().join(".git"), fixture.path(".git/common")).unwrap();
            fixture.write(".git/commondir", "common \n");
        }),
    ];
    for (name, make) in cases {
        let fixture = Fixture::new();
        neighbour(&fixture);
        make(&fixture);
        texts.push(format!("{name}: {}", refused(&fixture).await));
    }
    insta::assert_snapshot!(texts.join("\n"), @r"
    a file: .git points to OUTSIDE/.git, outside the workspace, and that repository does not name ROOT as a working tree or submodule of its own, so it is not read; `git worktree repair` mends a tree that was moved
    a link: .git is a symbolic link to OUTSIDE/.git, outside of its working tree, which is refused; the user can make a linked working tree with `git worktree add` instead
    objects: ROOT/.git/objects leads outside the workspace, so the repository is not read
    a ref: ROOT/.git/refs/heads/main leads outside the workspace, so the repository is not read
    alternates: the repository borrows objects from OUTSIDE/.git/objects (objects/info/alternates), outside the workspace, so it is not read; `git repack -a -d` and then removing that file makes it stand alone
    alternates behind a comment: the repository borrows objects from OUTSIDE/.git/objects (objects/info/alternates), outside the workspace, so it is not read; `git repack -a -d` and then removing that file makes it stand alone
    quoted alternates: the repository borrows objects from OUTSIDE/.git/objects (objects/info/alternates), outside the workspace, so it is not read; `git repack -a -d` and then removing that file makes it stand alone
    commondir: ROOT/.git shares the repository OUTSIDE/.git, outside the workspace, so it is not read
    commondir with a blank: ROOT/.git shares the repository OUTSIDE/.git, outside the workspace, so it is not read
    ");
}

#[tokio::test]
async fn a_file_behind_a_link_is_not_a_file_of_the_repository() {
    let fixture = project();
    std::fs::remove_dir_all(fixture.path("src")).unwrap();
    fixture.write("secrets/a.rs", "secret\n");
    symlink("secrets", fixture.path("src")).unwrap();
    let text = fixture.ok("git_status", json!({})).await;
    assert!(text.contains(" D src/a.rs"), "{text}");
    assert!(!fixture.ok("git_diff", json!({ "path": "src/a.rs" })).await.contains("secret"));
}

#[tokio::test]
async fn bare_shallow_and_foreign_repositories_are_told_apart() {
    let fixture = Fixture::new();
    let text = refused(&fixture).await;
    assert_eq!(text, "the workspace is not in a git repository: there is no .git in it or above it");

    neighbour(&fixture);
    git(&fixture, &["clone", "-q", "--bare", "../outside", "."]);
    assert!(fixture.ok("git_log", json!({})).await.contains("private"));
    let text = fixture.refused("git_status", json!({})).await;
    assert!(text.starts_with("the repository is bare"), "{text}");

    let full = project();
    let fixture = Fixture::new();
    let url = format!("file://{}", full.root().display());
    git(&fixture, &["clone", "-q", "--depth", "1", &url, "."]);
    let status = fixture.ok("git_status", json!({})).await;
    assert!(status.contains("## main...origin/main\n[shallow clone"), "{status}");
    assert_eq!(fixture.ok("git_log", json!({ "oneline": true })).await.lines().count(), 1);
    assert!(fixture.ok("git_show", json!({})).await.contains("the parent was not fetched"));
    assert!(fixture.ok("git_blame", json!({ "path": "new.txt" })).await.contains("zeta"));
    assert!(fixture.refused("git_log", json!({ "rev": "HEAD~1" })).await.contains("the clone is shallow"));

    let fixture = Fixture::new();
    git(&fixture, &["init", "-q", "--object-format=sha256"]);
    assert_eq!(
        refused(&fixture).await,
        "the repository names objects by sha256, which is not supported; sha1 is"
    );
}

#[tokio::test]
async fn big_files_are_described() {
    let fixture = project();
    fixture.write("big", "line\n".repeat(1_000_000));
    commit(&fixture, "big");
    let text = fixture.ok("git_show", json!({})).await;
    assert!(text.contains("Big files differ (0 bytes to 5000000 bytes), not compared"), "{text}");
    let text = fixture.refused("git_blame", json!({ "path": "big" })).await;
    assert_eq!(text, "big has 5000000 bytes, too many to compare line by line");
}
