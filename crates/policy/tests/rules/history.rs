//! Random histories: what a person, models and workers may do in any order, with time passing in between.

use domain::{CallOutcome, FailureKind};
use proptest::prelude::*;

/// One thing that happens. What it refers to, such as the running turn, is found when it is played.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Time passes; a negative one sets the clock back.
    Pass(i64),
    Submit {
        steers: bool,
        resumes: bool,
    },
    EnterPlan,
    StartWork {
        with_prompt: bool,
    },
    SelectAgent(&'static str),
    SetGoal {
        tokens: u64,
        turns: u32,
        active_ms: u64,
        replace: bool,
    },
    Goal(GoalAct),
    /// Answers the request this far back from the last one.
    Answer {
        back: u32,
        with: Reply,
    },
    Interrupt,
    CancelJob {
        back: u32,
    },
    Plan(PlanAct),
    /// Whatever brings the session on: admits, asks, answers, deals with a call, ends.
    Step(Step),
    Renew {
        owner: u32,
    },
    Recover {
        by_dead_owner: bool,
        file_is_written: bool,
    },
    /// Something about the background command this far back from the last one.
    Command {
        back: u32,
        act: CommandAct,
    },
    /// A look at the file that is waited for.
    Look {
        is_changed: bool,
    },
    /// A command that names an older turn.
    Late {
        back: u64,
        write: usize,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum GoalAct {
    Accept,
    Decline,
    Edit(usize),
    Budget { tokens: u64 },
    Pause,
    Resume,
    Cancel,
    Complete { force: bool },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Text,
    Allow,
    Deny,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum CommandAct {
    Renew { owner: u32 },
    End(CallOutcome),
    Recover { by_dead_owner: bool },
    Stop,
}

/// What a step uses when it comes to it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Which of the lanes, the main lane first.
    pub(crate) lane: usize,
    pub(crate) owner: u32,
    pub(crate) calls: usize,
    /// Whether the response asks for the same calls as others that poll.
    pub(crate) polls: bool,
    pub(crate) tokens: u64,
    pub(crate) deal: Deal,
    pub(crate) fails: Option<FailureKind>,
}

impl Step {
    /// The same step with another plan, if a plan is what it deals with.
    fn with_plan(&self, plan: PlanAct) -> Self {
        let deal = match &self.deal {
            Deal::Plan(_) => Deal::Plan(plan),
            other => other.clone(),
        };
        Self { deal, ..self.clone() }
    }
}

/// What is done with the first call without a result.
#[derive(Debug, Clone)]
pub(crate) enum Deal {
    /// Admitted and finished; one that ran says which call it was and how it ended.
    Run {
        kind: Kind,
        outcome: CallOutcome,
        ran: Option<u8>,
    },
    Leave(Kind),
    Refuse,
    Plan(PlanAct),
    CompleteGoal,
    StageBlock,
    Propose(usize),
    Wait {
        kind: WaitKind,
        ahead_ms: i64,
    },
    Ask {
        leave: bool,
    },
    Background(Kind),
    Delegate {
        is_background: bool,
    },
    StopCommand {
        back: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Read,
    Write,
    Command,
    External,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitKind {
    Time,
    Command { back: u32 },
    File,
    Inbox,
}

/// A plan command, with more or less luck about the revision and the ids.
#[derive(Debug, Clone)]
pub(crate) enum PlanAct {
    Update { snapshot: domain::Snapshot, guess: Guess, keeps: bool, linked: bool },
    Close { guess: Guess },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Guess {
    None,
    Current,
    Wrong,
}

fn kinds() -> impl Strategy<Value = Kind> {
    proptest::sample::select(vec![Kind::Read, Kind::Write, Kind::Command, Kind::External])
}

pub(crate) fn plan_acts() -> impl Strategy<Value = PlanAct> {
    let guess = || prop_oneof![6 => Just(Guess::Current), 2 => Just(Guess::None), 1 => Just(Guess::Wrong)];
    prop_oneof![
        6 => (testkit::snapshots(), guess(), any::<bool>(), any::<bool>()).prop_map(
            |(snapshot, guess, keeps, linked)| PlanAct::Update { snapshot, guess, keeps, linked }
        ),
        1 => guess().prop_map(|guess| PlanAct::Close { guess }),
    ]
}

fn deals() -> impl Strategy<Value = Deal> {
    let outcome = prop_oneof![
        6 => Just(CallOutcome::Succeeded),
        2 => Just(CallOutcome::Failed),
        1 => Just(CallOutcome::Stopped),
        1 => Just(CallOutcome::Uncertain),
    ];
    let waits = prop_oneof![
        Just(WaitKind::Time),
        (0..2_u32).prop_map(|back| WaitKind::Command { back }),
        Just(WaitKind::File),
        Just(WaitKind::Inbox),
    ];
    let ahead = prop_oneof![2 => Just(1), 4 => Just(6_000), 4 => Just(3_600_000), 1 => Just(0)];
    let run = (kinds(), outcome, proptest::option::of(0..30_u8));
    prop_oneof![
        6 => run.prop_map(|(kind, outcome, ran)| Deal::Run { kind, outcome, ran }),
        2 => kinds().prop_map(Deal::Leave),
        4 => Just(Deal::Refuse),
        4 => plan_acts().prop_map(Deal::Plan),
        1 => Just(Deal::CompleteGoal),
        2 => Just(Deal::StageBlock),
        2 => (0..3_usize).prop_map(Deal::Propose),
        6 => (waits, ahead).prop_map(|(kind, ahead_ms)| Deal::Wait { kind, ahead_ms }),
        4 => any::<bool>().prop_map(|leave| Deal::Ask { leave }),
        6 => kinds().prop_map(Deal::Background),
        6 => any::<bool>().prop_map(|is_background| Deal::Delegate { is_background }),
        1 => (0..2_u32).prop_map(|back| Deal::StopCommand { back }),
    ]
}

fn step_values() -> impl Strategy<Value = Step> {
    let fails = proptest::option::weighted(0.09, proptest::sample::select(FailureKind::ALL.to_vec()));
    let polls = prop::bool::weighted(0.2);
    let calls = prop_oneof![2 => Just(0_usize), 3 => Just(1), 2 => Just(2), 1 => Just(3)];
    let owner = prop_oneof![6 => Just(1_u32), 1 => Just(2)];
    (0..3_usize, owner, calls, polls, 0..400_u64, deals(), fails).prop_map(
        |(lane, owner, calls, polls, tokens, deal, fails)| Step {
            lane,
            owner,
            calls,
            polls,
            tokens,
            deal,
            fails,
        },
    )
}

fn goal_acts() -> impl Strategy<Value = GoalAct> {
    prop_oneof![
        3 => Just(GoalAct::Accept),
        3 => Just(GoalAct::Decline),
        1 => (0..3_usize).prop_map(GoalAct::Edit),
        2 => (1..3_000_u64).prop_map(|tokens| GoalAct::Budget { tokens }),
        1 => Just(GoalAct::Pause),
        6 => Just(GoalAct::Resume),
        1 => Just(GoalAct::Cancel),
        1 => any::<bool>().prop_map(|force| GoalAct::Complete { force }),
    ]
}

fn command_acts() -> impl Strategy<Value = CommandAct> {
    prop_oneof![
        2 => (1..3_u32).prop_map(|owner| CommandAct::Renew { owner }),
        4 => prop_oneof![3 => Just(CallOutcome::Succeeded), 1 => Just(CallOutcome::Uncertain)]
            .prop_map(CommandAct::End),
        1 => any::<bool>().prop_map(|by_dead_owner| CommandAct::Recover { by_dead_owner }),
        1 => Just(CommandAct::Stop),
    ]
}

pub(crate) fn acts() -> impl Strategy<Value = Act> {
    let reply = prop_oneof![Just(Reply::Text), Just(Reply::Allow), Just(Reply::Deny)];
    prop_oneof![
        // Most of the time work goes on: what matters lies several steps deep.
        120 => step_values().prop_map(Act::Step),
        8 => prop_oneof![Just(1), Just(2_000), Just(15_000), Just(400_000), Just(-3_000)].prop_map(Act::Pass),
        8 => any::<(bool, bool)>().prop_map(|(steers, resumes)| Act::Submit { steers, resumes }),
        1 => Just(Act::EnterPlan),
        4 => any::<bool>().prop_map(|with_prompt| Act::StartWork { with_prompt }),
        1 => prop_oneof![Just("build"), Just("deep")].prop_map(Act::SelectAgent),
        6 => (prop_oneof![1..3_000_u64, Just(90_000)], prop_oneof![1..12_u32, Just(200)], prop_oneof![Just(3_000_000), 1..40_000_u64], any::<bool>()).prop_map(
            |(tokens, turns, active_ms, replace)| Act::SetGoal { tokens, turns, active_ms, replace }
        ),
        12 => goal_acts().prop_map(Act::Goal),
        10 => (0..2_u32, reply).prop_map(|(back, with)| Act::Answer { back, with }),
        1 => Just(Act::Interrupt),
        1 => (0..2_u32).prop_map(|back| Act::CancelJob { back }),
        6 => plan_acts().prop_map(Act::Plan),
        2 => (1..3_u32).prop_map(|owner| Act::Renew { owner }),
        4 => any::<(bool, bool)>().prop_map(|(by_dead_owner, file_is_written)| Act::Recover {
            by_dead_owner,
            file_is_written
        }),
        10 => (0..2_u32, command_acts()).prop_map(|(back, act)| Act::Command { back, act }),
        2 => any::<bool>().prop_map(|is_changed| Act::Look { is_changed }),
        2 => (0..4_u64, 0..20_usize).prop_map(|(back, write)| Act::Late { back, write }),
    ]
}

pub(crate) fn histories() -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(acts(), 1..140)
}

/// Two histories that differ in their plan commands alone, by the person and by models.
///
/// Start Work comes without an expected revision: with one it is a question about the plan, asked by the person (M4).
/// The clock is not set back, since the log of one history may then stand later than that of the other; and no call
/// is repeated, since one that is refused again and again ends its turn whatever it is about (T12).
pub(crate) fn twins() -> impl Strategy<Value = Vec<(Act, Act)>> {
    let other_plan = |act: Act| match act {
        Act::Plan(_) => (plan_acts(), prop::option::of(plan_acts()))
            .prop_map(|(one, other)| (Act::Plan(one), other.map_or(Act::Pass(0), Act::Plan)))
            .boxed(),
        Act::Step(step) => plan_acts()
            .prop_map(move |plan| {
                let step = Step { polls: false, ..step.clone() };
                (Act::Step(step.clone()), Act::Step(step.with_plan(plan)))
            })
            .boxed(),
        // A write of the running turn might be a plan command.
        Act::Late { back, write } => {
            let act = Act::Late { back: back + 1, write };
            Just((act.clone(), act)).boxed()
        }
        Act::Pass(ms) => Just((Act::Pass(ms.abs()), Act::Pass(ms.abs()))).boxed(),
        other => Just((other.clone(), other)).boxed(),
    };
    proptest::collection::vec(acts().prop_flat_map(other_plan), 1..120)
}
