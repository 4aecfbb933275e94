//! The story of a session, made from its log alone: what a person would tell of it, in order.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Actor, Asked, CallOutcome, CallRef, CommandId, Effect, Event, EventBody, GoalStatus, InputId, InputKind,
    Mode, Plan, PlanId, RequestId, Revision, Seq, StepId, StepStatus, Timestamp, TurnNumber, TurnOutcome,
    TurnTrigger, WorkerName,
};
use serde::Serialize;

use crate::render;

/// A line of the story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    /// The event it is told of.
    pub(super) seq: Seq,
    /// When that was.
    pub(super) at: Timestamp,
    /// Who did it: `you`, `agent`, `zuno`, or `demo` for the one thing that no log can hold, a kill.
    pub(super) by: &'static str,
    /// What happened.
    #[serde(flatten)]
    pub(super) what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum What {
    Opened { agent: String },
    Goal { status: &'static str, text: Option<String> },
    Continuation { continuation: u64, turn: TurnNumber },
    Prompt { text: String },
    Turn { turn: TurnNumber, agent: String, cause: InputKind },
    Mode { mode: Mode },
    Plan { plan_id: PlanId, revision: Revision, completed: usize, total: usize, steps: Vec<StepLine> },
    Command { turn: TurnNumber, command: String, succeeded: bool, result: String },
    Wrote { turn: TurnNumber, tool: String, path: String },
    Denied { turn: TurnNumber, tool: String, reason: String },
    Started { command: CommandId, title: String },
    Over { command: CommandId, outcome: &'static str },
    Asked { request: RequestId, turn: TurnNumber, question: String },
    Answered { request: RequestId, answer: String },
    Killed { turn: TurnNumber, request: Option<u32>, worker: Option<WorkerName> },
    Recovered { turn: TurnNumber, worker: Option<WorkerName>, by_another: bool },
    Ended { turn: TurnNumber, outcome: &'static str },
}

/// A step of a plan, without its title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct StepLine {
    pub(super) id: StepId,
    pub(super) status: StepStatus,
}

/// Tells a log. A turn that was lost is called killed if it is the one the caller killed.
pub(super) fn timeline(events: &[Event], killed: Option<TurnNumber>) -> Vec<Entry> {
    let mut teller = Teller { killed, ..Teller::default() };
    for event in events {
        teller.follow(event);
    }
    teller.entries
}

#[derive(Default)]
struct Teller {
    killed: Option<TurnNumber>,
    entries: Vec<Entry>,
    /// What the model asked for.
    asked: BTreeMap<CallRef, String>,
    /// The call that the person allowed last.
    granted: Option<CallRef>,
    /// Calls that only started a background command.
    started: BTreeSet<CallRef>,
    /// Where inputs came from.
    inputs: BTreeMap<InputId, InputKind>,
    /// What the admitted calls may change.
    effects: BTreeMap<CallRef, Effect>,
    /// Who runs each turn.
    workers: BTreeMap<TurnNumber, WorkerName>,
    /// The request of each turn that has no answer.
    open: BTreeMap<TurnNumber, (Seq, Timestamp, u32)>,
}

impl Teller {
    fn follow(&mut self, event: &Event) {
        match &event.body {
            EventBody::ModelRequested { turn, request, .. } => {
                self.open.insert(*turn, (event.seq, event.at, *request));
            }
            EventBody::ModelFailed { turn, .. } => {
                self.open.remove(turn);
            }
            EventBody::ModelResponded { turn, request, calls, .. } => {
                self.open.remove(turn);
                let named = (0..).zip(calls).map(|(index, call)| {
                    (CallRef { turn: *turn, request: *request, index }, call.arguments.clone())
                });
                self.asked.extend(named);
            }
            EventBody::CallAdmitted { call, effect, .. } => {
                self.effects.insert(*call, effect.clone());
                // What the person allowed runs before the first request, as it was asked for before.
                let granted = self.granted.take().filter(|_| call.request == 0);
                if let Some(asked) = granted.and_then(|granted| self.asked.get(&granted)).cloned() {
                    self.asked.insert(*call, asked);
                }
            }
            EventBody::InputQueued { input, text, runs, .. } => {
                self.inputs.insert(InputId(event.seq), *input);
                self.granted = runs.as_ref().map(|granted| granted.call);
                if *input == InputKind::User {
                    self.tell(event, What::Prompt { text: text.to_string() });
                }
            }
            EventBody::TurnStarted { turn, agent, trigger, .. } => {
                self.workers.extend(worker(&event.actor).map(|worker| (*turn, worker)));
                self.tell(
                    event,
                    match trigger {
                        TurnTrigger::Goal { continuation, .. } => {
                            What::Continuation { continuation: *continuation, turn: *turn }
                        }
                        TurnTrigger::Input { rows } => {
                            let cause = rows.first().and_then(|row| self.inputs.get(row)).copied();
                            let cause = cause.unwrap_or(InputKind::User);
                            What::Turn { turn: *turn, agent: agent.to_string(), cause }
                        }
                    },
                );
            }
            EventBody::CallFinished { call, tool, outcome, result, .. } => {
                if let Some(what) = self.call(*call, tool, *outcome, result) {
                    self.tell(event, what);
                }
            }
            EventBody::CommandStarted { command } => {
                self.started.insert(command.call);
                self.tell(event, What::Started { command: command.id, title: command.title.to_string() });
            }
            EventBody::TurnLost { turn } => self.lost(event, *turn),
            body => {
                if let Some(what) = of_state(body) {
                    self.tell(event, what);
                }
            }
        }
    }

    fn tell(&mut self, event: &Event, what: What) {
        let by = match &event.actor {
            Actor::User { .. } => "you",
            Actor::Agent { .. } => "agent",
            // The runtime records the results of what the agent does.
            Actor::Runtime { .. } => match &what {
                What::Command { .. } | What::Wrote { .. } | What::Asked { .. } => "agent",
                _ => "zuno",
            },
        };
        self.entries.push(Entry { seq: event.seq, at: event.at, by, what });
    }

    /// Calls that act on the outside world, and those that were not allowed to.
    fn call(&self, call: CallRef, tool: &str, outcome: CallOutcome, result: &str) -> Option<What> {
        let (turn, tool) = (call.turn, tool.to_owned());
        if outcome == CallOutcome::Denied {
            return Some(What::Denied { turn, tool, reason: first_sentence(result) });
        }
        if self.started.contains(&call) || outcome == CallOutcome::Waiting {
            return None;
        }
        match self.effects.get(&call)? {
            Effect::FileWrite { path, .. } if outcome == CallOutcome::Succeeded => {
                Some(What::Wrote { turn, tool, path: path.clone() })
            }
            Effect::Command { .. } => Some(What::Command {
                turn,
                command: self.asked.get(&call).and_then(|arguments| command(arguments)).unwrap_or(tool),
                succeeded: outcome == CallOutcome::Succeeded,
                result: ends(result, outcome == CallOutcome::Succeeded),
            }),
            Effect::FileWrite { .. } | Effect::Read | Effect::WorkState | Effect::Job | Effect::External => {
                None
            }
        }
    }

    /// The kill stands where the log stops: at the request that has no answer.
    fn lost(&mut self, event: &Event, turn: TurnNumber) {
        let (open, first) = (self.open.remove(&turn), self.workers.get(&turn).cloned());
        if self.killed == Some(turn) {
            let (seq, at, request) = match open {
                Some((seq, at, request)) => (seq, at, Some(request)),
                None => (event.seq, event.at, None),
            };
            let what = What::Killed { turn, request, worker: first.clone() };
            self.entries.push(Entry { seq, at, by: "demo", what });
        }
        let worker = worker(&event.actor);
        let by_another = worker.is_some() && worker != first;
        self.tell(event, What::Recovered { turn, worker, by_another });
    }
}

/// Changes of the session's own state.
fn of_state(body: &EventBody) -> Option<What> {
    Some(match body {
        EventBody::SessionOpened { agent, .. } => What::Opened { agent: agent.to_string() },
        EventBody::ModeChanged { mode } => What::Mode { mode: *mode },
        EventBody::PlanRevised { plan, .. } => of_plan(plan),
        EventBody::GoalOpened { objective, status, .. } => {
            What::Goal { status: name(status), text: Some(objective.to_string()) }
        }
        EventBody::GoalMoved { to, summary, .. } => {
            let reason = match to {
                GoalStatus::Paused(reason) => Some(reason.name().to_owned()),
                _ => None,
            };
            What::Goal { status: name(to), text: summary.as_ref().map(ToString::to_string).or(reason) }
        }
        EventBody::RequestOpened { request } => {
            let question = match &request.asked {
                Asked::Input { question, .. } => question.to_string(),
                Asked::Permission { subject, .. } => subject.to_string(),
            };
            What::Asked { request: request.id, turn: request.turn, question }
        }
        EventBody::RequestSettled { request, end } => {
            What::Answered { request: *request, answer: render::settled(end) }
        }
        EventBody::CommandEnded { command, outcome, .. } => {
            What::Over { command: *command, outcome: outcome.name() }
        }
        EventBody::TurnEnded { turn, outcome } if *outcome != TurnOutcome::Completed => {
            What::Ended { turn: *turn, outcome: outcome.name() }
        }
        // The rest is bookkeeping of what is told already.
        _ => return None,
    })
}

fn of_plan(plan: &Plan) -> What {
    let steps = plan.snapshot.steps().iter();
    What::Plan {
        plan_id: plan.id,
        revision: plan.revision,
        completed: plan.completed(),
        total: plan.total(),
        steps: steps.map(|step| StepLine { id: step.id.clone(), status: step.status }).collect(),
    }
}

const fn name(status: &GoalStatus) -> &'static str {
    status.state().name()
}

fn worker(actor: &Actor) -> Option<WorkerName> {
    match actor {
        Actor::Runtime { worker } => Some(worker.clone()),
        Actor::User { .. } | Actor::Agent { .. } => None,
    }
}

/// The command of a shell call.
fn command(arguments: &str) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    Some(arguments.get("command")?.as_str()?.to_owned())
}

