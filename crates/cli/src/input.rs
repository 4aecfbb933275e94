//! Bounded reading of what people and programs hand in.

use std::io;
use std::path::Path;

use domain::{Code, Text, TextFault};
use policy::Rejection;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _};

use crate::exit::CliError;

/// Bytes of one candidate. A plan at all its limits with every character written as an escape has 1.3 million.
pub(crate) const CANDIDATE_BYTES: usize = 2 << 20;

/// Bytes of a prompt on stdin: the longest input in four-byte characters.
const PROMPT_BYTES: usize = 4 * domain::INPUT_CHARS;

/// Something that was read, unless there was too much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All of it.
    Whole(Vec<u8>),
    /// More than the bound; it was skipped without being kept.
    TooLong,
}

/// Lines of at most [`CANDIDATE_BYTES`].
pub(crate) struct Lines<R> {
    reader: R,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of a reader.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader }
    }

    /// The next line without its end; `None` after the last. A line that is too long is skipped, not kept.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Piece>> {
        let (mut line, mut too_long, mut any) = (Vec::new(), false, false);
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() && !any {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            too_long |= line.len() + part.len() > CANDIDATE_BYTES;
            if too_long {
                line = Vec::new();
            } else {
                line.extend_from_slice(part);
            }
            any = true;
            let is_over = end.is_some() || chunk.is_empty();
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.reader.consume(used);
            if is_over {
                return Ok(Some(if too_long { Piece::TooLong } else { Piece::Whole(line) }));
            }
        }
    }
}

/// A candidate from a file, or from stdin for `-` and for nothing.
pub(crate) async fn candidate(source: Option<&Path>) -> Result<Piece, CliError> {
    let read = match source.filter(|path| *path != Path::new("-")) {
        None => bounded(tokio::io::stdin(), CANDIDATE_BYTES).await,
        Some(path) => match tokio::fs::File::open(path).await {
            Ok(file) => bounded(file, CANDIDATE_BYTES).await,
            Err(error) => Err(error),
        },
    };
    let name = source.unwrap_or(Path::new("-")).display();
    read.map_err(|error| CliError::Environment(format!("the plan in {name} cannot be read: {error}")))
}

/// A prompt: the argument, or stdin for `-`.
pub(crate) async fn prompt(argument: &str) -> Result<String, CliError> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let fault = |problem: String| CliError::Environment(format!("the prompt on stdin {problem}"));
    match bounded(tokio::io::stdin(), PROMPT_BYTES).await {
        Ok(Piece::Whole(bytes)) => {
            // As it is with an argument.
            String::from_utf8(bytes)
                .map_err(|_| CliError::Usage("the prompt on stdin is not UTF-8 text".to_owned()))
        }
        Ok(Piece::TooLong) => {
            let message = format!("the prompt has more than {} characters", domain::INPUT_CHARS);
            Err(Rejection::new("I1", Code::LimitExceeded, message).into())
        }
        Err(error) => Err(fault(format!("cannot be read: {error}"))),
    }
}

async fn bounded(reader: impl AsyncRead + Unpin, most: usize) -> io::Result<Piece> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(&mut bytes).await?;
    Ok(if bytes.len() > most { Piece::TooLong } else { Piece::Whole(bytes) })
}

/// A text with a bound, refused like any other input that breaks a rule.
pub(crate) fn text<const MAX: usize>(
    rule: &'static str,
    what: &str,
    given: &str,
) -> Result<Text<MAX>, Rejection> {
    Text::parse(given).map_err(|fault| {
        let code = match fault {
            TextFault::Blank => Code::InvalidInput,
            TextFault::TooLong { .. } => Code::LimitExceeded,
        };
        Rejection::new(rule, code, format!("the {what} {fault}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pieces(input: Vec<u8>) -> Vec<String> {
        // A small buffer, so that lines span several reads.
        let reader = tokio::io::BufReader::with_capacity(7, std::io::Cursor::new(input));
        let mut lines = Lines::new(reader);
        let mut found = Vec::new();
        while let Some(piece) = lines.next().await.unwrap() {
            found.push(match piece {
                Piece::Whole(bytes) if bytes.len() > 40 => format!("{} bytes", bytes.len()),
                Piece::Whole(bytes) => String::from_utf8(bytes).unwrap(),
                Piece::TooLong => "too long".to_owned(),
            });
        }
        found
    }

    #[tokio::test]
    async fn lines_end_at_line_breaks_and_at_the_end() {
        assert_eq!(pieces(Vec::new()).await, [""; 0]);
        assert_eq!(
            pieces(b"one\n\nthe third line\nlast".to_vec()).await,
            ["one", "", "the third line", "last"]
        );
        assert_eq!(pieces(b"one\n".to_vec()).await, ["one"]);
    }

    #[tokio::test]
    async fn a_line_over_the_bound_is_skipped_and_the_next_one_is_read() {
        let mut input = vec![b'x'; CANDIDATE_BYTES + 1];
        input.extend_from_slice(b"\nshort\n");
        input.extend(vec![b'y'; CANDIDATE_BYTES]);
        assert_eq!(pieces(input).await, ["too long", "short", &format!("{CANDIDATE_BYTES} bytes")]);
    }
}
