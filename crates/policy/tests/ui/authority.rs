//! What only a person may do needs a person's authority (M1, G3).

use domain::WorkerName;
use policy::{AgentCommand, Command, RuntimeCommand, UserCommand};

fn as_the_runtime(worker: &WorkerName) -> Command<'_> {
    Command::Runtime(worker, &UserCommand::EnterPlan)
}

fn as_an_agent() -> Command<'static> {
    Command::Agent(&UserCommand::EnterPlan)
}

fn without_a_person(worker: &WorkerName) -> Command<'_> {
    Command::User(worker, &UserCommand::EnterPlan)
}

fn main() {
    let _ = RuntimeCommand::EnterPlan;
    let _ = AgentCommand::EnterPlan;
    let _ = AgentCommand::StartWork;
    let _ = AgentCommand::AcceptGoal;
    let _ = AgentCommand::PauseGoal;
    let _ = AgentCommand::ResumeGoal;
    let _ = AgentCommand::CancelGoal;
    let _ = AgentCommand::SetBudgets;
    let _ = AgentCommand::AnswerRequest;
}
