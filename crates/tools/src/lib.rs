//! The tools that act on a workspace: reading, searching, editing files and running commands.
//!
//! Each tool is one file and implements [`runtime::Tool`]: `prepare` decodes the arguments and looks, `run` acts.
//! File tools reach the disk only through a [`Workspace`], which no path can leave. Nothing here knows of sessions,
//! plans or Goals, and nothing here decides whether a call is allowed: a tool says what it needs and what it may
//! change, the turn loop does the rest.

mod arguments;
mod call;
mod capture;
mod edit_file;
mod git;
mod glob;
mod grep;
mod group;
mod guard;
mod guidance;
mod list_dir;
mod load_skill;
mod plain_file;
mod read_file;
mod replacement;
mod rule_files;
mod secrets;
mod seen;
mod shell;
mod skills;
mod version;
mod walk;
mod walls;
mod words;
mod workspace;
mod write_file;

#[cfg(test)]
mod fixture;

use std::sync::Arc;

pub use guidance::Guidance;
pub use secrets::Secrets;
pub use workspace::{Workspace, WorkspaceError};

/// Every tool of this crate on one workspace, in the order in which models are offered them.
///
/// Commands do not get the variables that hold `secrets`, nor others that look as if they held some. They run behind
/// `walls`; without any they can do what the user can, which is for the user to choose. The order never depends on
/// anything, because the list is part of the prefix that prompt caches key on.
pub fn all(
    workspace: Arc<Workspace>,
    secrets: Secrets,
    walls: Option<sandbox::Sandbox>,
) -> Vec<Arc<dyn runtime::Tool>> {
    let mut all: Vec<Arc<dyn runtime::Tool>> = vec![
        Arc::new(read_file::ReadFile::new(Arc::clone(&workspace))),
        Arc::new(list_dir::ListDir::new(Arc::clone(&workspace))),
        Arc::new(glob::Glob::new(Arc::clone(&workspace))),
        Arc::new(grep::Grep::new(Arc::clone(&workspace))),
    ];
    all.extend(git::all(&workspace));
    all.push(Arc::new(edit_file::EditFile::new(Arc::clone(&workspace))));
    all.push(Arc::new(write_file::WriteFile::new(Arc::clone(&workspace))));
    all.push(Arc::new(shell::Shell::new(workspace, secrets, walls)));
    all
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn the_tools_their_order_and_what_they_need() {
        let specs: Vec<_> = crate::all(Fixture::new().workspace.clone(), Secrets::default(), None)
            .iter()
            .map(|tool| format!("{} {:?}", tool.spec().name, tool.spec().requires))
            .collect();
        insta::assert_snapshot!(specs.join("\n"), @r"
        read_file {ReadWorkspace}
        list_dir {ReadWorkspace}
        glob {SearchWorkspace}
        grep {SearchWorkspace}
        git_status {ReadWorkspace}
        git_log {ReadWorkspace}
        git_diff {ReadWorkspace}
        git_show {ReadWorkspace}
        git_blame {ReadWorkspace}
        edit_file {WriteWorkspace}
        write_file {WriteWorkspace}
        shell {RunCommand}
        ");
    }

    #[tokio::test]
    async fn a_call_is_about_what_its_links_lead_to() {
        let fixture = Fixture::new();
        fixture.write("real/file", "x");
        std::os::unix::fs::symlink("real", fixture.path("dir")).unwrap();
        std::os::unix::fs::symlink("real/file", fixture.path("link")).unwrap();
        let subject = async |tool: &str, arguments: Value| {
            let subject = fixture.prepare(tool, arguments).await.unwrap().subject();
            format!("{tool} {:?} {:?}", subject.paths, subject.command.unwrap_or_default())
        };
        let found = [
            subject("read_file", json!({ "path": "link" })).await,
            subject("read_file", json!({ "path": fixture.path("dir/file") })).await,
            subject("read_file", json!({ "path": "dir/absent" })).await,
            subject("list_dir", json!({ "path": "./dir/" })).await,
            subject("list_dir", json!({})).await,
            subject("glob", json!({ "pattern": "*", "path": "dir" })).await,
            subject("glob", json!({ "pattern": "*" })).await,
            subject("grep", json!({ "pattern": "x", "path": "link" })).await,
            subject("edit_file", json!({ "path": "link", "old_string": "x", "new_string": "y" })).await,
            subject("edit_file", json!({ "path": "link", "old_string": "no", "new_string": "y" })).await,
            subject("write_file", json!({ "path": "dir/new", "content": "" })).await,
            subject("shell", json!({ "command": "ls | wc" })).await,
            subject("shell", json!({ "command": "ls", "workdir": "dir" })).await,
        ];
        insta::assert_snapshot!(found.join("\n"), @r#"
        read_file ["real/file"] ""
        read_file ["real/file"] ""
        read_file ["dir/absent"] ""
        list_dir ["real"] ""
        list_dir ["."] ""
        glob ["real"] ""
        glob ["."] ""
        grep ["real/file"] ""
        edit_file ["real/file"] ""
        edit_file ["real/file"] ""
        write_file ["real/new"] ""
        shell [] "ls | wc"
        shell ["real"] "ls"
        "#);
    }

    #[test]
    fn every_schema_is_strict_and_plain() {
        for tool in crate::all(Fixture::new().workspace.clone(), Secrets::default(), None) {
            let schema = &tool.spec().input_schema;
            assert_eq!(schema["additionalProperties"], false, "{schema}");
            assert_eq!(schema["type"], "object", "{schema}");
            for (key, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{key}: {property}");
                let items = match property["type"].as_str() {
                    Some("string" | "integer" | "boolean") => 0,
                    Some("array") if property["items"] == serde_json::json!({ "type": "string" }) => 1,
                    _ => panic!("{key}: {property}"),
                };
                assert_eq!(property.as_object().unwrap().len(), 2 + items, "{key}: {property}");
            }
        }
    }

    #[test]
    fn what_models_are_told() {
        let mut told = String::new();
        for tool in crate::all(Fixture::new().workspace.clone(), Secrets::default(), None) {
            let spec = tool.spec();
            let _ = writeln!(told, "{}: {}", spec.name, spec.description);
            let mut keys: Vec<_> = spec.input_schema["properties"].as_object().unwrap().iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            for (key, property) in keys {
                let required = spec.input_schema["required"]
                    .as_array()
                    .is_some_and(|all| all.contains(&(*key).clone().into()));
                let mark = if required { "" } else { "?" };
                let _ = writeln!(told, "  {key}{mark}: {}", property["description"].as_str().unwrap());
            }
        }
        insta::assert_snapshot!(told, @r#"
        read_file: Read a text file. Each line comes as its number, a tab and the text; number and tab are not part of the file. Shows up to 2000 lines from the start; for longer files give offset and limit. The last line of the answer says how many lines there are and how to go on.
          limit?: How many lines to show at most; 2000 if left out.
          offset?: Number of the first line to show; the first line of a file is 1.
          path: File to read, from the workspace root.
        list_dir: List a directory, one name per line, sorted. Directories end in /, symbolic links show where they point. Hidden and ignored files are included.
          path?: Directory to list, from the workspace root; the root if left out.
        glob: Find files by name. Answers with sorted paths from the workspace root. Files that .gitignore excludes and the .git directory are left out.
          path?: Directory to search, from the workspace root; the pattern is relative to it. The root if left out.
          pattern: Glob such as *.rs, src/**/*.ts or {a,b}/*.md; without a / it matches file names at any depth.
        grep: Search the lines of text files by regular expression. Answers with path:line:text, and path-line-text for context lines. Files that .gitignore excludes, binary files and the .git directory are left out.
          case_insensitive?: Whether upper and lower case are the same; false if left out.
          context?: How many lines to show before and after each match; none if left out.
          glob?: Only files whose name or path fits this glob, such as *.rs or src/**/*.ts.
          max_results?: How many matching lines to show at most; 100 if left out, 1000 at most.
          path?: File or directory to search, from the workspace root; the root if left out.
          pattern: Regular expression (Rust syntax, no look-around), matched within single lines.
        git_status: Show the branch and the changed files of the git repository, as git status --short --branch does: the first letter is what is staged, the second what is not (M modified, A added, D deleted, R renamed, U in conflict, ?? untracked). Submodules are not looked into.
          path?: Only this file or directory, from the workspace root; everything if left out.
        git_log: Show commits of the git repository, newest first, as git log does. The last line of the answer says how to go on when there are more. git_show shows what a commit changed.
          author?: Only commits whose author's name or email holds this text; upper and lower case are the same.
          grep?: Only commits whose message holds this text, taken literally; upper and lower case are the same.
          max_count?: How many commits to show at most; 20 if left out, 1000 at most.
          oneline?: One line per commit: hash, date, title; false if left out.
          path?: Only commits that changed this file or directory, from the workspace root.
          rev?: Where to start, or a range: main, v1..v2, main...topic, --all; HEAD if left out.
          skip?: How many commits to leave out first.
        git_diff: Show differences as git diff does: of the files to the index, with staged of the index to HEAD, with rev of the files to a commit or between two commits. Untracked files are not part of it; git_status names them. Binary and very big files are described, not shown.
          context?: How many lines to show around each change; 3 if left out.
          from?: Instead of rev: the commit to compare from.
          limit?: How many lines to show at most; 500 if left out.
          offset?: Number of the first line of the answer to show.
          path?: Only this file or directory, from the workspace root.
          rev?: A commit to compare the files with, or two: HEAD~2, v1..v2, main...topic. The index if left out.
          staged?: Compare the index, which is what would be committed, with HEAD; false if left out.
          stat?: Only how many lines changed in which files; false if left out.
          to?: Instead of rev: the commit to compare to; the files on disk if left out.
        git_show: Show a commit of the git repository with what it changed, as git show does, or with COMMIT:PATH a file or directory as it was. Merges are shown against their first parent. Binary and very big files are described, not shown.
          context?: How many lines to show around each change; 3 if left out.
          limit?: How many lines to show at most; 500 if left out.
          offset?: Number of the first line of the answer to show.
          path?: Only what the commit changed in this file or directory, from the workspace root.
          rev?: A commit such as HEAD~1, a branch, tag or hash, for what it changed; or COMMIT:PATH for a file or directory as it was, the path from the workspace root. HEAD if left out.
          stat?: Only how many lines changed in which files; false if left out.
        git_blame: Show for each line of a file the commit that changed it last, with author and time, as git blame does. Lines that are not committed are marked with a hash of zeros. Renames are followed. Give a range of lines for long files.
          end_line?: Last line; 500 lines are shown if left out.
          path: File to explain, from the workspace root.
          rev?: The commit in which to look at the file; the file on disk if left out.
          start_line?: First line; 1 if left out.
        edit_file: Replace text in a file. old_string must match exactly and occur once; add surrounding lines to make it unique, or set replace_all. Leave out read_file's line numbers. When the edit is refused nothing is written.
          new_string: Text to put in its place; may be empty.
          old_string: Text to replace, exactly as it is in the file, white space included. Must occur once, unless `replace_all` is set.
          path: File to edit, from the workspace root.
          replace_all?: Replace every occurrence; false if left out.
        write_file: Create a file, or replace the whole content of an existing one. To change a part of a file use edit_file.
          content: The whole new content.
          path: File to write, from the workspace root. Missing directories are created.
        shell: Run a command with sh -c and wait for it. Answers with the exit code and the output (stdout and stderr together; of long output the start and the end). There is no input. When the shell exits or the time is up, everything the command started is killed, also what it left behind with &. Each call starts fresh: use workdir instead of cd. With background: true, for servers, watchers and whatever takes long, the call answers at once with a command number and the command goes on beside your turns. When it ends, its exit code and output are reported to you, so never poll for that or sleep: do other work, wait with goal_wait, or end your turn. command_stop ends it early. To read output while it runs, such as a server's, redirect it to a file. It is killed when the program that runs your turns ends.
          background?: Whether it goes on beside your turns; false if left out.
          command: Command for sh -c.
          needs?: What it needs beyond the workspace: a list that may name network, which asks the user first.
          timeout_ms?: Time limit in milliseconds; 120000 if left out, 600000 at most. In the background 3600000 and 86400000.
          workdir?: Directory to run in, from the workspace root; the root if left out.
        "#);
    }
}
