//! Gives up on a server that sends and sends without ever finishing a part of its answer.
//!
//! The client library keeps the body of an error, and a part of an answer, until it is whole, however long that gets.
//! It shows neither, so what is counted is how often the network had something for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{self, SelectAll, Stream, StreamExt};

use super::witness::Witness;

/// There was no end to it.
#[derive(Debug)]
pub(super) struct Endless;

/// The same stream, which says so when a part has no end. It is polled for its own wake-ups only, as nothing else
/// tells a read from a look by somebody who waits for several things.
pub(super) fn counted<S: Stream + Unpin>(
    inner: S,
    witness: &Arc<Witness>,
    most: u32,
) -> SelectAll<Counted<S>> {
    stream::select_all([Counted { inner, witness: Arc::clone(witness), frames: 0, reads: 0, most }])
}

pub(super) struct Counted<S> {
    inner: S,
    witness: Arc<Witness>,
    frames: u64,
    reads: u32,
    most: u32,
}

impl<S: Stream + Unpin> Stream for Counted<S> {
    type Item = Result<S::Item, Endless>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.inner.poll_next_unpin(context) {
            Poll::Ready(item) => Poll::Ready(item.map(Ok)),
            Poll::Pending => {
                let frames = self.witness.frames();
                let same = std::mem::replace(&mut self.frames, frames) == frames;
                self.reads = if same { self.reads + 1 } else { 0 };
                if self.reads > self.most { Poll::Ready(Some(Err(Endless))) } else { Poll::Pending }
            }
        }
    }
}
