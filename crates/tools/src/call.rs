//! A prepared call whose work blocks: it runs off the async threads and obeys its stop token.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use domain::Effect;
use runtime::{CallSubject, PreparedCall, Sight, ToolFault, ToolOutput};
use tokio_util::sync::CancellationToken;

use crate::arguments::Ignored;

/// What a call does with its path. It looks at the token often enough to end within a fraction of a second.
type Work = Box<dyn FnOnce(&Path, &Sight, &CancellationToken) -> ToolOutput + Send>;

/// A decoded call of a file tool.
pub(crate) struct BlockingCall {
    effect: Effect,
    /// From the root and free of links: what the permission rules judge is what the work gets.
    path: PathBuf,
    ignored: Ignored,
    sight: Sight,
    work: Work,
}

impl BlockingCall {
    /// A call that only looks, at or below this path.
    pub(crate) fn read(
        path: PathBuf,
        ignored: Ignored,
        work: impl FnOnce(&Path, &CancellationToken) -> ToolOutput + Send + 'static,
    ) -> Box<dyn PreparedCall> {
        Self::with_effect(Effect::Read, path, ignored, work)
    }

    /// A call that looks at whatever lies at or below this path, and so has to ask what of it may be shown.
    pub(crate) fn read_below(
        path: PathBuf,
        ignored: Ignored,
        work: impl FnOnce(&Path, &Sight, &CancellationToken) -> ToolOutput + Send + 'static,
    ) -> Box<dyn PreparedCall> {
        Box::new(Self { effect: Effect::Read, path, ignored, sight: Sight::default(), work: Box::new(work) })
    }

    /// A call with an effect on this path, to be recorded at its admission.
    pub(crate) fn with_effect(
        effect: Effect,
        path: PathBuf,
        ignored: Ignored,
        work: impl FnOnce(&Path, &CancellationToken) -> ToolOutput + Send + 'static,
    ) -> Box<dyn PreparedCall> {
        let work: Work = Box::new(move |path, _, stop| work(path, stop));
        Box::new(Self { effect, path, ignored, sight: Sight::default(), work })
    }
}

#[async_trait]
impl PreparedCall for BlockingCall {
    fn effect(&self) -> Effect {
        self.effect.clone()
    }

    fn subject(&self) -> CallSubject {
        CallSubject { paths: vec![self.path.to_string_lossy().into_owned()], command: None }
    }

    fn narrow(&mut self, sight: Sight) {
        self.sight = sight;
    }

    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput {
        // A blocking task outlives a dropped future; the guard stops it then.
        let token = stop.child_token();
        let _stop_when_dropped = token.clone().drop_guard();
        let (path, sight, work) = (self.path, self.sight, self.work);
        let mut output = tokio::task::spawn_blocking(move || {
            if token.is_cancelled() {
                return stopped();
            }
            let output = work(&path, &sight, &token);
            if token.is_cancelled() && !output.succeeded { stopped() } else { output }
        })
        .await
        .unwrap_or_else(|error| ToolOutput::failed(format!("the tool failed: {error}")));
        self.ignored.mention_in(&mut output.text);
        output
    }
}

fn stopped() -> ToolOutput {
    ToolOutput::stopped("stopped before it finished; nothing was changed")
}

/// Runs the looking part of a `prepare` off the async threads.
pub(crate) async fn look<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolFault> + Send + 'static,
) -> Result<T, ToolFault> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(ToolFault::Refused(format!("the tool failed: {error}"))))
}

/// A reader that ends with an error once the token is cancelled, so that reading a huge file can be stopped.
pub(crate) struct Stoppable<'a, R> {
    pub(crate) inner: R,
    pub(crate) stop: &'a CancellationToken,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::workspace::digest;

    #[tokio::test]
    async fn dropping_the_call_stops_its_work() {
        let (started, on_start) = mpsc::channel();
        let (ended, on_end) = mpsc::channel();
        let call = BlockingCall::read("a".into(), Ignored::default(), move |_, stop| {
            started.send(()).unwrap();
            while !stop.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended.send(()).unwrap();
            ToolOutput::failed("cut off")
        });
        let running = tokio::spawn(call.run(CancellationToken::new()));
        let wait = move || on_start.recv_timeout(Duration::from_secs(10));
        tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
        running.abort();
        let wait = move || on_end.recv_timeout(Duration::from_secs(10));
        tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_stop_ends_reading_without_end() {
        let call = BlockingCall::read("a".into(), Ignored::default(), |_, stop| {
            let error = digest(Stoppable { inner: io::repeat(b'x'), stop }).unwrap_err();
            ToolOutput::failed(error.to_string())
        });
        let stop = CancellationToken::new();
        let running = tokio::spawn(call.run(stop.clone()));
        tokio::time::sleep(Duration::from_millis(20)).await;
        stop.cancel();
        assert!(running.await.unwrap().stopped);
    }

    #[tokio::test]
    async fn a_success_stays_one_when_the_stop_comes_too_late() {
        let stop = CancellationToken::new();
        let late = stop.clone();
        let call = BlockingCall::read("a".into(), Ignored::default(), move |_, _| {
            late.cancel();
            ToolOutput::ok("done")
        });
        assert_eq!(call.run(stop).await, ToolOutput::ok("done"));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_of_the_call_alone() {
        let call = BlockingCall::read("a".into(), Ignored::default(), |_, _| panic!("broken"));
        let output = call.run(CancellationToken::new()).await;
        assert!(!output.succeeded && output.text.starts_with("the tool failed"), "{}", output.text);
    }
}
