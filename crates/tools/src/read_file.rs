//! `read_file`: the lines of a text file, numbered.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read as _};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet};
use runtime::{PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{decode, schema_of};
use crate::call::{BlockingCall, Stoppable};
use crate::seen::Digesting;
use crate::words::count;
use crate::workspace::{CHUNK_BYTES, Workspace, explain};

/// Lines shown unless asked otherwise: most source files as a whole.
const DEFAULT_LINES: u64 = 2000;

/// Bytes shown of one line. Longer ones are minified or generated, and their start tells what they are.
const MAX_LINE_BYTES: usize = 2000;

/// Bytes shown in one answer, about 40,000 tokens: more would push everything else out of a model's context.
const MAX_SHOWN_BYTES: usize = 160 * 1024;

/// Bytes read to count the lines of a file, a second or two of reading. Beyond, the answer says `at least`.
const MAX_COUNTED_BYTES: u64 = 1024 * 1024 * 1024;

/// Bytes looked at to tell binary from text, as git does it.
const SNIFFED_BYTES: u64 = 8000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File to read, from the workspace root.
    path: String,
    /// Number of the first line to show; the first line of a file is 1.
    offset: Option<u64>,
    /// How many lines to show at most; 2000 if left out.
    limit: Option<u64>,
}

pub(crate) struct ReadFile {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

impl ReadFile {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "read_file".into(),
            description: "Read a text file. Each line comes as its number, a tab and the text; number and tab are \
                          not part of the file. Shows up to 2000 lines from the start; for longer files give offset \
                          and limit. The last line of the answer says how many lines there are and how to go on.".into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::ReadWorkspace]),
        };
        Self { workspace, spec }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (arguments, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        let path = self.workspace.followed(self.workspace.relative(&arguments.path)?).await?;
        let limit = arguments.limit.unwrap_or(DEFAULT_LINES);
        if limit == 0 {
            return Err(ToolFault::Arguments("`limit`: sent 0, expected 1 or more".into()));
        }
        // Agents that count from 0 mean the start of the file by it.
        let offset = arguments.offset.unwrap_or(1).max(1);
        let workspace = Arc::clone(&self.workspace);
        Ok(BlockingCall::read(path, ignored, move |path, stop| {
            let read = workspace.open_file(path).and_then(|file| {
                let mut file = Digesting::new(Stoppable { inner: file, stop });
                let read = read(&mut file, offset, limit, stop).map_err(|error| explain(path, &error))?;
                Ok((read, file.digest()))
            });
            let read = read.map(|(read, digest)| {
                if let (Read::Shown(_), Some(digest)) = (&read, digest) {
                    workspace.seen().showed(path, digest);
                }
                read
            });
            match read {
                Ok(Read::Shown(text)) => ToolOutput::ok(text),
                Ok(Read::PastTheEnd(lines)) => ToolOutput::failed(format!(
                    "offset {offset} is past the end: {} has {}",
                    path.display(),
                    count(lines, "line")
                )),
                Ok(Read::Binary) => ToolOutput::failed(format!(
                    "{} is a binary file, which read_file does not show; use shell to inspect it",
                    path.display()
                )),
                Err(text) => ToolOutput::failed(text),
            }
        }))
    }
}

enum Read {
    Shown(String),
    PastTheEnd(u64),
    Binary,
}

