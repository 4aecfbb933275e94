//! The output of a command: its start and its end, in bounded memory.

use std::collections::VecDeque;

/// Bytes kept from the start, where commands say what they do and compilers name the first error.
const HEAD_BYTES: usize = 48 * 1024;

/// Bytes kept from the end, where commands say how it went.
const TAIL_BYTES: usize = 80 * 1024;

/// Collects output of any length.
#[derive(Default)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    /// The output as text, with a mark where something was left out. Always text that JSON and databases can hold.
    pub(crate) fn into_text(self) -> String {
        let Self { mut head, tail, dropped } = self;
        let mut tail = Vec::from(tail);
        let text = if dropped == 0 {
            head.append(&mut tail);
            String::from_utf8_lossy(&head).into_owned()
        } else {
            let head = String::from_utf8_lossy(whole_start(&head));
            let tail = String::from_utf8_lossy(whole_end(&tail));
            format!("{head}\n[… {dropped} bytes left out …]\n{tail}")
        };
        text.replace('\0', "\u{fffd}")
    }
}

/// Without a character cut in two at the end.
fn whole_start(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Without the rest of a character cut in two at the start.
fn whole_end(bytes: &[u8]) -> &[u8] {
    let is_rest = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    &bytes[bytes.iter().take(3).take_while(is_rest).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_kept_as_it_is() {
        let mut capture = Capture::default();
        capture.push("one\ntw".as_bytes());
        capture.push("ö\n\0\u{1b}[0m".as_bytes());
        assert_eq!(capture.into_text(), "one\ntwö\n\u{fffd}\u{1b}[0m");
    }

    #[test]
    fn long_output_keeps_head_and_tail_in_bounded_memory() {
        let mut capture = Capture::default();
        capture.push(b"start\n");
        for _ in 0..10_000 {
            capture.push("é".repeat(500).as_bytes());
        }
        capture.push(b"\nend");
        assert!(capture.head.len() == HEAD_BYTES && capture.tail.len() == TAIL_BYTES);
        assert!(capture.tail.capacity() < 4 * TAIL_BYTES);
        let text = capture.into_text();
        assert!(text.starts_with("start\né") && text.ends_with("é\nend"));
        assert!(
            text.contains("\n[… 9868938 bytes left out …]\n"),
            "{}",
            &text[HEAD_BYTES - 9..HEAD_BYTES + 60]
        );
        assert!(!text.contains('\u{fffd}'));
    }

    #[test]
    fn one_big_piece_is_bounded_too() {
        let mut capture = Capture::default();
        capture.push(&vec![b'x'; 10_000_000]);
        assert_eq!(capture.dropped + (HEAD_BYTES + TAIL_BYTES) as u64, 10_000_000);
    }
}
