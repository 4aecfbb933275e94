//! What has to hold in every state, each in a sentence.

use stateright::Property as Condition;

use crate::model::Explored;
use crate::world::World;

macro_rules! properties {
    ($($variant:ident, $name:literal, $rules:literal, $says:literal;)+) => {
        /// A property of every reachable state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Property {
            $(#[doc = $says] $variant),+
        }

        impl Property {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in reports.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// The rules it is about.
            pub(crate) const fn rules(self) -> &'static str {
                match self {
                    $(Self::$variant => $rules),+
                }
            }

            /// What holds.
            pub(crate) const fn says(self) -> &'static str {
                match self {
                    $(Self::$variant => $says),+
                }
            }
        }

        /// The properties as conditions on a state.
        pub(crate) fn conditions() -> Vec<Condition<Explored>> {
            vec![$(Condition::always($name, |_, world| holds(world, Property::$variant))),+]
        }
    };
}

properties! {
    OneTurn, "one_turn", "T4 T5",
        "at most one turn runs in a lane, and at most one worker has reason to believe that it drives one";
    Cause, "cause", "T1 T2 I3 I5",
        "a turn starts for a queued row that may run or for an active Goal that is due, and rows go first";
    Numbers, "numbers", "T4",
        "each continuation number of a Goal starts one turn, in order";
    Fence, "fence", "T5 T6",
        "a turn that is over or taken over writes nothing, and no request or call begins without a lease that holds";
    AfterTheEnd, "after_the_end", "G12 G13 T6",
        "after completed or cancelled nothing of the Goal runs or waits: request, call, row, question, retry, wait, command";
    Binding, "binding", "G2",
        "a turn is bound to the active Goal as it is, and completes or blocks only that";
    Pauses, "pauses", "G8 G9 M4",
        "a weaker pause never replaces a stronger one, and an act of the user lifts only what it is meant for";
    Interrupt, "interrupt", "G11",
        "after an interrupt no turn, request or call begins until the user acts again";
    Mode, "mode", "M1 M2 M3 M5 M6",
        "only the user changes the mode; in Plan mode no Goal is active and nothing outside its list is admitted";
    Budget, "budget", "G4",
        "no request begins and no Goal stays active on a budget that is used up: at most one request too much";
    Breakers, "breakers", "G6 G7",
        "after three turns in a row without evidence, or five that were lost, a Goal does not go on by itself";
    ChargedOnce, "charged_once", "G5",
        "an attempt at a request is charged once";
    EffectOnce, "effect_once", "T7",
        "the effect of an admitted call happens at most once, also if nobody can tell whether it did";
    ToldNotRun, "told_not_run", "T7",
        "a call that is said not to have run did not happen, and nobody alive is about to let it happen";
    AllowedOnce, "allowed_once", "I4",
        "a call that the user allowed is admitted at most once";
    AnsweredOnce, "answered_once", "I4",
        "a second answer to a request does nothing";
    Uncertain, "uncertain", "T7 G8",
        "a call that may have happened pauses the active Goal, or the next one that would become active unasked";
    Rows, "rows", "I2",
        "a row is taken by the running turn alone, becomes history once, and is given back three times at most";
    Plans, "plans", "P19",
        "with another plan the same commands have the same consequences";
    WakeUp, "wake_up", "T3",
        "the stored wake-up is when the session needs attention next, and absent when time alone changes nothing";
    Continued, "continued", "T3 T7 I1",
        "left to its wake-ups, a session ends every turn, runs every row and continues a due Goal";
    Helped, "helped", "G1 I1 I5",
        "in every state the user can get a prompt answered, let an open Goal go on, complete it and cancel it";
}

/// Whether the state is not one in which this property was seen broken.
fn holds(world: &World, property: Property) -> bool {
    world.broken.is_none_or(|broken| broken.property != property)
}
