//! Who may use which verb: what an agent's command starts may look, and not act as the user (C8).
//!
//! Commands of agents carry `ZUNO_ACTOR=agent`. That is a convention, and a command can drop the variable; the wall is
//! the sandbox, in which there is no store to act on. The convention has the better words: who meets it reads why.

use crate::args::Verb;
use crate::exit::CliError;
use crate::verbs::commands::CommandsVerb;
use crate::verbs::goal::GoalVerb;
use crate::verbs::jobs::JobsVerb;
use crate::verbs::mode::ModeVerb;
use crate::verbs::plan::PlanVerb;
use crate::verbs::requests::RequestsVerb;
use crate::verbs::session::SessionVerb;

/// The variable that says who started the program.
pub(crate) const ACTOR: &str = "ZUNO_ACTOR";

/// What a verb is to whoever uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It shows something and changes nothing of the user's.
    Look,
    /// It acts as the user.
    Act,
}

/// The one place that says which verb is which. A verb without a line does not compile.
const fn use_of(verb: &Verb) -> Use {
    match verb {
        Verb::Run(_)
        | Verb::Session(SessionVerb::New(_))
        | Verb::Plan(PlanVerb::Update(_) | PlanVerb::Close(_))
        | Verb::Mode(ModeVerb::Plan(_) | ModeVerb::Work(_))
        | Verb::Goal(
            GoalVerb::Set(_)
            | GoalVerb::Accept(_)
            | GoalVerb::Decline(_)
            | GoalVerb::Edit(_)
            | GoalVerb::Budget(_)
            | GoalVerb::Pause(_)
            | GoalVerb::Resume(_)
            | GoalVerb::Cancel(_)
            | GoalVerb::Complete(_)
            | GoalVerb::Run(_),
        )
        | Verb::Requests(RequestsVerb::Answer(_) | RequestsVerb::Allow(_) | RequestsVerb::Deny(_))
        | Verb::Commands(CommandsVerb::Stop(_))
        | Verb::Jobs(JobsVerb::Cancel(_))
        | Verb::Interrupt(_) => Use::Act,
        Verb::Trust(args) => if args.only_shows() { Use::Look } else { Use::Act },
        Verb::Session(SessionVerb::List(_) | SessionVerb::Show(_))
        | Verb::Plan(PlanVerb::Show(_) | PlanVerb::History(_) | PlanVerb::Diff(_))
        | Verb::Mode(ModeVerb::Show(_))
        | Verb::Goal(GoalVerb::Show(_))
        | Verb::Requests(RequestsVerb::List(_))
        | Verb::Commands(CommandsVerb::List(_) | CommandsVerb::Show(_))
        | Verb::Jobs(JobsVerb::List(_) | JobsVerb::Show(_))
        | Verb::Events(_)
        | Verb::Doctor(_)
        | Verb::Completions(_)
        // It acts, in a store and a workspace of its own that it makes and removes.
        | Verb::Demo(_) => Use::Look,
    }
}

/// Refuses what acts as the user where the environment says that somebody else started it.
pub(crate) fn check(verb: &Verb, actor: Option<&str>) -> Result<(), CliError> {
    match (use_of(verb), actor) {
        (Use::Look, _) | (Use::Act, None | Some("" | "user")) => Ok(()),
        // A value that nobody here writes is no user either.
        (Use::Act, Some(actor)) => Err(CliError::NotTheUser { actor: actor.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::args::Cli;

    /// A command line for each verb that does not stand by itself.
    const LINES: [&str; 14] = [
        "run hello",
        "plan close --reason over",
        "goal set x",
        "goal edit --objective x",
        "goal budget --turns 9",
        "requests answer 1 yes",
        "requests allow 1",
        "requests deny 1",
        "commands stop 1",
        "commands show 1",
        "jobs show 1",
        "jobs cancel 1",
        "completions bash",
        "session new",
    ];

    /// Every verb that clap knows, with its use.
    fn uses() -> BTreeMap<String, Use> {
        let mut leaves = Vec::new();
        leaves_of(&Cli::command(), "", &mut leaves);
        let use_of_leaf = |leaf: String| {
            let line = LINES.into_iter().find(|line| format!("{line} ").starts_with(&format!("{leaf} ")));
            let line = line.unwrap_or(&leaf);
            let cli = Cli::try_parse_from(std::iter::once("zuno").chain(line.split(' ')))
                .unwrap_or_else(|error| panic!("give `{leaf}` a line in LINES: {error}"));
            let found = use_of(&cli.verb);
            (leaf, found)
        };
        leaves.into_iter().map(use_of_leaf).collect()
    }

    fn leaves_of(command: &clap::Command, path: &str, leaves: &mut Vec<String>) {
        for verb in command.get_subcommands() {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            if verb.has_subcommands() { leaves_of(verb, &path, leaves) } else { leaves.push(path) }
        }
    }

    #[test]
    fn c8_of_all_verbs_these_act_as_the_user() {
        let uses = uses();
        let of = |wanted| {
            let verbs = uses.iter().filter(|(_, found)| **found == wanted).map(|(verb, _)| verb.as_str());
            verbs.collect::<Vec<_>>().join(", ")
        };
        insta::assert_snapshot!(of(Use::Act), @"commands stop, goal accept, goal budget, goal cancel, goal complete, goal decline, goal edit, goal pause, goal resume, goal run, goal set, interrupt, jobs cancel, mode plan, mode work, plan close, plan update, requests allow, requests answer, requests deny, run, session new, trust");
        insta::assert_snapshot!(of(Use::Look), @"commands list, commands show, completions, demo, doctor, events, goal show, jobs list, jobs show, mode show, plan diff, plan history, plan show, requests list, session list, session show");
    }

    #[test]
    fn c8_only_the_user_acts_as_the_user() {
        let act = Cli::try_parse_from(["zuno", "mode", "work"]).unwrap().verb;
        let look = Cli::try_parse_from(["zuno", "mode", "show"]).unwrap().verb;
        for actor in [None, Some(""), Some("user")] {
            assert!(check(&act, actor).is_ok(), "{actor:?}");
        }
        for actor in ["agent", "AGENT", "agent ", "someone"] {
            assert!(matches!(check(&act, Some(actor)), Err(CliError::NotTheUser { .. })), "{actor}");
            assert!(check(&look, Some(actor)).is_ok(), "{actor}");
        }
    }
}
