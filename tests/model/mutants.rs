//! The list of deliberate bugs: what is built wrong, and the part of the state space in which it shows.

use domain::FailureKind;

use crate::act::UserAct::{
    self, Accept, Allow, AnswerAgain, AnswerInWords, Cancel, Complete, EnterPlan, Interrupt, Pause, Raise,
    ReplaceGoal, Resume, SetGoal, StartWork, Steer, Submit, UpdatePlan,
};
use crate::bug::Bug;
use crate::slice::{Keep, Slice, budgets, raised};
use crate::world::Say;

/// A bug with what is built wrong.
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) what: &'static str,
    pub(crate) slice: Slice,
}

/// All of them.
pub(crate) fn mutants() -> Vec<Mutant> {
    [of_leases(), of_calls(), of_causes(), of_pauses(), of_budgets(), of_ends(), of_rows(), of_wake_ups()]
        .into_iter()
        .flatten()
        .collect()
}

fn mutant(bug: Bug, what: &'static str, slice: Slice) -> Mutant {
    let name = match bug {
        Bug::KeepsWakeUp(kind) => format!("keeps_wake_up_at_{kind}"),
        other => snake(&format!("{other:?}")),
    };
    Mutant { name, what, slice: Slice { bug: Some(bug), ..slice } }
}

/// `NoFence` as `no_fence`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// A session with a Goal.
fn goal(user: &[UserAct], says: &[Say]) -> Slice {
    let keep = Keep { returns: true, ..Keep::default() };
    Slice { user: user.to_vec(), says: says.to_vec(), has_goal: true, keep, ..Slice::default() }
}

/// A session without one.
fn bare(user: &[UserAct], says: &[Say]) -> Slice {
    Slice { has_goal: false, ..goal(user, says) }
}

/// Where processes die and others see it.
fn deadly(slice: Slice) -> Slice {
    Slice { crashes: vec![true], ..slice }
}

/// Where two workers meet, and time passes.
fn timed(slice: Slice) -> Slice {
    Slice { workers: 2, time: true, ..slice }
}

fn of_leases() -> Vec<Mutant> {
    let text = || goal(&[], &[Say::Text]);
    vec![
        mutant(Bug::NoLeaseAtBoundary, "requests and calls begin without a look at the lease", timed(text())),
        mutant(
            Bug::AdmitsPastExpiry,
            "an expired lease is enough to start a turn beside the one that runs",
            timed(text()),
        ),
        mutant(
            Bug::NoRunningTurnCheck,
            "a turn is admitted without a look at the one that runs",
            timed(text()),
        ),
        mutant(Bug::RecoversTheLiving, "a turn is declared lost before its lease ended", timed(text())),
        mutant(Bug::ProcessRenews, "the process keeps the lease instead of the turn's task", text()),
        mutant(Bug::KeepsLease, "the lease outlives its turn", text()),
        mutant(Bug::NoFence, "writes are not bound to their turn", timed(text())),
        mutant(
            Bug::FenceByOwner,
            "writes are bound to the lease's owner alone, and an interrupt ends the turn at once",
            Slice { workers: 2, is_one_process: true, ..goal(&[Submit, Interrupt], &[Say::Text]) },
        ),
        mutant(
            Bug::NumbersAtTheEnd,
            "a continuation takes its number when it ends",
            deadly(goal(&[], &[Say::Text])),
        ),
    ]
}

fn of_calls() -> Vec<Mutant> {
    vec![
        mutant(
            Bug::ReplaysUncertain,
            "recovery does again what it cannot settle",
            deadly(goal(&[], &[Say::External])),
        ),
        mutant(
            Bug::BuriesTheSilent,
            "recovery takes an owner whose lease ended for a dead one, and believes that its write does not happen",
            timed(goal(&[], &[Say::Text, Say::Write])),
        ),
        mutant(
            Bug::ForgetsUncertain,
            "a call that may have happened is forgotten while no Goal is active",
            deadly(bare(&[Submit, SetGoal], &[Say::External])),
        ),
        mutant(
            Bug::AllowedRunsTwice,
            "a row keeps the call that it allows",
            deadly(goal(&[Allow], &[Say::Guarded])),
        ),
        mutant(
            Bug::ChargesAgain,
            "a response that is recorded again is charged again",
            Slice { answers_twice: true, ..goal(&[], &[Say::Text]) },
        ),
        mutant(
            Bug::ModeReadAtTurnStart,
            "calls are admitted by the mode that the turn started in",
            goal(&[EnterPlan], &[Say::Write]),
        ),
        mutant(
            Bug::IgnoresGoalAtBoundary,
            "the Goal is not looked at before requests and calls",
            goal(&[Cancel], &[Say::Write]),
        ),
        mutant(
            Bug::StaleTurnCompletes,
            "a turn completes whatever Goal there is",
            goal(&[ReplaceGoal], &[Say::Done]),
        ),
    ]
}

