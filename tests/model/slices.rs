//! The slices that are explored. Together they hold every act of the model.

use domain::FailureKind;

use crate::act::UserAct::{
    self, Accept, Allow, AnswerAgain, AnswerInWords, Cancel, ClosePlan, Complete, Decline, Deny, EditGoal,
    EnterPlan, ForceComplete, Interrupt, Lower, Pause, Raise, ReplaceGoal, Resume, SetGoal, StartWork,
    StartWorkWithPrompt, Steer, StopCommand, Submit, SubmitAndResume, UpdatePlan,
};
use crate::slice::{Keep, Slice, budgets, raised};
use crate::world::Say;

/// How far the slices reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// For the small tests and the plain proof.
    Near,
    /// For the long proof.
    Far,
}

/// The slices, the largest last.
pub(crate) fn slices(reach: Reach) -> Vec<Slice> {
    let all = vec![
        ownership(),
        proposals(),
        goals(),
        breakers(),
        modes(),
        steering(),
        active_time(),
        plans(),
        failures(),
        questions(),
        permissions(),
        budget(),
        waits(),
        background(),
        everything(),
    ];
    match reach {
        Reach::Near => all,
        Reach::Far => all.into_iter().map(farther).collect(),
    }
}

/// Another worker where workers meet, another row, and another act where acts are counted.
fn farther(slice: Slice) -> Slice {
    Slice {
        workers: if slice.workers > 1 { 3 } else { 2 },
        rows: slice.rows + 1,
        acts: slice.acts.map(|acts| acts + 1),
        ..slice
    }
}

/// What the user does with a Goal and a session whatever else is in play.
const ALWAYS: [UserAct; 5] = [Submit, SetGoal, Pause, Resume, Cancel];

fn user(more: &[UserAct]) -> Vec<UserAct> {
    ALWAYS.iter().chain(more).copied().collect()
}

fn ownership() -> Slice {
    Slice {
        name: "ownership",
        about: "workers that race, sleep past their lease, lose a task, die seen and unseen, and recover each other's turns",
        workers: 2,
        user: vec![Submit, Interrupt],
        says: vec![Say::Text, Say::Read, Say::Write, Say::Shell, Say::External],
        crashes: vec![false, true],
        loses_tasks: true,
        renews: true,
        time: true,
        blind_recovery: true,
        keep: Keep { returns: true, ..Keep::default() },
        ..Slice::default()
    }
}

fn goals() -> Slice {
    Slice {
        name: "goals",
        about: "a Goal that is set, replaced, edited, paused, resumed, completed by user or agent, cancelled, interrupted",
        user: user(&[ReplaceGoal, EditGoal, Complete, Interrupt]),
        says: vec![Say::Text, Say::Done, Say::Write],
        crashes: vec![true],
        ..Slice::default()
    }
}

fn modes() -> Slice {
    Slice {
        name: "modes",
        about: "Plan mode entered and left, with and without a prompt, in every state of a turn and a Goal",
        user: user(&[Interrupt, EnterPlan, StartWork, StartWorkWithPrompt]),
        says: vec![Say::Text, Say::Write, Say::External],
        crashes: vec![true],
        ..Slice::default()
    }
}

fn questions() -> Slice {
    Slice {
        name: "questions",
        about: "questions to the user, alone and beside another call; answers, late and second answers, resumes without one",
        user: user(&[SubmitAndResume, EnterPlan, StartWork, AnswerInWords, AnswerAgain]),
        says: vec![Say::Text, Say::Ask, Say::AskAndWrite],
        crashes: vec![true],
        max_requests: 1,
        ..Slice::default()
    }
}

fn permissions() -> Slice {
    Slice {
        name: "permissions",
        about: "calls that need leave, allowed, denied three times, and cut off while they run",
        user: vec![Submit, SetGoal, Pause, Resume, Allow, Deny, EnterPlan, StartWork],
        says: vec![Say::Text, Say::Guarded],
        crashes: vec![true],
        max_requests: 1,
        ..Slice::default()
    }
}

fn waits() -> Slice {
    Slice {
        name: "waits",
        about: "waits for a time, a file and an input, through pauses, retries and crashes",
        user: vec![Submit, Pause, Resume, Cancel],
        has_goal: true,
        says: vec![Say::Text, Say::WaitTime, Say::WaitFile, Say::WaitInbox],
        fails: vec![FailureKind::RateLimited],
        crashes: vec![true],
        time: true,
        max_requests: 1,
        ..Slice::default()
    }
}

fn background() -> Slice {
    Slice {
        name: "background",
        about: "background commands, confined and not, that end, are stopped, lost and waited for, and their reports",
        user: vec![Submit, Pause, Resume, ForceComplete, SetGoal, StopCommand, EnterPlan, StartWork],
        has_goal: true,
        says: vec![Say::Text, Say::Background, Say::LooseBackground, Say::WaitCommand, Say::StopBackground],
        crashes: vec![false],
        time: true,
        renews: true,
        max_requests: 1,
        ..Slice::default()
    }
}

