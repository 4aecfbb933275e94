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
mod glob;
mod grep;
mod group;
mod guard;
mod list_dir;
mod read_file;
mod replacement;
mod secrets;
mod shell;
mod version;
mod walk;
mod walls;
mod words;
mod workspace;
mod write_file;

#[cfg(test)]
mod fixture;

use std::sync::Arc;

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
    vec![
        Arc::new(read_file::ReadFile::new(Arc::clone(&workspace))),
        Arc::new(list_dir::ListDir::new(Arc::clone(&workspace))),
        Arc::new(glob::Glob::new(Arc::clone(&workspace))),
        Arc::new(grep::Grep::new(Arc::clone(&workspace))),
        Arc::new(edit_file::EditFile::new(Arc::clone(&workspace))),
        Arc::new(write_file::WriteFile::new(Arc::clone(&workspace))),
        Arc::new(shell::Shell::new(workspace, secrets, walls)),
    ]
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
          needs?: What it needs beyond the workspace: ["network"] for the network, which asks the user first.
          timeout_ms?: Time limit in milliseconds; 120000 if left out, 600000 at most. In the background 3600000 and 86400000.
          workdir?: Directory to run in, from the workspace root; the root if left out.
        "#);
    }
}
