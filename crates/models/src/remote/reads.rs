//! Gives up on a server that sends and sends without ever finishing a part of its answer.
//!
//! The client library keeps the body of an error, and a part of an answer, until it is whole, however long that gets,
//! and looks through all of it at each read: the work grows with the square of its length. It shows neither, so what is
//! counted is how often the network had something for it, and what is timed is how long it worked on that.
//!
//! It also takes one read after the other for as long as there is one, and nothing else of its task runs meanwhile. So
//! answers are read on a thread that they share with their connections: the next read is there only after the
//! connection had its turn, and between two reads a request can be given up. What waits for an answer, and keeps its
//! turn's lease meanwhile, is on other threads.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::stream::{self, SelectAll, Stream, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime};

use super::witness::Witness;

/// The thread on which answers are read. It lives as long as the process.
pub(super) fn thread() -> Result<&'static Handle, String> {
    static THREAD: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("zuno-answers").enable_all().build()
    });
    THREAD.as_ref().map(Runtime::handle).map_err(ToString::to_string)
}

/// How much of a part may come before its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) reads: u32,
    pub(super) work: Duration,
}

/// There was no end to it.
#[derive(Debug)]
pub(super) struct Endless;

/// The same stream, which says so when a part has no end. It is polled for its own wake-ups only, as nothing else
/// tells a read from a look by somebody who waits for several things.
pub(super) fn counted<S: Stream + Unpin>(
    inner: S,
    witness: &Arc<Witness>,
    most: Most,
) -> SelectAll<Counted<S>> {
    stream::select_all([Counted {
        inner,
        witness: Arc::clone(witness),
        frames: 0,
        reads: 0,
        work: Duration::ZERO,
        most,
    }])
}

pub(super) struct Counted<S> {
    inner: S,
    witness: Arc<Witness>,
    frames: u64,
    reads: u32,
    work: Duration,
    most: Most,
}

impl<S: Stream + Unpin> Stream for Counted<S> {
    type Item = Result<S::Item, Endless>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let began = Instant::now();
        match self.inner.poll_next_unpin(context) {
            Poll::Ready(item) => Poll::Ready(item.map(Ok)),
            Poll::Pending => {
                let frames = self.witness.frames();
                let same = std::mem::replace(&mut self.frames, frames) == frames;
                (self.reads, self.work) =
                    if same { (self.reads + 1, self.work + began.elapsed()) } else { (0, Duration::ZERO) };
                if self.reads > self.most.reads || self.work > self.most.work {
                    Poll::Ready(Some(Err(Endless)))
                } else {
                    Poll::Pending
                }
            }
        }
    }
}
