//! The bound on a message of a program, which ends its connection instead of our memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of one message: as much of an output as is kept of any tool.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;

/// Lines of another program. A longer one than a message may be is an error: to leave it out would be to wait for an
/// answer that came.
pub(crate) struct Messages<R> {
    inner: R,
    limit: usize,
    length: usize,
    is_too_long: Arc<AtomicBool>,
}

impl<R> Messages<R> {
    /// Says in `is_too_long` why it ended.
    pub(crate) fn new(inner: R, limit: usize, is_too_long: Arc<AtomicBool>) -> Self {
        Self { inner, limit, length: 0, is_too_long }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Messages<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let (mut length, limit) = (self.length, self.limit);
        let mut lines = buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n');
        let is_too_long = lines.any(|line| {
            let whole = length + line.len();
            length = if line.ends_with(b"\n") { 0 } else { whole };
            whole > limit
        });
        self.length = length;
        if is_too_long {
            buffer.set_filled(before);
            self.is_too_long.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other("a message is too long")));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(lines: &[usize]) -> (bool, bool) {
        let text: Vec<u8> =
            lines.iter().flat_map(|length| [vec![b'x'; *length], b"\n".to_vec()].concat()).collect();
        let is_too_long = Arc::default();
        let mut messages = Messages::new(text.as_slice(), 10, Arc::clone(&is_too_long));
        let is_read = messages.read_to_end(&mut Vec::new()).await.is_ok();
        (is_read, is_too_long.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn each_line_is_bounded_and_their_number_is_not() {
        assert_eq!(read(&[9, 0, 9, 5, 9]).await, (true, false));
        assert_eq!(read(&[5, 10]).await, (false, true));
    }
}
