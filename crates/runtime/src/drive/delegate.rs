//! Work that a turn hands to other agents (C5, W2).

use domain::{CallOutcome, CallRef};
use policy::{CallGrant, NewJob, Rejection};
use tokio::sync::oneshot;

use super::call::refusal_of_call;
use super::{Driver, Leave};
use crate::turn::CallResult;

/// A job whose report is the result of a call.
pub(super) struct Awaited {
    call: CallRef,
    /// Hears when whoever drives the job has left it.
    left: oneshot::Receiver<()>,
}

impl Driver {
    /// Starts a job, which works beside this turn. Unless it is one in the background, its report is the call's result.
    /// Gives a refusal back if it was not started.
    pub(super) async fn delegate(
        &mut self,
        call: CallRef,
        grant: CallGrant,
        job: NewJob,
    ) -> Result<Option<Rejection>, Leave> {
        let is_background = job.is_background;
        let child = match self.turn.start_job(call, grant, job).await {
            Ok(child) => child,
            Err(error) => return Ok(Some(refusal_of_call(error)?)),
        };
        let left = self.around.background.start_turn(child, self.around.clone());
        if !is_background {
            self.jobs.push(Awaited { call, left });
        }
        Ok(None)
    }

    /// Waits for the jobs whose reports are results of this turn's calls: those that one answer delegates work side by
    /// side. Each is asked to stop whenever this turn is, keeps the lease for all, and answers its call with its end.
    pub(super) async fn join_jobs(&mut self) -> Result<(), Leave> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let jobs = std::mem::take(&mut self.jobs);
        let calls: Vec<_> = jobs.iter().map(|job| job.call).collect();
        for job in jobs {
            // An error says that the task is gone, and so is the job.
            job.left.await.ok();
        }
        self.turn.stop_requested().await?;
        self.catch_up().await?;
        let open = self.turn.running().map(domain::RunningTurn::open_calls).unwrap_or_default();
        let left: Vec<_> = open.iter().map(|open| open.call).filter(|call| calls.contains(call)).collect();
        for call in left {
            let result = CallResult::plain(CallOutcome::Lost, "the job broke off; inspect before repeating");
            self.turn.finish_call(call, result).await?;
        }
        self.follow().await.map_err(Leave::from)
    }
}
