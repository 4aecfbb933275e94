//! What the task that drives a turn does: one command per transaction, as the product's turn loop gives them, and with
//! what a refusal means for that loop.

use domain::{CallOutcome, CallRef, Code, FailureKind, StopReason, TurnNumber, TurnOutcome, TurnPhase};
use policy::{Owner, Rejection, RuntimeCommand};

use crate::act::Step;
use crate::commands::{self, Order};
use crate::doing::{By, Doing};
use crate::property::Property;
use crate::world::{At, CallStep, Leave, Say, Task};

impl Task {
    /// The call at this place of the last response.
    pub(crate) const fn call(&self, index: u32) -> CallRef {
        CallRef { turn: self.turn, request: self.request, index }
    }
}

impl Doing<'_> {
    /// A step of a task. A task that is not put back has left its turn.
    pub(crate) fn task(&mut self, index: usize, task: Task, what: Step, process: &Owner) -> bool {
        match (task.at.clone(), what) {
            (_, Step::Renew) => self.renew(index, task, process),
            (_, Step::ShutDown) => self.goes_to(index, task, At::Leaving(Leave::ShutDown)),
            (_, Step::FailAtOnce) => {
                self.goes_to(index, task, At::Leaving(Leave::Failed(FailureKind::NoSuchAgent)))
            }
            // The outcome that a stop asks for is decided where the turn ends.
            (_, Step::Notice) => self.goes_to(index, task, At::Leaving(Leave::Completed)),
            (_, Step::RespondAgain) => {
                let again = commands::respond(task.turn, Say::Text, self.slice.cost);
                let changed = self.runtime(index, again).is_ok();
                self.world.workers[index] = Some(task);
                changed
            }
            (At::Ready, Step::Begin) => self.begin(index, task),
            (At::Requesting, Step::Respond(say)) => {
                let response = commands::respond(task.turn, say, self.slice.cost);
                match self.runtime(index, response) {
                    Ok(()) => {
                        let next = self.after_response(task.turn, say);
                        self.goes_to(index, task, next)
                    }
                    Err(refused) => self.leaves(index, task, &refused),
                }
            }
            (At::Requesting, Step::Fail { kind, in_place }) => {
                // Past the time in which a request is tried again at once, the turn gives up.
                let elapsed_ms = if in_place { 0 } else { policy::IN_PLACE_MS };
                match self.runtime(index, commands::fail(task.turn, kind, elapsed_ms)) {
                    Ok(()) => {
                        let next = self.after_failure(kind);
                        self.goes_to(index, task, next)
                    }
                    Err(refused) => self.leaves(index, task, &refused),
                }
            }
            (At::Call { step: CallStep::Refused(outcome), index: place, then, .. }, Step::Call) => {
                let answer = commands::refuse(task.call(place), outcome);
                self.answers(index, task, answer, next_call(place, then))
            }
            (At::Call { say, index: place, then, .. }, Step::Call) => {
                self.call(index, task, (say, place, then), process)
            }
            (At::Call { index: place, .. }, Step::Happen) => {
                if !self.world.notes.happened.insert(task.call(place)) {
                    self.breaks(Property::EffectOnce, "an admitted call had its effect twice");
                }
                self.world.workers[index] = Some(task);
                true
            }
            (At::Call { index: place, then, .. }, Step::Finish(outcome)) => {
                let answer = commands::finish(task.call(place), outcome);
                self.answers(index, task, answer, next_call(place, then))
            }
            (At::Leaving(leave), Step::End) => self.ends(index, task.turn, leave),
            (At::Stale, Step::WriteLate) => self.writes_late(index, task.turn, process),
            _ => false,
        }
    }

    fn goes_to(&mut self, index: usize, mut task: Task, at: At) -> bool {
        task.at = at;
        self.world.workers[index] = Some(task);
        true
    }

    /// What a refusal of a step means for the loop.
    fn leaves(&mut self, index: usize, task: Task, refused: &Rejection) -> bool {
        let is_of_t12 = refused.violations.iter().any(|found| found.rule == "T12");
        let leave = match refused.code {
            Code::StaleEpoch => return true,
            Code::TurnStopping => Leave::Completed,
            Code::LimitExceeded if is_of_t12 => Leave::Failed(FailureKind::Stuck),
            _ => Leave::Failed(FailureKind::ProviderProtocol),
        };
        self.goes_to(index, task, At::Leaving(leave))
    }

    fn renew(&mut self, index: usize, task: Task, process: &Owner) -> bool {
        let order = RuntimeCommand::RenewLease { turn: task.turn, owner: process.clone() };
        if self.runtime(index, order).is_ok() {
            let until = self.world.now.plus_ms(policy::LEASE_MS);
            self.world.workers[index] = Some(Task { until, ..task });
        }
        true
    }

    fn begin(&mut self, index: usize, task: Task) -> bool {
        let order = RuntimeCommand::BeginRequest { turn: task.turn, estimated_input: self.slice.cost };
        match self.runtime(index, order) {
            Ok(()) => {
                let running = self.world.running().filter(|running| running.number == task.turn);
                let request = running.map_or(task.request + 1, |running| running.request);
                self.goes_to(index, Task { request, ..task }, At::Requesting)
            }
            Err(refused) => self.leaves(index, task, &refused),
        }
    }

    fn after_response(&self, turn: TurnNumber, say: Say) -> At {
        let running = self.world.running().filter(|running| running.number == turn);
        let is_last = running.is_some_and(|running| running.goal_completed_in.is_some());
        let mut calls = say.calls().into_iter();
        match calls.next() {
            Some(first) if !is_last => {
                At::Call { say: first, index: 0, then: calls.next(), step: CallStep::Asked }
            }
            Some(_) | None => At::Leaving(Leave::Completed),
        }
    }

    fn after_failure(&self, kind: FailureKind) -> At {
        match self.world.running().map(|running| &running.phase) {
            Some(TurnPhase::Failed { retry_at: Some(_), .. }) => At::Ready,
            _ => At::Leaving(Leave::Failed(kind)),
        }
    }

    /// Gives a call its result.
    fn answers(&mut self, index: usize, task: Task, answer: RuntimeCommand, next: At) -> bool {
        match self.runtime(index, answer) {
            Ok(()) => self.goes_to(index, task, next),
            Err(refused) => self.leaves(index, task, &refused),
        }
    }

    /// Admits a call and, if the session itself answers it, does it.
    fn call(&mut self, index: usize, task: Task, what: (Say, u32, Option<Say>), process: &Owner) -> bool {
        let (say, place, then) = what;
        let call = task.call(place);
        let unrun = |outcome| At::Call { say, index: place, then, step: CallStep::Refused(outcome) };
        let running = self.world.running().filter(|running| running.number == task.turn);
        if running.is_some_and(|running| running.goal_completed_in.is_some()) {
            return self.goes_to(index, task, unrun(CallOutcome::NotRun));
        }
        let command = commands::agent(&self.world, call, say, process);
        let admitted = command.map(|command| self.commit(By::Worker(index), &Order::Agent(command)));
        let rejection = match admitted {
            Some(Ok(())) => {
                let is_outside =
                    matches!(say, Say::Read | Say::Write | Say::Shell | Say::External | Say::Guarded);
                let runs = At::Call { say, index: place, then, step: CallStep::Running };
                return self.goes_to(index, task, if is_outside { runs } else { next_call(place, then) });
            }
            Some(Err(refused)) if refused.code != Code::PermissionNeeded => refused,
            // The turn ends when a person is asked.
            Some(Err(_)) | None => match self.runtime(index, commands::ask(call, say)) {
                Ok(()) => return true,
                Err(refused) => refused,
            },
        };
        match rejection.code {
            Code::StaleEpoch | Code::TurnStopping | Code::OutOfOrder => self.leaves(index, task, &rejection),
            Code::Denied => self.goes_to(index, task, unrun(CallOutcome::Denied)),
            _ => self.goes_to(index, task, unrun(CallOutcome::Refused)),
        }
    }

    fn ends(&mut self, index: usize, turn: TurnNumber, leave: Leave) -> bool {
        let outcome = match leave {
            Leave::Completed => TurnOutcome::Completed,
            Leave::ShutDown => TurnOutcome::Stopped { reason: StopReason::Shutdown },
            Leave::Failed(kind) => TurnOutcome::Failed { failure: commands::failure(kind) },
        };
        let ended = self.runtime(index, commands::end(turn, outcome));
        if ended.is_err_and(|refused| refused.code != Code::StaleEpoch) {
            self.breaks(Property::Continued, "the end of a turn was refused to the worker that drives it");
        }
        true
    }

    /// A turn that is over tries everything that a turn can write.
    fn writes_late(&mut self, index: usize, turn: TurnNumber, process: &Owner) -> bool {
        let writes = commands::late_writes(turn, self.slice.cost, process);
        let answers: Vec<_> = writes.iter().map(|order| self.commit(By::Worker(index), order)).collect();
        let is_stale = |answer: &Result<(), Rejection>| {
            answer.as_ref().is_err_and(|refused| refused.code == Code::StaleEpoch)
        };
        if !answers.iter().all(is_stale) {
            self.breaks(Property::Fence, "a write that came too late was refused for another reason");
        }
        true
    }
}

const fn next_call(index: u32, then: Option<Say>) -> At {
    match then {
        Some(say) => At::Call { say, index: index + 1, then: None, step: CallStep::Asked },
        None => At::Ready,
    }
}