fn of_causes() -> Vec<Mutant> {
    vec![
        mutant(
            Bug::AdmitsWhatItSaw,
            "a turn is admitted on what was due a transaction before",
            goal(&[Pause], &[Say::Text]),
        ),
        mutant(Bug::StartsDuringWait, "a Goal that waits is continued", goal(&[], &[Say::WaitTime])),
        mutant(
            Bug::KeepsConsumedWait,
            "a continuation leaves the wait that it consumes",
            Slice { time: true, max_requests: 1, ..goal(&[], &[Say::WaitTime]) },
        ),
        mutant(Bug::GoalBeforeRows, "the Goal goes on before queued rows", goal(&[Submit], &[Say::Text])),
        mutant(
            Bug::ReportsStartTurns,
            "a report starts a turn although no Goal is active",
            bare(&[Submit], &[Say::Background, Say::Text]),
        ),
        mutant(
            Bug::LateAnswersStartTurns,
            "an answer starts a turn although its Goal is paused",
            goal(&[AnswerInWords, Pause], &[Say::Ask]),
        ),
        mutant(
            Bug::PlanStartsTurns,
            "a scheduler goes on while the plan is unfinished",
            bare(&[Submit], &[Say::Plan, Say::Text]),
        ),
        mutant(
            Bug::PlanKeepsGoal,
            "a Goal is not completed while its plan is unfinished",
            Slice { compares_plans: true, ..goal(&[UpdatePlan, Complete], &[Say::Text]) },
        ),
        mutant(
            Bug::InterruptsInTheClient,
            "an interrupt stops only the client that shows the turn",
            goal(&[Interrupt], &[Say::Text]),
        ),
        mutant(
            Bug::InterruptNeedsATurn,
            "an interrupt between turns does nothing",
            goal(&[Interrupt], &[Say::Text]),
        ),
    ]
}

fn of_pauses() -> Vec<Mutant> {
    let asked = || goal(&[AnswerInWords, AnswerAgain, Cancel], &[Say::Ask]);
    vec![
        mutant(
            Bug::WeakerPauseOverwrites,
            "a question's pause replaces the user's",
            goal(&[Pause, Submit], &[Say::Ask]),
        ),
        mutant(
            Bug::EnterPlanOverwrites,
            "entering Plan mode replaces a pause",
            goal(&[Pause, EnterPlan], &[Say::Text]),
        ),
        mutant(
            Bug::StartWorkLiftsAny,
            "Start Work lifts any pause",
            goal(&[Pause, EnterPlan, StartWork], &[Say::Text]),
        ),
        mutant(
            Bug::PlanModeKeepsGoal,
            "entering Plan mode leaves the Goal active",
            goal(&[EnterPlan], &[Say::Text]),
        ),
        mutant(Bug::AnswerAfterTheEnd, "an answer resumes a Goal that was cancelled", asked()),
        mutant(Bug::SecondAnswerActs, "a second answer to a request acts", asked()),
    ]
}

fn of_budgets() -> Vec<Mutant> {
    let of_two = || Slice {
        budgets: budgets(2, 100, 1_000_000),
        keep: Keep { tokens: true, ..Keep::default() },
        ..goal(&[Pause, Resume], &[Say::Text])
    };
    vec![
        mutant(Bug::ResumeResetsBudget, "resuming starts the budget anew", of_two()),
        mutant(Bug::ResumeIgnoresBudget, "resuming does not look at the budget", of_two()),
        mutant(Bug::ChargeIgnoresBudget, "a charge that crosses the budget has no consequence", of_two()),
        mutant(
            Bug::ForgetsStreaks,
            "a worker that dies takes the streaks with it",
            Slice { keep: Keep { streaks: true, ..Keep::default() }, ..deadly(goal(&[], &[Say::Text])) },
        ),
    ]
}