fn budget() -> Slice {
    Slice {
        name: "budget",
        about: "budgets of two requests and two turns, raised and lowered, with responses that are recorded again",
        user: vec![Submit, SetGoal, Pause, Resume, Raise, Lower],
        says: vec![Say::Text, Say::Write],
        fails: vec![FailureKind::Refused],
        crashes: vec![true],
        budgets: budgets(2, 2, 1_000_000),
        raised: raised(3, 3, 0),
        keep: Keep { tokens: true, turns: true, ..Keep::default() },
        answers_twice: true,
        ..Slice::default()
    }
}

fn active_time() -> Slice {
    Slice {
        name: "active_time",
        about: "a budget of active time, with workers that sleep past their lease",
        workers: 2,
        user: vec![Submit, SetGoal, Pause, Resume, Raise, Lower],
        says: vec![Say::Text, Say::Write],
        crashes: vec![true],
        time: true,
        renews: true,
        budgets: budgets(1_000_000, 1_000_000, 2),
        raised: raised(0, 0, 3),
        keep: Keep { active_time: true, ..Keep::default() },
        ..Slice::default()
    }
}

fn failures() -> Slice {
    Slice {
        name: "failures",
        about: "requests that fail so that they are tried again, in place and later, pause or block; orderly shutdown",
        workers: 2,
        user: user(&[EditGoal]),
        fails: vec![FailureKind::RateLimited, FailureKind::Authentication, FailureKind::Refused],
        in_place: true,
        fails_at_once: true,
        crashes: vec![true],
        time: true,
        renews: true,
        shuts_down: true,
        max_requests: 1,
        ..Slice::default()
    }
}

fn breakers() -> Slice {
    Slice {
        name: "breakers",
        about: "turns in a row without evidence, with a staged block, or lost",
        user: vec![Submit, Pause, Resume, SetGoal],
        has_goal: true,
        says: vec![Say::Text, Say::Write, Say::Block],
        crashes: vec![true],
        keep: Keep { streaks: true, ..Keep::default() },
        ..Slice::default()
    }
}

fn steering() -> Slice {
    Slice {
        name: "steering",
        about: "prompts and words to the running turn, reports, interrupts, and turns that are lost or fail",
        user: vec![Submit, Steer, Interrupt, Resume, SetGoal, Cancel],
        says: vec![Say::Text, Say::Background],
        fails: vec![FailureKind::Refused],
        fails_at_once: true,
        crashes: vec![true],
        rows: 2,
        keep: Keep { returns: true, ..Keep::default() },
        ..Slice::default()
    }
}

fn plans() -> Slice {
    Slice {
        name: "plans",
        about: "plans written and closed by agent and user; every decision is compared to the one without a plan",
        user: vec![Submit, SetGoal, Complete, Pause, Resume, EnterPlan, StartWork, UpdatePlan, ClosePlan],
        says: vec![Say::Text, Say::Plan, Say::Done],
        crashes: vec![true],
        compares_plans: true,
        ..Slice::default()
    }
}

fn proposals() -> Slice {
    Slice {
        name: "proposals",
        about: "Goals and amendments that an agent proposes, accepted, declined and overtaken",
        user: user(&[ReplaceGoal, Accept, Decline, Complete, EnterPlan, StartWork]),
        says: vec![Say::Text, Say::Propose, Say::Done],
        crashes: vec![true],
        ..Slice::default()
    }
}

fn everything() -> Slice {
    Slice {
        name: "everything",
        about: "every act of user, model, provider, worker and clock beside every other, with a bound on the user's acts",
        user: user(&[
            SubmitAndResume,
            Steer,
            ReplaceGoal,
            EditGoal,
            Complete,
            ForceComplete,
            Accept,
            Decline,
            Interrupt,
            EnterPlan,
            StartWork,
            StartWorkWithPrompt,
            Allow,
            Deny,
            AnswerInWords,
            AnswerAgain,
            StopCommand,
        ]),
        acts: Some(1),
        workers: 2,
        has_goal: true,
        says: vec![
            Say::Text,
            Say::Write,
            Say::External,
            Say::Guarded,
            Say::Done,
            Say::Block,
            Say::AskAndWrite,
            Say::WaitTime,
            Say::WaitCommand,
            Say::WaitFile,
            Say::WaitInbox,
            Say::Background,
            Say::LooseBackground,
            Say::Propose,
        ],
        fails: vec![FailureKind::RateLimited, FailureKind::Authentication],
        fails_at_once: true,
        crashes: vec![true],
        time: true,
        max_requests: 1,
        ..Slice::default()
    }
}