fn read(file: impl io::Read, offset: u64, limit: u64, stop: &CancellationToken) -> io::Result<Read> {
    let mut file = BufReader::with_capacity(CHUNK_BYTES, file);
    let mut start = Vec::new();
    file.by_ref().take(SNIFFED_BYTES).read_to_end(&mut start)?;
    if start.contains(&0) {
        return Ok(Read::Binary);
    }
    let mut lines = Lines { reader: start.as_slice().chain(file), read_bytes: 0 };
    let mut text = String::new();
    let mut number = 0;
    let mut last_shown = 0;
    let mut crlf = false;
    let mut lossy = false;
    let mut full = false;
    let mut line = Vec::new();
    let mut all_counted = true;
    loop {
        let wanted = number + 1 >= offset && number + 1 - offset < limit && !full;
        let Some(length) = lines.next(&mut line, if wanted { MAX_LINE_BYTES } else { 0 })? else { break };
        number += 1;
        if wanted {
            let shown = line.strip_suffix(b"\r").unwrap_or(&line);
            crlf |= shown.len() < line.len();
            let shown = cut_at_char(shown, length > line.len() as u64);
            let shown = String::from_utf8_lossy(shown);
            lossy |= shown.contains('\u{fffd}');
            full = text.len() + shown.len() > MAX_SHOWN_BYTES;
            if !full {
                let _ = write!(text, "{number:>6}\t{shown}");
                if length > line.len() as u64 {
                    let _ = write!(text, "… [line cut: {length} bytes]");
                }
                text.push('\n');
                last_shown = number;
            }
        }
        if stop.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        // Only once the part asked for is complete, wherever in the file it is.
        if lines.read_bytes > MAX_COUNTED_BYTES && last_shown > 0 && last_shown < number {
            all_counted = false;
            break;
        }
    }
    if number == 0 {
        return Ok(Read::Shown("[the file is empty]".into()));
    }
    if last_shown == 0 {
        return Ok(Read::PastTheEnd(number));
    }
    let total = if all_counted { number.to_string() } else { format!("at least {number}") };
    let _ = if last_shown < number || !all_counted {
        write!(text, "[lines {offset} to {last_shown} of {total}; continue with offset {}]", last_shown + 1)
    } else if offset > 1 {
        write!(text, "[lines {offset} to {last_shown} of {total}; end of file]")
    } else {
        write!(text, "[end of file: {}]", count(number, "line"))
    };
    if crlf {
        text.push_str("\n[lines end in CRLF, shown without the CR]");
    }
    if lossy {
        text.push_str("\n[some bytes are not UTF-8 and show as \u{fffd}]");
    }
    Ok(Read::Shown(text))
}

/// The text without a character that the cut went through.
fn cut_at_char(bytes: &[u8], was_cut: bool) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if was_cut && error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Lines of any length in bounded memory.
struct Lines<R> {
    reader: R,
    read_bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line and keeps its first bytes, without the line feed. Gives its whole length, or nothing at
    /// the end.
    fn next(&mut self, kept: &mut Vec<u8>, keep: usize) -> io::Result<Option<u64>> {
        kept.clear();
        let mut length = 0;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok((length > 0).then_some(length));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            kept.extend_from_slice(&piece[..piece.len().min(keep.saturating_sub(kept.len()))]);
            length += piece.len() as u64;
            let used = piece.len() + usize::from(end.is_some());
            self.reader.consume(used);
            self.read_bytes += used as u64;
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;
    use crate::fixture::Fixture;

    /// Tabs as something that editors leave alone.
    fn visible(text: &str) -> String {
        text.replace('\t', "→")
    }

    #[tokio::test]
    async fn lines_are_numbered_and_counted() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "one\n\nthrée 世界");
        let text = fixture.ok("read_file", json!({ "path": "a.txt" })).await;
        insta::assert_snapshot!(visible(&text), @r"
             1→one
             2→
             3→thrée 世界
        [end of file: 3 lines]
        ");
    }