fn of_ends() -> Vec<Mutant> {
    let ended = |say| goal(&[Cancel], &[say, Say::Text]);
    vec![
        mutant(
            Bug::EndKeepsRetry,
            "a Goal that ends keeps its retry",
            Slice { fails: vec![FailureKind::RateLimited], ..ended(Say::Text) },
        ),
        mutant(Bug::EndKeepsWait, "a Goal that ends keeps its wait", ended(Say::WaitTime)),
        mutant(Bug::EndKeepsCommands, "a Goal that ends leaves its commands alone", ended(Say::Background)),
        mutant(Bug::EndKeepsRows, "a Goal that ends leaves its rows", ended(Say::Background)),
        mutant(
            Bug::CompletesOverOpenWork,
            "a Goal is completed while a command works for it",
            goal(&[Complete], &[Say::Background]),
        ),
        mutant(Bug::EndKeepsQuestions, "a Goal that ends leaves its questions open", ended(Say::Ask)),
    ]
}

fn of_rows() -> Vec<Mutant> {
    let text = || bare(&[Submit], &[Say::Text]);
    vec![
        mutant(
            Bug::LeavesSteers,
            "a word to a turn that is over stays one and starts nothing",
            bare(&[Submit, Steer], &[Say::Text]),
        ),
        mutant(
            Bug::HeadDecides,
            "only the first row of the queue is looked at",
            bare(&[Submit], &[Say::Background, Say::Text]),
        ),
        mutant(
            Bug::GivesBackAfterFailure,
            "a failed turn gives its rows back",
            Slice { fails_at_once: true, ..text() },
        ),
        mutant(Bug::GivesBackForEver, "a row is given back without end", deadly(text())),
        mutant(Bug::LosesRows, "a lost turn keeps the rows that it had taken", deadly(text())),
        mutant(
            Bug::HoldsForEver,
            "rows that an interrupt holds are never released",
            bare(&[Submit, Interrupt], &[Say::Text]),
        ),
    ]
}

fn of_wake_ups() -> Vec<Mutant> {
    const WHAT: &str = "the wake-up is not derived anew at this kind of transition";
    let set_and = |act| bare(&[SetGoal, act], &[Say::Text]);
    let commands = || {
        let slice = Slice { renews: true, crashes: vec![false], ..goal(&[], &[Say::Background, Say::Text]) };
        Slice { workers: 1, ..timed(slice) }
    };
    let spent = Slice {
        budgets: budgets(1, 100, 1_000_000),
        raised: raised(10, 0, 0),
        keep: Keep { tokens: true, ..Keep::default() },
        ..goal(&[Raise], &[Say::Text])
    };
    let kinds: Vec<(&'static str, Slice)> = vec![
        ("input", set_and(Submit)),
        ("goal_set", set_and(Submit)),
        ("goal_pause", set_and(Pause)),
        ("goal_resume", goal(&[Pause, Resume], &[Say::Text])),
        ("goal_cancel", set_and(Cancel)),
        ("goal_complete", set_and(Complete)),
        ("goal_accept", bare(&[Submit, Accept], &[Say::Propose])),
        ("goal_budget", spent),
        ("interrupt", set_and(Interrupt)),
        ("enter_plan", set_and(EnterPlan)),
        ("start_work", goal(&[EnterPlan, StartWork], &[Say::Text])),
        ("answer", goal(&[AnswerInWords], &[Say::Ask])),
        ("person_asked", goal(&[], &[Say::Ask])),
        ("turn_admitted", set_and(Submit)),
        ("turn_ended", set_and(Submit)),
        ("turn_recovered", deadly(set_and(Submit))),
        ("lease_renewed", Slice { renews: true, time: true, ..goal(&[], &[Say::Text]) }),
        ("command_ended", commands()),
        ("command_renewed", commands()),
        ("command_recovered", commands()),
        ("file_looked_at", Slice { time: true, max_requests: 1, ..goal(&[], &[Say::WaitFile]) }),
    ];
    let each = kinds.into_iter().map(|(kind, slice)| mutant(Bug::KeepsWakeUp(kind), WHAT, slice));
    let none = mutant(Bug::NoWakeUpWhileRunning, "nothing wakes a session whose turn runs", set_and(Submit));
    each.chain([none]).collect()
}