/// What an output says in the end; of a failed command also the first line, which says how it ended.
fn ends(result: &str, succeeded: bool) -> String {
    let mut lines = result.lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next_back()) {
        (Some(_), Some(last)) if succeeded => last.to_owned(),
        (Some(first), Some(last)) => format!("{first}, {last}"),
        (Some(first), None) => first.to_owned(),
        (None, _) => String::new(),
    }
}

/// The first sentence of a refusal, without its code.
fn first_sentence(text: &str) -> String {
    let text = text.split_once(": ").map_or(text, |(_, rest)| rest);
    text.split(". ").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, worker: &str, body: EventBody) -> Event {
        let actor = Actor::Runtime { worker: worker.parse().unwrap() };
        Event { seq: Seq(seq), at: Timestamp(seq.cast_signed()), actor, body, command_key: None }
    }

    fn lost_while_asking() -> Vec<Event> {
        let (turn, agent, model) = (TurnNumber(1), "build".parse().unwrap(), "m".parse().unwrap());
        let (trigger, max_requests) = (TurnTrigger::Input { rows: Vec::new() }, domain::REQUESTS_PER_TURN);
        let lane = domain::LaneId::main();
        let (goal, wait_over) = (None, None);
        let started = EventBody::TurnStarted {
            turn,
            lane,
            agent,
            model,
            trigger,
            goal,
            max_requests,
            wait_over,
            confinement: None,
        };
        let asked =
            EventBody::ModelRequested { turn, request: 1, attempt: 1, estimated_input: 10, charged_to: None };
        vec![event(1, "w-1", started), event(2, "w-1", asked), event(3, "w-2", EventBody::TurnLost { turn })]
    }

    #[test]
    fn a_kill_stands_where_the_log_stops_and_only_if_there_was_one() {
        let told = |killed| -> Vec<_> {
            let entries = timeline(&lost_while_asking(), killed);
            entries.into_iter().skip(1).map(|entry| (entry.seq.0, entry.by, entry.what)).collect()
        };
        let (turn, worker) = (TurnNumber(1), "w-1".parse().ok());
        let recovered = (3, "zuno", What::Recovered { turn, worker: "w-2".parse().ok(), by_another: true });
        assert_eq!(told(None), std::slice::from_ref(&recovered));
        assert_eq!(told(Some(TurnNumber(2))), std::slice::from_ref(&recovered));
        assert_eq!(
            told(Some(turn)),
            [(2, "demo", What::Killed { turn, request: Some(1), worker }), recovered]
        );
    }

    #[test]
    fn an_output_is_told_by_its_ends() {
        assert_eq!(ends("exit code 1\nok   a\n1 of 3 passed\n", false), "exit code 1, 1 of 3 passed");
        assert_eq!(ends("exit code 0\nok   a\n3 of 3 passed", true), "3 of 3 passed");
        assert_eq!(ends("exit code 0", true), "exit code 0");
        assert_eq!(ends("", true), "");
        assert_eq!(
            first_sentence("denied: `shell` needs x, which is not so. Go on."),
            "`shell` needs x, which is not so"
        );
    }
}