    #[tokio::test]
    async fn a_part_says_how_to_go_on() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "1\n2\n3\n4\n5\n");
        let text = fixture.ok("read_file", json!({ "file_path": "a.txt", "offset": 2, "limit": 2 })).await;
        insta::assert_snapshot!(visible(&text), @r"
             2→2
             3→3
        [lines 2 to 3 of 5; continue with offset 4]
        ");
        let text = fixture.ok("read_file", json!({ "path": "a.txt", "offset": 4.0, "mood": 1 })).await;
        insta::assert_snapshot!(visible(&text), @r"
             4→4
             5→5
        [lines 4 to 5 of 5; end of file]
        [ignored unknown arguments: mood]
        ");
        let text = fixture.refused("read_file", json!({ "path": "a.txt", "offset": 6 })).await;
        assert_eq!(text, "offset 6 is past the end: a.txt has 5 lines");
    }

    #[tokio::test]
    async fn a_long_file_is_shown_in_bounded_parts() {
        let fixture = Fixture::new();
        fixture.write("lines", "x\n".repeat(100_000));
        let text = fixture.ok("read_file", json!({ "path": "lines" })).await;
        assert!(text.ends_with("[lines 1 to 2000 of 100000; continue with offset 2001]"), "{text}");
        fixture.write("wide", format!("{}\n", "x".repeat(1000)).repeat(1000));
        let text = fixture.ok("read_file", json!({ "path": "wide" })).await;
        assert!(
            text.ends_with("[lines 1 to 162 of 1000; continue with offset 163]"),
            "{}",
            &text[text.len() - 99..]
        );
        assert!(text.len() < MAX_SHOWN_BYTES + 10_000);
    }

    #[tokio::test]
    async fn a_long_line_is_cut_between_characters_with_a_mark() {
        let fixture = Fixture::new();
        fixture.write("a", format!("x{}\nshort\n", "é".repeat(100_000)));
        let text = fixture.ok("read_file", json!({ "path": "a" })).await;
        let expected = format!(
            "     1\tx{}… [line cut: 200001 bytes]\n     2\tshort\n[end of file: 2 lines]",
            "é".repeat(999)
        );
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn empty_crlf_and_broken_text_are_told() {
        let fixture = Fixture::new();
        fixture.write("empty", "");
        fixture.write("crlf", "a\r\nb\r\n");
        fixture.write("latin", b"caf\xe9\n");
        assert_eq!(fixture.ok("read_file", json!({ "path": "empty" })).await, "[the file is empty]");
        insta::assert_snapshot!(visible(&fixture.ok("read_file", json!({ "path": "crlf" })).await), @r"
             1→a
             2→b
        [end of file: 2 lines]
        [lines end in CRLF, shown without the CR]
        ");
        insta::assert_snapshot!(visible(&fixture.ok("read_file", json!({ "path": "latin" })).await), @r"
             1→caf�
        [end of file: 1 line]
        [some bytes are not UTF-8 and show as �]
        ");
    }

    #[tokio::test]
    async fn what_is_not_a_text_file_is_refused_with_what_to_do() {
        let fixture = Fixture::new();
        fixture.write("dir/binary", b"\x7fELF\0\0");
        std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(fixture.path("pipe")).status();
        assert!(made.unwrap().success());
        let texts = [
            fixture.refused("read_file", json!({ "path": "dir/binary" })).await,
            fixture.refused("read_file", json!({ "path": "dir" })).await,
            fixture.refused("read_file", json!({ "path": "socket" })).await,
            fixture.refused("read_file", json!({ "path": "pipe" })).await,
            fixture.refused("read_file", json!({ "path": "none" })).await,
            fixture.refused("read_file", json!({ "path": "dir/binary", "limit": 0 })).await,
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        dir/binary is a binary file, which read_file does not show; use shell to inspect it
        dir is a directory; list_dir shows what it holds
        socket: not a regular file
        pipe: not a regular file
        none does not exist; list_dir and glob show what does
        invalid arguments: `limit`: sent 0, expected 1 or more
        ");
    }

    #[tokio::test]
    async fn a_link_swapped_in_between_prepare_and_run_is_refused() {
        let fixture = Fixture::new();
        std::fs::write(fixture.outside().join("secret"), "secret").unwrap();
        let path = fixture.write("a", "text");
        let call = fixture.prepare("read_file", json!({ "path": "a" })).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        symlink(fixture.outside().join("secret"), &path).unwrap();
        let output = call.run(CancellationToken::new()).await;
        assert_eq!(
            output,
            ToolOutput::failed("a leads outside the workspace through a symbolic link, which is refused")
        );
    }

    #[tokio::test]
    async fn an_absolute_path_beneath_the_root_is_fine() {
        let fixture = Fixture::new();
        let path = fixture.write("a", "text\n");
        assert!(fixture.ok("read_file", json!({ "path": path })).await.contains("text"));
        let text = fixture.refused("read_file", json!({ "path": "/etc/passwd" })).await;
        assert!(text.contains("is outside the workspace"), "{text}");
    }

    #[tokio::test]
    async fn a_stopped_read_says_so() {
        let fixture = Fixture::new();
        fixture.write("a", "text");
        assert!(fixture.stopped("read_file", json!({ "path": "a" })).await.stopped);
    }
}
